// What was sent and got no answer may have arrived. Sent again it goes under the same key, which
// does nothing twice. A text that has changed since goes out whole, under that key, too: if the
// earlier one has arrived, it is refused, and the person decides what is left to say. That is so
// after a visit to another page as well: until there is an answer, the tab keeps what was sent.

import { FIELDS, isMessage, keep, kept, typedFields, written } from "./draft.js";

/** What the server says if the earlier text under a key has arrived. */
export const ARRIVED = "idempotency_conflict";

const lost = new WeakMap();

/** Returns the name under which a tab keeps what a form sends. */
function nameOf(form) {
  const { composer, draft = "" } = form.dataset;
  if (composer) return `sent-${composer}`;
  // A new conversation has no name yet.
  const place = form.elements.namedItem("session")?.value ?? location.pathname;
  return `sent-${place}-${form.id || form.getAttribute("action")}-${draft}`;
}

/** Something goes out: keeps it until `settle` is called with what this returns. */
export function note(form, body, sent) {
  const name = nameOf(form);
  const isTyped = [...sent].some(([it, text]) => text !== it.defaultValue);
  const isKept = body.has("key") && isTyped;
  keep(name, isKept ? `${body}` : "");
  return name;
}

/** There is an answer. */
export function settle(name) {
  keep(name, "");
}

/** Nobody answered: notes what was sent. */
export function lose(form, body) {
  lost.set(form, { body });
}

/** Returns whether what a form has sent may have arrived, or not. */
export function isLost(form) {
  return lost.has(form) || left(form) !== null;
}

/** Returns what is known of what is typed into a form that can’t be sent any more. */
export function fateOf(form) {
  return isLost(form) ? "It may have arrived: check this page." : "It wasn’t sent.";
}

/** Returns what goes out: what has gone out before without an answer, if it is the same. */
export function bodyOf(form, fields) {
  const body = new URLSearchParams(fields);
  const before = lost.get(form) ?? left(form);
  lost.delete(form);
  if (!before) return body;
  if (isSame(form, body, before)) return before.body;
  const key = before.body.get("key");
  if (key) body.set("key", key);
  return body;
}

/** What a form sends next is another request. */
export function renew(form) {
  const key = form.elements.namedItem("key");
  if (key) key.value += "-2";
}

/** Returns what an earlier visit has sent without seeing an answer. */
function left(form) {
  const text = kept(nameOf(form));
  return text ? { body: new URLSearchParams(text), isOfBefore: true } : null;
}

/**
 * Returns whether a form has what it had. What else a message had than its texts, such as files, is
 * gone with the earlier visit.
 */
function isSame(form, body, { body: before, isOfBefore }) {
  const isOfTexts = isOfBefore && isMessage(form);
  const names = new Set(isOfTexts
    ? [...form.querySelectorAll(FIELDS)].map((it) => it.name) : [...body.keys(), ...before.keys()]);
  names.delete("key");
  // The same is sent from another visit to its page.
  names.delete("seen");
  return [...names].every((name) => body.getAll(name).join("\n") === before.getAll(name).join("\n"));
}

// Who empties a form writes something else, even if it reads the same.
document.addEventListener("input", ({ target }) => {
  const { form } = target;
  if (!form?.matches("[data-inline]") || written(target) || typedFields(form).length > 0) return;
  lost.delete(form);
  settle(nameOf(form));
});
