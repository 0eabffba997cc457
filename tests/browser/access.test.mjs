// Every page for everybody: nothing serious that axe finds in either theme, all of it by keyboard,
// and the whole flow without a script.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PHONE, findings, serve, until, visitor } from "./harness.mjs";
import { live, pages, richSite } from "./rich.mjs";

/** What looks like another page of the list. */
const ALIKE = ["documents", "orphan", "approved", "rejected", "superseded", "nothing", "search", "prompt"];
const WELL = "guide/cleaning-the-well.md";

test("axe finds nothing serious on any page, in both themes, on a desk and on a phone", async (t) => {
  const site = richSite();
  t.after(() => site.close());
  await site.start();
  const all = pages(await live(site));
  const found = [];
  const visit = async (options, run) => {
    const ada = await visitor(t, site, options);
    const page = await ada.context.newPage();
    for (const [name, address] of Object.entries(all)) {
      if (run && ALIKE.includes(name)) continue;
      await page.goto(address);
      for (const line of await findings(page, run)) found.push(`${name} (${options.theme}): ${line}`);
    }
  };
  const contrast = { runOnly: ["color-contrast", "target-size"] };
  // A dark page has the same elements: what is different are its colors, on a phone its places.
  await Promise.all([
    visit({ theme: "light" }),
    visit({ theme: "dark" }, contrast),
    visit({ theme: "light", viewport: PHONE, touch: true }, contrast),
  ]);
  assert.deepEqual([...new Set(found)], []);
});

test("everything around the pages is done by keyboard alone", async (t) => {
  const site = await serve(t, { files: { "well/clean.md": "# Well\n\nBrush it.\n" } });
  const ada = await visitor(t, site);
  const page = await ada.openLive("/");
  const press = (...keys) => keys.reduce((done, it) => done.then(() => page.keyboard.press(it)), Promise.resolve());
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
  await press("Tab");
  assert.equal(await focused(), "Skip to content");
  await press("Enter", "?");
  await page.getByRole("heading", { name: "Shortcuts" }).waitFor();
  await press("Escape", "g", "d");
  await page.waitForURL(`${site.origin}/decisions`);
  await press("g", "f");
  await page.waitForURL(`${site.origin}/d`);
  // Who goes on typing at once types into it.
  await press("/");
  await page.keyboard.type("clean");
  await page.locator(".palette-row", { hasText: "well/clean.md" }).waitFor();
  await press("Enter");
  await page.waitForURL(`${site.origin}/d/well/clean.md`);
  // Who types fast is not led by what was found for fewer letters.
  await page.goto("/");
  let answer;
  const held = new Promise((resolve) => { answer = resolve; });
  await press("Control+k");
  await page.locator(".palette-row", { hasText: "guide.md" }).waitFor();
  await page.route("**/api/sources?*", async (route) => {
    await held;
    await route.continue();
  });
  await page.keyboard.type("clean");
  await press("Enter");
  answer();
  await page.waitForURL(`${site.origin}/d/well/clean.md`);
  await page.unroute("**/api/sources?*");
  // Letters are letters where somebody writes.
  await page.goto("/search");
  await page.locator("input[name=query]").focus();
  await page.keyboard.type("gd?/");
  assert.equal(await page.locator("input[name=query]").inputValue(), "gd?/");
  await press("Control+k");
  await page.getByRole("combobox").waitFor();
  await press("Escape");
  // The menu, and signing out. Who leaves a field by a key is done with it.
  await press("Tab");
  await page.locator(".menu-person summary").focus();
  await press("Enter", "Tab", "Tab", "Enter");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

test("shortcuts and the theme are kept by the browser, and nothing flashes", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const page = await ada.open("/settings");
  await page.getByLabel("Dark").check();
  await page.getByLabel("Single-key shortcuts").uncheck();
  await page.getByRole("region", { name: "This browser" }).getByRole("button", { name: "Save" }).click();
  await page.locator("html[data-theme=dark][data-keys=off]").waitFor();
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await paper();
  await page.keyboard.press("?");
  await page.goto("/");
  assert.equal(await paper(), dark);
  assert.equal(await page.locator("dialog[open]").count(), 0);
  // It is in the first bytes, not put there by a script; error pages and those outside have it too.
  for (const address of ["/d", "/no/such/page"]) {
    assert.match(await (await page.request.get(address)).text(), /<html[^>]* data-theme="dark"/);
  }
});

test("a token is shown once, works, and stops when it is revoked", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const page = await ada.open("/settings");
  await page.getByLabel("Token name").fill("calendar");
  await page.getByRole("button", { name: "Create token" }).click();
  const token = await page.locator(".secret code").textContent();
  const ask = () => fetch(`${site.origin}/api/me`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal((await ask()).status, 200);
  await page.goto("/settings");
  assert.ok(!(await page.content()).includes(token));
  await page.getByRole("button", { name: "Revoke calendar" }).click();
  await page.getByRole("cell", { name: "Revoked" }).waitFor();
  assert.equal((await ask()).status, 401);
});

test("reading, commenting and approving need no script", async (t) => {
  const site = await serve(t, { files: { [WELL]: "# Well\n\nThe mud is heavy.\n" } }, (it) => {
    it.topicKind("incorporate", `sed 's/heavy/light/' "$root/$path" | propose --summary 'Lighter mud'`);
  });
  const ada = await visitor(t, site, { script: false });
  const page = await ada.open(`/d/${WELL}`);
  await page.getByText("The mud is heavy").first().waitFor();
  const id = await site.topic(WELL, "mud is heavy", "Is it?");
  await page.goto(`/topics/${id}`);
  await page.locator(`form[action="/topics/${id}/messages"] textarea[required]`).fill("It is light when it is dry.");
  await page.locator(`form[action="/topics/${id}/messages"] button[type=submit]`).first().click();
  await page.getByText("It is light when it is dry.").waitFor();
  const proposal = await site.proposal("incorporate", id);
  await page.goto("/");
  await page.locator(`a[href="/proposals/${proposal}"]`).first().click();
  await page.locator(`form[action="/proposals/${proposal}/approve"] button[type=submit]`).first().click();
  await page.waitForURL(`${site.origin}/proposals/${proposal}`);
  assert.match(site.read(WELL), /mud is light/);
  assert.match(site.git("log", "-1", "--format=%B"), /Approved-by: ada/);
});

test("the palette begins with what was changed last, puts actions first, and closes at once", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  // Git's times are whole seconds: two commits of one second are in no order.
  const first = Number(site.git("log", "-1", "--format=%ct"));
  await until("the next second", async () => Date.now() >= (first + 1) * 1000);
  site.write("well/named.md", "# Sign language\n\nWords.\n");
  site.git("add", "well/named.md");
  site.commit("A document");
  // Git is asked about a new commit in its own time; the palette shows what is known when it opens.
  await until("the newest document", async () =>
    (await site.get("/api/sources?order=recent")).items[0].path === "well/named.md");
  const page = await ada.openLive("/d/guide.md");
  await page.keyboard.press("Control+k");
  await page.locator(".palette-row").first().getByText("well/named.md").waitFor();
  await page.keyboard.type("sign");
  await page.locator(".palette-row").getByText("Search everywhere for “sign”").waitFor();
  const names = await page.locator(".palette-name").allTextContents();
  assert.deepEqual(names.slice(0, 2), ["Sign out", "Sign language"]);
  // One Escape, whatever is typed.
  await page.keyboard.press("Escape");
  await page.locator("dialog.palette").waitFor({ state: "hidden" });
  await page.keyboard.press("Control+k");
  await page.keyboard.type("sign o");
  await page.locator(".palette-row").getByText("Search everywhere for “sign o”").waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Sign in" }).first().waitFor();
});

test("the tree of documents is walked, folded and unfolded by keys", async (t) => {
  const site = await serve(t);
  site.write("well/clean.md", "# Clean\n");
  site.git("add", "well/clean.md");
  site.commit("A folder");
  const ada = await visitor(t, site);
  const page = await ada.openLive("/d");
  await page.locator(".outline", { hasText: "Clean" }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
  const folder = page.locator(".outline details").first();
  await page.keyboard.press("j");
  assert.match(await focused(), /^\S+\/ \d+ documents?/);
  await page.keyboard.press("ArrowLeft");
  assert.equal(await folder.evaluate((it) => it.open), false);
  await page.keyboard.press("ArrowRight");
  assert.equal(await folder.evaluate((it) => it.open), true);
  await page.keyboard.press("ArrowDown");
  const inside = await focused();
  assert.ok(await folder.evaluate((it) => it.contains(document.activeElement)), inside);
  await page.keyboard.press("ArrowLeft");
  assert.match(await focused(), /^\S+\/ \d+ documents?/);
});
