// A thread: Ctrl-Enter sends, a draft survives, and a running job shows activity.

import { fateOf } from "./again.js";
import { focusedIn, keep, kept, typedIn, unsent, writeOn, written } from "./draft.js";
import { ifRefused, isSending } from "./forms.js";
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
  if (!form) return;
  const text = written(area) === area.defaultValue ? "" : written(area);
  // A text that is changed is known together with what it was.
  const over = text && area.defaultValue && (area.typedOver ??= area.defaultValue);
  if (!text) delete area.typedOver;
  keep(nameOf(form, area), text);
  keep(`${nameOf(form, area)}-over`, over);
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
      area.typedOver = kept(`${nameOf(form, area)}-over`) ?? area.defaultValue;
      form.dispatchEvent(new CustomEvent("wb:kept"));
      const fold = area.closest("details");
      if (fold) fold.open = true;
    }
    const forget = () => areas.forEach((area) => {
      delete area.typedOver;
      keep(nameOf(form, area), "");
      keep(`${nameOf(form, area)}-over`, "");
    });
    form.addEventListener("reset", forget);
    form.addEventListener("submit", () => { if (!form.matches("[data-inline]")) forget(); });
  }
}

/** Returns whether a swap of `part` replaces an element: not within what a module keeps as it is. */
function isReplaced(element, part) {
  if (!element || !part?.contains(element)) return false;
  const own = element.closest('[data-keep=""]');
  return !own || own === part || !part.contains(own);
}

/** Returns the name of a form, on every version of a page. */
function placeOf(form) {
  return form.dataset.composer ?? form.getAttribute("action");
}

function formOf(root, name) {
  const forms = [...root.querySelectorAll("form[data-composer], form[data-draft]")];
  return forms.find((it) => placeOf(it) === name);
}

/** Text in a form that disappears (a Topic is closed, a channel completed) stays to be copied. */
function rescue(root, { page, ids }) {
  for (const form of root.querySelectorAll("form[data-composer], form[data-draft]")) {
    const host = form.closest("[data-live]");
    if (!(typedIn(form) || focusedIn(form)) || formOf(page, placeOf(form))) continue;
    if (!ids.some((id) => isReplaced(host, document.getElementById(id)))) continue;
    // What is on its way may be the very thing that takes its form away.
    if (isSending(form)) ifRefused(form, () => { if (!form.isConnected) show(form, root, host); });
    else show(form, root, host);
  }
}

/** Shows what was typed into a form that is gone. */
function show(form, root, host) {
  const [typed, field] = [typedIn(form), focusedIn(form)];
  if (!typed && !field) return;
  const fate = fateOf(form);
  const box = unsent(typed, `What you typed. ${fate}`, placeOf(form));
  if (host.isConnected) host.before(box);
  else root.prepend(box);
  if (field) writeOn(box, field);
  say(`You can’t send this any more. ${fate} What you typed is still here.`);
}

/** A form is back, and its text with it. */
function forgive(root) {
  for (const words of root.querySelectorAll(".rv-kept")) {
    const form = formOf(root, words.dataset.of);
    const { value, defaultValue } = words.querySelector("textarea");
    // What was typed since is nowhere else.
    if (form && typedIn(form) && value === defaultValue) words.remove();
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
