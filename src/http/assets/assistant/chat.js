// The assistant: an answer while it is written, and the form that asks.
//
// The server renders each block of an answer; here it is put where it belongs, so that nothing
// changes when the answer is there. A tab that nobody sees lets go, and comes back by reading on.

import { attaching } from "./attach.js";
import { copying } from "./copy.js";
import { keep, kept, written } from "./draft.js";
import { note } from "./keys.js";
import { refreshAll, refreshIn } from "./live.js";
import { say } from "./say.js";
import { slash } from "./slash.js";
import * as swap from "./swap.js";

const RETRY_MS = [300, 1_000, 2_000, 5_000];
/** A connection this long without a word is lost: the server says something every 10 seconds. */
const SILENCE_MS = 25_000;
const LOST = "Connection lost. Trying again…";
/** So near to the end of the page that new text is to be seen. */
const NEAR_PX = 160;
/** A pause in typing after which is searched. */
const SEARCH_MS = 200;
/** How long after Stop has led to the message Enter is still meant for Stop. */
const STOPPED_MS = 1_000;

export function start(element) {
  if (element.dataset.run) new Answer(element);
  else if (element.matches("[role=search]")) searching(element);
  else composer(element);
}

// --- an answer ---

class Answer {
  constructor(element) {
    this.element = element;
    this.blocks = element.querySelector(".chat-blocks");
    this.state = element.querySelector(".chat-working");
    this.words = this.state?.textContent;
    this.seen = 0;
    this.shown = new Map();
    this.tries = 0;
    this.isOver = false;
    this.reading = null;
    this.onVisible = () => this.turn();
    this.onSwapped = () => this.swapped();
    document.addEventListener("visibilitychange", this.onVisible);
    toEnd();
    say("Answering");
    this.turn();
  }

  /** Reads while somebody looks. */
  turn() {
    if (this.isOver || !this.element.isConnected) return this.leave();
    if (document.hidden) {
      this.reading?.abort();
      this.reading = null;
    } else if (!this.reading) {
      this.read();
    }
  }

  leave() {
    this.reading?.abort();
    this.reading = null;
    document.removeEventListener("visibilitychange", this.onVisible);
  }

  async read() {
    const reading = new AbortController();
    this.reading = reading;
    let watch = 0;
    const heard = () => {
      clearTimeout(watch);
      watch = setTimeout(() => reading.abort(), SILENCE_MS);
    };
    heard();
    const address = `/api/agent/runs/${this.element.dataset.run}/events?html=1&after=${this.seen}`;
    try {
      const answer = await fetch(address, { signal: reading.signal, cache: "no-store" });
      if (answer.status === 404) return this.end();
      if (!answer.ok) throw new Error(`${answer.status}`);
      await this.take(answer.body.getReader(), heard);
    } catch {
      // A connection that was lost, or let go.
    }
    clearTimeout(watch);
    if (this.reading !== reading) return;
    this.reading = null;
    const wait = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.tries += 1;
    this.tell(wait < 1_000 ? LOST : `Connection lost. Trying again in ${wait / 1_000} s`);
    setTimeout(() => {
      this.tell(LOST);
      this.turn();
    }, wait);
  }

  async take(reader, heard) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      this.tell(this.words);
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split("\n");
      rest = lines.pop();
      if (!this.element.isConnected) return this.leave();
      const isNear = nearEnd();
      for (const line of lines) if (line) this.item(JSON.parse(line));
      this.tries = 0;
      if (isNear) toEnd();
    }
  }

  item(item) {
    if (item.seq) this.seen = Math.max(this.seen, item.seq);
    if (item.type === "block") this.block(item);
    else if (item.type === "reset") this.reset(item.step);
    else if (item.type === "status" && item.code === "fell_back") this.fellBack(item.message);
    else if (item.type === "confirm_required") this.asks();
    else if (item.type === "tool_call" || item.type === "tool_result") this.works("Answering");
    else if (item.type === "done") this.end(item.reason);
  }

  /** A block with a known number takes the place of the one before. */
  block({ step, index, html }) {
    const key = `${step}-${index}`;
    let block = this.shown.get(key);
    if (!block) {
      // What the page had already is taken over, in its order.
      block = this.blocks.children[this.shown.size] ?? this.blocks.appendChild(fresh());
      this.shown.set(key, block);
    }
    this.works("Answering");
    if (block.source === html) return;
    block.source = html;
    block.replaceChildren(swap.html(html));
    copying(block);
  }

  /** The site's key answers instead of the person's subscription. */
  fellBack(why) {
    const note = this.element.querySelector(".chat-instead");
    if (!note) return;
    note.hidden = false;
    note.title = why;
  }

  works(words) {
    this.words = words;
    this.tell(words);
  }

  tell(words) {
    if (this.state && this.state.textContent !== words) this.state.textContent = words;
  }

  /** The question itself comes with the page. */
  asks() {
    this.works("The assistant needs your approval");
    say("The assistant needs your approval");
    if (nearEnd()) document.addEventListener("wb:swapped", toEnd, { once: true });
  }

  reset(step) {
    for (const [key, block] of this.shown) {
      if (!key.startsWith(`${step}-`)) continue;
      block.remove();
      this.shown.delete(key);
    }
  }

  /** A part that was asked for before the end brings back what it was then: it is asked for again. */
  swapped() {
    if (!this.element.isConnected) {
      document.removeEventListener("wb:swapped", this.onSwapped);
    } else if (this.element.hasAttribute("data-keep")) {
      this.element.removeAttribute("data-keep");
      refreshAll();
    }
  }

  end(reason) {
    if (this.isOver) return;
    this.isOver = true;
    this.leave();
    // From here on the page is what the server says.
    this.element.removeAttribute("data-keep");
    document.addEventListener("wb:swapped", this.onSwapped);
    say(reason === "ok" ? "The answer is complete" : "The answer stopped");
    // What stands below it then, such as why it failed, is to be seen too.
    if (nearEnd()) document.addEventListener("wb:swapped", toEnd, { once: true });
    refreshAll();
  }
}

function fresh() {
  const block = document.createElement("div");
  block.className = "chat-block";
  return block;
}

function nearEnd() {
  const { scrollHeight } = document.documentElement;
  return scrollHeight - (scrollY + innerHeight) < NEAR_PX;
}

function toEnd() {
  scrollTo({ top: document.documentElement.scrollHeight });
}

// --- the form ---

let isListed = false;

/** Lists the keys of the form once, also if it is replaced. */
function listing() {
  if (isListed) return;
  isListed = true;
  const has = (selector) => () => document.querySelector(selector) !== null;
  note("Enter", "Send the message", has("#chat-form"));
  note("Shift+Enter", "New line", has("#chat-form"));
  note("/", "Actions, at the beginning of a message", has("#chat-slash"));
  note("↑", "Edit the last question, in an empty message", has(".chat-edit"));
  note("Esc", "Stop the answer", has(".chat-stop"));
}

function composer(form) {
  listing();
  attaching(form);
  const field = form.elements.message;
  drafting(form, field);
  const actions = slash(form, field);
  document.addEventListener("keydown", (event) => stopping(form, event));
  // Stop has taken the place of Send: the second press of a double click is for that.
  document.addEventListener("click", (event) => {
    if (event.detail > 1 && event.target.closest?.(".chat-stop")) event.preventDefault();
  });
  const isOfStop = stopped(form, field);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && isOfStop(event)) return event.preventDefault();
    if (actions.takes(event)) return;
    if (event.key === "ArrowUp" && !field.value) return editLast(event);
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    // On a phone Enter is a new line, and the button sends.
    if (matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    if (!field.value.trim() || form.querySelector("[type=submit]").hidden) return;
    form.requestSubmit();
  });
  copying(document);
  document.addEventListener("wb:swapped", (event) => copying(event.target));
  if (document.querySelector(".chat-thread")) toEnd();
}

/** What was typed stays with its conversation, also after a reload or in another one meanwhile. */
function drafting(form, field) {
  // A new conversation gets its name while the form stays.
  const name = () => `chat-${form.elements.session?.value ?? "new"}`;
  let known = name();
  const draft = kept(known);
  if (draft && !field.value) field.value = draft;
  // Somebody may have begun to type before this module was there.
  else if (field.value !== field.defaultValue) keep(known, field.value);
  field.addEventListener("input", () => keep(known, written(field)));
  // It is forgotten once it has arrived.
  form.addEventListener("reset", () => keep(known, ""));
  document.addEventListener("wb:swapped", () => {
    if (!form.isConnected || name() === known) return;
    keep(known, "");
    known = name();
    keep(known, written(field));
  });
}

/** Escape stops the answer, unless it closes something. */
function stopping(form, event) {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
  if (!form.isConnected || document.querySelector("details.menu[open], dialog[open]")) return;
  form.parentElement?.querySelector(".chat-stop")?.requestSubmit();
}

/**
 * Who has stopped an answer by Stop and a key goes on in the field, once Stop is gone. Returns
 * whether a key was struck before somebody could see that, and typed nothing since.
 */
function stopped(form, field) {
  let isByKey = false;
  let ledAt = -Infinity;
  field.addEventListener("input", () => { ledAt = -Infinity; });
  document.addEventListener("wb:sending", ({ target }) => {
    if (target.matches(".chat-stop")) isByKey = target.querySelector(":focus-visible") !== null;
  });
  document.addEventListener("wb:swapped", () => {
    if (!isByKey || document.querySelector(".chat-stop")) return;
    isByKey = false;
    // What had the focus is gone: it is on the page, or on what is around.
    if (!form.isConnected || document.activeElement.tabIndex >= 0) return;
    field.focus({ preventScroll: true });
    ledAt = performance.now();
  });
  return ({ timeStamp: at }) => at - ledAt < STOPPED_MS;
}

/** In an empty field, the arrow up edits the last question. */
function editLast(event) {
  const edits = document.querySelectorAll(".chat-edit");
  const edit = edits[edits.length - 1];
  if (!edit) return;
  event.preventDefault();
  edit.open = true;
  edit.querySelector("textarea").focus();
}

// --- the search ---

/** Searches while somebody types: the list belongs to the address, so the words go there. */
function searching(form) {
  const field = form.elements.q;
  let timer = 0;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const address = new URL(location.href);
      if (field.value.trim()) address.searchParams.set("q", field.value);
      else address.searchParams.delete("q");
      history.replaceState(history.state, "", address);
      refreshIn(form.closest("aside"));
    }, SEARCH_MS);
  });
}
