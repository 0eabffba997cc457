// The review of a proposal: moving from change to change, the view, and the decision in a dialog.
//
// A later revision replaces the shown one as a whole, text and decision in one step: the digest that
// is sent is always that of the text on the page. The new one cannot be decided before the reader has
// seen it, because a button that was about to be pressed was meant for the earlier text.

import { fateOf, isLost } from "./again.js";
import { focusedIn, toField, typedFields, unsent, writeOn, written } from "./draft.js";
import { UNREACHABLE, arrived, ifRefused, isSending, refusalOf, refuse } from "./forms.js";
import { bind } from "./keys.js";
import { placed, refreshAll } from "./live.js";
import { Warning, isTyping } from "./press.js";
import { say } from "./say.js";
import { wrapped } from "./steps.js";
import * as swap from "./swap.js";

/** Longest chain of revisions that is followed. */
const HOPS_MAX = 5;
const PREVIEW_MS = 500;
/** A reader who requested changes here gets them at once if they arrive within this time. */
const AWAITED_MS = 10_000;
/** Below this height in pixels, the editing area is too small. */
const EDIT_MARGIN = 60;
const UNREAD = "The same lines have changed since you began to type. Look at the conflict, then save again.";
const NAMES = { approve: "Approve", amend: "Approve with changes", rework: "Request changes", reject: "Reject" };

export function start(root) {
  if (root.matches("form")) {
    guard(root);
    return;
  }
  const review = new Review(root);
  root.addEventListener("click", (event) => review.click(event));
  // Of the parts that were swapped together, the one with the forms: the others know nothing of them.
  root.addEventListener("wb:swapped", (event) => event.target.id === "p-decide" && review.swapped());
  root.addEventListener("submit", (event) => review.holdBack(event), true);
  root.addEventListener("wb:refused", ({ target }) => review.refused(target));
  const here = () => root.isConnected;
  // A swap knows nothing of what this module says of the page: how it is shown, what is held back.
  document.addEventListener("wb:swapped", () => {
    if (!here()) return;
    review.mark();
    review.hold();
  });
  document.addEventListener("wb:swapping", (event) => here() && review.swapping(event));
  bind("n", "Next change", () => review.step(1), { when: here });
  bind("p", "Previous change", () => review.step(-1), { when: here });
  for (const [key, name] of [["a", "approve"], ["c", "amend"], ["r", "rework"], ["x", "reject"]]) {
    const when = () => here() && review.form(name) !== null;
    bind(key, `${NAMES[name]} (asks first)`, () => review.open(name), { when });
  }
  review.mark();
  addEventListener("resize", () => here() && review.mark());
  review.unfold(location.hash);
  addEventListener("hashchange", () => here() && review.unfold(location.hash));
}

/** The revision for which this page requested changes, and when. */
let awaited = null;

/** Returns the address of the revision that replaced the one on a page. */
function laterOf(page) {
  return page.querySelector("#p-bar [data-later]")?.getAttribute("href") ?? null;
}

class Review {
  constructor(root) {
    this.root = root;
    this.at = 0;
    // Who has come to look at an earlier revision stays there.
    this.isOld = laterOf(root) !== null;
    this.dialog = null;
    /** The number of a revision that has come and that nobody has looked at. */
    this.unseen = null;
    this.isAsking = false;
    this.isPutting = false;
    /** Whether the page has changed while the form of the dialog was being sent. */
    this.isBehind = false;
    /** Whether the page has no form for what the dialog decides. */
    this.isGone = false;
  }

  form(name) {
    return this.root.querySelector(`form[data-decision="${name}"]`);
  }

  click(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const { step, view, open } = link.dataset;
    if (step) this.step(Number(step));
    else if (open && this.form(open)) this.open(open);
    else if (view && this.root.dataset.mode !== "rendered") this.show(view, link);
    else if (this.isSame(link)) this.visit(link.href);
    else return;
    event.preventDefault();
  }

  /** Goes to the next or the previous change, and says which one it is. */
  step(by) {
    const all = [...this.root.querySelectorAll(".rv-change .rv-diff [data-change]")];
    if (all.length === 0) return;
    this.at = wrapped(this.at, by, all.length);
    this.root.querySelector(".is-current")?.classList.remove("is-current");
    const row = all[this.at - 1];
    row.classList.add("is-current");
    row.scrollIntoView({ block: "center" });
    row.focus({ preventScroll: true });
    const words = `Change ${this.at} of ${all.length}`;
    const count = this.root.querySelector(".rv-count");
    if (count) count.textContent = words;
    say(words);
  }

  /** Where nobody has chosen a view, what fits is shown: says which. */
  mark() {
    if (this.root.dataset.mode !== "auto") return;
    const split = this.root.querySelector(".rv-change .rl-kept > .rl-old");
    const view = split && getComputedStyle(split).display === "none" ? "unified" : "split";
    for (const it of this.root.querySelectorAll(".rv-views a")) {
      if (it.dataset.view === view) it.setAttribute("aria-current", "true");
      else it.removeAttribute("aria-current");
    }
  }

  /** Shows the same rows side by side or one below the other. */
  show(view, link) {
    this.root.dataset.mode = view;
    for (const it of this.root.querySelectorAll(".rv-views a")) it.removeAttribute("aria-current");
    link.setAttribute("aria-current", "true");
    history.replaceState(null, "", link.href);
    arrived();
  }

  /** Whether a link leads to this very proposal, shown or compared in another way. */
  isSame(link) {
    return link.origin === location.origin && link.pathname === location.pathname
      && link.search !== location.search && !link.hash;
  }

  /** Shows the proposal in another way: what was typed into the forms stays. */
  async visit(address) {
    const page = await this.fetched(address);
    if (!page) {
      location.assign(address);
      return;
    }
    history.pushState(null, "", address);
    this.put(page);
    if (this.unseen) this.look();
    else this.root.querySelector("#change")?.scrollIntoView();
  }

  async fetched(address) {
    try {
      const answer = await fetch(address, { cache: "no-store" });
      return answer.ok ? swap.parse(await answer.text()) : null;
    } catch {
      return null;
    }
  }

  /** Puts a whole page in the place of this one, in one step. */
  put(page) {
    arrived();
    document.title = page.title;
    this.rescue(page);
    this.isPutting = true;
    swap.elements(page, ["main"]);
    this.isPutting = false;
    placed(page);
    this.at = 0;
    this.mark();
    this.swapped();
  }

  /** A part of the page is to be swapped: does it say that this text is no longer the one? */
  swapping(event) {
    if (this.isPutting || this.isOld || !event.detail.page.getElementById("review")) return;
    const later = laterOf(event.detail.page);
    if (!later && !this.isAsking) {
      this.rescue(event.detail.page);
      return;
    }
    event.preventDefault();
    if (!this.isAsking) this.replace(later);
  }

  /** What was typed into a form that goes away stays, to be copied. */
  rescue(page) {
    for (const form of this.root.querySelectorAll(".rv-forms form[data-decision]")) {
      const name = form.dataset.decision;
      if (!page.querySelector(`form[data-decision="${name}"]`)) this.keep(form, name);
    }
  }

  /** Shows what was typed into a form that goes away, unless that is on its way. Who types in it
      goes on there. */
  keep(form, name) {
    if (isSending(form)) {
      ifRefused(form, () => { if (!form.isConnected) this.keep(form, name); });
      return;
    }
    const field = focusedIn(form);
    const others = typedFields(form).filter((it) => it !== field);
    const words = others.map(written).join("\n\n").trim();
    if (words) this.box(form, others, words);
    if (field) writeOn(this.box(form, [field], field.value), field);
  }

  box(form, fields, words) {
    const name = form.dataset.decision;
    const box = unsent(words, `What you typed (${NAMES[name].toLowerCase()}). ${fateOf(form)}`, name);
    box.dataset.revision = this.root.dataset.revision;
    box.dataset.fields = JSON.stringify(fields.map((it) => [it.name, it.value]));
    this.root.querySelector("#p-bar").before(box);
    return box;
  }

  /** A form is back that was away for a while, and so are the words in it. Those for the commit of
      another revision stay beside it: they may not fit this one. */
  restore() {
    for (const kept of this.root.querySelectorAll(".rv-kept")) {
      const form = this.form(kept.dataset.of);
      const isOther = kept.dataset.revision !== this.root.dataset.revision;
      if (!form || (isOther && kept.dataset.of === "approve")) continue;
      const area = kept.querySelector("textarea");
      const fields = JSON.parse(kept.dataset.fields);
      // Somebody has typed on in it.
      if (!area.readOnly) fields[0][1] = area.value;
      let last = null;
      for (const [name, value] of fields) {
        const field = form.elements.namedItem(name);
        if (!field || ![field.defaultValue, value].includes(field.value)) continue;
        field.value = value;
        last = field;
        // Words that will be sent are in sight.
        const fold = field.closest("details");
        if (fold) fold.open = true;
      }
      if (!area.readOnly && !last) continue;
      if (area === document.activeElement) toField(last, area);
      kept.remove();
    }
  }

  /** Puts the later revision in the place of this one. */
  async replace(later) {
    this.isAsking = true;
    const before = this.root.dataset.revision;
    const view = new URLSearchParams(location.search).get("view");
    let page = null;
    let address = null;
    for (let hops = 0; later && hops < HOPS_MAX; hops += 1) {
      address = view ? `${later}?view=${encodeURIComponent(view)}` : later;
      page = await this.fetched(address);
      later = page && laterOf(page);
    }
    this.isAsking = false;
    if (page) {
      history.replaceState(null, "", address);
      this.put(page);
      this.tell(before, this.root.dataset.revision);
    } else {
      // It cannot be had: this page then says that its text was replaced, and where to go.
      this.isOld = true;
    }
    // What has happened meanwhile was about either of them.
    refreshAll();
  }

  /** Says above the bar which revision has come; nothing moves for it, least of all while one types. */
  tell(before, after) {
    const isAwaited = awaited?.revision === before && performance.now() - awaited.at < AWAITED_MS;
    awaited = null;
    if (isAwaited && !this.dialog && !isTyping()) {
      this.look();
      say(`Revision ${after} is here.`);
      return;
    }
    this.unseen = after;
    this.root.querySelector(".rv-news")?.remove();
    const news = document.createElement("section");
    news.className = "rv-news";
    news.id = "rv-news";
    news.dataset.keep = "";
    news.tabIndex = -1;
    news.setAttribute("aria-label", "A later revision");
    const words = document.createElement("p");
    const isTyped = [...this.root.querySelectorAll("form textarea")].some((it) => it.value !== it.defaultValue);
    words.textContent = `Revision ${after} just replaced revision ${before}. Review it before you decide${isTyped ? "; what you typed is still here" : ""}.`;
    const between = document.createElement("a");
    between.className = "button";
    between.href = `${location.pathname}?against=${before}`;
    between.textContent = "What changed between them";
    const look = document.createElement("button");
    look.type = "button";
    look.className = "button button-main";
    look.textContent = `View revision ${after}`;
    look.addEventListener("click", () => this.look());
    news.append(words, between, look);
    this.root.append(news);
    this.hold();
    const held = this.dialog?.querySelector("form");
    if (held) refuse(held, words.textContent);
    else say(words.textContent);
  }

  /** Shows on the buttons that nothing is decided before somebody has looked. */
  hold() {
    const all = this.root.querySelectorAll(".rv-bar [data-open], form[data-decision] button[type=submit], .rv-bar .rv-edit");
    for (const it of all) {
      if (this.unseen) {
        it.setAttribute("aria-disabled", "true");
        it.setAttribute("aria-describedby", "rv-news");
      } else if (it.getAttribute("aria-describedby") === "rv-news") {
        it.removeAttribute("aria-disabled");
        it.removeAttribute("aria-describedby");
      }
    }
  }

  /** Somebody looks at what has come: from here on it can be decided about. */
  look() {
    this.unseen = null;
    this.hold();
    for (const it of this.root.querySelectorAll(".rv-news, .rv-forms .form-refusal")) it.remove();
    const diff = this.root.querySelector(".rv-change .rv-diff");
    this.at = 0;
    this.step(1);
    if (!this.root.querySelector(".is-current")) diff?.focus();
  }

  /** Whether a decision would be about a text that has only just come; then that is said. */
  isEarly() {
    if (!this.unseen) return false;
    const isWriting = !this.dialog && isTyping();
    this.dialog?.close();
    const news = this.root.querySelector(".rv-news");
    news?.classList.add("is-asked");
    // The one thing to do next.
    if (!isWriting) (news?.querySelector("button") ?? news)?.focus();
    say(`Revision ${this.unseen} just arrived. Review it first.`);
    return true;
  }

  holdBack(event) {
    if (!event.target.matches("form[data-decision]")) return;
    if (this.isEarly()) event.preventDefault();
    else if (event.target.dataset.decision === "rework") {
      awaited = { revision: this.root.dataset.revision, at: performance.now() };
    }
  }

  /** Unfolds what a link leads into. */
  unfold(hash) {
    // Names of lines and changes are plain; an address may hold anything.
    const target = /^#[\w-]+$/.test(hash) ? document.getElementById(hash.slice(1)) : null;
    const fold = target?.closest("details.rl-more");
    if (fold && !fold.open) {
      fold.open = true;
      target.scrollIntoView({ block: "center" });
    }
  }

  /** Asks in a dialog; the form is the one that stands on the page. */
  open(name) {
    // A browser tells of the end of a dialog a little after it: a key may come before.
    if (this.dialog && !(this.dialog.open && this.dialog.isConnected)) this.closed();
    const form = this.form(name);
    if (!form || this.dialog || this.isEarly()) return;
    const dialog = document.createElement("dialog");
    dialog.className = "rv-dialog";
    dialog.dataset.keep = "";
    dialog.setAttribute("aria-label", NAMES[name]);
    const home = document.createElement("span");
    home.dataset.keep = "";
    form.before(home);
    const close = document.createElement("button");
    close.type = "button";
    close.className = "button rv-close";
    close.textContent = "Not now";
    close.addEventListener("click", () => dialog.close());
    dialog.append(form, close);
    Object.assign(this, { dialog, name, held: form, home, isBehind: false, isGone: false });
    dialog.addEventListener("close", () => this.dialog === dialog && this.closed());
    this.root.append(dialog);
    dialog.showModal();
    (form.querySelector("textarea, input[type=text]") ?? form.querySelector("button"))?.focus();
  }

  /** What was typed goes back to where the form was; if that is gone, so is what it decided. */
  closed() {
    const { dialog, name, held: form, home } = this;
    this.dialog = null;
    if (this.isGone) {
      home.remove();
      this.keep(form, name);
      form.remove();
    } else if (home.isConnected) home.replaceWith(form);
    else if (this.root.querySelector(`.rv-forms form[data-decision="${name}"]`) === null) {
      // It is decided; what was typed since is not sent.
      this.keep(form, name);
      form.remove();
    }
    dialog.remove();
    const next = this.root.querySelector(this.unseen ? ".rv-news" : `[data-open="${name}"]`);
    if (next) next.focus();
    else this.land();
  }

  /** It is decided: whoever has done it is led to the head, which says so. */
  land() {
    const title = this.root.querySelector("h1");
    if (!title) return;
    title.tabIndex = -1;
    title.focus();
  }

  /** The form in the dialog says why it was refused, and can be sent again. */
  refused(form) {
    // No revision follows from it.
    if (form.dataset.decision === "rework") awaited = null;
    if (this.isBehind) this.swapped();
  }

  /** Somebody else has decided, or another text is shown: what is open here may be out of date. */
  swapped() {
    this.restore();
    if (!this.dialog?.isConnected) return;
    const dialog = this.dialog;
    const fresh = this.root.querySelector(`#p-decide form[data-decision="${this.name}"]`);
    const held = dialog.querySelector("form");
    // What is being sent has its answer soon: until then nobody else has decided.
    if (!held) return;
    this.isBehind = isSending(held);
    if (this.isBehind) return;
    const wasGone = this.isGone;
    this.isGone = !fresh;
    if (fresh) {
      if (wasGone) held.querySelector(".form-refusal")?.remove();
      // The same question again: what the server says of it is taken, what was typed stays.
      swap.like(held, fresh);
      fresh.remove();
      return;
    }
    const obstacle = this.root.querySelector("#p-decide .obstacle");
    if (obstacle) {
      // Nobody has decided: the server says what is in the way, also when it is asked again.
      refuse(held, `${obstacleOf(obstacle)} What you typed is still here.`);
      return;
    }
    const head = this.root.querySelector("#p-head");
    const state = (head?.querySelector(".rv-banner .state") ?? head?.querySelector(".state"))?.textContent ?? "Decided";
    const how = isLost(held) ? ", perhaps by what you sent" : " in the meantime";
    refuse(held, `${state}${how}. What you typed is still here.`);
    for (const it of held.querySelectorAll("button")) it.disabled = true;
  }
}

/** Returns the message and the hint of what is in the way of a decision, as sentences. */
function obstacleOf(obstacle) {
  const message = obstacle.querySelector(".message")?.textContent.trim() ?? "";
  const hint = obstacle.querySelector(".hint")?.textContent.trim() ?? "";
  return [message, hint].filter(Boolean).map((it) => (/[.!?]$/.test(it) ? it : `${it}.`)).join(" ");
}

/** Scrolls to the change, which is hard to find in a thousand lines. */
function begin(area) {
  const [from, to] = [Number(area.dataset.fromUnit), Number(area.dataset.toUnit)];
  const text = area.value;
  // As high as the text before the change: lines may be folded. A field says no less than its own
  // height, so it has none meanwhile.
  area.dataset.measured = "";
  area.value = text.slice(0, from);
  const height = area.scrollHeight;
  area.value = text;
  delete area.dataset.measured;
  area.focus({ preventScroll: true });
  area.setSelectionRange(from, to);
  area.scrollTop = Math.max(height - area.clientHeight / 2, 0);
  // The bar with the buttons lies over the lower end of the window.
  const line = area.getBoundingClientRect().top + height - area.scrollTop;
  const low = area.form.querySelector(".rv-keep").getBoundingClientRect().top;
  if (line > low - EDIT_MARGIN) scrollBy({ top: line - low / 2, behavior: "instant" });
}

/** Shows the changes of a text while it is being edited; returns what shows them at once. */
function follow(form, area) {
  let timer = 0;
  let asked = 0;
  const look = async () => {
    const mine = ++asked;
    const fields = new FormData(form);
    fields.append("preview", "yes");
    try {
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(fields) });
      const page = answer.ok ? swap.parse(await answer.text()) : null;
      if (page?.getElementById("e-preview") && mine === asked) swap.elements(page, ["e-preview"]);
    } catch {
      // The next look asks again; what is shown is the change as it was.
    }
  };
  area.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PREVIEW_MS);
  });
  return look;
}

/** Sends an edit; the page stays, with all that was typed, unless it was saved. Returns where to go then. */
async function save(form) {
  if (form.ariaBusy === "true") return null;
  form.ariaBusy = "true";
  let problem = UNREACHABLE;
  lock(form, true);
  try {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body });
    if (answer.ok) return answer.url;
    const page = swap.parse(await answer.text());
    problem = refusalOf(page);
    if (page.querySelector(".rv-editor")) {
      problem = null;
      swap.elements(page, ["e-state", "e-actions"]);
    }
  } catch {
    // Said below.
  } finally {
    form.ariaBusy = null;
  }
  lock(form, false);
  if (problem) refuse(form, problem);
  return null;
}

/** Nothing is typed into a text that is being saved: the page that follows would not have it. */
function lock(form, isLocked) {
  for (const it of form.querySelectorAll("textarea, input[type=text]")) it.readOnly = isLocked;
}

/** Leaving an edited text asks for confirmation; changes of its proposal are announced. */
function guard(form) {
  const area = form.querySelector("textarea");
  const first = area.defaultValue;
  begin(area);
  const look = follow(form, area);
  let isSent = false;
  // Whose lines of the document an edit takes out, as far as that was read.
  const conflict = () => form.elements.conflict?.value ?? "";
  const warning = new Warning();
  let read = conflict();
  const isUnread = () => {
    if (conflict() && conflict() !== read && !warning.isRead(conflict())) return true;
    read = conflict();
    return false;
  };
  form.addEventListener("submit", (event) => {
    // What leads to the editor of a later revision brings the text along.
    isSent = event.submitter?.hasAttribute("formaction") ?? false;
    if (isSent) return;
    event.preventDefault();
    if (event.submitter?.name === "preview") {
      look().then(() => form.querySelector("#preview").scrollIntoView({ block: "center" }));
      return;
    }
    if (isUnread()) {
      say(UNREAD);
      return;
    }
    save(form).then((next) => {
      if (!next) {
        if (conflict() !== read) warning.meet(conflict());
        return;
      }
      isSent = true;
      // Its draft is no longer needed; the text itself stays until the next page is there.
      form.dispatchEvent(new Event("reset"));
      location.assign(next);
    });
  });
  // Who comes back to a page that the browser has kept goes on typing in it.
  addEventListener("pageshow", () => {
    isSent = false;
    lock(form, false);
  });
  addEventListener("beforeunload", (event) => {
    const isTyped = "unsaved" in form.dataset || area.value !== first;
    if (!isSent && form.isConnected && isTyped) event.preventDefault();
  });
  form.addEventListener("wb:swapped", (event) => {
    const news = event.target.id === "e-state" ? event.target.textContent.trim() : "";
    if (news) say(news.replace(/\s+/g, " "));
  });
}
