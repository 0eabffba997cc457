// The assistant in a browser: an answer that comes piece by piece, a reload and a kill in its middle,
// stopping, branches, and the phone.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { findings, isLive, isWithin, PHONE, serve, until, visitor } from "./harness.mjs";

/** What stands in for Claude Code: it prints what `--output-format stream-json` would. */
const CLAUDE = String.raw`
last=$(tail -n 1)
event() { printf '{"type":"stream_event","event":%s}\n' "$1"; }
say() {
  event '{"type":"content_block_delta","delta":{"type":"text_delta","text":"'"$1"'"}}'
}
printf '{"type":"system","subtype":"init","session_id":"s","tools":[]}\n'
event '{"type":"message_start","message":{"id":"m1"}}'
case $last in
  half)
    say '# One\n\nThe **first** part.\n\n'; say 'The second '
    while [ ! -e "$OUT/go" ]; do sleep 0.05; done
    say 'part.' ;;
  long)
    count() { it=$1; while [ $it -le $2 ]; do say "w$it "; it=$((it + 1)); done; }
    count 1 20
    while [ ! -e "$OUT/go" ]; do sleep 0.05; done
    count 21 80; : > "$OUT/away"
    while [ ! -e "$OUT/on" ]; do sleep 0.05; done
    count 81 100 ;;
  hostile) say '<script>alert(1)</script>\n\n![x](https://evil.example/x.png)\n\n[y](javascript:alert(1))' ;;
  broken) printf '{"type":"result","is_error":true,"result":"API Error: 529 Overloaded"}\n'; exit 1 ;;
  *) say "Answer to: $last" ;;
esac
event '{"type":"message_stop"}'
printf '{"type":"result","is_error":false,"result":"x","session_id":"s","usage":{"input_tokens":1}}\n'
`;

function assistant(site, { env = 'ANTHROPIC_API_KEY = "k",' } = {}) {
  const file = path.join(site.agents, "claude.sh");
  fs.writeFileSync(file, CLAUDE);
  site.lua += `wb.engine "claude-chat" {
  type = "process", command = { "/bin/sh", "${file}" }, prompt = "stdin",
  reads = "claude-stream-json", env = { ${env} OUT = "${site.out}" },
}
wb.assistant { runtimes = { claude_code = "claude-chat" }, claude_code_persons = { "ada" } }
`;
}

const goOn = (site) => fs.writeFileSync(path.join(site.out, "go"), "");
async function ask(page, words) {
  await page.getByLabel("Message", { exact: true }).fill(words);
  await page.keyboard.press("Enter");
}

test("an answer comes block by block, and a reload goes on with it", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/");
  await page.getByRole("link", { name: "Assistant" }).click();
  await page.waitForURL(`${site.origin}/assistant`);
  assert.deepEqual(await findings(page), []);
  await ask(page, "half");
  const answer = page.locator(".chat-live");
  await answer.getByRole("heading", { name: "One" }).waitFor();
  await answer.locator(".chat-block", { hasText: "The second" }).waitFor();
  assert.equal(await answer.locator("strong").textContent(), "first");
  assert.equal(await answer.locator(".chat-block").count(), 3);
  await page.getByRole("button", { name: "Stop" }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.reload();
  await page.locator(".chat-live .chat-block", { hasText: "The second" }).waitFor();
  goOn(site);
  const done = page.locator(".chat-answer:not(.chat-live)");
  await done.locator(".chat-block", { hasText: "The second part." }).waitFor();
  assert.equal(await done.locator(".chat-block").count(), 3);
  await page.getByRole("button", { name: "Send" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Stop" }).count(), 0);
  await page.locator(".chat-list", { hasText: "half" }).waitFor();
});

test("a killed server keeps what was said, and the page tells the truth", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/assistant");
  await ask(page, "half");
  await page.locator(".chat-live .chat-block", { hasText: "The second" }).waitFor();
  await site.kill();
  await site.start();
  const error = page.locator(".chat-error", { hasText: "the server was restarted" });
  await error.waitFor();
  const answer = page.locator(".chat-answer");
  assert.match(await answer.locator(".chat-blocks").innerText(), /The second/);
  await answer.locator(".chat-state", { hasText: "Interrupted" }).waitFor();
  goOn(site);
  await error.getByRole("button", { name: "Try again" }).click();
  await page.locator(".chat-answer", { hasText: "The second part." }).waitFor();
  await page.locator(".chat-versions", { hasText: "2/2" }).waitFor();
  await page.getByRole("button", { name: "Previous version" }).click();
  await page.locator(".chat-versions", { hasText: "1/2" }).waitFor();
  await page.locator(".chat-state", { hasText: "Interrupted" }).waitFor();
});

const words = (from, to) => Array.from({ length: to - from + 1 }, (_, it) => `w${from + it}`).join(" ");
const written = (site) => until("the words are written", () => fs.existsSync(path.join(site.out, "away")));

/** The longest wait of a page until it knows that it is cut off. */
const HALF_A_MINUTE = 30_000;
const LOST = /^Connection lost\. Trying again(…| in \d s)$/;

for (const [how, cut, heal] of [
  ["no network", (page) => page.context().setOffline(true), (page) => page.context().setOffline(false)],
  // A server that is stopped keeps its connections, and says nothing: like a network that swallows all.
  ["a network that swallows all", (_, site) => site.child.kill("SIGSTOP"), (_, site) => site.child.kill("SIGCONT")],
]) {
  test(`words that came during half a minute with ${how} are there, once`, async (t) => {
    const site = await serve(t, {}, assistant);
    const ada = await visitor(t, site, { allow: [/ERR_INTERNET_DISCONNECTED/] });
    const page = await ada.context.newPage();
    await page.clock.install();
    await page.goto("/assistant");
    await isLive(page);
    await ask(page, "long");
    const answer = page.locator(".chat-live .chat-blocks");
    const state = page.locator(".chat-live .chat-working");
    await answer.getByText("w20").waitFor();
    assert.equal(await state.innerText(), "Answering");
    await cut(page, site);
    await page.clock.fastForward(HALF_A_MINUTE);
    await state.getByText(LOST).waitFor();
    goOn(site);
    await written(site);
    await page.clock.fastForward(HALF_A_MINUTE);
    assert.match(await state.innerText(), LOST);
    assert.equal((await answer.innerText()).trim(), words(1, 20), "what was there stays");
    await heal(page, site);
    await answer.getByText("w80").waitFor();
    assert.equal((await answer.innerText()).trim(), words(1, 80));
    await state.getByText("Answering").waitFor();
    fs.writeFileSync(path.join(site.out, "on"), "");
    const done = page.locator(".chat-answer:not(.chat-live) .chat-blocks", { hasText: "w100" });
    await done.waitFor();
    assert.equal((await done.innerText()).trim(), words(1, 100));
  });
}

test("an answer is stopped, a question is edited, a failure says what to do", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/assistant");
  await ask(page, "half");
  await page.locator(".chat-live .chat-block", { hasText: "The second" }).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".chat-state", { hasText: "Stopped" }).waitFor();
  await page.locator(".chat-edit summary").click();
  await page.getByLabel("Question").fill("kindly");
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.locator(".chat-answer", { hasText: "Answer to: kindly" }).waitFor();
  await page.locator(".chat-edit summary").click();
  await page.getByLabel("Question").fill("broken");
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  const error = page.locator(".chat-error", { hasText: "Overloaded" });
  await error.waitFor();
  await page.locator(".chat-versions", { hasText: "3/3" }).waitFor();
  assert.deepEqual(await findings(page), []);
});

test("what a model says is text", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/assistant");
  await ask(page, "hostile");
  await page.locator(".chat-answer:not(.chat-live)", { hasText: "y" }).waitFor();
  const blocks = page.locator(".chat-blocks");
  assert.equal(await blocks.locator("script, img, a[href^='javascript']").count(), 0);
});

test("on a phone the conversation has the whole window", async (t) => {
  const site = await serve(t, {}, assistant);
  for (const theme of ["light", "dark"]) {
    const ada = await visitor(t, site, { viewport: PHONE, touch: true, theme });
    const page = await ada.openLive("/assistant");
    assert.ok(await isWithin(page));
    await page.getByLabel("Message", { exact: true }).fill("hello there");
    await page.getByRole("button", { name: "Send" }).tap();
    await page.locator(".chat-answer", { hasText: "Answer to: hello there" }).waitFor();
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    assert.equal(await page.locator(".chat-side").isVisible(), false);
    await page.getByRole("link", { name: "‹ Conversations" }).tap();
    await page.locator(".chat-list").waitFor();
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
  }
});

test("without scripts a question is asked, and its answer read", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site, { script: false });
  const page = await ada.open("/assistant");
  await page.getByLabel("Message", { exact: true }).fill("plainly");
  await page.getByRole("button", { name: "Send" }).click();
  // The page asks for itself anew while the answer is written.
  await page.locator("main").getByText("Answer to: plainly").waitFor();
});

test("who has not signed in is told what to do, and others see no assistant", async (t) => {
  const site = await serve(t, {}, (it) => assistant(it, { env: "" }));
  const ada = await visitor(t, site);
  const page = await ada.openLive("/assistant");
  await page.getByText("claude setup-token").waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByLabel("The token it prints").fill("sk-ant-oat01-0123456789abcdef");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("Message", { exact: true }).waitFor();
  const bare = await serve(t);
  const other = await (await visitor(t, bare)).openLive("/");
  assert.equal(await other.getByRole("link", { name: "Assistant" }).count(), 0);
});

test("what was typed stays with its conversation, Esc stops, and the arrow up edits", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/assistant");
  const field = page.getByLabel("Message", { exact: true });
  await field.fill("not sent yet");
  await page.reload();
  // The module brings them back, which is after the page has loaded.
  await until("the words are back", async () => (await field.inputValue()) === "not sent yet");
  await ask(page, "half");
  await page.getByText("The second").waitFor();
  await until("the conversation has an address", () => page.url().includes("/assistant/"));
  await field.fill("for later");
  await page.keyboard.press("Escape");
  await page.getByText("Stopped", { exact: true }).waitFor();
  await page.getByRole("link", { name: "New", exact: true }).click();
  await until("the new field is empty", async () => (await field.inputValue()) === "");
  await page.goBack();
  await until("the words are back", async () => (await field.inputValue()) === "for later");
  await page.reload();
  await until("the words are back", async () => (await field.inputValue()) === "for later");
  await isLive(page);
  await field.fill("");
  await field.press("ArrowUp");
  const edit = page.locator(".chat-edit[open] textarea");
  assert.equal(await edit.inputValue(), "half");
  assert.ok(await edit.evaluate((it) => it === document.activeElement));
});

test("a question that is refused says why, and stays", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site, { allow: [/status of 413/] });
  const page = await ada.openLive("/assistant");
  const field = page.getByLabel("Message", { exact: true });
  const words = "a".repeat(70 * 1024);
  await field.fill(words);
  await field.press("Enter");
  await page.locator(".form-refusal", { hasText: "65536" }).waitFor();
  assert.equal(await field.inputValue(), words);
});
