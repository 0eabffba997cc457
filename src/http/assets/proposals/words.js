// The difference between two texts, word by word; without a DOM.

/** Most pairs of words compared; beyond, the middle counts as one change. */
const PAIRS_MAX = 400_000;

/** Splits a text into words, spaces and single characters. */
export function tokens(text) {
  return text.match(/\s+|[\p{L}\p{N}_’']+|[^\s\p{L}\p{N}_’']/gu) ?? [];
}

/** Returns `[{ sort, text }]` in order, where `sort` is `same`, `del` or `ins`. */
export function difference(before, after) {
  const [old, fresh] = [tokens(before), tokens(after)];
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head++;
  let tail = 0;
  const least = Math.min(old.length, fresh.length) - head;
  while (tail < least && old.at(-1 - tail) === fresh.at(-1 - tail)) tail++;
  const parts = [];
  const add = (sort, words) => {
    if (words.length === 0) return;
    const last = parts.at(-1);
    if (last?.sort === sort) last.text += words.join("");
    else parts.push({ sort, text: words.join("") });
  };
  add("same", old.slice(0, head));
  middle(old.slice(head, old.length - tail), fresh.slice(head, fresh.length - tail), add);
  add("same", old.slice(old.length - tail));
  return parts;
}

/** Adds the difference of two lists, based on their longest common subsequence. */
function middle(old, fresh, add) {
  const width = fresh.length + 1;
  if (old.length * fresh.length > PAIRS_MAX || old.length === 0 || fresh.length === 0) {
    add("del", old);
    add("ins", fresh);
    return;
  }
  // `longest[a * width + b]`: how many words of old[a..] and fresh[b..] can be kept.
  const longest = new Uint32Array((old.length + 1) * width);
  for (let a = old.length - 1; a >= 0; a--) {
    for (let b = fresh.length - 1; b >= 0; b--) {
      const at = a * width + b;
      longest[at] = old[a] === fresh[b]
        ? longest[at + width + 1] + 1 : Math.max(longest[at + width], longest[at + 1]);
    }
  }
  let [a, b] = [0, 0];
  while (a < old.length && b < fresh.length) {
    const at = a * width + b;
    if (old[a] === fresh[b]) {
      add("same", [old[a]]);
      a++;
      b++;
    } else if (longest[at + width] >= longest[at + 1]) {
      add("del", [old[a++]]);
    } else {
      add("ins", [fresh[b++]]);
    }
  }
  add("del", old.slice(a));
  add("ins", fresh.slice(b));
}
