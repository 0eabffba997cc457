//! A hostile file of tests reaches no file, no process, no secret, and outlives no deadline.

use std::time::{Duration, Instant};

use super::{Desk, all_pass};

/// Returns why the only test failed.
#[track_caller]
fn failure(body: &str) -> String {
    let desk = Desk::with_tests(&format!("t.test(\"x\", function()\n{body}\nend)"));
    let summary = desk.run();
    match summary.tests.first() {
        Some(run) => run.ran.failure.as_ref().expect("it must fail").finding.to_string(),
        None => summary.broken[0].1.to_string(),
    }
}

#[test]
fn what_a_script_has_not_a_test_has_not() {
    for word in [
        "os",
        "io",
        "debug",
        "load",
        "loadfile",
        "dofile",
        "package",
        "coroutine",
        "setmetatable",
        "xpcall",
        "collectgarbage",
    ] {
        let told = failure(&format!("local it = {word}\nt.ok(it)"));
        assert!(told.contains(&format!("undefined global `{word}`")), "{word}: {told}");
    }
    assert!(failure("x = 1").contains("assignment to global `x`"));
    assert!(failure("t.eq = nil").contains("wb.test.eq cannot be set"));
    assert!(failure("require(\"wb\").test = 1").contains("cannot be set"));
}

#[test]
fn a_test_reads_no_file_and_no_variable_of_the_machine() {
    let escape = "local wb = require \"wb\"\nlocal text = wb.file \"../secret\"\n";
    for (body, why) in [
        (escape, "is not a file below the script"),
        ("local wb = require \"wb\"\nwb.file \"/etc/passwd\"\n", "is not a file below"),
        ("local wb = require \"wb\"\nwb.file \".git/config\"\n", "is not a file below"),
        ("local wb = require \"wb\"\nwb.file \"data/operator.token\"\n", "data of a site"),
        ("require \"../x\"\n", "is not a module"),
        ("local wb = require \"wb\"\nwb.env \"PATH\"\n", "a test sees no variables"),
    ] {
        let desk = Desk::with_tests(&format!("{body}t.test(\"x\", function() end)"));
        desk.write("data/operator.token", "wb_secret");
        let summary = desk.run();
        let told = summary.broken.first().map(|it| it.1.to_string()).unwrap_or_default();
        assert!(told.contains(why), "{body}: {told}");
    }
    // The script sees what the test says, and a secret is never the machine's.
    let desk = Desk::new(
        "local wb = require \"wb\"\nwb.api(1)\n\
         wb.identity { author_name = \"A\", author_email = \"a@b\" }\n\
         local path = wb.env(\"PATH\", \"none\")\n\
         wb.engine \"e\" { type = \"process\", command = { \"cat\" }, prompt = \"stdin\",\n\
         env = { A = wb.secret.env \"HOME\", B = wb.secret.file \"/etc/hostname\" } }\n\
         wb.kind \"k\" { about = \"a\", engine = \"e\", timeout = \"1m\", prompt = path }\n",
    );
    desk.tests(
        "a",
        "t.test(\"x\", function()\n  local job = t.run(\"k\")\n  t.eq(job.prompt, \"none\")\n  \
         t.eq(job.env, { A = \"the value of HOME\", B = \"the value of /etc/hostname\" })\nend)\n\
         t.test(\"y\", function()\n  t.site { secrets = { HOME = false } }\n  \
         local job = t.run(\"k\")\n  \
         t.has(job, { status = \"failed\", reason = \"spawn_failed\" })\n  \
         t.contains(job.error_tail, \"the server has no such variable\")\nend)\n",
    );
    all_pass(&desk.run());
}

#[test]
fn a_test_that_does_not_end_is_stopped_with_its_line() {
    for body in [
        "local n = 0\nwhile true do n = n + 1 end",
        "local n = 0\nwhile true do pcall(function() while true do n = n + 1 end end) end",
        "t.fails(function() while true do end end)",
        "t.run(\"links\", { source_path = \"guide.md\" }, function()\nwhile true do end\nend)",
    ] {
        let told = failure(body);
        assert!(told.contains("used more than 1000 ms of processor time"), "{body}: {told}");
        assert!(told.contains("--> tests/a.lua:"), "{body}: {told}");
        assert!(told.contains("look for a loop that does not end"), "{body}: {told}");
    }
    let told = failure("local s = \"x\"\nwhile true do s = s .. s end");
    assert!(told.contains("used more than 16 MiB of memory"), "{told}");
}

#[test]
fn a_test_inside_of_a_function_that_cannot_be_interrupted_is_given_up() {
    let long = "(\".-\"):rep(30) .. \"x\"";
    let desk = Desk::with_tests(&format!(
        "t.test(\"x\", function()\nlocal text = (\"a\"):rep(60)\ntext:find({long})\nend)\n\
         t.test(\"y\", function() t.eq(1, 1) end)"
    ));
    let began = Instant::now();
    let summary = desk.run();
    assert!(began.elapsed() < Duration::from_secs(30));
    let told = summary.tests[0].ran.failure.as_ref().unwrap().finding.to_string();
    assert!(told.contains("this test does not end, and its thread was given up"), "{told}");
    assert!(summary.tests[1].ran.failure.is_none());
}

#[test]
fn a_site_of_a_test_leaves_nothing_behind() {
    let desk = Desk::with_tests(
        "t.test(\"x\", function() t.topic { source_path = \"a.md\" } end)\n\
         t.test(\"y\", function() t.run(\"answer\", {}) end)",
    );
    let place = desk.path().join("tmp");
    std::fs::create_dir(&place).unwrap();
    let mut command = crate::cli::wiki_browser(desk.path().as_std_path());
    // No program at all can be found: none is looked for.
    command.arg("test").env("TMPDIR", place.as_str()).env("PATH", "/nonexistent");
    command.assert().code(1);
    assert_eq!(place.read_dir_utf8().unwrap().count(), 0);
    let names: Vec<String> = desk
        .path()
        .read_dir_utf8()
        .unwrap()
        .map(|it| it.unwrap().file_name().to_owned())
        .filter(|it| !["tests", "tmp", "wiki-browser.lua"].contains(&it.as_str()))
        .collect();
    assert!(names.is_empty(), "{names:?}");
}
