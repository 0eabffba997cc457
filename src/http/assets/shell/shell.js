// The frame of every page: the connection state, relative times, and global shortcuts.

import { carry, forgetAll } from "./draft.js";
import { refuse } from "./forms.js";
import { bind } from "./keys.js";
import * as live from "./live.js";
// Not loaded when it is asked for: the letters that somebody types at once are for it.
import { open as find } from "./palette.js";
import { plain } from "./plain.js";
import { say } from "./say.js";
import { worker } from "./swap.js";

const HEALED_MS = 3_000;
// As long as a login link works.
const WANTED_MS = 600_000;
const WANTED = "wb-wanted";
const TICK_MS = 20_000;
const WORDS = {
  lost: "Connection lost. Trying again…",
  polling: "No live connection. Checking every 5 seconds.",
  ended: "You’re signed out.",
  live: "Connected again.",
};
const BACK = "The document is back.";
const STILL_IN = "This site can’t be reached, so you are still signed in. Try again.";
let healing = 0;
let wasLost = false;

// --- signing in ---

// Whoever opens a page without being signed in gets it as soon as they are, in whichever tab.
try {
  const at = location.pathname + location.search + location.hash;
  const isHome = location.pathname === "/";
  const isPage = !isHome && !location.pathname.startsWith("/api/");
  if (document.querySelector("h1.sign-in")) {
    if (isPage) localStorage.setItem(WANTED, JSON.stringify({ at, since: Date.now() }));
  } else if (document.documentElement.dataset.person) {
    const wanted = JSON.parse(localStorage.getItem(WANTED) ?? "null");
    localStorage.removeItem(WANTED);
    // With the origin before it: `//elsewhere` is an address of its own.
    if (isHome && Date.now() - wanted?.since < WANTED_MS) location.replace(location.origin + wanted.at);
  }
} catch {
  // A forbidden store keeps nothing; Home has links to everything.
}

// --- the connection ---

document.addEventListener("wb:connection", ({ detail }) => {
  clearTimeout(healing);
  if (detail === "live" && !wasLost) return;
  wasLost = detail !== "live";
  note("connection", detail, WORDS[detail]);
  say(WORDS[detail]);
  if (detail === "live") healing = setTimeout(() => note("connection", "", ""), HEALED_MS);
});

document.addEventListener("wb:newer", () => {
  note("newer", "newer", "This site has been updated.");
}, { once: true });

// The subject of the page is gone: the error page replaces it and shows where to go.
document.addEventListener("wb:gone", ({ detail: page }) => {
  const words = page.querySelector("#main .message")?.textContent.trim();
  const way = page.querySelector("#main a[data-way]");
  const link = document.querySelector("#gone a");
  // On the page of a missing document it is said already.
  if (document.getElementById("missing")) return note("gone", "", "");
  if (!words || !way || !link) return;
  link.href = way.getAttribute("href");
  link.textContent = way.textContent;
  for (const name of ["from", "to"]) {
    if (way.dataset[name]) link.dataset[name] = way.dataset[name];
    else delete link.dataset[name];
  }
  note("gone", "gone", plain(words));
  say(plain(words));
});
// What was typed goes along to the new name: from here, and from the page that the old one has now.
document.querySelector("#gone a")?.addEventListener("click", ({ currentTarget }) => follow(currentTarget));
follow(document.querySelector("#main a[data-way]"));

function follow(way) {
  if (way?.dataset.to) carry(way.dataset.from, way.dataset.to);
}
document.addEventListener("wb:there", () => {
  if (!document.getElementById("missing")) return note("gone", "", "");
  const link = document.querySelector("#gone a");
  [link.href, link.textContent] = [location.pathname + location.search, "Open it"];
  note("gone", "gone", BACK);
  say(BACK);
});

/** Shows a message that floats above the page without moving anything. */
function note(id, state, text) {
  const place = document.getElementById(id);
  if (!place) return;
  place.hidden = !text;
  place.dataset.state = state;
  place.querySelector(".note-text").textContent = text;
  for (const action of place.querySelectorAll("[data-for]")) action.hidden = action.dataset.for !== state;
}

for (const button of document.querySelectorAll("[data-reload]")) {
  button.addEventListener("click", live.readAgain);
}

// --- signing out ---

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches('form[action="/api/logout"]')) return;
  event.preventDefault();
  const answer = await fetch(form.action, { method: "POST" }).catch(() => null);
  // Who is signed out already, or somebody else by now, is no longer signed in here.
  if (!answer?.ok && ![401, 403].includes(answer?.status)) {
    refuse(form, STILL_IN);
    return;
  }
  forgetAll();
  live.signedOut();
  location.assign("/");
});

// --- times ---

const STEPS = [[60_000, 1_000, "s"], [3_600_000, 60_000, "min"], [2 * 86_400_000, 3_600_000, "h"]];

/** Returns how long ago a time is, in the server's words. Exported for tests. */
export function ago(ms) {
  if (ms < 10_000) return "just now";
  const step = STEPS.find(([until]) => ms < until) ?? [Infinity, 86_400_000, "days"];
  return ms < 14 * 86_400_000 ? `${Math.floor(ms / step[1])} ${step[2]} ago` : null;
}

function tick() {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[datetime]")) {
    // Only what the server said in this way: dates and appointments stay as they are.
    if (!/ago$|^just now$/.test(time.textContent)) continue;
    const said = ago(Date.now() - Date.parse(time.dateTime));
    if (said && said !== time.textContent) time.textContent = said;
  }
}
setInterval(tick, TICK_MS);
document.addEventListener("visibilitychange", tick);

// --- shortcuts ---

for (const link of document.querySelectorAll("a[data-key-go]")) {
  bind(`g ${link.dataset.keyGo}`, `Go to ${link.dataset.palettePage}`, () => link.click());
}
if (document.documentElement.dataset.cursor) {
  bind("/", "Search or go to anything", find);
  bind("Ctrl+k", "Search or go to anything, even while typing", find);
  for (const link of document.querySelectorAll("[data-palette]")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      find();
    });
  }
}

// A menu closes when the focus leaves it.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

// Where it is not to be had (private windows, plain HTTP on another name) nothing is missing but a
// page that says that the site cannot be reached.
if (document.documentElement.dataset.cursor) navigator.serviceWorker?.register(worker()).catch(() => {});

live.start();
