// The small sums of the review, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { beginsWith, offsetOf, span, wrapped } from "../../src/http/assets/base/steps.js";

test("from change to change, around the ends", () => {
  assert.deepEqual([1, 1, 1, 1].reduce((seen, by) => [...seen, wrapped(seen.at(-1) ?? 0, by, 3)], []), [1, 2, 3, 1]);
  assert.equal(wrapped(0, -1, 3), 3);
  assert.equal(wrapped(1, -1, 3), 3);
  assert.equal(wrapped(1, 1, 1), 1);
});

test("times as the server writes them", () => {
  const all = [[0, "0 s"], [59_999, "59 s"], [60_000, "1 min"], [125_000, "2 min 5 s"], [7_260_000, "2 h 1 min"]];
  for (const [ms, words] of all) assert.equal(span(ms), words);
});

test("the offset of a zone", () => {
  const all = [[0, "+00:00"], [-60, "+01:00"], [300, "-05:00"], [-345, "+05:45"], [570, "-09:30"]];
  for (const [minutes, words] of all) assert.equal(offsetOf(minutes), words);
});

test("letters are found where a word begins", () => {
  for (const it of ["n", "new job", "job", "sum", "up", "new job weekly-sum"]) assert.ok(beginsWith("New job weekly-sum_up", it), it);
  for (const it of ["ob", "eekly", "um", "jobs"]) assert.ok(!beginsWith("New job weekly-sum_up", it), it);
});
