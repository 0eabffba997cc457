// What a model says, and what stands in a vault, is shown and never obeyed: every attack of the
// corpus as an answer, while it streams and afterwards, as a question, and as files of the vault.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { blocks, inPath, lines, paragraphs } from "./corpus.mjs";
import { serve, until } from "./harness.mjs";
import { marksOf } from "./hostile.mjs";
import { again, assertThere, besieged, said } from "./siege.mjs";

const LINES = marksOf(lines);
const ALL = [...LINES, ...marksOf(blocks)];
const ANSWER = paragraphs(lines, blocks);
/**
 * What is ours: blocks are rendered one by one, so that headings with the same words have the same
 * name, to which nothing leads; buttons of the page copy code; actions are called `action`; and a path
 * of the vault begins with its folder.
 */
const OURS = [/data-keep in a text: <button type="button" class="link chat-copy chat-copy-code"/, /^a field hides form\.action$/, /^words before a name: "agent\/actions\//];

/** Bytes of a piece of the answer: attacks come cut through. */
const PIECE = 97;

/** What stands in for Claude Code: it prints a file, as `--output-format stream-json` would. */
function assistant(site) {
  const event = (it) => JSON.stringify({ type: "stream_event", event: it });
  const pieces = ANSWER.match(new RegExp(`[^]{1,${PIECE}}`, "gu"));
  const delta = (text) => event({ type: "content_block_delta", delta: { type: "text_delta", text } });
  const said = [
    JSON.stringify({ type: "system", subtype: "init", session_id: "s", tools: [] }),
    event({ type: "message_start", message: { id: "m1" } }),
    ...pieces.map(delta),
    event({ type: "message_stop" }),
    JSON.stringify({ type: "result", is_error: false, result: "x", session_id: "s", usage: { input_tokens: 1 } }),
  ];
  fs.writeFileSync(path.join(site.out, "said"), `${said.join("\n")}\n`);
  const file = path.join(site.agents, "claude.sh");
  fs.writeFileSync(file, 'cat > /dev/null; cat "$OUT/said"\n');
  site.lua += `wb.engine "claude-chat" {
  type = "process", command = { "/bin/sh", "${file}" }, prompt = "stdin",
  reads = "claude-stream-json", env = { ANTHROPIC_API_KEY = "k", OUT = "${site.out}" },
}
wb.assistant { runtimes = { claude_code = "claude-chat" }, claude_code_persons = { "ada" } }
`;
}

/** Writes the vault's files; returns the marks in the names of actions. */
async function fill(site) {
  await site.get("/api/agent/actions");
  const folder = path.join(site.data, "vaults");
  const vault = path.join(folder, fs.readdirSync(folder)[0]);
  fs.mkdirSync(path.join(vault, "agent/actions"), { recursive: true });
  fs.writeFileSync(path.join(vault, "agents.md"), ANSWER);
  fs.writeFileSync(path.join(vault, "agent/memory.md"), paragraphs(lines));
  for (const [, text] of lines) {
    const name = inPath(text).replaceAll("/", "").normalize("NFC").replace(/^\.+/, "");
    if (Buffer.byteLength(name) > 200) continue;
    // Half of them are no actions: the error quotes them.
    fs.writeFileSync(path.join(vault, "agent/actions", `${name}.md`), `---\nabout: ${JSON.stringify(text.slice(0, 190))}\n---\n${text}\n`);
  }
  const { items } = await site.get("/api/agent/actions");
  assert.ok(items.length > 40, `${items.length} actions`);
  return LINES.filter((mark) => items.some((it) => it.label.includes(mark)));
}

test("what a model says and what stands in a vault is never obeyed", { timeout: 300_000 }, async (t) => {
  const site = await serve(t, {}, assistant);
  const labels = await fill(site);
  const ada = await besieged(t, site, { allow: [/status of 404/] });
  const page = await ada.stand();
  const look = async (where, wanted) => {
    for (const [selector, marks] of Object.entries(wanted)) await assertThere(page, marks, where, selector);
    await page.waitForLoadState();
    const wrong = await page.evaluate("window.wbTestInspect()");
    assert.deepEqual(wrong.filter((it) => !OURS.some((own) => own.test(it))), [], where);
    assert.deepEqual(said(ada), [], where);
  };
  await page.goto("/assistant");
  await page.getByLabel("Message", { exact: true }).fill(paragraphs(lines));
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".chat-answer:not(.chat-live) .chat-cost").waitFor({ state: "attached" });
  await until("the answer is there", async () => (await page.locator(".chat-live").count()) === 0);
  const thread = { ".chat-answer .chat-blocks": ALL, ".chat-words": LINES };
  await look("a conversation as it was streamed", thread);
  const live = await page.locator(".chat-blocks :is(script, img:not([src^='/raw/']), iframe, style, form, input:not([type=checkbox]))").evaluateAll((all) => all.map((it) => it.outerHTML));
  assert.deepEqual(live, []);
  await page.reload();
  await look("a conversation", thread);
  assert.ok((await again(page)) > 0);
  await look("a conversation, put in again", thread);
  await page.goto("/assistant");
  await look("the actions", { "#chat-form": labels });
  await page.goto("/assistant?q=zqscriptqz");
  await look("what was found", { "#chat-list": ["zqscriptqz"] });
  await page.goto("/assistant/settings");
  await look("the settings", { "#prompt textarea": ALL, "#memory textarea": LINES, "#actions": labels });
  const { items } = await site.get("/api/agent/actions");
  for (const it of items) {
    const address = `/assistant/settings/action?${new URLSearchParams({ path: it.path })}`;
    const answer = await page.goto(address);
    assert.equal(answer.status(), 200, it.path);
    await look(`the action ${it.label}`, {});
  }
});
