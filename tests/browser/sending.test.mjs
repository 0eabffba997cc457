// What is typed while something is on its way: only what was sent leaves its field.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isLive, select, serve, until, visitor } from "./harness.mjs";

const GUIDE = "# Guide\n\nThe first line is plain.\n\nThe second line is long.\n";

/** An agent that reads each line, and says nothing. */
const LISTENER = `while IFS= read -r line; do
id=$(printf '%s' "$line" | sed 's/^{"id":"\\([^"]*\\)".*/\\1/')
printf '{"turn":"ended","id":"%s","text":"read"}\\n' "$id"
done
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

/** Returns the id of a proposal of the built-in engine. */
async function proposal(site, quote, suggestion) {
  const made = await site.post("/api/topics", {
    source_path: "guide.md", selection: { quote }, suggestion, propose: true,
  });
  return (await site.status(made.job_id, "succeeded")).proposal_id;
}

function make(site) {
  site.write("listener.sh", LISTENER);
  site.lua += `
wb.engine "listener" { type = "stream", speaks = "lines", command = { "/bin/sh", "${site.top}/listener.sh" } }
wb.agent "robbo" { about = "A test", engine = "listener", autostart = "on_message", on_server_loss = "kill" }
`;
  site.engine("quiet", "cat >/dev/null");
  site.lua += 'wb.inbox "shop/order" { about = "Orders", engine = "quiet", timeout = "20s" }\n';
}

/**
 * Holds what is posted to an address until `go`. `lose` lets it not arrive, `swallow` lets it arrive
 * and its answer be lost.
 */
async function hold(page, address) {
  const held = [];
  const all = { count: 0 };
  await page.route(address, async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    all.count += 1;
    const verb = await new Promise((resolve) => held.push(resolve));
    if (verb === "swallow") await route.fetch({ maxRedirects: 0 });
    await (verb === "go" ? route.continue() : route.abort());
  });
  const next = (verb) => async () => {
    await until("it is on its way", () => held.length > 0);
    held.shift()(verb);
  };
  return { all, go: next("go"), lose: next("lose"), swallow: next("swallow"), isHeld: () => until("it is on its way", () => held.length > 0) };
}

const has = (field, text) => until(`the field has “${text}”`, async () => await field.inputValue() === text);

test("messages that are typed one after the other are sent one after the other", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, make);
  await site.post("/api/channels", { name: "Plan" });
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  const ada = await visitor(t, site, { worker: false });
  const places = [
    ["/channels/workshop-plan-1", "#ch-say textarea", "Enter", ".ch-line"],
    [`/topics/${topic}`, "#t-composer .th-composer textarea", "Control+Enter", ".message-box"],
    ["/agents/robbo", "#send textarea", "Control+Enter", ".row"],
  ];
  for (const [address, at, key, line] of places) {
    const page = await ada.openLive(address);
    const field = page.locator(at);
    const way = await hold(page, /\/(messages|agents\/robbo)$/);
    await field.focus();
    await page.keyboard.type("first words");
    await page.keyboard.press(key);
    await way.isHeld();
    assert.equal(await field.inputValue(), "", address);
    await page.keyboard.type("yes");
    // It leaves its field, too, and waits for its turn: what is typed on is none of it.
    await page.keyboard.press(key);
    await page.keyboard.press(key);
    await has(field, "");
    await page.keyboard.type("do not delete it");
    assert.equal(way.all.count, 1, "one at a time");
    // Whoever leaves now finds all of it.
    const kept = await page.evaluate(() => Object.values(sessionStorage));
    assert.ok(kept.includes("first words\nyes\ndo not delete it"), `${kept}`);
    // Also while the page is fetched again.
    await site.topic("guide.md", "", "Meanwhile");
    await way.go();
    await way.go();
    await page.locator(line, { hasText: "first words" }).first().waitFor();
    await page.locator(line, { hasText: /\byes\b/ }).first().waitFor();
    await page.waitForFunction(() => !document.querySelector("form[aria-busy]"));
    assert.equal(await field.inputValue(), "do not delete it");
    assert.equal(way.all.count, 2, "what nobody has sent is not sent");
    // What is typed and not sent stays.
    await field.fill("third");
    await page.keyboard.press(key);
    await way.isHeld();
    await page.keyboard.type("fourth");
    await way.go();
    await page.locator(line, { hasText: "third" }).first().waitFor();
    assert.equal(await field.inputValue(), "fourth");
    assert.equal(way.all.count, 3);
    await page.reload();
    await has(field, "fourth");
    await field.fill("");
  }
});

test("a double click on Send sends once, and nothing that is typed after it", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, make);
  await site.post("/api/channels", { name: "Plan" });
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  const ada = await visitor(t, site, { worker: false, allow: [/ERR_FAILED/] });
  const places = [
    ["/channels/workshop-plan-1", "#ch-say textarea"],
    [`/topics/${topic}`, "#t-composer .th-composer textarea"],
    ["/agents/robbo", "#send textarea"],
  ];
  for (const [address, at] of places) {
    const page = await ada.openLive(address);
    const field = page.locator(at);
    const way = await hold(page, /\/(messages|agents\/robbo)$/);
    await field.fill("first");
    await field.locator("xpath=ancestor::form").locator("[type=submit]").dblclick();
    await field.pressSequentially("not ready");
    await way.go();
    await page.getByText("first", { exact: true }).first().waitFor();
    await page.waitForFunction(() => !document.querySelector("form[aria-busy]"));
    assert.equal(await field.inputValue(), "not ready");
    assert.equal(way.all.count, 1, address);
    await field.fill("");
  }
});

test("messages that waited for one without an answer are in the field again", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, make);
  await site.post("/api/channels", { name: "Plan" });
  const ada = await visitor(t, site, { worker: false, allow: [/ERR_FAILED/, /status of 409/] });
  const page = await ada.openLive("/channels/workshop-plan-1");
  const field = page.locator("#ch-say textarea");
  const way = await hold(page, "**/messages");
  for (const text of ["one", "two"]) {
    await field.fill(text);
    await field.press("Enter");
  }
  await field.fill("three");
  await way.swallow();
  await has(field, "one\ntwo\nthree");
  assert.equal(way.all.count, 1);
  // The first one had arrived.
  await field.press("Enter");
  await way.go();
  await page.locator(".form-refusal", { hasText: "What you sent before has arrived" }).waitFor();
  await has(field, "one\ntwo\nthree");
  await field.fill("two\nthree");
  await field.press("Enter");
  await way.go();
  await has(field, "");
  const lines = page.locator(".ch-line");
  await lines.filter({ hasText: "three" }).waitFor();
  for (const text of ["one", "two"]) assert.equal(await lines.filter({ hasText: text }).count(), 1, text);
});

test("what was sent when its page was left arrives once, also if it is sent again", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, make);
  await site.post("/api/channels", { name: "Plan" });
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  const ada = await visitor(t, site, { worker: false, allow: [/ERR_FAILED/, /status of 409/] });
  const places = [
    ["/channels/workshop-plan-1", "#ch-say textarea", ".ch-line"],
    [`/topics/${topic}`, "#t-composer .th-composer textarea", ".message-box"],
  ];
  for (const [address, at, line] of places) {
    const page = await ada.openLive(address);
    const field = page.locator(at);
    const send = field.locator("xpath=ancestor::form").locator("[type=submit]");
    const lines = page.locator(line);
    const way = await hold(page, "**/messages");
    const leave = async (text) => {
      await field.fill(text);
      await send.click();
      await way.swallow();
      await has(field, text);
      await page.reload();
      await isLive(page);
      await has(field, text);
    };
    await leave("heron");
    await send.click();
    await way.go();
    await has(field, "");
    await leave("swan");
    // With words that are added it is not sent before somebody has heard that the first ones arrived.
    await field.press("End");
    await field.pressSequentially(", then geese");
    await send.click();
    await way.go();
    await page.locator(".form-refusal", { hasText: "What you sent before has arrived" }).waitFor();
    await field.fill("Then geese");
    await send.click();
    await way.go();
    await lines.filter({ hasText: "geese" }).waitFor();
    for (const it of ["heron", "swan"]) assert.equal(await lines.filter({ hasText: it }).count(), 1, it);
    // Who deletes it and writes the same again means another one.
    await leave("stork");
    await field.fill("");
    await field.fill("stork");
    await send.click();
    await way.go();
    await lines.filter({ hasText: "stork" }).nth(1).waitFor();
    assert.equal(await lines.filter({ hasText: "stork" }).count(), 2);
    await page.close();
  }

  // A Topic from beside the text.
  const page = await ada.openLive("/d/guide.md");
  const way = await hold(page, "**/api/topics");
  const body = page.locator(".composer").getByLabel("What should change");
  await page.waitForSelector(".reader[data-ready]");
  await select(page, "second line");
  await page.getByRole("button", { name: "Comment on this passage" }).click();
  await body.fill("Shorter");
  await body.press("Control+Enter");
  await way.swallow();
  await page.locator(".composer .trouble-text", { hasText: /./ }).waitFor();
  await page.reload();
  await page.waitForSelector(".reader[data-ready]");
  await has(body, "Shorter");
  await body.press("Control+Enter");
  await way.go();
  await page.locator(".composer").waitFor({ state: "hidden" });
  assert.equal((await site.get("/api/topics")).items.filter((it) => it.title === "Shorter").length, 1);
});

test("what a proxy has given up on arrives once, also if it is sent again on another visit", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } });
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  const page = await (await visitor(t, site, { worker: false, allow: [/status of 502/] })).openLive(`/topics/${topic}`);
  const field = page.locator("#t-composer .th-composer textarea");
  await page.route("**/messages", async (route) => {
    await route.fetch({ maxRedirects: 0 });
    await route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad gateway</h1>" });
  }, { times: 1 });
  await field.fill("heron");
  await field.press("Control+Enter");
  await page.locator(".form-refusal", { hasText: "Bad gateway" }).waitFor();
  await has(field, "heron");
  await page.reload();
  await isLive(page);
  await has(field, "heron");
  await field.press("Control+Enter");
  await has(field, "");
  await page.waitForFunction(() => !document.querySelector("form[aria-busy]"));
  assert.deepEqual((await site.get(`/api/topics/${topic}`)).messages.map((it) => it.body), ["Too plain?", "heron"]);
});

test("a message without an answer is in its field again, before what was typed since", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, make);
  await site.post("/api/channels", { name: "Plan" });
  const said = await site.post("/api/channels/1/messages", { body: "Said before" });
  const ada = await visitor(t, site, { worker: false, allow: [/ERR_FAILED/] });
  const page = await ada.openLive("/channels/workshop-plan-1");
  const field = page.locator("#ch-say textarea");
  const way = await hold(page, "**/messages");
  await page.locator(`#m${said.sequence}`).locator("[data-reply]").click();
  await page.locator("#ch-attach").waitFor();
  await page.keyboard.type("first");
  await page.keyboard.press("Enter");
  await way.isHeld();
  assert.ok(await page.locator("#ch-replying").isHidden(), "the next one replies to nothing");
  await page.keyboard.type("second");
  // Whoever leaves now finds both.
  const kept = () => page.evaluate(() => Object.values(sessionStorage));
  assert.ok((await kept()).includes("first\nsecond"), `${await kept()}`);
  await way.lose();
  await has(field, "first\nsecond");
  await page.getByText(`In reply to ${said.sequence}`).waitFor();
  await page.locator(".form-refusal", { hasText: "Can’t reach this site" }).waitFor();
  // It has not arrived: what is in the field goes out whole.
  await field.press("Enter");
  await way.go();
  await page.locator(".ch-line", { hasText: /first\s+second/ }).waitFor();
  await has(field, "");
});

test("what has arrived without an answer is sent again without arriving twice", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } }, make);
  await site.post("/api/channels", { name: "Plan" });
  const topic = await site.topic("guide.md", "first line", "Too plain?");
  const ada = await visitor(t, site, { worker: false, allow: [/ERR_FAILED/, /status of 409/] });
  const places = [
    ["/channels/workshop-plan-1", "#ch-say textarea", ".ch-line"],
    [`/topics/${topic}`, "#t-composer .th-composer textarea", ".message-box"],
  ];
  for (const [address, at, line] of places) {
    const page = await ada.openLive(address);
    const field = page.locator(at);
    const send = field.locator("xpath=ancestor::form").locator("[type=submit]");
    const way = await hold(page, "**/messages");
    await field.fill("one");
    await send.click();
    await way.swallow();
    await page.locator(".form-refusal", { hasText: "Can’t reach this site" }).waitFor();
    await page.locator(line, { hasText: "one" }).waitFor();
    await has(field, "one");
    await send.click();
    await way.go();
    await has(field, "");
    // Whatever was changed since it arrived is sent once that was said, and whole if it did not.
    for (const [first, then] of [["two", "two, three"], ["four", "five"]]) {
      await field.fill(first);
      await send.click();
      await way.swallow();
      await has(field, first);
      await field.fill(then);
      await send.click();
      await way.go();
      await page.locator(".form-refusal", { hasText: "What you sent before has arrived" }).waitFor();
      await has(field, then);
      assert.equal(await page.locator(line, { hasText: then }).count(), 0);
      await send.click();
      await way.go();
      await page.locator(line, { hasText: then }).waitFor();
      await has(field, "");
      await page.locator(".form-refusal").waitFor({ state: "detached" });
    }
    for (const it of ["one", "two"]) assert.equal(await page.locator(line).getByText(it, { exact: true }).count(), 1, it);
    await field.fill("Delete all notes");
    await send.click();
    await way.lose();
    await has(field, "Delete all notes");
    await field.fill("Delete all notes older than 2020");
    await send.click();
    await way.go();
    await page.locator(line, { hasText: "Delete all notes older than 2020" }).waitFor();
    assert.equal(await page.locator(line, { hasText: "Delete all notes" }).count(), 1);
    await page.close();
  }
});

test("what is typed beside the text while something is sent stays there", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } });
  const topic = await site.topic("guide.md", "second line", "Too long?");
  const page = await (await visitor(t, site, { worker: false })).openLive("/d/guide.md");
  await page.waitForSelector(".reader[data-ready]");
  const card = page.locator(`#topic-${topic}`);
  await card.getByText("1 message").waitFor();
  await card.locator(".note-title").click();
  const reply = card.getByLabel("Your message");
  await reply.focus();
  let way = await hold(page, "**/messages");
  await page.keyboard.type("first");
  await page.keyboard.press("Control+Enter");
  await way.isHeld();
  await page.keyboard.type("second");
  await page.keyboard.press("Control+Enter");
  await way.go();
  await way.go();
  await card.locator(".message-box", { hasText: "first" }).waitFor();
  await card.locator(".message-box", { hasText: "second" }).waitFor();
  await has(reply, "");
  // The note counts them, also those of others.
  await card.locator(".facts", { hasText: "3 messages" }).waitFor();
  await site.post(`/api/topics/${topic}/messages`, { body: "From elsewhere" });
  await card.locator(".facts", { hasText: "4 messages" }).waitFor();
  await card.getByRole("button", { name: "Collapse the thread" }).click();

  // A Topic that is being opened: what is typed since is about the same passage.
  way = await hold(page, "**/api/topics");
  await select(page, "first line");
  await page.getByRole("button", { name: "Comment on this passage" }).click();
  const body = page.locator(".composer").getByLabel("What should change");
  await body.fill("Plain words");
  await body.press("Control+Enter");
  await way.isHeld();
  await page.keyboard.type(" and more");
  await way.go();
  await page.locator(".composer", { hasText: "What you typed since isn’t sent yet." }).waitFor();
  assert.equal(await body.inputValue(), " and more");
  assert.ok(await body.evaluate((it) => it === document.activeElement));
  await page.locator(".composer .button-main:enabled").waitFor();
  await body.press("Control+Enter");
  await way.go();
  await page.locator(".composer").waitFor({ state: "hidden" });
  // One on another passage, begun meanwhile, stays open as it is.
  await select(page, "Guide");
  await page.getByRole("button", { name: "Comment on this passage" }).click();
  await body.fill("Which?");
  await body.press("Control+Enter");
  await way.isHeld();
  await page.keyboard.press("Escape");
  await select(page, "plain");
  await page.getByRole("button", { name: "Comment on this passage" }).click();
  await body.fill("About another passage");
  await way.go();
  await page.locator(".note-title", { hasText: "Which?" }).first().waitFor();
  assert.equal(await body.inputValue(), "About another passage");
  assert.ok(await page.locator(".composer").isVisible());
  const titles = async () => (await site.get("/api/topics")).items.map((it) => it.title).toSorted();
  assert.deepEqual(await titles(), ["Plain words", "Too long?", "Which?", "and more"]);
});

test("what is sent while its passage is asked for is about that passage, or is not sent at all", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } });
  await site.topic("guide.md", "second line", "Too long?");
  site.write("guide.md", GUIDE.replace("The second line is long.", "Another one."));
  site.commit("another line");
  const page = await (await visitor(t, site, { worker: false, allow: [/ERR_FAILED/, /status of 401/] })).openLive("/d/guide.md");
  await page.waitForSelector(".reader[data-ready]");
  const place = page.getByRole("button", { name: /^Choose its passage/ });
  await place.waitFor();
  const held = [];
  await page.route("**/api/source/passage*", async (route) => {
    await new Promise((resolve) => held.push(resolve));
    await route.continue();
  });
  /** Lets all that was asked for go, and waits until it is answered. */
  const go = async (count) => {
    await until("passages are asked for", () => held.length >= count);
    for (const it of held.splice(0)) {
      const answer = page.waitForResponse("**/api/source/passage*");
      it();
      await (await answer).finished();
    }
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  };
  const posted = [];
  page.on("request", (it) => { if (it.method() === "POST" && /\/api\/topics/.test(it.url())) posted.push(it.postDataJSON()); });
  const composer = page.locator(".composer");
  const body = composer.getByLabel("What should change");
  const begin = async (words, text) => {
    await select(page, words);
    await page.keyboard.press("c");
    await body.fill(text);
  };
  const sendNow = () => body.press("Control+Enter");

  // Another passage is chosen meanwhile.
  await begin("first line", "About the first");
  await sendNow();
  await page.keyboard.press("Escape");
  await begin("Another one", "About the other");
  await go(2);
  await composer.locator("blockquote", { hasText: "Another one" }).waitFor();
  await composer.locator(".button-main:enabled").waitFor();
  assert.equal(await body.inputValue(), "About the other");
  assert.deepEqual(posted, []);
  await page.keyboard.press("Escape");

  // It is cancelled.
  await begin("first line", "Never mind");
  await sendNow();
  await composer.getByRole("button", { name: "Cancel" }).click();
  await go(1);
  await composer.waitFor({ state: "hidden" });
  assert.deepEqual(posted, []);

  // What is typed on is not sent.
  await begin("first line", "Plain words");
  await sendNow();
  await body.pressSequentially(" and half a sen");
  await go(1);
  await composer.getByText("What you typed since isn’t sent yet.").waitFor();
  assert.equal(await body.inputValue(), " and half a sen");
  assert.deepEqual(posted.map((it) => it.body), ["Plain words"]);
  await body.fill("");
  await page.keyboard.press("Escape");

  // A Topic that was to be moved is neither moved nor opened anew.
  await place.click();
  await composer.waitFor({ state: "hidden" });
  await page.keyboard.press("Enter");
  await composer.getByRole("button", { name: "Move it here" }).click();
  await composer.getByRole("button", { name: "Cancel" }).click();
  await go(1);
  await composer.waitFor({ state: "hidden" });
  assert.equal(posted.length, 1);
  const titles = async () => (await site.get("/api/topics")).items.map((it) => it.title).toSorted();
  assert.deepEqual(await titles(), ["Plain words", "Too long?"]);
});

test("a reply that arrives when its form is there anew leaves that one, too", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE } });
  const topic = await site.topic("guide.md", "second line", "Too long?");
  const page = await (await visitor(t, site, { worker: false, allow: [/ERR_FAILED/] })).openLive("/d/guide.md");
  await page.waitForSelector(".reader[data-ready]");
  const card = page.locator(`#topic-${topic}`);
  const reply = card.getByLabel("Your message");
  const title = card.locator(".note-title");
  const kept = () => page.evaluate(() => Object.entries(sessionStorage).filter(([name, text]) => /^wb-draft-/.test(name) && text).map(([, text]) => text));
  const said = async () => (await site.get(`/api/topics/${topic}`)).messages.map((it) => it.body);
  const way = await hold(page, "**/messages");
  await title.click();
  for (const [text, since, more] of [["Yes", "", ""], ["Never", "", " more"], ["Perhaps", "next", ""], ["Why", "because", " of it"]]) {
    await reply.fill(text);
    await reply.press("Control+Enter");
    await way.isHeld();
    if (since) await page.keyboard.type(since);
    await card.getByRole("button", { name: "Collapse the thread" }).click();
    await title.click();
    await has(reply, since ? `${text}\n${since}` : text);
    await reply.press("Control+End");
    if (more) await page.keyboard.type(more);
    const left = since + more;
    await way.go();
    await card.locator(".message-box", { hasText: text }).waitFor();
    await has(reply, left);
    assert.equal(await page.locator(".rv-kept").count(), 0);
    await until("the draft is the rest", async () => JSON.stringify(await kept()) === JSON.stringify(left ? [left] : []));
    await reply.fill("");
  }
  assert.deepEqual(await said(), ["Too long?", "Yes", "Never", "Perhaps", "Why"]);
  // Where it has not arrived, all of it is there once.
  await reply.fill("Lost");
  await reply.press("Control+Enter");
  await way.isHeld();
  await card.getByRole("button", { name: "Collapse the thread" }).click();
  await title.click();
  await has(reply, "Lost");
  await way.lose();
  await reply.press("Control+Enter");
  await way.go();
  await card.locator(".message-box", { hasText: "Lost" }).waitFor();
  await has(reply, "");
  assert.equal((await said()).filter((it) => it === "Lost").length, 1);
});

test("what is typed behind words whose form goes away with them is shown to be copied", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE }, lua: APPLY }, make);
  const ada = await visitor(t, site, { worker: false });
  const kept = (page) => page.locator(".rv-kept", { hasText: "It wasn’t sent." }).locator("textarea");
  let page = await ada.openLive(`/proposals/${await proposal(site, "first", "1st")}`);
  let way = await hold(page, "**/reject");
  await page.keyboard.press("x");
  await page.locator(".rv-dialog textarea").fill("Too plain");
  await page.locator(".rv-dialog textarea").press("Control+Enter");
  await way.isHeld();
  await page.keyboard.type(" still");
  await way.go();
  // Without the space, if the answer comes before the event that tells of it.
  assert.equal((await kept(page).inputValue()).trim(), "still");

  page = await ada.openLive("/inboxes/shop/order");
  way = await hold(page, "**/inboxes/shop/order");
  await page.getByLabel("Message", { exact: true }).fill("Two queens");
  await page.getByLabel("Message", { exact: true }).press("Control+Enter");
  await way.isHeld();
  await page.keyboard.type("One king");
  await way.go();
  await page.waitForURL(/\/mail\//);
  assert.equal(await kept(page).inputValue(), "One king");
  await page.goto("/inboxes/shop/order");
  await has(page.getByLabel("Message", { exact: true }), "One king");
});

test("nothing is typed into an edit while it is saved", async (t) => {
  const site = await serve(t, { files: { "guide.md": GUIDE }, lua: APPLY }, make);
  const page = await (await visitor(t, site, { worker: false, allow: [/ERR_FAILED/] }))
    .openLive(`/proposals/${await proposal(site, "first", "1st")}/edit`);
  const text = page.locator(".rv-editor textarea").first();
  const way = await hold(page, "**/edit");
  // The preview is one more that is posted.
  await page.evaluate(() => document.querySelector(".rv-editor").addEventListener("input", (event) => event.stopPropagation(), true));
  await text.fill(GUIDE.replace("first", "very first"));
  await page.getByRole("button", { name: "Save edit" }).click();
  await way.isHeld();
  await text.focus();
  await page.keyboard.type("lost");
  assert.ok(!(await text.inputValue()).includes("lost"));
  await way.lose();
  await page.locator(".form-refusal", { hasText: "Can’t reach this site" }).waitFor();
  await page.keyboard.type("kept");
  assert.ok((await text.inputValue()).includes("kept"));
  await page.getByRole("button", { name: "Save edit" }).click();
  await way.go();
  await page.getByText(/^Edited by ada from/).waitFor();
});

test("the focus stays on the button of a comment that is refused, and its keys work", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site, { worker: false, allow: [/status of 413/] });
  const page = await ada.openLive("/d/guide.md");
  await page.waitForSelector(".reader[data-ready]");
  let [held, sent] = [null, 0];
  await page.route("**/api/topics", async (route) => {
    sent += 1;
    await new Promise((resolve) => { held = resolve; });
    await route.continue();
  });
  const form = page.locator(".composer");
  for (const [key, field, name] of [["c", "body", "Open Topic"], ["s", "suggestion", "Suggest this change"]]) {
    await select(page, "second line");
    await page.keyboard.press(key);
    const words = form.locator(`[name=${field}]`);
    if (key === "s") await until("the words are there", async () => await words.inputValue() === "second line");
    await words.fill("x".repeat(100_000));
    const button = form.getByRole("button", { name, exact: true });
    const isFocused = () => button.evaluate((it) => it === document.activeElement);
    while (!(await isFocused())) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    for (const again of ["Control+Enter", null]) {
      const before = sent;
      await until("it is on its way", () => held);
      await until("nothing has the focus", () => page.evaluate(() => document.activeElement === document.body));
      held();
      held = null;
      await form.locator(".trouble-text", { hasText: /./ }).waitFor();
      await until("the button has the focus", isFocused);
      if (again) await page.keyboard.press(again);
      if (again) await until("it is sent again", () => sent > before);
    }
    await words.fill("x");
    await page.keyboard.press("Escape");
  }
});
