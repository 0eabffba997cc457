// A thread: Ctrl-Enter sends, a draft survives, and a running job shows activity.

import { keep, kept, typedIn, unsent } from "./draft.js";
import { bind } from "./keys.js";
import { say } from "./say.js";
import { span } from "./steps.js";

const TICK_MS = 1_000;

export function start(root) {
  root.addEventListener("input", (event) => save(event.target));
  const swapping = ({ detail }) => {
    if (root.isConnected) rescue(root, detail);
    else document.removeEventListener("wb:swapping", swapping);
  };
  document.addEventListener("wb:swapping", swapping);
  root.addEventListener("wb:swapped", () => {
    restore(root);
    forgive(root);
    mark(root);
  });
  restore(root);
  mark(root);
  const timer = setInterval(() => {
    if (root.isConnected) tick(root);
    else clearInterval(timer);
  }, TICK_MS);
  const composer = () => root.querySelector("form[data-composer] textarea");
  bind("r", "Write a message", () => composer()?.focus(), { when: () => root.isConnected && composer() });
}

/** Typed text is kept in this tab until it is sent. */
function save(area) {
  const form = area.closest("form[data-composer]");
  if (form) keep(nameOf(form, area), area.value === area.defaultValue ? "" : area.value);
}

function nameOf(form, area) {
  return `${form.dataset.composer}-${area.name}`;
}

const restored = new WeakSet();

/** Restores kept text in new forms. */
function restore(root) {
  for (const form of root.querySelectorAll("form[data-composer]")) {
    if (restored.has(form)) continue;
    restored.add(form);
    const areas = [...form.querySelectorAll("textarea")];
    for (const area of areas) {
      // Somebody may have begun to type before this module was there.
      if (area.value !== area.defaultValue) save(area);
      const draft = kept(nameOf(form, area));
      if (!draft || area.value !== area.defaultValue) continue;
      area.value = draft;
      const fold = area.closest("details");
      if (fold) fold.open = true;
    }
    const forget = () => areas.forEach((area) => keep(nameOf(form, area), ""));
    form.addEventListener("reset", forget);
    form.addEventListener("submit", () => { if (!form.matches("[data-inline]")) forget(); });
  }
}

/** Text in a form that disappears (a Topic is closed, a channel completed) stays to be copied. */
function rescue(root, { page, ids }) {
  for (const form of root.querySelectorAll("form[data-composer]")) {
    const host = form.closest("[data-live]");
    const name = form.dataset.composer;
    const typed = typedIn(form);
    if (!typed || page.querySelector(`form[data-composer="${name}"]`)) continue;
    if (!ids.some((id) => document.getElementById(id)?.contains(host))) continue;
    host.before(unsent(typed, "What you typed. It wasn’t sent.", name));
    say("You can’t write here any more. What you typed wasn’t sent, but it’s still here.");
  }
}

/** A form is back, and its text with it. */
function forgive(root) {
  for (const words of root.querySelectorAll(".rv-kept")) {
    const form = root.querySelector(`form[data-composer="${words.dataset.of}"]`);
    if (form && typedIn(form)) words.remove();
  }
}

/** Remembers when each running job started, by this browser's clock. */
function mark(root) {
  for (const card of root.querySelectorAll("[data-elapsed]")) {
    if (card.dataset.seen === card.dataset.elapsed) continue;
    card.dataset.seen = card.dataset.elapsed;
    card.dataset.since = String(performance.now() - Number(card.dataset.elapsed));
  }
}

function tick(root) {
  for (const card of root.querySelectorAll("[data-since]")) {
    if (!card.dataset.elapsed) continue;
    const ms = performance.now() - Number(card.dataset.since);
    const limit = Number(card.dataset.limit ?? 0);
    const sentence = card.querySelector("[data-sentence]");
    if (sentence) {
      sentence.textContent = limit
        ? `Running for ${span(ms)} of at most ${span(limit)}.` : `Running for ${span(ms)}.`;
    }
    const bar = card.querySelector("progress");
    if (bar) bar.value = ms;
  }
}
