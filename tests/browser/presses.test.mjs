// A press counts for what was there when somebody decided to press: double clicks, and keys that are
// held or struck twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isLive, PHONE, picture, serve, until, visitor, young } from "./harness.mjs";

const GUIDE = "# Guide\n\nThe first line is plain.\n\nThe second line is long.\n";
const REWRITE = `sed -e 's/plain/fine/' "$root/$path" | propose --summary "Finer"`;

/** Returns what presses at a place, now or so many milliseconds after it was made. */
async function finger(page) {
  const way = await page.context().newCDPSession(page);
  const began = Date.now() / 1_000;
  const press = async ({ x, y }, after = Date.now() - began * 1_000) => {
    for (const type of ["mousePressed", "mouseReleased"]) {
      await way.send("Input.dispatchMouseEvent", {
        type, x, y, button: "left", clickCount: 1, timestamp: began + after / 1_000,
      });
    }
  };
  return Object.assign(press, { began: began * 1_000 });
}

async function middle(locator) {
  const { x, y, width, height } = await locator.boundingBox();
  return { x: x + width / 2, y: y + height / 2 };
}

test("a double click on a card of a list does nothing to the card that moves up", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, (it) => {
    it.topicKind("broken", "exit 3", 'lane = "topic_id"');
  });
  for (let times = 0; times < 5; times += 1) {
    const topic_id = await site.topic("guide.md", "first line", `Number ${times}`);
    await site.status(await site.job("broken", { topic_id }), "failed");
  }
  const page = await (await visitor(t, site)).openLive("/");
  const all = page.getByRole("button", { name: /^Dismiss: broken/ });
  const count = (wanted) => until(`there are ${wanted}`, async () => await all.count() === wanted);
  const posts = [];
  page.on("request", (it) => { if (it.method() === "POST") posts.push(it.url()); });
  await count(5);
  const press = await finger(page);
  const place = await middle(all.first());
  await press(place, 0);
  await count(4);
  const hasMovedUp = await page.evaluate(({ x, y }) => document.elementFromPoint(x, y).closest("button") !== null, place);
  assert.ok(hasMovedUp, "another one is there now");
  // A second and a third press.
  await press(place, 250);
  await press(place, 450);
  assert.equal(posts.length, 1);
  // Two presses on two things that were both there count, however fast.
  await press(await middle(all.nth(2)), 60_000);
  await press(await middle(all.nth(0)), 60_100);
  await count(2);
  // And one that comes later.
  await press(await middle(all.first()), 120_000);
  await count(1);
  assert.equal(posts.length, 4);
});

test("a double click on a form that leads to another page is one press, there too", async (t) => {
  const site = await serve(t, {});
  for (const name of ["one", "two", "three", "four"]) await site.post("/api/tokens", { name, scopes: ["read"] });
  const page = await (await visitor(t, site)).openLive("/settings");
  const all = page.getByRole("button", { name: /^Revoke/ });
  const count = (wanted) => until(`there are ${wanted}`, async () => await all.count() === wanted);
  let posts = 0;
  page.on("request", (it) => { posts += Number(it.method() === "POST" && it.url().endsWith("/revoke")); });
  await count(4);
  const press = await finger(page);
  await all.first().scrollIntoViewIfNeeded();
  const place = await middle(all.first());
  await press(place, 0);
  await count(3);
  await isLive(page);
  const bring = () => all.first().evaluate((it, y) => {
    const { top, height } = it.getBoundingClientRect();
    scrollBy({ top: top + height / 2 - y, behavior: "instant" });
  }, place.y);
  await bring();
  await press(place, 250);
  assert.equal(posts, 1);
  await press(place, 60_000);
  await count(2);
  assert.equal(posts, 2);
});

test("Enter that is held or struck twice approves nothing that nobody has seen", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, (it) => it.topicKind("rewrite", REWRITE));
  const id = await site.proposal("rewrite", await site.topic("guide.md", "first line", "Too plain?"));
  const page = await (await visitor(t, site)).openLive(`/proposals/${id}`);
  let posts = 0;
  page.on("request", (it) => { posts += Number(it.method() === "POST" && it.url().endsWith("/approve")); });
  const subject = page.locator(".rv-dialog").getByLabel("Commit subject");
  const approve = page.locator(".rv-bar [data-open=approve]");
  for (const isHeld of [true, false]) {
    await approve.focus();
    await page.keyboard.down("Enter");
    if (!isHeld) await page.keyboard.up("Enter");
    for (let times = 0; times < 4; times += 1) await page.keyboard.down("Enter");
    await page.keyboard.up("Enter");
    await subject.waitFor();
    assert.equal(posts, 0);
    await page.keyboard.press("Escape");
    await page.locator(".rv-dialog").waitFor({ state: "detached" });
  }
  // The key that opens it is not typed into it.
  const before = await page.locator("#approve").getByLabel("Commit subject").inputValue();
  for (let times = 0; times < 4; times += 1) await page.keyboard.down("a");
  await page.keyboard.up("a");
  assert.equal(await subject.inputValue(), before);
  await page.keyboard.press("End");
  await page.keyboard.type("!");
  await page.keyboard.press("Enter");
  await page.locator(".rv-banner-good").waitFor();
  assert.equal(posts, 1);
  assert.equal(site.git("log", "-1", "--format=%s"), `${before}!`);
});

test("a button that has taken the place of another one, whoever changed the page, is pressed twice", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, (it) => it.topicKind("later", "true"));
  for (let times = 0; times < 3; times += 1) {
    const topic_id = await site.topic("guide.md", "first line", `Number ${times}`);
    await site.job("later", { topic_id, not_before: "2099-01-01T00:00:00Z" });
  }
  const page = await (await visitor(t, site)).openLive("/jobs");
  const all = page.getByRole("button", { name: /^Cancel later/ });
  const count = (wanted) => until(`there are ${wanted}`, async () => await all.count() === wanted);
  const posts = [];
  page.on("request", (it) => { if (it.method() === "POST") posts.push(it.url()); });
  await count(3);
  const press = await finger(page);
  const place = await middle(all.first());
  const first = await all.first().evaluate((it) => it.form.action);
  await young(page);
  await site.post(`/api/agent${new URL(first).pathname}`, {});
  await count(2);
  await press(place);
  await page.getByText("Another button was here a moment ago.").waitFor();
  await picture(page, "press-unseen");
  assert.deepEqual(posts, []);
  await press(place, 60_000);
  await count(1);
  assert.equal(posts.length, 1);
});

test("two taps that are not at quite the same place close a Topic and do not reopen it", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } });
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  const ada = await visitor(t, site, { viewport: PHONE, touch: true });
  const page = await ada.openLive(`/topics/${topic}`);
  await page.getByText("Close without a change").tap();
  const close = page.getByRole("button", { name: "Close Topic" });
  await close.evaluate((it) => it.scrollIntoView({ block: "center", behavior: "instant" }));
  const { x, y } = await middle(close);
  await young(page);
  await page.touchscreen.tap(x, y);
  const reopen = page.getByRole("button", { name: "Reopen Topic" });
  await reopen.waitFor();
  const now = await reopen.boundingBox();
  const isThere = x > now.x && y + 13 > now.y && x < now.x + now.width && y + 13 < now.y + now.height;
  assert.ok(isThere, "it stands in the same place");
  await page.touchscreen.tap(x - 4, y + 13);
  await page.getByText("Another button was here a moment ago.").waitFor();
  await picture(page, "press-unseen-phone");
  const { topic: shown } = await site.get(`/api/topics/${topic}`);
  assert.equal(shown.status, "discarded");
});

test("a finger that came down before the page changed reopens no Topic when it comes up", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } });
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  const ada = await visitor(t, site, { viewport: PHONE, touch: true, worker: false });
  const page = await ada.openLive(`/topics/${topic}`);
  await page.getByText("Close without a change").tap();
  const close = page.getByRole("button", { name: "Close Topic" });
  await close.evaluate((it) => it.scrollIntoView({ block: "center", behavior: "instant" }));
  const { x, y } = await middle(close);
  let goOn = null;
  const answered = new Promise((resolve) => { goOn = resolve; });
  await page.route("**/discard", async (route) => {
    await answered;
    await route.continue();
  });
  await page.touchscreen.tap(x, y);
  const way = await page.context().newCDPSession(page);
  const touch = (type, touchPoints) => way.send("Input.dispatchTouchEvent", { type, touchPoints });
  await touch("touchStart", [{ x: x - 4, y: y + 13 }]);
  goOn();
  await page.getByRole("button", { name: "Reopen Topic" }).waitFor();
  await touch("touchEnd", []);
  await page.getByText("Another button was here a moment ago.").waitFor();
  const { topic: shown } = await site.get(`/api/topics/${topic}`);
  assert.equal(shown.status, "discarded");
});

/** Returns how many milliseconds after a time a page was first shown. */
async function shownAfter(page, began) {
  await isLive(page);
  const shown = await page.waitForFunction(() => {
    const [first] = performance.getEntriesByName("first-contentful-paint");
    return first && performance.timeOrigin + first.startTime;
  });
  return await shown.jsonValue() - began;
}

test("what a form has loaded anew presses nothing where another button stood", async (t) => {
  const site = await serve(t, {});
  for (const name of ["one", "two", "three"]) await site.post("/api/tokens", { name, scopes: ["read"] });
  const page = await (await visitor(t, site)).openLive("/settings");
  const all = page.getByRole("button", { name: /^Revoke/ });
  const count = (wanted) => until(`there are ${wanted}`, async () => await all.count() === wanted);
  let posts = 0;
  page.on("request", (it) => { posts += Number(it.method() === "POST" && it.url().endsWith("/revoke")); });
  await count(3);
  await all.first().scrollIntoViewIfNeeded();
  const press = await finger(page);
  const place = await middle(all.first());
  await press(place, 0);
  await count(2);
  const shown = await shownAfter(page, press.began);
  await all.first().evaluate((it, y) => {
    const { top, height } = it.getBoundingClientRect();
    scrollBy({ top: top + height / 2 - y, behavior: "instant" });
  }, place.y);
  // No double click any more, and nobody has seen it yet.
  await press(place, shown + 700);
  await page.getByText("Another button was here a moment ago.").waitFor();
  assert.equal(posts, 1);
  await press(await middle(all.first()), shown + 5_000);
  await count(1);
  assert.equal(posts, 2);
});

test("Start that is pressed again once the page is there does not restart the agent", async (t) => {
  const site = await serve(t, {}, (it) => {
    it.write("talker.sh", "while read -r line; do :; done\n");
    it.lua += `
wb.engine "talker" { type = "stream", speaks = "lines", command = { "/bin/sh", "${it.top}/talker.sh" } }
wb.agent "robbo" { about = "A test", engine = "talker", autostart = "never", on_server_loss = "kill" }
`;
  });
  const page = await (await visitor(t, site)).openLive("/agents/robbo");
  const posts = [];
  page.on("request", (it) => { if (it.method() === "POST") posts.push(new URL(it.url()).pathname); });
  const press = await finger(page);
  const place = await middle(page.getByRole("button", { name: "Start" }));
  await press(place, 0);
  await page.getByRole("button", { name: "Restart" }).waitFor();
  const shown = await shownAfter(page, press.began);
  await until("Restart stands in the same place", () => page.evaluate(({ x, y }) => {
    return document.elementFromPoint(x, y)?.textContent === "Restart";
  }, place));
  await press(place, shown + 700);
  await page.getByText("Another button was here a moment ago.").waitFor();
  assert.deepEqual(posts, ["/agents/robbo/start"]);
});

test("Run again that is pressed again does not cancel the new job, whose page is there by then", async (t) => {
  const site = await serve(t, {}, (it) => {
    it.topicKind("broken", `if [ -e "$OUT/once" ]; then while :; do sleep 1; done; fi
touch "$OUT/once"
exit 3`);
  });
  const topic_id = await site.topic("guide.md", "The first line", "Please");
  const job = await site.job("broken", { topic_id });
  await site.status(job, "failed");
  const page = await (await visitor(t, site)).openLive(`/jobs/${job}`);
  const posts = [];
  page.on("request", (it) => { if (it.method() === "POST") posts.push(new URL(it.url()).pathname); });
  const press = await finger(page);
  const place = await middle(page.getByRole("button", { name: "Run again" }));
  await press(place, 0);
  const cancel = page.getByRole("button", { name: "Cancel job" });
  await cancel.waitFor();
  const shown = await shownAfter(page, press.began);
  // A new page is scrolled to its beginning; a press counts for what stood at the same place.
  await cancel.evaluate((it, { x, y }) => {
    const { left, top, width, height } = it.getBoundingClientRect();
    it.style.translate = `${x - left - width / 2}px ${y - top - height / 2}px`;
  }, place);
  await press(place, shown + 700);
  await page.getByText("Another button was here a moment ago.").waitFor();
  assert.deepEqual(posts, [`/jobs/${job}/retry`]);
  await press(place, shown + 5_000);
  await until("it is cancelled", async () => posts.length === 2);
});

test("what is dismissed on one device leaves the other, too", async (t) => {
  const site = await serve(t, {}, (it) => it.topicKind("breaks", "exit 3"));
  const topic_id = await site.topic("guide.md", "The first line", "Please");
  await site.status(await site.job("breaks", { topic_id }), "failed");
  const pages = [];
  for (let times = 0; times < 2; times += 1) pages.push(await (await visitor(t, site)).openLive("/"));
  const [here, there] = pages.map((it) => it.getByRole("button", { name: /^Dismiss: breaks/ }));
  await there.waitFor();
  await here.click();
  await there.waitFor({ state: "detached" });
});
