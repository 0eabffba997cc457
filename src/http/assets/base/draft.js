// Unsent input, kept in this browser tab under a key that names its form and who typed it.
//
// A form with `data-draft` is kept without a module: its value is part of the key, where what was
// typed fits one revision only.

const ALL = "wb-draft-";
// Nobody is shown what somebody else has typed in the same tab.
const PREFIX = `${ALL}${document.documentElement.dataset.person ?? ""}-`;
const FIELDS = "textarea, input[type=text]";

/** Keeps a text; an empty one is removed. */
export function keep(name, text) {
  try {
    if (text) sessionStorage.setItem(PREFIX + name, text);
    else sessionStorage.removeItem(PREFIX + name);
  } catch {
    // A full or forbidden store keeps nothing: the text is still in its field.
  }
}

/** Moves what was typed on a document to its new name, unless something was typed there. */
export function carry(from, to) {
  const text = kept(`document-${from}`);
  if (!text || kept(`document-${to}`)) return;
  keep(`document-${to}`, text);
  keep(`document-${from}`, "");
}

/** Returns the fields of a form into which a person has typed. */
export function typedFields(form) {
  return [...form.querySelectorAll(FIELDS)].filter((it) => it.value !== it.defaultValue);
}

/** Returns what a person has typed into a form. */
export function typedIn(form) {
  return typedFields(form).map((it) => it.value).join("\n\n").trim();
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
  area.value = words;
  box.append(name, area);
  return box;
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
function forgetAll() {
  try {
    const names = Object.keys(sessionStorage).filter((it) => it.startsWith(ALL));
    for (const name of names) sessionStorage.removeItem(name);
  } catch {
    // A forbidden store has kept nothing.
  }
}

function nameOf(form, field) {
  const place = form.id || form.getAttribute("action");
  return `form-${location.pathname}-${place}-${form.dataset.draft}-${field.name}`;
}

function save(form, field) {
  const { value, defaultValue: before } = field;
  keep(nameOf(form, field), value === before ? "" : JSON.stringify({ value, before }));
}

const restored = new WeakSet();

/** Restores what was typed into forms that are new on the page. */
function restore() {
  for (const form of document.querySelectorAll("form[data-draft]")) {
    if (restored.has(form)) continue;
    restored.add(form);
    for (const field of form.querySelectorAll(FIELDS)) {
      // Somebody may have begun to type before this module was there.
      if (field.value !== field.defaultValue) save(form, field);
      else fill(form, field);
    }
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
    const isThere = [...document.querySelectorAll(".rv-kept")].some((it) => it.dataset.of === name);
    const title = "What you typed. It wasn’t sent, and the text has changed since.";
    if (field.matches("textarea") && !isThere) form.before(unsent(value, title, name));
    return;
  }
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  for (let it = field.closest("details"); it; it = it.parentElement.closest("details")) it.open = true;
}

document.addEventListener("input", ({ target }) => {
  if (target.matches?.(FIELDS) && target.form?.matches("[data-draft]")) save(target.form, target);
});
document.addEventListener("submit", ({ target, defaultPrevented }) => {
  if (target.matches("form[action='/api/logout']")) forgetAll();
  // A form that a module sends is reset when it has arrived.
  if (target.matches("[data-draft]:not([data-inline])") && !defaultPrevented) forget(target);
});
document.addEventListener("wb:swapped", restore);
restore();
