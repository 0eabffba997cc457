// A message to an inbox, written in the form of its schema: on a phone, without scripts, and as JSON.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findings, isWithin, PHONE, serve, until, visitor } from "./harness.mjs";

const SCHEMA = {
  type: "object", required: ["team", "budget"],
  properties: {
    team: { enum: ["billing", "search"] },
    budget: { type: "integer", minimum: 1, maximum: 500, description: "Euro a month" },
    note: { type: "string", maxLength: 300 },
    regions: { type: "array", items: { type: "string" } },
  },
};

const begin = (t) => serve(t, { files: { "open.json": JSON.stringify(SCHEMA) } }, (it) => {
  it.engine("opens", `wb-agent complete --reply "$(cat "$MESSAGE_PATH")"`);
  it.lua += `wb.inbox "accounts/open" { about = "Open an account", engine = "opens", schema = "open.json" }\n`;
});

const sent = async (site) => (await site.get("/api/messages?to=topic:accounts/open")).items.map((it) => it.payload);

test("the form of a schema sends a message, and what is refused stays in its field", async (t) => {
  const site = await begin(t);
  for (const script of [true, false]) {
    const ada = await visitor(t, site, { viewport: PHONE, touch: true, script, allow: [/status of 400/] });
    const page = await ada.open("/inboxes/accounts/open");
    const form = page.locator("form#send");
    await form.getByLabel("team").selectOption("billing");
    await form.getByLabel("budget: Euro a month").fill("300");
    await form.getByLabel("note").fill("Two lines,\nnot <b>lost</b>");
    await form.getByLabel("regions").fill("[1]");
    await form.getByRole("button", { name: "Send" }).tap();
    const wrong = page.locator("form#send .field-refusal");
    await wrong.getByText("string").waitFor();
    assert.equal(await wrong.count(), 1);
    assert.equal(await form.getByLabel("regions").getAttribute("aria-invalid"), "true");
    assert.equal(await form.getByLabel("note").inputValue(), "Two lines,\nnot <b>lost</b>");
    assert.equal(await form.getByLabel("team").inputValue(), "billing");
    assert.ok(await isWithin(page));
    if (script) assert.deepEqual(await findings(page), []);
    await form.getByLabel("regions").fill('["eu"]');
    await form.getByRole("button", { name: "Send" }).tap();
    await page.waitForURL(/\/mail\/[0-9a-f-]{36}$/);
    const payload = { team: "billing", budget: 300, note: "Two lines,\nnot <b>lost</b>", regions: ["eu"] };
    assert.deepEqual((await sent(site))[0], payload);
  }
  assert.equal((await sent(site)).length, 2);
});

test("what no field takes is sent as JSON", async (t) => {
  const site = await begin(t);
  const ada = await visitor(t, site, { allow: [/status of 400/] });
  const page = await ada.openLive("/inboxes/accounts/open");
  await page.getByText("Send as JSON").click();
  const form = page.locator("form#send-json");
  await form.getByLabel("Message").fill('{"team": "sales", "budget": 1}');
  await form.getByRole("button", { name: "Send JSON" }).click();
  await form.locator(".form-refusal", { hasText: "payload.team" }).waitFor();
  const payload = { team: "search", budget: 1, more: { a: [1] } };
  await form.getByLabel("Message").fill(JSON.stringify(payload));
  await form.getByRole("button", { name: "Send JSON" }).click();
  await page.waitForURL(/\/mail\/[0-9a-f-]{36}$/);
  assert.deepEqual(await sent(site), [payload]);
});

test("a message to a person is read by being seen; without scripts, by a button", async (t) => {
  const site = await begin(t);
  for (const script of [true, false]) {
    const words = script ? "Look here" : "And there";
    const { message_id: id } = await site.post("/api/messages", { to: "person:ada", payload: words });
    const page = await (await visitor(t, site, { script })).open("/");
    await page.getByText(words).first().click();
    await page.waitForURL(`**/mail/${id}`);
    if (!script) await page.getByRole("button", { name: "Mark as read" }).click();
    await page.locator("#message-state").getByText("Read", { exact: true }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Mark as read" }).count(), 0);
    await page.goto("/");
    assert.equal(await page.getByText(words).count(), 0, "it is no longer new");
  }
});
