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
    return say("It could not be copied");
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

/** An answer keeps its form where it is pasted into a document, and is Markdown elsewhere. */
function answer(button) {
  const said = button.closest(".chat-answer");
  const bare = said.querySelector(".chat-blocks").cloneNode(true);
  for (const it of bare.querySelectorAll("[data-copy]")) it.remove();
  return new ClipboardItem({
    // A promise: what is written after the click has ended is refused.
    "text/plain": source(said.id.replace("run-", "")),
    "text/html": blob("text/html", bare.innerHTML),
  });
}

/** Returns what the model wrote. */
async function source(run) {
  const answer = await fetch(`/api/agent/runs/${run}`);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return blob("text/plain", (await answer.json()).text);
}
