// Unsent input, kept in this browser tab under a key that names its form.

const PREFIX = "wb-draft-";

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
  const all = [...form.querySelectorAll("textarea, input[type=text]")];
  return all.filter((it) => it.value !== it.defaultValue);
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
