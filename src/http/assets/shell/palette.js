// Ctrl-K: go to any page, document or Topic by typing a few letters.

import { plain } from "./plain.js";
import { beginsWith } from "./steps.js";

const DEBOUNCE_MS = 120;
const ROWS = 8;
/** Characters of a row before the match. */
const BEFORE = 24;
/** Most kinds of jobs offered at once. */
const KINDS = 5;

let dialog = null;
let field;
let list;
let status;
let rows = [];
let chosen = 0;
let timer = 0;
let asked = 0;
/** The query of the shown rows. */
let shownFor = null;
/** The kinds of jobs that the active script declares. */
let kinds = null;

/** Opens it with an empty query. */
export function open() {
  dialog ??= make();
  if (dialog.open) return;
  field.value = "";
  // What was found the last time is no answer to what is asked now.
  list.replaceChildren();
  rows = [];
  kinds = null;
  dialog.showModal();
  look();
}

function make() {
  const made = element("dialog", "sheet palette");
  made.setAttribute("aria-label", "Search or go to");
  field = element("input");
  Object.assign(field, { type: "search", autocomplete: "off", maxLength: 200 });
  field.placeholder = "Search documents, pages and text…";
  field.setAttribute("role", "combobox");
  field.setAttribute("aria-label", "Search or go to");
  field.setAttribute("aria-expanded", "true");
  field.setAttribute("aria-controls", "palette-list");
  list = element("ul", "palette-list");
  list.id = "palette-list";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Results");
  status = element("p", "palette-status quiet");
  status.setAttribute("role", "status");
  made.append(field, list, status);
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, DEBOUNCE_MS);
  });
  field.addEventListener("keydown", keydown);
  // A click beside it closes it.
  made.addEventListener("click", (event) => {
    if (event.target === made) made.close();
  });
  return document.body.appendChild(made);
}

function keydown(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && rows.length) choose((chosen + step + rows.length) % rows.length);
  else if (event.key === "Enter") go();
  // A field of a search would only be emptied by it.
  else if (event.key === "Escape") dialog.close();
  else return;
  event.preventDefault();
}

/** Follows the chosen row; a fast typist does not get the result for fewer letters. */
async function go() {
  clearTimeout(timer);
  // One look may be overtaken by another: then nothing of it is shown.
  while (dialog.open && shownFor !== field.value.trim()) await look();
  if (dialog.open) rows[chosen]?.querySelector("a").click();
}

async function look() {
  const query = field.value.trim();
  const turn = ++asked;
  const wanted = query.toLowerCase();
  const listed = wanted ? { query, limit: ROWS } : { order: "recent", limit: ROWS };
  const [jobs, documents, hits] = await Promise.all([
    newJobs(query),
    ask("/api/sources", listed),
    query.length > 1 ? ask("/api/search", { query: beginning(query), limit: ROWS }) : [],
  ]);
  if (turn !== asked) return;
  shownFor = query;
  const things = documents.map(({ path, title, open_topics: open }) => (
    { name: title, path, at: documentAt(path), sort: open ? `${open} open` : "Document" }
  ));
  for (const hit of hits) {
    const isDocument = hit.kind === "source";
    if (isDocument && documents.some((it) => it.path === hit.source_path)) continue;
    things.push({
      name: hit.title ?? hit.source_path, at: hit.topic_id ? topicAt(hit) : documentAt(hit.source_path),
      path: isDocument ? hit.source_path : "", sort: { source: "Document", topic: "Topic" }[hit.kind] ?? "Message",
      pieces: hit.snippet,
    });
  }
  if (wanted) things.sort((a, b) => distance(a, wanted) - distance(b, wanted));
  const found = [...pages(query), ...jobs, ...things];
  if (query) {
    const at = `/search?${new URLSearchParams({ query })}`;
    found.push({ name: `Search everywhere for “${query}”`, at, sort: "Search" });
  }
  show(found);
}

/** Ranks a document's title for the query: equal, prefix, word, anywhere. */
function distance({ name, path }, wanted) {
  const title = name.toLowerCase();
  if (!path) return 3;
  if (title === wanted) return 0;
  if (title.startsWith(wanted)) return 1;
  return beginsWith(title, wanted) ? 2 : 3;
}

/** The last word may be incomplete. */
function beginning(query) {
  return /[\p{L}\p{N}]{2}$/u.test(query) ? `${query}*` : query;
}

function* pages(query) {
  const wanted = query.toLowerCase();
  for (const link of document.querySelectorAll("[data-palette-page]")) {
    const name = link.dataset.palettePage;
    if (!wanted || !beginsWith(name, wanted)) continue;
    const at = link.getAttribute("href");
    // What has no address does something.
    yield at ? { name, at, sort: "Page" } : { name, at: "#", sort: "Action", act: () => link.click() };
  }
}

/** Returns what can be started without a Topic, and who can be sent a message, by the first letters of their words. */
async function newJobs(query) {
  const wanted = query.toLowerCase();
  if (!wanted || !document.querySelector("[data-may-start]")) return [];
  kinds ??= ask("/api/config", {}, "kinds");
  const has = (kind, type) => kind.inputs.some((it) => it.type === type && !it.from && (it.required || type !== "topic"));
  const path = documentHere();
  const told = (kind) => kind.address && kind.address.replace(/^(agent|topic):/, "");
  return (await kinds)
    .filter((kind) => (kind.address || !has(kind, "topic"))
      && beginsWith(kind.address ? `message ${told(kind)}` : `new job ${kind.name}`, wanted))
    .slice(0, KINDS)
    .map((kind) => {
      if (kind.address) {
        const page = kind.address.startsWith("agent:") ? "agents" : "inboxes";
        return { name: `Message ${told(kind)}`, at: `/${page}/${told(kind)}`, sort: "Message" };
      }
      const about = path && has(kind, "source") ? { source_path: path } : {};
      return { name: `New job: ${kind.name}`, at: `/jobs/new?${new URLSearchParams({ kind: kind.name, ...about })}`, sort: "Start" };
    });
}

/** Returns the current document, if this is its page. */
function documentHere() {
  if (!location.pathname.startsWith("/d/")) return null;
  return location.pathname.slice(3).split("/").map(decodeURIComponent).join("/");
}

async function ask(path, query, part = "items") {
  try {
    const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
    return answer.ok ? (await answer.json())[part] : [];
  } catch {
    return [];
  }
}

function documentAt(path) {
  return `/d/${path.split("/").map(encodeURIComponent).join("/")}`;
}

function topicAt(hit) {
  return `/topics/${hit.topic_id}${hit.sequence ? `#message-${hit.sequence}` : ""}`;
}

function show(found) {
  rows = found.map((it, place) => {
    const row = element("li", "palette-row");
    row.id = `palette-${place}`;
    row.setAttribute("role", "option");
    const link = element("a", "", "");
    link.href = it.at;
    link.tabIndex = -1;
    const name = element("span", "palette-name", plain(it.name));
    link.append(name, element("span", "palette-sort", it.sort));
    if (it.path && it.path !== it.name) link.append(element("span", "palette-path", plain(it.path)));
    if (it.act) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        dialog.close();
        it.act();
      });
    }
    if (it.pieces?.length) {
      const snippet = element("span", "palette-snippet");
      for (const { text, hit } of near(it.pieces)) snippet.append(hit ? element("mark", "", plain(text)) : plain(text));
      link.append(snippet);
    }
    row.append(link);
    row.addEventListener("pointermove", () => choose(place));
    return row;
  });
  list.replaceChildren(...rows);
  status.textContent = rows.length ? "" : "No results.";
  choose(0);
}

/** A row has one line, so the match is near its start. */
function near(pieces) {
  const [first, ...rest] = pieces.filter((it) => it.text !== "… ");
  if (!first || first.hit || !rest.length || first.text.length <= BEFORE) return pieces;
  const text = first.text.slice(-BEFORE);
  return [{ text: `… ${text.slice(text.indexOf(" ") + 1)}`, hit: false }, ...rest];
}

function choose(place) {
  rows[chosen]?.setAttribute("aria-selected", "false");
  chosen = place;
  const row = rows[place];
  if (!row) {
    field.removeAttribute("aria-activedescendant");
    return;
  }
  row.setAttribute("aria-selected", "true");
  row.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", row.id);
}

function element(name, classes = "", text = "") {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  made.textContent = text;
  return made;
}
