// Typing a suggestion: the replacement text in a field, and below it the changes.

import { plain } from "./plain.js";
import { difference } from "./words.js";

const PAUSE_MS = 120;
const NAMES = { del: "removed: ", ins: "added: " };

/** A form of a thread: its field starts with the passage, unless the form says what that is now. */
export function start(form) {
  const area = form.elements.suggestion;
  const shown = show(area, () => area.dataset.before ?? area.defaultValue);
  area.closest(".field").after(shown.box);
  new MutationObserver(shown.draw).observe(area, { attributes: true, attributeFilter: ["data-before"] });
  form.addEventListener("reset", () => setTimeout(shown.draw));
  form.addEventListener("submit", (event) => {
    // The same words over a text that has changed since are another proposal.
    if (area.value !== area.defaultValue || "same" in form.dataset) return;
    event.preventDefault();
    area.setCustomValidity("Change the text first.");
    area.reportValidity();
  }, true);
}

/** Shows below a field how it differs from `before()`; returns `{ box, draw }`. */
export function show(area, before) {
  const box = document.createElement("div");
  box.className = "sg-diff";
  box.dataset.keep = "";
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "The change");
  let timer = 0;
  const draw = () => {
    clearTimeout(timer);
    const parts = difference(before(), area.value);
    const isChanged = parts.some((it) => it.sort !== "same");
    box.hidden = !isChanged;
    box.replaceChildren(...(isChanged ? parts.map(piece) : []));
  };
  area.addEventListener("input", () => {
    area.setCustomValidity("");
    clearTimeout(timer);
    timer = setTimeout(draw, PAUSE_MS);
  });
  draw();
  return { box, draw };
}

function piece({ sort, text }) {
  if (sort === "same") return document.createTextNode(plain(text));
  const made = document.createElement(sort);
  const name = document.createElement("span");
  name.className = "vh";
  name.textContent = NAMES[sort];
  made.append(name, plain(text));
  return made;
}
