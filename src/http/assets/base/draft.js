// Unsent input, kept in this browser tab under a key that names its form and who typed it.
//
// A form with `data-draft` is kept without a module: its value is part of the key, where what was
// typed fits one revision only.
//
// A message leaves its fields when it is sent: what is typed from there on is the next one, which
// waits for its turn. Until there is an answer, what has left belongs to the draft.

const ALL = "wb-draft-";
// Nobody is shown what somebody else has typed in the same tab.
const PREFIX = `${ALL}${document.documentElement.dataset.person ?? ""}-`;
export const FIELDS = "textarea, input[type=text]";
const MESSAGE = "[data-composer], #chat-form";

/** What has left a field and is not answered, in the order of the messages. */
const underWay = new WeakMap();

/** Returns the messages of a field that are not answered. */
function away(field) {
  return underWay.get(field) ?? [];
}

/** Keeps a text; an empty one is removed. */
export function keep(name, text) {
  try {
    if (text) sessionStorage.setItem(PREFIX + name, text);
    else sessionStorage.removeItem(PREFIX + name);
  } catch {
    // A full or forbidden store keeps nothing: the text is still in its field.
  }
}

/**
 * Moves what was typed on a document to its new name, unless something was typed there: all of it,
 * or only what was typed on pages that were made until a moment.
 */
export function carry(from, to, until = Infinity) {
  const forms = formsOf(from).map((it) => [it, formOf(to) + it.slice(formOf(from).length)]);
  for (const [name, next] of [[`document-${from}`, `document-${to}`], ...forms]) {
    const text = kept(name);
    if (!text || kept(next) || (JSON.parse(text).made ?? 0) > until) continue;
    keep(next, text);
    keep(name, "");
  }
}

/** Returns the names of what was typed into the forms below a document. */
function formsOf(path) {
  const first = PREFIX + formOf(path);
  try {
    const names = Object.keys(sessionStorage).filter((it) => it.startsWith(first));
    return names.map((it) => it.slice(PREFIX.length));
  } catch {
    // A forbidden store has kept nothing.
    return [];
  }
}

/** Returns how the names begin under which the forms below a document are kept: no path has a zero. */
function formOf(path) {
  return `form-of-${path}\0`;
}

/** What was typed under an earlier name goes along, whichever way led here. */
function carryHere() {
  const { path, earlier, left } = document.querySelector("[data-path][data-read-version]")?.dataset ?? {};
  if (left) {
    const { at, to } = JSON.parse(left);
    carry(path, to, at);
  }
  for (const it of JSON.parse(earlier ?? "[]")) {
    // A name, or one that another document has by now with the moment until which it was this one's.
    const [name, until] = [it].flat();
    carry(name, path, until);
  }
}

/** Returns when the server made this page of a document. */
export function madeAt() {
  return Number.parseInt(document.querySelector("[data-read-version]")?.dataset.readVersion ?? "0", 10);
}

/** Returns what a person has written into a field and knows not to have arrived. */
export function written(field) {
  return [...away(field), field.value].filter(Boolean).join("\n");
}

/** Returns the fields of a form into which a person has typed. */
export function typedFields(form) {
  return [...form.querySelectorAll(FIELDS)].filter((it) => written(it) !== it.defaultValue);
}

/** Returns what a person has typed into a form. */
export function typedIn(form) {
  return typedFields(form).map(written).join("\n\n").trim();
}

/** Returns what was typed into a field since its text was sent: behind that, or in its place. */
export function since(text, sent) {
  return text.startsWith(sent) ? text.slice(sent.length) : text;
}

/** Puts a text into a field, in which somebody may type: one that is there already keeps its caret. */
function put(field, text) {
  if (field.value !== text) field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** A form is being sent: empties the fields of a message. Returns what each field sends. */
export function leave(form) {
  const sent = new Map([...form.querySelectorAll(FIELDS)].map((it) => [it, it.value]));
  for (const [field, text] of form.matches(MESSAGE) ? sent : []) {
    if (!text || field.defaultValue) continue;
    underWay.set(field, [...away(field), text]);
    put(field, "");
  }
  return sent;
}

/**
 * Returns whether a form has a message that may wait for the one before it: all of it leaves the
 * form. A question to the assistant does not: the answer is to be seen before the next one.
 */
export function mayWait(form) {
  const fields = [...form.querySelectorAll(FIELDS)];
  const isWhole = form.matches("[data-composer]") && fields.every((it) => !it.defaultValue);
  const isThere = form.elements.attachments?.value || fields.some((it) => it.value.trim());
  return Boolean(isWhole && isThere && form.checkValidity());
}

/** It was refused: all that had left is in its field again, before what was typed since. */
export function comeBack(form) {
  for (const field of form.querySelectorAll(FIELDS)) {
    if (!underWay.has(field)) continue;
    const text = written(field);
    underWay.delete(field);
    put(field, text);
  }
}

/** It has arrived: resets the form, but for what was typed since. Returns those fields. */
export function arrive(form, sent) {
  const later = new Map();
  for (const [field, text] of sent) {
    const [first, ...next] = away(field);
    const isEmptied = first !== undefined && first === text;
    if (isEmptied) underWay.set(field, next);
    const isWaiting = away(field).length > 0;
    if (!isEmptied && !isWaiting && field.value === text) continue;
    // A text that is changed, and not written anew, stays whole.
    const rest = isEmptied || field.defaultValue ? field.value : since(field.value, text);
    if (isWaiting || (rest && rest !== field.defaultValue)) later.set(field, rest);
  }
  if (later.size === 0) {
    form.reset();
    return [];
  }
  // The modules of the form hear of it; its other fields are as they were for what is sent next.
  form.dispatchEvent(new Event("reset", { bubbles: true }));
  for (const field of sent.keys()) put(field, later.get(field) ?? field.defaultValue);
  return [...later.keys()];
}

/** It has arrived, and another form has been filled with it: takes it out, but for what was typed since. */
export function takeOut(form, sent) {
  for (const [{ name }, text] of sent) {
    const field = form.elements.namedItem(name);
    if (!text || !field?.matches?.(FIELDS)) continue;
    const { value, defaultValue } = field;
    const rest = value.startsWith(text) ? since(value, text).replace(/^\n/, "") : value;
    // Also if it stays: the draft is what is here.
    put(field, value === text ? defaultValue : rest);
  }
}

/** Returns whether a form is for one message after another. */
export function isMessage(form) {
  return form.matches(MESSAGE);
}

/** Shows unsent text to be copied; `of` names its form. */
export function unsent(words, title, of) {
  const box = document.createElement("label");
  box.className = "field rv-kept";
  box.dataset.keep = "";
  box.dataset.of = of;
  const name = document.createElement("span");
  name.className = "field-name";
  name.textContent = title;
  const area = document.createElement("textarea");
  area.readOnly = true;
  area.dir = "auto";
  area.rows = 4;
  area.value = area.defaultValue = words;
  box.append(name, area);
  return box;
}

/** Returns the field of a form in which somebody types. */
export function focusedIn(form) {
  return [...form.querySelectorAll(FIELDS)].find((it) => it === document.activeElement) ?? null;
}

/** Somebody types in a field that goes away: they go on in what shows its text. It stays the text of
    the field, and of its draft. */
export function writeOn(box, field) {
  const area = box.querySelector("textarea");
  area.readOnly = false;
  toField(area, field);
  area.addEventListener("input", () => put(field, area.value));
  // What was refused stands before it.
  field.addEventListener("input", () => {
    if (area.value === field.value) return;
    const at = field.value.length - area.value.length + area.selectionEnd;
    area.value = field.value;
    area.setSelectionRange(at, at);
  });
  area.addEventListener("blur", () => {
    if (["", field.defaultValue].includes(area.value)) box.remove();
  });
}

/** Moves the focus from one field to another that has its text, with the caret. */
export function toField(area, field) {
  const at = area.value.endsWith(field.value) ? area.value.length - field.value.length : area.value.length;
  const [from, to] = [field.selectionStart, field.selectionEnd];
  area.focus({ preventScroll: true });
  area.setSelectionRange(at + from, at + to);
  area.scrollIntoView({ block: "nearest" });
}

/** Returns the kept text, or nothing. */
export function kept(name) {
  try {
    return sessionStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/** Removes all that was typed in this tab, by whomever. */
export function forgetAll() {
  try {
    const names = Object.keys(sessionStorage).filter((it) => it.startsWith(ALL));
    for (const name of names) sessionStorage.removeItem(name);
  } catch {
    // A forbidden store has kept nothing.
  }
}

function nameOf(form, field) {
  const { path } = form.closest("[data-path][data-read-version]")?.dataset ?? {};
  const where = path === undefined ? `form-${location.pathname}-` : formOf(path);
  return `${where}${form.id || form.getAttribute("action")}-${form.dataset.draft}-${field.name}`;
}

function save(form, field) {
  const [value, before] = [written(field), field.defaultValue];
  keep(nameOf(form, field), value === before ? "" : JSON.stringify({ value, before, made: madeAt() }));
}

const restored = new WeakSet();

/** Restores what was typed into forms that are new on the page. */
function restore() {
  carryHere();
  for (const form of document.querySelectorAll("form[data-draft]")) {
    if (restored.has(form)) continue;
    restored.add(form);
    for (const field of form.querySelectorAll(FIELDS)) {
      // Somebody may have begun to type before this module was there.
      if (field.value !== field.defaultValue) save(form, field);
      else fill(form, field);
    }
    // Also of a form that is gone, where somebody writes on.
    form.addEventListener("input", ({ target }) => { if (target.matches(FIELDS)) save(form, target); });
    form.addEventListener("reset", () => forget(form));
  }
}

function forget(form) {
  for (const field of form.querySelectorAll(FIELDS)) keep(nameOf(form, field), "");
}

/** Puts a kept text back into its field; a long one, if the field has another text now, beside it. */
function fill(form, field) {
  const name = nameOf(form, field);
  const text = kept(name);
  if (!text) return;
  const { value, before } = JSON.parse(text);
  if (before !== field.defaultValue) {
    // What was sent without an answer may stand there by now.
    if (value === field.defaultValue) return keep(name, "");
    const isThere = [...document.querySelectorAll(".rv-kept")].some((it) => it.dataset.of === name);
    const title = "What you typed. It wasn’t sent, and the text has changed since.";
    if (field.matches("textarea") && !isThere) form.before(unsent(value, title, name));
    return;
  }
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  for (let it = field.closest("details"); it; it = it.parentElement.closest("details")) it.open = true;
}

document.addEventListener("submit", ({ target, submitter, defaultPrevented }) => {
  // A form that a module sends is reset when it has arrived. What a button takes to another form is
  // kept: nothing is saved by it, and it may not get there.
  const isKept = defaultPrevented || submitter?.hasAttribute("formaction");
  if (target.matches("[data-draft]:not([data-inline])") && !isKept) forget(target);
});
document.addEventListener("wb:swapped", restore);
restore();
