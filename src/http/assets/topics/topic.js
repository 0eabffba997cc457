// A thread: Ctrl-Enter sends, a draft survives, and a running job shows activity.

import { fateOf } from "./again.js";
import { focusedIn, isMessage, keep, kept, toField, typedFields, typedIn, unsent, writeOn, written } from "./draft.js";
import { SINCE, ifRefused, isSending } from "./forms.js";
import { bind } from "./keys.js";
import { say } from "./say.js";
import { span } from "./steps.js";

const TICK_MS = 1_000;

export function start(root) {
  const swapping = ({ detail }) => root.isConnected && rescue(root, detail);
  // The page may be swapped as a whole, and the forms of all modules are restored before.
  const swapped = () => {
    if (root.isConnected) {
      restore(root);
      forgive(root);
      mark(root);
    } else {
      document.removeEventListener("wb:swapping", swapping);
      document.removeEventListener("wb:swapped", swapped);
    }
  };
  document.addEventListener("wb:swapping", swapping);
  document.addEventListener("wb:swapped", swapped);
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
    // Also of a form that is gone, where somebody writes on.
    form.addEventListener("input", ({ target }) => save(target));
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
    if (!isSending(form)) show(form, root, host);
    else {
      // What is on its way may be the very thing that takes its form away.
      ifRefused(form, () => {
        // It may be back, with what was typed.
        if (!form.isConnected && !formOf(root, placeOf(form))) show(form, root, host);
      });
      if (isMessage(form)) goOn(form, root, host, SINCE);
    }
  }
}

/** Shows what was typed into a form that is gone. */
function show(form, root, host) {
  const fate = fateOf(form);
  const title = `What you typed. ${fate}`;
  const field = goOn(form, root, host, title);
  const others = typedFields(form).filter((it) => it !== field).map(written).join("\n\n").trim();
  if (others) stand(unsent(others, title, placeOf(form)), root, host);
  if (others || field) say(`You can’t send this any more. ${fate} What you typed is still here.`);
}

/** Where somebody goes on typing whose form is gone: the field and its box, by the form. */
const goingOn = new WeakMap();

/** Who types in a form that goes away goes on in a box. Returns their field, if any. */
function goOn(form, root, host, title) {
  let [box, field] = goingOn.get(form) ?? [];
  if (box?.isConnected) {
    box.firstChild.textContent = title;
    return field;
  }
  field = focusedIn(form);
  if (!field) return null;
  box = unsent(field.value, title, placeOf(form));
  box.dataset.field = field.name;
  goingOn.set(form, [box, field]);
  stand(box, root, host);
  writeOn(box, field);
  return field;
}

function stand(box, root, host) {
  if (host.isConnected) host.before(box);
  else root.prepend(box);
}

/** A form is back, and its text with it: whoever types it goes on there. */
function forgive(root) {
  for (const box of root.querySelectorAll(".rv-kept")) {
    const form = formOf(root, box.dataset.of);
    if (!form) continue;
    const area = box.querySelector("textarea");
    const field = form.elements.namedItem(box.dataset.field);
    // What is not in it is nowhere else.
    if (!(field ? written(field) : typedIn(form)).includes(area.value.trim())) continue;
    if (field && area === document.activeElement) {
      const fold = field.closest("details");
      if (fold) fold.open = true;
      toField(field, area);
    }
    box.remove();
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
