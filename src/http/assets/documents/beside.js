// The thread of a Topic, unfolded in its note next to the passage: read, answered and closed there.

import { html } from "./swap.js";
import { button } from "./reader.js";

export class Thread {
  /** The Topic whose thread is unfolded. */
  topic = "";
  /** The unfolded thread and what has the focus in it, while the list of notes is replaced. */
  box = null;
  held = null;

  constructor(reader) {
    this.reader = reader;
    // A Topic that is closed here is no open one any more: its note stays while its thread is read.
    document.addEventListener("wb:swapping", ({ detail }) => this.stay(detail.page));
    document.addEventListener("wb:swapped", () => this.back());
    this.sizes = new ResizeObserver(() => reader.later());
  }

  card() {
    return this.topic ? document.getElementById(`topic-${this.topic}`) : null;
  }

  /** Whether a click on a note was one on its title: that unfolds it in place. */
  clicked(event, card) {
    const title = event.target.closest(".note-title");
    if (!title || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return false;
    event.preventDefault();
    this.turn(card.id.slice("topic-".length));
    return true;
  }

  turn(topic) {
    if (this.topic === topic) {
      this.close();
      this.reader.activate(topic, { scroll: false });
    } else {
      this.open(topic);
    }
  }

  async open(topic) {
    if (this.topic === topic) return;
    this.close();
    this.topic = topic;
    this.reader.activate(topic, { scroll: false });
    if (!this.card()) {
      this.topic = "";
      return;
    }
    let text = "";
    try {
      const answer = await fetch(`/topics/${topic}?beside=1`, { cache: "no-store" });
      if (answer.ok) text = await answer.text();
    } catch {
      // The page says that the connection is lost; the title still leads to the thread.
    }
    if (this.topic !== topic) return;
    if (!text) {
      this.topic = "";
      this.reader.hint("The thread can’t be loaded right now.");
      return;
    }
    const card = this.card();
    // It was asked for several times.
    if (!card || card.querySelector(".note-thread")) return;
    const box = document.createElement("div");
    box.className = "note-thread";
    box.dataset.keep = "";
    box.append(html(text), button("Collapse the thread", () => this.turn(topic), { text: "Collapse", classes: "link bs-fold" }));
    card.append(box);
    card.classList.add("is-open");
    card.querySelector(".note-title").setAttribute("aria-expanded", "true");
    this.sizes.observe(box);
    document.dispatchEvent(new CustomEvent("wb:swapped", { detail: { ids: ["beside"] } }));
    this.reader.later();
    requestAnimationFrame(() => this.show(card));
  }

  /** Brings what was unfolded into the window, as far as its head stays there. */
  show(card) {
    if (this.reader.isNarrow) return card.scrollIntoView({ block: "start" });
    this.reader.layout();
    const box = card.getBoundingClientRect();
    const by = Math.min(box.bottom + 16 - innerHeight, box.top - 80);
    this.reader.moved++;
    if (by > 0) scrollBy({ top: by, behavior: "instant" });
  }

  close() {
    const card = this.card();
    this.topic = "";
    if (!card) return;
    const box = card.querySelector(".note-thread");
    const had = box?.contains(document.activeElement);
    this.sizes.disconnect();
    box?.remove();
    card.classList.remove("is-open");
    const title = card.querySelector(".note-title");
    title.removeAttribute("aria-expanded");
    if (had) title.focus({ preventScroll: true });
    if ("closed" in card.dataset) card.remove();
    this.reader.later();
  }

  /** Keeps the note of the unfolded thread in a new list that has it no more. */
  stay(page) {
    const card = this.card();
    const list = page.getElementById("notes");
    if (!card || !list) return;
    this.box = card.querySelector(".note-thread");
    this.held = this.box?.contains(document.activeElement) ? document.activeElement : null;
    const fresh = page.getElementById(card.id);
    if (fresh) {
      fresh.classList.add("is-open");
      fresh.classList.toggle("is-active", card.classList.contains("is-active"));
      fresh.querySelector(".note-title")?.setAttribute("aria-expanded", "true");
      return;
    }
    card.dataset.closed = "";
    const copy = page.importNode(card, true);
    let home = list.querySelector(`.${card.parentElement.className.split(" ").join(".")}`);
    if (!home) {
      home = page.importNode(card.parentElement, false);
      list.append(home);
    }
    home.append(copy);
  }

  /** A note that stands in another list now is a new element: the thread moves there as it is. */
  back() {
    const { box, held } = this;
    this.box = null;
    this.held = null;
    const card = this.card();
    if (!box || !card || card.contains(box)) return;
    card.querySelector(".note-thread")?.remove();
    card.append(box);
    held?.focus({ preventScroll: true });
  }
}
