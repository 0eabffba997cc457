// The settings of the assistant in a browser: prompt, memory and actions without a shell, a conflict
// that loses nothing, and the actions behind a `/`.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { findings, isLive, isWithin, PHONE, picture, serve, until, vault, visitor } from "./harness.mjs";

/** What stands in for Claude Code: it says what its prompt ends with. */
const CLAUDE = String.raw`
last=$(tail -n 1)
event() { printf '{"type":"stream_event","event":%s}\n' "$1"; }
printf '{"type":"system","subtype":"init","session_id":"s","tools":[]}\n'
event '{"type":"message_start","message":{"id":"m1"}}'
case $last in
  code) text='Run **this**:\n\n~~~sh\necho one\necho two\n~~~\n\nDone.' ;;
  *) text="Answer to: $last" ;;
esac
event '{"type":"content_block_delta","delta":{"type":"text_delta","text":"'"$text"'"}}'
event '{"type":"message_stop"}'
printf '{"type":"result","is_error":false,"result":"x","session_id":"s","total_cost_usd":0.031'
printf ',"usage":{"input_tokens":9000,"output_tokens":120}}\n'
`;

function assistant(site) {
  const file = path.join(site.agents, "claude.sh");
  fs.writeFileSync(file, CLAUDE);
  site.lua += `wb.engine "claude-chat" {
  type = "process", command = { "/bin/sh", "${file}" }, prompt = "stdin",
  reads = "claude-stream-json", env = { ANTHROPIC_API_KEY = "k" },
}
wb.assistant { runtimes = { claude_code = "claude-chat" }, claude_code_persons = { "ada" } }
`;
}

for (const [name, options] of [["desktop", {}], ["phone", { viewport: PHONE, touch: true, theme: "dark" }]]) {
  test(`prompt, memory and actions are edited on the page: ${name}`, async (t) => {
    const site = await serve(t, {}, assistant);
    // What is refused is what this test looks at.
    const ada = await visitor(t, site, { ...options, allow: [/status of 4\d\d/] });
    const page = await ada.openLive("/assistant");
    await page.getByRole("link", { name: "Settings", exact: true }).last().click();
    await page.waitForURL("**/assistant/settings");
    await isLive(page);
    await page.getByText("No actions yet.").waitFor();
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    await picture(page, `assistant-settings-empty-${name}`);
    const prompt = page.getByLabel("Your instructions (agents.md in your vault)");
    await prompt.fill("Answer in rhymes.\nAlways.");
    await page.getByRole("button", { name: "Save Your instructions" }).click();
    const file = () => path.join(vault(site), "agents.md");
    await until("it is saved", () => fs.existsSync(file()));
    assert.equal(fs.readFileSync(file(), "utf8"), "Answer in rhymes.\nAlways.");

    // Meanwhile another device changes it: what was typed stays, and both texts are shown. That is so
    // also if the page has been made anew since, because something else was saved.
    await page.getByRole("button", { name: "Save Your instructions", disabled: false }).waitFor();
    await prompt.fill("Mine.");
    fs.writeFileSync(file(), "Theirs.");
    await page.getByLabel("Its memory (agent/memory.md in your vault)").fill("The dog is called Bo.");
    await page.getByRole("button", { name: "Save Its memory" }).click();
    await until("it is saved", () => fs.existsSync(path.join(vault(site), "agent/memory.md")));
    await page.getByRole("button", { name: "Save Its memory", disabled: false }).waitFor();
    // By the keyboard: on a phone it is scrolled to where the button before was just pressed.
    await page.getByRole("button", { name: "Save Your instructions" }).press("Enter");
    const form = page.locator("#prompt-form");
    await form.getByRole("alert").getByText("agents.md has changed since you saw it").waitFor();
    assert.equal(await prompt.inputValue(), "Mine.");
    assert.equal(await form.locator(".chat-now pre").textContent(), "Theirs.");
    assert.equal(fs.readFileSync(file(), "utf8"), "Theirs.");
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    await picture(page, `assistant-settings-conflict-${name}`);
    await prompt.press("Tab");
    await page.getByRole("button", { name: "Save Your instructions" }).press("Enter");
    await until("it is saved", () => fs.readFileSync(file(), "utf8") === "Mine.");
    await form.getByRole("alert").waitFor({ state: "detached" });

    // An action: refused with what was typed, then added.
    await page.getByRole("link", { name: "New action" }).click();
    await page.getByLabel("Name, as on its button").fill("Weekly digest");
    await page.getByLabel(/^Prompt/).fill("List what happened since {{yesterdy}}.");
    await page.getByLabel("What it is for (optional)").fill("The week");
    await page.reload();
    await until("it is there again", async () => (await page.getByLabel("What it is for (optional)").inputValue()) === "The week");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("{{yesterdy}}").waitFor();
    assert.equal(await page.getByLabel("Name, as on its button").inputValue(), "Weekly digest");
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    await picture(page, `assistant-action-${name}`);
    await page.getByLabel(/^Prompt/).fill("hello");
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".chat-action-list", { hasText: "Weekly digest" }).waitFor();
    assert.equal(
      fs.readFileSync(path.join(vault(site), "agent/actions/Weekly digest.md"), "utf8"),
      '---\nabout: "The week"\n---\n\nhello\n',
    );
    assert.deepEqual(await findings(page), []);
    await picture(page, `assistant-settings-${name}`);
    await page.getByRole("link", { name: "Weekly digest" }).click();
    await page.getByText("Remove this action").click();
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await page.getByText("No actions yet.").waitFor();
  });
}

test("without scripts a conflict loses nothing either", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site, { script: false });
  const page = await ada.open("/assistant/settings");
  const prompt = page.getByLabel("Your instructions (agents.md in your vault)");
  await prompt.fill("Mine.");
  fs.writeFileSync(path.join(vault(site), "agents.md"), "Theirs.");
  await page.getByRole("button", { name: "Save Your instructions" }).click();
  await page.getByRole("alert").waitFor();
  assert.equal(await prompt.inputValue(), "Mine.");
  await page.getByRole("button", { name: "Save Your instructions" }).click();
  await page.waitForURL("**/assistant/settings");
  assert.equal(await prompt.inputValue(), "Mine.");
});

/** Writes actions into the vault, as another program would. */
async function actions(site, files) {
  await site.get("/api/agent/actions");
  const folder = path.join(vault(site), "agent/actions");
  fs.mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(folder, `${name}.md`), text);
}

const THREE = {
  "Weekly digest": "the week",
  "Daily digest": "the day",
  Careful: "---\nrequires_confirmation: true\n---\nthe careful one",
};

test("a slash lists the actions, by keyboard", async (t) => {
  const site = await serve(t, {}, assistant);
  await actions(site, THREE);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/assistant");
  const field = page.getByLabel("Message", { exact: true });
  const list = page.getByRole("listbox", { name: "Actions" });
  await field.pressSequentially("/");
  await list.waitFor();
  assert.deepEqual(await list.getByRole("option").allTextContents(), ["Careful", "Daily digest", "Weekly digest"]);
  assert.deepEqual(await findings(page), []);
  await picture(page, "assistant-slash-desktop");
  // Escape closes the list, and what was typed stays.
  await field.press("Escape");
  await list.waitFor({ state: "hidden" });
  assert.equal(await field.inputValue(), "/");
  await field.pressSequentially("dig");
  assert.deepEqual(await list.getByRole("option").allTextContents(), ["Daily digest", "Weekly digest"]);
  await field.press("ArrowDown");
  const chosen = await field.getAttribute("aria-activedescendant");
  assert.equal(await page.locator(`#${chosen}`).textContent(), "Weekly digest");
  await field.press("Enter");
  await page.locator(".chat-answer", { hasText: "Answer to: the week" }).waitFor();
  await page.locator(".chat-cost", { hasText: "9,120 tokens · $0.03" }).waitFor();
  // What is no action is a message like every other.
  await field.fill("/etc/hosts");
  await list.waitFor({ state: "hidden" });
  await field.press("Enter");
  await page.locator(".chat-answer", { hasText: "Answer to: /etc/hosts" }).waitFor();
});

test("a slash lists the actions, by touch, and one that asks shows its prompt first", async (t) => {
  const site = await serve(t, {}, assistant);
  await actions(site, THREE);
  const ada = await visitor(t, site, { viewport: PHONE, touch: true });
  const page = await ada.openLive("/assistant");
  const field = page.getByLabel("Message", { exact: true });
  await field.tap();
  await field.pressSequentially("/care");
  const option = page.getByRole("option", { name: "Careful" });
  await option.waitFor();
  assert.ok(await isWithin(page));
  assert.deepEqual(await findings(page), []);
  await picture(page, "assistant-slash-phone");
  await option.tap();
  await page.getByText("the careful one").waitFor();
  assert.equal(await field.inputValue(), "");
  await page.getByRole("button", { name: "Run Careful" }).tap();
  await page.locator(".chat-answer", { hasText: "Answer to: the careful one" }).waitFor();
});

test("code and answers are copied", async (t) => {
  const site = await serve(t, {}, assistant);
  const ada = await visitor(t, site);
  await ada.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await ada.openLive("/assistant");
  const field = page.getByLabel("Message", { exact: true });
  await field.fill("code");
  await field.press("Enter");
  const answer = page.locator(".chat-answer:not(.chat-live)");
  await answer.getByRole("button", { name: "Copy this code" }).click();
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  await until("the code is copied", async () => (await copied()).trim() === "echo one\necho two");
  await answer.getByRole("button", { name: "Copy this answer" }).click();
  await until("the answer is copied", async () => (await copied()).startsWith("Run "));
  assert.equal(await copied(), "Run **this**:\n\n~~~sh\necho one\necho two\n~~~\n\nDone.");
  assert.deepEqual(await findings(page), []);
  await picture(page, "assistant-copy");
  // There is one button for each block, also after the page was put in anew.
  await page.reload();
  await isLive(page);
  assert.equal(await answer.getByRole("button", { name: "Copy this code" }).count(), 1);
});
