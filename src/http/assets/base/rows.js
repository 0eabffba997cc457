// Lists by keyboard: `j` and `k` go from row to row; in the tree of documents the arrow keys do too,
// and fold and unfold.

import { bind } from "./keys.js";

const ROWS = ".row-main[href], .outline :is(a, summary), .documents a";

export function start(list) {
  const when = () => list.isConnected && rows(list).length > 0;
  bind("j", "Next row", () => step(list, 1), { when });
  bind("k", "Previous row", () => step(list, -1), { when });
  list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest?.(".outline")) return;
    if (arrow(list, event)) event.preventDefault();
  });
}

/** Returns visible rows: not those in a closed folder. */
function rows(list) {
  return [...list.querySelectorAll(ROWS)].filter((it) => it.checkVisibility());
}

function step(list, by) {
  const all = rows(list);
  const at = all.indexOf(document.activeElement);
  all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
}

function arrow(list, { key, target }) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[key];
  if (by) {
    step(list, by);
    return true;
  }
  const own = target.localName === "summary" ? target.parentElement : null;
  const above = (own?.parentElement ?? target).closest("details");
  if (key === "ArrowRight" && own) own.open = true;
  else if (key === "ArrowLeft" && own?.open) own.open = false;
  else if (key === "ArrowLeft" && above && list.contains(above)) above.querySelector("summary").focus();
  else return false;
  return true;
}
