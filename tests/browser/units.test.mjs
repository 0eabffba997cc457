// What the pages' modules work out without a page.

import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";
import { plain } from "../../src/http/assets/base/plain.js";
import { isAbout, isEarlier, subjectsOf } from "../../src/http/assets/base/subjects.js";

const STARTED = {
  kind: "job_started", subject: "job:7",
  data: { id: "7", status: "running", source_path: "a b.md", topic_id: "t1" },
};

test("an event is about all that it names", () => {
  const wanted = ["all", "job:7", "jobs", "source:a b.md", "sources", "topic:t1", "topics"];
  assert.deepEqual([...subjectsOf(STARTED)].sort(), wanted);
  assert.deepEqual([...subjectsOf({ subject: "config" })].sort(), ["all", "config"]);
  const held = { kind: "turn_held", subject: "agent:a", data: { channel: "c" } };
  assert.ok(isAbout(["held"], held) && !isAbout(["held"], { ...held, kind: "turn_ended" }));
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

test("a place among the events precedes another one, or may", () => {
  assert.ok(isEarlier("018b-cfe5-9", "018b-cfe5-10") && isEarlier("018b-cfe5-10", "018c-cfe5-9"));
  assert.ok(!isEarlier("018b-cfe5-10", "018b-cfe5-10") && !isEarlier("018b-cfe5-10", "018b-cfe5-9"));
});

test("text of others is put where no label can stand without what would not be seen", () => {
  assert.equal(plain("a\u202eb\u2066c\u200bd\u{e0041}e\x1b[0mf\u2028\u3164g\ufeff"), "abcde[0mfg");
  for (const usual of ["Über\t日本語\n«straße»", "👩\u200d💻 می\u200cخواهم", "soft\u00adhyphen 10\u00a0km"]) {
    assert.equal(plain(usual), usual);
  }
});

test("every class of the sheet stands in a template, a module or what writes HTML", () => {
  const http = new URL("../../src/http/", import.meta.url);
  const texts = (ending) => fs.readdirSync(http, { recursive: true })
    .filter((it) => it.endsWith(ending)).map((it) => fs.readFileSync(new URL(it, http), "utf8"));
  const used = new Set();
  const words = (text) => text.split(/[^\w-]+/).forEach((it) => used.add(it));
  for (const text of texts(".html")) {
    for (const [names] of text.matchAll(/class="(?:\{%[^]*?%\}|\{\{[^]*?\}\}|[^"{])*"|block main_class %\}[^]*?endblock/g)) words(names);
  }
  for (const text of texts(".js")) {
    for (const [, names] of text.matchAll(/["'`]([a-z][\w-]*(?: [\w-]+)*)["'`]/g)) words(names);
  }
  for (const text of texts(".rs")) {
    for (const [, names] of text.matchAll(/class=\\?"([^"\\]*)/g)) words(names);
    for (const [, name] of text.matchAll(/"([a-z]+(?:-[a-z]+)+)"/g)) words(name);
  }
  // Made of two parts: states, colors of terminals and of code, rows of differences.
  const made = /^((state|t|contents|rl|rd|rd-depth|md-alert)-\w+|t-(ink|ground)\d+|h[a-z])$/;
  const dead = new Set();
  for (const text of texts(".css")) {
    const rules = text.replace(/\/\*[^]*?\*\//g, "").replace(/"[^"]*"/g, "");
    for (const [, selectors] of rules.matchAll(/([^{}]+)\{/g)) {
      for (const [, name] of selectors.matchAll(/\.([a-zA-Z][\w-]*)/g)) {
        if (!used.has(name) && !made.test(name)) dead.add(name);
      }
    }
  }
  assert.deepEqual([...dead], []);
});
