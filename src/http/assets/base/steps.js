// Small calculations for the page's modules, without a DOM.

/** Returns the next number from 1 to `count`, wrapping at both ends; 0 means none yet. */
export function wrapped(at, by, count) {
  if (at === 0) return by > 0 ? 1 : count;
  return ((at - 1 + by + count) % count) + 1;
}

/** Returns a duration as the server writes it: `40 s`, `3 min 5 s`, `2 h 1 min`. */
export function span(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  const [min, h] = [Math.floor(s / 60), Math.floor(s / 3600)];
  if (h > 0) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  return s % 60 ? `${min} min ${s % 60} s` : `${min} min`;
}

/** Returns the offset of a zone in RFC 3339 format, from minutes as browsers count them. */
export function offsetOf(minutes) {
  const two = (it) => String(it).padStart(2, "0");
  const ahead = Math.abs(minutes);
  return `${minutes > 0 ? "-" : "+"}${two(Math.floor(ahead / 60))}:${two(ahead % 60)}`;
}

/** Returns whether a text, or a word in it, begins with some letters. */
export function beginsWith(text, letters) {
  const lower = text.toLowerCase();
  for (let at = lower.indexOf(letters); at >= 0; at = lower.indexOf(letters, at + 1)) {
    if (at === 0 || !/[\p{L}\p{N}]/u.test(lower[at - 1])) return true;
  }
  return false;
}
