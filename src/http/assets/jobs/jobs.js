// The board of jobs and the page of one: running clocks, tabs on a phone, and parts that are fetched
// again while a job runs.

import { span } from "./span.js";
import * as swap from "./swap.js";
import { Tail } from "./tail.js";

const TICK_MS = 1_000;
const REFRESH_MS = 4_000;
// Parts of a job's page that grow while it runs, without an event.
const GROWING = ["job-silence", "job-said", "job-about"];

const seen = new WeakMap();

/** Starts; called once for each element that names this module. */
export function start(element) {
  if (element.classList.contains("board-page")) tabs(element);
  const box = element.querySelector("[data-log]");
  if (!box) return;
  const tail = new Tail(box);
  tail.start();
  setInterval(() => refresh(tail), REFRESH_MS);
}

// --- clocks ---

function tick() {
  if (document.hidden) return;
  for (const element of document.querySelectorAll(".tick[data-elapsed]")) {
    const said = element.dataset.elapsed;
    let from = seen.get(element);
    if (from?.said !== said) {
      from = { said, at: performance.now() };
      seen.set(element, from);
    }
    const ms = Number(said) + performance.now() - from.at;
    if (element.localName !== "span") element.value = ms;
    else if (element.textContent !== span(ms)) element.textContent = span(ms);
  }
}

setInterval(tick, TICK_MS);
document.addEventListener("wb:swapped", tick);
tick();

// --- the page of a job ---

async function refresh(tail) {
  if (document.hidden || !tail.isRunning || !tail.box.isConnected) return;
  const ids = GROWING.filter((it) => document.getElementById(it));
  try {
    const answer = await fetch(location.pathname, {
      headers: { "wb-fragment": ids.join(",") }, cache: "no-store",
    });
    if (answer.ok) swap.fragment(await answer.text(), ids);
  } catch {
    // The server is gone for the moment: that is shown by the shell, and this is asked again.
  }
}

// --- the board on a phone ---

function tabs(page) {
  const links = () => page.querySelectorAll(".board-tabs a");
  const choose = (id) => {
    page.dataset.tab = id;
    for (const link of links()) {
      if (link.hash === `#${id}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  page.addEventListener("click", (event) => {
    const link = event.target.closest(".board-tabs a");
    if (!link) return;
    event.preventDefault();
    choose(link.hash.slice(1));
  });
  document.addEventListener("wb:swapped", () => {
    if (page.isConnected) choose(page.dataset.tab);
  });
  const has = (id) => page.querySelector(`#${id} .card`);
  choose(location.hash.slice(1) || ["running", "queued", "ended"].find(has) || "running");
}
