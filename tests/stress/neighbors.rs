//! Several sites on one machine: one browser, one port, deep folders.

use std::collections::BTreeMap;

use serde_json::json;

use super::sign_in;
use crate::support::{Bench, Call, Server};

/// A browser's cookies: by host, and so the same for all ports of 127.0.0.1.
#[derive(Default)]
struct Jar(BTreeMap<String, String>);

impl Jar {
    fn keep(&mut self, cookie: &str) {
        let (name, value) = cookie.split_once('=').unwrap();
        self.0.insert(name.to_owned(), value.to_owned());
    }

    fn header(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }
}

/// Fails with `WB_WITHOUT=cookie_name`.
#[test]
fn two_sites_in_one_browser_do_not_meet() {
    let (one, two) = (Bench::new(), Bench::new());
    let (first, second) = (one.serve(), two.serve());
    let (a, b) = (first.address(), second.address());
    let mut jar = Jar::default();
    jar.keep(&sign_in(&one, a));
    jar.keep(&sign_in(&two, b));
    let me = |address| Call::get("/api/me").header("Cookie", &jar.header()).tcp(address).status;
    assert_eq!((me(a), me(b)), (200, 200), "signing in there did not sign out here");

    // A page of one site does nothing at the other, although the browser sends both cookies.
    let own = format!("http://{a}");
    let topic = json!({"source_path": "guide.md", "global": true, "body": "x"});
    for headers in [
        &[("Sec-Fetch-Site", "same-site"), ("Origin", own.as_str())][..],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Origin", own.as_str())],
        &[("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "navigate")],
        &[],
    ] {
        let call = Call::post("/api/topics", topic.clone()).header("Cookie", &jar.header());
        let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
        assert_eq!(call.tcp(b).refusal(), (403, "cross_origin"), "{headers:?}");
    }
    for target in ["/api/topics", "/api/events", "/", "/assets/0/wb.css"] {
        let call = Call::get(target).header("Cookie", &jar.header());
        let call = call.header("Sec-Fetch-Site", "same-site").header("Sec-Fetch-Mode", "cors");
        assert_eq!(call.tcp(b).status, 403, "{target}");
    }
    assert_eq!(two.get("/api/topics").ok()["items"], json!([]));
    // A credential of one site is none at the other, not even under its name.
    let (name, _) = jar.0.iter().next().unwrap();
    let stolen = jar.0.values().last().unwrap();
    let wrong = format!("{name}={stolen}");
    let statuses = [a, b].map(|it| Call::get("/api/me").header("Cookie", &wrong).tcp(it).status);
    assert_eq!(statuses, [401, 401]);
    let foreign = Call::get("/api/me").token(&one.operator()).try_socket(&two.socket()).unwrap();
    assert_eq!(foreign.status, 401);

    // Leaving one is not leaving the other.
    let logout = Call::post("/api/logout", json!({})).header("Cookie", &jar.header());
    let logout = logout.header("Sec-Fetch-Site", "same-origin").tcp(a);
    assert_eq!(logout.status, 200);
    let cleared = logout.head.lines().find(|it| it.to_lowercase().starts_with("set-cookie:"));
    let cleared = cleared.unwrap().split_once(": ").unwrap().1;
    jar.0.remove(cleared.split_once('=').unwrap().0).unwrap();
    let me = |address| Call::get("/api/me").header("Cookie", &jar.header()).tcp(address).status;
    assert_eq!((me(a), me(b)), (401, 200));
    first.stop();
    second.stop();
}

#[test]
fn two_sites_on_one_port_name_each_other() {
    let (one, two) = (Bench::new(), Bench::new());
    let first = one.serve();
    two.write_script();
    let port = first.address().port();
    let script = two.read("wiki-browser.lua").replace("127.0.0.1:0", &format!("127.0.0.1:{port}"));
    two.write("wiki-browser.lua", script);
    let mut second = Server::spawn(&two, &[]);
    let (status, _) = second.wait();
    let said = second.log();
    assert_eq!(status.code(), Some(6), "{said}");
    for words in [
        format!("cannot listen on 127.0.0.1:{port}: wiki-browser (pid {}, in ", first.pid()),
        one.top.to_string(),
        "hint: stop it, or set another port with `listen`".to_owned(),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    assert!(!two.data.join("server.json").exists(), "nothing is said of a server that is none");
    assert_eq!(one.get("/readyz").status, 200);
    assert_eq!(one.json(&["status"])["site"]["address"], format!("http://127.0.0.1:{port}"));
    let (_, words, _) = one.cli(&["status"]);
    assert!(words.contains(&format!("127.0.0.1:{port}")), "{words}");
    first.stop();
}

/// Linux takes no path of a socket beyond 107 bytes.
#[test]
fn a_site_in_a_deep_folder_of_strange_names_works() {
    let deep = "ein-langer-ordner-mit-ümläuten/日本語のとても長い名前のフォルダ";
    let bench = Bench::below(&[deep; 4].join("/"));
    assert!(bench.socket().as_str().len() > 300, "{}", bench.socket().as_str().len());
    bench.topic_kind(
        "adds",
        "timeout = \"20s\", produces = \"proposal\", lane = \"source_path\", on_busy = \"reject\"",
        "{ cat \"$root/$path\"; echo more; } | propose > \"$OUT/id\"",
    );
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let job = bench.ended(&bench.job_on("adds", &topic));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(bench.left("id"), job["proposal_id"].as_str().unwrap(), "wb-agent was answered");
    assert_eq!(bench.json(&["status"])["ready"]["status"], "ready");
    let followed = bench.cli(&["job", "follow", job["id"].as_str().unwrap()]);
    assert_eq!(followed.0, 0, "{followed:?}");
    // What a kill leaves behind is in nobody's way, there as elsewhere.
    server.kill();
    let (code, _, said) = bench.cli(&["status"]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("no server listens on"), "{said}");
    assert!(bench.socket().exists() && bench.data.join("server.json").exists());
    let server = bench.serve();
    assert_eq!(bench.json(&["status"])["ready"]["status"], "ready");
    server.stop();
}
