// Who types in a form that goes away loses nothing of what they go on to type: it is a draft of the
// form like what they typed before, and in the form when it is back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isLive, serve, until, visitor } from "./harness.mjs";

const GUIDE = "# Guide\n\nThe first line is plain.\n\nThe second line is long.\n";

async function begin(t) {
  const site = await serve(t, { files: { "guide.md": GUIDE } });
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  const ada = await visitor(t, site, { worker: false, allow: [/status of 409/] });
  /** Opens the Topic beside its document, or on its own page. */
  const open = async (isBeside) => {
    const page = await ada.openLive(isBeside ? "/d/guide.md" : `/topics/${topic}`);
    if (!isBeside) return [page, page.locator("#thread")];
    const card = page.locator(`#topic-${topic}`);
    await card.locator(".note-title").click();
    await card.getByLabel("Your message").waitFor();
    return [page, card];
  };
  const verb = (name) => site.post(`/api/topics/${topic}/${name}`, {});
  const said = async () => (await site.get(`/api/topics/${topic}`)).messages.map((it) => it.body);
  return { site, topic, ada, open, close: () => verb("discard"), reopen: () => verb("reopen"), said };
}

const boxes = (place) => place.locator(".rv-kept textarea");
const has = (field, text) => until(`the field has “${text}”`, async () => await field.inputValue() === text);
const hasFocus = (field) => field.evaluate((it) => it === document.activeElement);

/** Lets nothing that is posted to an address go before `go` is called. */
async function hold(page, address) {
  const held = [];
  await page.route(address, async (route) => {
    if (route.request().method() === "POST") await new Promise((resolve) => held.push(resolve));
    await route.continue();
  });
  const isHeld = () => until("it is on its way", () => held.length > 0);
  return { isHeld, go: () => held.shift()() };
}

for (const isBeside of [true, false]) {
  const where = isBeside ? "beside the document" : "on its own page";

  test(`what is typed on after a Topic was closed is in its form again, ${where}`, async (t) => {
    const { topic, open, close, reopen, said } = await begin(t);
    const [page, place] = await open(isBeside);
    const message = place.getByLabel("Your message");
    await message.click();
    await page.keyboard.type("First part");
    await close();
    await boxes(place).waitFor();
    await page.keyboard.type(" and second part");
    // Who types when it is back goes on there.
    await reopen();
    await boxes(place).waitFor({ state: "detached" });
    await page.keyboard.type(".");
    await has(message, "First part and second part.");
    assert.ok(await hasFocus(message));
    // And over a visit to another page.
    await close();
    await boxes(place).waitFor();
    await page.keyboard.type(" Third.");
    await page.goto("/");
    await reopen();
    await page.goto(isBeside ? "/d/guide.md" : `/topics/${topic}`);
    await isLive(page);
    if (isBeside) await page.locator(`#topic-${topic} .note-title`).click();
    await has(message, "First part and second part. Third.");
    await place.getByRole("button", { name: "Reply" }).click();
    await until("it is there", async () => (await said()).includes("First part and second part. Third."));
    assert.equal(await boxes(place).count(), 0);
  });

  test(`who reopens a Topic by its button finds all that they typed, ${where}`, async (t) => {
    const { open, close, said } = await begin(t);
    const [page, place] = await open(isBeside);
    const message = place.getByLabel("Your message");
    await message.click();
    await page.keyboard.type("First part");
    await close();
    await boxes(place).waitFor();
    await page.keyboard.type(" and second part");
    await page.keyboard.press("Tab");
    if (!isBeside) await place.locator("#t-close summary").click();
    await place.getByRole("button", { name: isBeside ? "Reopen" : "Reopen Topic" }).click();
    await has(message, "First part and second part");
    await boxes(place).waitFor({ state: "detached" });
    await place.getByRole("button", { name: "Reply" }).click();
    await until("it is there", async () => (await said()).includes("First part and second part"));
  });

  test(`what is typed on while a reply is on its way and its Topic is closed is kept, ${where}`, async (t) => {
    const { open, close, said } = await begin(t);
    const [page, place] = await open(isBeside);
    const way = await hold(page, "**/messages");
    await place.getByLabel("Your message").click();
    await page.keyboard.type("A reply");
    await page.keyboard.press("Control+Enter");
    await way.isHeld();
    await page.keyboard.type("next ");
    await close();
    await boxes(place).waitFor();
    await place.getByText("What you typed after that. It wasn’t sent.").waitFor();
    assert.ok(await hasFocus(boxes(place)));
    await page.keyboard.type("check the words");
    assert.equal(await boxes(place).inputValue(), "next check the words");
    way.go();
    await place.getByText("What you typed. It wasn’t sent.").waitFor();
    await page.keyboard.type(" ghost");
    assert.equal(await boxes(place).inputValue(), "A reply\nnext check the words ghost");
    assert.equal(await page.locator("dialog[open], .composer:visible").count(), 0);
    assert.equal(await page.locator("#new details[open]").count(), 0);
    assert.deepEqual(await said(), ["Too plain?"]);
  });
}

test("a suggestion that is typed on after its Topic was closed is in its form again", async (t) => {
  const { open, close, reopen } = await begin(t);
  const [page, place] = await open(true);
  await place.getByText("Suggest a change", { exact: true }).click();
  const words = place.getByLabel("New text");
  await words.press("Control+End");
  await page.keyboard.type(" of all");
  await close();
  await boxes(place).waitFor();
  await page.keyboard.type(" and more");
  await reopen();
  await boxes(place).waitFor({ state: "detached" });
  await page.keyboard.type(" so");
  await has(words, "first line of all and more so");
  await place.locator(".sg-diff ins", { hasText: "of all and more so" }).waitFor();
});

test("what is typed on after somebody was removed from a channel is sent when they are back", async (t) => {
  const { site } = await begin(t);
  site.command("person", "add", "bo", "--role", "member");
  await site.post("/api/channels", { name: "Plan", members: [{ person: "bo" }] });
  const bo = await visitor(t, site, { person: "bo" });
  const page = await bo.openLive("/channels/workshop-plan-1");
  const field = page.locator("#ch-say textarea");
  await field.click();
  await page.keyboard.type("part one");
  site.command("channel", "remove", "workshop-plan-1", "bo");
  await boxes(page).waitFor();
  await page.keyboard.type(" part two");
  await page.getByRole("button", { name: "Join to write" }).click();
  await has(field, "part one part two");
  await boxes(page).waitFor({ state: "detached" });
  await field.press("Enter");
  await page.locator(".ch-line", { hasText: "part one part two" }).waitFor();
});

test("a reply leaves a box whose words were no part of it", async (t) => {
  const { open, close, reopen, said } = await begin(t);
  const [page, place] = await open(false);
  // A store that keeps nothing.
  await page.evaluate(() => { Storage.prototype.setItem = () => { throw new Error("full"); }; });
  await place.getByLabel("Your message").click();
  await page.keyboard.type("First part");
  await page.evaluate(() => sessionStorage.clear());
  await close();
  await boxes(place).waitFor();
  await page.keyboard.type(" and second part");
  await page.keyboard.press("Tab");
  await reopen();
  const message = place.getByLabel("Your message");
  await message.fill("First part");
  await place.getByRole("button", { name: "Reply" }).click();
  await until("it is there", async () => (await said()).includes("First part"));
  await has(message, "");
  assert.equal(await boxes(place).inputValue(), "First part and second part");
  // It goes when all of it was sent.
  await message.fill("First part and second part");
  await place.getByRole("button", { name: "Reply" }).click();
  await boxes(place).waitFor({ state: "detached" });
});
