// The page of a document: notes next to their passages, and selections that become Topics.

import { Thread } from "./beside.js";
import { arrange, neighbor } from "./margin.js";
import { Compose } from "./compose.js";
import { Paint, blockOf, foldsOf, rangeOf, selectedIn, unfold } from "./paint.js";
import { bind } from "./keys.js";
import { on, refreshPart, seen } from "./live.js";
import { plain } from "./plain.js";
import { say } from "./say.js";
import * as swap from "./swap.js";

const ICONS = {
  pen: "M3 13l.6-3L11 2.6 13.4 5 6 12.4 3 13z", up: "M3 10l5-5 5 5", down: "M3 6l5 5 5-5", note: "M3 3h10v8H7l-3 2.5V11H3z", list: "M3 4h10M3 8h10M3 12h6",
};
const COPIED_MS = 1_500;
/** Characters that identify a block when the reader returns. */
const PLACE_UNITS = 200;
/** The heading above this height is the current one. */
const HEADING_TOP = 96;
const WIDE = matchMedia("(min-width: 1001px)");

export function start(root) {
  new Reader(root);
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

export function button(label, press, { text = "", draw = "", classes = "" } = {}) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = classes;
  if (draw) made.append(icon(draw));
  if (text) made.append(text);
  if (text !== label) made.setAttribute("aria-label", label);
  made.addEventListener("click", press);
  return made;
}

/** Copies the link to a heading; following it as well shows which one it is. */
function copied(link) {
  navigator.clipboard?.writeText(link.href).then(() => {
    link.classList.add("is-copied");
    setTimeout(() => link.classList.remove("is-copied"), COPIED_MS);
    say("Link copied.");
  }).catch(() => {}); // A browser that does not allow it has the link in its address bar.
}

function unescaped(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // Somebody has typed a percent sign.
  }
}

/** Returns whether a part of the page is laid out, or will be at the next scroll. */
function isNear(box) {
  return box.bottom > -innerHeight && box.top < 2 * innerHeight;
}

class Reader {
  notes = [];
  active = "";
  due = 0;
  moved = 0;
  /** Takes away what `hint` shows. */
  unhint = () => {};
  loading = null;
  /** Whether a new text was asked for while one was on its way. */
  isStale = false;
  /** Whether a new text is being put here. */
  isPutting = false;

  constructor(root) {
    this.root = root;
    this.mayWrite = "mayWrite" in root.dataset;
    /** Whether the lines of the text are shown as they are: its notes are a plain list. */
    this.isLines = "text" in root.dataset;
    this.paint = new Paint();
    // A browser that cannot unfold it by its sheet.
    const contents = root.querySelector("#contents details");
    if (contents && !CSS.supports("selector(::details-content)") && innerWidth > 1260) contents.open = true;
    this.bar();
    this.compose = new Compose(this);
    this.thread = new Thread(this);
    if (!this.isLines) root.classList.add("is-set");
    this.read();
    root.addEventListener("click", (event) => this.clicked(event));
    root.addEventListener("wb:swapped", (event) => this.swapped(event));
    // The same is compared with the same: what is new gets the links and names that this page gave.
    document.addEventListener("wb:swapping", ({ detail }) => {
      const fresh = detail.page.getElementById("text");
      if (fresh) this.links(fresh);
    });
    document.addEventListener("wb:swapped", (event) => { if (!root.contains(event.target)) this.swapped(event); });
    new ResizeObserver(() => this.later()).observe(this.text);
    // A part or a note that was laid out has its true height now.
    root.addEventListener("contentvisibilityautostatechange", () => this.later());
    addEventListener("resize", () => this.later());
    addEventListener("scroll", () => this.scrolled(), { passive: true });
    WIDE.addEventListener("change", () => { this.sheet(false); this.later(); });
    document.fonts?.ready.then(() => this.later());
    this.keys();
    this.follow();
    // A message is about its Topic alone; the note says how many there are.
    on("topics", ({ data }) => {
      if (root.isConnected && this.aside.querySelector(`[href="/topics/${data?.topic_id}"]`)) refreshPart("notes");
    });
    addEventListener("hashchange", () => this.hashed());
    this.hashed();
    for (const type of ["wheel", "touchmove", "pointerdown", "keydown", "click", "hashchange"]) {
      addEventListener(type, () => { this.moved++; }, { capture: true, passive: true });
    }
    this.comeBack();
    this.compose.restore();
    root.dataset.ready = "";
    performance.mark("wb-reader-ready");
  }

  get text() { return this.root.querySelector("#text"); }
  get aside() { return this.root.querySelector("#notes"); }
  get blob() { return this.text.dataset.blob; }
  get isNarrow() { return !WIDE.matches; }

  // --- notes ---

  /** Finds the notes and their words anew. */
  read() {
    this.links(this.text);
    const blocks = this.blocks();
    const isSame = this.aside.dataset.blob === this.blob;
    this.notes = [...this.aside.querySelectorAll("li[data-state]")].map((card) => {
      const { state, from, to } = card.dataset;
      const topic = card.id.slice("topic-".length);
      // Places are those of the text that the notes came with.
      const find = () => rangeOf(blocks, from, to);
      return { card, topic, state, find, range: from && isSame ? find() : null };
    });
    this.moves();
    this.paint.topics(this.notes, this.active);
    this.mark();
    this.layout();
    const placed = this.placed().length;
    for (const it of this.steps) it.hidden = this.notes.length === 0;
    this.count.textContent = `${this.notes.length} ${this.notes.length === 1 ? "Topic" : "Topics"}`;
    this.steps.forEach((it) => { it.disabled = placed === 0; });
    this.barElement.hidden = this.isLines || (this.notes.length === 0 && !this.mayWrite);
  }

  /** Gives each heading a link beside it, which is no part of its words, and each fold a name. */
  links(text) {
    const seen = new Map();
    for (const fold of text.querySelectorAll("details")) {
      const words = fold.querySelector(":scope > summary")?.textContent ?? "";
      seen.set(words, (seen.get(words) ?? 0) + 1);
      fold.dataset.key = `fold ${seen.get(words)} ${words}`;
    }
    for (const heading of text.querySelectorAll("[id]:is(h1, h2, h3, h4, h5, h6)")) {
      if (heading.parentElement.className === "md-head") continue;
      const box = document.createElement("div");
      box.className = "md-head";
      const link = document.createElement("a");
      link.className = "md-here";
      link.href = `#${heading.id}`;
      link.setAttribute("aria-label", `Link to “${heading.textContent}”`);
      heading.replaceWith(box);
      box.append(heading, link);
    }
  }

  blocks() {
    const found = new Map();
    for (const block of this.text.querySelectorAll("[data-b]")) {
      found.set(Number.parseInt(block.dataset.b, 10), block);
    }
    return found;
  }

  placed() { return this.notes.filter((it) => it.range); }

  later() {
    if (this.due) return;
    this.due = requestAnimationFrame(() => {
      this.due = 0;
      this.layout();
    });
  }

  scrolled() {
    this.scrolling ??= requestAnimationFrame(() => {
      this.scrolling = null;
      this.markHeading();
    });
  }

  /** Puts each note at the height of its words: all is measured first, then moved. */
  layout() {
    const placed = this.placed().filter((it) => it.card.parentElement?.classList.contains("notes-placed"));
    if (!WIDE.matches) {
      for (const { card } of placed) card.style.transform = "";
      this.aside.style.minHeight = "";
      return;
    }
    const origin = this.aside.getBoundingClientRect().top;
    const list = placed[0]?.card.parentElement;
    const least = list ? list.getBoundingClientRect().top - origin : 0;
    const shift = this.text.getBoundingClientRect().top - origin;
    const measured = placed.map(({ card, range }) => {
      const box = this.placeOf(range);
      return { top: Math.max(box.top - origin - 8, shift), height: card.offsetHeight };
    });
    const order = measured.map((_, at) => at).sort((a, b) => measured[a].top - measured[b].top || a - b);
    const pinned = order.findIndex((at) => placed[at].topic === this.active);
    const tops = arrange(order.map((at) => measured[at]), { least, pinned });
    let bottom = 0;
    order.forEach((at, index) => {
      placed[at].card.style.transform = `translateY(${Math.round(tops[index])}px)`;
      bottom = Math.max(bottom, tops[index] + measured[at].height);
    });
    this.aside.style.minHeight = `${Math.ceil(bottom)}px`;
  }

  /** Where words are. Of a part that the browser has not laid out yet its beginning must do. */
  placeOf(range) {
    const fold = foldsOf(range.startContainer).at(-1);
    if (fold) return fold.getBoundingClientRect();
    const part = blockOf(range.startContainer)?.closest(".md-part");
    const around = part?.getBoundingClientRect();
    return around && !isNear(around) ? around : range.getClientRects()[0] ?? range.getBoundingClientRect();
  }

  mark() {
    for (const { card, topic } of this.notes) card.classList.toggle("is-active", topic === this.active);
  }

  /** Shows one Topic: its words, its note. */
  activate(topic, { scroll = true, focus = false } = {}) {
    const note = this.notes.find((it) => it.topic === topic);
    this.active = note ? topic : "";
    if (note?.range) unfold(note.range);
    if (this.thread.topic !== this.active) this.thread.close();
    this.paint.topics(this.notes, this.active);
    this.mark();
    this.layout();
    if (!note) return;
    if (!WIDE.matches) {
      this.sheet(true);
      note.card.scrollIntoView({ block: "nearest" });
    }
    if (scroll && note.range) this.bringToView(note.range);
    else if (scroll) note.card.scrollIntoView({ block: "center" });
    if (focus) note.card.querySelector(".note-title").focus({ preventScroll: true });
  }

  bringToView(range) {
    const box = range.getBoundingClientRect();
    const room = WIDE.matches ? innerHeight : innerHeight * 0.38;
    if (box.top > 80 && box.bottom < room - 40) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const isFar = !isNear(box);
    scrollBy({ top: box.top - room / 3, behavior: still || isFar ? "instant" : "smooth" });
    if (isFar) this.settle(() => range.getBoundingClientRect().top - room / 3);
  }

  /**
   * What comes into view far away takes its true height, which moves it: `off` says how far. It is
   * followed until it stands still, or the reader goes elsewhere.
   */
  settle(off) {
    const mine = ++this.moved;
    let [still, left] = [0, 12];
    const look = () => {
      if (mine !== this.moved) return;
      const by = off();
      still = Math.abs(by) > 1 ? 0 : still + 1;
      if (still === 0) scrollBy({ top: by, behavior: "instant" });
      if (still < 3 && --left > 0) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }

  /** A browser that comes back to a long text knows its place in numbers that are not true yet. */
  comeBack() {
    if (!this.text.querySelector(".md-part")) return;
    const key = () => `wb-place ${globalThis.navigation?.currentEntry?.key ?? location.pathname}`;
    const bottom = () => this.text.getBoundingClientRect().bottom;
    const goBack = () => {
      const place = JSON.parse(sessionStorage.getItem(key()));
      if (!place) return;
      const { words, top, at = 0 } = place;
      // The whole text is above the window.
      if (!words) return this.settle(() => bottom() - top);
      // Cells of tables have the same words; the text may have changed since.
      const all = [...this.text.querySelectorAll("[data-b]")];
      const same = all.filter((it) => it.textContent.startsWith(words));
      const far = (it) => Math.abs(Number.parseInt(it.dataset.b, 10) - at);
      const [block] = (same[0] ? same : all).sort((a, b) => far(a) - far(b));
      if (block) this.settle(() => block.getBoundingClientRect().top - top);
    };
    const leave = () => {
      const { words = "", top = bottom(), at } = this.anchor() ?? {};
      sessionStorage.setItem(key(), JSON.stringify({ words: words.slice(0, PLACE_UNITS), top, at }));
    };
    try {
      if (["reload", "back_forward"].includes(performance.getEntriesByType("navigation")[0]?.type)) goBack();
      else sessionStorage.getItem(key());
    } catch {
      return; // A browser that keeps nothing does as it can.
    }
    addEventListener("pagehide", leave);
    // Without it nobody knows which entry of the history is left.
    const { navigation } = globalThis;
    if (!navigation) return;
    history.scrollRestoration = "manual";
    let way = "";
    navigation.addEventListener("navigate", leave);
    navigation.addEventListener("currententrychange", ({ navigationType }) => { way = navigationType; });
    addEventListener("hashchange", () => { if (way === "traverse") goBack(); });
  }

  step(by) {
    const inText = this.placed().sort((a, b) => a.range.compareBoundaryPoints(Range.START_TO_START, b.range));
    const all = [...this.notes.filter((it) => !it.range), ...inText];
    const at = neighbor(all.length, all.findIndex((it) => it.topic === this.active), by);
    if (at < 0) return;
    this.activate(all[at].topic, { focus: WIDE.matches });
    say(`Topic ${at + 1} of ${all.length}`);
  }

  clicked(event) {
    const here = event.target.closest(".md-here");
    if (here) return copied(here);
    const card = event.target.closest("li[data-state]");
    if (card && this.thread.clicked(event, card)) return;
    if (card && !event.target.closest("a, button, summary, textarea, input, label, .bs")) {
      return this.thread.turn(card.id.slice("topic-".length));
    }
    if (!this.text.contains(event.target) || event.target.closest("a, summary")) return;
    if (this.compose.pick.isOn && getSelection().isCollapsed) return this.compose.pick.at(blockOf(event.target));
    const image = event.target.closest("img");
    if (image && blockOf(image)) return this.compose.offerBlock(blockOf(image), image);
    if (!getSelection().isCollapsed) return;
    const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    const found = caret && this.placed().filter(({ range }) =>
      range.isPointInRange(caret.offsetNode, caret.offset));
    const inner = found?.sort((a, b) => a.range.toString().length - b.range.toString().length)[0];
    this.activate(inner?.topic ?? "", { scroll: false });
    if (inner) this.thread.open(inner.topic);
  }

  /** A Topic without a certain place can be put on other words. */
  moves() {
    if (!this.mayWrite) return;
    for (const { card, topic, state } of this.notes) {
      if (!["rewritten", "ambiguous", "orphaned"].includes(state) || card.querySelector(".note-move")) continue;
      const title = plain(card.querySelector(".note-title").textContent);
      card.append(button(`Choose its passage: “${title}”`, () => this.compose.reattach(topic, title), {
        text: "Choose its passage", classes: "link note-move",
      }));
    }
  }

  hashed() {
    if (location.hash.startsWith("#topic-")) return this.activate(location.hash.slice("#topic-".length));
    // Elsewhere a heading is named without the prefix that keeps it from the names of this page.
    const name = unescaped(location.hash.slice(1));
    if (name && !document.getElementById(name)) document.getElementById(`md-${name}`)?.scrollIntoView();
  }

  // --- what floats ---

  bar() {
    const bar = document.createElement("div");
    bar.className = "reader-bar";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Topics of this document");
    this.list = button("Topics", () => this.sheet(!this.root.classList.contains("is-sheet")), { draw: "list", classes: "bar-notes" });
    this.list.setAttribute("aria-expanded", "false");
    this.count = document.createElement("span");
    this.list.removeAttribute("aria-label");
    this.list.append(this.count);
    this.steps = [
      button("Previous Topic", () => this.step(-1), { draw: "up" }),
      button("Next Topic", () => this.step(1), { draw: "down" }),
    ];
    bar.append(this.list, ...this.steps);
    if (this.mayWrite) {
      bar.append(button("Comment: open a Topic", () => this.compose.begin(), { text: "Comment", draw: "note", classes: "bar-comment" }));
    }
    this.barElement = bar;
    this.root.append(bar);
  }

  sheet(isOpen) {
    this.root.classList.toggle("is-sheet", isOpen);
    this.list.setAttribute("aria-expanded", String(isOpen));
    if (isOpen && !this.aside.querySelector(".sheet-close")) {
      const close = button("Close the Topics", () => { this.sheet(false); this.list.focus(); }, { text: "Close", classes: "sheet-close" });
      // The server knows nothing of it: the notes behind it are to be the same after a swap.
      close.dataset.keep = "";
      this.aside.prepend(close);
    }
  }

  keys() {
    bind("j", "Next Topic", () => this.step(1));
    bind("k", "Previous Topic", () => this.step(-1));
    if (this.mayWrite) {
      bind("c", "Open a Topic on the selection", () => this.compose.begin());
      bind("s", "Suggest a change to the selection", () => this.compose.begin(true));
    } else {
      const when = () => !getSelection().isCollapsed;
      for (const key of ["c", "s"]) bind(key, "Open a Topic, suggest a change", () => this.onlyReads(), { when });
    }
    addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
      if (this.compose.escape()) return event.preventDefault();
      if (this.root.classList.contains("is-sheet")) this.sheet(false);
      else if (this.active) this.activate("");
    });
  }

  /** Says to a viewer why nothing opens. */
  onlyReads() {
    this.hint("You can read this document. Only members and admins can comment or suggest changes.");
  }

  /** Shows a sentence until something else is selected, or pressed. */
  hint(text) {
    if (document.querySelector(".reader-hint:not([hidden])")) return;
    const hint = document.createElement("div");
    hint.className = "reader-hint";
    const words = document.createElement("span");
    words.textContent = text;
    hint.append(words);
    document.body.append(hint);
    say(text);
    // A browser tells of the selection that it begins with, too.
    const [before, end] = [String(getSelection()), new AbortController()];
    this.unhint = () => {
      hint.remove();
      end.abort();
    };
    const look = () => { if (String(getSelection()) !== before) this.unhint(); };
    document.addEventListener("selectionchange", look, { signal: end.signal });
    addEventListener("pointerdown", this.unhint, { signal: end.signal });
  }

  // --- keeping the page true ---

  swapped(event) {
    const ids = event.detail?.ids ?? [];
    if (ids.length > 0 && !ids.some((id) => ["notes", "text"].includes(id))) return;
    // The marks in lines are the server's.
    if (this.aside.dataset.blob !== this.blob || (this.isLines && !ids.includes("text"))) this.reload();
    this.read();
  }

  /** Has the new text, unless somebody writes about words that are not in it. */
  reload() {
    // What is on its way may be older than what is asked for.
    if (!this.isPutting) this.isStale = this.loading !== null;
    this.loading ??= this.loadLatest().finally(() => { this.loading = null; });
    return this.loading;
  }

  async loadLatest() {
    do {
      this.isStale = false;
      await this.load();
    } while (this.isStale);
  }

  async load() {
    const before = this.blob;
    const ids = this.isLines ? ["text", "notes"] : ["text", "contents", "notes"];
    try {
      const answer = await fetch(location.pathname + location.search, {
        headers: { "wb-fragment": ids.join(","), ...seen() }, cache: "no-store",
      });
      if (!answer.ok && answer.status !== 404) return;
      const page = swap.parse(await answer.text());
      document.dispatchEvent(new CustomEvent(answer.ok ? "wb:there" : "wb:gone", { detail: page }));
      if (!answer.ok) return;
      const fresh = page.getElementById("text");
      const isWritten = this.compose.isOpen && this.compose.about && fresh?.dataset.blob !== before;
      const place = isWritten && fresh && this.compose.placeIn(fresh);
      if (isWritten && !place) return;
      const folds = new Map(this.folds().map((it) => [it.dataset.key, it.open]));
      // The reader may have gone on meanwhile.
      const kept = this.anchor();
      this.isPutting = true;
      try {
        swap.elements(page, ids);
      } finally {
        this.isPutting = false;
      }
      // One that has come to another part of the text is another element.
      for (const fold of this.folds()) fold.open = folds.get(fold.dataset.key) ?? fold.open;
      this.read();
      // The form below the text is about what is read now.
      document.querySelector("#new [name=blob]")?.setAttribute("value", this.blob);
      this.follow();
      this.restore(kept, this.blob !== before);
      if (this.blob !== before) say("The document has changed. This is the new text.");
      if (place) await this.compose.goOn(place);
    } catch {
      // The connection is lost, which the page says; the next event asks again.
    }
  }

  folds() { return [...this.text.querySelectorAll("details")]; }

  /** Remembers which block is at the top of the window. */
  anchor() {
    const parts = [...this.text.querySelectorAll(".md-part")];
    const part = parts.find((it) => it.getBoundingClientRect().bottom > 0) ?? this.text;
    for (const block of part.querySelectorAll("[data-b]")) {
      const box = block.getBoundingClientRect();
      if (box.bottom > 0 && block.textContent) {
        return { words: block.textContent, top: box.top, at: Number.parseInt(block.dataset.b, 10) };
      }
    }
    return null;
  }

  restore(kept, isOther) {
    if (!kept || scrollY === 0) return;
    const off = (it) => it.getBoundingClientRect().top - kept.top;
    const same = [...this.text.querySelectorAll("[data-b]")].filter((it) => it.textContent === kept.words);
    const [least] = same.map((it) => [it, off(it)]).sort(([, a], [, b]) => Math.abs(a) - Math.abs(b));
    if (!least) return;
    const [block, by] = least;
    if (by) scrollBy({ top: by, behavior: "instant" });
    // What is above it may not have its true height yet.
    if (isOther) this.settle(() => (block.isConnected ? off(block) : 0));
  }

  /** Finds the headings of the contents anew, and marks the one under which the reader is. */
  follow() {
    const links = [...this.root.querySelectorAll(".contents a")];
    const under = (link) => ({ link, heading: document.getElementById(decodeURIComponent(link.hash.slice(1))) });
    this.headings = links.map(under).filter(({ heading }) => heading);
    this.markHeading();
  }

  markHeading() {
    const line = this.headingLine();
    const parts = [...this.text.querySelectorAll(".md-part")];
    // Measuring within a part lays it out: only the one at the line is.
    const part = parts.findLast((it) => it.getBoundingClientRect().top <= line);
    const isAbove = ({ heading }) => {
      const own = heading.closest(".md-part");
      if (own === part || !own) return heading.getBoundingClientRect().top <= line;
      return Boolean(part && own.compareDocumentPosition(part) & Node.DOCUMENT_POSITION_FOLLOWING);
    };
    const current = this.headings.findLast(isAbove)?.link;
    if (current && !current.hasAttribute("aria-current")) this.bringIntoList(current);
    for (const { link } of this.headings) {
      if (link === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  /** Scrolls the list of contents alone, so that the entry can be seen in it. */
  bringIntoList(link) {
    const list = link.closest(".contents");
    const [box, own] = [list.getBoundingClientRect(), link.getBoundingClientRect()];
    if (own.top >= box.top && own.bottom <= box.bottom) return;
    list.scrollTop += own.top - box.top - (box.height - own.height) / 2;
  }

  /** The height above which a heading is read: near the top, and lower where no more can be scrolled. */
  headingLine() {
    const all = document.documentElement.scrollHeight - innerHeight;
    const last = Math.min(all, innerHeight);
    const done = last > 0 ? Math.max(1 - (all - scrollY) / last, 0) : 0;
    return HEADING_TOP + done * (innerHeight - HEADING_TOP);
  }

  // --- selections ---

  /** Returns what is selected of the text. */
  selected() {
    return selectedIn(this.text);
  }
}
