// What is typed and not sent, kept in this tab: by a word that says what it belongs to.

const PREFIX = "wb-draft-";

/** Keeps a text; an empty one is forgotten. */
export function keep(name, text) {
  try {
    if (text) sessionStorage.setItem(PREFIX + name, text);
    else sessionStorage.removeItem(PREFIX + name);
  } catch {
    // A full or forbidden store keeps nothing: the text is still in its field.
  }
}

/** Returns what was kept, or nothing. */
export function kept(name) {
  try {
    return sessionStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}
