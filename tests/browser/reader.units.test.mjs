// Units of the document's page that need no page: where notes stand, and what is selected.

import assert from "node:assert/strict";
import { test } from "node:test";
import { arrange, neighbor, point, trimmed, written } from "../../src/http/assets/documents/margin.js";

test("notes stand at their words, and none stands over another", () => {
  const notes = [{ top: 10, height: 50 }, { top: 20, height: 30 }, { top: 300, height: 40 }];
  assert.deepEqual(arrange(notes, { gap: 10 }), [10, 70, 300]);
  assert.deepEqual(arrange(notes, { gap: 10, least: 40 }), [40, 100, 300]);
  assert.deepEqual(arrange([]), []);
});

test("the pinned note stands exactly at its words, as far as there is room above", () => {
  const notes = [{ top: 100, height: 50 }, { top: 110, height: 50 }, { top: 120, height: 50 }];
  assert.deepEqual(arrange(notes, { gap: 10, pinned: 2 }), [0, 60, 120]);
  assert.deepEqual(arrange(notes, { gap: 10, pinned: 1 }), [50, 110, 170]);
  const tight = [{ top: 0, height: 50 }, { top: 10, height: 50 }];
  assert.deepEqual(arrange(tight, { gap: 10, pinned: 1 }), [0, 60]);
});

test("no arrangement has notes over each other, or above the least", () => {
  let seed = 7;
  const random = (below) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % below;
  };
  for (let round = 0; round < 500; round++) {
    const notes = Array.from({ length: random(30) }, () => ({ top: random(2_000), height: 20 + random(200) }))
      .sort((a, b) => a.top - b.top);
    const least = random(100);
    const pinned = random(40) - 5;
    const tops = arrange(notes, { gap: 8, least, pinned });
    for (let at = 0; at < notes.length; at++) {
      assert.ok(tops[at] >= least, `${at} of ${JSON.stringify(tops)}`);
      if (at > 0) assert.ok(tops[at] >= tops[at - 1] + notes[at - 1].height + 8);
    }
  }
});

test("white space around a selection is not selected", () => {
  assert.deepEqual(trimmed(["one two "], 3, 8), { first: 0, from: 4, last: 0, to: 7 });
  assert.deepEqual(trimmed(["one", "two", ""], 3, 0), { first: 1, from: 0, last: 1, to: 3 });
  assert.deepEqual(trimmed(["one ", "\n", " two"], 4, 4), { first: 2, from: 1, last: 2, to: 4 });
  assert.equal(trimmed(["a  b"], 1, 3), null);
  assert.equal(trimmed(["a ", " b"], 1, 1), null);
});

test("places are read as they are written", () => {
  assert.deepEqual(point("120:7"), { block: 120, unit: 7 });
  assert.equal(written(point("120:7")), "120:7");
  assert.equal(neighbor(3, -1, 1), 0);
  assert.equal(neighbor(3, -1, -1), 2);
  assert.equal(neighbor(3, 2, 1), 0);
  assert.equal(neighbor(0, -1, 1), -1);
});
