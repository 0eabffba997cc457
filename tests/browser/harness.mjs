// The browser of the tests: each page fails its test by a dialog, a report of the content policy, an
// error of a script, an error in the console, or a request to another origin.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after } from "node:test";
import { chromium } from "playwright-core";
import { DESKTOP, PHONE, Site, until } from "./site.mjs";

export { DESKTOP, PHONE, Site, until };

/** What a browser writes into its console while nobody answers. */
const UNANSWERED = /net::ERR_(CONNECTION_(REFUSED|RESET|CLOSED)|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|SOCKET_NOT_CONNECTED)/;

const AXE = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser;

/** Returns the one browser of this file's tests, also to several who ask for it at once. */
export function openBrowser() {
  browser ??= chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
  });
  return browser;
}

after(async () => (await browser)?.close());

/** Returns the vault of the one person who has one. */
export function vault(site) {
  const folder = path.join(site.data, "vaults");
  return path.join(folder, fs.readdirSync(folder)[0]);
}

/** Makes and starts a site that ends with the test; `make` may declare more before the start. */
export async function serve(t, options = {}, make = () => {}) {
  const site = new Site(options);
  t.after(async () => {
    if (process.env.WB_SHOW_LOG) process.stderr.write(site.said());
    await site.close();
  });
  make(site);
  return site.start();
}

/**
 * Opens a browser of its own (cookies, storage) on a site. Options: `theme` (light, dark),
 * `viewport`, `touch`, `script: false`, `signedIn: false`, `person`, `allow` (regular expressions of
 * complaints that the test expects), `reduced` (motion), `worker: false` (no request goes by it).
 */
export async function visitor(_t, site, options = {}) {
  const { theme = "light", viewport = DESKTOP, script = true, signedIn = true, allow = [] } = options;
  const context = await (await openBrowser()).newContext({
    baseURL: site.origin, colorScheme: theme, viewport, javaScriptEnabled: script,
    hasTouch: options.touch ?? false, isMobile: options.touch ?? false,
    reducedMotion: options.reduced === false ? "no-preference" : "reduce",
    timezoneId: options.zone,
    serviceWorkers: options.worker === false ? "block" : "allow",
  });
  const complaints = [];
  const complain = (text) => {
    if (site.isAway() && UNANSWERED.test(text)) return;
    if (!allow.some((it) => it.test(text))) complaints.push(text);
  };
  context.on("dialog", async (dialog) => {
    complain(`a dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  context.on("weberror", (error) => complain(`an error of a script: ${error.error().stack || error.error()}`));
  context.on("console", (message) => {
    const text = message.text();
    // That a page is an error page is what its test looks at.
    const isPageStatus = /^Failed to load resource: the server responded with a status of 4/.test(text)
      && message.location().url === message.page()?.url();
    if (message.type() === "error" && !isPageStatus) complain(`in the console: ${text}`);
  });
  context.on("request", (request) => {
    const url = request.url();
    const isOurs = url.startsWith(`${site.origin}/`) || /^(data|blob|about):/.test(url);
    if (!isOurs) complain(`a request to ${url}`);
  });
  await context.exposeBinding("wbTestReport", (_, text) => complain(`a report of the policy: ${text}`));
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      window.wbTestReport(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  context.setDefaultTimeout(10_000);
  context.on("page", (page) => closeAtRest(page, script));
  const one = new Visitor(site, context, complaints);
  // Before the server ends: a tab that is left would complain that nobody answers.
  site.leaving.push(async () => {
    for (const page of context.pages()) await page.close();
    await context.close();
    assert.deepEqual(complaints, []);
  });
  if (signedIn) await one.signIn(options.person);
  return one;
}

/**
 * A Chromium that is to close a page on its way to another one, after a form, may never say that it
 * has. So a page is closed when no form and no other page is being asked for.
 */
function closeAtRest(page, hasScript) {
  const close = page.close.bind(page);
  const leads = (it) => it.method() === "POST" || it.isNavigationRequest();
  const asked = new Set();
  page.on("request", (it) => { if (leads(it)) asked.add(it); });
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (it) => asked.delete(it));
  // What a script does with an answer may lead elsewhere, and the page is gone then.
  const frame = () => page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => setTimeout(() => done(true)));
  })).catch(() => false);
  page.close = async () => {
    await until("a page is at rest", async () => {
      await page.waitForLoadState();
      return asked.size === 0 && (!hasScript || page.isClosed() || await frame()) && asked.size === 0;
    });
    await close();
  };
}

class Visitor {
  constructor(site, context, complaints) {
    Object.assign(this, { site, context, complaints });
  }

  /** Sends what the one button of a sign-in link sends, without a page: half a second for each test. */
  async signIn(person) {
    const code = path.posix.basename(new URL(await this.site.loginLink(person)).pathname);
    const answer = await this.context.request.post("/api/login", {
      form: { code }, headers: { origin: this.site.origin }, maxRedirects: 0,
    });
    assert.equal(answer.status(), 303, await answer.text());
  }

  /** Opens a page in a tab of its own; with scripts, waits until the page is live. */
  async open(address) {
    const page = await this.context.newPage();
    await page.goto(address);
    return page;
  }

  /** Opens a page and waits until it hears of changes and of what is pressed. */
  async openLive(address) {
    const page = await this.open(address);
    await isLive(page);
    return page;
  }
}

/** Waits until a page has been shown long enough for its buttons to be seen, and so to be pressed. */
export function isSeen(page) {
  return page.waitForFunction(() => {
    const [shown] = performance.getEntriesByName("first-paint");
    return shown && performance.now() - shown.startTime > 1_000;
  });
}

/** Waits until a page hears of changes and its modules listen to what is pressed. */
export async function isLive(page) {
  await page.waitForFunction(() => {
    const { connection, modules } = document.documentElement.dataset;
    return connection === "live" && modules === "started";
  });
}

/** Makes the changes of a page younger than they are, so that a slow machine presses soon after them. */
export async function young(page) {
  await page.evaluate(() => {
    const now = performance.now.bind(performance);
    performance.now = () => now() + 20_000;
  });
}

/** Stops the clock of a page, so that nobody has had the time to read it; returns what lets it go on. */
export async function frozen(page) {
  await page.evaluate(() => {
    const now = performance.now.bind(performance);
    const at = now();
    performance.now = () => at;
    window.goOn = () => { performance.now = now; };
  });
  return () => page.evaluate(() => window.goOn());
}

/** Selects the text from some words to others as a person does, and waits for the buttons beside it. */
export async function select(page, from, to = from) {
  await page.evaluate(([from, to]) => {
    const find = (words, isEnd) => {
      const walker = document.createTreeWalker(document.querySelector("#text"), NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const at = node.data.indexOf(words);
        if (at >= 0) return [node, at + (isEnd ? words.length : 0)];
      }
      throw new Error(`no ${words}`);
    };
    const range = document.createRange();
    range.setStart(...find(from, false));
    range.setEnd(...find(to, true));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  }, [from, to]);
  await page.waitForSelector(".reader-pop:not([hidden])");
}

/** Returns how far the layout of a page has moved by itself since it was opened. */
export function layoutShift(page) {
  return page.evaluate(() => new Promise((resolve) => {
    const seen = new PerformanceObserver(() => {});
    seen.observe({ type: "layout-shift", buffered: true });
    requestAnimationFrame(() => setTimeout(() => {
      const moves = seen.takeRecords().filter((it) => !it.hadRecentInput);
      resolve(moves.reduce((sum, it) => sum + it.value, 0));
    }));
  }));
}

/** Returns what axe finds that keeps people out, as lines. */
export async function findings(page, options = {}) {
  await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate((it) => window.axe.run(document, it), options);
  assert.ok(passes.length > 0, "axe has looked");
  const serious = violations.filter((it) => ["serious", "critical"].includes(it.impact));
  return serious.flatMap(({ id, nodes }) => nodes.slice(0, 3).map((it) => `${id}: ${it.html.slice(0, 160)} ${it.any[0]?.message ?? ""}`));
}

/** Whether nothing of a page stands beyond its right edge. */
export const isWithin = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);

/** Keeps a picture of a page in the folder of `WB_PICTURES`, if there is one. */
export async function picture(page, name) {
  const folder = process.env.WB_PICTURES;
  if (folder) await page.screenshot({ path: path.join(folder, `${name}.png`) });
}
