// Typing a suggestion: the replacement text in a field, and below it the changes.

import { refreshAll } from "./live.js";
import { plain } from "./plain.js";
import { Warning } from "./press.js";
import { difference } from "./words.js";

const PAUSE_MS = 120;
const NAMES = { del: "removed: ", ins: "added: " };

/** A form of a thread or a review: `over` is the passage that its page shows now. */
export function start(form) {
  const area = form.elements.suggestion;
  let now = "";
  const shown = show(area, () => area.dataset.before ?? (now || area.defaultValue));
  area.closest(".field").after(shown.box);
  const sight = new Sight(form, area, shown, (passage) => { now = passage; });
  new MutationObserver(shown.draw).observe(area, { attributes: true, attributeFilter: ["data-before"] });
  form.addEventListener("reset", () => setTimeout(shown.draw));
  form.addEventListener("submit", (event) => {
    if (!sight.isClear()) {
      event.preventDefault();
      return;
    }
    // The same words over a text that has changed since are another proposal.
    if (area.value !== area.defaultValue || "same" in form.dataset) return;
    event.preventDefault();
    area.setCustomValidity("Change the text first.");
    area.reportValidity();
  }, true);
}

/**
 * The passage may change under what is typed over it: says so, and holds back what is sent until it
 * is sent again by somebody who has had the time to look.
 */
class Sight {
  constructor(form, area, shown, compare) {
    Object.assign(this, { form, area, shown, compare });
    this.isThread = "composer" in form.dataset;
    /** What was typed over; a draft knows it from an earlier visit. */
    this.over = area.typedOver ?? this.passage();
    this.warning = new Warning();
    /** Whether the server has said what this page has not heard of yet. */
    this.isTold = false;
    this.words = document.createElement("p");
    this.words.className = "trouble-text";
    this.words.dataset.keep = "";
    this.words.role = "alert";
    shown.box.before(this.words);
    const observer = new MutationObserver(() => this.look());
    observer.observe(area, { childList: true, characterData: true, subtree: true });
    observer.observe(form.elements.over, { attributes: true, attributeFilter: ["value"] });
    form.addEventListener("wb:kept", () => {
      this.over = area.typedOver;
      this.look();
    });
    form.addEventListener("wb:refused", ({ detail }) => this.refused(detail.code));
    form.addEventListener("reset", () => setTimeout(() => {
      this.over = this.passage();
      this.look();
    }));
    this.look();
  }

  /** Returns the passage, if it is certain where that is. */
  passage() {
    return this.form.elements.over.value;
  }

  hasChanged() {
    const passage = this.passage();
    return passage !== "" && this.over !== "" && passage !== this.over;
  }

  /** Whether somebody means to replace what the passage was. */
  isMeant() {
    const { area, form } = this;
    if (area.value !== area.defaultValue) return !this.isThread || area.value !== this.over;
    // The words of a review are there before anybody has typed.
    return !this.isThread && (form.closest("dialog[open]") || form.contains(document.activeElement));
  }

  look() {
    const { area } = this;
    if (!this.isMeant()) {
      this.over = this.passage();
      if (this.isThread && area.value !== area.defaultValue) area.value = area.defaultValue;
    }
    const hasChanged = this.hasChanged();
    if (hasChanged && this.isTold) this.warning.meet(this.passage());
    this.isTold &&= !hasChanged;
    this.words.textContent = hasChanged
      ? "The passage has changed. Check your change below before you send it." : "";
    if (!this.isThread) this.compare(hasChanged ? this.passage() : "");
    this.shown.draw();
  }

  refused(code) {
    this.isTold = code === "source_changed";
    if (!this.isTold) return;
    if (this.hasChanged()) this.look();
    else refreshAll();
  }

  /** Whether what is in the field may be sent over the passage as it is. */
  isClear() {
    const isUnread = this.hasChanged() && this.isMeant() && !this.warning.isRead(this.passage());
    if (isUnread) this.area.focus();
    else this.over = this.passage();
    return !isUnread;
  }
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
