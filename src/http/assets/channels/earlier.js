// Earlier messages are put above those of the page, and what is being read stays where it is. Without
// this, the link leads to the page of them.

import { parse } from "./swap.js";

/** Returns the number of a message; none of a line that is no message. */
const numberOf = (line) => Number(/^m(\d+)$/.exec(line.id)?.[1]);
const messagesIn = (list) => [...list.querySelectorAll(":scope > [id^=m]")].filter(numberOf);

export function earlier(root, lines) {
  const before = root.querySelector("#ch-before");
  const link = root.querySelector("[data-earlier]");
  if (!link) return;
  // The page shows the last messages only: what it drops when newer ones come stays above it.
  new MutationObserver((changes) => {
    const first = messagesIn(lines)[0];
    if (before.hidden || !first) return;
    const dropped = changes.flatMap((it) => [...it.removedNodes])
      .filter((it) => it.id && !it.isConnected && numberOf(it) < numberOf(first) && !document.getElementById(it.id));
    before.append(...dropped);
  }).observe(lines, { childList: true });
  let isAsked = false;
  link.addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (isAsked) return;
    isAsked = true;
    const [read] = [...messagesIn(before), ...messagesIn(lines)];
    const address = `${location.pathname}?before=${numberOf(read)}`;
    const text = await fetch(address).then((it) => it.ok ? it.text() : null).catch(() => null);
    if (text === null) return location.assign(address);
    const page = parse(text);
    const found = messagesIn(page.querySelector("#ch-lines"));
    const place = read.getBoundingClientRect().top;
    before.prepend(...found);
    before.hidden = false;
    if (!page.querySelector("[data-earlier]")) link.parentElement.remove();
    scrollBy({ top: read.getBoundingClientRect().top - place, behavior: "instant" });
    isAsked = false;
  });
}
