// The review of a proposal: from change to change, how it is shown, and the decision in a dialog.

import { bind } from "./keys.js";
import { say } from "./say.js";
import { wrapped } from "./steps.js";

const NAMES = { approve: "Approve", rework: "Ask for a rework", reject: "Reject" };

export function start(root) {
  if (root.matches("form")) {
    guard(root);
    return;
  }
  const review = new Review(root);
  root.addEventListener("click", (event) => review.click(event));
  root.addEventListener("wb:swapped", () => review.swapped());
  const here = () => root.isConnected;
  bind("n", "Next change", () => review.step(1), { when: here });
  bind("p", "Previous change", () => review.step(-1), { when: here });
  for (const [key, name] of [["a", "approve"], ["r", "rework"], ["x", "reject"]]) {
    const when = () => here() && review.form(name) !== null;
    bind(key, `${NAMES[name]} (asks first)`, () => review.open(name), { when });
  }
  review.follow(location.hash);
  addEventListener("hashchange", () => here() && review.follow(location.hash));
}

class Review {
  constructor(root) {
    this.root = root;
    this.at = 0;
    this.isOld = root.querySelector("#p-bar a.button-main[href^='/proposals/']") !== null;
    this.dialog = null;
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
    else return;
    event.preventDefault();
  }

  /** Goes to the next or the previous change, and says which one it is. */
  step(by) {
    const all = [...this.root.querySelectorAll(".rv-diff [data-change]")];
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

  /** Shows the same rows side by side or one below the other. */
  show(view, link) {
    this.root.dataset.mode = view;
    for (const it of this.root.querySelectorAll(".rv-views a")) it.removeAttribute("aria-current");
    link.setAttribute("aria-current", "true");
    history.replaceState(null, "", link.href);
  }

  /** Unfolds what a link leads into. */
  follow(hash) {
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
    const form = this.form(name);
    if (!form || this.dialog?.isConnected) return;
    const dialog = document.createElement("dialog");
    dialog.className = "rv-dialog";
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
    dialog.addEventListener("close", () => {
      // What was typed goes back to where the form was; if that is gone, so is what it decided.
      if (home.isConnected) home.replaceWith(form);
      else if (!this.root.querySelector(`.rv-forms form[data-decision="${name}"]`)) form.remove();
      dialog.remove();
      this.dialog = null;
      this.root.querySelector(`[data-open="${name}"]`)?.focus();
    });
    this.dialog = dialog;
    this.name = name;
    this.root.append(dialog);
    dialog.showModal();
    (form.querySelector("textarea, input[type=text]") ?? form.querySelector("button"))?.focus();
  }

  /** Somebody else has decided, or the text has another base: what is open here may be out of date. */
  swapped() {
    const later = this.root.querySelector("#p-bar a.button-main[href^='/proposals/']");
    if (later && !this.isOld) say("There is a newer revision; this text is no longer what is decided about.");
    this.isOld = Boolean(later);
    if (!this.dialog?.isConnected) return;
    const dialog = this.dialog;
    const fresh = this.root.querySelector(`#p-decide form[data-decision="${this.name}"]`);
    const held = dialog.querySelector("form");
    if (!held) return;
    if (fresh) {
      // The same question again: the server's fields are taken, what was typed stays.
      for (const it of fresh.querySelectorAll("input[type=hidden]")) {
        const own = held.querySelector(`input[name="${it.name}"]`);
        if (own) own.value = it.value;
      }
      fresh.remove();
      return;
    }
    const head = this.root.querySelector("#p-head");
    const state = (head?.querySelector(".rv-banner .state") ?? head?.querySelector(".state"))?.textContent ?? "It has been decided";
    let note = held.querySelector(".form-refusal");
    if (!note) {
      note = document.createElement("p");
      note.className = "form-refusal";
      note.role = "alert";
      held.append(note);
    }
    note.textContent = `${state} meanwhile. What you typed is still here.`;
    for (const it of held.querySelectorAll("button")) it.disabled = true;
  }
}

/** Leaving an edited text asks first. */
function guard(form) {
  const area = form.querySelector("textarea");
  const first = area.defaultValue;
  let isSent = false;
  form.addEventListener("submit", () => { isSent = true; });
  addEventListener("beforeunload", (event) => {
    if (!isSent && form.isConnected && area.value !== first) event.preventDefault();
  });
}
