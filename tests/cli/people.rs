//! Persons and tokens on the command line: access, what ends at once, and every exit code.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::desk::{operator, refused, said, text};
use crate::support::{Bench, Call, Server};

/// Signs a browser in by a link; returns its cookie.
fn sign_in(server: &Server, link: &str) -> String {
    let code = link.rsplit('/').next().unwrap();
    let answer = Call::post("/api/login", json!({"code": code}))
        .header("Sec-Fetch-Site", "same-origin")
        .tcp(server.address());
    assert_eq!(answer.status, 200, "{answer:?}");
    let head = answer.head.lines().find(|it| it.to_lowercase().starts_with("set-cookie:")).unwrap();
    head.split_once(':').unwrap().1.split(';').next().unwrap().trim().to_owned()
}

fn with_cookie(server: &Server, target: &str, cookie: &str) -> u16 {
    Call::get(target).header("Cookie", cookie).tcp(server.address()).status
}

#[test]
fn a_viewer_gets_no_token_that_every_use_would_refuse() {
    let bench = Bench::new();
    let server = bench.serve();
    said(&bench, &["person", "add", "bo", "--role", "viewer"]);
    for scope in ["write", "decide"] {
        let body = json!({"name": "ci", "person": "bo", "scopes": ["read", scope]});
        let refused = bench.post("/api/tokens", body);
        assert_eq!((refused.status, refused.code()), (400, "scope_of_role"), "{scope}");
    }
    let body = json!({"name": "looks", "person": "bo", "scopes": ["read"]});
    assert_eq!(bench.post("/api/tokens", body).status, 201);
    server.stop();
}

#[test]
fn a_wrong_command_line_says_the_same_in_json() {
    let bench = Bench::new();
    for (line, word) in [
        (&["person", "role", "bo", "king"][..], "[possible values: admin, member, viewer]"),
        (&["job", "show"], "were not provided: <ID>"),
    ] {
        let assert = operator(&bench, line).arg("--json").assert().code(2).stdout("");
        let error = super::envelope(&assert.get_output().stderr);
        assert_eq!(error["code"], "usage");
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
}

/// A restart picks the next admin, and the refusals say so.
#[test]
fn the_command_line_does_not_lose_its_own_person_by_mistake() {
    let bench = Bench::new();
    let server = bench.serve();
    let people = bench.json(&["person", "list"]);
    let me = people["items"][0]["name"].as_str().unwrap();
    said(&bench, &["person", "add", "root", "--role", "admin"]);
    for line in [&["person", "disable", me][..], &["person", "role", me, "member"]] {
        let error = refused(&bench, line, 2, "no_terminal");
        assert!(error["message"].as_str().unwrap().contains("until the server is restarted"));
    }
    let is_lost = |code| {
        let error = refused(&bench, &["person", "add", "bo"], 3, code);
        assert!(error["hint"].as_str().unwrap().contains("restart the server"), "{error}");
    };
    said(&bench, &["person", "role", me, "member", "--yes"]);
    is_lost("admin_only");
    said(&bench, &["topic", "list"]);
    server.stop();
    let server = bench.serve();
    said(&bench, &["person", "role", me, "admin"]);
    said(&bench, &["person", "disable", "root", "--yes"]);
    is_lost("operator_disabled");
    server.stop();
    let server = bench.serve();
    said(&bench, &["person", "enable", "root"]);
    server.stop();
}

#[test]
fn a_person_is_added_signs_in_and_is_disabled_at_once() {
    let bench = Bench::new();
    let server = bench.serve();
    let added = bench.json(&[
        "person",
        "add",
        "bo",
        "--display-name",
        "Bo Berg",
        "--role",
        "viewer",
        "--email",
        "b@e.org",
    ]);
    assert_eq!((&added["role"], &added["display_name"]), (&json!("viewer"), &json!("Bo Berg")));
    let cookie = sign_in(&server, added["link"]["url"].as_str().unwrap());
    assert_eq!(with_cookie(&server, "/api/me", &cookie), 200);
    // A viewer writes nothing and administers nothing.
    let body = json!({"source_path": "guide.md", "global": true, "body": "x"});
    let try_write = || {
        let call = Call::post("/api/topics", body.clone()).header("Cookie", &cookie);
        let answer = call.header("Sec-Fetch-Site", "same-origin").tcp(server.address());
        (answer.status, answer.code().to_owned())
    };
    assert_eq!(try_write(), (403, "viewer".to_owned()));
    assert_eq!(with_cookie(&server, "/api/persons", &cookie), 403);
    assert!(said(&bench, &["person", "role", "bo", "member"]).contains("bo (member)"));
    assert_eq!(try_write().0, 201);
    let token = bench.json(&["token", "create", "ci", "--person", "bo"])["token"].clone();
    let token = token.as_str().unwrap();
    assert_eq!(Call::get("/api/me").token(token).tcp(server.address()).status, 200);

    // An open page is told nothing more from the moment on.
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    let port = server.address().port();
    let head = format!(
        "GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.next().unwrap().unwrap().contains("200"));
    while !lines.next().unwrap().unwrap().starts_with("id: ") {}
    said(&bench, &["person", "disable", "bo"]);
    // It ends by itself, well before the next heartbeat.
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(!rest.iter().any(|it| it.contains("person_changed")), "{rest:?}");
    assert_eq!(with_cookie(&server, "/api/me", &cookie), 401);
    assert_eq!(Call::get("/api/me").token(token).tcp(server.address()).status, 401);
    let again = refused(&bench, &["person", "disable", "bo"], 5, "not_active");
    assert_eq!(again["message"], "bo is disabled already");
    let hint = again["hint"].as_str().unwrap();
    assert!(hint.starts_with("wiki-browser person enable bo"), "{hint}");
    assert!(said(&bench, &["token", "list", "--person", "bo"]).contains(" disabled "));
    refused(&bench, &["person", "link", "bo"], 5, "not_active");
    refused(&bench, &["token", "create", "x", "--person", "bo"], 5, "not_active");
    said(&bench, &["person", "enable", "bo"]);
    refused(&bench, &["person", "enable", "bo"], 5, "not_disabled");
    // The token counts again, the session does not.
    assert_eq!(Call::get("/api/me").token(token).tcp(server.address()).status, 200);
    assert_eq!(with_cookie(&server, "/api/me", &cookie), 401);
    let link = said(&bench, &["person", "link", "bo"]);
    sign_in(&server, link.trim());
    server.stop();
}

/// Fails with `WB_WITHOUT=disabled_jobs`.
#[test]
fn what_a_disabled_person_asked_for_and_has_not_begun_is_taken_back() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"1s\"");
    bench.word_kind(
        "waits",
        "timeout = \"20s\"",
        "while [ ! -e \"$OUT/go\" ]; do sleep 0.02; done",
    );
    let server = bench.serve();
    said(&bench, &["person", "add", "bo", "--role", "member"]);
    let token = ["token", "create", "ci", "--person", "bo", "--scope", "write"];
    let token = bench.json(&token)["token"].as_str().unwrap().to_owned();
    let ask = |body: serde_json::Value| {
        let call = Call::post("/api/agent/jobs", body).token(&token).tcp(server.address());
        call.ok()["job_id"].as_str().unwrap().to_owned()
    };
    let running = ask(json!({"kind": "waits"}));
    bench.wait_status(&running, "running");
    let waiting = ask(json!({"kind": "waits"}));
    let later = ask(json!({"kind": "waits", "not_before": "2999-01-02T03:04:05Z"}));
    let others = bench.job("waits", json!({}));
    said(&bench, &["person", "disable", "bo"]);
    for id in [&waiting, &later] {
        let job = bench.show(id);
        assert_eq!(
            (&job["status"], &job["message"]),
            (&json!("cancelled"), &json!("Cancelled by ada."))
        );
    }
    // What runs goes on, and what others asked for is next.
    assert_eq!(bench.show(&running)["status"], "running");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(&others)["status"], "succeeded");
    assert_eq!(bench.ended(&running)["status"], "succeeded");
    server.stop();
}

#[test]
fn there_is_always_an_admin_and_names_are_checked() {
    let bench = Bench::new();
    let server = bench.serve();
    refused(&bench, &["person", "disable", "ada", "--yes"], 5, "last_admin");
    refused(&bench, &["person", "role", "ada", "member", "--yes"], 5, "last_admin");
    said(&bench, &["person", "add", "bo", "--role", "admin"]);
    said(&bench, &["person", "role", "ada", "member", "--yes"]);
    // The operator's token is ada's, who is no admin any more.
    refused(&bench, &["person", "list"], 3, "admin_only");
    refused(&bench, &["backup"], 3, "admin_only");
    server.stop();
    let bench = Bench::new();
    let server = bench.serve();
    refused(&bench, &["person", "add", "ada"], 5, "name_taken");
    for bad in ["", "b o", ".", "..", ".x", "a/b", "a\u{7}"] {
        refused(&bench, &["person", "add", bad], 2, "bad_name");
    }
    refused(&bench, &["person", "add", "bo", "--display-name", "a\nb"], 2, "invalid");
    refused(&bench, &["person", "disable", "nobody"], 4, "no_person");
    refused(&bench, &["person", "disable", "a/b?c"], 4, "no_person");
    operator(&bench, &["person", "add", "bo", "--role", "king"]).assert().code(2);
    let list = said(&bench, &["person", "list"]);
    assert!(list.contains("ada") && list.contains("admin") && list.contains("active"), "{list}");
    server.stop();
    operator(&bench, &["person", "list"]).assert().code(6);
}

#[test]
fn a_token_does_what_its_scopes_say_and_is_shown_once() {
    let bench = Bench::new();
    let server = bench.serve();
    let output =
        operator(&bench, &["token", "create", "ci", "--scope", "write"]).assert().success();
    let secret = text(&output.get_output().stdout).trim().to_owned();
    assert!(secret.starts_with("wb_") && secret.len() == 67);
    assert!(text(&output.get_output().stderr).contains("not shown again"));
    let ask = |call: Call| {
        let answer = call.token(&secret).tcp(server.address());
        (answer.status, answer.code().to_owned())
    };
    let topic = json!({"source_path": "guide.md", "global": true, "body": "x"});
    assert_eq!(ask(Call::post("/api/topics", topic)).0, 201);
    let id = bench.get("/api/topics").ok()["items"][0]["id"].as_str().unwrap().to_owned();
    let discard = Call::post(&format!("/api/topics/{id}/discard"), json!({}));
    assert_eq!(ask(discard), (403, "scope".to_owned()));
    // A token leads to no other credential.
    for call in [
        Call::get("/api/tokens"),
        Call::post("/api/tokens", json!({"name": "x", "scopes": ["read"]})),
        Call::get("/api/persons"),
        Call::post("/api/persons", json!({"name": "x", "role": "admin"})),
    ] {
        assert_eq!(ask(call), (403, "token_forbidden".to_owned()));
    }
    assert_eq!(ask(Call::get("/metrics")), (403, "scope".to_owned()));
    let list = bench.json(&["token", "list"]);
    let items = list["items"].as_array().unwrap();
    let ci = items.iter().find(|it| it["name"] == "ci").unwrap();
    assert!(!ci["last_used_at"].is_null() && ci["revoked_at"].is_null());
    assert!(!list.to_string().contains(&secret));
    assert!(said(&bench, &["token", "list"]).contains("alive"));
    said(&bench, &["token", "revoke", "ci"]);
    assert_eq!(ask(Call::get("/api/me")).0, 401);
    refused(&bench, &["token", "revoke", "ci"], 4, "not_found");
    refused(&bench, &["token", "revoke", "operator"], 5, "operator_token");
    refused(&bench, &["token", "create", "operator"], 2, "bad_name");
    refused(&bench, &["token", "create", "x", "--expires", "5"], 2, "invalid");
    refused(&bench, &["token", "create", "x", "--person", "nobody"], 4, "no_person");
    operator(&bench, &["token", "create", "x", "--scope", "all"]).assert().code(2);
    let short = bench.json(&["token", "create", "short", "--expires", "1ms"]);
    let dead = Call::get("/api/me").token(short["token"].as_str().unwrap());
    assert_eq!(dead.tcp(server.address()).status, 401);
    // A name means one token of a person; several persons may have the same.
    said(&bench, &["token", "create", "twice"]);
    refused(&bench, &["token", "create", "twice"], 5, "name_taken");
    said(&bench, &["person", "add", "bo"]);
    said(&bench, &["token", "create", "twice", "--person", "bo"]);
    let several = refused(&bench, &["token", "revoke", "twice"], 2, "invalid");
    let hint = several["hint"].as_str().unwrap();
    assert!(hint.contains(" of ada") && hint.contains(" of bo"), "{hint}");
    said(&bench, &["token", "revoke", "twice", "--person", "bo"]);
    said(&bench, &["token", "revoke", "twice"]);
    server.stop();
    // The secret is nowhere on the disk.
    for entry in bench.data.read_dir_utf8().unwrap().map(Result::unwrap) {
        if entry.metadata().unwrap().is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            let found = bytes.windows(secret.len()).any(|it| it == secret.as_bytes());
            assert!(!found, "{}", entry.path());
        }
    }
}

#[test]
fn shells_are_told_what_can_be_completed() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, program, word) in [
        ("bash", "wiki-browser", "complete -F _wiki__browser"),
        ("zsh", "wiki-browser", "#compdef wiki-browser"),
        ("fish", "wiki-browser", "__fish_wiki_browser"),
        ("bash", "wb-agent", "insert-proposal"),
    ] {
        let mut command = super::wiki_browser(folder.path());
        let output = command.args(["completions", shell, "--program", program]).unwrap();
        let printed = text(&output.stdout);
        assert!(printed.contains(word), "{shell} {program}: {printed}");
        assert!(!printed.contains("__guard"), "hidden commands stay hidden");
    }
    super::wiki_browser(folder.path()).args(["completions", "tcsh"]).assert().code(2);
}

/// The credential on the disk follows who is the operator, whatever became of who had it.
#[test]
fn the_operator_who_is_demoted_or_disabled_stops_no_start() {
    let bench = Bench::new();
    let server = bench.serve();
    said(&bench, &["person", "add", "bo", "--role", "admin"]);
    said(&bench, &["person", "add", "cy", "--role", "admin"]);
    let me = || bench.get("/api/me").ok()["person"]["name"].clone();
    assert_eq!(me(), "ada");
    let old = bench.operator();
    said(&bench, &["person", "role", "ada", "member", "--yes"]);
    server.stop();
    let server = bench.serve();
    assert_eq!(me(), "bo");
    said(&bench, &["person", "disable", "bo", "--yes"]);
    server.stop();
    let server = bench.serve();
    assert_eq!((me(), bench.operator()), (json!("cy"), old.clone()));
    // A new one ends the old one, whoever had that.
    server.stop();
    std::fs::remove_file(bench.data.join("operator.token")).unwrap();
    let server = bench.serve();
    assert_eq!(me(), "cy");
    assert_eq!(bench.send(&Call::get("/api/me").token(&old)).status, 401);
    server.stop();
}
