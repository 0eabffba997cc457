// Names behind an `@`: those of members are offered while one is typed, and one that nobody has is
// said.

const BEFORE = /(^|[\s([{"'])@([\w-]*)$/;
const WORDS = /(?:^|[\s([{"'])@([A-Za-z0-9][\w-]*)/g;
const SHOWN_MAX = 8;

/** Offers names in the composer of a channel; `takes` says whether a key was for the list. */
export function names(root) {
  const list = root.querySelector("#ch-names");
  const unknown = root.querySelector("#ch-unknown");
  let chosen = 0;
  const known = (area) => (area.form.dataset.names ?? "").split(" ").filter(Boolean);
  const close = (area) => {
    list.hidden = true;
    list.replaceChildren();
    area?.removeAttribute("aria-activedescendant");
  };
  const choose = (area, at) => {
    const options = [...list.children];
    chosen = (at + options.length) % options.length;
    options.forEach((it, index) => it.setAttribute("aria-selected", String(index === chosen)));
    area.setAttribute("aria-activedescendant", options[chosen].id);
    options[chosen].scrollIntoView({ block: "nearest" });
  };
  const accept = (area, name) => {
    const end = area.selectionStart;
    const start = area.value.slice(0, end).search(/@[\w-]*$/);
    area.setRangeText(`@${name} `, start, end, "end");
    close(area);
    area.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const offer = (area) => {
    const typed = BEFORE.exec(area.value.slice(0, area.selectionStart))?.[2];
    if (typed === undefined) return close(area);
    const begin = typed.toLowerCase();
    const found = known(area).filter((it) => it.toLowerCase().startsWith(begin)).slice(0, SHOWN_MAX);
    if (found.length === 0 || (found.length === 1 && found[0].toLowerCase() === begin)) {
      return close(area);
    }
    list.replaceChildren(...found.map((name, index) => {
      const option = document.createElement("li");
      option.id = `ch-name-${index}`;
      option.role = "option";
      option.textContent = `@${name}`;
      option.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        accept(area, name);
      });
      return option;
    }));
    list.hidden = false;
    area.setAttribute("aria-controls", list.id);
    choose(area, 0);
  };
  const judge = (area) => {
    const all = known(area).map((it) => it.toLowerCase());
    // The word that is being typed may still become a name.
    const before = area.value.slice(0, area.selectionStart).replace(/@[\w-]*$/, "");
    const text = `${before} ${area.value.slice(area.selectionStart)}`;
    const strangers = [...text.matchAll(WORDS)].map((it) => it[1])
      .filter((it) => !all.includes(it.toLowerCase()));
    const line = strangers.length ? `No member is called ${[...new Set(strangers)].join(", ")}.` : "";
    if (unknown.textContent !== line) unknown.textContent = line;
  };
  root.addEventListener("input", (event) => {
    const area = event.target.closest("#ch-say textarea");
    if (!area) return;
    offer(area);
    judge(area);
  });
  root.addEventListener("reset", () => {
    close(root.querySelector("#ch-say textarea"));
    unknown.textContent = "";
  });
  root.addEventListener("focusout", (event) => {
    if (event.target.closest("#ch-say textarea")) close(event.target);
  });
  return {
    takes(event, area) {
      if (list.hidden) return false;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) choose(area, chosen + step);
      else if (event.key === "Escape") close(area);
      else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) {
        accept(area, list.children[chosen].textContent.slice(1));
      } else return false;
      event.preventDefault();
      event.stopPropagation();
      return true;
    },
  };
}
