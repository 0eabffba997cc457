// From selected words to a Topic: the button beside a selection, and the form that it opens.

import { rangeOf } from "./paint.js";
import { plain } from "./plain.js";
import { button } from "./reader.js";
import { say } from "./say.js";

const SETTLE_MS = 160;

/** A refusal of the server, in its words. */
class Refused extends Error {
  constructor({ code = "", message = "The server did not answer.", hint = "" } = {}) {
    super(hint ? `${sentence(message)} ${sentence(hint)}` : sentence(message));
    this.code = code;
  }
}

function sentence(text) {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store", ...options });
  } catch {
    throw new Refused({ message: "the server cannot be reached", hint: "what you wrote is still here" });
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(body.error);
  return body;
}

/** Text has no focus of its own: it takes it until something else has it. */
function focusBlock(block) {
  block.tabIndex = -1;
  block.addEventListener("blur", () => block.removeAttribute("tabindex"), { once: true });
  block.focus({ preventScroll: true });
}

export class Compose {
  /** What a form is about: `{ from, to, passage }`, or nothing for the whole document. */
  about = null;
  /** The Topic that is put on other words. */
  moving = null;
  /** The blocks that are picked by keys: `[from, to]`. */
  picked = null;
  /** Whether the button stands beside a block without words: no selection keeps it there. */
  isOfBlock = false;
  key = "";

  constructor(reader) {
    this.reader = reader;
    this.pop();
    this.form();
    if (!reader.mayWrite) return;
    let timer = 0;
    document.addEventListener("selectionchange", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.offer(), SETTLE_MS);
    });
    addEventListener("keydown", (event) => this.pick(event));
    addEventListener("pointerdown", ({ target }) => {
      if (this.isOfBlock && !this.popBox.contains(target)) this.withdraw();
    });
  }

  get isOpen() { return !this.box.hidden; }

  // --- the button beside a selection ---

  pop() {
    const pop = document.createElement("div");
    pop.className = "reader-pop";
    pop.hidden = true;
    this.popButton = button("Comment on these words", () => this.begin(), { text: "Comment", draw: "note" });
    const key = document.createElement("kbd");
    key.textContent = "c";
    key.setAttribute("aria-hidden", "true");
    this.popButton.append(key);
    // A press must not take the selection away.
    pop.addEventListener("pointerdown", (event) => event.preventDefault());
    pop.append(this.popButton);
    this.popBox = pop;
    document.body.append(pop);
  }

  offer() {
    const selected = this.isOpen ? null : this.reader.selected();
    // The press on an image has ended a selection: that is told late.
    if (!selected && this.isOfBlock) return;
    this.isOfBlock = false;
    this.offered = selected;
    this.popBox.hidden = !selected;
    if (!selected) return;
    const words = this.moving ? "Put the Topic" : "Comment";
    this.popButton.firstChild.nextSibling.textContent = words;
    this.popButton.setAttribute("aria-label", `${words} on these words`);
    this.placePop(getSelection().getRangeAt(0).getBoundingClientRect());
  }

  /** A block without words, such as an image. */
  offerBlock(block, element) {
    if (!this.reader.mayWrite || this.isOpen) return;
    const at = `${Number.parseInt(block.dataset.b, 10)}:0`;
    this.offered = { from: at, to: at };
    this.isOfBlock = true;
    this.popBox.hidden = false;
    this.placePop(element.getBoundingClientRect());
  }

  withdraw() {
    this.isOfBlock = false;
    this.offered = null;
    this.popBox.hidden = true;
  }

  placePop(box) {
    // Below the words: the systems of phones put theirs above.
    const left = Math.min(Math.max(box.left + box.width / 2 - this.popBox.offsetWidth / 2, 8), innerWidth - this.popBox.offsetWidth - 8);
    const top = box.bottom + 8 + this.popBox.offsetHeight < innerHeight ? box.bottom + 8 : Math.max(box.top - this.popBox.offsetHeight - 8, 8);
    this.popBox.style.left = `${left + scrollX}px`;
    this.popBox.style.top = `${top + scrollY}px`;
  }

  // --- picking blocks by keys ---

  startPicking() {
    const blocks = [...this.reader.text.querySelectorAll("[data-b]")];
    if (this.reader.isLines) return this.open(null);
    const seen = blocks.findIndex((it) => it.getBoundingClientRect().bottom > 90);
    if (seen < 0) return this.open(null);
    this.blocks = blocks;
    this.before ??= document.activeElement;
    this.hint ??= this.makeHint();
    this.hint.hidden = false;
    this.wholeButton.hidden = Boolean(this.moving);
    this.reader.root.classList.add("is-picking");
    this.showPicked([seen, seen]);
    say("Choose a paragraph by the arrow keys or by pointing at it, more with Shift. Enter takes it, d the whole document.");
  }

  makeHint() {
    const hint = document.createElement("div");
    hint.className = "reader-hint";
    hint.setAttribute("role", "group");
    hint.setAttribute("aria-label", "Which paragraph is meant");
    const words = document.createElement("span");
    words.textContent = matchMedia("(hover: none)").matches
      ? "Tap the paragraph that is meant" : "↑ ↓ or a click chooses a paragraph, Shift ↓ more of them";
    this.wholeButton = button("The whole document", () => this.take(true), { text: "Whole document" });
    hint.append(words, button("This one", () => this.take(false), { text: "This one" }), this.wholeButton, button("Cancel", () => this.close(), { text: "Cancel" }));
    document.body.append(hint);
    return hint;
  }

  showPicked(picked) {
    this.picked = picked;
    const [first, last] = picked.toSorted((a, b) => a - b).map((at) => this.blocks[at]);
    const range = document.createRange();
    range.setStartBefore(first);
    range.setEndAfter(last);
    this.reader.paint.selection(() => range);
    this.blocks[picked[1]].scrollIntoView({ block: "nearest" });
    const box = this.blocks[picked[1]].getBoundingClientRect();
    if (box.bottom > innerHeight - 80) scrollBy({ top: 120, behavior: "instant" });
  }

  stopPicking() {
    this.picked = null;
    this.reader.root.classList.remove("is-picking");
    if (this.hint) this.hint.hidden = true;
    this.reader.paint.selection(null);
  }

  pick(event) {
    if (!this.picked || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.picked;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = Math.min(Math.max(to + step, 0), this.blocks.length - 1);
      this.showPicked(event.shiftKey ? [from, next] : [next, next]);
    } else if (event.key === "Enter" && !event.target.closest?.(".reader-hint")) {
      this.take(false);
    } else if (event.key === "d" && !this.moving) {
      this.take(true);
    } else {
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  /** A click or a tap chooses a block. */
  pickAt(block) {
    const at = this.blocks.indexOf(block);
    if (at >= 0) this.showPicked([at, at]);
  }

  /** Opens the form about what is picked, or about the whole document. */
  take(isWhole) {
    const [first, last] = this.picked.toSorted((a, b) => a - b).map((at) => this.blocks[at]);
    const start = (block) => Number.parseInt(block.dataset.b, 10);
    this.stopPicking();
    if (isWhole) return this.open(null);
    const isOne = first === last;
    this.open({ from: `${start(first)}:0`, to: `${start(last)}:${isOne ? 0 : last.textContent.length}` });
  }

  // --- the form ---

  form() {
    const form = document.createElement("form");
    form.className = "composer";
    form.hidden = true;
    form.setAttribute("aria-labelledby", "composer-title");
    const part = (name, classes = "", text = "") => {
      const made = document.createElement(name);
      if (classes) made.className = classes;
      made.textContent = text;
      form.append(made);
      return made;
    };
    this.title = part("h2", "", "Open a Topic");
    this.title.id = "composer-title";
    this.quote = part("blockquote");
    const field = (name, label, rows) => {
      const box = document.createElement("label");
      box.className = "field";
      const text = document.createElement("span");
      text.className = "field-name";
      text.textContent = label;
      const input = document.createElement(rows ? "textarea" : "input");
      input.name = name;
      if (rows) input.rows = rows;
      else input.type = "text";
      box.append(text, input);
      form.append(box);
      return input;
    };
    this.body = field("body", "What should change, or what is unclear?", 4);
    this.heading = field("title", "Title; else the first line", 0);
    this.trouble = part("p", "trouble-text");
    this.trouble.setAttribute("role", "alert");
    const actions = document.createElement("div");
    actions.className = "actions";
    this.send = document.createElement("button");
    this.send.className = "button button-main";
    this.send.textContent = "Open the Topic";
    actions.append(this.send, button("Cancel", () => this.close(), { text: "Cancel", classes: "button" }));
    form.append(actions);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.submit();
    });
    form.addEventListener("input", () => this.keep());
    this.box = form;
    document.body.append(form);
  }

  // --- what is typed and not sent ---

  get draftName() { return `wb-draft-document-${this.reader.root.dataset.path}`; }

  /** Keeps what is typed in this tab until it is sent, and which words it is about. */
  keep() {
    const [body, title] = [this.body.value, this.heading.value];
    if (!body && !title) return sessionStorage.removeItem(this.draftName);
    const about = this.about && { from: this.about.from, to: this.about.to };
    const draft = { body, title, about, blob: this.reader.blob, isOpen: this.isOpen && !this.moving };
    sessionStorage.setItem(this.draftName, JSON.stringify(draft));
  }

  /** Brings back what was typed on an earlier visit; the form too, if it was open. */
  restore() {
    const kept = this.reader.mayWrite && sessionStorage.getItem(this.draftName);
    if (!kept || this.isOpen) return;
    const draft = JSON.parse(kept);
    [this.body.value, this.heading.value] = [draft.body, draft.title];
    if (!draft.isOpen) return;
    // Places in another text are not those that were meant.
    const isSame = !draft.about || draft.blob === this.reader.blob;
    if (isSame) this.open(draft.about ?? null, { takesFocus: false });
    else say("Your comment is kept. Select the words again.");
  }

  /** `c`, and every button that says Comment. */
  begin() {
    if (this.picked) return;
    const about = this.offered ?? this.reader.selected();
    this.withdraw();
    this.reader.sheet(false);
    if (about) this.open(about);
    else if (this.isOpen) this.body.focus();
    else this.startPicking();
  }

  reattach(topic, title) {
    this.close();
    this.moving = { topic, title };
    this.reader.sheet(false);
    if (this.reader.selected()) return this.begin();
    say("Select the words, then choose “Put the Topic”.");
    this.hint ??= this.makeHint();
    this.startPicking();
  }

  async open(about, { takesFocus = true } = {}) {
    this.offered = null;
    this.about = about;
    this.before ??= document.activeElement;
    // The same again after a lost answer is no second Topic.
    this.key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    this.title.textContent = about ? "Open a Topic" : "Open a Topic about the whole document";
    if (this.moving) {
      const name = document.createElement("bdi");
      name.textContent = this.moving.title;
      this.title.replaceChildren("Put “", name, "” on these words");
    }
    this.send.textContent = this.moving ? "Put it here" : "Open the Topic";
    for (const input of [this.body, this.heading]) input.parentElement.hidden = Boolean(this.moving);
    this.trouble.textContent = "";
    this.quote.hidden = !about;
    this.quote.textContent = "";
    this.box.hidden = false;
    this.send.disabled = false;
    if (about) {
      const blocks = this.reader.blocks();
      const isWhole = about.from === about.to;
      const block = blocks.get(Number.parseInt(about.from, 10));
      const whole = () => {
        const range = document.createRange();
        range.selectNodeContents(block);
        return range;
      };
      const find = isWhole ? () => block && whole() : () => rangeOf(blocks, about.from, about.to);
      const range = find();
      // The text was loaded anew between the selection and the press.
      if (!range) return this.close();
      this.place(range.getBoundingClientRect());
      this.reader.paint.selection(find);
    } else {
      this.place(null);
    }
    if (takesFocus) {
      (this.moving ? this.send : this.body).focus({ preventScroll: true });
      getSelection().removeAllRanges();
    }
    this.keep();
    if (about) await this.resolve(about).catch((cause) => this.refused(cause));
  }

  /** The bytes of the words, as the server knows them. */
  async resolve(about) {
    const { path } = this.reader.root.dataset;
    const query = new URLSearchParams({ path, blob: this.reader.blob, from: about.from, to: about.to });
    if (this.reader.isLines) query.set("text", "1");
    about.passage ??= await ask(`/api/source/passage?${query}`);
    if (this.about === about) this.quote.textContent = plain(about.passage.quote);
    return about.passage;
  }

  place(box) {
    const style = this.box.style;
    for (const name of ["position", "left", "top", "width"]) style[name] = "";
    if (!matchMedia("(min-width: 1001px)").matches) return;
    const aside = this.reader.aside.getBoundingClientRect();
    const width = Math.max(aside.width, 320);
    style.position = "absolute";
    style.width = `${width}px`;
    style.left = `${Math.min(aside.left, document.documentElement.clientWidth - width - 16) + scrollX}px`;
    style.top = `${(box ? Math.min(Math.max(box.top, 16), Math.max(innerHeight - this.box.offsetHeight - 16, 16)) : 80) + scrollY}px`;
  }

  async submit() {
    if (this.send.disabled) return;
    if (!this.moving && !this.body.value.trim()) {
      this.trouble.textContent = "Write what it is about first.";
      return this.body.focus();
    }
    this.send.disabled = true;
    this.trouble.textContent = "";
    try {
      const selection = this.about && this.words(await this.resolve(this.about));
      const made = this.moving ? await this.move(selection) : await this.make(selection);
      const done = this.moving ? "The Topic has a new place." : "The Topic is open.";
      if (!this.moving) this.body.value = this.heading.value = "";
      this.close();
      await this.reader.reload();
      this.reader.activate(made.id, { scroll: false });
      say(done);
    } catch (cause) {
      this.refused(cause);
    }
    this.send.disabled = false;
  }

  words({ blob, start, end }) {
    return { blob, start, end };
  }

  make(selection) {
    const about = selection ? { selection } : { global: true };
    const title = this.heading.value.trim();
    return this.post("/api/topics", {
      source_path: this.reader.root.dataset.path, body: this.body.value, ...about, ...(title ? { title } : {}),
    });
  }

  move(selection) {
    return this.post(`/api/topics/${this.moving.topic}/anchor`, { selection });
  }

  post(address, body) {
    return ask(address, {
      method: "POST", body: JSON.stringify(body),
      headers: { "content-type": "application/json", "idempotency-key": this.key },
    });
  }

  refused(cause) {
    if (!(cause instanceof Refused)) throw cause;
    if (cause.code === "source_changed") return this.outdated();
    // What was refused changed nothing: another try is another request.
    if (cause.code) this.key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    this.trouble.textContent = plain(cause.message);
  }

  /** The document has changed under the form: what was typed stays. */
  outdated() {
    this.trouble.textContent = "The document has changed meanwhile. ";
    this.trouble.append(button("Show its new text, and select the words again", async () => {
      const kept = [this.body.value, this.heading.value, this.moving];
      this.close();
      [this.body.value, this.heading.value, this.moving] = kept;
      await this.reader.reload();
      say("Select the words again. What you wrote is kept.");
    }, { text: "Show its new text, and select the words again", classes: "link" }), " What you wrote is kept.");
  }

  close() {
    const words = this.isOpen && this.about ? this.reader.blocks().get(Number.parseInt(this.about.from, 10)) : null;
    this.box.hidden = true;
    this.withdraw();
    this.about = this.moving = null;
    this.keep();
    this.stopPicking();
    if (this.before?.isConnected && this.before !== document.body) this.before.focus({ preventScroll: true });
    else if (words) focusBlock(words);
    this.before = null;
  }

  /** Returns whether something was open. */
  escape() {
    const was = this.isOpen || this.picked || this.moving || this.isOfBlock;
    if (was) this.close();
    return Boolean(was);
  }
}
