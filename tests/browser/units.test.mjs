// What the pages' modules work out without a page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isAbout, subjectsOf } from "../../src/http/assets/subjects.js";

const STARTED = {
  kind: "job_started", subject: "job:7",
  data: { id: "7", status: "running", source_path: "a b.md", topic_id: "t1" },
};

test("an event is about all that it names", () => {
  const wanted = ["all", "job:7", "jobs", "source:a b.md", "sources", "topic:t1", "topics"];
  assert.deepEqual([...subjectsOf(STARTED)].sort(), wanted);
  assert.deepEqual([...subjectsOf({ subject: "config" })].sort(), ["all", "config"]);
});

test("a part of a page follows what it names, and nothing else", () => {
  for (const words of [["job:7"], ["x", "jobs"], ["source:a%20b.md"], ["all"], ["topics"]]) {
    assert.ok(isAbout(words, STARTED), words.join(" "));
  }
  for (const words of [["job:8"], ["proposals"], ["source:a.md"], ["source:%zz"], [""], ["job"]]) {
    assert.ok(!isAbout(words, STARTED), words.join(" "));
  }
});

test("what stands for many events concerns whoever could be meant", () => {
  assert.ok(isAbout(["job:8"], { kind: "reset" }));
  const many = { kind: "sources_changed", subject: "sources", data: { count: null } };
  assert.ok(isAbout(["source:a.md"], many) && isAbout(["sources"], many));
  assert.ok(!isAbout(["job:8"], many));
});
