// Tells people who do not see the page what has happened: the one polite live region.

/** Says a sentence; the same one again is said again. */
export function say(text) {
  const region = document.getElementById("say");
  if (!region) return;
  region.textContent = "";
  setTimeout(() => { region.textContent = text; }, 60);
}
