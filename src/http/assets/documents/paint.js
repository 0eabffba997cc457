// Converts positions in blocks to ranges of the page, and marks the passages of Topics.

import { point, trimmed, written } from "./margin.js";

const DOUBTFUL = ["rewritten", "ambiguous"];

export function blockOf(node) {
  const element = node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement;
  return element?.closest("[data-b]") ?? null;
}

/** Returns the node and offset at a number of UTF-16 units in a block's text. */
function placeIn(block, unit, isEnd) {
  const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
  let left = unit;
  let last = null;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    // A beginning stands before a character, an end behind one.
    if (left < node.length || (isEnd && left <= node.length)) return [node, left];
    left -= node.length;
    last = node;
  }
  return last ? [last, last.length] : [block, isEnd ? block.childNodes.length : 0];
}

/** Returns the folded elements that hide a node, innermost first; a summary hides nothing. */
export function foldsOf(node) {
  const folds = [];
  for (let at = node; at?.parentElement; at = at.parentElement) {
    const around = at.parentElement;
    const isHidden = around.nodeName === "DETAILS" && !around.open;
    if (isHidden && at !== around.querySelector(":scope > summary")) folds.push(around);
  }
  return folds;
}

/** Unfolds what hides a passage. */
export function unfold({ startContainer, endContainer }) {
  for (const fold of [...foldsOf(startContainer), ...foldsOf(endContainer)]) fold.open = true;
}

/** Returns the range between two positions `BLOCK:UNITS`; nothing if a block is missing. */
export function rangeOf(blocks, from, to) {
  const [first, last] = [point(from), point(to)];
  const [start, end] = [blocks.get(first.block), blocks.get(last.block)];
  if (!start || !end) return null;
  const range = document.createRange();
  range.setStart(...placeIn(start, first.unit, false));
  range.setEnd(...placeIn(end, last.unit, true));
  return range;
}

function unitsBefore(block, node, offset) {
  const before = document.createRange();
  before.setStart(block, 0);
  before.setEnd(node, offset);
  return before.toString().length;
}

/** Returns the selected part of a text: `{ from, to }`, or nothing. */
export function selectedIn(text) {
  const selection = getSelection();
  if (selection.rangeCount === 0 || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  if (!text.contains(range.commonAncestorContainer)) return null;
  const touched = pointsOf(text, range);
  const found = touched && trimmed(touched.blocks.map((it) => it.textContent), touched.from, touched.to);
  if (!found) return null;
  const at = (index, unit) => written({ block: Number.parseInt(touched.blocks[index].dataset.b, 10), unit });
  return { from: at(found.first, found.from), to: at(found.last, found.to) };
}

/** Returns the blocks that a range touches, and its start and end in the first and the last. */
function pointsOf(text, range) {
  const first = blockOf(range.startContainer);
  const last = blockOf(range.endContainer);
  let blocks;
  if (first && first === last) {
    blocks = [first];
  } else {
    blocks = [...text.querySelectorAll("[data-b]")].filter((it) => range.intersectsNode(it));
  }
  if (blocks.length === 0) return null;
  const [head, tail] = [blocks[0], blocks.at(-1)];
  const from = head.contains(range.startContainer)
    ? unitsBefore(head, range.startContainer, range.startOffset) : 0;
  const to = tail.contains(range.endContainer)
    ? unitsBefore(tail, range.endContainer, range.endOffset) : tail.textContent.length;
  return { blocks, from, to };
}

/**
 * Returns what a passage is found by in another version of a text: the words of its blocks and of
 * those around them, where it begins in the first and ends in the last, and its own words.
 */
export function likeness(text, from, to) {
  const [first, last] = [point(from), point(to)];
  const { all, words } = blocksOf(text);
  const at = (block) => all.findLastIndex((it) => Number.parseInt(it.dataset.b, 10) === block);
  const [start, end] = [at(first.block), at(last.block)];
  if (start < 0 || end < start) return null;
  const seen = {
    blocks: words.slice(start, end + 1), before: words[start - 1] ?? "", after: words[end + 1] ?? "",
    from: first.unit, to: last.unit, isWhole: from === to,
  };
  const own = start === end && !seen.isWhole ? words[start].slice(seen.from, seen.to) : "";
  // Words that stand elsewhere too tell nothing.
  seen.own = own && text.textContent.split(own).length === 2 ? own : "";
  seen.isOnly = sequences(words, seen.blocks).length === 1;
  return seen.blocks.some((it) => it) ? seen : null;
}

/** Returns the place of a passage in another version of its text; nothing if that is not certain. */
export function findAgain(text, seen) {
  const { all, words } = blocksOf(text);
  const isAround = (at) => (words[at - 1] ?? "") === seen.before
    && (words[at + seen.blocks.length] ?? "") === seen.after;
  const found = sequences(words, seen.blocks).filter((at) => seen.isOnly || isAround(at));
  const place = (at, unit) => written({ block: Number.parseInt(all[at].dataset.b, 10), unit });
  if (found.length === 1) {
    const [at] = found;
    return { from: place(at, seen.from), to: place(at + seen.blocks.length - 1, seen.to) };
  }
  if (found.length > 1 || !seen.own || text.textContent.split(seen.own).length !== 2) return null;
  const at = words.findLastIndex((it) => it.includes(seen.own));
  if (at < 0) return null;
  const unit = words[at].indexOf(seen.own);
  return { from: place(at, unit), to: place(at, unit + seen.own.length) };
}

function blocksOf(text) {
  const all = [...text.querySelectorAll("[data-b]")];
  return { all, words: all.map((it) => it.textContent) };
}

/** Returns where some words follow one another. */
function sequences(words, wanted) {
  return words.flatMap((_, at) => (wanted.every((it, by) => words[at + by] === it) ? [at] : []));
}

/** Marks a passage: without changing the page if the browser can, otherwise with elements. */
export class Paint {
  canHighlight = Boolean(globalThis.CSS?.highlights && globalThis.Highlight);

  /** `notes` are `{ topic, state, find, range }`; `find` returns the range as it is now. */
  topics(notes, active) {
    const found = { "wb-topic": [], "wb-review": [], "wb-active": [] };
    for (const note of notes) {
      if (!note.range) continue;
      found[DOUBTFUL.includes(note.state) ? "wb-review" : "wb-topic"].push(note);
      if (note.topic === active) found["wb-active"].push(note);
    }
    for (const [name, all] of Object.entries(found)) this.set(name, all.map((it) => it.find));
    // Elements that came between have moved the ends of the ranges.
    if (!this.canHighlight) for (const note of notes) note.range &&= note.find();
  }

  selection(find) {
    this.set("wb-new", find ? [find] : []);
  }

  set(name, finders) {
    if (!this.canHighlight) return this.wrap(name, finders);
    const ranges = finders.map((it) => it()).filter(Boolean);
    if (ranges.length === 0) return CSS.highlights.delete(name);
    const highlight = new Highlight(...ranges);
    highlight.priority = { "wb-active": 1, "wb-new": 2 }[name] ?? 0;
    CSS.highlights.set(name, highlight);
  }

  wrap(name, finders) {
    for (const mark of document.querySelectorAll(`mark.${name}`)) mark.replaceWith(...mark.childNodes);
    for (const find of finders) {
      const range = find();
      if (range) wrapWords(range, name);
    }
  }
}

function wrapWords(range, name) {
  const { startContainer, startOffset, endContainer, endOffset } = range;
  const root = range.commonAncestorContainer;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const nodes = root.nodeType === Node.TEXT_NODE ? [root] : [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (range.intersectsNode(node) && blockOf(node)) nodes.push(node);
  }
  for (const node of nodes) {
    const from = node === startContainer ? startOffset : 0;
    const to = node === endContainer ? endOffset : node.length;
    if (from >= to) continue;
    if (to < node.length) node.splitText(to);
    const piece = from > 0 ? node.splitText(from) : node;
    const mark = document.createElement("mark");
    mark.className = name;
    piece.replaceWith(mark);
    mark.append(piece);
  }
}
