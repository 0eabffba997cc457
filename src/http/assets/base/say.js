// Announcements for screen readers: the one polite live region.

/** Announces a sentence, even if it is the same as the last one. */
export function say(text) {
  const region = document.getElementById("say");
  if (!region) return;
  region.textContent = "";
  setTimeout(() => { region.textContent = text; }, 60);
}
