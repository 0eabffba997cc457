// What waits for a decision: one list, and an approval that is decided on a phone, by keys, without
// scripts, and while somebody else decides.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { DESKTOP, findings, isWithin, PHONE, serve, visitor } from "./harness.mjs";

const QUESTION = {
  channel: "aws", title: "Create account billing-prod?",
  payload: { team: "billing", budget: 300, regions: ["eu-west-1"], dry_run: false },
  schema: {
    type: "object", required: ["team"],
    properties: {
      team: { enum: ["billing", "search"] },
      budget: { type: "integer", minimum: 1, maximum: 500, description: "Euro a month" },
    },
  },
};

const ask = async (site, question = QUESTION) => (await site.post("/api/approvals", question)).id;

test("an approval is changed and approved on a phone", async (t) => {
  const site = await serve(t);
  for (const theme of ["light", "dark"]) {
    const id = await ask(site);
    const ada = await visitor(t, site, { viewport: PHONE, touch: true, theme });
    const page = await ada.openLive("/decisions");
    await page.locator(".bar-count", { hasText: "1" }).waitFor();
    assert.ok(await isWithin(page));
    await page.getByText("Create account billing-prod?").tap();
    await page.waitForURL(`${site.origin}/approvals/${id}`);
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    await page.locator(".rv-bar").getByRole("link", { name: "Change" }).tap();
    const dialog = page.getByRole("dialog", { name: "Approve with changes" });
    await dialog.getByLabel("budget").fill("100");
    await dialog.getByLabel("Note").fill("Begin small.");
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    await dialog.getByRole("button", { name: "Approve with changes" }).tap();
    await page.locator("#p-head", { hasText: "Approved with changes" }).waitFor();
    await page.locator("#p-change", { hasText: "100" }).waitFor();
    assert.ok(await isWithin(page));
    assert.deepEqual(await findings(page), []);
    const found = await site.get(`/api/approvals/${id}`);
    assert.equal(found.state, "amended");
    assert.deepEqual(found.changes, { ...QUESTION.payload, budget: 100 });
    assert.equal(found.note, "Begin small.");
    await page.goto("/decisions");
    await page.getByText("Nothing to review.").waitFor();
    assert.deepEqual(await findings(page), []);
  }
});

test("the count of what waits follows on the page of a document too", async (t) => {
  const site = await serve(t);
  const page = await (await visitor(t, site)).openLive("/d/guide.md");
  const count = page.locator(".bar-count");
  for (const expected of ["1 waiting", "2 waiting"]) {
    await ask(site);
    await count.getByText(expected).waitFor();
  }
  await page.close();
});

test("what does not fit the schema is refused beside the form, and nothing is lost", async (t) => {
  const site = await serve(t);
  const id = await ask(site);
  const ada = await visitor(t, site, { allow: [/status of 400/] });
  const page = await ada.openLive(`/approvals/${id}`);
  const form = page.locator("form#amend");
  await form.getByLabel("regions").fill("[eu");
  await form.getByRole("button").click();
  await form.locator(".form-refusal", { hasText: "payload.regions" }).waitFor();
  assert.equal(await form.getByLabel("regions").inputValue(), "[eu");
  assert.equal((await site.get(`/api/approvals/${id}`)).version, 1);
});

test("keys lead to the list, through it, and decide", async (t) => {
  const site = await serve(t);
  const [first, second] = [await ask(site), await ask(site, { channel: "dns", title: "Move the zone?" })];
  const ada = await visitor(t, site);
  const page = await ada.openLive("/");
  await page.keyboard.press("g");
  await page.keyboard.press("d");
  await page.waitForURL(`${site.origin}/decisions`);
  await page.waitForFunction(() => document.documentElement.dataset.modules === "started");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${site.origin}/approvals/${first}`);
  await page.waitForFunction(() => document.documentElement.dataset.modules === "started");
  await page.keyboard.press("x");
  const dialog = page.getByRole("dialog", { name: "Reject" });
  await dialog.getByLabel("Note").fill("Not now.");
  await dialog.getByRole("button", { name: "Reject" }).click();
  await page.locator("#p-head", { hasText: "Not now." }).waitFor();
  await page.goto(`/approvals/${second}`);
  await page.waitForFunction(() => document.documentElement.dataset.modules === "started");
  await page.keyboard.press("a");
  await page.getByRole("dialog", { name: "Approve" }).getByRole("button", { name: "Approve" }).click();
  await page.locator("#p-head", { hasText: "Approved" }).waitFor();
  assert.equal((await site.get(`/api/approvals/${second}`)).state, "approved");
});

test("without scripts a form decides, and an open page hears of it", async (t) => {
  const site = await serve(t);
  const id = await ask(site);
  const bob = await visitor(t, site);
  const open = await bob.openLive(`/approvals/${id}`);
  const list = await bob.openLive("/decisions");
  const ada = await visitor(t, site, { script: false });
  const page = await ada.open(`/approvals/${id}`);
  await page.locator("form#reject textarea").fill("Too expensive.");
  await page.locator("form#reject button").click();
  await page.waitForURL(`${site.origin}/approvals/${id}`);
  await page.locator("#p-head", { hasText: "Too expensive." }).waitFor();
  await open.locator("#p-head", { hasText: "Too expensive." }).waitFor();
  assert.equal(await open.locator("form#approve").count(), 0);
  await list.getByText("Nothing to review.").waitFor();
});

test("titles, payloads and notes of strangers are text", async (t) => {
  const site = await serve(t);
  const evil = "<img src=x onerror=alert(1)>\u202e<b>";
  const id = await ask(site, {
    channel: "aws", title: `Title ${evil}`,
    payload: { [`key ${evil}`]: `value ${evil}`, text: `two\nlines </textarea>${evil}`, deep: { [evil]: [evil] } },
    schema: { properties: { text: { description: evil } } },
  });
  const long = await ask(site, { channel: "aws", title: "W".repeat(200), payload: { ["k".repeat(300)]: "v".repeat(3000) } });
  const ada = await visitor(t, site, { viewport: DESKTOP });
  const page = await ada.openLive(`/approvals/${id}`);
  assert.equal(await page.locator("main img, main b").count(), 0);
  const form = page.locator("form#amend");
  await form.locator("textarea[name='field.text']").fill("Plain.");
  await form.locator("textarea[name=note]").fill(evil);
  await form.getByRole("button").click();
  await page.locator("#p-past", { hasText: "onerror" }).waitFor();
  assert.equal(await page.locator("main img, main b").count(), 0);
  const phone = await visitor(t, site, { viewport: PHONE, touch: true });
  const small = await phone.openLive(`/approvals/${long}`);
  assert.ok(await isWithin(small));
  await small.goto("/decisions");
  assert.ok(await isWithin(small));
});

// An agent that asks once whether it may use a tool, and answers with what it was told.
const ASKER = String.raw`
read -r line
id=$(printf '%s' "$line" | sed -n 's/^{"id":"\([^"]*\)".*/\1/p')
printf '{"turn":"began","id":"%s"}\n' "$id"
mkfifo "$TOP/hold"
{ cat "$TOP/call.json"; cat "$TOP/hold"; } | wb-agent mcp permission | {
  read -r told; printf '%s\n' "$told" > "$TOP/told"; : > "$TOP/hold"
}
printf '{"turn":"ended","id":"%s","text":"done"}\n' "$id"
read -r line
`;

test("a tool is allowed on a phone, and its input is text", async (t) => {
  const command = "rm -rf build <img src=x onerror=alert(1)>\u202e";
  const site = await serve(t, {}, (it) => {
    it.write("asker.sh", ASKER);
    const params = { name: "permission", arguments: { tool_name: "Bash", input: { command } } };
    it.write("call.json", `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params })}\n`);
    it.lua += `
wb.engine "asker" { type = "stream", speaks = "lines", command = { "/bin/sh", "${it.top}/asker.sh" },
  env = { TOP = "${it.top}" } }
wb.agent "robbo" { about = "A test", engine = "asker", autostart = "on_message", on_server_loss = "kill" }
`;
  });
  const sent = await site.post("/api/messages", { to: "agent:robbo", payload: "Go" });
  const ada = await visitor(t, site, { viewport: PHONE, touch: true });
  const page = await ada.openLive("/agents/robbo");
  // Its agent starts first, which takes its time on a busy machine.
  await page.getByRole("link", { name: "Review" }).waitFor({ timeout: 60_000 });
  await page.getByRole("link", { name: "Review" }).tap();
  await page.locator("h1", { hasText: "Bash: rm -rf build" }).waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  assert.ok(await isWithin(page));
  assert.deepEqual(await findings(page), []);
  await page.waitForFunction(() => document.documentElement.dataset.modules === "started");
  await page.locator(".rv-bar").getByRole("link", { name: "Approve", exact: true }).tap();
  await page.getByRole("dialog", { name: "Approve" }).getByRole("button", { name: "Approve" }).tap();
  await page.locator("#p-head", { hasText: "Approved" }).waitFor();
  const answer = await site.get(`/api/messages/${sent.message_id}/await?timeout=20`);
  assert.equal(answer.reply, "done");
  const told = JSON.parse(readFileSync(`${site.top}/told`, "utf8"));
  const allowed = JSON.parse(told.result.content[0].text);
  assert.deepEqual(allowed, { behavior: "allow", updatedInput: { command } });
});
