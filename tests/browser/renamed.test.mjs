// What is typed on a document goes with it, whatever it is called by then, and never to another one
// that has its name.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isLive, select, serve, until, visitor } from "./harness.mjs";

const text = (name) => `# ${name}\n\nIntroduction of ${name} with words of its own.\n\nRun the installer and wait.\n\nThe end of ${name}.\n`;
const FILES = { "guide.md": text("Guide"), "a.md": text("Alpha"), "b.md": text("Beta") };
const MISSING = [/status of 404/];

/** Opens a document, and waits until one can write about it. */
async function read(visitor, address) {
  const page = await visitor.openLive(address);
  await page.waitForSelector(".reader[data-ready]");
  return page;
}

/** The form below the text. */
const below = (page) => page.locator("#new form");

async function write(page, words) {
  await below(page).getByText("The whole document").click();
  await below(page).locator("textarea[name=body]").fill(words);
}

const words = (page) => below(page).locator("textarea[name=body]").inputValue();
const topics = async (site, name) => (await site.get(`/api/topics?source_path=${name}`)).items;

test("the form below a text leads on when the document is renamed, with what is typed", async (t) => {
  const site = await serve(t, { files: FILES });
  const ada = await visitor(t, site, { allow: MISSING });
  const page = await read(ada, "/d/guide.md");
  await write(page, "Half a thought");
  site.git("mv", "guide.md", "manual.md");
  site.commit("a better name");
  await page.locator("#gone").waitFor({ state: "visible" });
  await below(page).locator("textarea[name=body]").press("Control+Enter");
  const refusal = below(page).locator(".form-refusal");
  await refusal.getByText("renamed to manual.md").waitFor();
  await refusal.getByRole("link", { name: "Open it under its new name" }).click();
  await page.waitForURL(/\/d\/manual\.md$/);
  await isLive(page);
  assert.equal(await words(page), "Half a thought");
  // By its address, and not to another one whose name begins like that.
  site.git("mv", "manual.md", "handbook.md");
  site.commit("the best name");
  await page.locator("#gone").waitFor({ state: "visible" });
  await page.goto("/d/a.md");
  assert.equal(await words(page), "");
  await page.goto("/d/handbook.md");
  await isLive(page);
  assert.equal(await words(page), "Half a thought");
  await write(page, "The whole thought");
  await below(page).locator("textarea[name=body]").press("Control+Enter");
  await until("a Topic", async () => (await topics(site, "handbook.md")).length === 1);
});

/** Calls one document as another one was called: elsewhere, so that both names change at once here. */
function handOn(site) {
  const clone = `${site.base}/elsewhere`;
  const git = (...args) => site.git("-C", clone, "-c", "commit.gpgsign=false", ...args);
  site.git("clone", "-q", ".", clone);
  git("mv", "b.md", "c.md");
  git("mv", "a.md", "b.md");
  git("commit", "-q", "-m", "handed on");
  site.git("pull", "-q", "--ff-only", clone, "main");
}

test("what is typed below a document goes to none that has its name by then", async (t) => {
  const site = await serve(t, { files: FILES });
  const ada = await visitor(t, site, { allow: MISSING });
  const page = await read(ada, "/d/b.md");
  await write(page, "For Beta");
  handOn(site);
  await page.locator("#gone", { hasText: "yours was renamed to c.md" }).waitFor({ state: "visible" });
  assert.ok(await page.locator("#text", { hasText: "Introduction of Beta" }).isVisible());
  await below(page).locator("textarea[name=body]").press("Control+Enter");
  await below(page).locator(".form-refusal a").waitFor();
  assert.deepEqual([await topics(site, "b.md"), await topics(site, "c.md")], [[], []]);
  // The other one gets nothing of it, and hands it over.
  await page.goto("/d/b.md");
  await isLive(page);
  assert.ok(await page.locator("#text", { hasText: "Introduction of Alpha" }).isVisible());
  assert.equal(await words(page), "");
  await page.goto("/d/c.md");
  await isLive(page);
  assert.equal(await words(page), "For Beta");
  await write(page, "For Beta");
  await below(page).locator("textarea[name=body]").press("Control+Enter");
  await until("a Topic", async () => (await topics(site, "c.md")).length === 1);
  assert.deepEqual(await topics(site, "b.md"), []);
});

test("a comment on a passage goes with its document, though another one has its name and the passage", async (t) => {
  const site = await serve(t, { files: FILES });
  const ada = await visitor(t, site, { allow: MISSING });
  const page = await read(ada, "/d/b.md");
  const form = page.locator(".composer");
  await select(page, "Run the installer");
  await page.keyboard.press("c");
  await form.locator("textarea[name=body]").fill("For Beta");
  handOn(site);
  await page.locator("#gone").waitFor({ state: "visible" });
  await form.getByRole("button", { name: "Open Topic" }).click();
  await form.getByText("yours was renamed to c.md").waitFor();
  assert.deepEqual([await topics(site, "b.md"), await topics(site, "c.md")], [[], []]);
  // Whoever types the new address finds it, too.
  await page.goto("/d/c.md");
  await form.waitFor({ state: "visible" });
  assert.equal(await form.locator("textarea[name=body]").inputValue(), "For Beta");
  await form.locator("textarea[name=body]").press("Control+Enter");
  await form.waitFor({ state: "hidden" });
  assert.equal((await topics(site, "c.md")).length, 1);
});

test("a suggestion goes with its document when two exchange their names", async (t) => {
  const site = await serve(t, { files: FILES });
  const ada = await visitor(t, site, { allow: MISSING });
  const page = await read(ada, "/d/b.md");
  const form = page.locator(".composer");
  await select(page, "Run the installer");
  await page.keyboard.press("s");
  const words = form.getByLabel("New text");
  await until("the words are there", async () => await words.inputValue() === "Run the installer");
  await words.fill("Start the installer");
  for (const [from, to] of [["a.md", "x.md"], ["b.md", "a.md"], ["x.md", "b.md"]]) site.git("mv", from, to);
  site.commit("exchanged");
  await page.locator("#gone").waitFor({ state: "visible" });
  await form.getByRole("button", { name: "Suggest this change" }).click();
  await form.getByRole("link", { name: "Open it under its new name" }).click();
  await page.waitForURL(/\/d\/a\.md$/);
  await form.waitFor({ state: "visible" });
  assert.equal(await words.inputValue(), "Start the installer");
  assert.deepEqual(await topics(site, "b.md"), []);
});

test("a change of the document itself is no other document", async (t) => {
  const site = await serve(t, { files: FILES });
  const ada = await visitor(t, site, { allow: MISSING });
  const page = await read(ada, "/d/b.md");
  await write(page, "For Beta");
  site.write("b.md", `${text("Beta")}\nMore of it.\n`);
  site.commit("more");
  await page.locator("#text", { hasText: "More of it" }).waitFor();
  await below(page).locator("textarea[name=body]").press("Control+Enter");
  await until("a Topic", async () => (await topics(site, "b.md")).length === 1);
});
