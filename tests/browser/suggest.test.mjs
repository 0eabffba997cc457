// Suggesting other words by typing over them: the difference while typing, one button, the proposal,
// and the thread beside the text.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PHONE, findings, frozen, isLive, select, serve, until, visitor } from "./harness.mjs";
import { difference, tokens } from "../../src/http/assets/proposals/words.js";

const GUIDE = `# Guide

The *first* line is plain, and [a link](notes.md) stands in it.

- one item
- another item

| a | b |
|---|---|
| cell one | cell two |

\`\`\`sh
echo \`date\`
\`\`\`

${Array.from({ length: 40 }, (_, at) => `Paragraph ${at} is long enough to be read.`).join("\n\n")}
`;
const APPLY = `wb.engine "suggestions" { type = "builtin" }
wb.kind "apply" {
  about = "Applies", engine = "suggestions", timeout = "30s", lane = "source_path", produces = "proposal",
  inputs = {
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source { from = "topic_id" },
    base_source_sha = wb.input.blob { from = "source_path" },
  },
}
`;

async function begin(t, { lua = APPLY, person = {}, files = {} } = {}) {
  const site = await serve(t, { files: { "guide.md": GUIDE, ...files }, lua });
  const ada = await visitor(t, site, person);
  const page = await ada.openLive("/d/guide.md");
  await page.waitForSelector(".reader[data-ready]");
  return { site, page, ada };
}

const words = (page) => page.locator(".composer").getByLabel("New text");

test("what differs is found word by word", () => {
  const shown = (a, b) => difference(a, b).map((it) => `${{ same: "", del: "-", ins: "+" }[it.sort]}${it.text}`);
  assert.deepEqual(shown("the old words", "the new words"), ["the ", "-old", "+new", " words"]);
  assert.deepEqual(shown("a", "a"), ["a"]);
  assert.deepEqual(shown("", "x"), ["+x"]);
  assert.deepEqual(shown("a b c d", "a x c y"), ["a ", "-b", "+x", " c ", "-d", "+y"]);
  for (const text of ["a  b\n`c` 日本 👩‍💻 x", "é’s 1_2"]) assert.equal(tokens(text).join(""), text);
  let seed = 7;
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
  const text = () => Array.from({ length: random(40) }, () => ["a", " ", "b", "\n", "."][random(5)]).join("");
  for (let at = 0; at < 300; at++) {
    const [old, fresh] = [text(), text()];
    const parts = difference(old, fresh);
    assert.equal(parts.filter((it) => it.sort !== "ins").map((it) => it.text).join(""), old);
    assert.equal(parts.filter((it) => it.sort !== "del").map((it) => it.text).join(""), fresh);
  }
  const long = Array.from({ length: 5000 }, (_, at) => `w${at} `).join("");
  // So many pairs are not compared: the spaces between are no longer found.
  assert.deepEqual(difference(long, long.toUpperCase()).map((it) => it.sort), ["del", "ins", "same"]);
});

test("words are typed over, and their proposal is there", async (t) => {
  const { site, page } = await begin(t);
  await select(page, "line is plain");
  await page.getByRole("button", { name: "Suggest a change" }).click();
  await until("the words are there", async () => await words(page).inputValue() === "line is plain");
  await words(page).fill("line is very plain");
  await page.locator(".composer .sg-diff ins", { hasText: "very" }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Suggest this change" }).click();
  const thread = page.locator(".note.is-open .bs");
  await thread.getByRole("link", { name: "Review the proposal" }).first().waitFor();
  await thread.locator(".th-suggestion ins", { hasText: "very" }).first().waitFor();
  await page.locator("#facts", { hasText: "1 proposal awaiting review" }).waitFor();
  assert.deepEqual(await findings(page), []);
  const { items } = await site.get("/api/proposals?status=open");
  assert.equal(items.length, 1);
  assert.match((await site.get(`/api/proposals/${items[0].id}`)).text, /The \*first\* line is very plain/);
  const [topic] = (await site.get("/api/topics")).items;
  assert.equal(topic.title, "Add “very”");
});

test("a selection that cuts marks is typed over as whole lines", async (t) => {
  const { page } = await begin(t);
  for (const [from, to, want] of [
    ["first", "first", "first"],
    ["The", "first", "The *first"],
    ["one item", "another", "- one item\n- another item"],
    ["cell one", "cell two", "| cell one | cell two |"],
    ["stands", "stands", "stands"],
  ]) {
    await select(page, from, to);
    await page.keyboard.press("s");
    const whole = want === "The *first" ? "The *first* line is plain, and [a link](notes.md) stands in it." : want;
    await until(`${from}: ${want}`, async () => [want, whole].includes(await words(page).inputValue()));
    await page.keyboard.press("Escape");
    await page.locator(".composer").waitFor({ state: "hidden" });
  }
});

test("text with fences and hostile text comes out as it was typed", async (t) => {
  const { site, page } = await begin(t);
  const hostile = "plain\n```suggestion\n</textarea><img src=x onerror=alert(1)>\n````\n<script>alert(2)</script>";
  await select(page, "Paragraph 3 is long");
  await page.getByRole("button", { name: "Suggest a change" }).click();
  await until("the words are there", async () => await words(page).inputValue() !== "");
  await words(page).fill(hostile);
  await page.getByRole("button", { name: "Suggest this change" }).click();
  await page.locator(".note.is-open .bs").getByRole("link", { name: "Review the proposal" }).first().waitFor();
  const [proposal] = (await site.get("/api/proposals?status=open")).items;
  const { text } = await site.get(`/api/proposals/${proposal.id}`);
  assert.ok(text.includes(`${hostile} enough to be read.`), text);
  assert.equal(await page.locator(".note.is-open img, .note.is-open script").count(), 0);
});

test("the thread is read, answered, closed and reopened beside the words", async (t) => {
  const { site, page } = await begin(t, { lua: "" });
  const topic = await site.topic("guide.md", "Paragraph 3 is long", "Too long?");
  const card = page.locator(`#topic-${topic}`);
  await card.locator(".note-title").click();
  await card.getByText("Too long?").last().waitFor();
  assert.equal(new URL(page.url()).pathname, "/d/guide.md");
  await card.getByLabel("Your message").fill("Half a senten");
  // Someone else writes: what is typed, its place and the focus stay.
  await site.post(`/api/topics/${topic}/messages`, { body: "From elsewhere" });
  await card.getByText("From elsewhere").waitFor();
  await card.locator("[data-key=facts]", { hasText: "2 messages" }).waitFor();
  assert.equal(await card.locator(".rv-kept").count(), 0);
  assert.equal(await card.getByLabel("Your message").inputValue(), "Half a senten");
  assert.ok(await card.getByLabel("Your message").evaluate((it) => it === document.activeElement));
  assert.deepEqual(await findings(page), []);
  // A look at another page does not lose it.
  await page.goto("/");
  await page.goBack();
  await page.waitForSelector(".reader[data-ready]");
  await card.locator(".note-title").click();
  await until("the draft is there", async () => await card.getByLabel("Your message").inputValue() === "Half a senten");
  await card.getByLabel("Your message").fill("Half a sentence.");
  await card.getByLabel("Your message").press("Control+Enter");
  await card.locator(".message-box", { hasText: "Half a sentence." }).waitFor();
  assert.equal(await card.getByLabel("Your message").inputValue(), "");
  // Nobody here applies suggestions: the thread says so.
  await card.getByText("Suggest a change").click();
  await card.getByLabel("New text").fill("Paragraph 3 is short");
  await card.getByRole("button", { name: "Suggest this change" }).click();
  const thread = card.getByRole("region", { name: "Thread" });
  await thread.getByText("Suggested, not proposed yet").waitFor();
  await thread.getByText("No kind on this site applies suggestions").waitFor();
  await card.getByRole("button", { name: "Close", exact: true }).click();
  // Its note leaves the list of open Topics and comes back, and its thread with it.
  await page.locator(`#topic-${topic}[data-closed]`).waitFor();
  await card.getByRole("button", { name: "Reopen" }).click();
  await page.locator(`#topic-${topic}:not([data-closed])`).waitFor();
  await card.getByLabel("Your message").waitFor();
  assert.equal((await site.get(`/api/topics/${topic}`)).topic.status, "open");
});

test("a thread is unfolded once, however often it is asked for, and says if it can’t be", async (t) => {
  const { site, page } = await begin(t, { lua: "", person: { worker: false, allow: [/ERR_FAILED/] } });
  const topic = await site.topic("guide.md", "Paragraph 3 is long", "Too long?");
  const card = page.locator(`#topic-${topic}`);
  const held = [];
  await page.route(`**/topics/${topic}?beside=1`, async (route) => {
    const isLost = await new Promise((resolve) => held.push(resolve));
    await (isLost ? route.abort() : route.continue());
  });
  for (let times = 0; times < 3; times += 1) await card.locator(".note-title").click();
  await until("it is asked for twice", () => held.length === 2);
  for (const it of held.splice(0)) {
    const answer = page.waitForResponse(/beside=1/);
    it(false);
    await (await answer).finished();
  }
  await card.getByLabel("Your message").first().waitFor();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  assert.equal(await card.locator(".note-thread").count(), 1);
  await card.getByRole("button", { name: "Collapse the thread" }).click();
  await card.locator(".note-title").click();
  await until("it is asked for again", () => held.length === 1);
  held.shift()(true);
  await page.locator(".reader-hint", { hasText: "The thread can’t be loaded right now." }).waitFor();
});

test("a thread in which somebody types moves with its note when its passage is gone", async (t) => {
  const { site, page } = await begin(t, { lua: "" });
  const topic = await site.topic("guide.md", "Paragraph 3 is long", "Too long?");
  const card = page.locator(`#topic-${topic}`);
  await card.locator(".note-title").click();
  const field = card.getByLabel("Your message");
  await field.pressSequentially("Half a senten");
  site.write("guide.md", "# Guide\n\nAll of it is new.\n");
  site.commit("all is new");
  await page.locator(".notes-lost").locator(card).waitFor();
  assert.equal(await field.inputValue(), "Half a senten");
  assert.ok(await field.evaluate((it) => it === document.activeElement));
  assert.equal(await card.locator(".rv-kept").count(), 0);
  await page.keyboard.type("ce.");
  assert.equal(await field.inputValue(), "Half a sentence.");
  await card.getByRole("button", { name: "Close", exact: true }).waitFor();
  assert.deepEqual(await findings(page), []);
});

test("a reply that is typed while somebody closes the Topic is not lost", async (t) => {
  const { site, page, ada } = await begin(t, { lua: "" });
  const topic = await site.topic("guide.md", "Paragraph 3 is long", "Too long?");
  await page.locator(`#topic-${topic} .note-title`).click();
  const own = await ada.openLive(`/topics/${topic}`);
  for (const [place, it] of [[page.locator(`#topic-${topic}`), page], [own.locator("#thread"), own]]) {
    await it.bringToFront();
    await place.getByLabel("Your message").fill("Half a senten");
    await site.post(`/api/topics/${topic}/discard`, {});
    const kept = place.locator(".rv-kept");
    await kept.getByText("What you typed. It wasn’t sent.").waitFor();
    assert.equal(await kept.locator("textarea").inputValue(), "Half a senten");
    // Who was typing goes on there.
    assert.ok(await kept.locator("textarea").evaluate((it) => !it.readOnly && it === document.activeElement));
    if (process.env.WB_SHOTS) await it.screenshot({ path: `${process.env.WB_SHOTS}/kept${it === own ? "-own" : ""}.png` });
    await site.post(`/api/topics/${topic}/reopen`, {});
    await until("it is typed again", async () => await place.getByLabel("Your message").inputValue().catch(() => "") === "Half a senten");
    await kept.waitFor({ state: "detached" });
  }
  assert.deepEqual(await findings(page), []);
});

test("on a phone words are suggested and the thread is read in the sheet", async (t) => {
  for (const width of [PHONE.width, 320]) {
    const { page } = await begin(t, { person: { viewport: { width, height: PHONE.height }, touch: true, theme: "dark" } });
    await select(page, "Paragraph 3 is long");
    assert.ok(await page.locator(".reader-pop").evaluate((it) => {
      const { left, right } = it.getBoundingClientRect();
      return left >= 0 && right <= innerWidth && document.documentElement.scrollWidth <= innerWidth;
    }));
    await page.getByRole("button", { name: "Suggest a change" }).click();
    await until("the words are there", async () => await words(page).inputValue() !== "");
    await words(page).fill("Paragraph 3 is short");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await page.getByRole("button", { name: "Suggest this change" }).click();
    const thread = page.locator(".is-sheet .note.is-open .bs");
    await thread.getByRole("link", { name: "Review the proposal" }).first().waitFor();
    assert.deepEqual(await findings(page), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  }
});

test("without a script the marked words stand in a form", async (t) => {
  const { site } = await begin(t);
  const topic = await site.topic("guide.md", "Paragraph 3 is long", "Too long?");
  const page = await (await visitor(t, site, { script: false })).open(`/topics/${topic}`);
  await page.getByText("Suggest a change", { exact: true }).click();
  const field = page.getByLabel("New text");
  assert.equal(await field.inputValue(), "Paragraph 3 is long");
  await field.fill("Paragraph 3 is short");
  await page.getByRole("button", { name: "Suggest this change" }).click();
  const found = await until("the proposal is there", async () => (await site.get("/api/proposals?status=open")).items[0]);
  assert.match((await site.get(`/api/proposals/${found.id}`)).text, /Paragraph 3 is short enough/);
});

test("a viewer who would suggest a change reads who can", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE }, lua: APPLY });
  await site.post("/api/persons", { name: "vic", role: "viewer" });
  const page = await (await visitor(t, site, { person: "vic" })).openLive("/d/guide.md");
  const hint = page.locator(".reader-hint");
  await page.keyboard.press("s");
  assert.equal(await hint.count(), 0, "nothing is selected");
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector("#text p")));
  await page.keyboard.press("s");
  await hint.getByText("Only members and admins can comment or suggest changes.").waitFor();
  await page.evaluate(() => getSelection().removeAllRanges());
  await hint.waitFor({ state: "detached" });
});

test("what is typed into the composer survives a look at another page", async (t) => {
  const { page } = await begin(t);
  await select(page, "Paragraph 3 is long");
  await page.getByRole("button", { name: "Suggest a change" }).click();
  await until("the words are there", async () => await words(page).inputValue() !== "");
  await words(page).fill("Paragraph 3 is sh");
  await page.goto("/");
  await page.goBack();
  await page.waitForSelector(".reader[data-ready]");
  assert.equal(await words(page).inputValue(), "Paragraph 3 is sh");
  await page.locator(".composer .sg-diff ins", { hasText: "sh" }).waitFor();
});

test("a suggestion goes on when the document changes elsewhere, and is sent without another look", async (t) => {
  const { site, page } = await begin(t, { person: { allow: [/409/] } });
  await select(page, "Paragraph 3 is long");
  await page.keyboard.press("s");
  await until("the words are there", async () => await words(page).inputValue() !== "");
  await words(page).fill("Paragraph 3 is short");
  site.write("guide.md", `A line before.\n\n${GUIDE}`);
  site.commit("a line before");
  await page.locator("#text").getByText("A line before.").waitFor();
  assert.equal(await words(page).inputValue(), "Paragraph 3 is short");
  // Nor does one matter that comes while it is sent.
  site.write("guide.md", `A line before.\n\n${GUIDE}\nThe end.\n`);
  site.commit("the end");
  await page.getByRole("button", { name: "Suggest this change" }).click();
  await page.locator(".note.is-open .bs").getByRole("link", { name: "Review the proposal" }).first().waitFor();
  const [proposal] = (await site.get("/api/proposals?status=open")).items;
  const { text } = await site.get(`/api/proposals/${proposal.id}`);
  assert.equal(text, `A line before.\n\n${GUIDE}\nThe end.\n`.replace("Paragraph 3 is long", "Paragraph 3 is short"));
});

test("what was typed over words that have changed is kept for the passage that is selected next", async (t) => {
  const { site, page } = await begin(t);
  await select(page, "Paragraph 3 is long");
  await page.keyboard.press("s");
  await until("the words are there", async () => await words(page).inputValue() !== "");
  await words(page).fill("Paragraph 3 is short");
  site.write("guide.md", GUIDE.replace("Paragraph 3 is long", "Paragraph 3 is very long"));
  site.commit("another wording");
  const other = page.getByRole("button", { name: "Show the new text and select the passage again" });
  await other.waitFor();
  assert.equal(await words(page).inputValue(), "Paragraph 3 is short");
  assert.deepEqual(await findings(page), []);
  await other.click();
  await page.locator("#text").getByText("Paragraph 3 is very long").waitFor();
  await select(page, "Paragraph 3 is very long");
  await page.keyboard.press("s");
  await page.locator(".composer .sg-diff del", { hasText: "very" }).or(page.locator(".composer .sg-diff del", { hasText: "long" })).first().waitFor();
  assert.equal(await words(page).inputValue(), "Paragraph 3 is short");
  await page.locator(".composer").getByText("The passage has changed.").waitFor();
  await page.getByRole("button", { name: "Suggest this change" }).click();
  await page.locator(".note.is-open .bs").getByRole("link", { name: "Review the proposal" }).first().waitFor();
  const [proposal] = (await site.get("/api/proposals?status=open")).items;
  assert.match((await site.get(`/api/proposals/${proposal.id}`)).text, /\nParagraph 3 is short enough/);
});

test("each passage keeps the words that were typed over it", async (t) => {
  const { page } = await begin(t, { lua: "" });
  for (const [at, text] of [[3, "one"], [4, "two"]]) {
    await select(page, `Paragraph ${at} is long`);
    await page.keyboard.press("s");
    await until("the words are there", async () => await words(page).inputValue() === `Paragraph ${at} is long`);
    await words(page).fill(text);
    await page.keyboard.press("Escape");
    await page.locator(".composer").waitFor({ state: "hidden" });
  }
  await select(page, "Paragraph 3 is long");
  await page.keyboard.press("s");
  await until("its words are back", async () => await words(page).inputValue() === "one");
});

test("in a thread, words that were typed over a passage that changes are not sent before that is seen", async (t) => {
  const long = "Paragraph 3 is long enough to be read.";
  const { site, page, ada } = await begin(t);
  const topic = await site.topic("guide.md", long, "Too long?");
  const thread = await ada.openLive(`/topics/${topic}`);
  await thread.getByText("Suggest a change", { exact: true }).click();
  const field = thread.getByLabel("New text");
  const form = thread.locator(".sg-form");
  const warning = form.getByText("The passage has changed.");
  let posts = 0;
  thread.on("request", (it) => { posts += Number(it.method() === "POST" && it.url().endsWith("/messages")); });
  await field.fill(`${long} Mine.`);
  await form.locator(".sg-diff ins", { hasText: "Mine" }).waitFor();
  const theirs = long.replace("enough", "and important enough");
  site.write("guide.md", GUIDE.replace(long, theirs));
  site.commit("theirs");
  await warning.waitFor();
  await form.locator(".sg-diff del", { hasText: "important" }).waitFor();
  assert.equal(await field.inputValue(), `${long} Mine.`);
  // Also who comes back is told.
  await thread.reload();
  await warning.waitFor();
  // Whoever was typing when it appeared has not read it.
  await field.press("End");
  await field.pressSequentially(" So.");
  const goOn = await frozen(thread);
  await field.press("Control+Enter");
  assert.equal((await site.get("/api/proposals?status=open")).items.length, 0);
  // Nor whoever presses twice, or holds the key.
  await thread.getByRole("button", { name: "Suggest this change" }).dblclick();
  await field.focus();
  await thread.keyboard.down("Control");
  for (let times = 0; times < 4; times += 1) await thread.keyboard.down("Enter");
  await thread.keyboard.up("Enter");
  await thread.keyboard.up("Control");
  assert.equal(posts, 0);
  await goOn();
  await field.fill(`${theirs} Mine.`);
  await until("there was time to read it", async () => {
    await field.press("Control+Enter");
    return posts > 0;
  });
  await thread.getByRole("link", { name: "Review the proposal" }).first().waitFor();
  assert.equal(posts, 1);
  await page.bringToFront();
  const [proposal] = (await site.get("/api/proposals?status=open")).items;
  assert.ok((await site.get(`/api/proposals/${proposal.id}`)).text.includes(`${theirs} Mine.`));
  assert.equal(await thread.locator(".rv-kept").count(), 0);
});

test("in a thread, what the page has not heard of yet is not taken out by a suggestion", async (t) => {
  const long = "Paragraph 3 is long enough to be read.";
  const { site, ada } = await begin(t, { person: { worker: false, allow: [/status of 409/, /ERR_FAILED/] } });
  const topic = await site.topic("guide.md", long, "Too long?");
  const thread = await ada.openLive(`/topics/${topic}`);
  await thread.getByText("Suggest a change", { exact: true }).click();
  const field = thread.getByLabel("New text");
  await field.fill(`${long} Mine.`);
  // No part of the page is fetched any more, as by a device that slept.
  await thread.route("**/topics/*", (route) => {
    if (route.request().headers()["wb-fragment"]) return route.abort();
    return route.continue();
  });
  const theirs = long.replace("enough", "and important enough");
  site.write("guide.md", GUIDE.replace(long, theirs));
  site.commit("theirs");
  await until("the server knows", async () => {
    const other = await ada.open(`/topics/${topic}`);
    const now = await other.getByLabel("New text").inputValue();
    await other.close();
    return now === theirs;
  });
  await thread.getByRole("button", { name: "Suggest this change" }).click();
  await thread.locator(".form-refusal", { hasText: "has changed since you began to type" }).waitFor();
  assert.equal(await field.inputValue(), `${long} Mine.`);
  assert.equal((await site.get("/api/proposals?status=open")).items.length, 0);
  assert.equal((await site.get(`/api/topics/${topic}`)).messages.length, 1);
});

test("a form that closes a Topic never reopens it, whatever happens meanwhile", async (t) => {
  const { site, ada } = await begin(t, { lua: "" });
  const topic = await site.topic("guide.md", "Paragraph 3 is long", "Too long?");
  const state = async () => {
    const { topic: it, messages } = await site.get(`/api/topics/${topic}`);
    return [it.status, messages.length];
  };
  const page = await ada.openLive(`/topics/${topic}`);
  const fold = page.locator("#t-close");
  const reason = fold.getByLabel("Why (optional");
  await fold.locator("summary").click();
  await reason.fill("It is a duplicate");
  await site.post(`/api/topics/${topic}/discard`, {});
  await fold.getByRole("button", { name: "Reopen Topic" }).waitFor();
  const kept = page.locator(".rv-kept textarea");
  assert.equal(await kept.inputValue(), "It is a duplicate");
  assert.equal(await reason.inputValue(), "");
  const before = await state();
  await page.keyboard.press("Control+Enter");
  // It is there again, with its form.
  await site.post(`/api/topics/${topic}/reopen`, {});
  await fold.getByRole("button", { name: "Close Topic" }).waitFor();
  assert.deepEqual(await state(), ["open", before[1]]);
  await until("it is typed again", async () => await reason.inputValue() === "It is a duplicate");
  await kept.waitFor({ state: "detached" });
  // Twice by the keyboard, twice by the mouse: once.
  await reason.press("Control+Enter");
  await fold.getByRole("button", { name: "Reopen Topic" }).waitFor();
  await page.keyboard.press("Control+Enter");
  await page.keyboard.press("Enter");
  assert.equal((await state())[0], "discarded");
});

test("after a Topic was opened below a document, the document's keys and forms are gone", async (t) => {
  const { page } = await begin(t, { lua: "" });
  const form = page.locator("#new form");
  await form.getByLabel("The whole document").check();
  await form.getByLabel("Message (the first line").fill("The whole of it is too long");
  await form.getByRole("button", { name: "Open Topic" }).click();
  await page.waitForURL(/\/topics\//);
  await page.waitForLoadState();
  await isLive(page);
  await page.keyboard.press("c");
  await page.keyboard.press("s");
  assert.equal(await page.locator(".composer, .reader-pop").count(), 0);
});
