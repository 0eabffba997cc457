// Channels: made by a form, talked in with an agent, followed live, paused and ended; on a phone, in
// both themes, and without scripts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findings, PHONE, serve, visitor } from "./harness.mjs";

/** An agent that answers everything with the number of what it has heard. */
const TALKER = `count=0
while IFS= read -r line; do
count=$((count+1))
id=$(printf '%s' "$line" | sed 's/^{"id":"\\([^"]*\\)".*/\\1/')
printf '{"turn":"ended","id":"%s","text":"answer %s to you, @operator and @nobody\\\\n\\\\nDecision: go on"}\\n' "$id" "$count"
done
`;

const agents = (site) => {
  site.write("talker.sh", TALKER);
  site.lua += `
wb.engine "talker" { type = "stream", speaks = "lines", command = { "/bin/sh", "${site.top}/talker.sh" } }
wb.agent "robbo" { about = "A test", engine = "talker", autostart = "on_message", on_server_loss = "kill" }
`;
};

const isWithin = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);

test("a person and an agent talk on a page that follows them", async (t) => {
  const site = await serve(t, {}, agents);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/channels");
  await page.getByText("No channel is open.").waitFor();
  await page.getByRole("link", { name: "New channel" }).click();
  await page.getByLabel("Name").fill("Release plan");
  await page.getByLabel("robbo").check();
  await page.getByRole("button", { name: "Create channel" }).click();
  await page.waitForURL(/\/channels\/workshop-release-plan-1$/);
  await page.getByText("robbo hears you when it is ready.").waitFor();
  assert.deepEqual(await findings(page), []);
  const box = page.locator("#say textarea");
  await box.fill("What is left, @robbo?");
  await box.press("Enter");
  await page.locator(".ch-agent", { hasText: "answer 1 to you" }).waitFor();
  await page.locator(".ch-at", { hasText: "@robbo" }).waitFor();
  assert.equal(await page.locator(".ch-at", { hasText: "@nobody" }).count(), 0);
  await page.locator(".ch-agent", { hasText: "answers 1" }).waitFor();
  assert.equal(await box.inputValue(), "");
  // What others say comes by itself, and the box keeps what is typed.
  await box.fill("half a");
  await site.post("/api/channels/1/messages", { body: "From elsewhere" });
  await page.locator(".ch-line", { hasText: "From elsewhere" }).waitFor();
  await page.locator(".ch-agent", { hasText: "answer 2 to you" }).waitFor();
  assert.equal(await box.inputValue(), "half a");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator(".ch-paused", { hasText: "Paused by a person." }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.locator(".ch-paused").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Complete" }).click();
  await page.getByText("This channel is complete.").waitFor();
  await page.getByRole("link", { name: "Read it as Markdown" }).waitFor();
  await page.goto("/channels?status=complete");
  await page.getByText("Release plan").waitFor();
});

test("a channel is read and talked in on a phone, in both themes", async (t) => {
  const site = await serve(t, {}, agents);
  await site.post("/api/channels", { name: "Phone", message: "Hello **there**" });
  for (const theme of ["light", "dark"]) {
    const ada = await visitor(t, site, { viewport: PHONE, touch: true, theme });
    const page = await ada.openLive("/channels/workshop-phone-1");
    await page.locator(".ch-line strong", { hasText: "there" }).waitFor();
    assert.ok(await isWithin(page));
    await page.locator("#say textarea").fill(`From a phone, ${theme}`);
    await page.getByRole("button", { name: "Send" }).tap();
    await page.locator(".ch-line", { hasText: `From a phone, ${theme}` }).waitFor();
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    await page.goto("/channels");
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
  }
});

test("without scripts a channel is made, talked in and left by forms", async (t) => {
  const site = await serve(t, {}, agents);
  const ada = await visitor(t, site, { script: false });
  const page = await ada.open("/channels/new");
  await page.getByLabel("Name").fill("Plain");
  await page.getByLabel("First message").fill("One");
  await page.getByRole("button", { name: "Create channel" }).click();
  await page.locator(".ch-line", { hasText: "One" }).waitFor();
  await page.locator("#say textarea").fill("Two");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".ch-line", { hasText: "Two" }).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("Paused by a person. What waits is kept.").waitFor();
});
