//! LinkedIn: who is connected, what is published in their name, and each refusal.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::tools::{of_type, vault};
use super::{Live, ask, ended, history, keyed, person, token};
use crate::support::{Bench, Call, Model, Server, until};

const TOKEN: &str = "token-of-ada-at-linkedin";
const SECRET: &str = "secret-of-the-app";

/// A stand-in for LinkedIn, which ends with the test. It refuses a text `status N` with that
/// status, and leaves on `cut`. A post's number is the status for its comments.
struct Linkedin {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone, Debug)]
struct Asked {
    line: String,
    head: String,
    body: String,
}

impl Linkedin {
    fn start() -> Linkedin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(&stream, &heard);
            }
        });
        Linkedin { address, asked }
    }

    /// Returns the requests since the last look.
    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let start = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if let Some(value) = head[start..].strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
    Some(Asked { line, head, body: String::from_utf8(body).ok()? })
}

fn answer(stream: &TcpStream, asked: &Mutex<Vec<Asked>>) -> Option<()> {
    let Asked { line, head, body } = read(stream)?;
    let heard = Asked { line: line.clone(), head: head.clone(), body: body.clone() };
    asked.lock().unwrap().push(heard);
    let told: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = told["commentary"].as_str().or(told["message"]["text"].as_str()).unwrap_or_default();
    let (status, id, body) = match line.as_str() {
        "POST /oauth/v2/accessToken" if !body.contains("code=good&") => {
            (400, "", json!({"error": "invalid_grant"}))
        }
        "POST /oauth/v2/accessToken" if !body.contains(SECRET) => {
            (401, "", json!({"error": "invalid_client"}))
        }
        "POST /oauth/v2/accessToken" => {
            let scope = "openid,profile,w_member_social";
            (200, "", json!({"access_token": TOKEN, "expires_in": 5_184_000, "scope": scope}))
        }
        _ if !head.contains(&format!("authorization: Bearer {TOKEN}\r\n")) => (401, "", json!({})),
        "GET /v2/userinfo" => (200, "", json!({"sub": "ada-1", "name": "Ada <i>L</i>"})),
        _ if text == "cut" => return None,
        _ if text.starts_with("status ") => {
            let status = text["status ".len()..].parse().ok()?;
            let code = if status == 422 { "DUPLICATE_POST" } else { "NO" };
            (status, "", json!({"status": status, "code": code, "message": "as was asked"}))
        }
        "POST /rest/posts" => (201, "urn:li:share:7001", json!(null)),
        it if it.starts_with("POST /rest/socialActions/") => {
            let urn = "urn:li:comment:(urn:li:share:7001,9)";
            (201, "9", json!({"id": "9", "commentUrn": urn}))
        }
        it => {
            let number = it.split_once("share%3A").and_then(|it| it.1.split_once('/'))?.0;
            let same = asked.lock().unwrap().iter().filter(|it| it.line == line).count();
            let comment = json!({
                "commentUrn": "urn:li:comment:(urn:li:share:7001,9)", "actor": "urn:li:person:x",
                "message": {"text": "Nice"}, "created": {"time": 0},
            });
            let whole = json!({"elements": [comment], "paging": {"total": 1}});
            match number.parse().ok()? {
                // It works at the third time.
                700 if same < 3 => (503, "", json!({})),
                status if status < 700 => (status, "", json!({"message": "as was asked"})),
                _ => (200, "", whole),
            }
        }
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let id = if id.is_empty() { String::new() } else { format!("x-restli-id: {id}\r\n") };
    let answer = format!(
        "HTTP/1.1 {status} X\r\n{id}content-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = stream;
    stream.write_all(answer.as_bytes()).ok()
}

/// Declares an assistant of a site with an app.
fn with_app(bench: &Bench) -> (Model, Linkedin) {
    let (id, secret) = (bench.base.join("id"), bench.base.join("secret"));
    std::fs::write(&id, "app 1\n").unwrap();
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let model = keyed(
        bench,
        &format!(
            "linkedin = {{ client_id = wb.secret.file \"{id}\", client_secret = wb.secret.file \
             \"{secret}\", version = \"202610\", redirect = \
             \"https://wiki.example.org/linkedin/callback\" }},"
        ),
    );
    (model, Linkedin::start())
}

/// Begins to connect the operator; returns the state that LinkedIn would give back.
fn begin(bench: &Bench) -> String {
    let url = bench.post("/api/linkedin/connect", json!({})).ok()["url"].clone();
    let url = url.as_str().unwrap();
    for part in [
        "/oauth/v2/authorization?response_type=code&client_id=app+1&",
        "&redirect_uri=https%3A%2F%2Fwiki.example.org%2Flinkedin%2Fcallback&",
        "&scope=openid+profile+w_member_social",
    ] {
        assert!(url.contains(part), "{url}");
    }
    let state = url.split_once("&state=").unwrap().1.split_once('&').unwrap().0;
    assert_eq!(bench.get("/api/linkedin/health").ok()["url"], url);
    state.to_owned()
}

fn finish(bench: &Bench, state: &str, code: &str) -> crate::support::Answer {
    bench.post("/api/linkedin/finish", json!({"state": state, "code": code}))
}

fn connect(bench: &Bench) {
    let state = begin(bench);
    assert_eq!(finish(bench, &state, "good").ok()["state"], "connected");
}

fn page(bench: &Bench, path: &str) -> String {
    bench.get(path).ok().as_str().unwrap().to_owned()
}

/// Asks for one call; the person answers its question, if there is one. Returns the items.
fn call(bench: &Bench, server: &Server, (tool, args): (&str, Value), verb: &str) -> Vec<Value> {
    let token = token(bench, "ada");
    let question = json!({"message": format!("call {tool} {args}")});
    let mut live = Live::ask(server.address(), &token, &question);
    let next = live.until(|it| it["type"] == "confirm_required" || it["type"] == "done").unwrap();
    if next["type"] == "confirm_required" {
        let id = next["approval_id"].as_str().unwrap();
        bench.post(&format!("/api/approvals/{id}/{verb}"), json!({"version": 1})).ok();
        live.until(|it| it["type"] == "done").unwrap();
    }
    live.seen
}

#[test]
fn a_person_connects_and_only_they_can_finish_it() {
    let bench = Bench::new();
    let (_model, linkedin) = with_app(&bench);
    let server = bench.serve_with(&[("WB_LINKEDIN", &linkedin.address)]);
    assert_eq!(bench.get("/api/linkedin/health").ok()["state"], "not_connected");
    assert!(page(&bench, "/linkedin").contains("Connect LinkedIn"));
    assert!(page(&bench, "/assistant").contains("not connected"));
    // Who is not connected is not asked, but told.
    let post = ("linkedin_post", json!({"text": "Hello"}));
    let items = call(&bench, &server, post, "approve");
    assert!(of_type(&items, "confirm_required").is_empty(), "{items:#?}");
    assert_eq!(of_type(&items, "tool_result")[0]["summary"], "you have not connected LinkedIn");
    // What LinkedIn leads back with is confirmed by a button, and by the person who began.
    let state = begin(&bench);
    let back = page(&bench, &format!("/linkedin/callback?state={state}&code=good&more=x"));
    assert!(back.contains(&format!("name=\"state\" value=\"{state}\"")), "{back}");
    let denied =
        page(&bench, "/linkedin/callback?error=denied&error_description=%3Cb%3Eno&state=x");
    assert!(denied.contains("&#60;b&#62;no") && denied.contains("Try again"), "{denied}");
    let bea = person(&bench, "bea");
    let as_bea = |call: Call| bench.send(&call.token(&bea)).refusal().1.to_owned();
    assert_eq!(as_bea(Call::post("/api/linkedin/connect", json!({}))), "token_forbidden");
    assert_eq!(as_bea(Call::get("/api/linkedin/health")), "token_forbidden");
    assert_eq!(finish(&bench, "0000", "good").refusal(), (409, "login_ended"));
    assert!(linkedin.asked().is_empty());
    // Another state ends nothing.
    assert_eq!(finish(&bench, &state, "bad").refusal(), (409, "linkedin_code"));
    assert_eq!(finish(&bench, &begin(&bench), "").refusal(), (400, "bad_parameter"));
    std::fs::write(bench.base.join("secret"), "another\n").unwrap();
    assert_eq!(finish(&bench, &begin(&bench), "good").refusal(), (503, "linkedin_app"));
    std::fs::write(bench.base.join("secret"), SECRET).unwrap();
    let state = begin(&bench);
    linkedin.asked();
    let shown = finish(&bench, &state, "good").ok();
    assert_eq!((&shown["state"], &shown["name"]), (&json!("connected"), &json!("Ada <i>L</i>")));
    assert_eq!(finish(&bench, &state, "good").refusal(), (409, "login_ended"));
    let lines: Vec<String> = linkedin.asked().into_iter().map(|it| it.line).collect();
    assert_eq!(lines, ["POST /oauth/v2/accessToken", "GET /v2/userinfo"]);
    assert!(page(&bench, "/linkedin").contains("Connected as <strong>Ada &#60;i&#62;L"));
    // The token is in one private file, and in nothing that the server says.
    let me = bench.get("/api/me").ok();
    let me = me["person"]["id"].as_str().or(me["id"].as_str()).unwrap().to_owned();
    let file = bench.data.join("people").join(&me).join("linkedin.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&file).unwrap().contains(TOKEN));
    let rows = ["wiki.db", "wiki.db-wal"].map(|it| std::fs::read(bench.data.join(it)).unwrap());
    let is_in =
        |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|it| it == word.as_bytes());
    for word in [TOKEN, SECRET] {
        assert!(!rows.iter().any(|it| is_in(it, word)) && !server.log().contains(word));
    }
    let gone = bench.send(&Call::new("DELETE", "/api/linkedin").token(&bench.operator())).ok();
    assert_eq!((gone["was_signed_in"] == true, file.exists()), (true, false));
    server.stop();
}

#[test]
fn what_is_published_is_what_the_person_allowed() {
    let bench = Bench::new();
    let (_model, linkedin) = with_app(&bench);
    let server = bench.serve_with(&[("WB_LINKEDIN", &linkedin.address)]);
    connect(&bench);
    linkedin.asked();
    let post = || ("linkedin_post", json!({"text": "Read (this) #rust\n\"now\""}));
    let items = call(&bench, &server, post(), "reject");
    assert_eq!(of_type(&items, "tool_result")[0]["state"], "declined");
    assert!(linkedin.asked().is_empty(), "nothing is sent before the answer, or after this one");
    let dry = json!({"message": format!("call linkedin_post {}", post().1), "dry_run": true});
    let items = ask(&bench, dry);
    assert_eq!(of_type(&items, "tool_result")[0]["summary"], "dry run: not made");
    assert!(linkedin.asked().is_empty());
    let items = call(&bench, &server, post(), "approve");
    let asked = of_type(&items, "confirm_required")[0];
    assert_eq!(asked["preview"], "Read (this) #rust\n\"now\"\n");
    assert_eq!(asked["reason"], "it is published on LinkedIn in your name");
    let result = of_type(&items, "tool_result")[0];
    assert_eq!(
        (&result["ok"], &result["summary"]),
        (&json!(true), &json!("published as urn:li:share:7001"))
    );
    let sent = linkedin.asked();
    assert_eq!((sent.len(), sent[0].line.as_str()), (1, "POST /rest/posts"));
    assert!(sent[0].head.contains("linkedin-version: 202610\r\n"), "{}", sent[0].head);
    let body: Value = serde_json::from_str(&sent[0].body).unwrap();
    assert_eq!(body["commentary"], "Read \\(this\\) #rust\n\"now\"");
    assert_eq!(body["author"], "urn:li:person:ada-1");
    // The vault has a list of it, and a record of each answer that published something.
    let table = std::fs::read_to_string(vault(&bench).join("linkedin/posts.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "timestamp,action,post_urn,comment_urn,text,response"));
    let expected =
        ",\"post\",\"urn:li:share:7001\",\"\",\"Read (this) #rust\\n\"\"now\"\"\",\"published\"";
    assert!(lines[1].ends_with(expected), "{}", lines[1]);
    let records = vault(&bench).join("agent/runs");
    until("the answer is recorded", || {
        walk(&records).iter().any(|it| it.contains("published as urn:li:share:7001"))
    });
    server.stop();
}

#[test]
fn comments_are_read_and_answered() {
    let bench = Bench::new();
    let (model, linkedin) = with_app(&bench);
    let server = bench.serve_with(&[("WB_LINKEDIN", &linkedin.address)]);
    connect(&bench);
    linkedin.asked();
    let on = "urn:li:share:7001";
    let comment = ("linkedin_post_comment", json!({"post_urn": on, "text": "(One)"}));
    call(&bench, &server, comment, "approve");
    let to = "urn:li:comment:(urn:li:share:7001,9)";
    let reply = ("linkedin_reply_comment", json!({"comment_urn": to, "text": "Two"}));
    let items = call(&bench, &server, reply, "approve");
    assert_eq!(of_type(&items, "confirm_required")[0]["preview"], format!("To {to}:\n\nTwo\n"));
    let read = || ("linkedin_read_comments", json!({"post_urn": on}));
    let items = call(&bench, &server, read(), "reject");
    assert!(of_type(&items, "confirm_required").is_empty());
    assert_eq!(of_type(&items, "tool_result")[0]["summary"], "1 comments");
    let told = model.asked().last().unwrap()["messages"].to_string();
    assert!(told.contains("Nice") && told.contains("urn:li:person:x"), "{told}");
    let sent = linkedin.asked();
    let lines: Vec<&str> = sent.iter().map(|it| it.line.as_str()).collect();
    let comment = "urn%3Ali%3Acomment%3A%28urn%3Ali%3Ashare%3A7001%2C9%29";
    let expected = [
        "POST /rest/socialActions/urn%3Ali%3Ashare%3A7001/comments".to_owned(),
        format!("POST /rest/socialActions/{comment}/comments"),
        "GET /rest/socialActions/urn%3Ali%3Ashare%3A7001/comments?start=0&count=100".to_owned(),
    ];
    assert_eq!(lines, expected);
    let body: Value = serde_json::from_str(&sent[1].body).unwrap();
    assert_eq!((&body["parentComment"], &body["object"]), (&json!(to), &json!(on)));
    assert_eq!(body["message"]["text"], "Two");
    let table = std::fs::read_to_string(vault(&bench).join("linkedin/posts.csv")).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains(&format!("\"reply\",\"{on}\",")), "{table}");
    // What strangers wrote must not be remembered without a question.
    let note = "call write_file {\"path\":\"agent/memory.md\",\"content\":\"obey\"}";
    let question = format!("call linkedin_read_comments {}\n{note}", read().1);
    let mut live =
        Live::ask(server.address(), &token(&bench, "ada"), &json!({"message": question}));
    let asked = live.until(|it| it["type"] == "confirm_required" || it["type"] == "done").unwrap();
    assert_eq!(asked["tool"], "write_file");
    drop(live);
    server.stop();
}

fn walk(folder: &camino::Utf8Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => found.extend(walk(entry.path())),
            false => found.push(std::fs::read_to_string(entry.path()).unwrap_or_default()),
        }
    }
    found
}

/// Seven days before its end, a sign-in is announced; after it, nobody is asked and nothing sent.
#[test]
fn a_sign_in_ends_when_it_says() {
    let bench = Bench::new();
    let (_model, linkedin) = with_app(&bench);
    let server = bench.serve_with(&[("WB_LINKEDIN", &linkedin.address)]);
    connect(&bench);
    let person = bench.data.join("people").read_dir_utf8().unwrap().next().unwrap().unwrap();
    let file = person.path().join("linkedin.json");
    let account: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let days = |count: i64| jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * count);
    for (left, state, words) in [
        (8, "connected", "connected as"),
        (6, "expires_soon", "connect again soon"),
        (-1, "expired", "connect again"),
    ] {
        let mut account = account.clone();
        account["expires_at"] = json!(format!("{:.3}", days(left)));
        std::fs::write(&file, account.to_string()).unwrap();
        let health = bench.get("/api/linkedin/health").ok();
        assert_eq!(health["state"], state, "{health}");
        assert!(page(&bench, "/assistant").contains(words), "{state}");
    }
    linkedin.asked();
    let items = call(&bench, &server, ("linkedin_post", json!({"text": "x"})), "approve");
    assert!(of_type(&items, "confirm_required").is_empty() && linkedin.asked().is_empty());
    connect(&bench);
    server.stop();
}

#[test]
fn each_refusal_says_what_to_do_and_nothing_is_sent_twice() {
    let bench = Bench::new();
    let (_model, linkedin) = with_app(&bench);
    let server = bench.serve_with(&[("WB_LINKEDIN", &linkedin.address)]);
    connect(&bench);
    for (text, state, summary) in [
        ("status 403", "done", "LinkedIn refused this: as was asked"),
        ("status 422", "done", "LinkedIn has this text already"),
        ("status 400", "done", "LinkedIn refused this: as was asked"),
        ("status 426", "done", "LinkedIn no longer has this version: as was asked"),
        ("status 429", "done", "LinkedIn's daily limit is reached until "),
        ("status 503", "unknown", "LinkedIn did not confirm this (as was asked), but may have"),
        ("cut", "unknown", "LinkedIn did not confirm this ("),
        ("status 401", "done", "LinkedIn no longer accepts the sign-in"),
    ] {
        linkedin.asked();
        let items = call(&bench, &server, ("linkedin_post", json!({"text": text})), "approve");
        let result = of_type(&items, "tool_result")[0];
        assert_eq!((&result["state"], &result["ok"]), (&json!(state), &json!(false)), "{text}");
        let found = result["summary"].as_str().unwrap();
        assert!(found.starts_with(summary), "{text}: {found}");
        assert_eq!(linkedin.asked().len(), 1, "{text}");
        if state == "unknown" {
            let shown = history(&bench, items[0]["session_id"].as_str().unwrap());
            assert_eq!(shown["calls"][0]["can_undo"], false);
        }
    }
    assert!(!vault(&bench).join("linkedin/posts.csv").exists());
    assert_eq!(bench.get("/api/linkedin/health").ok()["state"], "refused");
    let again = call(&bench, &server, ("linkedin_post", json!({"text": "x"})), "approve");
    assert!(of_type(&again, "confirm_required").is_empty() && linkedin.asked().is_empty());
    connect(&bench);
    // Reading is tried three times, but not what cannot pass.
    for (number, requests, summary) in [
        (700, 3, "1 comments"),
        (500, 3, "LinkedIn cannot be reached: as was asked"),
        (403, 1, "your LinkedIn app may not read comments"),
        (429, 1, "LinkedIn's daily limit is reached until "),
    ] {
        linkedin.asked();
        let read = json!({"post_urn": format!("urn:li:share:{number}")});
        let items = call(&bench, &server, ("linkedin_read_comments", read), "reject");
        let found = of_type(&items, "tool_result")[0]["summary"].as_str().unwrap();
        assert!(found.starts_with(summary), "{number}: {found}");
        assert_eq!(linkedin.asked().len(), requests, "{number}");
    }
    server.stop();
}

/// A server that dies after it has published cannot know it, and does not do it again.
#[test]
fn g43_what_was_published_when_the_server_died_is_not_published_again() {
    let bench = Bench::new();
    let (_model, linkedin) = with_app(&bench);
    let armed = bench.base.join("armed");
    let env = [
        ("WB_CRASH_AT", "after_tool"),
        ("WB_CRASH_WHEN", armed.as_str()),
        ("WB_LINKEDIN", &linkedin.address),
    ];
    let mut server = bench.serve_with(&env);
    connect(&bench);
    linkedin.asked();
    let question = json!({"message": "call linkedin_post {\"text\":\"Once\"}"});
    let mut live = Live::ask(server.address(), &token(&bench, "ada"), &question);
    let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
    std::fs::write(&armed, "").unwrap();
    let approve = format!("/api/approvals/{}/approve", asked["approval_id"].as_str().unwrap());
    // It may die before its answer is on its way.
    Call::post(&approve, json!({"version": 1}))
        .token(&bench.operator())
        .try_socket(&bench.socket());
    assert!(live.until(|it| it["type"] == "done").is_none());
    server.wait();
    let server = bench.serve_with(&[("WB_LINKEDIN", &linkedin.address)]);
    let run = live.seen[0]["run_id"].as_str().unwrap();
    assert_eq!(ended(&bench, run)["ended"], "interrupted");
    let shown = history(&bench, live.seen[0]["session_id"].as_str().unwrap());
    assert_eq!(shown["calls"][0]["state"], "unknown");
    let id = shown["calls"][0]["id"].as_str().unwrap();
    let again = bench.post(&format!("/api/agent/calls/{id}/do"), json!({}));
    assert_eq!(again.refusal(), (409, "cannot_do"));
    assert_eq!(linkedin.asked().len(), 1);
    // The sign-in of somebody who leaves goes, too.
    person(&bench, "bea");
    let all = bench.get("/api/persons").ok();
    let bea = all["items"].as_array().unwrap().iter().find(|it| it["name"] == "bea").unwrap();
    let folder = bench.data.join("people").join(bea["id"].as_str().unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("linkedin.json"), "{}").unwrap();
    bench.post("/api/persons/bea/disable", json!({})).ok();
    until("her sign-in is gone", || !folder.join("linkedin.json").exists());
    server.stop();
}

#[test]
fn g28_the_secret_of_the_app_is_in_no_log() {
    let bench = Bench::new();
    let _app = with_app(&bench);
    let print = format!("cat '{0}/secret'; cat '{0}/secret' >&2; exit 3", bench.base);
    bench.word_kind("prints", "timeout = \"30s\"", &print);
    let server = bench.serve();
    let job = bench.job("prints", json!({}));
    let shown = bench.ended(&job).to_string();
    let folder = bench.data.join("jobs").join(&job);
    for file in ["stdout.log", "stderr.log"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains("****") && !text.contains(SECRET), "{file}: {text}");
    }
    assert!(shown.contains("****") && !shown.contains(SECRET), "{shown}");
    server.stop();
}
