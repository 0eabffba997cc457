// Who types goes on typing, whatever the page does: no letter of a sentence is a shortcut, and no
// words are for something that nobody has seen.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { serve, until, visitor } from "./harness.mjs";

const GUIDE = "# Guide\n\nThe first line is plain.\n\nThe second line is long.\n";
/** The first revision comes at once, the others when a file is there. */
const REWRITE = `
if [ -e "$OUT/first" ]; then
  until [ -e "$OUT/on" ]; do sleep 0.05; done
  sed -e 's/plain/finer/' "$root/$path" | propose --summary "Finer"
else
  touch "$OUT/first"
  sed -e 's/plain/fine/' "$root/$path" | propose --summary "Fine"
fi
`;

async function begin(t, options = {}) {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, (it) => it.topicKind("rewrite", REWRITE));
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  const id = await site.proposal("rewrite", topic);
  const page = await (await visitor(t, site, options)).openLive(`/proposals/${id}`);
  return { site, topic, id, page, goOn: () => fs.writeFileSync(path.join(site.out, "on"), "") };
}

const commits = (site) => site.git("rev-list", "--count", "HEAD");
const second = (page) => page.locator("#review[data-revision='2']").waitFor();

/** Whether a field has the focus. */
const has = (field) => field.evaluate((it) => it === document.activeElement);

test("who types a reason goes on in it when the revision comes that they have requested", async (t) => {
  const { site, page, goOn } = await begin(t);
  const before = commits(site);
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog");
  await dialog.locator("textarea[name=reason]").fill("Make it short");
  await dialog.getByRole("button", { name: "Request changes" }).click();
  await dialog.waitFor({ state: "detached" });
  const reason = page.locator("#reject textarea[name=reason]");
  await reason.click();
  await page.keyboard.type("I want ");
  goOn();
  await second(page);
  await page.keyboard.type("a plain answer");
  assert.equal(await reason.inputValue(), "I want a plain answer");
  assert.ok(await has(reason));
  await page.locator(".rv-news").waitFor();
  // Nobody has looked at it, and that moves nothing either.
  await page.keyboard.press("Control+Enter");
  await page.locator("#say", { hasText: "Review it first" }).waitFor({ state: "attached" });
  await page.keyboard.type(" to this");
  assert.equal(await reason.inputValue(), "I want a plain answer to this");
  assert.equal(await dialog.count(), 0);
  assert.equal(commits(site), before);
});

test("a request that was refused awaits no revision", async (t) => {
  const { site, page, id, goOn } = await begin(t, { allow: [/status of 4/], worker: false });
  await page.route("**/rework", (route) => route.fulfill({ status: 409, body: "<main id=main><p class=message>No</p></main>" }));
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog");
  await dialog.locator("textarea[name=reason]").fill("Make it short");
  await dialog.getByRole("button", { name: "Request changes" }).click();
  await dialog.locator(".form-refusal").waitFor();
  await dialog.getByRole("button", { name: "Not now" }).click();
  await dialog.waitFor({ state: "detached" });
  await site.post(`/api/proposals/${id}/rework`, { reason: "Make it long" });
  goOn();
  await second(page);
  await page.locator(".rv-news").waitFor();
});

test("who types in a form that goes goes on beside it, and in the form when it is back", async (t) => {
  const { site, page, id, goOn } = await begin(t);
  const before = commits(site);
  const reason = page.locator("#rework textarea[name=reason]");
  await reason.click();
  await page.keyboard.type("Please give");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await site.post(`/api/proposals/${id}/rework`, { reason: "Make it long" });
  await reason.waitFor({ state: "detached" });
  const kept = page.locator(".rv-kept textarea");
  await kept.waitFor();
  assert.ok(await has(kept));
  await page.keyboard.type("a an");
  assert.equal(await kept.inputValue(), "Please gia anve");
  goOn();
  await second(page);
  await kept.waitFor({ state: "detached" });
  await page.keyboard.type(" all a");
  assert.equal(await reason.inputValue(), "Please gia an all ave");
  await page.locator(".rv-news").waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.equal(commits(site), before);
});

test("who types in a Topic that somebody closes goes on beside its form", async (t) => {
  const { site, topic, page } = await begin(t);
  await page.goto(`/topics/${topic}`);
  await page.waitForFunction(() => document.documentElement.dataset.connection === "live");
  const message = page.getByLabel("Your message");
  await message.click();
  await page.keyboard.type("once more now an");
  await site.post(`/api/topics/${topic}/discard`, {});
  const kept = page.locator(".rv-kept textarea");
  await kept.waitFor();
  await page.keyboard.type("d then as well");
  assert.equal(await kept.inputValue(), "once more now and then as well");
});

test("letters that are typed on when a field is gone are no shortcuts", async (t) => {
  const { page } = await begin(t);
  const dialog = page.getByRole("dialog");
  await page.locator("#reject textarea[name=reason]").click();
  await page.keyboard.type("I want ");
  await page.evaluate(() => document.querySelector("#reject").remove());
  for (const key of ["a", " ", "r", "Enter", "a"]) await page.keyboard.press(key);
  assert.equal(await dialog.count(), 0);
  // What somebody looks for after that is.
  await page.keyboard.press("Escape");
  await page.keyboard.press("a");
  await dialog.waitFor();
  // And so are they after who has left a field by a key.
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.locator("#rework textarea[name=reason]").click();
  await page.keyboard.type("x");
  await page.keyboard.press("Tab");
  await until("the field is left", () => page.evaluate(() => !document.activeElement.matches("textarea")));
  await page.keyboard.press("a");
  await dialog.waitFor();
});
