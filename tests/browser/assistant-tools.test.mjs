// What the assistant does, in a browser: its calls, the question before one, and taking it back.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { findings, isWithin, PHONE, picture, serve, vault, visitor, young } from "./harness.mjs";

const WB_AGENT = path.resolve("target/debug/wb-agent");

/** What stands in for Claude Code: each line of its prompt is a tool and its arguments. */
const CLAUDE = String.raw`
lines=$(grep '^call ')
printf '{"type":"system","subtype":"init","session_id":"s","tools":[]}\n'
use() {
  printf '{"type":"assistant","message":{"id":"%s","content":[' "$1"
  printf '{"type":"tool_use","id":"%s","name":"mcp__wb__%s","input":%s}]}}\n' "$1" "$2" "$3"
  rm -f "$OUT/fifo.$$"; mkfifo "$OUT/fifo.$$"
  { printf '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s"' "$2"
    printf ',"arguments":%s,"_meta":{"claudecode/toolUseId":"%s"}}}\n' "$3" "$1"
    cat "$OUT/fifo.$$"; } | "$CLIENT" mcp assistant | { read -r told; : > "$OUT/fifo.$$"; }
}
number=0
printf '%s\n' "$lines" | while read -r _ tool args; do
  number=$((number + 1)); use "toolu_$number" "$tool" "$args"
done
printf '{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1"}}}\n'
printf '{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"I am done."}}}\n'
printf '{"type":"stream_event","event":{"type":"message_stop"}}\n'
printf '{"type":"result","is_error":false,"result":"x","session_id":"s","usage":{"input_tokens":1}}\n'
`;

function assistant(site) {
  const file = path.join(site.agents, "claude.sh");
  fs.writeFileSync(file, CLAUDE);
  site.lua += `wb.engine "claude-chat" {
  type = "process", command = { "/bin/sh", "${file}" }, prompt = "stdin",
  reads = "claude-stream-json",
  env = { ANTHROPIC_API_KEY = "k", OUT = "${site.out}", CLIENT = "${WB_AGENT}" },
}
wb.assistant { runtimes = { claude_code = "claude-chat" }, claude_code_persons = { "ada" } }
`;
}

const call = (tool, args) => `call ${tool} ${JSON.stringify(args)}`;

async function ask(page, words) {
  await page.getByLabel("Message", { exact: true }).fill(words);
  await page.getByRole("button", { name: "Send" }).click();
}

/** Opens the newest conversation on another device of the same person. */
async function elsewhere(t, site) {
  const { items } = await site.get("/api/agent/sessions");
  const other = await visitor(t, site);
  const device = await other.openLive(`/assistant/${items[0].session_id}`);
  return { device, close: () => device.close() };
}

for (const [name, options] of [["desktop", {}], ["phone", { viewport: PHONE, touch: true }]]) {
  test(`a question waits in the conversation, and what was done is taken back: ${name}`, async (t) => {
    const site = await serve(t, {}, assistant);
    const ada = await visitor(t, site, options);
    const page = await ada.openLive("/assistant");
    await ask(page, call("write_file", { path: "digest.md", content: "# Digest\n\nold words\n" }));
    await page.locator(".chat-call", { hasText: "digest.md was created" }).waitFor();
    await page.getByRole("button", { name: "Send" }).waitFor();
    await page.goto(`${site.origin}/assistant`);
    const hostile = "<b>new</b> words\n";
    await ask(page, call("write_file", { path: "digest.md", content: `# Digest\n\n${hostile}` }));
    const card = page.locator(".chat-ask");
    await card.getByText("Allow the assistant to do this?").waitFor();
    assert.match(await card.locator("pre").textContent(), /-old words\n\+<b>new<\/b> words/);
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    await picture(page, `assistant-asks-${name}`);
    const decisions = await ada.openLive("/decisions");
    await decisions.getByText("it overwrites digest.md").first().waitFor();
    await decisions.getByText("it overwrites digest.md").first().click();
    await decisions.locator("pre", { hasText: "<b>new</b>" }).waitFor();
    assert.equal(await decisions.locator("#amend").count(), 0);
    await picture(decisions, `assistant-decision-${name}`);
    await decisions.close();
    // The phone's question is answered on another device.
    const own = { device: page, close: async () => {} };
    const { device, close } = name === "phone" ? await elsewhere(t, site) : own;
    await device.locator(".chat-ask").getByRole("button", { name: "Allow once" }).click();
    await page.locator(".chat-call", { hasText: "digest.md was written" }).waitFor();
    await close();
    await page.locator(".chat-answer:not(.chat-live)", { hasText: "I am done." }).waitFor();
    assert.equal(await page.locator(".chat-ask").count(), 0);
    await picture(page, `assistant-done-${name}`);
    // By the keyboard: it stands where another button was a moment ago.
    await page.getByRole("button", { name: /^Undo/ }).press("Enter");
    await page.locator(".chat-call-state", { hasText: "undone" }).waitFor();
    assert.deepEqual(await findings(page), []);
    assert.ok(await isWithin(page));
  });
}

for (const [name, options] of [["desktop", {}], ["phone", { viewport: PHONE, touch: true }]]) {
  test(`an action is a button, and one that wants to be looked at is: ${name}`, async (t) => {
    const site = await serve(t, {}, assistant);
    const ada = await visitor(t, site, options);
    const page = await ada.openLive("/assistant");
    const vaults = path.join(site.data, "vaults");
    const folder = path.join(vaults, fs.readdirSync(vaults)[0], "agent", "actions");
    fs.mkdirSync(folder, { recursive: true });
    const write = (it, text) => fs.writeFileSync(path.join(folder, it), text);
    write("Make a note.md", `---\nmax_steps: 4\n---\n${call("write_file", { path: "note.md", content: "x\n" })}`);
    write("Careful.md", "---\nrequires_confirmation: true\n---\nLook at <b>this</b> {{person}}.");
    write("Wrong.md", "---\nconfirm: true\n---\nx");
    await page.reload();
    assert.ok(await isWithin(page), "no sideways scrolling");
    assert.deepEqual(await findings(page), []);
    await page.getByText("Wrong: unavailable").click();
    await page.getByText("`confirm` is no field of an action").waitFor();
    await page.getByLabel("Dry run").check();
    await page.getByRole("button", { name: "Make a note" }).click();
    await page.locator(".chat-call", { hasText: "dry run: not made" }).waitFor();
    await page.getByRole("heading", { name: "Make a note" }).waitFor();
    await page.getByRole("button", { name: "Send" }).waitFor();
    assert.ok(!fs.existsSync(path.join(folder, "../../note.md")));
    await page.getByLabel("Message", { exact: true }).fill("And be brief");
    await page.getByText("Careful …").click();
    await page.getByText(/^Look at <b>this<\/b> [a-z]+\.$/).waitFor();
    assert.ok(await isWithin(page), "no sideways scrolling with an action open");
    await picture(page, `assistant-action-${name}`);
    await page.getByRole("button", { name: "Run Careful" }).click();
    await page.locator(".chat-said", { hasText: "Additional context" }).waitFor();
  });
}

test("who allows one call does not allow the next one, which takes its place, before they can see it", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site, { viewport: { width: 1280, height: 420 } });
  const page = await ada.openLive("/assistant");
  const made = ["one.md", "two.md"].map((it) => call("write_file", { path: it, content: "x\n" }));
  await ask(page, made.join("\n"));
  await page.locator(".chat-answer:not(.chat-live)", { hasText: "I am done." }).waitFor();
  await page.getByRole("link", { name: "New", exact: true }).click();
  await ask(page, ["one.md", "two.md"].map((it) => call("delete_file", { path: it })).join("\n"));
  const allow = page.locator(".chat-ask", { hasText: "one.md" }).getByRole("button", { name: "Allow once" });
  const { x, y, width, height } = await allow.boundingBox();
  await young(page);
  await allow.click();
  const next = page.locator(".chat-ask", { hasText: "two.md" });
  await next.waitFor();
  await page.mouse.click(x + width / 2 + 10, y + height / 2 + 8);
  await next.getByText("Another button was here a moment ago.").waitFor();
  await picture(page, "assistant-unseen");
  assert.ok(fs.existsSync(path.join(vault(site), "two.md")));
  await next.getByRole("button", { name: "Allow once" }).press("Enter");
  await page.locator(".chat-call", { hasText: "two.md was deleted" }).waitFor();
});
