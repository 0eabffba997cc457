//! `wiki-browser serve`: its errors.

use std::net::TcpListener;

use super::desk::{Running, operator, refused, text};
use crate::support::{Bench, Call, shell, until};

/// Returns a bench whose script has these lines in place of `listen = "127.0.0.1:0"`.
fn bench_with(listen: &str, lua: &str) -> Bench {
    let bench = Bench::new();
    bench.write(
        "wiki-browser.lua",
        format!(
            "local wb = require \"wb\"\nwb.api(1)\n\
             wb.site {{ root = \".\", data = \"./data\", listen = \"{listen}\" }}\n\
             wb.identity {{ author_name = \"A\", author_email = \"a@b.c\" }}\n{lua}"
        ),
    );
    bench
}

/// Serves in vain; returns both outputs.
#[track_caller]
fn fails(bench: &Bench, code: i32) -> (String, String) {
    let assert = operator(bench, &["serve"]).assert().code(code);
    let output = assert.get_output();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_second_server_says_who_has_the_site() {
    let bench = Bench::new();
    let server = bench.serve();
    let (_, said) = fails(&bench, 5);
    assert!(said.contains(&format!("another server (pid {}) has", server.pid())), "{said}");
    assert!(said.contains(&format!("hint: stop it first (kill {})", server.pid())), "{said}");
    // The first one is not disturbed.
    assert_eq!(bench.json(&["status"])["ready"]["status"], "ready");
    server.stop();
    refused(&bench, &["status"], 6, "no_server");
}

#[test]
fn a_server_is_found_again_after_its_file_was_removed() {
    let bench = Bench::new();
    let server = bench.serve();
    let facts = server.facts().unwrap();
    for _ in 0..2 {
        std::fs::remove_file(bench.data.join("server.json")).unwrap();
        until("the file is there again", || server.facts().is_some());
        assert_eq!(server.facts().unwrap(), facts);
    }
    assert_eq!(bench.json(&["status"])["ready"]["status"], "ready");
    server.stop();
    assert!(!bench.data.join("server.json").exists());
}

#[test]
fn switches_of_tests_are_refused_outside_of_tests() {
    let bench = bench_with("127.0.0.1:0", "");
    for switch in ["WB_WITHOUT", "WB_CRASH_AT"] {
        let assert = operator(&bench, &["serve"]).env(switch, "fence").assert().code(2);
        let said = text(&assert.get_output().stderr);
        assert!(said.contains(&format!("{switch} takes guarantees away")), "{said}");
        assert!(said.contains(&format!("hint: unset {switch}")), "{said}");
    }
    assert!(!bench.data.join("wb.sock").exists());
}

#[test]
fn a_log_holds_no_link_unless_that_is_asked_for() {
    let bench = Bench::new();
    let server = bench.serve();
    let address = server.address();
    until("it says where it is", || server.log().contains("wiki-browser login prints"));
    let said = server.log();
    assert!(said.contains(&format!("page     http://{address}   (")), "{said}");
    assert!(!said.contains("/login/"), "{said}");
    server.stop();
    let mut asked = Running::new(&bench, &["serve", "--print-link"]);
    until("it prints a link", || asked.out().contains("/login/"));
    let out = asked.out();
    let link = out.split_whitespace().find(|it| it.contains("/login/")).unwrap();
    let (address, code) = link.strip_prefix("http://").unwrap().split_once("/login/").unwrap();
    let look = Call::get(&format!("/login/{code}")).tcp(address.parse().unwrap());
    assert_eq!(look.status, 200, "{look:?}");
    asked.signal("TERM");
    assert_eq!(asked.wait(), Some(0));
}

#[test]
fn a_broken_script_is_reported_with_its_lines_and_nothing_is_started() {
    let bench = bench_with("127.0.0.1:0", "wb.limmits { jobs = 1 }\n");
    let (out, err) = fails(&bench, 1);
    assert_eq!(out, "");
    let said = err;
    assert!(said.contains("wiki-browser.lua:5:"), "{said}");
    assert!(said.contains("limits"), "{said}");
    assert!(!bench.data.join("server.json").exists() && !bench.data.join("wiki.db").exists());
}

#[test]
fn a_missing_engine_is_one_line_that_helps() {
    let lua = "wb.engine \"none\" { type = \"process\", command = { \"no-such-agent\" }, \
        prompt = \"stdin\" }\n\
        wb.kind \"k\" { about = \"x\", engine = \"none\", timeout = \"1m\", prompt = \"x\" }\n";
    let (out, said) = fails(&bench_with("127.0.0.1:0", lua), 6);
    assert_eq!(out, "");
    assert!(said.contains("engine \"none\" (wiki-browser.lua:5): program `"), "{said}");
    assert!(said.contains("hint: install no-such-agent"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    // Several are told at once.
    let other = lua
        .replace("\"none\"", "\"other\"")
        .replace("no-such-", "other-")
        .replace("\"k\"", "\"l\"");
    let (_, said) = fails(&bench_with("127.0.0.1:0", &format!("{lua}{other}")), 6);
    for one in ["engine \"none\" (wiki-browser.lua:5)", "engine \"other\" (wiki-browser.lua:7)"] {
        assert!(said.contains(&format!("{one}: program `")), "{said}");
    }
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn a_taken_port_is_said_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (_, said) = fails(&bench_with(&address.to_string(), ""), 6);
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    let holder = format!("(pid {}, in ", std::process::id());
    assert!(said.contains(&holder) && said.contains(" has the port"), "{said}");
    assert!(said.contains("hint: stop it, or set another port"), "{said}");
}

#[test]
fn a_root_that_is_no_repository_is_refused() {
    let bench = bench_with("127.0.0.1:0", "");
    std::fs::rename(bench.top.join(".git"), bench.base.join("git")).unwrap();
    let (_, said) = fails(&bench, 6);
    assert!(said.contains("is not in a git repository"), "{said}");
    assert!(said.contains("hint: "), "{said}");
    // A check, which asks no git, says it with the script's line.
    let checked = operator(&bench, &["check"]).assert().code(1);
    let output = checked.get_output();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("no-repository") && said.contains("type: git init"), "{said}");
}

/// Opening a FIFO never ends, and SECURITY.md says whose the folder is.
#[test]
fn the_data_folder_is_closed_to_others_and_its_database_is_a_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    std::fs::create_dir(&bench.data).unwrap();
    for (open, closed) in [(0o777, 0o700), (0o755, 0o700), (0o750, 0o750)] {
        std::fs::set_permissions(&bench.data, std::fs::Permissions::from_mode(open)).unwrap();
        let server = bench.serve();
        assert_eq!(bench.data.metadata().unwrap().permissions().mode() & 0o777, closed);
        let is_told = server.log().contains("was open to other users");
        assert_eq!(is_told, open != closed, "{}", server.log());
        server.stop();
    }
    std::fs::remove_file(bench.data.join("wiki.db")).unwrap();
    shell(&format!("mkfifo {}/wiki.db", bench.data));
    let mut server = bench.start(&[]);
    assert!(!server.wait().0.success());
    assert!(server.log().contains("is not a regular file"), "{}", server.log());
}
