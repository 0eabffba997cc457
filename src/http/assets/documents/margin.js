// Positions of notes in the margin, as numbers; without a DOM.

/** Parses `120:7`: the first byte of a block, and an offset in UTF-16 units in it. */
export function point(text) {
  const [block, unit] = text.split(":").map(Number);
  return { block, unit };
}

export function written({ block, unit }) {
  return `${block}:${unit}`;
}

/**
 * Returns where notes stand: each at the height of its words if it can, none over another, in order.
 * `notes` are `{ top, height }` sorted by top; the pinned one stands exactly at its words, and those
 * before it go up as far as they must. None stands above `least`.
 */
export function arrange(notes, { gap = 12, least = 0, pinned = -1 } = {}) {
  const tops = new Array(notes.length);
  let floor = least;
  for (let at = 0; at < notes.length; at++) {
    tops[at] = Math.max(notes[at].top, floor);
    floor = tops[at] + notes[at].height + gap;
  }
  if (pinned < 0 || pinned >= notes.length) return tops;
  // The room that the ones before need above is not given up.
  let needed = least;
  for (let at = 0; at < pinned; at++) needed += notes[at].height + gap;
  tops[pinned] = Math.max(notes[pinned].top, needed);
  let ceiling = tops[pinned] - gap;
  for (let at = pinned - 1; at >= 0; at--) {
    tops[at] = Math.min(tops[at], ceiling - notes[at].height);
    ceiling = tops[at] - gap;
  }
  floor = tops[pinned] + notes[pinned].height + gap;
  for (let at = pinned + 1; at < notes.length; at++) {
    tops[at] = Math.max(notes[at].top, floor);
    floor = tops[at] + notes[at].height + gap;
  }
  return tops;
}

/**
 * Leaves out white space at both ends of a selection. `texts` are the texts of its blocks; `from` is
 * in the first and `to` in the last, in UTF-16 units. Returns `{ first, from, last, to }`, or nothing
 * if nothing else is selected.
 */
export function trimmed(texts, from, to) {
  let first = 0;
  let last = texts.length - 1;
  for (;;) {
    if (first > last) return null;
    const end = first === last ? to : texts[first].length;
    while (from < end && /\s/.test(texts[first][from])) from++;
    if (from < end) break;
    first++;
    from = 0;
  }
  for (;;) {
    const start = first === last ? from : 0;
    while (to > start && /\s/.test(texts[last][to - 1])) to--;
    if (to > start) return { first, from, last, to };
    last--;
    to = texts[last].length;
  }
}

/** Returns the index of the next of some sorted tops after a position, or of the previous one. */
export function neighbor(count, active, step) {
  if (count === 0) return -1;
  if (active < 0) return step > 0 ? 0 : count - 1;
  return (active + step + count) % count;
}
