//! `wiki-browser test --watch`: a change of any file that the tests depend on runs them again.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::{Desk, documented, without_time};

struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It watches until it is ended.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Watching {
    #[allow(clippy::disallowed_methods, reason = "a test starts what does not end by itself")]
    fn start(desk: &Desk) -> Watching {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiki-browser"));
        command.current_dir(desk.path()).args(["test", "--watch"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Watching { child, lines }
    }

    /// Returns the last line of the next run, or that the script is wrong.
    #[track_caller]
    fn next_run(&self) -> String {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(20)).unwrap();
            if line.contains("ed in ") || line.contains("no test was run") {
                return without_time(&line);
            }
        }
    }
}

#[test]
fn every_save_of_what_tests_depend_on_has_them_run_again() {
    let script = documented().replace(
        "prompt = \"Check the links in {{source_path}}.\"",
        "skill = \"skills/links\", prompt = wb.file \"prompts/links.md\" .. \"{{skill}}\"",
    );
    let desk = Desk::new(&script);
    desk.write("prompts/links.md", "Check {{source_path}}. ");
    desk.write("skills/links/SKILL.md", "---\nname: links\n---\n");
    let render = "t.render(\"links\", { source_path = \"a.md\" })";
    desk.tests(
        "a",
        &format!("t.test(\"x\", function() t.eq({render}, \"Check a.md. links\") end)"),
    );
    let watching = Watching::start(&desk);
    assert_eq!(watching.next_run(), "1 test passed");
    desk.write("prompts/links.md", "Look at {{source_path}}. ");
    assert_eq!(watching.next_run(), "1 of 1 test failed");
    desk.write("wiki-browser.lua", &format!("{script}wb.sit {{}}\n"));
    assert_eq!(watching.next_run(), "no test was run: the script is wrong");
    desk.write("prompts/links.md", "Check {{source_path}}. ");
    desk.write("wiki-browser.lua", &script);
    assert_eq!(watching.next_run(), "1 test passed");
    desk.tests("b", "t.test(\"y\", function() t.ok(false) end)");
    assert_eq!(watching.next_run(), "1 of 2 tests failed");
    std::fs::remove_file(desk.path().join("tests/b.lua")).unwrap();
    assert_eq!(watching.next_run(), "1 test passed");
    desk.write("skills/links/SKILL.md", "---\nname: link\n---\n");
    assert_eq!(watching.next_run(), "no test was run: the script is wrong");
}
