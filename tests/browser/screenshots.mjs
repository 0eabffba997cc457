// Pictures of every page, light and dark, desktop and phone: `scripts/screenshots [NAME…]`.

import fs from "node:fs";
import path from "node:path";
import { chromium } from "playwright-core";
import { live, pages, richSite } from "./rich.mjs";
import { DESKTOP, PHONE, Site } from "./site.mjs";

const [folder, ...wanted] = process.argv.slice(2);
const THEMES = ["light", "dark"];
const SIZES = { desktop: DESKTOP, phone: PHONE };

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
const sites = [];

async function signedIn(site, theme, viewport) {
  const context = await browser.newContext({
    baseURL: site.origin, colorScheme: theme, viewport, reducedMotion: "reduce",
    hasTouch: viewport === PHONE, isMobile: viewport === PHONE,
  });
  const page = await context.newPage();
  await page.goto(await site.loginLink());
  await page.locator("main button[type=submit]").click();
  await page.waitForURL(`${site.origin}/`);
  return page;
}

async function shoot(page, name, theme, size) {
  const isWhole = size === "desktop";
  await page.waitForTimeout(250);
  // A bar that stays at its place would stand in the middle of a picture of the whole page.
  await page.screenshot({ path: path.join(folder, `${name}-${size}-${theme}.png`), fullPage: isWhole });
}

async function all(site, addresses, before = {}) {
  for (const theme of THEMES) {
    for (const [size, viewport] of Object.entries(SIZES)) {
      const page = await signedIn(site, theme, viewport);
      for (const [name, address] of Object.entries(addresses)) {
        if (wanted.length && !wanted.includes(name)) continue;
        await page.goto(address);
        await before[name]?.(page);
        await shoot(page, name, theme, size);
      }
      await page.context().close();
    }
  }
}

async function serve(site) {
  sites.push(site);
  return site.start();
}

try {
  fs.mkdirSync(folder, { recursive: true });
  const rich = await serve(richSite());
  const ids = await live(rich);
  const { home } = pages(ids);
  await all(rich, { ...pages(ids), palette: home, shortcuts: home, menu: home, lost: home }, {
    palette: async (page) => {
      await page.keyboard.press("Control+k");
      await page.locator(".palette input").fill("mud");
      await page.getByText("Search everywhere for").waitFor();
    },
    shortcuts: (page) => page.keyboard.press("?"),
    menu: (page) => page.locator(".menu-person summary").click(),
    turn: (page) => page.locator("details.turn summary").click(),
    start: async (page) => {
      await page.locator("#start-incorporate details.turn summary").click();
      await page.locator("#start-incorporate").scrollIntoViewIfNeeded();
    },
    carry: async (page) => {
      await page.locator("textarea[name=text]").press("Control+End");
      await page.locator("textarea[name=text]").pressSequentially("One line more.");
      await page.getByText("Move your changes").first().scrollIntoViewIfNeeded();
    },
    lost: async (page) => {
      await page.waitForFunction(() => document.documentElement.dataset.connection === "live");
      await page.evaluate(() => document.dispatchEvent(new CustomEvent("wb:connection", { detail: "lost" })));
    },
  });
  const empty = await serve(new Site());
  await all(empty, { new: "/" });
  const bare = await serve(new Site({ sources: "*.nothing" }));
  await all(bare, { bare: "/" });
  const outside = { signin: "/" };
  for (const theme of THEMES) {
    for (const [size, viewport] of Object.entries(SIZES)) {
      const context = await browser.newContext({ baseURL: rich.origin, colorScheme: theme, viewport });
      const page = await context.newPage();
      for (const [name, address] of Object.entries({ ...outside, login: await rich.loginLink() })) {
        if (wanted.length && !wanted.includes(name)) continue;
        await page.goto(address);
        await shoot(page, name, theme, size);
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
  for (const site of sites) await site.close();
}
console.log(`${fs.readdirSync(folder).length} pictures in ${folder}`);
