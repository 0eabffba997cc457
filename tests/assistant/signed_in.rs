//! Two people in browsers: what takes a session is walked with a session, and with the ids of the
//! other's sign-ins and answers.

use serde_json::{Value, json};
use wiki_browser::http::{ROUTES, Verb, Who};

use super::gateway::{install, subscribed};
use super::tools::vault;
use super::{Live, token};
use crate::support::{Answer, Bench, Call, Server, ends_a_job};

const PRIVATE: &str = "PRIVATE-WORDS";

/// A browser that is signed in.
struct Browser<'a> {
    server: &'a Server,
    cookie: String,
}

impl Browser<'_> {
    /// Signs a person in as they do it themselves: by a link, with its one button.
    fn of<'a>(bench: &Bench, server: &'a Server, person: &str) -> Browser<'a> {
        let link = bench.post("/api/login-links", json!({"person": person})).ok();
        let code = link["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let sent = Call::post("/api/login", json!({"code": code}));
        let answer = sent.header("Sec-Fetch-Site", "same-origin").tcp(server.address());
        assert_eq!(answer.status, 200, "{answer:?}");
        let set = answer.head.lines().find_map(|it| {
            let (name, value) = it.split_once(": ")?;
            name.eq_ignore_ascii_case("set-cookie").then(|| value.to_owned())
        });
        let cookie = set.unwrap().split(';').next().unwrap().to_owned();
        Browser { server, cookie }
    }

    fn send(&self, call: Call) -> Answer {
        let call = call.header("Cookie", &self.cookie);
        call.header("Sec-Fetch-Site", "same-origin").tcp(self.server.address())
    }
}

/// Every route with the ids of an answer that waits for ada and of her sign-ins in progress, from
/// the sessions of a member and an admin.
#[test]
fn no_session_opens_what_another_person_began() {
    let bench = Bench::new();
    let model = subscribed(&bench, "");
    let server = bench.serve();
    install(&bench);
    for (name, role) in [("bea", "member"), ("boss", "admin")] {
        bench.post("/api/persons", json!({"name": name, "role": role})).ok();
    }
    let [ada, bea, boss] = ["ada", "bea", "boss"].map(|it| Browser::of(&bench, &server, it));
    let begin = |who: &Browser<'_>| {
        who.send(Call::post("/api/agent/gateway/login", json!({}))).ok()["login_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    // Ada signs in, asks, and begins to sign in again.
    let first = begin(&ada);
    let text = json!({"text": "http://localhost:1455/auth/callback?code=x"});
    ada.send(Call::post(&format!("/api/agent/gateway/login/{first}"), text)).ok();
    crate::support::until("she is signed in", || {
        let health = ada.send(Call::get("/api/agent/health")).ok();
        health["runtimes"][0]["state"] == "ready"
    });
    bench.get("/api/agent/scratch").ok();
    std::fs::write(vault(&bench).join("secret.md"), PRIVATE).unwrap();
    let script = json!([{"calls": [["delete_file", {"path": "secret.md"}]]}, {"say": ["Done."]}]);
    let message = format!("script {script}");
    let mut live = Live::ask(server.address(), &token(&bench, "ada"), &json!({"message": message}));
    let start = live.until(|it| it["type"] == "start").unwrap();
    let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
    let of = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    let login = begin(&ada);
    let ids = [
        of(&start, "run_id"),
        of(&start, "session_id"),
        of(&asked, "id"),
        of(&asked, "approval_id"),
        login.clone(),
    ];
    let at = format!("/api/agent/gateway/login/{login}");
    assert_eq!(ada.send(Call::get(&at)).ok()["state"], "waiting", "her own is there");
    for other in [&bea, &boss] {
        let page = format!("/subscription/{login}");
        assert_eq!(other.send(Call::get(&at)).refusal(), (404, "no_login"));
        let paste = || Call::post(&at, json!({"text": "right"}));
        assert_eq!(other.send(paste()).refusal(), (404, "no_login"));
        assert_eq!(other.send(Call::get(&page)).status, 404);
        assert_eq!(other.send(Call::form(&page, "text=right")).status, 404);
    }
    let mut sessions_only = walk(&bea, "a member", &ids);
    sessions_only += walk(&boss, "an admin", &ids);
    assert!(sessions_only > 50, "{sessions_only}");
    // Nothing of hers was ended, answered or removed.
    assert_eq!(ada.send(Call::get(&at)).ok()["state"], "waiting");
    assert_eq!(ada.send(Call::get("/api/agent/health")).ok()["runtimes"][0]["state"], "ready");
    assert_eq!(std::fs::read_to_string(vault(&bench).join("secret.md")).unwrap(), PRIVATE);
    let approval = ada.send(Call::get(&format!("/api/approvals/{}", ids[3]))).ok();
    assert_eq!(approval["state"], "pending");
    let version = json!({"version": approval["version"]});
    ada.send(Call::post(&format!("/api/approvals/{}/reject", ids[3]), version)).ok();
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "ok");
    assert!(!model.asked().is_empty());
    server.stop();
}

/// Sends a request to every route with each of the ids; returns how many took a session.
fn walk(browser: &Browser<'_>, who: &str, ids: &[String]) -> usize {
    let mut sessions_only = 0;
    for (route, id) in ROUTES.iter().flat_map(|it| ids.iter().map(move |id| (it, id))) {
        let is_left_out = route.path.contains("logout")
            || route.path == "/api/events"
            || route.is_socket_only
            || route.who == Who::Signed
            || (ends_a_job(route.path) && who == "an admin");
        if is_left_out {
            continue;
        }
        sessions_only += usize::from(route.who == Who::Session);
        let mut target = route.path.to_owned();
        for name in ["{id}", "{job}", "{name}", "{session}", "{template}", "{version}"] {
            target = target.replace(name, id);
        }
        let target = target.replace("{login}", id).replace("{*path}", "guide.md");
        let call = match route.verb {
            Verb::Post if target.starts_with("/api/") => Call::post(&target, json!({})),
            Verb::Post => Call::form(&target, &format!("text=right&call={id}&run={id}")),
            verb => Call::new(verb.as_str(), &target),
        };
        let answer = browser.send(call);
        let text = answer.body.to_string();
        let what = format!("{} {} with {id} to {who}", route.verb.as_str(), route.path);
        assert!(!text.contains(PRIVATE), "{what}: {text}");
        for it in ids.iter().filter(|it| *it != id) {
            assert!(!text.contains(it.as_str()), "{what}: {text}");
        }
    }
    sessions_only
}
