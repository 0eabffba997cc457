// Buttons that copy an answer, or a block of code in it. Their words are in the style sheet: what is
// copied has none of them.

import { say } from "./say.js";

const TOLD_MS = 2_000;

/** Adds the buttons to blocks of code that have none. */
export function copying(root) {
  // Only pages by HTTPS, and of this machine, may copy.
  if (!navigator.clipboard?.write) return;
  document.documentElement.dataset.copies = "";
  const blocks = root.closest?.(".chat-blocks") ? root : document;
  for (const left of blocks.querySelectorAll(".chat-copy-code")) {
    if (!left.nextElementSibling?.matches("pre")) left.remove();
  }
  for (const code of blocks.querySelectorAll(".chat-blocks pre")) {
    if (code.previousElementSibling?.matches("[data-copy]")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link chat-copy chat-copy-code";
    button.dataset.copy = "code";
    button.dataset.keep = "";
    button.ariaLabel = "Copy this code";
    code.before(button);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.write([button.dataset.copy === "code" ? code(button) : answer(button)]);
  } catch {
    return say("This browser did not let the page copy");
  }
  say("Copied");
  button.dataset.told = "";
  setTimeout(() => delete button.dataset.told, TOLD_MS);
});

const blob = (type, text) => new Blob([text], { type });

function code(button) {
  const text = button.nextElementSibling.textContent;
  return new ClipboardItem({ "text/plain": blob("text/plain", text) });
}

/** An answer keeps its form where it is pasted into a document, and is text elsewhere. */
function answer(button) {
  const blocks = button.closest(".chat-answer").querySelector(".chat-blocks");
  const bare = blocks.cloneNode(true);
  for (const it of bare.querySelectorAll("[data-copy]")) it.remove();
  const text = blocks.innerText.replace(/\n{3,}/g, "\n\n").trim();
  return new ClipboardItem({
    "text/plain": blob("text/plain", text),
    "text/html": blob("text/html", bare.innerHTML),
  });
}
