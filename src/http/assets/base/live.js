// Keeps the page up to date: receives events, and fetches the parts of the page that they are about.
//
// A browser has about six connections to a site, so all its tabs share one stream: the tab that
// holds a lock reads it and tells the others. When that tab closes, another one continues after the
// last event that any of them received.

import { isAbout, isEarlier } from "./subjects.js";
import * as swap from "./swap.js";

const LOCK = "wb-stream";
const CHANNEL = "wb-stream";
const DEBOUNCE_MS = 120;
const POLL_MS = 5_000;
/** The server sends something every 10 s. */
const SILENCE_MS = 25_000;
/** Its first bytes arrive at once, unless a proxy holds them back. */
const GREETING_MS = 6_000;
const RETRY_MS = [500, 1_000, 2_000, 4_000, 8_000];

const root = document.documentElement;
const channel = new BroadcastChannel(CHANNEL);
const listeners = new Set();
const due = new Set();
let connection = "";
/** The last event known to this page: `EPOCH-NUMBER`. */
let cursor = root.dataset.cursor ?? "";
let isLeader = false;
let isAsking = false;
let isPointerDown = false;
let timer = 0;
let poll = 0;

// --- for other modules ---

/** Calls back with every event about one of some subjects; `reset` counts as any of them. */
export function on(subjects, callback) {
  const words = typeof subjects === "string" ? subjects.split(" ") : [...subjects];
  const listener = { words, callback };
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Returns `live`, `lost`, `polling`, `ended` (signed out), or nothing before the first response. */
export function state() {
  return connection;
}

/** Returns whether this tab reads the stream for all tabs of the browser. */
export function leads() {
  return isLeader;
}

/** Signs out this browser's other tabs as well: none keeps showing the page. */
export function signedOut() {
  channel.postMessage({ signedOut: true });
}

/** Loads this page again. It may be the answer to a form, which nobody sends again by that. */
export function readAgain() {
  location.replace(location.pathname + location.search);
}

/** Fetches the parts inside an element that follow events. */
export function refreshIn(element) {
  for (const part of element.querySelectorAll("[data-live][id]")) due.add(part.id);
  schedule(0);
}

/** Fetches one part. */
export function refreshPart(id) {
  due.add(id);
  schedule(DEBOUNCE_MS);
}

/** Fetches all parts that follow events. */
export function refreshAll() {
  mark(() => true);
}

/** Returns the header by which the server knows which document this page shows: one of its name. */
export function seen() {
  const made = document.querySelector("[data-read-version]")?.dataset.readVersion;
  return made ? { "wb-read-version": made } : {};
}

/** Another page was put here: fetches what changed after the server made it and before it was put. */
export function placed(page) {
  const made = page.documentElement.dataset.cursor;
  if (made && isEarlier(made, cursor)) refreshAll();
}

// --- which parts an event is about ---

function take(event) {
  mark((words) => isAbout(words, event));
  for (const { words, callback } of listeners) {
    if (isAbout(words, event)) callback(event);
  }
}

function mark(isDue) {
  for (const element of document.querySelectorAll("[data-live][id]")) {
    if (isDue(element.dataset.live.split(/\s+/))) due.add(element.id);
  }
  schedule(DEBOUNCE_MS);
}

function schedule(ms) {
  if (due.size === 0 || timer) return;
  timer = setTimeout(() => {
    timer = 0;
    refresh();
  }, ms);
}

// --- fetching parts of the page ---

async function refresh() {
  // A tab that nobody sees asks when somebody does; what is pressed is not pulled away.
  if (document.hidden || isAsking || isPointerDown || due.size === 0) return;
  isAsking = true;
  const groups = Map.groupBy([...due], addressOf);
  due.clear();
  let isDone = true;
  for (const [address, ids] of groups) {
    if (await part(address, ids)) continue;
    isDone = false;
    for (const id of ids) due.add(id);
  }
  isAsking = false;
  schedule(isDone ? DEBOUNCE_MS : POLL_MS);
}

/** Returns the address of the page that a part belongs to, which may be another one than this. */
function addressOf(id) {
  const host = document.getElementById(id)?.closest("[data-from]");
  return host?.dataset.from ?? location.pathname + location.search;
}

/** Fetches some parts; returns whether there was a response. */
async function part(address, ids) {
  try {
    // What is gone is the page itself, and no part of it that comes from elsewhere.
    const isPage = address === location.pathname + location.search;
    const answer = await fetch(address, {
      headers: { "wb-fragment": ids.join(","), ...(isPage ? seen() : {}) }, cache: "no-store",
    });
    if (answer.status === 401) tell("ended");
    noteVersion(answer.headers.get("wb-version"));
    const text = answer.ok ? await answer.text() : "";
    // A form may have put another page here meanwhile: the parts of this one are not its.
    const isHere = ids.filter((id) => addressOf(id) === address);
    if (answer.ok) swap.fragment(text, isHere);
    if (isPage && answer.status === 404) document.dispatchEvent(new CustomEvent("wb:gone", { detail: swap.parse(await answer.text()) }));
    else if (isPage && answer.ok) document.dispatchEvent(new CustomEvent("wb:there"));
    return answer.status < 500;
  } catch {
    // The stream tells that the server is gone; the parts are asked for when it is back.
    return false;
  }
}

for (const [name, isDown] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) {
  addEventListener(name, () => {
    isPointerDown = isDown;
    if (!isDown) schedule(DEBOUNCE_MS);
  }, { capture: true, passive: true });
}
document.addEventListener("visibilitychange", () => schedule(0));

function noteVersion(version) {
  if (version && root.dataset.version && version !== root.dataset.version) {
    root.dataset.newer = version;
    document.dispatchEvent(new CustomEvent("wb:newer"));
  }
}

// --- the shown connection state ---

function tell(next) {
  if (isLeader) channel.postMessage({ state: next });
  show(next);
}

function show(next) {
  if (next === connection) return;
  const wasLost = connection === "lost" || connection === "polling";
  connection = next;
  root.dataset.connection = next;
  clearInterval(poll);
  poll = next === "polling" ? setInterval(refreshAll, POLL_MS) : 0;
  document.dispatchEvent(new CustomEvent("wb:connection", { detail: next }));
  // What is about time or about the program leaves no event; what an error page missed is not known.
  if ((wasLost || !root.dataset.cursor) && next === "live") refreshAll();
}

channel.onmessage = ({ data }) => {
  if (data.ask !== undefined && isLeader) {
    channel.postMessage({ state: connection, cursor, version: root.dataset.newer });
  }
  if ("event" in data) hear(data.event, data.cursor);
  if (data.version) noteVersion(data.version);
  // Somebody else reads on here, if anybody.
  if (data.signedOut || (data.person && data.person !== root.dataset.person)) readAgain();
  if (data.state && !isLeader) {
    show(data.state);
    // Something has happened between this page's making and its first word.
    if (data.cursor && cursor && data.cursor !== cursor) {
      cursor = data.cursor;
      refreshAll();
    }
  }
};

function hear(event, place) {
  if (place) cursor = place;
  if (event) take(event);
}

// --- the stream, read by one tab ---

async function lead() {
  isLeader = true;
  for (let failed = 0; connection !== "ended";) {
    const outcome = await read();
    if (outcome === "ended") return tell("ended");
    failed = outcome === "heard" ? 0 : failed + 1;
    tell(outcome === "refused" ? "polling" : "lost");
    const wait = outcome === "refused" ? 4 * POLL_MS : RETRY_MS[Math.min(failed, RETRY_MS.length - 1)];
    await pause(wait);
  }
}

/** Waits for a time, or until the device is online again. */
function pause(ms) {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(late);
      removeEventListener("online", over);
      resolve();
    };
    const late = setTimeout(over, ms);
    addEventListener("online", over);
  });
}

/** Reads one stream to its end; returns `heard`, `lost`, `refused` or `ended`. */
async function read() {
  const aborter = new AbortController();
  let watch = setTimeout(() => aborter.abort(), GREETING_MS);
  let outcome = "lost";
  try {
    const after = cursor ? `?after=${encodeURIComponent(cursor)}` : "";
    const answer = await fetch(`/api/events${after}`, { signal: aborter.signal, cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) return "ended";
    if (answer.status === 400) cursor = "";
    if (!answer.ok) return "refused";
    const version = answer.headers.get("wb-version");
    // The head has come; that nothing follows it means that something holds the stream back.
    outcome = "refused";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return outcome;
      if (outcome !== "heard") {
        outcome = "heard";
        tell("live");
        noteVersion(version);
        if (version) channel.postMessage({ version });
      }
      clearTimeout(watch);
      watch = setTimeout(() => aborter.abort(), SILENCE_MS);
      text += value;
      const blocks = text.split("\n\n");
      text = blocks.pop();
      blocks.forEach(block);
    }
  } catch {
    return outcome;
  } finally {
    clearTimeout(watch);
    aborter.abort();
  }
}

/** Handles one block of the stream: an event, a comment, or only a new position. */
function block(lines) {
  const fields = {};
  for (const line of lines.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
  }
  let event = null;
  if (fields.event === "reset") event = { kind: "reset" };
  else if (fields.data) event = JSON.parse(fields.data);
  if (!event && !fields.id) return;
  if (event) channel.postMessage({ event, cursor: fields.id });
  else channel.postMessage({ cursor: fields.id, event: null });
  hear(event, fields.id);
}

/** Starts; a page without a signed-in reader has nothing to follow, nor have most errors. */
export function start() {
  if (!root.dataset.cursor && !document.querySelector("[data-live]")) return;
  channel.postMessage({ person: root.dataset.person });
  if (!navigator.locks) {
    // Not a secure context: tabs cannot agree on one stream.
    show("polling");
    return;
  }
  channel.postMessage({ ask: true });
  navigator.locks.request(LOCK, lead).catch(() => show("polling"));
}
