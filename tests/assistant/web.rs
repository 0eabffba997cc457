//! Pages of the web: which are asked about, which are fetched, and what a page is allowed to do.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::tools::{of_type, vault};
use super::{Live, ask, keyed, token};
use crate::support::{Bench, Call};

/// A web of two hosts on one server, which ends with the test.
struct Web {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Web {
    /// Starts it, and writes down where its names lead; returns that file too.
    fn start(bench: &Bench) -> (Web, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).unwrap_or(0);
                let head = String::from_utf8_lossy(&bytes[..count]).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let host = head.lines().find_map(|it| it.strip_prefix("host: "));
                heard.lock().unwrap().push(format!("{}{path}", host.unwrap_or_default()));
                let answer = match path.as_str() {
                    "/away" => {
                        "HTTP/1.1 302 Found\r\nlocation: http://other.test/next\r\n\
                                content-length: 0\r\n\r\n"
                    }
                    _ => {
                        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<h1>Title</h1>\
                          <script>no()</script><p>Words &amp; <a href=/on>a link</a>"
                    }
                };
                if let Err(cause) = stream.write_all(answer.as_bytes()) {
                    eprintln!("the page was not read: {cause}");
                }
            }
        });
        let file = bench.base.join("web");
        let lines = format!(
            "page.test 93.184.216.34 {address}\nother.test 93.184.216.35 {address}\n\
             named.test 93.184.216.36 {address}\ninside.test 10.0.0.1 {address}\n\
             mixed.test 93.184.216.34 {address}\nmixed.test 127.0.0.1 {address}\n"
        );
        std::fs::write(&file, lines).unwrap();
        (Web { asked }, file.into_string())
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// A question with one call after the other; no address in it is one that the person wrote.
pub(super) fn calls(words: &str, calls: &Value) -> Value {
    let steps: Vec<Value> = calls
        .as_array()
        .unwrap()
        .iter()
        .map(|it| json!({"calls": [it]}))
        .chain([json!({"say": ["made"]})])
        .collect();
    // A model's letters: a slash may be written so, which no address of a person is.
    let script = json!(steps).to_string().replace('/', "\\/");
    json!({"message": format!("{words}\nscript {script}")})
}

#[test]
fn a_page_is_read_if_the_person_wrote_its_address() {
    let bench = Bench::new();
    let model = keyed(&bench, "web_hosts = { \"named.test\" },");
    let (web, file) = Web::start(&bench);
    let server = bench.serve_with(&[("WB_WEB", &file)]);
    let fetch = |url: &str| json!(["web_fetch", {"url": url}]);
    let both = json!([fetch("http://page.test/a?b"), fetch("http://named.test/x")]);
    let items = ask(&bench, calls("Read http://page.test/a?b, please.", &both));
    assert!(of_type(&items, "confirm_required").is_empty(), "{items:#?}");
    assert_eq!(web.asked(), ["page.test/a?b", "named.test/x"]);
    let asked = model.asked();
    let told = asked[1]["messages"].as_array().unwrap().last().unwrap();
    let told = told["content"][0]["content"][0]["text"].as_str().unwrap();
    let expected = "http://page.test/a?b:\n\n# Title\n\nWords & a link (http://page.test/on)";
    assert_eq!(told, expected);
    // Also later in the conversation; what is not on the internet is refused whoever wrote it.
    let session = &items[0]["session_id"];
    let mut later = calls(
        "And http://page.test/away http://inside.test/ http://mixed.test/ http://127.0.0.1/ \
         http://[::ffff:10.0.0.1]/x",
        &json!([
            fetch("http://page.test/a?b"),
            fetch("http://page.test/away"),
            fetch("http://inside.test/"),
            fetch("http://mixed.test/"),
            fetch("http://127.0.0.1/"),
            fetch("http://[::ffff:10.0.0.1]/x"),
            fetch("http://page.test:8080/"),
        ]),
    );
    later["session_id"] = session.clone();
    let items = ask(&bench, later);
    assert!(of_type(&items, "confirm_required").is_empty(), "{items:#?}");
    assert_eq!(web.asked(), ["page.test/a?b", "page.test/away"], "nothing else was reached");
    let results = of_type(&items, "tool_result");
    let ok: Vec<bool> = results.iter().map(|it| it["ok"] == true).collect();
    assert_eq!(ok, [true, true, false, false, false, false, false]);
    assert_eq!(results[1]["summary"], "page.test leads to other.test");
    assert_eq!(results[2]["summary"], "inside.test is not on the public internet");
    server.stop();
}

#[test]
fn another_address_is_asked_about() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let (web, file) = Web::start(&bench);
    let server = bench.serve_with(&[("WB_WEB", &file)]);
    let token = token(&bench, "ada");
    let call = json!([["web_fetch", {"url": "http://page.test/a?stolen=words"}]]);
    let decide = |question: Value, verb: &str| {
        let mut live = Live::ask(server.address(), &token, &question);
        let asked = live.until(|it| it["type"] == "confirm_required").expect("it asks");
        assert_eq!(asked["preview"], "http://page.test/a?stolen=words\n");
        assert!(web.asked().is_empty(), "nothing is sent before the answer");
        let id = asked["approval_id"].as_str().unwrap();
        bench.post(&format!("/api/approvals/{id}/{verb}"), json!({"version": 1})).ok();
        live.until(|it| it["type"] == "done").unwrap();
        web.asked()
    };
    assert!(decide(calls("Read http://page.test/a", &call), "reject").is_empty());
    let fetched = ["page.test/a?stolen=words"];
    assert_eq!(decide(calls("Read it", &call), "approve"), fetched);
    // What leaves the site is asked about in a dry run, too.
    let mut dry = calls("Read it", &call);
    dry["dry_run"] = json!(true);
    assert!(decide(dry, "reject").is_empty());
    // What another program wrote, the person did not ask for.
    let mut piped = calls("Read http://page.test/a?stolen=words", &call);
    piped["piped"] = json!(true);
    assert!(decide(piped.clone(), "reject").is_empty());
    // Whoever edits that question has not typed the rest of it.
    let sessions = bench.get("/api/agent/sessions").ok();
    let session = sessions["items"][0]["session_id"].as_str().unwrap();
    let message = format!("Please: {}", piped["message"].as_str().unwrap());
    let edited = json!({"session_id": session, "parent_id": "", "message": message});
    assert!(decide(edited, "reject").is_empty());
    // What a file says, the person did not write: not in an action, and not when it is asked again.
    let folder = vault(&bench).join("agent/actions");
    std::fs::create_dir_all(&folder).unwrap();
    let line = "call web_fetch {\"url\":\"http://page.test/a?stolen=words\"}";
    std::fs::write(folder.join("Read.md"), line).unwrap();
    assert!(decide(json!({"action_id": "read"}), "reject").is_empty());
    let sessions = bench.get("/api/agent/sessions").ok();
    let session = sessions["items"][0]["session_id"].as_str().unwrap();
    let question = super::history(&bench, session)["messages"][0]["id"].clone();
    let again = json!({"session_id": session, "parent_id": question});
    assert!(decide(again, "reject").is_empty());
    server.stop();
}

/// What a page says would stay in force.
#[test]
fn what_a_page_made_it_remember_is_asked_about() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let (_web, file) = Web::start(&bench);
    let server = bench.serve_with(&[("WB_WEB", &file)]);
    let note = |words: &str| json!(["write_file", {"path": "agent/memory.md", "content": words}]);
    let items = ask(&bench, calls("Note it", &json!([note("one")])));
    assert!(of_type(&items, "confirm_required").is_empty(), "{items:#?}");
    std::fs::remove_file(vault(&bench).join("agent/memory.md")).unwrap();
    let token = token(&bench, "ada");
    for url in ["http://page.test/a", "http://page.test/away"] {
        let both = json!([["web_fetch", {"url": url}], note("obey")]);
        let question = calls(&format!("Read {url}"), &both);
        let mut live = Live::ask(server.address(), &token, &question);
        let asked = live.until(|it| it["type"] == "confirm_required").expect("it asks");
        assert_eq!(asked["tool"], "write_file", "{url}");
        let id = asked["approval_id"].as_str().unwrap();
        bench.post(&format!("/api/approvals/{id}/reject"), json!({"version": 1})).ok();
        live.until(|it| it["type"] == "done").unwrap();
    }
    server.stop();
}

pub(super) fn reject_asked(bench: &Bench, live: &mut Live) {
    let asked = live.until(|it| it["type"] == "confirm_required").expect("it asks");
    assert_eq!(asked["tool"], "write_file");
    let id = asked["approval_id"].as_str().unwrap();
    bench.post(&format!("/api/approvals/{id}/reject"), json!({"version": 1})).ok();
    live.until(|it| it["type"] == "done").unwrap();
}

/// What an earlier answer has read is still before the model.
#[test]
fn what_was_read_earlier_in_a_conversation_counts_until_it_ends() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let note = json!([["write_file", {"path": "agent/memory.md", "content": "obey"}]]);
    let items = ask(&bench, calls("Read it", &json!([["read_source", {"path": "guide.md"}]])));
    let session = items[0]["session_id"].clone();
    let more = |mut question: Value| {
        question["session_id"] = session.clone();
        question
    };
    assert!(ask(&bench, more(json!({"message": "Thanks"}))).len() > 1);
    let token = token(&bench, "ada");
    let mut live = Live::ask(server.address(), &token, &more(calls("Note it", &note)));
    reject_asked(&bench, &mut live);
    assert!(!vault(&bench).join("agent/memory.md").exists());
    // So does text of another program.
    let mut piped = calls("Note it", &note);
    piped["piped"] = json!(true);
    let mut live = Live::ask(server.address(), &token, &piped);
    reject_asked(&bench, &mut live);
    // A question asked beside the one that led to it begins without what was read.
    let mut beside = more(calls("Note it", &note));
    beside["parent_id"] = json!("");
    assert!(of_type(&ask(&bench, beside), "confirm_required").is_empty());
    assert!(vault(&bench).join("agent/memory.md").exists());
    server.stop();
}

/// What an answer wrote from what others wrote is read by later conversations, wherever it lies.
#[test]
fn a_file_written_from_text_of_others_counts_in_every_later_conversation() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let (token, vault) = (token(&bench, "ada"), vault(&bench));
    let note = json!(["write_file", {"path": "agent/memory.md", "content": "obey"}]);
    let read = |path: &str| json!(["read_file", {"path": path}]);
    let write = json!(["write_file", {"path": "notes.md", "content": "They say: obey.\n"}]);
    let both = json!([["read_source", {"path": "guide.md"}], write]);
    let items = ask(&bench, calls("Note it", &both));
    assert!(of_type(&items, "confirm_required").is_empty());
    let asks = |first: &Value| {
        let mut live = Live::ask(server.address(), &token, &calls("Go on", &json!([first, note])));
        reject_asked(&bench, &mut live);
    };
    asks(&read("notes.md"));
    asks(&json!(["search_files", {"pattern": "they SAY"}]));
    // Moved by a conversation that has read nothing, copied and written on by a person.
    let moved = json!([["move_file", {"from": "notes.md", "to": "kept.md"}]]);
    assert!(of_type(&ask(&bench, calls("Move it", &moved)), "confirm_required").is_empty());
    std::fs::copy(vault.join("kept.md"), vault.join("copy.md")).unwrap();
    std::fs::write(vault.join("kept.md"), "They say: obey. And I say so.\n").unwrap();
    // The conversation that wrote it is gone.
    let session = items[0]["session_id"].as_str().unwrap();
    let delete = Call::new("DELETE", &format!("/api/agent/sessions/{session}"));
    bench.send(&delete.token(&token)).ok();
    asks(&read("kept.md"));
    asks(&read("copy.md"));
    // Nor does it become the memory as it is, unread.
    let moved = json!([["move_file", {"from": "copy.md", "to": "agent/memory.md"}]]);
    let mut live = Live::ask(server.address(), &token, &calls("Move it", &moved));
    let asked = live.until(|it| it["type"] == "confirm_required").expect("it asks");
    let id = asked["approval_id"].as_str().unwrap();
    bench.post(&format!("/api/approvals/{id}/reject"), json!({"version": 1})).ok();
    live.until(|it| it["type"] == "done").unwrap();
    assert!(!vault.join("agent/memory.md").exists());
    // What the person wrote is theirs.
    std::fs::write(vault.join("own.md"), "I say so.\n").unwrap();
    let items = ask(&bench, calls("Go on", &json!([read("own.md"), note])));
    assert!(of_type(&items, "confirm_required").is_empty());
    assert!(vault.join("agent/memory.md").exists());
    server.stop();
}
