// Creates HTML from text, and replaces parts of a page in place.
//
// Nothing else here creates elements from text: `wb` is the only policy that the page may use. Its
// input is HTML from this site's server, which has escaped all text of other people.
//
// What a person is using stays: the focus, the selection, scroll positions, open folds and typed
// text. An element with `data-keep` is left as it is; `data-keep="a b"` keeps these attributes, and
// the rest is updated. A field with `data-began` says what text a person began with: it stays as long
// as something is typed into its form.

import { typedFields } from "./draft.js";

const WORKER = "/offline.js";
const RULES = { createHTML: (text) => text, createScriptURL: () => WORKER };
const policy = globalThis.trustedTypes?.createPolicy("wb", RULES) ?? RULES;
// The browser's own or a module's, never the server's to change.
const OWN_STATE = { DETAILS: ["open"], DIALOG: ["open"] };
const LOOK_AHEAD = 4;

/** Returns the address of the service worker, the one script that no page loads. */
export function worker() {
  return policy.createScriptURL(WORKER);
}

/** Returns elements created from text; scripts in it do not run. */
export function html(text) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(text);
  return template.content;
}

/** Returns a whole page created from text; nothing in it runs or is loaded. */
export function parse(text) {
  return new DOMParser().parseFromString(policy.createHTML(text), "text/html");
}

/** Replaces our elements by those with the same ids in `text` (a page, or parts of one). */
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

/** Makes one element equal to another, which may be in the page too. */
export function like(old, fresh) {
  holdingOn(() => morph(old, fresh));
}

/** Changes the page without losing focus and selection. */
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

/** Restores a lost focus: to the element with the same id, or to the nearest one around it. */
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
  if (old.hasAttribute("data-began") && typedFields(old.form).length > 0) return;
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

/** Returns the key by which an element is recognized before and after. */
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

/** Returns whether a module created an element: then all of it is kept, not only some attributes. */
function isOwn(node) {
  return node.nodeType === Node.ELEMENT_NODE && node.getAttribute("data-keep") === "";
}

/** Elements created by modules, which the server does not know, stay in place. */
function skipKept(node, keys) {
  let it = node;
  while (it && isOwn(it) && !keys.has(keyOf(it))) it = it.nextSibling;
  return it;
}

function isLike(old, fresh) {
  return old && old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && !keyOf(old)
    // A form that does something else is another form: what was typed was not meant for it.
    && (old.nodeName !== "FORM" || old.getAttribute("action") === fresh.getAttribute("action"));
}

/** Returns whether an old node follows later, unchanged: then a new one is inserted before it. */
function isAhead(old, wanted, place) {
  if (old.nodeType !== Node.ELEMENT_NODE || old.isEqualNode(wanted[place])) return false;
  return wanted.slice(place + 1, place + 1 + LOOK_AHEAD).some((it) => old.isEqualNode(it));
}

function move(parent, node, before) {
  if (parent.moveBefore) parent.moveBefore(node, before);
  else parent.insertBefore(node, before);
}
