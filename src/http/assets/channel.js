// A conversation: Enter sends (Shift+Enter breaks the line), and whoever reads the end keeps seeing
// it.

const NEAR_PX = 160;

export function start(root) {
  root.addEventListener("keydown", (event) => {
    const area = event.target.closest("textarea[name=body]");
    if (!area || event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    // A keyboard on a screen has no other way to break a line.
    if (event.ctrlKey || event.metaKey || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    if (area.value.trim()) area.form.requestSubmit();
  });
  const lines = root.querySelector("#ch-lines");
  let isAtEnd = true;
  const look = () => {
    isAtEnd = lines.getBoundingClientRect().bottom <= innerHeight + NEAR_PX;
  };
  const follow = () => {
    if (isAtEnd) lines.lastElementChild?.scrollIntoView({ block: "end" });
  };
  addEventListener("scroll", look, { passive: true });
  new MutationObserver(follow).observe(lines, { childList: true });
  if (!location.hash && !location.search) follow();
}
