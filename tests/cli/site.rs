//! `wiki-browser status`, `login`, `--json`, `--field`, and a viewer.

use std::net::SocketAddr;

use serde_json::{Value, json};
use wiki_browser::base::digest_hex;

use super::desk::{ADDS_A_LINE, PROPOSES, operator, refused, said, text};
use super::wiki_browser;
use crate::support::{Bench, Call, raw};

#[test]
fn the_status_says_whether_the_site_is_well_and_what_waits() {
    let bench = Bench::new();
    bench.topic_kind("works", PROPOSES, ADDS_A_LINE);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    bench.proposal("works", &topic);
    let shown = said(&bench, &["status"]);
    for line in [
        "state       ready\n",
        "jobs        0 running, 0 queued\n",
        "topics      1 open\n",
        "proposals   1 awaiting review\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let value = bench.json(&["status"]);
    let counts =
        json!({"jobs_running": 0, "jobs_queued": 0, "topics_open": 1, "proposals_open": 1});
    assert_eq!(value["counts"], counts);
    // From a folder below, and from anywhere by name.
    wiki_browser(bench.top.join("docs").as_std_path()).arg("status").assert().success();
    let elsewhere = || wiki_browser(bench.base.as_std_path());
    elsewhere().args(["status", "--data", bench.data.as_str()]).assert().success();
    let script = bench.top.join("wiki-browser.lua");
    elsewhere().args(["status", "--config", script.as_str()]).assert().success();
    elsewhere().arg("status").assert().code(4);
    server.stop();
}

#[test]
fn every_command_needs_a_server_and_a_credential() {
    let bench = Bench::new();
    let server = bench.serve();
    let id = "018bcfe5-6800-7000-8000-000000000000";
    let commands: &[&[&str]] = &[
        &["status"],
        &["login"],
        &["events"],
        &["job", "list"],
        &["job", "show", id],
        &["job", "follow", id],
        &["job", "create", "works"],
        &["job", "cancel", id],
        &["job", "retry", id],
        &["job", "log", id],
        &["job", "prompt", id],
        &["topic", "list"],
        &["topic", "show", id],
        &["topic", "create", "--source", "a.md", "--global", "--body", "x"],
        &["topic", "message", id, "--body", "x"],
        &["topic", "discard", id],
        &["topic", "reopen", id],
        &["proposal", "list"],
        &["proposal", "show", id],
        &["proposal", "diff", id],
        &["proposal", "approve", id, "--yes"],
        &["proposal", "reject", id, "--reason", "x"],
        &["source", "list"],
        &["source", "show", "guide.md"],
        &["source", "history", "guide.md"],
    ];
    let token = bench.operator();
    std::fs::write(bench.data.join("operator.token"), "wb_wrong\n").unwrap();
    for command in commands {
        refused(&bench, command, 3, "unauthenticated");
    }
    std::fs::write(bench.data.join("operator.token"), &token).unwrap();
    // What a killed server leaves behind is a server.json and a socket on which nobody listens.
    server.kill();
    for command in commands {
        let error = refused(&bench, command, 6, "no_server");
        assert_eq!(error["hint"], "start it with: wiki-browser serve", "{command:?}");
    }
}

#[test]
fn a_link_logs_in_once_and_a_look_at_it_does_not_use_it_up() {
    let bench = Bench::new();
    let server = bench.serve();
    let assert = operator(&bench, &["login"]).assert().success();
    let url = text(&assert.get_output().stdout);
    let note = text(&assert.get_output().stderr);
    assert!(note.starts_with("works once; expires in "), "{note}");
    let (address, code) =
        url.trim().strip_prefix("http://").unwrap().split_once("/login/").unwrap();
    let address: SocketAddr = address.parse().unwrap();
    assert_eq!(address, server.address());
    let get = Call::get(&format!("/login/{code}")).tcp(address);
    assert_eq!(get.status, 200, "{get:?}");
    let form = format!("code={code}");
    let post = format!(
        "POST /api/login HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Site: same-origin\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{form}",
        form.len()
    );
    let answer = String::from_utf8(raw(address, post.as_bytes())).unwrap();
    assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
    let cookie = answer.lines().find_map(|it| it.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let me = Call::get("/api/me").header("Cookie", cookie).tcp(address).ok();
    assert_eq!(me["person"]["name"], "ada");
    let again = String::from_utf8(raw(address, post.as_bytes())).unwrap();
    assert!(again.starts_with("HTTP/1.1 4"), "{again}");
    let get = Call::get(&format!("/login/{code}")).tcp(address);
    assert_ne!(get.status, 200, "{get:?}");
    // Each link is a new one.
    assert_ne!(said(&bench, &["login"]), url);
    let shown = bench.json(&["login"]);
    assert!(shown["url"].is_string() && shown["expires_at"].is_string(), "{shown}");
    server.stop();
}

#[test]
fn json_is_the_servers_and_a_field_is_one_value_of_it() {
    let bench = Bench::new();
    bench.topic_kind("works", PROPOSES, ADDS_A_LINE);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let job = bench.ended(&bench.job_on("works", &topic));
    let job_id = job["id"].as_str().unwrap();
    let proposal = job["proposal_id"].as_str().unwrap();
    for (args, route) in [
        (&["job", "list"][..], "/api/agent/jobs".to_owned()),
        (&["job", "show", job_id], format!("/api/agent/jobs/{job_id}")),
        (&["job", "follow", job_id], format!("/api/agent/jobs/{job_id}")),
        (&["job", "prompt", job_id], format!("/api/agent/jobs/{job_id}/prompt")),
        (&["job", "log", job_id], format!("/api/agent/jobs/{job_id}/log")),
        (&["topic", "list"], "/api/topics".to_owned()),
        (&["topic", "show", &topic.id], format!("/api/topics/{}", topic.id)),
        (&["proposal", "list"], "/api/proposals".to_owned()),
        (&["proposal", "diff", proposal], format!("/api/proposals/{proposal}")),
        (&["source", "list"], "/api/sources".to_owned()),
        (&["source", "show", "guide.md"], "/api/source?path=guide.md".to_owned()),
        (&["source", "history", "guide.md"], "/api/source/history?path=guide.md".to_owned()),
    ] {
        let (ours, theirs) = (bench.json(args), bench.get(&route).ok());
        assert_eq!(ours.to_string(), theirs.to_string(), "{args:?}");
    }
    let field = |path: &str| said(&bench, &["job", "show", job_id, "--field", path]);
    assert_eq!(field("status"), "succeeded\n");
    assert_eq!(field("exit_code"), "0\n");
    assert_eq!(field("error_tail"), "null\n");
    assert_eq!(field("inputs.topic_id").trim(), topic.id);
    let args = ["job", "show", job_id, "--field", "inputs.nothing"];
    let assert = operator(&bench, &args).assert().code(2).stdout("");
    let said = text(&assert.get_output().stderr);
    assert!(said.contains("`inputs` has no field `nothing`"), "{said}");
    assert!(said.contains("it has: topic_id, source_path, base_source_sha"), "{said}");
    server.stop();
}

/// Makes a person who may only look, and puts their token in the operator's place.
fn become_viewer(bench: &Bench) {
    let secret = "wb_the_viewers_secret";
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let id = "018bcfe5-6800-7000-8000-00000000abcd";
    let person = "INSERT INTO persons (id, name, display_name, role, created_ms)
        VALUES (?1, 'vera', 'Vera', 'viewer', 1)";
    database.execute(person, [id]).unwrap();
    let token = "INSERT INTO tokens (id, person_id, name, hash, scopes_json, created_ms)
        VALUES (?1, ?1, 'operator', ?2, '[\"read\",\"write\",\"decide\"]', 1)";
    database.execute(token, [id, &digest_hex(secret)]).unwrap();
    std::fs::write(bench.data.join("operator.token"), secret).unwrap();
}

#[test]
fn who_may_only_look_is_told_so() {
    let bench = Bench::new();
    bench.topic_kind("works", PROPOSES, ADDS_A_LINE);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let job = bench.ended(&bench.job_on("works", &topic));
    let (job_id, proposal) = (job["id"].as_str().unwrap(), job["proposal_id"].as_str().unwrap());
    become_viewer(&bench);
    for args in [
        &["status"][..],
        &["job", "list"],
        &["job", "log", job_id],
        &["topic", "show", &topic.id],
        &["proposal", "diff", proposal],
        &["source", "show", "guide.md"],
    ] {
        operator(&bench, args).assert().success();
    }
    let input = format!("topic_id={}", topic.id);
    for args in [
        &["login"][..],
        &["job", "create", "works", &input],
        &["job", "cancel", job_id],
        &["job", "retry", job_id],
        &["topic", "create", "--source", "guide.md", "--global", "--body", "x"],
        &["topic", "message", &topic.id, "--body", "x"],
        &["topic", "discard", &topic.id],
        &["topic", "reopen", &topic.id],
        &["proposal", "approve", proposal, "--yes"],
        &["proposal", "reject", proposal, "--reason", "x"],
    ] {
        let error: Value = refused(&bench, args, 3, "viewer");
        assert!(error["message"].as_str().unwrap().starts_with("your role (viewer)"), "{error}");
    }
    server.stop();
}
