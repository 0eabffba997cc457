// Conversations that are searched, files that go with a question, and a call that is made later.

import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { test } from "node:test";
import { findings, isWithin, PHONE, picture, serve, visitor } from "./harness.mjs";

/** What stands in for a model: it overwrites a file if it is told so, and talks of herons else. */
function model(t) {
  const server = http.createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = JSON.parse(Buffer.concat(parts));
    const texts = body.messages.flatMap((it) => it.content.filter((part) => part.type === "text" && it.role === "user"));
    const said = body.messages.at(-1).content.some((it) => it.type === "tool_result");
    const event = (it) => response.write(`event: ${it.type}\ndata: ${JSON.stringify(it)}\n\n`);
    const block = (content_block, delta) => {
      event({ type: "content_block_start", index: 0, content_block });
      event({ type: "content_block_delta", index: 0, delta });
      event({ type: "content_block_stop", index: 0 });
    };
    response.writeHead(200, { "content-type": "text/event-stream" });
    event({ type: "message_start", message: { usage: { input_tokens: 5 } } });
    const asks = texts.at(-1).text.startsWith("overwrite") && !said;
    if (asks) {
      const json = '{"path":"list.md","content":"new words\\n"}';
      block({ type: "tool_use", id: "t1", name: "write_file", input: {} }, { type: "input_json_delta", partial_json: json });
    } else {
      const text = said ? "I could not." : "The **grey heron** stands [still](http://example.org/x) in the shallow water.";
      block({ type: "text", text: "" }, { type: "text_delta", text });
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
  const vault = path.join(site.agents, "vault");
  fs.mkdirSync(vault);
  fs.writeFileSync(path.join(vault, "list.md"), "old words\n");
  fs.writeFileSync(key, "k\n");
  site.lua += `wb.engine "sonnet" {
  type = "anthropic", model = "m-1", base_url = "http://127.0.0.1:${port}", key = wb.secret.file "${key}",
}
wb.assistant {
  runtimes = { anthropic_api_key = "sonnet" }, vault_of = { ada = "${vault}" }, limits = { confirm = "10s" },
}
`;
}

async function ask(page, words) {
  await page.getByLabel("Message", { exact: true }).fill(words);
  await page.getByRole("button", { name: "Send" }).click();
}

for (const [name, options] of [["desktop", {}], ["phone", { viewport: PHONE, touch: true }]]) {
  test(`what was said is found, files are sent, and a call is made later: ${name}`, async (t) => {
    const port = await model(t);
    const site = await serve(t, {}, (it) => assistant(it, port));
    // A file that is refused.
    const ada = await visitor(t, site, { ...options, allow: [/the server responded with a status of 400/] });
    const page = await ada.openLive("/assistant");
    // Nobody answers this while the rest is looked at.
    await ask(page, "overwrite the list");
    await page.getByText("Allow the assistant to do this?").waitFor();
    const waiting = new URL(page.url()).pathname;
    await page.goto(`${site.origin}/assistant`);

    const chooser = page.waitForEvent("filechooser");
    await page.getByRole("button", { name: "Attach files" }).click();
    await (await chooser).setFiles([
      { name: "birds of the lake.txt", mimeType: "text/plain", buffer: Buffer.from("heron, grebe\n") },
      { name: "broken.bin", mimeType: "application/octet-stream", buffer: Buffer.from([1, 0, 2]) },
    ]);
    const files = page.locator(".chat-attached li:not([aria-busy])");
    await page.locator(".chat-attached").getByText("broken.bin: only texts").waitFor();
    await files.nth(1).waitFor();
    assert.deepEqual(await findings(page), []);
    await picture(page, `attach-${name}`);
    await page.getByRole("button", { name: "Remove broken.bin" }).click();
    await page.evaluate(() => {
      const files = new DataTransfer();
      files.items.add(new File(["pasted"], "pasted.txt"));
      const paste = new ClipboardEvent("paste", { clipboardData: files, bubbles: true, cancelable: true });
      document.getElementById("chat-message").dispatchEvent(paste);
    });
    await files.filter({ hasText: "pasted.txt" }).waitFor();
    // A large image is made smaller before it is sent.
    await page.evaluate(async () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [9_000, 30];
      const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
      const files = new DataTransfer();
      files.items.add(new File([blob], "wide.png", { type: "image/png" }));
      const paste = new ClipboardEvent("paste", { clipboardData: files, bubbles: true, cancelable: true });
      document.getElementById("chat-message").dispatchEvent(paste);
    });
    const wide = files.filter({ hasText: "wide.png" });
    await wide.waitFor();
    const sent = await wide.getAttribute("data-sent");
    const side = await page.evaluate(async (path) => {
      const answer = await fetch(`/api/agent/vault/file?path=${encodeURIComponent(path)}`);
      return (await createImageBitmap(await answer.blob())).width;
    }, sent);
    assert.equal(side, 2_000);
    await page.getByRole("button", { name: "Remove wide.png" }).click();
    await ask(page, "which birds?");
    const answer = page.locator(".chat-answer:not(.chat-live)");
    await answer.locator("strong", { hasText: "grey heron" }).waitFor();
    await page.locator(".chat-question .chat-files", { hasText: "birds of the lake.txt" }).waitFor();
    await page.locator(".chat-question .chat-files", { hasText: "pasted.txt" }).waitFor();
    await page.getByRole("button", { name: "Attach files" }).waitFor();
    assert.equal(await page.locator(".chat-attached li").count(), 0, "the next message begins without files");
    await picture(page, `attached-${name}`);

    await page.goto(`${site.origin}/assistant`);
    // Found while somebody types; the button is for pages without scripts.
    const search = page.getByLabel("Search your conversations");
    await search.pressSequentially("HERON shallow");
    await page.locator(".chat-found", { hasText: "1 found" }).waitFor();
    assert.ok(await search.evaluate((it) => it === document.activeElement && it.value === "HERON shallow"));
    await search.fill("");
    await page.locator(".chat-list li", { hasText: "overwrite the list" }).waitFor();
    await search.fill("HERON shallow");
    const hit = page.locator(".chat-list li", { hasText: "which birds?" });
    await hit.locator("mark", { hasText: "heron" }).waitFor();
    assert.match(await hit.textContent(), /The grey heron stands still in the shallow water/);
    assert.deepEqual(await findings(page), []);
    assert.ok(await isWithin(page));
    await picture(page, `search-${name}`);
    await hit.locator("a").click();
    await page.locator(".chat-at", { hasText: "grey heron" }).waitFor();
    assert.deepEqual(await findings(page), []);
    await picture(page, `search-hit-${name}`);
    await page.getByRole("link", { name: "Go to the end" }).click();
    await page.getByRole("button", { name: "Send" }).waitFor();

    await page.goto(`${site.origin}${waiting}`);
    await page.locator(".chat-call", { hasText: "expired" }).waitFor();
    await page.getByText("I could not.").waitFor();
    await page.locator(".chat-later summary").click();
    assert.deepEqual(await findings(page), []);
    await picture(page, `later-${name}`);
    await page.getByRole("button", { name: "Do it now", exact: true }).click();
    await page.locator(".chat-call", { hasText: "list.md was written" }).waitFor();
    await page.getByText("Recorded in").waitFor();
    assert.ok(await isWithin(page));
    await picture(page, `later-done-${name}`);
  });
}
