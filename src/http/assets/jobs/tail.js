// The growing output of an agent: a window of some thousand rows over a log of any length.
//
// The server turns it into rows, with colors as classes and without other sequences; here they become
// elements with text, never HTML. A few hundred are inserted per frame, and rows far above or below
// are dropped and fetched again when needed.

import { grouped } from "./span.js";

const ROWS_MAX = 4_000;
const ROWS_A_FRAME = 250;
const BACK_BYTES = 48 * 1_024;
/** Further behind than this, a follower jumps to the end. */
const BEHIND_BYTES = 256 * 1_024;
const QUICK_MS = 500;
const SLOW_MS = 2_000;
const NEAR_PX = 32;

export class Tail {
  constructor(box) {
    this.box = box;
    this.scroller = box.querySelector(".tail");
    this.status = box.querySelector(".log-status");
    this.open = box.querySelector(".tail-open");
    this.address = `/api/agent/jobs/${box.dataset.log}/log`;
    this.isRunning = box.hasAttribute("data-running");
    this.isFollowing = true;
    this.isBusy = false;
    /** Whether all that was printed has been read. */
    this.isAtEnd = !this.isRunning;
    this.wait = QUICK_MS;
    this.turn = 0;
    this.total = Number(box.dataset.total);
    this.stream = box.dataset.stream;
    const first = box.querySelector(".tail-part");
    this.parts = [{
      element: first, from: Number(box.dataset.offset), to: Number(box.dataset.next),
      style: box.dataset.style, rows: first.childElementCount,
    }];
  }

  start() {
    const tools = this.box.querySelector(".log-tools");
    const file = tools.querySelector(".log-file");
    this.toStart = this.#button(tools, file, "Go to start", () => this.#jump(0));
    this.toEnd = this.#button(tools, file, "Go to end", () => this.#follow());
    tools.querySelector(".log-streams").addEventListener("click", (event) => {
      const link = event.target.closest("a[data-which]");
      if (!link) return;
      event.preventDefault();
      this.#choose(link.dataset.which);
    });
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    document.addEventListener("visibilitychange", () => this.#schedule(0));
    this.#toBottom();
    this.#schedule(this.isRunning ? QUICK_MS : 0);
    this.#say();
  }

  #button(tools, before, label, press) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button button-small";
    button.textContent = label;
    button.addEventListener("click", press);
    tools.insertBefore(button, before);
    return button;
  }

  // --- where to read ---

  get #from() { return this.parts[0].from; }
  get #last() { return this.parts.at(-1); }

  #choose(stream) {
    this.stream = stream;
    for (const link of this.box.querySelectorAll("a[data-which]")) {
      if (link.dataset.which === stream) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    this.box.querySelector(".log-file").href = `/jobs/${this.box.dataset.log}/log?stream=${stream}`;
    this.#follow();
  }

  #follow() {
    this.isFollowing = true;
    this.#jump(Number.MAX_SAFE_INTEGER);
  }

  /** Begins anew at a byte, or before the end. */
  async #jump(offset) {
    this.turn += 1;
    const turn = this.turn;
    this.isBusy = true;
    this.isFollowing = offset > 0;
    try {
      if (offset > 0) {
        const end = await this.#ask({ offset });
        offset = Math.max(0, end.total - BACK_BYTES);
      }
      const found = await this.#ask({ offset, align: offset > 0 });
      if (turn !== this.turn) return;
      for (const part of this.parts) part.element.remove();
      this.parts = [];
      await this.#append(found, turn);
      if (this.isFollowing) this.#toBottom();
      else this.scroller.scrollTop = 0;
    } catch {
      this.#lost();
    } finally {
      if (turn === this.turn) this.isBusy = false;
    }
    this.#say();
    this.#schedule(0);
  }

  // --- reading ---

  async #ask(query) {
    const given = Object.entries({ stream: this.stream, rows: true, ...query });
    const answer = await fetch(`${this.address}?${new URLSearchParams(given)}`, { cache: "no-store" });
    if (answer.status === 404) {
      this.isRunning = false;
      this.isGone = true;
    }
    if (!answer.ok) throw new Error(`the log answers ${answer.status}`);
    const found = await answer.json();
    this.isRunning = found.running;
    [this.total, this.cut] = [found.total, found.cut];
    return found;
  }

  #schedule(ms) {
    clearTimeout(this.timer);
    if (document.hidden || this.isGone || !this.box.isConnected) return;
    this.timer = setTimeout(() => this.#next(), ms);
  }

  /** Reads what follows, if somebody wants to see it, and comes back for more. */
  async #next() {
    if (this.isBusy) return;
    const wasRunning = this.isRunning;
    const turn = this.turn;
    let isWell = false;
    this.isBusy = true;
    try {
      if (this.isFollowing || this.#below() < 2 * this.scroller.clientHeight) {
        const found = await this.#ask({ offset: this.#last.to, style: this.#last.style });
        if (turn !== this.turn) return;
        if (this.isFollowing && found.total - found.next_offset > BEHIND_BYTES) {
          this.isBusy = false;
          this.#follow();
          return;
        }
        this.wait = found.rows.length ? QUICK_MS : Math.min(this.wait * 1.5, SLOW_MS);
        await this.#append(found, turn);
      } else if (wasRunning) {
        await this.#ask({ offset: Number.MAX_SAFE_INTEGER });
        this.wait = SLOW_MS;
      }
      isWell = true;
    } catch {
      this.wait = SLOW_MS;
    }
    if (turn !== this.turn) return;
    this.isBusy = false;
    if (!isWell) this.#lost();
    else this.#say();
    // Once more after its end: what came last may not have been there yet.
    if (this.isRunning || wasRunning) this.#schedule(this.wait);
    if (isWell) this.#look();
  }

  #below() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
  }

  /** Reads on where somebody will be soon. What was asked for while it was busy is not forgotten. */
  #look() {
    if (this.isBusy || this.isGone) return;
    const near = 2 * this.scroller.clientHeight;
    if (this.scroller.scrollTop < near && this.#from > 0) this.#before();
    else if (this.#below() < near && !this.isAtEnd) this.#schedule(0);
  }

  /** Reads what is before. */
  async #before() {
    if (this.#from === 0 || this.isBusy) return;
    const isAfterCut = this.cut && this.#from <= this.cut.to && this.#from > this.cut.from;
    const to = isAfterCut ? this.cut.from : this.#from;
    const turn = this.turn;
    this.isBusy = true;
    try {
      const found = await this.#ask({ offset: Math.max(0, to - BACK_BYTES), align: true, until: to });
      if (turn !== this.turn) return;
      const part = this.#part(found);
      part.element.append(...found.rows.map(rowOf));
      if (isAfterCut) part.element.append(gap(this.cut.from, this.cut.to));
      const height = this.scroller.scrollHeight;
      this.scroller.prepend(part.element);
      this.scroller.scrollTop += this.scroller.scrollHeight - height;
      this.parts.unshift(part);
      while (this.#rows() > ROWS_MAX && this.parts.length > 1) {
        this.parts.pop().element.remove();
        [this.isFollowing, this.isAtEnd] = [false, false];
        this.open.replaceChildren();
      }
      this.isBusy = false;
      this.#say();
      this.#look();
    } catch {
      if (turn !== this.turn) return;
      this.isBusy = false;
      this.#lost();
    }
  }

  // --- showing ---

  #part(found) {
    const element = document.createElement("div");
    element.className = "tail-part";
    return {
      element, from: found.offset, to: found.next_offset, style: found.style, rows: found.rows.length,
    };
  }

  async #append(found, turn) {
    const part = this.#part(found);
    const before = this.parts.at(-1);
    if (before && found.offset > before.to) {
      part.element.append(gap(before.to, found.offset));
    }
    if (found.rows.length || !before) {
      this.parts.push(part);
      this.scroller.insertBefore(part.element, this.open);
    } else if (before) {
      [before.to, before.style] = [found.next_offset, found.style];
    }
    this.open.replaceChildren(...found.open.map(rowOf));
    // A line that is still being printed is all that may be left.
    this.isAtEnd = found.next_offset >= found.total || found.open.length > 0;
    for (let at = 0; at < found.rows.length; at += ROWS_A_FRAME) {
      // The first of them at once: whoever jumps sees the old rows until there are new ones.
      if (at > 0) await new Promise(requestAnimationFrame);
      if (turn !== this.turn) return;
      part.element.append(...found.rows.slice(at, at + ROWS_A_FRAME).map(rowOf));
      this.#trim();
      if (this.isFollowing) this.#toBottom();
    }
    if (this.isFollowing) this.#toBottom();
  }

  #rows() {
    return this.parts.reduce((sum, it) => sum + it.rows, 0);
  }

  #trim() {
    while (this.#rows() > ROWS_MAX && this.parts.length > 1) {
      const height = this.scroller.scrollHeight;
      const top = this.scroller.scrollTop;
      this.parts.shift().element.remove();
      this.scroller.scrollTop = top - (height - this.scroller.scrollHeight);
    }
  }

  #toBottom() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  #scrolled() {
    const isAtEnd = this.#below() < NEAR_PX && this.#last.to >= this.total - BEHIND_BYTES;
    if (isAtEnd !== this.isFollowing && !this.isBusy) {
      this.isFollowing = isAtEnd;
      this.#say();
    }
    this.#look();
  }

  #say() {
    const size = `${grouped(this.total)} bytes`;
    const rest = Math.max(0, this.total - this.#last.to);
    let text = size;
    if (this.isGone) text = "No longer kept";
    else if (this.isRunning && this.isFollowing) text = this.total ? `${size}, following` : "No output yet";
    else if (this.isRunning) text = `Paused; ${grouped(rest)} more bytes`;
    else if (!this.total) text = "No output";
    else if (this.#from > 0 || rest > 0) text = `Part of ${size}`;
    if (this.status.textContent !== text) this.status.textContent = text;
    this.toEnd.disabled = this.isFollowing && this.isRunning;
  }

  #lost() {
    if (!this.isGone) this.status.textContent = "Can’t reach the server; reconnecting";
    else this.#say();
  }
}

/** Returns a row as an element: a leading `true` if it continues the previous line, then its pieces. */
function rowOf(pieces) {
  const row = document.createElement("div");
  for (const piece of pieces) {
    if (piece === true) row.className = "goes-on";
    else if (typeof piece === "string") row.append(piece);
    else if (Array.isArray(piece)) row.append(element("span", piece[0], piece[1]));
    else {
      const odd = element("bdi", "odd", piece.text);
      odd.dataset.code = piece.code;
      odd.title = piece.name;
      row.append(odd);
    }
  }
  return row;
}

function gap(from, to) {
  return rowOf([["t-dim", `[bytes ${grouped(from)} to ${grouped(to)} were not kept]`]]);
}

function element(name, classes, text) {
  const made = document.createElement(name);
  made.className = classes;
  made.textContent = text;
  return made;
}
