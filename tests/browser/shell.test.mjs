// The shell of the pages: what is live, what stays while it is swapped, and what finds its way back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isLive, layoutShift, serve, until, visitor } from "./harness.mjs";

test("a page shows what others do, without being asked", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const page = await ada.openLive("/");
  await site.topic("guide.md", "The first line", "Could this be better?");
  await page.getByText("Could this be better?").waitFor();
  assert.ok(await layoutShift(page) < 0.1, `${await layoutShift(page)}`);
});

test("eight tabs share one stream, and the next tab goes on when the first is closed", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const tabs = [];
  for (let i = 0; i < 8; i++) tabs.push(await ada.openLive("/"));
  const streams = async () => Number(/^wb_event_streams (\d+)/m.exec((await site.get("/metrics")))?.[1]);
  assert.equal(await streams(), 1);
  await site.topic("guide.md", "The first line", "To all eight");
  for (const tab of tabs) await tab.getByText("To all eight").waitFor();
  // Whoever leads is the first; what happens while nobody leads is not lost.
  await tabs[0].close();
  await site.topic("guide.md", "The second line", "To those who are left");
  for (const tab of tabs.slice(1)) await tab.getByText("To those who are left").waitFor();
  await until("one stream again", async () => (await streams()) === 1);
  // A click is answered although all of them are open.
  await tabs[7].goto("/settings");
  await isLive(tabs[7]);
});

test("a killed server is shown, and found again", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const [first, second] = [await ada.openLive("/"), await ada.openLive("/")];
  await site.kill();
  for (const tab of [first, second]) await tab.getByText("Connection lost").first().waitFor();
  await site.start();
  await site.topic("guide.md", "The first line", "After the crash");
  for (const tab of [first, second]) {
    await isLive(tab);
    await tab.getByText("After the crash").waitFor();
    await tab.locator("#connection").waitFor({ state: "hidden" });
  }
});

test("a swap takes neither the focus nor the selection nor what is typed", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const kept = await site.topic("guide.md", "The first line", "The one that is held");
  const page = await ada.openLive("/");
  await page.evaluate((id) => {
    const row = document.querySelector(`a[href="/topics/${id}"]`);
    row.focus();
    const title = row.querySelector(".row-title").firstChild;
    getSelection().setBaseAndExtent(title, 4, title, 7);
  }, kept);
  await site.topic("guide.md", "The second line", "One that comes above it");
  await page.getByText("One that comes above it").waitFor();
  const held = await page.evaluate(() => ({
    focus: document.activeElement.getAttribute("href"), selection: getSelection().toString(),
  }));
  assert.deepEqual(held, { focus: `/topics/${kept}`, selection: "one" });
});

test("what is typed, folded open and scrolled stays, and what has gone gives its focus back", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const page = await ada.open("/settings");
  const held = await page.evaluate(async () => {
    const address = document.querySelector("link[rel=stylesheet]").href.replace("wb.css", "swap.js");
    const swap = await import(address);
    const before = `<div id="part"><p>old</p><details id="d"><summary>s</summary>x</details>
      <div id="box" class="log"><p>1</p><p>2</p></div><input id="typed" value="a"><button id="b">b</button>
      <span data-keep>mine</span></div>`;
    document.querySelector("main").replaceChildren(swap.html(before));
    const by = (id) => document.getElementById(id);
    by("d").open = true;
    by("typed").value = "half a sent";
    by("b").focus();
    const [typed, box] = [by("typed"), by("box")];
    const after = `<div id="part" class="new"><p>new</p><p>more</p><details id="d"><summary>s</summary>y</details>
      <div id="box" class="log"><p>1</p><p>2</p><p>3</p></div><input id="typed" value="b"></div>`;
    let swapped = 0;
    by("part").addEventListener("wb:swapped", () => { swapped += 1; });
    swap.fragment(after, ["part"]);
    return {
      isOpen: by("d").open, text: by("d").textContent, typed: by("typed").value,
      isSame: by("typed") === typed && by("box") === box, rows: box.children.length,
      mine: by("part").textContent.includes("mine"), focus: document.activeElement.id,
      isNew: by("part").className, old: by("part").textContent.includes("old"), swapped,
    };
  });
  assert.deepEqual(held, {
    isOpen: true, text: "sy", typed: "half a sent", isSame: true, rows: 3, mine: true,
    focus: "part", isNew: "new", old: false, swapped: 1,
  });
});

test("all scripts together are small", async (t) => {
  const { gzipSync } = await import("node:zlib");
  const fs = await import("node:fs");
  const folder = new URL("../../src/http/assets/", import.meta.url);
  const scripts = fs.readdirSync(folder, { recursive: true }).filter((it) => it.endsWith(".js"));
  const bytes = scripts.map((it) => gzipSync(fs.readFileSync(new URL(it, folder)), { level: 9 }).length);
  const sum = bytes.reduce((a, b) => a + b, 0);
  t.diagnostic(`${scripts.length} scripts, ${sum} bytes compressed`);
  assert.ok(sum < 92 * 1024, `${sum}`);
});

test("pages are compressed, files are kept for ever, and streams are neither", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const page = await ada.context.newPage();
  const heads = new Map();
  page.on("response", (it) => heads.set(new URL(it.url()).pathname, it.headers()));
  await page.goto("/");
  await isLive(page);
  assert.equal(heads.get("/")["content-encoding"], "gzip");
  assert.equal(heads.get("/")["cache-control"], "no-store");
  assert.equal(heads.get("/api/events")["content-encoding"], undefined);
  const files = [...heads].filter(([path]) => path.startsWith("/assets/"));
  assert.ok(files.length > 4);
  for (const [path, head] of files) {
    assert.match(head["cache-control"], /immutable/, path);
    if (!path.endsWith(".png")) assert.equal(head["content-encoding"], "gzip", path);
  }
  const manifest = await (await page.request.get("/site.webmanifest")).json();
  for (const { src } of manifest.icons) assert.equal((await page.request.get(src)).status(), 200);
});
