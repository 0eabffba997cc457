// Makes HTML from text, and puts new parts of a page in the place of old ones.
//
// Nothing else here makes elements from text: the policy `wb` is the only one that the page may
// have. What it gets is what this site's server wrote, where all text of others is escaped.
//
// What a person holds on to stays: the focus, the selection, how far something is scrolled, what is
// folded open and what was typed. An element with `data-keep` is left as it is; `data-keep="a b"`
// keeps these attributes, and the rest follows.

const WORKER = "/offline.js";
const RULES = { createHTML: (text) => text, createScriptURL: () => WORKER };
const policy = globalThis.trustedTypes?.createPolicy("wb", RULES) ?? RULES;
// The browser's own or a module's, never the server's to change.
const OWN_STATE = { DETAILS: ["open"], DIALOG: ["open"] };
const LOOK_AHEAD = 4;

/** Returns the address of the one script that is not loaded by a page. */
export function worker() {
  return policy.createScriptURL(WORKER);
}

/** Returns elements made from text; nothing of it runs. */
export function html(text) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(text);
  return template.content;
}

/** Returns a whole page made from text; nothing of it runs or is loaded. */
export function parse(text) {
  return new DOMParser().parseFromString(policy.createHTML(text), "text/html");
}

/** Puts the elements with these ids of `text` (a page, or parts of one) in the place of ours. */
export function fragment(text, ids) {
  elements(parse(text), ids);
}

/**
 * The same with a page that is parsed already. An element that is not in it becomes empty. A module
 * that sees more in it than a swap takes over by preventing `wb:swapping`.
 */
export function elements(page, ids) {
  const asking = new CustomEvent("wb:swapping", { cancelable: true, detail: { page, ids } });
  if (!document.dispatchEvent(asking)) return;
  const olds = ids.map((id) => document.getElementById(id)).filter(Boolean);
  const outer = olds.filter((it) => !olds.some((other) => other !== it && other.contains(it)));
  const changed = outer.filter((it) => {
    const fresh = page.getElementById(it.id);
    return !fresh || !it.isEqualNode(fresh);
  });
  if (changed.length === 0) return;
  holdingOn(() => {
    for (const old of changed) {
      const fresh = page.getElementById(old.id);
      if (fresh) morph(old, fresh);
      else old.replaceChildren();
    }
  });
  for (const old of changed) {
    if (old.isConnected) {
      old.dispatchEvent(new CustomEvent("wb:swapped", { bubbles: true, detail: { ids: [old.id] } }));
    }
  }
}

/** Makes one element like another, which may be in the page too. */
export function like(old, fresh) {
  holdingOn(() => morph(old, fresh));
}

/** Changes the page without taking the focus and the selection away. */
function holdingOn(change) {
  const active = document.activeElement;
  const around = [];
  for (let it = active; it; it = it.parentElement) around.push(it);
  const selection = getSelection();
  const { anchorNode, anchorOffset, focusNode, focusOffset, isCollapsed } = selection;
  change();
  if (active && active !== document.body) {
    if (!active.isConnected) focusNear(active, around);
    else if (document.activeElement !== active) active.focus({ preventScroll: true });
  }
  if (isCollapsed || !anchorNode?.isConnected || !focusNode?.isConnected) return;
  const isSame = selection.anchorNode === anchorNode && selection.anchorOffset === anchorOffset
    && selection.focusNode === focusNode && selection.focusOffset === focusOffset;
  if (isSame) return;
  const within = (node, offset) => Math.min(offset, node.data?.length ?? node.childNodes.length);
  selection.setBaseAndExtent(
    anchorNode, within(anchorNode, anchorOffset), focusNode, within(focusNode, focusOffset),
  );
}

/** What had the focus is gone: what has its id has it now, or else what was around it. */
function focusNear(gone, around) {
  let home = gone.id ? document.getElementById(gone.id) : null;
  home ??= around.find((it) => it.isConnected && it !== document.body);
  if (!home) return;
  home.focus({ preventScroll: true });
  if (document.activeElement === home) return;
  home.tabIndex = -1;
  home.focus({ preventScroll: true });
}

function morph(old, fresh) {
  if (old.hasAttribute("data-keep") && !old.dataset.keep) return;
  if (old.isEqualNode(fresh)) return;
  attributes(old, fresh);
  children(old, fresh);
}

function attributes(old, fresh) {
  const kept = new Set([...(OWN_STATE[old.nodeName] ?? []), ...(old.dataset.keep ?? "").split(" ")]);
  for (const { name, value } of [...fresh.attributes]) {
    if (!kept.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!kept.has(name) && !fresh.hasAttribute(name) && name !== "tabindex") {
      old.removeAttribute(name);
    }
  }
}

/** Under which name an element is the same one before and after. */
function keyOf(node) {
  return node.id || node.dataset?.key || null;
}

function children(old, fresh) {
  const wanted = [...fresh.childNodes];
  const keys = new Set(wanted.map(keyOf).filter(Boolean));
  const keyed = new Map();
  for (const node of [...old.childNodes]) {
    const key = keyOf(node);
    if (key && keys.has(key)) keyed.set(key, node);
    else if (key && !isOwn(node)) node.remove();
  }
  let at = skipKept(old.firstChild, keys);
  wanted.forEach((next, place) => {
    const key = keyOf(next);
    let match = key ? keyed.get(key) : null;
    if (match && match.nodeName !== next.nodeName) match = null;
    if (!key && isLike(at, next) && !isAhead(at, wanted, place)) match = at;
    if (!match) {
      old.insertBefore(document.importNode(next, true), at);
      return;
    }
    if (match === at) at = skipKept(at.nextSibling, keys);
    else move(old, match, at);
    if (match.nodeType === Node.ELEMENT_NODE) morph(match, next);
    else if (match.data !== next.data) match.data = next.data;
  });
  while (at) {
    const next = skipKept(at.nextSibling, keys);
    at.remove();
    at = next;
  }
}

/** Whether a module has put it there: all of it is kept, and not some attributes alone. */
function isOwn(node) {
  return node.nodeType === Node.ELEMENT_NODE && node.getAttribute("data-keep") === "";
}

/** What a module has put there, and the server does not know of, stays where it is. */
function skipKept(node, keys) {
  let it = node;
  while (it && isOwn(it) && !keys.has(keyOf(it))) it = it.nextSibling;
  return it;
}

function isLike(old, fresh) {
  return old && old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && !keyOf(old);
}

/** Whether an old node comes a little later, unchanged: then something new stands before it. */
function isAhead(old, wanted, place) {
  if (old.nodeType !== Node.ELEMENT_NODE || old.isEqualNode(wanted[place])) return false;
  return wanted.slice(place + 1, place + 1 + LOOK_AHEAD).some((it) => old.isEqualNode(it));
}

function move(parent, node, before) {
  if (parent.moveBefore) parent.moveBefore(node, before);
  else parent.insertBefore(node, before);
}
