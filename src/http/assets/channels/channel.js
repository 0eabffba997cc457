// A conversation: Enter sends (Shift+Enter breaks the line), whoever reads the end keeps seeing it,
// and what was seen is told to the server, so that lists know what is new. Who cannot see it hears
// who has answered, and not what.

import { attaching } from "./attach.js";
import { earlier } from "./earlier.js";
import { bind } from "./keys.js";
import { refreshIn } from "./live.js";
import { names } from "./names.js";

const NEAR_PX = 160;

export function start(root) {
  const listbox = names(root);
  root.addEventListener("keydown", (event) => {
    const area = event.target.closest("textarea[name=body]");
    if (!area || event.isComposing || listbox.takes(event, area)) return;
    if (event.key !== "Enter" || event.shiftKey) return;
    // A keyboard on a screen has no other way to break a line.
    if (event.ctrlKey || event.metaKey || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    const files = area.form.elements.attachments?.value;
    if (area.value.trim() || files) area.form.requestSubmit();
  });
  attachingOnce(root.querySelector("#ch-foot"));
  const area = () => root.querySelector("#ch-say textarea");
  const lines = root.querySelector("#ch-lines");
  replying(root, lines, area);
  earlier(root, lines);
  const down = root.querySelector("#ch-down");
  const last = () => Number(lines.dataset.last);
  let isAtEnd = true;
  let seen = last();
  let told = Number(lines.dataset.read ?? last());
  const tell = async () => {
    if (document.hidden || !isAtEnd || !("read" in lines.dataset) || last() <= told) return;
    told = last();
    const body = new URLSearchParams({ sequence: String(told) });
    await fetch(`${location.pathname}/read`, { method: "POST", body, redirect: "manual" })
      .catch(() => { told = 0; });
    // An escalation that was read waits no more.
    const bar = document.querySelector(".bar-nav");
    if (bar?.querySelector("#decisions:not(:empty)")) refreshIn(bar);
  };
  const show = () => {
    if (isAtEnd) seen = last();
    const count = last() - seen;
    down.hidden = count <= 0;
    down.textContent = `${count} new \u2193`;
    tell();
  };
  const look = () => {
    isAtEnd = lines.getBoundingClientRect().bottom <= innerHeight + NEAR_PX;
    show();
  };
  const toEnd = (options) => lines.lastElementChild?.scrollIntoView({ block: "end", ...options });
  const keepMark = marking(lines);
  const announce = announcing(lines, root.querySelector("#ch-said"), last);
  // What a person writes here shows them the end, wherever they were.
  root.addEventListener("submit", (event) => { isAtEnd ||= event.target.id === "ch-say"; });
  const follow = () => {
    keepMark();
    announce();
    if (isAtEnd) toEnd();
    show();
  };
  down.addEventListener("click", () => {
    toEnd();
    root.querySelector("#ch-say textarea")?.focus({ preventScroll: true });
  });
  addEventListener("scroll", look, { passive: true });
  document.addEventListener("visibilitychange", look);
  new MutationObserver(follow).observe(lines, { childList: true });
  if (location.hash || location.search) return look();
  const mark = root.querySelector("#ch-mark");
  // What is new is read from its beginning.
  if (mark && mark.getBoundingClientRect().top < lines.getBoundingClientRect().bottom - innerHeight) {
    mark.scrollIntoView({ block: "center" });
    return look();
  }
  toEnd();
  look();
}

/** A message can be replied to: by its link, or with `r` on it; `j` and `k` go from one to the next. */
function replying(root, lines, area) {
  const show = (number) => {
    const place = root.querySelector("#ch-replying");
    if (!place) return;
    place.hidden = !number;
    place.querySelector("input").value = number;
    place.querySelector("span").textContent = `In reply to ${number}`;
  };
  const begin = (number) => {
    show(number);
    area().focus();
  };
  root.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest("[data-reply], [data-no-reply]");
    if (!link || !area()) return;
    event.preventDefault();
    begin(link.dataset.reply ?? "");
  });
  // Sent: the next message replies to nothing. Refused: it replies to what it did.
  const number = () => root.querySelector("#ch-replying input");
  let replied = [];
  root.addEventListener("wb:sending", (event) => {
    if (event.target.id !== "ch-say") return;
    replied.push(number().value);
    show("");
  });
  root.addEventListener("reset", (event) => {
    if (event.target.id === "ch-say") replied.shift();
  });
  root.addEventListener("wb:refused", (event) => {
    if (event.target.id !== "ch-say") return;
    if (!number().value) show(replied.find(Boolean) ?? "");
    replied = [];
  });
  const own = () => document.activeElement?.closest(".ch-lines .ch-line");
  const reply = () => {
    const link = own()?.querySelector("[data-reply]");
    if (link) begin(link.dataset.reply);
    else area().focus();
  };
  bind("r", "Write a message, or reply to the one in focus", reply, { when: area });
  const step = (by) => {
    const all = [...root.querySelectorAll(".ch-lines .ch-line")];
    const at = all.indexOf(own());
    const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
    all[next]?.querySelector(".message-head a").focus();
  };
  const when = () => lines.isConnected && lines.querySelector(".ch-line");
  bind("j", "Next message", () => step(1), { when });
  bind("k", "Previous message", () => step(-1), { when });
}

/** The composer appears when somebody joins, and is replaced when they leave and rejoin. */
function attachingOnce(foot) {
  let known = null;
  const look = () => {
    const form = foot.querySelector("#ch-say");
    if (form && form !== known) attaching(form);
    known = form;
  };
  new MutationObserver(look).observe(foot, { childList: true });
  look();
}

/** Returns a function that says which agents have answered since it was called before. */
function announcing(lines, status, last) {
  let known = last();
  return () => {
    const isNew = (line) => Number(line.id.slice(1)) > known;
    const fresh = [...lines.querySelectorAll(".ch-agent")].filter(isNew);
    const names = new Set(fresh.map((line) => line.querySelector(".message-head strong").textContent));
    if (names.size) status.textContent = `${[...names].join(", ")} answered`;
    known = Math.max(known, last());
  };
}

/** What was new when the page was opened stays marked as long as somebody is there. */
function marking(lines) {
  let mark = lines.querySelector("#ch-mark");
  let next = mark?.nextElementSibling?.id;
  return () => {
    const own = lines.querySelector("#ch-mark");
    if (own) {
      mark = own;
      next = own.nextElementSibling?.id ?? next;
    } else if (mark && next) {
      document.getElementById(next)?.before(mark);
    }
  };
}
