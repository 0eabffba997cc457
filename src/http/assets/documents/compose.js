// From a selection to a Topic: the button next to the selection, and the form that it opens.

import { Refused, ask, sentence } from "./ask.js";
import { carry, keep, kept, madeAt, since } from "./draft.js";
import { seen } from "./live.js";
import { findAgain, likeness, rangeOf } from "./paint.js";
import { Pick } from "./pick.js";
import { plain } from "./plain.js";
import { button } from "./reader.js";
import { say } from "./say.js";
import { show } from "./suggest.js";
import { Typed } from "./typed.js";

const SETTLE_MS = 160;
/** So often a form is sent while the document changes under it. */
const SENDS_MAX = 3;
/** A passage that is longer is not looked for on the next visit. */
const SEEN_UNITS_MAX = 20_000;

/** Text cannot have the focus: it gets it temporarily, until something else does. */
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
  /** Whether other words are suggested, and not a comment is written. */
  isChange = false;
  /** Whether the button stands beside a block without words: no selection keeps it there. */
  isOfBlock = false;
  key = "";
  /** How often the form was opened: what is being sent belongs to one of those times. */
  opened = 0;
  /** The key of what was sent without an answer by now. */
  sentKey = "";
  /** Whether the form says that the document is gone. */
  isOfGone = false;
  /** What the passage of the form is found by in another version: see `likeness`. */
  seen = null;

  constructor(reader) {
    this.reader = reader;
    this.pick = new Pick(this);
    this.pop();
    this.form();
    if (!reader.mayWrite) return;
    document.addEventListener("wb:there", () => this.there());
    // The forms below the text.
    reader.root.addEventListener("wb:refused", ({ target, detail }) => {
      if (detail?.code === "source_gone") this.leadOn(target.querySelector(".form-refusal"));
    });
    let timer = 0;
    document.addEventListener("selectionchange", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.offer(), SETTLE_MS);
    });
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
    this.popButton = button("Comment on this passage", () => this.begin(), { text: "Comment", draw: "note" });
    const key = document.createElement("kbd");
    key.textContent = "c";
    key.setAttribute("aria-hidden", "true");
    this.popButton.append(key);
    this.popChange = button("Suggest a change", () => this.begin(true), { text: "Suggest a change", draw: "pen" });
    const other = document.createElement("kbd");
    other.textContent = "s";
    other.setAttribute("aria-hidden", "true");
    this.popChange.append(other);
    // A press must not take the selection away.
    pop.addEventListener("pointerdown", (event) => event.preventDefault());
    pop.append(this.popButton, this.popChange);
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
    const words = this.moving ? "Move the Topic" : "Comment";
    this.popButton.firstChild.nextSibling.textContent = words;
    this.popButton.setAttribute("aria-label", this.moving ? "Move the Topic to this passage" : "Comment on this passage");
    this.popChange.hidden = Boolean(this.moving);
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
    // Two bars stand at the end of a narrow window.
    const end = innerHeight - (this.reader.isNarrow ? 116 : 0);
    const left = Math.min(Math.max(box.left + box.width / 2 - this.popBox.offsetWidth / 2, 8), innerWidth - this.popBox.offsetWidth - 8);
    const top = box.bottom + 8 + this.popBox.offsetHeight < end ? box.bottom + 8 : Math.max(box.top - this.popBox.offsetHeight - 8, 8);
    this.popBox.style.left = `${left + scrollX}px`;
    this.popBox.style.top = `${top + scrollY}px`;
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
      input.dir = "auto";
      if (rows) input.rows = rows;
      else input.type = "text";
      box.append(text, input);
      form.append(box);
      return input;
    };
    this.words = field("suggestion", "New text", 3);
    this.words.classList.add("sg-words");
    this.typed = new Typed(this.words);
    this.body = field("body", "What should change, or what is unclear?", 4);
    this.heading = field("title", "Title (optional; otherwise the first line)", 0);
    this.trouble = part("p", "trouble-text");
    this.trouble.setAttribute("role", "alert");
    this.diff = show(this.words, () => this.typed.asWritten);
    this.words.closest(".field").after(this.diff.box);
    const actions = document.createElement("div");
    actions.className = "actions";
    this.send = document.createElement("button");
    this.send.className = "button button-main";
    this.send.textContent = "Open Topic";
    this.turn = button("Suggest a change", () => this.turnOver(), { text: "Suggest a change", classes: "link composer-turn" });
    actions.append(this.send, button("Cancel", () => this.close(), { text: "Cancel", classes: "button" }), this.turn);
    form.append(actions);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.submit();
    });
    form.addEventListener("input", () => {
      this.keep();
      this.rise();
    });
    this.box = form;
    document.body.append(form);
  }

  /** `c` and `s`, and every button that says Comment or Suggest a change. */
  begin(isChange = false) {
    if (this.pick.isOn) return;
    const about = this.offered ?? this.reader.selected();
    this.withdraw();
    this.reader.sheet(false);
    if (!this.isOpen) this.isChange = isChange && !this.moving;
    if (about) this.open(about);
    else if (this.isOpen) this.field.focus();
    else this.startPicking();
  }

  /** The field that is written in first. */
  get field() { return this.isChange ? this.words : this.body; }

  /** From a comment to a suggestion on the same words, or back; what was typed stays. */
  turnOver() {
    this.isChange = !this.isChange;
    this.dress();
    this.field.focus();
    this.keep();
  }

  /** Shows the fields of a comment, a suggestion or a move. */
  dress() {
    const { about, moving, isChange } = this;
    this.title.textContent = isChange ? "Suggest a change" : about ? "Open a Topic" : "Open a Topic about the whole document";
    if (moving) {
      const name = document.createElement("bdi");
      name.textContent = moving.title;
      this.title.replaceChildren("Move “", name, "” to this passage");
    }
    this.send.textContent = moving ? "Move it here" : isChange ? "Suggest this change" : "Open Topic";
    const label = this.body.parentElement.firstChild;
    label.textContent = isChange ? "Why (optional)" : "What should change, or what is unclear?";
    this.body.rows = isChange ? 2 : 4;
    this.body.parentElement.hidden = Boolean(moving);
    this.heading.parentElement.hidden = Boolean(moving) || isChange;
    this.words.parentElement.hidden = !isChange;
    this.diff.box.hidden = !isChange || !this.diff.box.hasChildNodes();
    this.quote.hidden = !about || isChange;
    this.turn.hidden = Boolean(moving) || !about;
    this.turn.textContent = isChange ? "Comment instead" : "Suggest a change";
    this.turn.setAttribute("aria-label", this.turn.textContent);
  }

  get draftName() { return `document-${this.reader.root.dataset.path}`; }

  /** Keeps what is typed in this tab until it is sent, and which words it is about. */
  keep() {
    const { isChange, typed } = this;
    const seen = this.seen?.blocks.join("").length <= SEEN_UNITS_MAX ? this.seen : null;
    const [body, title] = [this.body.value, this.heading.value];
    const isTyped = body || title || typed.isThere;
    const about = this.about && { from: this.about.from, to: this.about.to };
    keep(this.draftName, isTyped && JSON.stringify({
      body, title, ...typed.kept(), isChange, about, seen, blob: this.reader.blob, made: madeAt(),
      isOpen: this.isOpen && !this.moving, key: this.sentKey === this.key ? this.key : "",
    }));
  }

  /** Brings back what was typed on an earlier visit; the form too, if it was open. */
  restore() {
    const text = this.reader.mayWrite && kept(this.draftName);
    if (!text || this.isOpen) return;
    const draft = JSON.parse(text);
    [this.body.value, this.heading.value] = [draft.body, draft.title];
    this.typed.restore(draft);
    if (!draft.isOpen) return;
    this.isChange = draft.isChange;
    // Places in another text are not those that were meant: the passage is looked for in it.
    const isSame = !draft.about || draft.blob === this.reader.blob;
    const about = isSame ? draft.about : draft.seen && findAgain(this.reader.text, draft.seen);
    if (!isSame && !about) {
      this.typed.isCarried = this.isChange;
      this.keep();
      this.reader.hint("What you wrote is kept. Select the passage again.");
      return;
    }
    this.open(about ?? null, { isAgain: true, takesFocus: false });
    if (!draft.key) return;
    this.key = this.sentKey = draft.key;
    this.keep();
  }

  reattach(topic, title) {
    this.close();
    this.moving = { topic, title };
    this.isChange = false;
    this.reader.sheet(false);
    if (this.reader.selected()) return this.begin();
    say("Select the passage, then choose “Move the Topic”.");
    this.startPicking();
  }

  startPicking() {
    if (this.pick.start()) this.before ??= document.activeElement;
    else this.open(null);
  }

  async open(about, { isAgain = false, takesFocus = true } = {}) {
    this.opened += 1;
    this.offered = null;
    this.about = about;
    if (!about) this.isChange = false;
    this.typed.over(about && this.placeOf(about), isAgain);
    this.seen = about && likeness(this.reader.text, about.from, about.to);
    this.before ??= document.activeElement;
    // The same again after a lost answer is no second Topic.
    this.freshKey();
    this.dress();
    this.isOfGone = false;
    this.trouble.textContent = "";
    this.quote.textContent = "";
    this.box.hidden = false;
    this.send.disabled = false;
    if (about) {
      const range = this.paintPassage();
      // The text was loaded anew between the selection and the press.
      if (!range) return this.close();
      this.place(range.getBoundingClientRect());
    } else {
      this.place(null);
    }
    if (takesFocus) {
      (this.moving ? this.send : this.field).focus({ preventScroll: true });
      getSelection().removeAllRanges();
    }
    this.keep();
    if (about) await this.resolve(about).catch((cause) => this.refused(cause));
  }

  freshKey() {
    this.key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  }

  /** The name of a passage in one version of the document. */
  placeOf({ from, to }) {
    return `${this.reader.blob} ${from} ${to}`;
  }

  /** Marks the words that the form is about, and returns where they are. */
  paintPassage() {
    const { from, to } = this.about;
    const find = () => {
      const blocks = this.reader.blocks();
      if (from !== to) return rangeOf(blocks, from, to);
      const block = blocks.get(Number.parseInt(from, 10));
      const range = block && document.createRange();
      range?.selectNodeContents(block);
      return range;
    };
    const range = find();
    if (range) this.reader.paint.selection(find);
    return range;
  }

  /** The bytes of the words, as the server knows them. */
  async resolve(about) {
    const { path } = this.reader.root.dataset;
    const query = new URLSearchParams({ path, blob: this.reader.blob, from: about.from, to: about.to });
    if (this.reader.isLines) query.set("text", "1");
    about.passage ??= await ask(`/api/source/passage?${query}`, { headers: seen() });
    if (this.about !== about) return about.passage;
    this.quote.textContent = plain(about.passage.quote);
    // What is replaced is no longer what was typed over: the difference is shown before it is sent.
    const isOther = this.typed.stands(about.passage.editable.quote.replaceAll("\r\n", "\n"));
    if (isOther && this.isChange) about.isOther = true;
    if (about.isOther) this.trouble.textContent = "The passage has changed. Check your change below before you send it.";
    this.diff.draw();
    this.dress();
    this.rise();
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

  /** What has grown beyond the end of the window moves up. */
  rise() {
    if (this.box.style.position !== "absolute") return;
    const box = this.box.getBoundingClientRect();
    const over = Math.min(box.bottom + 16 - innerHeight, box.top - 16);
    if (over > 0) this.box.style.top = `${Number.parseFloat(this.box.style.top) - over}px`;
  }

  async submit() {
    if (this.send.disabled) return;
    const isEmpty = this.isChange ? !this.typed.isChanged : !this.body.value.trim();
    if (!this.moving && isEmpty) {
      this.trouble.textContent = this.isChange ? "Change the text first." : "Write a message first.";
      return this.field.focus();
    }
    // A button that is disabled loses the focus.
    const isHeld = document.activeElement === this.send;
    this.send.disabled = true;
    this.isOfGone = false;
    this.trouble.textContent = "";
    // Nothing is sent that is typed while the passage is asked for.
    await this.trySending(SENDS_MAX, [this.body.value, this.heading.value, this.words.value]);
    this.send.disabled = false;
    if (isHeld && document.activeElement === document.body) this.send.focus({ preventScroll: true });
  }

  async trySending(left, sent) {
    const { about, moving, isChange, opened } = this;
    const isMine = () => this.isOpen && this.opened === opened && this.isChange === isChange;
    const wasOther = about?.isOther;
    let isOut = false;
    try {
      const passage = about && await this.resolve(about);
      // It was closed, or is about something else by now.
      if (!isMine()) return;
      // Nobody has seen yet what this would replace.
      if (about?.isOther && !wasOther) return;
      this.trouble.textContent = "";
      const selection = passage && this.bytes(passage);
      if (!isChange) sent[2] = this.words.value;
      const at = this.typed.at;
      isOut = true;
      const made = moving ? await this.move(selection) : await this.make(selection, sent);
      const why = made.not_started ? ` No job started: ${sentence(made.not_started.message)}` : "";
      const done = moving ? "Topic moved." : isChange ? `Suggestion sent.${why}` : "Topic opened.";
      const isMore = !moving && this.empty(sent, at);
      // Somebody has begun to write about something else: that stays open.
      const isOther = this.isOpen && this.opened !== opened;
      if (isOther) this.keep();
      else if (isMore && this.isOpen) this.goOnWriting(done);
      else this.close();
      await this.reader.reload();
      if (isMore && this.about) await this.resolve(this.about);
      if (!this.isOpen) this.reader.activate(made.id, { scroll: false });
      if (!this.isOpen && isChange) this.reader.thread.open(made.id);
      say(done);
    } catch (cause) {
      // Nothing was sent of what is no longer meant.
      if (cause instanceof Refused && !isOut && !isMine()) return;
      await this.refused(cause);
      // The passage is the same in the new text.
      const isFound = isMine() && this.about && this.about !== about && !this.about.isOther;
      if (cause.code === "source_changed" && isFound && left > 1) await this.trySending(left - 1, sent);
    }
  }

  /** Takes out what was sent; returns whether something was typed since. */
  empty([body, title, words], at) {
    this.typed.others.delete(at);
    this.body.value = since(this.body.value, body);
    this.heading.value = since(this.heading.value, title);
    const isRetyped = this.words.value !== words;
    if (!isRetyped) this.typed.empty();
    return Boolean(this.body.value || this.heading.value || isRetyped);
  }

  /** Stays open with what was typed while the form was being sent: that is another Topic. */
  goOnWriting(done) {
    this.freshKey();
    this.keep();
    this.trouble.textContent = `${done} What you typed since isn’t sent yet.`;
  }

  /** The bytes that the Topic is about: those that are typed over. */
  bytes({ blob, start, end, editable }) {
    return this.isChange ? { blob, start: editable.start, end: editable.end } : { blob, start, end };
  }

  make(selection, [body, heading, words]) {
    if (this.isChange) {
      return this.post("/api/topics", {
        source_path: this.reader.root.dataset.path, body, selection,
        suggestion: words, propose: true,
      });
    }
    const about = selection ? { selection } : { global: true };
    const title = heading.trim();
    return this.post("/api/topics", {
      source_path: this.reader.root.dataset.path, body, ...about, ...(title ? { title } : {}),
    });
  }

  move(selection) {
    return this.post(`/api/topics/${this.moving.topic}/anchor`, { selection });
  }

  post(address, body) {
    // It may arrive although this page is left: sent again it is the same request.
    this.sentKey = this.key;
    if (!this.moving) this.keep();
    return ask(address, {
      method: "POST", body: JSON.stringify(body),
      headers: { "content-type": "application/json", "idempotency-key": this.key, ...seen() },
    }).catch((cause) => {
      // What was refused changed nothing: another try is another request.
      if (cause.code) this.freshKey();
      throw cause;
    });
  }

  async refused(cause) {
    if (!(cause instanceof Refused)) throw cause;
    if (cause.code === "idempotency_conflict") {
      // Its answer was lost, and something was typed since.
      this.trouble.textContent = "What you sent before has arrived. To open another Topic with this text, send it again.";
      return this.reader.reload();
    }
    if (cause.code === "source_gone") return this.gone(cause);
    if (cause.code !== "source_changed") {
      this.trouble.textContent = plain(cause.message);
      return;
    }
    const { about } = this;
    await this.reader.reload();
    // The new text didn't come, or is not the one that the server has by now.
    if (this.isOpen && this.about === about) this.outdated();
  }

  /** The document has another name, or none: says so, with the way on that takes along what is typed. */
  async gone(cause) {
    this.isOfGone = true;
    this.trouble.textContent = plain(cause.message);
    this.keep();
    await this.leadOn(this.trouble, () => this.isOfGone);
  }

  /** Adds the link of the page to the new name to what a form says, if it still does. */
  async leadOn(place, isSaid = () => place.isConnected) {
    await this.reader.reload();
    const way = document.querySelector("#gone:not([hidden]) a[data-to]");
    if (!way || !isSaid()) return;
    const link = way.cloneNode(true);
    const { from, to } = link.dataset;
    link.addEventListener("click", () => carry(from, to));
    place.append(" ", link);
  }

  /** The document is there again, or was never gone. */
  there() {
    document.querySelectorAll(".form-refusal[data-code=source_gone]").forEach((it) => it.remove());
    if (this.isOfGone) this.trouble.textContent = "";
    this.isOfGone = false;
  }

  /**
   * Returns where the passage of the form is in another version of the text: nothing if it is
   * changed there, which the form then says.
   */
  placeIn(text) {
    const found = this.seen && findAgain(text, this.seen);
    if (!found) this.outdated();
    return found;
  }

  /** Goes on with the same passage in the new text. */
  async goOn(about) {
    this.about = about;
    this.typed.at = this.placeOf(about);
    this.seen = likeness(this.reader.text, about.from, about.to);
    this.trouble.textContent = "";
    this.paintPassage();
    this.keep();
    await this.resolve(about);
  }

  /** The passage has changed under the form: what was typed stays. */
  outdated() {
    this.trouble.textContent = "This passage has changed in the document. ";
    this.trouble.append(button("Show the new text and select the passage again", async () => {
      const { moving, isChange } = this;
      this.typed.isCarried = isChange;
      this.close();
      this.moving = moving;
      await this.reader.reload();
      say("Select the passage again. What you wrote is kept.");
    }, { text: "Show the new text and select the passage again", classes: "link" }), ". What you wrote is kept.");
  }

  close() {
    const words = this.isOpen && this.about ? this.reader.blocks().get(Number.parseInt(this.about.from, 10)) : null;
    this.box.hidden = true;
    this.withdraw();
    this.about = this.moving = null;
    this.keep();
    this.pick.stop();
    if (this.before?.isConnected && this.before !== document.body) this.before.focus({ preventScroll: true });
    else if (words) focusBlock(words);
    this.before = null;
  }

  /** Returns whether something was open. */
  escape() {
    const was = this.isOpen || this.pick.isOn || this.moving || this.isOfBlock;
    if (was) this.close();
    return Boolean(was);
  }
}
