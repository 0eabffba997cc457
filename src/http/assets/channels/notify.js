// Notices of this browser: somebody writes in a channel of the reader, or a channel waits for them.
// One tab asks the server what happened, and the service worker shows it, unless that channel is in
// a tab that is seen.

import { leads, on } from "./live.js";
import { say } from "./say.js";

const KEY = "wb-notices";
/** One notice of a channel in this time. */
const QUIET_MS = 30_000;
const BLOCKED = "Your browser blocks notices from this site. Allow them in its settings for this site.";
const last = new Map();

const isPossible = () => "Notification" in window && "serviceWorker" in navigator;
const isOn = () => isPossible() && Notification.permission === "granted" && localStorage.getItem(KEY) === "on";

// --- the button ---

function show() {
  for (const button of document.querySelectorAll("[data-notices]")) {
    button.hidden = !isPossible();
    button.setAttribute("aria-pressed", String(isOn()));
    button.textContent = isOn() ? "Notices on" : "Notify me";
  }
}

document.addEventListener("click", async (event) => {
  if (!event.target.closest("[data-notices]")) return;
  if (isOn()) {
    localStorage.removeItem(KEY);
    show();
    return say("Notices are off in this browser.");
  }
  const answer = await Notification.requestPermission();
  if (answer === "granted") localStorage.setItem(KEY, "on");
  show();
  say(answer === "granted" ? "Notices are on in this browser." : BLOCKED);
  if (answer === "denied") {
    for (const place of document.querySelectorAll("[data-notices-blocked]")) {
      place.hidden = false;
      place.textContent = BLOCKED;
    }
  }
});
document.addEventListener("wb:swapped", show);
show();

// --- events ---

on("channels held", ({ kind, data }) => {
  if (!leads() || !isOn()) return;
  if (kind === "channel_message" && data.type !== "system") spoken(data);
  else if (kind === "channel_changed" && data.what === "paused") paused(data);
  else if (kind === "turn_held" && data.state === "waiting") held(data);
});

async function ask(address) {
  try {
    const answer = await fetch(address, { cache: "no-store" });
    return answer.ok ? await answer.json() : null;
  } catch {
    // Whoever looks at the site next sees it there.
    return null;
  }
}

async function spoken({ number, sequence }) {
  const channel = await ask(`/api/channels/${number}`);
  const message = channel?.last;
  // Read meanwhile, one's own, or in a channel of others.
  if (!channel?.me || channel.unread === 0 || !message) return;
  if (message.sequence < sequence || message.author.handle === channel.me) return;
  const what = channel.mentions > 0 ? "mentioned you" : "wrote";
  notify(channel, message.type === "escalation" ? `${message.author.name} needs you` : `${message.author.name} ${what}`);
}

async function paused({ number }) {
  const channel = await ask(`/api/channels/${number}`);
  if (channel?.me && channel.paused && channel.paused.reason !== "person") notify(channel, channel.paused.sentence);
}

async function held({ turn_id: id }) {
  const found = (await ask("/api/decisions"))?.items.find((it) => it.id === id);
  if (found) notify({ slug: found.place, name: found.place }, `${found.from}’s answer is held for review`);
}

async function notify({ slug, name }, body) {
  const now = Date.now();
  if (now - (last.get(slug) ?? -Infinity) < QUIET_MS) return;
  last.set(slug, now);
  const { active } = await navigator.serviceWorker.ready;
  active?.postMessage({ notice: { title: `#${name}`, body, at: `/channels/${slug}` } });
}
