// The assistant with an API key, in a browser: words while they come, a question, a choice of modes.

import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { test } from "node:test";
import { findings, isWithin, PHONE, picture, serve, visitor } from "./harness.mjs";

/** What stands in for a model: it does what the last line of the question says, once it may. */
function model(t, mayAnswer = Promise.resolve()) {
  const server = http.createServer(async (request, response) => {
    await mayAnswer;
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = JSON.parse(Buffer.concat(parts));
    const texts = body.messages.flatMap((it) => it.content.filter((part) => part.type === "text" && it.role === "user"));
    const said = body.messages.at(-1).content.some((it) => it.type === "tool_result");
    const event = (it) => response.write(`event: ${it.type}\ndata: ${JSON.stringify(it)}\n\n`);
    const block = (index, content_block, delta) => {
      event({ type: "content_block_start", index, content_block });
      event({ type: "content_block_delta", index, delta });
      event({ type: "content_block_stop", index });
    };
    response.writeHead(200, { "content-type": "text/event-stream" });
    event({ type: "message_start", message: { usage: { input_tokens: 5 } } });
    const asks = texts.at(-1).text.startsWith("delete") && !said;
    if (asks) {
      block(0, { type: "text", text: "" }, { type: "text_delta", text: "I delete it." });
      block(1, { type: "tool_use", id: "t1", name: "write_file", input: {} },
        { type: "input_json_delta", partial_json: '{"path":"old.md","content":"x\\n"}' });
      block(2, { type: "tool_use", id: "t2", name: "delete_file", input: {} },
        { type: "input_json_delta", partial_json: '{"path":"old.md"}' });
    } else {
      block(0, { type: "text", text: "" }, { type: "text_delta", text: said ? "**Gone.**" : "Hello **you**" });
    }
    event({ type: "message_delta", delta: { stop_reason: asks ? "tool_use" : "end_turn" }, usage: { output_tokens: 3 } });
    event({ type: "message_stop" });
    response.end();
  });
  t.after(() => server.close());
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server.address().port)));
}

function assistant(site, port) {
  const key = path.join(site.agents, "key");
  fs.writeFileSync(key, "k\n");
  site.lua += `wb.engine "sonnet" {
  type = "anthropic", model = "m-1", base_url = "http://127.0.0.1:${port}", key = wb.secret.file "${key}",
}
wb.engine "claude-chat" {
  type = "process", command = { "/bin/true" }, prompt = "stdin", reads = "claude-stream-json",
}
wb.assistant {
  runtimes = { anthropic_api_key = "sonnet", claude_code = "claude-chat" }, claude_code_persons = { "ada" },
}
`;
}

async function ask(page, words) {
  await page.getByLabel("Message", { exact: true }).fill(words);
  await page.getByRole("button", { name: "Send" }).click();
}

for (const [name, options] of [["desktop", {}], ["phone", { viewport: PHONE, touch: true }]]) {
  test(`a model with a key answers, asks and is chosen: ${name}`, async (t) => {
    const port = await model(t);
    const site = await serve(t, {}, (it) => assistant(it, port));
    const ada = await visitor(t, site, options);
    const page = await ada.openLive("/assistant");
    await page.getByText("Answered by API key").click();
    await page.getByText("you have not signed in to Claude").waitFor();
    assert.deepEqual(await findings(page), []);
    await picture(page, `keyed-modes-${name}`);
    await ask(page, "hello");
    const answer = page.locator(".chat-answer:not(.chat-live)");
    await answer.locator("strong", { hasText: "you" }).waitFor();
    assert.ok(await isWithin(page));
    await page.goto(`${site.origin}/assistant`);
    await ask(page, "delete it");
    const card = page.locator(".chat-ask");
    await card.getByText("Allow the assistant to do this?").waitFor();
    await page.getByText("I delete it.").waitFor();
    assert.deepEqual(await findings(page), []);
    await picture(page, `keyed-asks-${name}`);
    await card.getByRole("button", { name: "Allow once" }).click();
    await page.locator(".chat-answer:not(.chat-live) strong", { hasText: "Gone." }).waitFor();
    await picture(page, `keyed-done-${name}`);
    await page.getByText("I delete it.").waitFor();
    assert.ok(await isWithin(page));
    // The other mode says what it needs.
    await page.goto(`${site.origin}/assistant`);
    await page.getByText("Answered by API key").click();
    await page.getByRole("radio", { name: /Claude Code/ }).check();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("claude setup-token").first().waitFor();
    assert.deepEqual(await findings(page), []);
    await picture(page, `keyed-sign-in-${name}`);
    assert.ok(await isWithin(page));
  });
}

test("what happens while the page of a question is on its way is shown", async (t) => {
  let answer;
  const port = await model(t, new Promise((done) => { answer = done; }));
  const site = await serve(t, {}, (it) => assistant(it, port));
  const ada = await visitor(t, site);
  const page = await ada.openLive("/assistant");
  await page.exposeFunction("mayAnswer", () => answer());
  // The page that follows a question is made, and is put here only after the model asked for something.
  await page.evaluate(() => {
    const heard = new BroadcastChannel("wb-stream");
    const asks = new Promise((done) => {
      heard.onmessage = ({ data }) => { if (data.event?.subject.startsWith("approval:")) done(); };
    });
    const send = window.fetch;
    window.fetch = async (address, options) => {
      const made = await send(address, options);
      if (options?.method !== "POST") return made;
      const text = await made.text();
      await globalThis.mayAnswer();
      await asks;
      return { ok: made.ok, url: made.url, text: async () => text };
    };
  });
  await ask(page, "delete it");
  await page.getByText("Allow the assistant to do this?").waitFor();
});
