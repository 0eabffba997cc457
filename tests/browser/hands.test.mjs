// What a hand does: words are dragged over by a mouse, held by a finger, a picture is clicked; and the
// pages of refusals that a form leads to.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { PHONE, serve, until, visitor } from "./harness.mjs";

/** A little longer than the page waits after a change of what is selected. */
const SETTLE_MS = 200;
const POINT = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==", "base64");
const BANK = `# Bank

The *north* bank is \`steep\` and quiet.

![A picture of the bank](bank.png)

The south bank is flat.
`;

async function read(visiting) {
  const page = await visiting.open("/d/bank.md");
  await page.waitForSelector(".reader[data-ready]");
  return page;
}

/** Returns where some words of the text are on the screen. */
function boxOf(page, words) {
  return page.evaluate((words) => {
    const walker = document.createTreeWalker(document.querySelector("#text"), NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const at = node.data.indexOf(words);
      if (at < 0) continue;
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + words.length);
      const { left, right, top, height } = range.getBoundingClientRect();
      return { left, right, middle: top + height / 2 };
    }
    throw new Error(`no ${words}`);
  }, words);
}

/** Fills in the form that is open, and returns the Topic that it makes. */
async function open(site, page, message) {
  await page.waitForFunction(() => document.querySelector(".composer blockquote").textContent !== "");
  await page.fill(".composer textarea[name=body]", message);
  await page.click(".composer .button-main");
  await page.locator(".note-title", { hasText: message }).first().waitFor({ state: "attached" });
  return (await site.get("/api/topics?source_path=bank.md")).items.find((it) => it.title === message);
}

test("words that a mouse is dragged over become a Topic, and a picture that is clicked too", async (t) => {
  const site = await serve(t, { files: { "bank.md": BANK, "bank.png": POINT } });
  const ada = await visitor(t, site);
  const page = await read(ada);
  const [from, to] = [await boxOf(page, "north"), await boxOf(page, "steep")];
  await page.mouse.move(from.left + 1, from.middle);
  await page.mouse.down();
  await page.mouse.move((from.left + to.right) / 2, from.middle, { steps: 4 });
  await page.mouse.move(to.right - 1, to.middle, { steps: 4 });
  assert.equal(await page.locator(".reader-pop").isVisible(), false, "not while the button is down");
  await page.mouse.up();
  await page.locator(".reader-pop [aria-label='Comment on this passage']").click();
  const dragged = await open(site, page, "By a mouse");
  assert.equal(dragged.anchor.quote, "north* bank is `steep");
  // A click on marked words leads to their note, and takes nothing else.
  const words = await boxOf(page, "steep");
  await page.mouse.click((words.left + words.right) / 2, words.middle);
  await page.locator(`#topic-${dragged.id}.is-active`).waitFor();
  assert.equal(await page.locator(".reader-pop").isVisible(), false);
  // That the caret has left the words may be told late; the button beside the picture stays. It is
  // told here, and looked at after the page has done what it then waits to do.
  await page.locator("#text img").click();
  await page.evaluate((settle) => new Promise((done) => {
    document.dispatchEvent(new Event("selectionchange"));
    setTimeout(done, settle);
  }), SETTLE_MS);
  await page.locator(".reader-pop [aria-label='Comment on this passage']").click();
  const picture = await open(site, page, "Of the picture");
  assert.equal(picture.anchor.quote, "![A picture of the bank](bank.png)");
  // A double click takes a word.
  const south = await boxOf(page, "south");
  await page.mouse.dblclick((south.left + south.right) / 2, south.middle);
  await page.locator(".reader-pop [aria-label='Comment on this passage']").click();
  assert.equal((await open(site, page, "A word")).anchor.quote, "south");
  await page.close();
});

test("words that a finger holds become a Topic, on a phone", async (t) => {
  const site = await serve(t, { files: { "bank.md": BANK, "bank.png": POINT } });
  const ada = await visitor(t, site, { viewport: PHONE, touch: true });
  const page = await read(ada);
  const wire = await ada.context.newCDPSession(page);
  const { left, right, middle } = await boxOf(page, "quiet");
  const touch = (type, ...touchPoints) => wire.send("Input.dispatchTouchEvent", { type, touchPoints });
  await touch("touchStart", { x: (left + right) / 2, y: middle });
  // The system of a phone selects while the finger is down; a Chromium without a screen does not.
  await page.evaluate(([x, y]) => {
    const { offsetNode, offset } = document.caretPositionFromPoint(x, y);
    getSelection().collapse(offsetNode, offset);
    getSelection().modify("move", "backward", "word");
    getSelection().modify("extend", "forward", "word");
  }, [(left + right) / 2, middle]);
  await page.locator(".reader-pop").waitFor();
  // Its handles are drawn until they have the other words too.
  await touch("touchMove", { x: left - 40, y: middle });
  await page.evaluate(() => getSelection().modify("extend", "backward", "word"));
  await page.evaluate(() => getSelection().modify("extend", "forward", "word"));
  await touch("touchEnd");
  const [words, button] = await Promise.all([boxOf(page, "quiet"), page.locator(".reader-pop").boundingBox()]);
  assert.ok(button.y > words.middle, "below the words: a phone's own menu is above them");
  assert.ok(button.x >= 0 && button.x + button.width <= PHONE.width);
  await page.locator(".reader-pop [aria-label='Comment on this passage']").tap();
  const held = await open(site, page, "By a finger");
  assert.equal(held.anchor.quote, "quiet");
  // A tap on it brings its note up; one beside it closes nothing that is written.
  const again = await boxOf(page, "quiet");
  await page.touchscreen.tap((again.left + again.right) / 2, again.middle);
  await page.locator(`#topic-${held.id}.is-active`).waitFor();
  assert.ok(await page.locator("#notes").isVisible());
  await page.close();
});

test("a form that is refused leads to a page that says why, with what was typed and the way back", async (t) => {
  const site = await serve(t);
  await site.post("/api/persons", { name: "vic", role: "viewer" });
  const topic = await site.topic("guide.md", "The first line", "To be closed");
  const send = async (visiting, address, fields) => {
    const page = await visiting.open(`/topics/${topic}`);
    await page.evaluate(([address, fields]) => {
      const form = document.createElement("form");
      Object.assign(form, { method: "post", action: address });
      for (const [name, value] of Object.entries(fields)) {
        const field = document.createElement("textarea");
        Object.assign(field, { name, value });
        form.append(field);
      }
      document.body.append(form);
      form.submit();
    }, [address, fields]);
    await page.locator("main .code").waitFor();
    return page;
  };
  const allow = [/status of 4\d\d/];
  const ada = await visitor(t, site, { allow });
  await site.post(`/api/topics/${topic}/discard`);
  for (const [status, heading, address, fields, typed] of [
    [409, "Conflict with the current state", `/topics/${topic}/messages`, { key: "a", body: "Typed <b>at length</b>" }, "Typed <b>at length</b>"],
    [409, "Conflict with the current state", `/topics/${topic}/discard`, { reason: "Once more" }, "Once more"],
    [413, "Too large", `/topics/${topic}/messages`, { key: "b", body: "x".repeat(1_200_000) }, null],
    [400, "Bad request", "/topics", { key: "c", source_path: "guide.md", about: "words", blob: site.git("rev-parse", "HEAD:guide.md"), quote: "not there", prefix: "", suffix: "", body: "Of words" }, "> not there\n\nOf words"],
    [404, "Page not found", "/topics/01a20242-2c96-7508-89e3-ec061899bdc9/messages", { key: "d", body: "Lost?" }, "Lost?"],
  ]) {
    const page = await send(ada, address, fields);
    assert.equal(await page.locator("main .code").textContent(), String(status));
    await page.getByRole("heading", { name: heading }).waitFor();
    assert.match(await page.locator("main .message").textContent(), /\w{3}/);
    if (typed) assert.equal(await page.locator("main textarea").inputValue(), typed);
    if (status === 404) continue;
    await page.goto(await page.locator("main p:last-child a.button").getAttribute("href"));
    await page.getByRole("navigation", { name: "Site" }).waitFor();
    assert.equal(await page.locator("main .code").count(), 0, `${status}: the way back leads to a page`);
    await page.close();
  }
  const vic = await visitor(t, site, { person: "vic", allow });
  const page = await send(vic, "/topics", { key: "e", source_path: "guide.md", about: "whole", blob: "", quote: "", prefix: "", suffix: "", body: "May I?" });
  assert.equal(await page.locator("main .code").textContent(), "403");
  await page.getByRole("heading", { name: "Not allowed" }).waitFor();
  await page.close();
});

test("a fault of the program has a page with a number for the log, and the site goes on", async (t) => {
  const armed = path.join(os.tmpdir(), `wb-fault-${process.pid}`);
  t.after(() => fs.rmSync(armed, { force: true }));
  const site = await serve(t, { env: { WB_FAIL_AT: "documents", WB_CRASH_WHEN: armed } });
  const ada = await visitor(t, site, { allow: [/status of 500/] });
  const page = await ada.open("/d");
  await page.getByRole("heading", { name: "Documents" }).waitFor();
  fs.writeFileSync(armed, "");
  await page.reload();
  await page.getByRole("heading", { name: "Something went wrong" }).waitFor();
  await page.getByRole("navigation", { name: "Site" }).waitFor();
  const id = await page.locator("main .quiet code").textContent();
  await until("the log has it", () => site.said().includes(id));
  assert.ok(!(await page.content()).includes("a test wants"), "the cause stays in the log");
  fs.rmSync(armed);
  await page.getByRole("link", { name: "Go to the first page" }).click();
  await page.getByRole("heading", { name: "For you" }).waitFor();
  await page.goto("/d");
  await page.getByRole("heading", { name: "Documents" }).waitFor();
  await page.close();
});

test("a disk that fails is said on every page, costs nothing that was typed, and is over when it is", async (t) => {
  const armed = path.join(os.tmpdir(), `wb-disk-${process.pid}`);
  t.after(() => fs.rmSync(armed, { force: true }));
  const site = await serve(t, { env: { WB_FAIL_AT: "commit", WB_CRASH_WHEN: armed } });
  const topic = await site.topic("guide.md", "The first line", "While the disk is failing");
  const ada = await visitor(t, site, { allow: [/status of 503/] });
  const page = await ada.openLive(`/topics/${topic}`);
  assert.equal(await page.locator(".trouble").count(), 0);
  fs.writeFileSync(armed, "");
  await page.getByLabel("Your message").fill("Typed before it failed");
  await page.getByRole("button", { name: "Reply", exact: true }).click();
  await page.locator(".form-refusal").waitFor();
  assert.equal(await page.getByLabel("Your message").inputValue(), "Typed before it failed");
  const other = await ada.open("/d/guide.md");
  await other.locator(".trouble").getByText("Changes can’t be saved right now.").waitFor();
  await other.locator(".trouble a").click();
  await other.getByText("Not writing").waitFor();
  fs.rmSync(armed);
  await page.getByRole("button", { name: "Reply", exact: true }).click();
  await page.locator("#t-messages").getByText("Typed before it failed").waitFor();
  await other.reload();
  await other.getByText("Reads and writes").waitFor();
  assert.equal(await other.locator(".trouble").count(), 0);
});
