//! A hostile test file reaches no file, process or secret, and outlives no deadline.

use std::process::Stdio;

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
fn a_test_with_a_pattern_that_runs_away_ends_with_its_line() {
    let told = failure("local text = (\"a\"):rep(60)\ntext:find((\".-\"):rep(30) .. \"x\")");
    assert!(told.contains("the text pattern takes too long"), "{told}");
    assert!(told.contains("--> tests/a.lua:"), "{told}");
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

/// A run of the program that does not end soon, with its temporary folder.
struct Endless {
    child: std::process::Child,
    desk: Desk,
}

impl Drop for Endless {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

impl Endless {
    /// Starts a run, and waits until there is such a name in its temporary folder.
    #[allow(clippy::disallowed_methods, reason = "a test starts what does not end by itself")]
    fn start(args: &[&str], name: &str) -> Endless {
        let desk = Endless::desk();
        let place = desk.path().join("tmp");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wiki-browser"));
        command.current_dir(desk.path()).arg("test").args(args).env("TMPDIR", &place);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let endless = Endless { child, desk };
        let is_there = || endless.names().iter().any(|it| it.contains(name)).then_some(());
        crate::support::wait_for("its folder is there", is_there);
        endless
    }

    /// Returns what is in the temporary folder.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in self.desk.path().join("tmp").read_dir_utf8().unwrap().flatten() {
            let Ok(inner) = folder.path().read_dir_utf8() else { continue };
            let inner =
                inner.flatten().map(|it| format!("{}/{}", folder.file_name(), it.file_name()));
            names.extend(inner.chain([folder.file_name().to_owned()]));
        }
        names
    }

    fn desk() -> Desk {
        let desk = Desk::with_tests(
            "t.test(\"short\", function() end)\n\
             for i = 1, 100 do t.test(\"long \" .. i, function()\n\
             t.topic { source_path = \"a.md\" }\n\
             local text = (\"a\"):rep(60)\n\
             text:find((\".-\"):rep(30) .. \"x\")\nend) end\n\
             for i = 1, 500 do t.test(\"busy \" .. i, function()\n\
             t.topic { source_path = \"a.md\" }\nend) end",
        );
        std::fs::create_dir(desk.path().join("tmp")).unwrap();
        desk
    }
}

#[test]
fn a_signal_that_ends_a_run_leaves_nothing_behind() {
    let watch = ["--watch", "--filter", "short"];
    let busy = ["--filter", "busy"];
    for (args, name, signal, code) in [
        (&["--filter", "long"][..], "/site-", "INT", 130),
        (&watch[..], "/owner.lock", "TERM", 143),
        // These fail while their folder is removed: the signal's exit code counts all the same.
        (&busy[..], "/site-", "INT", 130),
        (&busy[..], "/site-", "HUP", 129),
    ] {
        let mut run = Endless::start(args, name);
        crate::support::shell(&format!("kill -{signal} {}", run.child.id()));
        let ended = crate::support::wait_for("it ends", || run.child.try_wait().unwrap());
        assert_eq!(ended.code(), Some(code), "{signal}");
        assert_eq!(run.names(), Vec::<String>::new(), "{signal}");
    }
}

#[test]
fn what_a_killed_run_left_is_gone_with_the_next_one() {
    let mut run = Endless::start(&["--watch", "--filter", "short"], "/owner.lock");
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    assert!(!run.names().is_empty());
    run.desk.tests("a", "t.test(\"x\", function() t.eq(1, 1) end)");
    let mut command = crate::cli::wiki_browser(run.desk.path().as_std_path());
    command.arg("test").env("TMPDIR", run.desk.path().join("tmp")).assert().success();
    assert_eq!(run.names(), Vec::<String>::new());
}
