// Shortcuts: bound here, listed by `?`, ignored in input fields, and switched off in the settings.

const SEQUENCE_MS = 1_200;
const bindings = [];
const notes = [];
let before = "";
let beforeAt = 0;
let dialog = null;

/**
 * Binds a key (`j`, `?`), two keys one after the other (`g d`) or a chord (`Ctrl+k`) to a handler.
 * The latest binding whose `when` says yes counts. Returns what undoes it.
 */
export function bind(key, label, handler, { when = () => true } = {}) {
  const binding = { key, label, handler, when };
  bindings.push(binding);
  return () => bindings.splice(bindings.indexOf(binding), 1);
}

/** Lists a key that an element handles by itself. */
export function note(key, label, when) {
  notes.push({ key, label, when });
}

/** Returns whether single-key shortcuts are on. */
export function areOn() {
  return document.documentElement.dataset.keys !== "off";
}

function isWriting(target) {
  return target instanceof Element
    && (target.closest("input:not([type=radio], [type=checkbox]), textarea, select")
      || target.isContentEditable);
}

function find(key) {
  return bindings.findLast((it) => it.key === key && it.when());
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.altKey) return;
  if (event.ctrlKey || event.metaKey) {
    run(find(`Ctrl+${event.key.toLowerCase()}`), event);
    return;
  }
  if (!areOn() || isWriting(event.target) || event.key.length !== 1) return;
  if (document.querySelector("dialog:modal")) return;
  const isSecond = before && event.timeStamp - beforeAt < SEQUENCE_MS;
  const found = (isSecond && find(`${before} ${event.key}`)) || find(event.key);
  before = !found && bindings.some((it) => it.key.startsWith(`${event.key} `)) ? event.key : "";
  beforeAt = event.timeStamp;
  run(found, event);
});

function run(binding, event) {
  if (!binding) return;
  event.preventDefault();
  binding.handler(event);
}

/** Lists the shortcuts of this page. */
export function help() {
  dialog ??= document.body.appendChild(element("dialog", "sheet keys"));
  const close = element("button", "button", "Close");
  close.type = "button";
  close.addEventListener("click", () => dialog.close());
  const title = element("h2", "", "Shortcuts");
  title.id = "keys-title";
  dialog.setAttribute("aria-labelledby", title.id);
  const list = element("dl", "keys-list");
  const seen = new Set();
  for (const { key, label, when } of [...notes, ...bindings]) {
    if (seen.has(key) || !when()) continue;
    seen.add(key);
    const term = element("dt");
    key.split(/[ +]/).forEach((part) => term.append(element("kbd", "", part), " "));
    list.append(term, element("dd", "", label));
  }
  const note = element("p", "quiet", "You can turn them off in the settings.");
  dialog.replaceChildren(title, list, note, close);
  dialog.showModal();
}

function element(name, classes = "", text = "") {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  made.textContent = text;
  return made;
}

bind("?", "Show this list", help);
