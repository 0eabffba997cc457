// The assistant in a browser: an answer that comes piece by piece, a reload and a kill in its middle,
// stopping, branches, and the phone.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { findings, isLive, isWithin, PHONE, serve, until, visitor, young } from "./harness.mjs";

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

test("who writes on while a conversation begins, and leaves it at once, asks once", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site, { worker: false });
  const page = await ada.openLive("/assistant");
  const field = page.getByLabel("Message", { exact: true });
  let go;
  await page.route(`${site.origin}/assistant`, async (route) => {
    if (route.request().method() === "POST") await new Promise((resolve) => { go = resolve; });
    await route.continue();
  });
  const held = () => until("it is on its way", () => go);
  await ask(page, "half");
  await held();
  await page.keyboard.type("and ");
  // The answer is to be seen before the next question.
  await page.keyboard.press("Enter");
  await page.keyboard.type("the birds");
  assert.equal(await field.inputValue(), "and the birds");
  go();
  await page.waitForURL(/\/assistant\/.+/);
  await page.locator(".chat-live").waitFor();
  await page.keyboard.type(" again");
  assert.equal(await field.inputValue(), "and the birds again");
  goOn(site);
  await page.getByRole("button", { name: "Send" }).waitFor();
  assert.equal(await field.inputValue(), "and the birds again");
  await field.fill("");

  // Left while it is on its way.
  await page.goto("/assistant");
  await isLive(page);
  go = null;
  await ask(page, "leaving");
  await held();
  const body = await page.evaluate(() => Object.entries(sessionStorage).find(([it]) => it.includes("sent-"))[1]);
  await page.request.post("/assistant", {
    data: body, maxRedirects: 0,
    headers: { "content-type": "application/x-www-form-urlencoded", origin: site.origin },
  });
  await page.goto("/assistant");
  await isLive(page);
  await until("the question is back", async () => await field.inputValue() === "leaving");
  go = null;
  await page.keyboard.press("Escape");
  await field.press("Enter");
  await held();
  go();
  await page.waitForURL(/\/assistant\/.+/);
  assert.equal(await page.locator(".chat-list li", { hasText: "leaving" }).count(), 1);
});

test("the second press of a double click on Send does not stop the answer", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site, { worker: false });
  const page = await ada.openLive("/assistant");
  const send = page.getByRole("button", { name: "Send" });
  await ask(page, "hello");
  await page.locator(".chat-answer:not(.chat-live)", { hasText: "Answer to: hello" }).waitFor();
  await send.waitFor();
  await page.getByLabel("Message", { exact: true }).fill("half");
  await send.click();
  const stop = page.getByRole("button", { name: "Stop" });
  await stop.waitFor();
  const box = await stop.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down({ clickCount: 2 });
  await page.mouse.up({ clickCount: 2 });
  await page.locator(".chat-live .chat-block", { hasText: "The second" }).waitFor();
  goOn(site);
  await page.locator(".chat-block", { hasText: "The second part." }).waitFor();
  await send.waitFor();
  // One press does.
  fs.unlinkSync(path.join(site.out, "go"));
  await ask(page, "half");
  await stop.click();
  await page.getByText("Stopped").first().waitFor();
});

test("a press on Stop that comes as the answer ends does not send what is half typed", async (t) => {
  const site = await serve(t, {}, assistant);
  const page = await (await visitor(t, site)).openLive("/assistant");
  await ask(page, "half");
  const stop = page.getByRole("button", { name: "Stop" });
  await page.locator(".chat-live .chat-block", { hasText: "The second" }).waitFor();
  const field = page.getByLabel("Message", { exact: true });
  await field.fill("half a qu");
  const { x, y, width, height } = await stop.boundingBox();
  await young(page);
  goOn(site);
  await page.getByRole("button", { name: "Send" }).waitFor();
  await page.mouse.click(x + width / 2, y + height / 2);
  await page.getByText("Another button was here a moment ago.").waitFor();
  assert.equal(await field.inputValue(), "half a qu");
  assert.equal(await page.locator(".chat-question").count(), 1);
});

test("who stops an answer by a key goes on in the message", async (t) => {
  const site = await serve(t, {}, assistant);
  const page = await (await visitor(t, site)).openLive("/assistant");
  await ask(page, "half");
  const stop = page.getByRole("button", { name: "Stop" });
  // By a key, as a person leaves a field.
  await page.getByLabel("Message", { exact: true }).press("Tab");
  await stop.focus();
  await page.keyboard.press("Enter");
  await page.getByText("Stopped").first().waitFor();
  await stop.waitFor({ state: "detached" });
  await until("the field has the focus", () => page.evaluate(() => document.activeElement.id === "chat-message"));
});

test("Enter struck again on what was Stop does not send what is half typed", async (t) => {
  const site = await serve(t, {}, assistant);
  const page = await (await visitor(t, site)).openLive("/assistant");
  await ask(page, "half");
  const stop = page.getByRole("button", { name: "Stop" });
  await page.locator(".chat-live .chat-block", { hasText: "The second" }).waitFor();
  const field = page.getByLabel("Message", { exact: true });
  await field.fill("half a qu");
  // By a key, as a person leaves it.
  await field.press("Tab");
  await stop.focus();
  await young(page);
  await page.keyboard.press("Enter");
  await until("the field has the focus", () => page.evaluate(() => document.activeElement.id === "chat-message"));
  await page.keyboard.press("Enter");
  assert.equal(await field.inputValue(), "half a qu");
  // Who types on means it.
  await page.keyboard.press("End");
  await page.keyboard.type("estion");
  await page.keyboard.press("Enter");
  const questions = page.locator(".chat-question");
  await questions.nth(1).waitFor();
  assert.match(await questions.nth(1).innerText(), /half a question/);
  assert.equal(await questions.count(), 2);
});

test("a second question of a conversation is refused with what to do on the page", async (t) => {
  const site = await serve(t, {}, assistant);
  const page = await (await visitor(t, site)).openLive("/assistant");
  await ask(page, "hello");
  await page.locator(".chat-answer:not(.chat-live)", { hasText: "Answer to: hello" }).waitFor();
  // What has no scripts does not hear of the question that comes in between.
  const other = await (await visitor(t, site, { script: false })).open(page.url());
  await ask(page, "half");
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await other.getByLabel("Message", { exact: true }).fill("another one");
  await other.getByRole("button", { name: "Send" }).click();
  const why = await other.locator(".form-refusal").textContent();
  assert.match(why, /wait for that, or press Stop\. Then send again\.$/);
  assert.equal(await other.getByLabel("Message", { exact: true }).inputValue(), "another one");
  await other.getByRole("button", { name: "Stop" }).waitFor();
});

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
  // What is changed in it stays, also while another device asks here.
  await edit.fill("half of it");
  await page.reload();
  await until("the words are back", async () => (await edit.inputValue()) === "half of it");
  const phone = await ada.openLive(page.url());
  await ask(phone, "from the phone");
  await phone.getByText("Answer to: ").waitFor();
  await until("the words are back", async () => (await edit.inputValue()) === "half of it");
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

test("what is typed while a question is on its way is for the next one, and of its conversation", async (t) => {
  const site = await serve(t, {}, assistant);
  const page = await (await visitor(t, site, { worker: false })).openLive("/assistant");
  const field = page.getByLabel("Message", { exact: true });
  let go = () => {};
  await page.route("**/assistant", async (route) => {
    if (route.request().method() === "POST") await new Promise((resolve) => { go = resolve; });
    await route.continue();
  });
  const asked = page.waitForRequest((it) => it.method() === "POST" && it.url().endsWith("/assistant"));
  await ask(page, "half");
  await asked;
  await page.keyboard.type("for later");
  assert.equal(await field.inputValue(), "for later");
  go();
  await page.getByText("The second").waitFor();
  assert.equal(await field.inputValue(), "for later");
  await page.reload();
  await until("the words are back", async () => (await field.inputValue()) === "for later");
  await page.getByRole("link", { name: "New", exact: true }).click();
  await page.waitForURL(/\/assistant$/);
  await isLive(page);
  assert.equal(await field.inputValue(), "");
  goOn(site);
});
