// Forms with `data-inline` are sent without leaving the page. An error is shown next to the form,
// and what was typed stays.

import { ARRIVED, bodyOf, lose, note, renew, settle } from "./again.js";
import * as draft from "./draft.js";
import { placed, readAgain, refreshIn } from "./live.js";
import { plain } from "./plain.js";
import { say } from "./say.js";
import * as swap from "./swap.js";

/**
 * What forms that are being sent send: one message, and those that were sent before its answer. A
 * swap may take the attribute that shows it.
 */
const queues = new WeakMap();
/** Counts the messages that waited: each has a key of its own. */
let waited = 0;

/** What a form says that nobody answered. */
export const UNREACHABLE = "Can’t reach this site right now. What you typed is still here.";
/** What a form says if what it sent before has arrived, and something else is in it now. */
const HAS_ARRIVED = "What you sent before has arrived. This text hasn’t been sent. If you send it now, all of it is posted as well.";

/** What stands over words that were typed behind those that were sent. */
export const SINCE = "What you typed after that. It wasn’t sent.";

/** What a form says whose button was another one a moment ago. */
const UNSEEN = "Another button was here a moment ago. Press again if you mean this one.";
const UNSEEN_SHOWN_MS = 8_000;

/** Returns whether a form is being sent. */
export function isSending(form) {
  return queues.has(form);
}

/** Calls back once if what a form sends is refused, or has no answer. */
export function ifRefused(form, callback) {
  form.addEventListener("wb:refused", callback, { once: true });
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || !form.matches("form[data-inline]")) return;
  event.preventDefault();
  send(form, event.submitter);
});

// Ctrl-Enter sends what is written, where a module has no other meaning for it.
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  const area = event.target.closest?.("textarea");
  if (!area?.form?.matches("form[data-inline], form[data-sends]")) return;
  event.preventDefault();
  area.form.requestSubmit();
});

function send(form, submitter) {
  const queue = queues.get(form);
  if (!queue) return deliver(form, [take(form, submitter)]);
  // What is in the form now, and nothing that is typed later.
  if (!submitter?.name && draft.mayWait(form)) queue.push(takeNext(form));
}

/** Takes out of a form what it sends, as it is at this moment. */
function take(form, submitter, isNext = false) {
  const action = submitter?.getAttribute("formaction") ?? form.getAttribute("action");
  const fields = new FormData(form);
  if (submitter?.name) fields.append(submitter.name, submitter.value);
  const body = isNext ? new URLSearchParams(fields) : bodyOf(form, fields);
  const sent = draft.leave(form);
  form.dispatchEvent(new CustomEvent("wb:sending", { bubbles: true }));
  return { action, body, sent };
}

/** Takes out of a form a message that follows one which is not answered. */
function takeNext(form) {
  const next = take(form, null, true);
  waited += 1;
  if (next.body.has("key")) next.body.set("key", `${next.body.get("key")}-${waited}`);
  return next;
}

/** Sends the first of some messages, then the others. */
async function deliver(form, queue) {
  queues.set(form, queue);
  form.ariaBusy = "true";
  const [{ action, body, sent }] = queue;
  const host = form.closest("[data-from]");
  const isMessage = draft.isMessage(form);
  // A button that is disabled loses the focus.
  const held = form.contains(document.activeElement) ? document.activeElement : null;
  // The next message may be sent while this one is on its way; that there is none yet is no fault.
  const buttons = isMessage ? [] : [...form.querySelectorAll("button:not([disabled])")];
  for (const button of buttons) button.disabled = true;
  const wasLenient = form.noValidate;
  form.noValidate ||= isMessage;
  let again = null;
  let problem = UNREACHABLE;
  let code = "";
  const name = note(form, body, sent);
  try {
    const answer = await fetch(action, { method: "POST", body });
    const page = swap.parse(await answer.text());
    // A proxy that waits no longer does not know whether it has arrived.
    if (answer.status < 500) settle(name);
    again = answer.ok ? null : formAgain(form, page);
    problem = answer.ok || again ? null : refusalOf(page);
    code = answer.ok ? "" : codeOf(page);
    if (code === ARRIVED) {
      problem = HAS_ARRIVED;
      renew(form);
    }
    // The answer says what the text is now, in this form only.
    if (!problem) form.querySelectorAll("[data-began]").forEach((it) => it.removeAttribute("data-began"));
    if (answer.ok) {
      // Filled with what was on its way.
      const anew = form.isConnected ? null : formThere(form);
      const later = draft.arrive(form, sent);
      if (anew) {
        draft.comeBack(form);
        draft.takeOut(anew, sent);
      }
      if (host) inPart(form, host, sent, later);
      else show(form, page, answer.url, sent, later);
    }
  } catch {
    // Said below.
    if (problem) lose(form, body);
  }
  queues.delete(form);
  form.ariaBusy = null;
  form.noValidate = wasLenient;
  for (const button of buttons) button.disabled = false;
  if (document.activeElement === document.body) {
    held?.focus({ preventScroll: true });
    if (held && document.activeElement !== held) {
      held.closest("details")?.querySelector("summary")?.focus({ preventScroll: true });
    }
  }
  if (again || problem) draft.comeBack(form);
  if (again) showAgain(form, again);
  if (problem) refuse(form, problem, code);
  if (again || problem) form.dispatchEvent(new CustomEvent("wb:refused", { bubbles: true, detail: { code } }));
  // If the form is gone, so is the place for them: their texts are there to be copied.
  else if (queue.length > 1 && form.isConnected) await deliver(form, queue.slice(1));
}

/** Returns the page with which a form was refused, if it shows the errors next to the fields. */
function formAgain(form, page) {
  const same = form.id ? page.getElementById(form.id) : null;
  return same?.querySelector(".field-refusal, .form-refusal") ? page : null;
}

/** Shows the same form with its errors; typed values stay, including those unknown to the server. */
function showAgain(form, page) {
  swap.elements(page, [form.id]);
  const wrong = form.querySelector("[aria-invalid=true]");
  for (let it = wrong?.closest("details"); it; it = it.parentElement.closest("details")) it.open = true;
  wrong?.focus();
  // What is an alert is read out by itself.
  const why = wrong && document.getElementById(wrong.getAttribute("aria-describedby"));
  if (why) say(why.textContent);
}

/** A form in a part from another page changes only that part. */
function inPart(form, host, sent, later) {
  form.querySelector(".form-refusal")?.remove();
  // The next message is another one, also before the part is there again.
  renew(form);
  const fold = form.closest("details");
  if (fold && later.length === 0) fold.open = false;
  keepLater(form, sent, later, host);
  say(form.dataset.done ?? "Done");
  refreshIn(host);
}

/** Replaces this page by the one that a form leads to. */
function show(form, page, url, sent, later) {
  form.querySelector(".form-refusal")?.remove();
  const to = new URL(url);
  const isElsewhere = to.pathname !== location.pathname;
  const done = form.dataset.done ?? "Done";
  // The modules of some pages work on the whole window.
  if (isElsewhere && (!page.getElementById("main") || document.querySelector("[data-whole]"))) {
    document.dispatchEvent(new Event("wb:leaving"));
    location.assign(url);
    return;
  }
  if (isElsewhere || to.search !== location.search) history.pushState(null, "", url);
  arrived();
  document.title = page.title;
  // What was asked in a dialog is answered.
  form.closest("dialog")?.close();
  swap.elements(page, ["main"]);
  placed(page);
  keepLater(form, sent, later, document.getElementById("main"));
  say(done);
  if (!isElsewhere) return;
  // The form is here, too, and somebody writes on in it.
  if (form.isConnected && form.contains(document.activeElement)) return;
  scrollTo(0, 0);
  const main = document.getElementById("main");
  main.tabIndex = -1;
  main.focus({ preventScroll: true });
}

/** Returns the form for the same messages that is on the page now. */
function formThere({ dataset: { composer } }) {
  const forms = [...document.querySelectorAll("form[data-composer]")];
  return forms.find((it) => it.dataset.composer === composer) ?? null;
}

/** What was typed into a form that is gone by now stays, to be copied; what was sent does not. */
function keepLater(form, sent, later, place) {
  const { decision, composer } = form.dataset;
  const name = decision ?? composer ?? form.getAttribute("action");
  let boxes = [...document.querySelectorAll(".rv-kept")].filter((it) => it.dataset.of === name);
  if (boxes[0] && decision) return;
  if (!form.isConnected) draft.comeBack(form);
  const words = later.map(draft.written).join("\n\n").trim();
  const gone = [...sent.values()].filter(Boolean).join("\n\n");
  const textOf = (box) => box.querySelector("textarea").value.trim();
  boxes = boxes.filter((it) => {
    // It was said not to have been sent.
    const isSent = textOf(it) && gone.includes(textOf(it)) && !words.includes(textOf(it));
    if (isSent) it.remove();
    return !isSent;
  });
  if (form.isConnected || !words || boxes.some((it) => textOf(it).includes(words))) return;
  // It is in its form again.
  const there = formThere(form);
  if (there && draft.typedIn(there).includes(words)) return;
  place.prepend(draft.unsent(words, SINCE, name));
}

// Goes back to a page left by a form or a module, except for a jump within a page.
let shown = location.pathname + location.search;

/** Marks the page as belonging to the current address, after changing both. */
export function arrived() {
  shown = location.pathname + location.search;
}

addEventListener("popstate", () => {
  if (location.pathname + location.search !== shown) readAgain();
});

const SIGNED_OUT = "You are signed out. Sign in again in another tab, then send again: what you typed is still here.";

/** Returns the code of the error that a page shows. */
function codeOf(page) {
  return page.querySelector("#main .message")?.dataset.code;
}

/** Returns why the page with which a form was refused says that it was. */
export function refusalOf(page) {
  if (page.querySelector("#main .sign-in")) return SIGNED_OUT;
  const told = (it) => page.querySelector(`#main ${it}`)?.textContent.trim();
  // An error page, or a page that says beside the form why it was refused.
  const why = [told(".message"), told(".hint")].filter(Boolean).join(" — ") || told(".form-refusal[role=alert]");
  return why || page.querySelector("h1")?.textContent || "Something went wrong.";
}

/** Shows an error inside a form. */
export function refuse(form, problem, code = "") {
  let place = form.querySelector(".form-refusal");
  if (!place) {
    place = document.createElement("p");
    place.className = "form-refusal";
    place.dataset.keep = "";
    place.role = "alert";
    form.append(place);
  }
  place.dataset.code = code;
  place.textContent = plain(problem);
}

document.addEventListener("wb:unseen", ({ target: form }) => {
  refuse(form, UNSEEN);
  setTimeout(() => {
    const place = form.querySelector(".form-refusal");
    if (place?.textContent === UNSEEN) place.remove();
  }, UNSEEN_SHOWN_MS);
});

// It is reached again.
document.addEventListener("wb:connection", ({ detail }) => {
  if (detail !== "live") return;
  for (const it of document.querySelectorAll(".form-refusal")) {
    if (it.textContent === UNREACHABLE) it.remove();
  }
});
