// The document's page: select, comment, follow, re-attach; on a phone, in the dark, without scripts.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { PHONE, layoutShift, select, serve, until, visitor } from "./harness.mjs";

const RIVER = `# River

A river is a *natural* watercourse, usually **freshwater**, flowing to the sea.

- Rain feeds it
- Springs keep it \`alive\`

The banks are looked after by volunteers.

${Array.from({ length: 30 }, (_, i) => `## Station ${i}\n\nThe bank at station ${i} is steep and quiet.\n`).join("\n")}`;

/** Opens a document and waits until its page is set. A test closes it: the server ends first. */
async function read(visiting, path = "river.md", live = false) {
  const page = await (live ? visiting.openLive(`/d/${path}`) : visiting.open(`/d/${path}`));
  await page.waitForSelector(".reader[data-ready]");
  return page;
}

const highlighted = (page, name) => page.evaluate((name) => CSS.highlights.get(name)?.size ?? 0, name);

/** Fails if a note stands over another. */
async function assertApart(page) {
  const boxes = await page.$$eval(".notes-placed .note", (all) =>
    all.map((it) => it.getBoundingClientRect()).map(({ top, bottom }) => ({ top, bottom })));
  boxes.sort((a, b) => a.top - b.top);
  for (let at = 1; at < boxes.length; at++) assert.ok(boxes[at].top >= boxes[at - 1].bottom, JSON.stringify(boxes));
}

// --- any selection is its bytes ---

function randomOf(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Makes a document of words that occur once, in all sorts of markup. */
function randomDocument(random) {
  const words = [];
  const word = () => {
    const made = `${["w", "ü", "日本", "x😀", "é"][random(5)]}${words.length}${["q", "ß", "👩‍💻", "z"][random(4)]}`;
    words.push(made);
    return made;
  };
  // Highlighted code is cut into words; these are whole.
  const name = () => {
    words.push(`r${words.length}k`);
    return words.at(-1);
  };
  const wraps = [
    (it) => it, (it) => it, (it) => `*${it}*`, (it) => `**${it}**`, (it) => `\`${it}\``, (it) => `[${it}](other.md "t")`,
    (it) => `~~${it}~~`, (it) => `***${it}***`, (it) => `&amp; ${it}`, (it) => `**a *${it}* \`b\`**`, (it) => `<b>${it}</b>`, (it) => `\\*${it}\\_`,
  ];
  const some = (count) => Array.from({ length: 1 + random(count) }, () => wraps[random(wraps.length)](word())).join(random(4) ? " " : "\n");
  const line = (count) => some(count).replaceAll("\n", " ");
  const blocks = [
    () => some(12), () => some(12), () => `${"#".repeat(1 + random(4))} ${line(3)}`,
    () => `- ${line(4)}\n- ${line(4)}\n  - ${line(3)}\n\n  ${line(4)}`,
    () => `> ${line(5)}\n> ${line(5)}`, () => `1. ${line(3)}\n2. ${line(3)}`,
    () => `| ${word()} | **${word()}** |\n|---|:-:|\n| \`${word()}\` | *${word()}* ${word()} |`,
    () => `\`\`\`rust\nlet ${name()} = 1; // ${name()}\nfn ${name()}() {}\n\`\`\``,
    () => `    ${word()} ${word()}\n    ${word()}`, () => `> [!TIP]\n> ${line(4)}`, () => `<div>\n${word()} ${word()}\n</div>`,
    () => `- [x] ${line(3)}\n- [ ] ${line(3)}`, () => `![${"alt"}](x.png)`,
  ];
  const text = Array.from({ length: 25 }, () => blocks[random(blocks.length)]()).join("\n\n");
  return { text: `${random(2) ? "\uFEFF" : ""}${text}\n`.replaceAll("\n", random(3) ? "\n" : "\r\n"), words };
}

test("what is selected across any markup is its bytes of the Source", async (t) => {
  const seed = Number(process.env.WB_SEED ?? Date.now() % 100_000);
  t.diagnostic(`WB_SEED=${seed}`);
  const random = randomOf(seed);
  const documents = Array.from({ length: 3 }, () => randomDocument(random));
  const files = Object.fromEntries(documents.map(({ text }, at) => [`random${at}.md`, text]));
  const site = await serve(t, { files: { ...files, ".gitattributes": "* -text\n" } });
  const ada = await visitor(t, site, { allow: [/404/] });
  for (const [at, { text, words }] of documents.entries()) {
    const cut = (word) => [...word].slice(0, random([...word].length)).join("").length;
    const cases = Array.from({ length: 200 }, () => {
      const [one, two] = [random(words.length), random(words.length)].sort((a, b) => a - b);
      const from = cut(words[one]);
      const to = one === two ? words[two].length : words[two].length - cut([...words[two]].reverse().join(""));
      return { first: words[one], from, last: words[two], to };
    });
    const page = await read(ada, `random${at}.md`);
    const answers = await page.evaluate(async (cases) => {
      const folder = document.querySelector("link[rel=stylesheet]").href.replace(/[^/]*$/, "");
      const { selectedIn } = await import(`${folder}paint.js`);
      const article = document.querySelector("#text");
      const { path } = document.querySelector(".reader").dataset;
      const nodes = [];
      const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) nodes.push(node);
      const find = (word, unit) => {
        const node = nodes.find((it) => it.data.includes(word));
        if (!node) throw new Error(`no ${word} in ${article.textContent}`);
        return [node, node.data.indexOf(word) + unit];
      };
      const all = cases.map(async ({ first, from, last, to }) => {
        const range = document.createRange();
        range.setStart(...find(first, from));
        range.setEnd(...find(last, to));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        const selected = selectedIn(article);
        const query = new URLSearchParams({ path, blob: article.dataset.blob, ...selected });
        const answer = await fetch(`/api/source/passage?${query}`);
        return { selected, body: await answer.json() };
      });
      return Promise.all(all);
    }, cases);
    for (const [number, { first, from, last, to }] of cases.entries()) {
      const [start, end] = [text.indexOf(first) + from, text.indexOf(last) + to];
      const { body, selected } = answers[number];
      const says = `${JSON.stringify(cases[number])} ${JSON.stringify(selected)} ${JSON.stringify(body)}`;
      assert.equal(body.quote, text.slice(start, end), says);
      assert.equal(body.start, Buffer.byteLength(text.slice(0, start)), says);
      assert.equal(body.end, Buffer.byteLength(text.slice(0, end)), says);
    }
    // The map's own words: each block's text is what the browser has.
    const { blocks } = await site.get(`/api/source/rendered?path=random${at}.md`);
    const contents = await page.$$eval("#text [data-b]", (all) => all.map((it) => [it.dataset.b, it.textContent.length]));
    assert.deepEqual(contents, blocks.map((it) => [`${it.start}-${it.end}`, it.units]));
    await page.close();
  }
});

// --- from words to a Topic ---

test("selected words become a Topic beside them, and their mark", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  await site.topic("river.md", "flowing to the sea", "To which sea?");
  const ada = await visitor(t, site);
  const page = await read(ada);
  assert.equal(await highlighted(page, "wb-topic"), 1);
  await select(page, "tural", "freshwa");
  await page.click(".reader-pop [aria-label='Comment on this passage']");
  await page.waitForFunction(() => document.querySelector(".composer blockquote").textContent === "tural* watercourse, usually **freshwa");
  await page.fill(".composer textarea[name=body]", "Is it always *natural*?");
  await page.click(".composer .button-main");
  await page.waitForFunction(() => document.querySelectorAll(".notes-placed .note").length === 2);
  assert.equal(await highlighted(page, "wb-topic"), 2);
  const { items } = await site.get("/api/topics?source_path=river.md");
  const made = items.find((it) => it.title.startsWith("Is it always"));
  assert.equal(made.anchor.quote, "tural* watercourse, usually **freshwa");
  await assertApart(page);
  const [words, card] = await page.evaluate(() => {
    const [range] = CSS.highlights.get("wb-active");
    return [range.getBoundingClientRect().top, document.querySelector(".note.is-active").getBoundingClientRect().top];
  });
  assert.ok(Math.abs(words - card) < 24, `${words} ${card}`);
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  assert.equal(await page.evaluate(() => document.activeElement.closest(".note") !== null), true);
  await page.close();
});

test("a paragraph is chosen by the keyboard alone", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  const ada = await visitor(t, site);
  const page = await read(ada);
  await page.keyboard.press("c");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Shift+ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".composer blockquote").textContent !== "");
  await page.keyboard.type("Both of these?");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".notes-placed .note");
  const [made] = (await site.get("/api/topics?source_path=river.md")).items;
  assert.equal(made.anchor.quote, "Rain feeds it\n- Springs keep it `alive");
  await page.close();
});

test("a paragraph that is chosen is read out, and the focus stays where it was written", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  const page = await read(await visitor(t, site), "river.md", true);
  const said = (words) => page.waitForFunction((words) => document.querySelector("#say").textContent.includes(words), words);
  await page.keyboard.press("c");
  await said("Current: River");
  await page.keyboard.press("ArrowDown");
  await said("A river is a natural");
  await page.keyboard.press("Shift+ArrowDown");
  await said("2 paragraphs, up to: Rain feeds it");
  await page.keyboard.press("ArrowUp");
  await said("A river is a natural");
  await page.keyboard.press("Enter");
  await page.locator(".composer").getByLabel("What should change").fill("Unclear");
  await page.keyboard.press("Control+Enter");
  await said("Topic opened.");
  const focused = () => page.evaluate(() => document.activeElement.closest("[data-b]")?.textContent ?? document.activeElement.tagName);
  assert.match(await focused(), /^A river is a natural/);
  // What is closed by keys leaves the focus in its thread.
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  const card = page.locator(".note.is-open");
  const close = card.getByRole("button", { name: "Close", exact: true });
  await close.waitFor();
  const isThere = () => close.evaluate((it) => it === document.activeElement);
  for (let steps = 0; steps < 20 && !(await isThere()); steps += 1) await page.keyboard.press("Tab");
  assert.ok(await isThere(), await focused());
  await page.keyboard.press("Enter");
  await card.getByRole("button", { name: "Reopen" }).waitFor();
  assert.ok(await card.evaluate((it) => it.contains(document.activeElement)), await focused());
  await page.close();
});

test("what is typed into a field while a paragraph is chosen stays in it", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  const topic = await site.topic("river.md", "Springs keep it", "Do they?");
  const page = await read(await visitor(t, site), "river.md", true);
  const card = page.locator(`#topic-${topic}`);
  await card.locator(".note-title").click();
  const reply = card.getByLabel("Your message");
  await reply.waitFor();
  await page.keyboard.press("c");
  await page.locator(".reader-hint").waitFor();
  await reply.click();
  await page.keyboard.type("I do not agree\nindeed");
  assert.equal(await reply.inputValue(), "I do not agree\nindeed");
  assert.ok(await page.locator(".composer").isHidden());
  // Beside it the keys choose as before.
  await page.keyboard.press("Tab");
  await page.keyboard.press("d");
  await page.locator(".composer", { hasText: "about the whole document" }).waitFor();
  await page.close();
});

test("a passage that changes under the form costs nothing that was typed", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  const ada = await visitor(t, site, { allow: [/409/] });
  const page = await read(ada);
  await select(page, "Rain feeds it");
  await page.keyboard.press("c");
  await page.fill(".composer textarea[name=body]", "Snow too");
  await page.waitForFunction(() => document.querySelector(".composer blockquote").textContent !== "");
  site.write("river.md", RIVER.replace("Rain feeds it", "Rain and snow feed it"));
  await page.click(".composer .button-main");
  await page.waitForSelector(".composer .trouble-text button");
  assert.equal(await page.inputValue(".composer textarea[name=body]"), "Snow too");
  await page.click(".composer .trouble-text button");
  await page.waitForFunction(() => document.querySelector("#text").textContent.includes("Rain and snow feed it"));
  await select(page, "Rain and snow feed it");
  await page.keyboard.press("c");
  assert.equal(await page.inputValue(".composer textarea[name=body]"), "Snow too");
  await page.click(".composer .button-main");
  await page.waitForSelector(".notes-placed .note");
  await page.close();
});

test("a Topic whose words are gone is seen, and is put on others from the page", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  const id = await site.topic("river.md", "The banks are looked after by volunteers.", "By whom?");
  site.write("river.md", RIVER.replace("The banks are looked after by volunteers.\n\n", ""));
  site.commit("gone");
  const ada = await visitor(t, site);
  const page = await read(ada);
  const lost = page.locator(`.notes-lost #topic-${id}`);
  assert.match(await lost.innerText(), /By whom\?[^]*The banks are looked after/);
  await select(page, "Springs", "alive");
  await lost.locator(".note-move").click();
  await page.waitForFunction(() => document.querySelector(".composer blockquote").textContent !== "");
  await page.click(".composer .button-main");
  await page.waitForSelector(`.notes-placed #topic-${id}`);
  const { topic } = await site.get(`/api/topics/${id}`);
  assert.equal(topic.placement.state, "exact");
  assert.equal(topic.anchor.quote, "Springs keep it `alive");
  await page.close();
});

test("the page follows what others do, and keeps its place", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  const ada = await visitor(t, site);
  const page = await read(ada, "river.md", true);
  await page.evaluate(() => document.querySelector("#md-station-20").scrollIntoView());
  const before = await page.$eval("#md-station-20", (it) => it.getBoundingClientRect().top);
  await site.topic("river.md", "at station 20 is", "How steep?");
  await page.waitForSelector(".notes-placed .note");
  site.write("river.md", RIVER.replace("A river is", "First of all.\n\nAnd then.\n\nA river is"));
  await page.waitForFunction(() => document.querySelector("#text").textContent.includes("And then."));
  await until("the place is kept", async () => {
    const after = await page.$eval("#md-station-20", (it) => it.getBoundingClientRect().top);
    return Math.abs(after - before) < 4;
  });
  await until("the words are marked", async () => (await highlighted(page, "wb-topic")) === 1);
  await page.close();
});

test("a reader who goes on while a new text comes stays where they are", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  const page = await read(await visitor(t, site, { worker: false }), "river.md", true);
  const held = [];
  await page.route("**/d/river.md", async (route) => {
    const response = await route.fetch();
    if (/text/.test(route.request().headers()["wb-fragment"] ?? "")) await new Promise((resolve) => held.push(resolve));
    await route.fulfill({ response });
  });
  await page.evaluate(() => document.querySelector("#md-station-5").scrollIntoView({ behavior: "instant" }));
  site.write("river.md", RIVER.replace("A river is", "First of all.\n\nA river is"));
  await until("the new text is on its way", () => held.length > 0);
  await page.evaluate(() => document.querySelector("#md-station-20").scrollIntoView({ behavior: "instant" }));
  const top = () => page.$eval("#md-station-20", (it) => it.getBoundingClientRect().top);
  const before = await top();
  held.shift()();
  await page.waitForFunction(() => document.querySelector("#text").textContent.includes("First of all."));
  await until("the place is kept", async () => Math.abs(await top() - before) < 4);
  await page.close();
});

test("a long text of which much is taken away above stays where its reader is", async (t) => {
  const part = (at) => `Paragraph ${at} says ${"many words that are read ".repeat(3 + (at * 7) % 40)}\n\n\`\`\`\n${"code line\n".repeat((at * 13) % 30)}\`\`\`\n\n`;
  const parts = Array.from({ length: 500 }, (_, at) => `## Part ${at}\n\n${part(at)}`).join("");
  const text = (more) => `# Large\n\n${more}${parts}`;
  const site = await serve(t, { files: { "large.md": text("") } });
  const page = await read(await visitor(t, site), "large.md", true);
  await page.evaluate(() => document.getElementById("md-part-400").scrollIntoView());
  const top = () => page.$eval("#md-part-400", (it) => it.getBoundingClientRect().top);
  let before = null;
  await until("it stands still", async () => {
    const last = before;
    before = await top();
    return before === last && Math.abs(before) < 100;
  });
  for (const more of [part(20).repeat(60), ""]) {
    const blob = await page.$eval("#text", (it) => it.dataset.blob);
    site.write("large.md", text(more));
    await page.waitForFunction((blob) => document.querySelector("#text").dataset.blob !== blob, blob);
    await until("the place is kept", async () => Math.abs(await top() - before) < 4);
  }
  await page.close();
});

test("a text that changes while the one before is on its way is there in the end", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  const page = await read(await visitor(t, site, { worker: false }), "river.md", true);
  const held = [];
  await page.route("**/d/river.md", async (route) => {
    const response = await route.fetch();
    if (/text/.test(route.request().headers()["wb-fragment"] ?? "") && held.length === 0) await new Promise((resolve) => held.push(resolve));
    await route.fulfill({ response });
  });
  const notes = () => page.$eval("#notes", (it) => it.dataset.blob);
  const first = await notes();
  site.write("river.md", RIVER.replace("A river is", "First of all.\n\nA river is"));
  await until("the new text is on its way", () => held.length > 0);
  const second = await notes();
  assert.notEqual(second, first);
  site.write("river.md", RIVER.replace("A river is", "And then.\n\nA river is"));
  await until("the page has heard of the next one", async () => (await notes()) !== second);
  held[0]();
  await page.waitForFunction(() => document.querySelector("#text").textContent.includes("And then."));
  await page.close();
});

// --- everywhere ---

test("a phone reads, steps through the Topics and comments with one thumb", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  await site.topic("river.md", "at station 9 is", "How steep?");
  const ada = await visitor(t, site, { viewport: PHONE, touch: true, theme: "dark" });
  const page = await read(ada);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  assert.equal(await page.isVisible("#notes"), false);
  await page.tap("button[aria-label='Next Topic']");
  await page.waitForSelector("#notes .note.is-active");
  assert.equal(await page.evaluate(() => {
    const [range] = CSS.highlights.get("wb-active");
    const box = range.getBoundingClientRect();
    return box.top >= 0 && box.bottom < document.querySelector("#notes").getBoundingClientRect().top;
  }), true);
  await page.tap(".sheet-close");
  await select(page, "The bank at station 9");
  await page.tap(".bar-comment");
  await page.fill(".composer textarea[name=body]", "From a phone");
  await page.tap(".composer .button-main");
  await page.waitForFunction(() => document.querySelectorAll("#notes .note").length === 2);
  for (const size of await page.$$eval(".reader-bar button", (all) => all.map((it) => it.getBoundingClientRect().height))) {
    assert.ok(size >= 44);
  }
  await page.close();
});

test("without scripts a document is read, its Topics listed, and one is opened", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  await site.topic("river.md", "flowing to the sea", "To which sea?");
  const ada = await visitor(t, site, { script: false });
  const page = await ada.open("/d/river.md");
  assert.equal(await page.locator("#text em").innerText(), "natural");
  assert.match(await page.locator("#notes .note").innerText(), /To which sea\?[^]*flowing to the sea/);
  await page.click("#notes .note-line");
  assert.equal(await page.locator("mark").innerText(), "flowing to the sea");
  await page.goto("/d/river.md");
  await page.fill("#new textarea[name=quote]", "Rain feeds it");
  await page.fill("#new textarea[name=body]", "By a form");
  await page.click("#new button[type=submit]");
  await page.waitForURL(/\/topics\//);
  await page.close();
});

test("a browser without highlights marks the words with elements", async (t) => {
  const site = await serve(t, { files: { "river.md": RIVER } });
  await site.topic("river.md", "*natural* watercourse, usually **fresh", "Over markup");
  await site.topic("river.md", "watercourse", "Within it");
  const ada = await visitor(t, site);
  await ada.context.addInitScript(() => Object.defineProperty(CSS, "highlights", { value: undefined }));
  const page = await read(ada);
  const marked = () => page.$$eval("mark.wb-topic:not(mark mark)", (all) => all.map((it) => it.textContent).join(""));
  const blocks = () => page.$$eval("#text [data-b]", (all) => all.map((it) => it.textContent));
  const before = await blocks();
  assert.match(await marked(), /^natural watercourse, usually fresh$/);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.equal(await page.$$eval("mark.wb-active", (all) => all.map((it) => it.textContent).join("")), "watercourse");
  assert.deepEqual(await blocks(), before);
  await page.close();
});

test("nothing serious is wrong for those who hear the page or see it badly", async (t) => {
  const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  const text = `---\ntitle: x\n---\n${RIVER}\n\n| a | b |\n|---|---|\n| c | d |\n\n\`\`\`rust\nfn main() { println!("x"); } // y\n\`\`\`\n\n> [!WARNING]\n> Deep.\n\n- [x] done\n`;
  const site = await serve(t, { files: { "river.md": text } });
  await site.topic("river.md", "flowing to the sea", "To which sea?");
  await site.topic("river.md", "The banks are looked after by volunteers.", "By whom?");
  await site.topic("river.md", null, "All of it");
  site.write("river.md", text.replace("The banks are looked after by volunteers.\n", ""));
  for (const theme of ["light", "dark"]) {
    const ada = await visitor(t, site, { theme });
    const page = await read(ada);
    await select(page, "Rain feeds it");
    await page.keyboard.press("c");
    await page.evaluate(axe);
    const found = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
    const serious = found.violations.filter((it) => ["serious", "critical"].includes(it.impact));
    assert.deepEqual(serious.map((it) => [it.id, it.nodes.map((node) => node.html.slice(0, 120))]), [], theme);
    await page.close();
  }
});

test("images are of the repository, and a drawing is a file to be saved", async (t) => {
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" onload="alert(1)"><script>alert(1)</script><rect width="20" height="20"/></svg>';
  const text = "# Images\n\n![a](img/a.svg)\n\n![b](https://evil.example/b.png)\n\n![c](data:image/svg+xml,x)\n";
  const site = await serve(t, { files: { "docs/a.md": text, "docs/img/a.svg": svg, "docs/img/b.png": "<script>" } });
  site.write("docs/img/loose.svg", svg);
  const ada = await visitor(t, site);
  const page = await read(ada, "docs/a.md");
  await page.waitForFunction(() => document.querySelector("#text img").naturalWidth === 20);
  assert.equal(await page.locator("#text img").count(), 1);
  const raw = async (path) => {
    const answer = await ada.context.request.get(`/raw/${path}`);
    return [answer.status(), answer.headers()["content-disposition"], answer.headers()["content-security-policy"]];
  };
  assert.deepEqual(await raw("docs/img/a.svg"), [200, "attachment", "default-src 'none'; frame-ancestors 'none'; sandbox"]);
  for (const path of ["docs/img/b.png", "docs/img/loose.svg", "docs/a.md", "data/operator.token", ".git/config"]) {
    assert.equal((await raw(path))[0], 404, path);
  }
  await page.close();
});

test("a large document with many Topics is soon there, and stands still", async (t) => {
  let text = "# Large\n\n";
  for (let at = 0; text.length < 100_000; at++) {
    text += `## Part ${at}\n\nParagraph number ${at} says *something* about \`item${at}\` and **more** of it, at some length, as documents do when they are written by people who know what they want to say.\n\n- one point of ${at}\n- another point of ${at}\n\n`;
  }
  const site = await serve(t, { files: { "large.md": text } });
  const numbers = Array.from({ length: 200 }, (_, at) => at);
  for (let from = 0; from < 200; from += 20) {
    await Promise.all(numbers.slice(from, from + 20).map((at) =>
      site.topic("large.md", `Paragraph number ${at} says`, `Question ${at}`)));
  }
  const ada = await visitor(t, site);
  await (await read(ada, "large.md")).close();
  const page = await ada.context.newPage();
  await page.goto("/d/large.md");
  await page.waitForSelector(".reader[data-ready]");
  const ready = await page.evaluate(() => performance.getEntriesByName("wb-reader-ready")[0].startTime);
  t.diagnostic(`ready after ${Math.round(ready)} ms`);
  const html = await (await ada.context.request.get("/d/large.md")).text();
  t.diagnostic(`${html.length} bytes of HTML for ${text.length}`);
  // Its 900 paragraphs and points, and an entry of the contents for each of its headings.
  assert.ok(html.length < 3.2 * text.length, `${html.length}`);
  assert.ok(ready < 15_000, `${ready} ms even in a debug build on a busy machine`);
  assert.ok((await layoutShift(page)) < 0.02);
  await assertApart(page);
  // Far away, where nothing was laid out before: words, note and heading stand where they should.
  await page.keyboard.press("k");
  await beside(page, "Question 199", "Paragraph number 199 says");
  await assertApart(page);
  await page.locator(".contents a", { hasText: /^Part 90$/ }).evaluate((it) => it.click());
  await page.waitForFunction(() => Math.abs(document.getElementById("md-part-90").getBoundingClientRect().top) < 60);
  await beside(page, "Question 90", "Paragraph number 90 says");
  await page.reload();
  await beside(page, "Question 90", "Paragraph number 90 says");
  await page.goto("/d/guide.md");
  await page.goto("/d/large.md#md-part-150");
  await beside(page, "Question 150", "Paragraph number 150 says");
  await page.goBack();
  await page.goBack();
  await beside(page, "Question 90", "Paragraph number 90 says");
  // Within the page, too.
  await page.locator(".contents a", { hasText: /^Part 30$/ }).evaluate((it) => it.click());
  await beside(page, "Question 30", "Paragraph number 30 says");
  await page.goBack();
  await beside(page, "Question 90", "Paragraph number 90 says");
  await page.goForward();
  await beside(page, "Question 30", "Paragraph number 30 says");
  await page.close();
});

/** Waits until a note stands at the height of its words, both in the window. */
async function beside(page, title, words) {
  await page.waitForFunction(([title, words]) => {
    const of = (within, text) => [...document.querySelectorAll(within)].find((it) => it.textContent.includes(text));
    const card = of(".notes-placed .note", title)?.getBoundingClientRect();
    const block = of("#text p", words)?.getBoundingClientRect();
    const isSeen = block && block.top >= 0 && block.bottom <= innerHeight;
    return isSeen && Math.abs(card.top + 8 - block.top) < 24;
  }, [title, words]);
}
