//! Mistakes in a first test: each error says what to type.

use super::Desk;

/// Each body stands in a test, unless it has one itself; then what must be told.
const MISTAKES: [(&str, &str, &str); 34] = [
    ("t.render(\"link\", {})", "no kind \"link\"", "did you mean `links`?"),
    ("t.run(\"links\", {})", "needs the input `source_path`", "source_path=VALUE, a source"),
    (
        "t.run(\"links\", { source = \"guide.md\" })",
        "has no input `source`",
        "did you mean `source_path`?",
    ),
    ("t.fire(\"topic_create\")", "no event `topic_create`", "did you mean `topic_created`?"),
    ("t.fire(\"job_finished\")", "t.fire(\"job_finished\") needs `kind`", "{ kind = \"NAME\" }"),
    (
        "t.fire(\"job_finished\", { kind = \"links\", status = \"fail\" })",
        "`fail` is not a final state of a job",
        "did you mean `failed`?",
    ),
    (
        "t.fire(\"source_changed\", { file = \"a.md\" })",
        "has no field `file`",
        "expected one of `path`",
    ),
    (
        "t.fire({ topic_created = {} })",
        "t.fire takes as `event` the name of an event",
        "for example",
    ),
    ("t.run(\"links\", \"guide.md\")", "takes as `inputs` a table, not a text", "for example"),
    (
        "t.run(\"links\", { source_path = \"guide.md\" }, { reslt = {} })",
        "the fake agent has no field `reslt`",
        "did you mean `result`?",
    ),
    (
        "t.run(\"links\", { source_path = \"guide.md\" }, { exit = \"1\" })",
        "`exit` of the fake agent is a text",
        "it must be a whole number",
    ),
    (
        "t.run(\"answer\", { topic_id = \"my topic\" })",
        "is not a valid topic id",
        "topic_id = t.topic { source_path",
    ),
    ("t.topic { path = \"guide.md\" }", "t.topic has no field `path`", "expected one of"),
    ("t.topic {}", "t.topic needs `source_path`", "write source_path = …"),
    ("t.assert(true)", "wb.test has no function `assert`", "expected one of"),
    ("t:eq(1, 1)", "t.eq was called with a colon", "with a dot"),
    ("t.advance(3600)", "takes as `duration` a duration like \"10m\"", "for example"),
    ("t.advance \"1 day\"", "`1 day` is not a duration", ""),
    (
        "t.topic { source_path = \"a.md\" } t.site {}",
        "t.site must come first",
        "write it first in its test",
    ),
    ("require(\"wb\").kind \"x\" {}", "wb.kind belongs in the script", ""),
    (
        "t.run(\"answer\", { topic_id = t.topic { source_path = \"a.md\" } }, { message = 2 })",
        "`message` of the fake agent is a number",
        "it must be a text",
    ),
    (
        "t.run(\"links\", { source_path = \"guide.md\" }, { { exit = 1 } })",
        "the fake agent has 1 attempts, and `retry` asked for attempt 2",
        "add what it does then",
    ),
    (
        "t.run(\"links\", { source_path = \"guide.md\" }, {}, { prority = 3 })",
        "t.run has no field `prority`",
        "did you mean `priority`?",
    ),
    (
        "t.enqueue(\"links\", { source_path = \"guide.md\" }, { not_before = 60 })",
        "`not_before` of t.enqueue is a number",
        "a duration like `10m`",
    ),
    (
        "t.enqueue(\"links\", { source_path = \"guide.md\" }, { not_before = \"soon\" })",
        "not_before must be a time",
        "",
    ),
    (
        "t.approve(t.run(\"links\", { source_path = \"a.md\" }, { result = { checked = 1 } }))",
        "that job has no proposal",
        "{ proposal = \"the whole new text\" }",
    ),
    ("t.approve(\"the guide\")", "", "give what t.run returned"),
    ("t.approve()", "t.approve takes as `of` a table or a text, not nil", "for example"),
    (
        "t.approve({ id = \"x\" }, { subjet = \"x\" })",
        "t.approve has no field `subjet`",
        "did you mean `subject`?",
    ),
    ("t.reject({ id = \"x\" })", "t.reject takes as `reason` a text, not nil", "for example"),
    ("t.commit(\"guide.md\", \"text\")", "takes as `files` a table, not a text", "for example"),
    ("t.commit { [\"guide.md\"] = 5 }", "holds texts by name", "write files ="),
    ("t.edit(\"src/x.c\", \"text\")", "src/x.c is not a source", ""),
    ("t.reload { scrip = \"\" }", "t.reload has no field `scrip`", "did you mean `script`?"),
];

#[test]
fn a_mistake_is_answered_by_what_to_type() {
    let mut body = String::new();
    for (place, (mistake, ..)) in MISTAKES.iter().enumerate() {
        body += &format!("t.test(\"{place}\", function()\n  {mistake}\nend)\n");
    }
    let summary = Desk::with_tests(&body).run();
    assert_eq!(summary.tests.len(), MISTAKES.len(), "{:?}", summary.broken);
    for ((mistake, message, note), run) in MISTAKES.iter().zip(&summary.tests) {
        let line = run.test.at.line + 1;
        let told = match &run.ran.failure {
            Some(failure) => failure.finding.to_string(),
            None => panic!("{mistake} passes"),
        };
        assert!(told.contains(message), "{mistake}\n{told}");
        assert!(told.contains(note), "{mistake}\n{told}");
        assert!(told.contains(&format!("--> tests/a.lua:{line}:")), "{mistake}\n{told}");
        assert!(told.contains(&format!("{line} |   {mistake}")), "{mistake}\n{told}");
    }
}

#[test]
fn a_mistake_of_the_whole_file_is_answered_too() {
    for (body, message, note) in [
        ("", "tests/a.lua has no test", "write t.test(\"what holds\", function() … end)"),
        ("t.eq(1, 1)", "t.eq is called outside of a test", "write t.test("),
        ("t.test(\"x\")", "this test has no function", "function() … end)"),
        ("t.test(function() end)", "t.test takes as `name` a text, not a function", "for example"),
        ("t.test(\"x\", function() end", "`(` is not closed", "write `)`"),
        (
            "t.test(\"x\", function() end)\nt.test(\"x\", function() end)",
            "another test \"x\"",
            "another name",
        ),
        ("test(\"x\", function() end)", "undefined global `test`", ""),
        ("wb.test(\"x\", function() end)", "undefined global `wb`", "begin with local wb"),
        (
            "require(\"wb\").test(\"x\", function() end)",
            "no function `test`",
            "require \"wb.test\"",
        ),
        ("error(\"oh\")", "oh", ""),
        ("while true do end", "used more than 500 ms", "look for a loop"),
    ] {
        let summary = Desk::with_tests(body).run();
        let told = summary.broken.first().map(|it| it.1.to_string()).unwrap_or_default();
        assert!(told.contains(message) && told.contains(note), "{body}\n{told}");
        assert!(told.contains("--> tests/a.lua:"), "{body}\n{told}");
    }
}

#[test]
fn a_wrong_script_is_told_as_check_tells_it_and_no_test_is_run() {
    let desk = Desk::with_tests("t.test(\"x\", function() end)");
    let script = super::documented().replace("timeout = \"5m\"", "timout = \"5m\"");
    desk.write("wiki-browser.lua", &script);
    let (code, told) = desk.command(&[]);
    assert_eq!(code, 1);
    assert!(told.contains("has no field `timout`"), "{told}");
    assert!(told.contains("did you mean `timeout`?"), "{told}");
    assert!(told.contains("no test was run: the script is wrong"), "{told}");
    // A script does not test itself.
    desk.write("wiki-browser.lua", "local t = require \"wb.test\"\n");
    let (_, told) = desk.command(&[]);
    assert!(told.contains("wb.test is for files of tests"), "{told}");
}

#[test]
fn wrong_arguments_are_answered_by_what_to_type() {
    let desk = Desk::with_tests("t.test(\"x\", function() end)");
    for (args, code, told) in [
        (&["none.lua"][..], 4, "no file none.lua"),
        (&["--filter", "nothing"], 4, "no test has \"nothing\""),
        (&["/etc/hostname"], 2, "is not below the folder of the script"),
        (&["wiki-browser.lua", "--watcher"], 2, "--watch"),
    ] {
        let (found, text) = desk.command(args);
        assert_eq!(found, code, "{args:?}: {text}");
        assert!(text.contains(told), "{args:?}: {text}");
    }
    std::fs::remove_dir_all(desk.path().join("tests")).unwrap();
    let (code, text) = desk.command(&[]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("write tests/first.lua next to the script"), "{text}");
}
