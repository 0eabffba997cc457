// A press counts for what was there when somebody decided to press: the second press of a double
// click does nothing to what has taken the place of the first one, and a key that is held, or struck
// twice, nothing to what its first stroke has brought up. A button that has just taken the place of
// another one, whoever changed the page, says so instead of doing something.
//
// Who types in a field that the page takes away goes on typing for a while: those letters press
// nothing, and are no shortcuts.

/** How long after a press another one is its double, and how far away at most, in CSS pixels. */
const DOUBLE_MS = 500;
const NEAR_PX = 12;
const CONTROL = "button, a, summary, input, select, label";
const KEPT = "wb-press";
const STOOD = "wb-stood";
const MODIFIERS = ["Control", "Meta", "Shift", "Alt"];
/** How long it takes to see that another button stands at a place. */
const SEEN_MS = 1_000;
/** How far from a button a finger lands that is meant for it; a mouse does not. */
const FINGER_PX = 24;
/** Buttons that do something at once. Stop is pressed in a hurry, and undoes nothing. */
const ACTS = "form[method=post] button:not([type=button])";
const IN_A_HURRY = ".chat-stop button";

/** The last press of a pointer; `first` is the one before it that was meant. */
let press = pressBefore();
/** Where the key that is down was struck, and the last Enter. */
let stroke = null;
let enter = null;
/** Which buttons stood where before each change of the page in the last second, its loading too. */
let before = stoodBefore();
/** Whether a form has left this page. */
let isSent = false;
/** When something was typed or pressed last by somebody who had seen the page. */
let meantAt = -SEEN_MS;
/** The field that has the focus, or had it last, since when not, and when its user meant to leave it. */
let field = isText(document.activeElement) ? document.activeElement : null;
let awayAt = null;
let leftAt = -Infinity;
/** When something was typed last into a field, and into one that had gone. */
let typedAt = -Infinity;
let astrayAt = -Infinity;

/** Returns the press that led to this page: what is here was not there then. */
function pressBefore() {
  try {
    const text = sessionStorage.getItem(KEPT);
    sessionStorage.removeItem(KEPT);
    const { x, y, at } = JSON.parse(text ?? "{}");
    return text && { x, y, at: at - performance.timeOrigin, on: document };
  } catch {
    // A forbidden store keeps nothing.
    return null;
  }
}

/** Returns what stood where before a form loaded this page: it counts from when that is shown. */
function stoodBefore() {
  try {
    const text = sessionStorage.getItem(STOOD);
    sessionStorage.removeItem(STOOD);
    const { places } = JSON.parse(text ?? "{}");
    if (!places) return [];
    const stood = { at: Infinity, places };
    requestAnimationFrame(() => { stood.at = performance.now(); });
    return [stood];
  } catch {
    // A forbidden store keeps nothing.
    return [];
  }
}

// After all others: a form that a module sends leaves no page.
addEventListener("submit", (event) => { isSent ||= !event.defaultPrevented; });
// But the one whose answer is another page.
document.addEventListener("wb:leaving", () => { isSent = true; });

addEventListener("pagehide", () => {
  if (!isSent) return;
  try {
    sessionStorage.setItem(STOOD, JSON.stringify({ places: places() }));
  } catch {
    // A full or forbidden store keeps nothing.
  }
});

addEventListener("pagehide", () => {
  if (!press?.on) return;
  const { x, y, at } = press;
  try {
    sessionStorage.setItem(KEPT, JSON.stringify({ x, y, at: at + performance.timeOrigin }));
  } catch {
    // A full or forbidden store keeps nothing.
  }
});

function control(element) {
  return element?.closest?.(CONTROL) ?? null;
}

/** Returns what a button does, whatever is typed: its form may do it to something else later. */
function meaning(button) {
  const { form } = button ?? {};
  if (!form) return "";
  const fields = form.matches("[data-composer]") ? [] : form.querySelectorAll("input[type=hidden]");
  const values = [...fields].filter((it) => it.name !== "key").map((it) => [it.name, it.value]);
  return JSON.stringify([form.getAttribute("action"), button.name, button.value, values]);
}

/** Whether a press follows another one at once, at its place. */
function follows({ x, y, at }, first) {
  return Boolean(first?.on) && at - first.at < DOUBLE_MS && Math.hypot(x - first.x, y - first.y) < NEAR_PX;
}

/** Returns which buttons stand where in the window. */
function places() {
  const all = [...document.querySelectorAll(ACTS)].map((it) => {
    const { left, right, top, bottom } = it.getBoundingClientRect();
    return { left, right, top, bottom, does: seen(it) };
  });
  return all.filter((it) => it.right > it.left && it.bottom > 0 && it.top < innerHeight);
}

document.addEventListener("wb:swapping", () => {
  const at = performance.now();
  before = [...before.filter((it) => at - it.at < SEEN_MS), { at, places: places() }];
});

/** Returns what a button does that is seen beside it: the form of a text looks after its own changes. */
function seen(button) {
  const isOfText = button.form?.querySelector("textarea, input[type=text]");
  return isOfText ? button.form.getAttribute("action") : meaning(button);
}

function isAt({ x, y }, place, far) {
  return x > place.left - far && x < place.right + far && y > place.top - far && y < place.bottom + far;
}

/** Whether what is pressed has taken the place of another button, and nobody can have seen it yet. */
function isUnseen(press, button) {
  if (!button?.matches(ACTS) || button.matches(IN_A_HURRY)) return false;
  const does = seen(button);
  const far = press.isFinger ? FINGER_PX : 0;
  return before.some(({ at, places }) => press.at - at < SEEN_MS && meantAt < at
    && !places.some((it) => it.does === does && isAt(press, it, 0))
    && places.some((it) => it.does !== does && isAt(press, it, far)));
}

addEventListener("pointerdown", ({ clientX: x, clientY: y, timeStamp: at, target, pointerType }) => {
  const wasExtra = press?.isExtra;
  const first = wasExtra ? press.first : press;
  // No press keeps all those before it.
  if (first) first.first = null;
  enter = null;
  const on = control(target);
  press = { x, y, at, on, does: meaning(on), first, isMoved: false, isExtra: false, isFinger: pointerType === "touch" };
  press.shown = on?.matches(ACTS) ? seen(on) : "";
  press.isUnseen = isUnseen(press, on);
  if (follows(press, first)) {
    // Two presses on two things that both stay where they are count.
    const now = control(document.elementFromPoint(first.x, first.y));
    press.isMoved = now !== first.on || meaning(now) !== first.does;
    press.isExtra = Boolean(wasExtra);
  }
  if (!press.isUnseen && !press.isMoved && !press.isExtra) meantAt = at;
  astrayAt = -Infinity;
  if (!field?.contains(target)) leave(at);
}, { capture: true, passive: true });

function refuse(event, form) {
  event.preventDefault();
  event.stopImmediatePropagation();
  form?.dispatchEvent(new CustomEvent("wb:unseen", { bubbles: true }));
}

// What a finger or a button of the mouse came down on may be gone when it comes up.
document.addEventListener("click", (event) => {
  const button = control(event.target);
  // A click without a pointer is meant for what it names.
  if (!press || event.detail === 0 || !button?.matches(ACTS) || seen(button) === press.shown) return;
  refuse(event, button.form);
}, true);

document.addEventListener("submit", (event) => {
  if (!press || !event.submitter) return;
  const { first } = press;
  const isSame = first?.on?.form === event.target && first.does === meaning(event.submitter);
  press.isExtra ||= press.isMoved && !isSame;
  const isUnseen = press.isUnseen && event.submitter === press.on;
  // The second press of a double click wants nothing, so it is told nothing.
  if (press.isExtra || isUnseen) refuse(event, press.isExtra ? null : event.target);
}, true);

function isText(target) {
  return target?.matches?.("textarea, input:not([type=radio], [type=checkbox])") || target?.isContentEditable;
}

/** Whether a key presses a button, its own or that of a form. */
function presses({ key, target, ctrlKey, metaKey }) {
  const breaksLine = target.matches?.("textarea") || target.isContentEditable;
  return key === "Enter" && (ctrlKey || metaKey || !breaksLine);
}

/** Whether a key was struck for something that has gone, or was done by its first stroke. */
function isLate(event) {
  const { key, target, repeat, timeStamp: at } = event;
  if (MODIFIERS.includes(key)) return false;
  if (repeat) {
    const types = key === "Enter" || key.length === 1;
    return presses(event) || (types && stroke !== target && isText(target));
  }
  stroke = target;
  const last = enter;
  enter = presses(event) ? { target, at } : null;
  return enter && last && last.target !== target && at - last.at < DOUBLE_MS;
}

// --- typing ---

/** Returns whether somebody types: has the focus in a field, or has struck a key in one just now. */
export function isTyping() {
  return isText(document.activeElement) || performance.now() - typedAt < SEEN_MS;
}

/** The user of the field is done with it: what takes the focus from now on was meant to. */
function leave(at) {
  leftAt = at;
  typedAt = -Infinity;
}

function enterField(target) {
  if (!isText(target)) return;
  field = target;
  awayAt = null;
  leftAt = -Infinity;
}

/** Whether a key was struck by somebody who goes on typing though the field is gone. */
function isAstray(event) {
  const { key, target, timeStamp: at, ctrlKey, metaKey, altKey } = event;
  const isChord = ctrlKey || metaKey || altKey;
  if (MODIFIERS.includes(key)) return false;
  if (isText(target)) {
    enterField(target);
    if (["Tab", "Escape"].includes(key) || isChord || presses(event)) leave(at);
    else typedAt = at;
    return false;
  }
  if (field && document.activeElement !== field) {
    const since = awayAt ?? at;
    if (since - leftAt >= SEEN_MS) astrayAt = since;
    field = null;
  }
  if (["Tab", "Escape"].includes(key)) astrayAt = -Infinity;
  const isWord = !isChord && (key.length === 1 || key === "Enter");
  if (!isWord || at - astrayAt >= SEEN_MS) return false;
  // The sentence ends with a pause.
  astrayAt = at;
  return true;
}

addEventListener("focusin", ({ target }) => enterField(target), true);
addEventListener("focusout", ({ target }) => {
  if (target === field) awayAt ??= performance.now();
}, true);
// A browser need not tell that what had the focus is gone.
document.addEventListener("wb:swapped", () => {
  if (field && !field.isConnected) awayAt ??= performance.now();
});

addEventListener("keydown", (event) => {
  press = null;
  if (event.isComposing) return;
  const isLost = isAstray(event);
  if (!isLate(event) && !isLost) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

// Who has typed in between means it.
addEventListener("input", ({ target, isTrusted }) => {
  if (isTrusted && isText(target)) typedAt = performance.now();
  enter = null;
  press = null;
  meantAt = performance.now();
}, true);

/** How long a warning stands at least before a press counts as an answer to it. */
const READ_MS = 1_000;

/** A warning that something has changed: it is read once there was time for that since a press met it. */
export class Warning {
  #of = "";
  #at = 0;

  /** A press has met the warning of a change. */
  meet(change) {
    if (this.#of !== change) [this.#of, this.#at] = [change, performance.now()];
  }

  /** Returns whether a press is an answer to the warning, or the first one to meet it. */
  isRead(change) {
    this.meet(change);
    return performance.now() - this.#at >= READ_MS;
  }
}
