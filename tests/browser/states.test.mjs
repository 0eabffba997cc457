// What a page says when there is little to show, or when something is wrong.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isLive, serve, Site, until, visitor } from "./harness.mjs";

/** The page that the worker shows while nobody answers. */
const OFFLINE = /status of 503/;

test("the first start prints one link, which ends in a page that says what to do", async (t) => {
  const site = new Site();
  t.after(() => site.close());
  site.command("init", "--engine", "suggestions");
  const script = site.read("wiki-browser.lua");
  site.write("wiki-browser.lua", script.replace('"127.0.0.1:7180"', '"127.0.0.1:0"'));
  await site.start({ isOwn: true, flags: ["--print-link"] });
  const links = await until("the link", () => site.said().match(/http:\/\/\S+\/login\/\S+/g));
  assert.equal(links.length, 1);
  const ada = await visitor(t, site, { signedIn: false });
  const page = await ada.open(links[0]);
  await page.getByRole("button", { name: "Sign in here" }).click();
  await page.getByRole("heading", { name: "Start here" }).waitFor();
  await page.getByRole("link", { name: "Start reading" }).click();
  await page.locator('main a[href="/d/guide.md"]').click();
  await page.getByText("The first line.").first().waitFor();
  // Used up: it says so, and how to get another.
  const bob = await visitor(t, site, { signedIn: false });
  const late = await bob.open(links[0]);
  await late.getByText("links work once and expire after ten minutes").waitFor();
});

test("a site without documents says how to get one, and shows it when it is there", async (t) => {
  const site = await serve(t, { sources: "docs/*.md" });
  const ada = await visitor(t, site);
  const page = await ada.openLive("/");
  await page.getByRole("heading", { name: "No documents yet" }).waitFor();
  site.write("docs/first.md", "# First\n");
  site.git("add", "docs/first.md");
  site.commit("A first document");
  await page.locator('a[href="/d/docs/first.md"]').waitFor();
});

test("an agent that fails shows on the first page, with what to do about it", async (t) => {
  const site = await serve(t, {}, (it) => it.topicKind("breaks", "exit 3"));
  const topic = await site.topic("guide.md", "The first line", "Please");
  const ada = await visitor(t, site);
  const page = await ada.openLive("/");
  const job = await site.job("breaks", { topic_id: topic });
  await page.locator(`a[href="/jobs/${job}"]`).waitFor();
  await page.getByRole("heading", { name: /Failed/ }).waitFor();
});

test("the settings show what is wrong with the script on disk, where it stands", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const page = await ada.open("/settings");
  await page.getByText("The file on disk is active").waitFor();
  const script = site.read("wiki-browser.lua");
  site.write("wiki-browser.lua", `${script}\nwb.kind "x" { engin = "y" }\n<b>bold</b>`);
  await page.reload();
  await page.getByText("The file on disk has errors").waitFor();
  const report = await page.locator(".diagnostics").textContent();
  assert.match(report, /wiki-browser\.lua:\d+/);
  assert.match(report, /\^/);
  assert.equal(await page.locator(".diagnostics b").count(), 0);
  site.write("wiki-browser.lua", `${script}\n-- another\n`);
  await page.reload();
  await page.getByText("valid but not loaded").waitFor();
});

test("errors say what to do, in the frame of the site", async (t) => {
  const site = await serve(t);
  await site.post("/api/persons", { name: "vic", role: "viewer" });
  const ada = await visitor(t, site);
  const page = await ada.open("/no/such/page");
  await page.getByRole("heading", { name: "Page not found" }).waitFor();
  await page.getByRole("navigation", { name: "Site" }).waitFor();
  await page.locator("main input[name=query]").fill("first line");
  await page.locator("main").getByRole("button", { name: "Search" }).click();
  await page.waitForURL(/\/search\?query=first/);
  await page.goto("/topics/01a20242-2c96-7508-89e3-ec061899bdc9");
  await page.getByText("404").waitFor();
  // A viewer's form is refused, with the way back.
  const vic = await visitor(t, site, { person: "vic" });
  const other = await vic.open("/settings");
  const refused = await other.evaluate(async () => {
    const fields = new URLSearchParams({ key: "k", source_path: "guide.md", about: "whole", body: "hi" });
    const answer = await fetch("/topics", { method: "POST", body: fields });
    return { status: answer.status, text: await answer.text() };
  }).catch((error) => ({ status: 0, text: String(error) }));
  assert.equal(refused.status, 403);
  assert.match(refused.text, /Not allowed/);
  vic.complaints.splice(0, vic.complaints.length, ...vic.complaints.filter((it) => !/status of 403/.test(it)));
});

test("a form that is refused keeps what was typed and says why, without leaving the page", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site, { allow: [/status of 4/] });
  const page = await ada.open("/settings");
  await page.locator('form[action="/settings/tokens"]').evaluate((form) => { form.dataset.inline = ""; });
  await page.getByLabel("Token name").fill("same");
  await page.locator("input[name=days]").evaluate((it) => { it.removeAttribute("pattern"); it.value = "soon"; });
  await page.getByRole("button", { name: "Create token" }).click();
  await page.getByRole("alert").getByText("the number of days is not a number").waitFor();
  assert.equal(await page.getByLabel("Token name").inputValue(), "same");
  await page.locator("input[name=days]").fill("1");
  await page.getByRole("button", { name: "Create token" }).click();
  await page.locator(".secret").waitFor();
  assert.equal(await page.locator(".form-refusal").count(), 0);
});

test("a page that cannot be reached says so, and comes back", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site, { allow: [OFFLINE] });
  const page = await ada.openLive("/");
  await page.evaluate(async () => { await navigator.serviceWorker.ready; });
  await page.reload();
  await isLive(page);
  await site.kill();
  await page.goto("/d").catch(() => {});
  await page.getByRole("heading", { name: "Can’t reach this site" }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/d");
  await site.start();
  await page.getByRole("link", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "Documents" }).waitFor();
  await isLive(page);
  // Nothing that anybody reads here is kept.
  const kept = await page.evaluate(async () => {
    const all = await Promise.all((await caches.keys()).map(async (it) => (await (await caches.open(it)).keys()).map((key) => new URL(key.url).pathname)));
    return all.flat().map((it) => it.split("/").at(-1)).sort();
  });
  assert.deepEqual(kept, ["icon.svg", "offline.html", "wb.css"]);
});

test("a link on another site leads to a page, also where the worker stands", async (t) => {
  const [site, other] = [await serve(t), await serve(t)];
  const ada = await visitor(t, site, { allow: [/a request to http/] });
  const page = await ada.openLive("/");
  await page.evaluate(async () => { await navigator.serviceWorker.ready; });
  await page.goto(`${other.origin}/`);
  await page.evaluate((to) => {
    const link = document.createElement("a");
    link.href = to;
    link.textContent = "there";
    document.body.append(link);
  }, `${site.origin}/d`);
  await page.getByRole("link", { name: "there" }).click();
  await page.getByRole("heading", { name: "Documents" }).waitFor();
});

test("a program that was replaced says that the page is older", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site);
  const page = await ada.context.newPage();
  await page.route("**/api/events*", async (route) => {
    await route.continue();
  });
  await page.goto("/");
  await isLive(page);
  await page.evaluate(() => { document.documentElement.dataset.version = "an older one"; });
  await site.topic("guide.md", "The first line", "Something happens");
  await page.getByText("This site has been updated.").waitFor();
  await page.getByRole("button", { name: "Reload" }).click();
  await isLive(page);
  assert.ok(await page.getByText("This site has been updated.").isHidden());
});

test("without a stream the page looks by itself", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site, { allow: [/status of 503/] });
  const page = await ada.context.newPage();
  await page.route("**/api/events*", (route) => route.fulfill({ status: 503, body: "{}" }));
  await page.goto("/");
  await page.getByText("No live connection").first().waitFor();
  await site.topic("guide.md", "The first line", "Seen all the same");
  await page.getByText("Seen all the same").waitFor();
});
