//! The output for failed tests: each kind of failure, word for word.

use serde_json::Value;

use super::{Desk, documented};

/// One test for each sort of failure; their output is `tests/data/golden/lua-test.txt`.
const FAILING: &str = r#"
local function deep(n) return { n = n, list = { "a", "b" } } end

t.test("two short values", function()
  t.eq("failed", "succeeded")
end)

t.test("values of two types", function()
  t.eq(1, "1")
end)

t.test("tables", function()
  local got = { kind = "links", inputs = deep(1), same = true }
  t.eq(got, { kind = "links", inputs = deep(2), same = true })
end)

t.test("texts of many lines", function()
  local lines = {}
  for place = 1, 30 do lines[place] = "line " .. place end
  local got = table.concat(lines, "\n")
  t.eq(got, (got:gsub("line 20\n", "line twenty\nand more\n")) .. "\n")
end)

t.test("a part of a table", function()
  local got = { status = "failed", reason = "no_result", id = 7 }
  t.has(got, { status = "failed", reason = "exit_status" })
end)

t.test("a part of a text", function()
  t.contains("Check the links in guide.md.\nNow.", "notes.md")
end)

t.test("an element of a list", function()
  t.contains({ "a", "b" }, "c")
end)

t.test("a pattern", function()
  t.matches("abc", "^%d+$")
end)

t.test("a condition", function()
  t.ok(nil)
end)

t.test("a condition with a reason", function()
  t.ok(1 == 2, "one is not two")
end)

t.test("what must fail and does not", function()
  t.fails(function() end)
end)

t.test("what must fail otherwise", function()
  t.fails(function() error("no luck") end, "no fuel")
end)

t.test("an error of the test", function()
  local job = nil
  print("seen before", 1)
  t.eq(job.status, "failed")
end)

t.test("an error that is not text", function()
  error({ code = 5 })
end)

t.test("what the site refuses", function()
  t.topic { source_path = "../guide.md" }
end)

t.test("what an agent must not do", function()
  t.run("links", { source_path = "guide.md" }, { message = "Hello." })
end)

t.test("a comparison inside of an agent", function()
  t.run("links", { source_path = "guide.md" }, function(job)
    t.eq(job.attempt, 2)
  end)
end)

t.test("a call inside of an agent", function()
  t.run("links", { source_path = "guide.md" }, function() t.advance "1h" end)
end)

t.test("a text that would move the cursor", function()
  t.eq("\27[2Jgone", "here")
end)
"#;

#[test]
fn every_sort_of_failure_reads_well() {
    let (code, told) = Desk::with_tests(FAILING).command(&[]);
    assert_eq!(code, 1, "{told}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/golden/lua-test.txt");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &told).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(told == golden, "{told}\n(UPDATE_DOCS=1 writes {path})");
}

#[test]
fn an_error_of_the_script_is_told_with_its_own_line() {
    let script = documented().replace(
        "prompt = \"Check the links in {{source_path}}.\"",
        "prompt = function(job) return job.sourcepath:upper() end",
    );
    let desk = Desk::new(&script);
    desk.tests(
        "a",
        "t.test(\"x\", function() t.render(\"links\", { source_path = \"a.md\" }) end)\n\
         t.test(\"y\", function()\n  local job = t.run(\"links\", { source_path = \"a.md\" })\n  \
         t.has(job, { status = \"failed\", reason = \"prompt_failed\", prompt = \"\" })\n  \
         t.contains(job.error_tail, \"wiki-browser.lua:\")\nend)\n",
    );
    let summary = desk.run();
    let told = summary.tests[0].ran.failure.as_ref().unwrap().finding.to_string();
    assert!(told.contains("wiki-browser.lua:"), "{told}");
    assert!(told.contains("--> tests/a.lua:2:"), "{told}");
    assert!(told.contains("is: prompt = function(job) return job.sourcepath"), "{told}");
    assert!(summary.tests[1].ran.failure.is_none(), "{:?}", summary.tests[1].ran.failure);
}

#[test]
fn programs_get_the_same_as_json() {
    let desk = Desk::with_tests(
        "t.test(\"a\", function() t.eq({ x = 1 }, { x = 2 }) end)\n\
         t.test(\"b\", function() print(\"said\") end)\n",
    );
    desk.write("tests/b.lua", "x = 1\n");
    let (code, text) = desk.command(&["--json"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 1);
    assert_eq!(value["ok"], false);
    assert_eq!((&value["passed"], &value["failed"]), (&1.into(), &1.into()));
    let failure = &value["tests"][0]["failure"];
    assert_eq!(failure["code"], "not-equal");
    assert_eq!(failure["at"]["line"], 2);
    assert_eq!(failure["want"], "{\n  x = 2,\n}");
    assert!(failure["diff"].as_str().unwrap().contains("+   x = 1,"), "{failure}");
    assert_eq!(value["tests"][1]["log"][0]["text"], "said");
    assert_eq!(value["broken_files"][0]["file"], "tests/b.lua");
    assert_eq!(value["broken_files"][0]["errors"][0]["code"], "global-assignment");
    let (_, text) = desk.command(&["--field", "failed"]);
    assert_eq!(text, "1\n");
}

#[test]
fn a_filter_takes_tests_by_name_or_file_and_a_log_is_shown_on_demand() {
    let desk = Desk::with_tests(
        "t.test(\"one\", function() print(\"from one\") end)\nt.test(\"two\", function() end)",
    );
    desk.tests("b", "t.test(\"three\", function() end)");
    let (code, told) = desk.command(&["--filter", "one", "--log"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("log: tests/a.lua:2: from one"), "{told}");
    assert!(told.ends_with("1 test passed, 2 left out\n"), "{told}");
    let (_, told) = desk.command(&["--filter", "tests/b"]);
    assert!(told.ends_with("1 test passed, 2 left out\n"), "{told}");
    let (_, told) = desk.command(&["tests/b.lua", "tests"]);
    assert!(told.ends_with("3 tests passed\n") && !told.contains("from one"), "{told}");
}
