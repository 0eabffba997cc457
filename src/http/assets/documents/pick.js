// Choosing paragraphs of a document by keyboard, click or tap, if no text is selected.

import { plain } from "./plain.js";
import { button } from "./reader.js";
import { say } from "./say.js";

/** Characters of a paragraph that are announced. */
const SAID_UNITS = 160;

export class Pick {
  /** The blocks that are picked: `[from, to]`. */
  picked = null;

  constructor(compose) {
    this.compose = compose;
    addEventListener("keydown", (event) => this.key(event));
  }

  get isOn() { return this.picked !== null; }

  /** Begins at the first block in view; returns whether there is one to choose. */
  start() {
    const { reader, moving, isChange } = this.compose;
    const blocks = [...reader.text.querySelectorAll("[data-b]")];
    const seen = blocks.findIndex((it) => it.getBoundingClientRect().bottom > 90);
    if (reader.isLines || seen < 0) return false;
    this.blocks = blocks;
    reader.unhint();
    this.hint ??= this.makeHint();
    this.hint.hidden = false;
    // What a change is suggested of are words.
    this.whole.hidden = Boolean(moving) || isChange;
    reader.root.classList.add("is-picking");
    this.show([seen, seen], { isSaid: false });
    const whole = this.whole.hidden ? "" : ", D picks the whole document";
    say(`Choose a paragraph with the arrow keys or by clicking; hold Shift for more. Enter picks it${whole}. Current: ${this.words([seen, seen])}`);
    return true;
  }

  makeHint() {
    const hint = document.createElement("div");
    hint.className = "reader-hint";
    hint.setAttribute("role", "group");
    hint.setAttribute("aria-label", "Choose a paragraph");
    const words = document.createElement("span");
    words.textContent = matchMedia("(hover: none)").matches
      ? "Tap a paragraph" : "↑ ↓ or click to choose a paragraph, Shift ↓ for more";
    this.whole = button("The whole document", () => this.take(true), { text: "Whole document" });
    hint.append(
      words, button("This one", () => this.take(false), { text: "This one" }), this.whole,
      button("Cancel", () => this.compose.close(), { text: "Cancel" }),
    );
    document.body.append(hint);
    return hint;
  }

  show(picked, { isSaid = true } = {}) {
    this.picked = picked;
    const [first, last] = picked.toSorted((a, b) => a - b).map((at) => this.blocks[at]);
    const range = document.createRange();
    range.setStartBefore(first);
    range.setEndAfter(last);
    this.compose.reader.paint.selection(() => range);
    this.blocks[picked[1]].scrollIntoView({ block: "nearest" });
    if (isSaid) say(this.words(picked));
    const box = this.blocks[picked[1]].getBoundingClientRect();
    if (box.bottom > innerHeight - 80) scrollBy({ top: 120, behavior: "instant" });
  }

  /** What is picked, for those who do not see it. */
  words([from, to]) {
    const count = Math.abs(to - from) + 1;
    const block = this.blocks[to];
    const words = plain(block.textContent.trim().slice(0, SAID_UNITS)) || block.querySelector("img")?.alt || "no words";
    return count > 1 ? `${count} paragraphs, up to: ${words}` : words;
  }

  stop() {
    const { reader } = this.compose;
    this.picked = null;
    reader.root.classList.remove("is-picking");
    if (this.hint) this.hint.hidden = true;
    reader.paint.selection(null);
  }

  key(event) {
    // What is written elsewhere meanwhile is no choice.
    const isElsewhere = event.target.closest?.("input, textarea, select, dialog");
    if (!this.picked || isElsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.picked;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = Math.min(Math.max(to + step, 0), this.blocks.length - 1);
      this.show(event.shiftKey ? [from, next] : [next, next]);
    } else if (event.key === "Enter" && !event.target.closest?.(".reader-hint")) {
      this.take(false);
    } else if (event.key === "d" && !this.whole.hidden) {
      this.take(true);
    } else {
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  /** A click or a tap chooses a block. */
  at(block) {
    const at = this.blocks.indexOf(block);
    if (at >= 0) this.show([at, at]);
  }

  /** Hands over what is picked, or the whole document. */
  take(isWhole) {
    const [first, last] = this.picked.toSorted((a, b) => a - b).map((at) => this.blocks[at]);
    const start = (block) => Number.parseInt(block.dataset.b, 10);
    this.stop();
    if (isWhole) return this.compose.open(null);
    const isOne = first === last;
    return this.compose.open({ from: `${start(first)}:0`, to: `${start(last)}:${isOne ? 0 : last.textContent.length}` });
  }
}
