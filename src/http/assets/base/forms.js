// Forms with `data-inline` are sent without leaving the page. An error is shown next to the form,
// and what was typed stays.

import { placed, refreshIn } from "./live.js";
import { plain } from "./plain.js";
import { say } from "./say.js";
import * as swap from "./swap.js";

/** What a form says that nobody answered. */
export const UNREACHABLE = "Can’t reach this site right now. What you typed is still here.";

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

async function send(form, submitter) {
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  // A button that is disabled loses the focus.
  const held = form.contains(document.activeElement) ? document.activeElement : null;
  const buttons = [...form.querySelectorAll("button:not([disabled])")];
  for (const button of buttons) button.disabled = true;
  let again = null;
  let problem = UNREACHABLE;
  try {
    const action = submitter?.getAttribute("formaction") ?? form.getAttribute("action");
    const fields = new FormData(form);
    if (submitter?.name) fields.append(submitter.name, submitter.value);
    const answer = await fetch(action, { method: "POST", body: new URLSearchParams(fields) });
    const page = swap.parse(await answer.text());
    again = answer.ok ? null : formAgain(form, page);
    problem = answer.ok || again ? null : refusalOf(page);
    if (answer.ok) done(form, page, answer.url);
  } catch {
    // Said below.
  }
  form.ariaBusy = null;
  for (const button of buttons) button.disabled = false;
  if (document.activeElement === document.body) {
    held?.focus({ preventScroll: true });
    if (held && document.activeElement !== held) {
      held.closest("details")?.querySelector("summary")?.focus({ preventScroll: true });
    }
  }
  if (again) showAgain(form, again);
  if (problem) refuse(form, problem);
  if (again || problem) form.dispatchEvent(new CustomEvent("wb:refused", { bubbles: true }));
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
function done(form, page, url) {
  const host = form.closest("[data-from]");
  if (!host) return show(form, page, url);
  form.querySelector(".form-refusal")?.remove();
  form.reset();
  const fold = form.closest("details");
  if (fold) fold.open = false;
  say(form.dataset.done ?? "Done");
  refreshIn(host);
}

/** Replaces this page by the one that a form leads to. */
function show(form, page, url) {
  form.querySelector(".form-refusal")?.remove();
  form.reset();
  const to = new URL(url);
  const isElsewhere = to.pathname !== location.pathname;
  if (isElsewhere && !page.getElementById("main")) {
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
  say(form.dataset.done ?? "Done");
  if (!isElsewhere) return;
  scrollTo(0, 0);
  const main = document.getElementById("main");
  main.tabIndex = -1;
  main.focus({ preventScroll: true });
}

// Goes back to a page left by a form or a module, except for a jump within a page.
let shown = location.pathname + location.search;

/** Marks the page as belonging to the current address, after changing both. */
export function arrived() {
  shown = location.pathname + location.search;
}

addEventListener("popstate", () => {
  if (location.pathname + location.search !== shown) location.reload();
});

const SIGNED_OUT = "You are signed out. Sign in again in another tab, then send again: what you typed is still here.";

/** Returns why the page with which a form was refused says that it was. */
export function refusalOf(page) {
  if (page.querySelector("#main .sign-in")) return SIGNED_OUT;
  const told = (it) => page.querySelector(`#main ${it}`)?.textContent.trim();
  // An error page, or a page that says beside the form why it was refused.
  const why = [told(".message"), told(".hint")].filter(Boolean).join(" — ") || told(".form-refusal[role=alert]");
  return why || page.querySelector("h1")?.textContent || "Something went wrong.";
}

/** Shows an error inside a form. */
export function refuse(form, problem) {
  let place = form.querySelector(".form-refusal");
  if (!place) {
    place = document.createElement("p");
    place.className = "form-refusal";
    place.dataset.keep = "";
    place.role = "alert";
    form.append(place);
  }
  place.textContent = plain(problem);
}

// It is reached again.
document.addEventListener("wb:connection", ({ detail }) => {
  if (detail !== "live") return;
  for (const it of document.querySelectorAll(".form-refusal")) {
    if (it.textContent === UNREACHABLE) it.remove();
  }
});
