// The list of documents next to a document: scrolls to the current one, and remembers whether the
// list is folded.

import { button } from "./reader.js";

export function start(tree) {
  const list = tree.querySelector("details");
  if (!list) return;
  const isWide = matchMedia("(min-width: 1261px)").matches;
  const isFolded = () => "folded" in tree.dataset;
  // A browser that cannot unfold it by its sheet.
  if (isWide && !isFolded() && !CSS.supports("selector(::details-content)")) list.open = true;
  const [here, rows] = [tree.querySelector("[aria-current]"), list.querySelector("ul")];
  if (here && isWide) rows.scrollTop = here.offsetTop - rows.offsetTop - rows.clientHeight / 2;
  const fold = button("", () => {
    tree.toggleAttribute("data-folded");
    list.open = false;
    name();
    keep(!isFolded());
  }, { classes: "tree-fold" });
  const name = () => { fold.textContent = isFolded() ? "Keep open" : "Hide"; };
  fold.dataset.keep = "";
  name();
  tree.append(fold);
}

async function keep(hasDocuments) {
  const { theme = "system", keys } = document.documentElement.dataset;
  const look = new URLSearchParams({ theme });
  if (keys !== "off") look.set("keys", "on");
  if (hasDocuments) look.set("documents", "on");
  // Without an answer the list is as it was on the next page: nothing else is at stake.
  await fetch("/settings/look", { method: "POST", body: look, redirect: "manual" }).catch(() => {});
}
