// The document as it is read: HTML in it, where the reader is in it, what was typed beside it, and
// what becomes of a page whose document goes away.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PHONE, picture, select, serve, until, visitor } from "./harness.mjs";

const README = `<p align="center">
  <img src="logo.png" width="120" alt="Logo">
</p>

<h1 align="center">Bridges <sub>1.0</sub></h1>

<!-- nobody
reads this -->

Press <kbd>Ctrl</kbd>+<kbd>K</kbd> to find water, H<sub>2</sub>O.<br>A second line.

<details>
<summary>Open <b>me</b></summary>

- **Inner** words of the list

</details>

<table><tr><th>Span</th><td align="right">120&nbsp;m &amp; more</td></tr></table>

<div class="warning" style="display: none" onclick="alert(1)" id="text">Beware of the <a href="guide.md">guide</a>.</div>
`;

const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

const words = (count, word) => Array.from({ length: count }, (_, at) => `${word}${at}`).join(" ");
/** A document with all that is wide or long. */
const LONG = `# ${"Anextraordinarilylongheadingwithoutanyspace".repeat(2)}

${Array.from({ length: 60 }, (_, at) => `## Station ${at}

${words(70, "word")} [a link](https://example.org/${"x".repeat(120)}) \`${"code".repeat(40)}\`

| a | b | c | d | e | f |
|---|---|---|---|---|---|
| ${words(6, "cell")} | ${"y".repeat(80)} | 3 | 4 | 5 | 6 |

\`\`\`rust
let line = "${"z".repeat(300)}";
\`\`\`
`).join("\n")}`;

async function read(visiting, path, live = false) {
  const page = await (live ? visiting.openLive(`/d/${path}`) : visiting.open(`/d/${path}`));
  await page.waitForSelector(".reader[data-ready]");
  return page;
}

const marked = (page, name) => page.evaluate((name) => [...(CSS.highlights.get(name) ?? [])].map(String), name);

test("HTML of a document is shown, and its words become Topics", async (t) => {
  const site = await serve(t, { files: { "README.md": README, "logo.png": PIXEL } });
  const ada = await visitor(t, site);
  const page = await read(ada, "README.md");
  const text = page.locator("#text");
  assert.equal(await text.locator("kbd").count(), 2);
  assert.equal(await text.locator("p.md-center > img").getAttribute("width"), "120");
  assert.equal(await text.locator("h1 sub").textContent(), "1.0");
  assert.equal(await text.locator("table td.md-end").textContent(), "120\u00a0m & more");
  const shown = await text.textContent();
  for (const not of ["<", ">", "nobody", "style"]) assert.ok(!shown.includes(not), `${not} in ${shown}`);
  assert.ok(await text.getByText("Beware of the").isVisible());
  assert.equal(await text.locator("[style], [class=warning], [onclick]").count(), 0);
  assert.equal(await page.locator("[id=text]").count(), 1);
  await text.locator("summary").click();
  for (const [from, to, expected] of [
    ["Ctrl", "to find", "Ctrl</kbd>+<kbd>K</kbd> to find"],
    ["Inner", "of the list", "Inner** words of the list"],
    ["120", "more", "120&nbsp;m &amp; more"],
    ["Beware", "guide", 'Beware of the <a href="guide.md">guide'],
  ]) {
    await select(page, from, to);
    await page.keyboard.press("c");
    await until(`the words from ${from}`, async () => (await page.locator(".composer blockquote").textContent()) === expected);
    await page.locator(".composer textarea[name=body]").fill(`About ${from}`);
    await page.keyboard.press("Control+Enter");
    await page.getByRole("link", { name: `About ${from}` }).waitFor();
    await page.waitForSelector(".composer", { state: "hidden" });
    await until("the page is at rest", () => page.evaluate(() => document.querySelector("#text").dataset.blob === document.querySelector("#notes").dataset.blob));
  }
  const painted = await until("four marks", async () => {
    const all = [...await marked(page, "wb-topic")];
    return all.length === 4 && all;
  });
  assert.deepEqual(painted, ["Ctrl+K to find", "Inner words of the list", "120\u00a0m & more", "Beware of the guide"]);
  await page.close();
});

test("the contents show where the reader is after any jump", async (t) => {
  const site = await serve(t, { files: { "long.md": LONG } });
  const ada = await visitor(t, site);
  const page = await read(ada, "long.md");
  // Above the first heading there is none.
  const current = () => page.evaluate(() => document.querySelector(".contents [aria-current]")?.textContent ?? "");
  const top = () => page.evaluate(() => [...document.querySelectorAll("#text h2")]
    .filter((it) => it.checkVisibility({ contentVisibilityAuto: true }))
    .findLast((it) => it.getBoundingClientRect().top <= 96)?.textContent);
  for (const by of [9_000, 15_000, -8_000, 22_000]) {
    await page.evaluate((by) => scrollBy({ top: by, behavior: "instant" }), by);
    const seen = await until(`the heading after ${by}`, async () => {
      const [is, expected] = [await current(), await top()];
      return expected && is === expected && is;
    });
    assert.match(seen, /^Station \d+$/);
  }
  await page.keyboard.press("End");
  await until("the last heading", async () => (await current()) === "Station 59");
  // The list is longer than the window: what is read is seen in it, and the page does not move.
  const seen = () => page.evaluate(() => {
    const it = document.querySelector(".contents [aria-current]");
    if (!it) return scrollY < 200;
    const [box, own] = [it.closest(".contents").getBoundingClientRect(), it.getBoundingClientRect()];
    return own.top >= box.top && own.bottom <= box.bottom;
  });
  assert.ok(await seen());
  await page.keyboard.press("Home");
  await until("the first heading", async () => (await current()) !== "Station 59" && seen());
  await page.close();
});

const ROWS = Array.from({ length: 12 }, (_, at) => `| option${at} | none | ${words(30, "about")} |`).join("\n");
const TABLES = `# Settings

${Array.from({ length: 40 }, (_, at) => `## Group ${at}\n\n| name | default | about |\n|---|---|---|\n${ROWS}`).join("\n\n")}
`;

/** Leaves a page and comes back to it, and reloads it; `change` is called while it is away. */
async function* returns(page, change = () => {}) {
  const ready = () => page.waitForSelector(".reader[data-ready]");
  await page.goto("/");
  change();
  await page.goBack();
  yield ready();
  await page.reload();
  yield ready();
}

test("Back and a reload lead to the same row, though other tables have the same words", async (t) => {
  const site = await serve(t, { files: { "tables.md": TABLES } });
  const page = await read(await visitor(t, site), "tables.md");
  const top = (name) => page.evaluate((name) => {
    const all = [...document.querySelectorAll("#text h2")];
    return Math.round(all.find((it) => it.textContent === name).getBoundingClientRect().top);
  }, name);
  const goTo = async (by) => {
    await until("Group 25 is near", async () => {
      const off = await top("Group 25");
      await page.evaluate((it) => scrollBy({ top: it, behavior: "instant" }), off + by);
      return Math.abs(off + by) <= 1;
    });
    return top("Group 25");
  };
  // The heads of the tables, and a row.
  for (const by of [100, 700]) {
    const before = await goTo(by);
    for await (const _ of returns(page)) {
      await until("it is there again", async () => Math.abs(await top("Group 25") - before) <= 2);
    }
  }
  // Something has come before it.
  const before = await goTo(700);
  const change = () => {
    site.write("tables.md", TABLES.replace("## Group 3\n", "## Group 3\n\nOne more line.\n"));
    site.commit("more");
  };
  for await (const _ of returns(page, change)) {
    await until("it is there again", async () => Math.abs(await top("Group 25") - before) <= 2);
  }
  // The row is gone: what is there now.
  const end = TABLES.indexOf("## Group 24");
  const other = () => {
    site.write("tables.md", TABLES.slice(0, end) + TABLES.slice(end).replaceAll("option", "choice"));
    site.commit("other names");
  };
  await goTo(700);
  for await (const _ of returns(page, other)) {
    await until("it is near", async () => Math.abs(await top("Group 25")) < 3_000);
  }
});

test("Back and a reload lead to the end of a long document, where only forms are left of it", async (t) => {
  const site = await serve(t, { files: { "tables.md": TABLES } });
  const page = await read(await visitor(t, site, { viewport: { width: 1280, height: 400 } }), "tables.md");
  const isAtEnd = () => page.evaluate(() => {
    const left = document.documentElement.scrollHeight - innerHeight - scrollY;
    return left <= 1 && document.querySelector("#text").getBoundingClientRect().bottom < 0;
  });
  await until("the end", async () => {
    await page.keyboard.press("End");
    return isAtEnd();
  });
  for await (const _ of returns(page)) await until("it is the end again", isAtEnd);
});

test("the contents say how many headings they do not list", async (t) => {
  const long = Array.from({ length: 1_100 }, (_, i) => `## Part ${i}\n\nText.\n`).join("\n");
  const site = await serve(t, { files: { "long.md": `# Long\n\n${long}` } });
  const page = await read(await visitor(t, site), "long.md");
  assert.equal(await page.locator(".contents li").count(), 1_000);
  await page.getByText("101 more headings not shown.").waitFor();
  await page.close();
});

test("what is typed in the composer outlives leaving the page", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site);
  const page = await read(ada, "guide.md");
  await select(page, "second line");
  await page.keyboard.press("c");
  await page.locator(".composer textarea[name=body]").fill("Half a thought");
  await page.goto("/");
  await page.goBack();
  await page.waitForSelector(".reader[data-ready]");
  const area = page.locator(".composer textarea[name=body]");
  await area.waitFor({ state: "visible" });
  assert.equal(await area.inputValue(), "Half a thought");
  await until("its words", async () => (await page.locator(".composer blockquote").textContent()) === "second line");
  await area.focus();
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".note-title");
  await page.reload();
  await page.waitForSelector(".reader[data-ready]");
  assert.ok(await page.locator(".composer").isHidden(), "what was sent is not brought back");
  // Escape leads back to the words.
  await select(page, "first line");
  await page.keyboard.press("c");
  await page.waitForSelector(".composer", { state: "visible" });
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "The first line.");
  await page.close();
});

test("what is typed about a passage that has changed since is said to be kept, and to be signed out", async (t) => {
  const site = await serve(t, {});
  const page = await read(await visitor(t, site, { worker: false, allow: [/status of 401/] }), "guide.md");
  const composer = page.locator(".composer");
  const body = composer.locator("textarea[name=body]");
  await select(page, "second line");
  await page.keyboard.press("c");
  await body.fill("Half a thought");
  await page.goto("/");
  site.write("guide.md", "# Guide\n\nThe first line.\n\nAnother one.\n");
  site.commit("another line");
  await page.goto("/d/guide.md");
  await page.waitForSelector(".reader[data-ready]");
  const hint = page.locator(".reader-hint", { hasText: "What you wrote is kept. Select the passage again." });
  await hint.waitFor();
  assert.ok(await composer.isHidden());
  assert.equal(await page.locator(".reader-hint").count(), 1);
  await select(page, "Another one");
  await hint.waitFor({ state: "detached" });
  await page.keyboard.press("c");
  assert.equal(await body.inputValue(), "Half a thought");
  await composer.locator("blockquote", { hasText: "Another one" }).waitFor();
  await page.context().clearCookies();
  await body.press("Control+Enter");
  await composer.getByText("You are signed out. Sign in again in another tab, then send again: what you wrote is still here.").waitFor();
  assert.equal(await body.inputValue(), "Half a thought");
  await page.close();
});

test("what is typed in the composer goes along when the document is renamed", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site);
  const page = await read(ada, "guide.md", true);
  const typed = async (text) => {
    const area = page.locator(".composer textarea[name=body]");
    await area.waitFor({ state: "visible" });
    assert.equal(await area.inputValue(), text);
    await until("its words", async () => (await page.locator(".composer blockquote").textContent()) === "second line");
    return area;
  };
  await select(page, "second line");
  await page.keyboard.press("c");
  await page.locator(".composer textarea[name=body]").fill("Half a thought");
  site.git("mv", "guide.md", "manual.md");
  site.commit("a better name");
  await page.locator("#gone").waitFor({ state: "visible" });
  await page.locator("#gone a").click();
  await page.waitForURL(/\/d\/manual\.md$/);
  await page.waitForSelector(".reader[data-ready]");
  await (await typed("Half a thought")).fill("The whole thought");
  // The old address leads there too: with what was typed, though the page was not open.
  site.git("mv", "manual.md", "handbook.md");
  site.commit("the best name");
  await page.locator("#gone").waitFor({ state: "visible" });
  await page.goto("/d/manual.md");
  await page.locator("#main a[data-way]").click();
  await page.waitForSelector(".reader[data-ready]");
  const area = await typed("The whole thought");
  await area.focus();
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".note-title");
  await page.close();
});

test("a form whose document is renamed leads on by itself, with what is typed, on a phone", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site, { viewport: PHONE, touch: true, allow: [/status of 404/] });
  const page = await read(ada, "guide.md", true);
  const form = page.locator(".composer");
  await select(page, "second line");
  await page.getByRole("button", { name: "Suggest a change" }).first().tap();
  const words = form.getByLabel("New text");
  await until("the words are there", async () => await words.inputValue() === "second line");
  await words.fill("The second thought.");
  site.git("mv", "guide.md", "manual.md");
  site.commit("a better name");
  await page.locator("#gone").waitFor({ state: "visible" });
  await form.getByRole("button", { name: "Suggest this change" }).tap();
  await form.getByText(/renamed to manual\.md.* is kept/).waitFor();
  await form.getByRole("link", { name: "Open it under its new name" }).tap();
  await page.waitForURL(/\/d\/manual\.md$/);
  await page.waitForSelector(".reader[data-ready]");
  await form.waitFor({ state: "visible" });
  assert.equal(await words.inputValue(), "The second thought.");
  await form.getByRole("button", { name: "Suggest this change" }).tap();
  await form.waitFor({ state: "hidden" });
  const { items } = await site.get("/api/topics?source_path=manual.md");
  assert.equal(items.length, 1);
});

test("who comes to a renamed document by its address finds what was typed under its earlier names", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site);
  const page = await read(ada, "guide.md", true);
  const area = page.locator(".composer textarea[name=body]");
  await select(page, "second line");
  await page.keyboard.press("c");
  await area.fill("Half a thought");
  await page.keyboard.press("Escape");
  for (const [from, to] of [["guide.md", "manual.md"], ["manual.md", "handbook.md"]]) {
    site.git("mv", from, to);
    site.commit(`now ${to}`);
    await page.locator("#gone", { hasText: `renamed to ${to}` }).waitFor({ state: "visible" });
  }
  // Another document under the name between takes nothing along of what is typed on its own page.
  site.write("manual.md", "# Another one\n");
  site.commit("another manual");
  await page.goto("/d/handbook.md");
  await page.waitForSelector(".reader[data-ready]");
  assert.match(await page.locator(".reader").getAttribute("data-earlier"), /^\[\["manual\.md",\d+\],"guide\.md"\]$/);
  assert.ok(await page.locator(".composer").isHidden(), "it was closed");
  await select(page, "second line");
  await page.keyboard.press("c");
  await area.waitFor({ state: "visible" });
  assert.equal(await area.inputValue(), "Half a thought");
});

test("a form that said that its document is gone no longer does once it is there again", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site, { allow: [/status of 404/] });
  const page = await read(ada, "guide.md", true);
  const form = page.locator(".composer");
  await select(page, "second line");
  await page.keyboard.press("c");
  await form.locator("textarea[name=body]").fill("Half a thought");
  site.git("rm", "-q", "guide.md");
  site.commit("no more guide");
  await page.locator("#gone").waitFor({ state: "visible" });
  await form.getByRole("button", { name: "Open Topic" }).click();
  const why = form.getByText("it was deleted");
  await why.waitFor();
  assert.equal(await form.getByRole("link").count(), 0);
  site.git("-c", "commit.gpgsign=false", "revert", "--no-edit", "HEAD");
  await page.locator("#gone").waitFor({ state: "hidden" });
  await why.waitFor({ state: "detached" });
  await form.getByRole("button", { name: "Open Topic" }).click();
  await page.waitForSelector(".note-title");
});

test("a page whose document is renamed or deleted says so", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site);
  const page = await read(ada, "guide.md", true);
  site.git("mv", "guide.md", "manual.md");
  site.commit("a better name");
  const banner = page.locator("#gone");
  await banner.waitFor({ state: "visible" });
  assert.match(await banner.textContent(), /renamed to manual\.md/);
  await banner.locator("a").click();
  await page.waitForURL(/\/d\/manual\.md$/);
  const other = await read(ada, "notes.md", true);
  site.git("rm", "-q", "notes.md");
  site.commit("no more notes");
  await other.locator("#gone").waitFor({ state: "visible" });
  assert.match(await other.locator("#gone").textContent(), /notes\.md is not there: it was deleted in commit [0-9a-f]{10}, by /);
  assert.match(await other.locator("#gone a").getAttribute("href"), /\/d\/notes\.md\?history=1$/);
  await other.close();
  await page.close();
});

test("the page of a missing document says when it is back", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site, { allow: [/status of 404/] });
  for (const change of [["rm", "-q", "guide.md"], ["mv", "guide.md", "manual.md"]]) {
    site.git(...change);
    site.commit("no more guide");
    const page = await ada.openLive("/d/guide.md");
    await page.getByText("404").waitFor();
    assert.ok(await page.locator("#gone").isHidden());
    site.git("-c", "commit.gpgsign=false", "revert", "--no-edit", "HEAD");
    await page.locator("#gone").getByText("The document is back.").waitFor();
    await page.locator("#gone").getByRole("link", { name: "Open it" }).click();
    await page.getByText("The second line.").waitFor();
    await page.close();
  }
});

test("signing out takes the other tabs along", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site, { allow: [/status of 401/] });
  const [page, other] = [await read(ada, "guide.md", true), await read(ada, "notes.md", true)];
  await page.locator(".menu-person summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await other.getByText("Keep this.").waitFor({ state: "detached" });
  assert.ok(!(await other.locator("body").textContent()).includes("Keep this"));
  await page.close();
  await other.close();
});

test("nothing is done in the name of somebody else who has signed in since", async (t) => {
  const site = await serve(t, { files: { "guide.md": "# Guide\n\nKeep this.\n" } });
  await site.post("/api/persons", { name: "eva", role: "member" });
  const topic = await site.topic("guide.md", "Keep this", "Why?");
  const ada = await visitor(t, site, { worker: false, allow: [/status of 403/, /ERR_FAILED/] });
  const beside = await read(ada, "guide.md", true);
  await select(beside, "Keep this");
  await beside.keyboard.press("c");
  await beside.locator(".composer textarea[name=body]").fill("Also from ada");
  const page = await ada.openLive(`/topics/${topic}`);
  const name = page.locator(".menu-person summary");
  await name.getByText("ada").waitFor();
  const reply = page.getByLabel("Your message");
  await reply.fill("From ada");
  // Eva signs in, and no page of hers has said so yet: what is sent names its person.
  const signIn = await ada.context.newPage();
  await signIn.route("**/assets/**", (route) => route.abort());
  await signIn.goto(await site.loginLink("eva"));
  await signIn.locator("main button[type=submit]").click();
  await signIn.waitForURL(`${site.origin}/`);
  await signIn.close();
  await reply.press("Control+Enter");
  await page.locator(".form-refusal", { hasText: "somebody else is signed in here now" }).waitFor();
  const told = await page.locator(".form-refusal").textContent();
  assert.match(told, /reload the page to go on as them$/, "and nothing for programs");
  await beside.locator(".composer textarea[name=body]").press("Control+Enter");
  await beside.locator(".composer").getByText("Reload the page to go on as them; what you wrote is kept for you.").waitFor();
  await beside.close();
  assert.equal(await reply.inputValue(), "From ada");
  assert.equal((await site.get(`/api/topics/${topic}`)).messages.length, 1);
  // Once there is one, the page is hers, without what ada has typed, who finds it later.
  await ada.open("/");
  await name.getByText("eva").waitFor();
  assert.equal(await reply.inputValue(), "");
  const back = await ada.open(await site.loginLink("ada"));
  await back.locator("main button[type=submit]").click();
  await name.getByText("ada").waitFor();
  await until("the words are back", async () => (await reply.inputValue()) === "From ada");
});

test("whoever cannot be signed out stays signed in, reads so, and keeps what they typed", async (t) => {
  const site = await serve(t, { files: { "guide.md": "# Guide\n\nKeep this.\n" } });
  const topic = await site.topic("guide.md", "Keep this", "Why?");
  const page = await (await visitor(t, site)).openLive(`/topics/${topic}`);
  await page.getByLabel("Your message").fill("not sent yet");
  await site.kill();
  const menu = page.locator(".menu-person");
  await menu.locator("summary").click();
  await menu.getByRole("button", { name: "Sign out" }).click();
  await menu.getByText("you are still signed in").waitFor();
  await site.start();
  await page.reload();
  await until("the words are back", async () => (await page.getByLabel("Your message").inputValue()) === "not sent yet");
  await menu.locator("summary").click();
  await menu.getByRole("button", { name: "Sign out" }).click();
  await page.locator("h1.sign-in").waitFor();
  const kept = await page.evaluate(() => Object.keys(sessionStorage).filter((it) => it.startsWith("wb-draft")));
  assert.deepEqual(kept, []);
});

const CHAT = `wb.engine "chat" { type = "process", command = { "/bin/false" }, prompt = "stdin",
  reads = "claude-stream-json", env = { ANTHROPIC_API_KEY = "k" } }
wb.assistant { runtimes = { claude_code = "chat" }, claude_code_persons = { "ada" } }
`;

test("every label of the navigation and beside a selection fits into 320 pixels", async (t) => {
  const site = await serve(t, { lua: CHAT });
  const ada = await visitor(t, site, { viewport: { width: 320, height: 568 }, touch: true });
  const page = await read(ada, "guide.md", true);
  const sides = (parts) => page.locator(parts).evaluateAll((all) => all.map((it) => {
    const { left, right } = it.getBoundingClientRect();
    return [left, right];
  }));
  await select(page, "second line");
  await picture(page, "narrow-320");
  for (const [parts, count, around] of [[".bar-nav a > span:not(.bar-count)", 5, "body"], [".reader-pop button", 2, ".reader-pop"]]) {
    const all = await sides(parts);
    assert.equal(all.length, count, parts);
    const [[start, end]] = await sides(around);
    assert.ok(start >= 0 && end <= 320, `${around}: ${start} to ${end}`);
    const edges = [start, ...all.flat(), end];
    assert.deepEqual(edges, [...edges].sort((a, b) => a - b), `one after the other: ${parts}`);
  }
});

test("no page is wider than its window, however long the document", async (t) => {
  const site = await serve(t, { files: { "long.md": LONG, "README.md": README, "logo.png": PIXEL, [`folder/${"a-long-name-".repeat(9)}.md`]: LONG } }, (making) => {
    making.topicKind("reword", "sed 's/word1 /another-word-that-is-long /' \"$root/$path\" | propose --summary 'Reworded'");
  });
  const ada = await visitor(t, site);
  const topic = await site.topic("long.md", "", words(60, "remark"));
  const proposal = await site.proposal("reword", topic);
  const addresses = [
    "/", "/d", "/d/long.md", "/d/long.md?text=1", "/d/README.md", "/topics", `/topics/${topic}`, "/jobs", "/settings",
    "/search?query=word1", "/jobs/new", `/proposals/${proposal}`, `/proposals/${proposal}?view=unified`,
    `/proposals/${proposal}?view=rendered`, `/proposals/${proposal}/edit`,
  ];
  // At 200 % a window of 1280 has 640 pixels of the page.
  const sizes = [[1280, 900], [1024, 768], [640, 450], [PHONE.width, PHONE.height], [320, 640]];
  for (const [width, height] of sizes) {
    const touch = width < 640;
    const visiting = await visitor(t, site, { viewport: { width, height }, touch });
    for (const address of addresses) {
      const page = await visiting.open(address);
      await page.waitForFunction(() => document.documentElement.dataset.modules === "started");
      const wide = await page.evaluate((width) => ({
        all: document.documentElement.scrollWidth, window: innerWidth,
        beyond: [...document.querySelectorAll("main *, header *")].filter((it) => it.getBoundingClientRect().right > width)
          .slice(0, 6).map((it) => `${it.tagName}.${it.className}`),
      }), width);
      assert.ok(wide.all <= width && wide.window <= width, `${address} at ${width}: ${JSON.stringify(wide)}`);
      const nav = await page.locator(".bar-nav").boundingBox();
      assert.ok(nav.x >= 0 && nav.x + nav.width <= width && nav.y + nav.height <= height, `${address} at ${width}: ${JSON.stringify(nav)}`);
      await page.close();
    }
  }
});

/** A document with two folds, the second of which holds `secret words`. */
const folded = (first) => `# Folds

${first}

<details><summary>More</summary>

The plain words are here.

</details>

<details><summary>More</summary>

The secret words are here.

</details>

The end.
`;

test("a Topic within a fold is reached from its note, its link and by keys", async (t) => {
  const site = await serve(t, { files: { "fold.md": folded("A line.") } });
  const id = await site.topic("fold.md", "secret words", "Which?");
  const ada = await visitor(t, site);
  const isOpen = (page) => page.$$eval("#text details", (all) => all.map((it) => it.open));
  const ways = [
    (page) => page.locator(`#topic-${id} .note-title`).click(), (page) => page.keyboard.press("j"), null,
  ];
  for (const way of ways) {
    const page = await ada.openLive(`/d/fold.md${way ? "" : `#topic-${id}`}`);
    await page.waitForSelector(".reader[data-ready]");
    if (way) {
      assert.deepEqual(await isOpen(page), [false, false]);
      await way(page);
    }
    await until("the fold is open", async () => (await isOpen(page))[1]);
    assert.equal((await isOpen(page))[0], false);
    await until("the words are marked", () => page.evaluate(() => CSS.highlights.get("wb-active")?.size === 1));
    assert.ok(await page.getByText("The secret words").evaluate((it) => it.getBoundingClientRect().height > 0));
    await page.close();
  }
});

test("what somebody has folded open stays open when the document changes", async (t) => {
  const site = await serve(t, { files: { "fold.md": folded("A line.") } });
  const page = await (await visitor(t, site)).openLive("/d/fold.md");
  await page.waitForSelector(".reader[data-ready]");
  await page.locator("#text summary").nth(1).click();
  const opened = await page.locator("#text details").nth(1).elementHandle();
  for (const first of ["Another line.", "A line.\n\nAnd one.\n\n## A heading", "Short."]) {
    site.write("fold.md", folded(first));
    const words = first.split("\n").at(-1).replace("## ", "");
    await page.waitForFunction((words) => document.querySelector("#text").textContent.includes(words), words);
    assert.deepEqual(await page.$$eval("#text details", (all) => all.map((it) => it.open)), [false, true], first);
    assert.ok(await opened.evaluate((it) => it.isConnected), "it is the same element");
  }
  await page.close();
});
