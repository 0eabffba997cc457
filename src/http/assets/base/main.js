// The entry point of every page's script: loads the modules that the page names.
//
// Pages work without any of this; the scripts make them live.

import "./person.js";
import "./press.js";
import "./draft.js";
import "./forms.js";
import "./notify.js";
import "./shell.js";

const MODULES = {
  // name in `data-module` → its module, which exports `start(element)`.
  chat: () => import("./chat.js"),
  channel: () => import("./channel.js"),
  jobs: () => import("./jobs.js"),
  review: () => import("./review.js"),
  suggest: () => import("./suggest.js"),
  topic: () => import("./topic.js"),
  reader: () => import("./reader.js"),
  rows: () => import("./rows.js"),
  seen: () => import("./seen.js"),
  tree: () => import("./tree.js"),
  turn: () => import("./turn.js"),
};

const started = new WeakMap();
/** Modules being loaded; `data-modules` of the page shows whether there are any. */
let awaited = 0;

/** Starts the modules of all new elements. */
function startAll() {
  for (const element of document.querySelectorAll("[data-module]")) {
    const names = started.get(element) ?? new Set();
    started.set(element, names);
    for (const name of element.dataset.module.split(" ")) {
      if (names.has(name) || !Object.hasOwn(MODULES, name)) continue;
      names.add(name);
      begin(name, element);
    }
  }
  tell();
}

async function begin(name, element) {
  awaited += 1;
  try {
    (await MODULES[name]()).start(element);
  } finally {
    awaited -= 1;
    tell();
  }
}

function tell() {
  document.documentElement.dataset.modules = awaited ? "starting" : "started";
}

document.addEventListener("wb:swapped", startAll);
startAll();
