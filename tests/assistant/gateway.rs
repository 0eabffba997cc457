//! Answers with a person's own subscription: the real gateway, with a stand-in for the package that
//! speaks with providers.

use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8PathBuf;
use serde_json::{Value, json};

use super::{Live, ask, history, person, replay, text_of, token};
use crate::support::{Bench, Call, KEY, Model, Server, until, wait_for};

/// The files of the stand-in.
const FILES: [(&str, &str); 3] = [
    ("package.json", include_str!("../data/pi-ai/package.json")),
    ("index.mjs", include_str!("../data/pi-ai/index.mjs")),
    ("oauth.mjs", include_str!("../data/pi-ai/oauth.mjs")),
];

/// Declares an assistant that uses subscriptions.
pub(super) fn subscribed(bench: &Bench, more: &str) -> Model {
    let model = Model::start(&bench.out);
    std::fs::write(bench.base.join("provider"), model.address.to_string()).unwrap();
    bench.lua(&format!(
        "wb.engine \"pi\" {{ type = \"gateway\", provider = \"openai-codex\", model = \"m-1\" }}\n\
         wb.assistant {{ runtimes = {{ gateway_subscription = \"pi\" }}, {more} }}\n"
    ));
    model
}

fn folder(bench: &Bench) -> Utf8PathBuf {
    bench.data.join("services/pi-gateway")
}

pub(super) fn package(bench: &Bench) -> Utf8PathBuf {
    folder(bench).join("app/node_modules/@earendil-works/pi-ai")
}

/// Puts the stand-in where npm would put the package.
pub(super) fn install(bench: &Bench) {
    let package = package(bench);
    std::fs::create_dir_all(&package).unwrap();
    for (name, text) in FILES {
        std::fs::write(package.join(name), text).unwrap();
    }
    std::fs::copy(bench.base.join("provider"), package.join("address")).unwrap();
    std::fs::write(package.join("key"), KEY).unwrap();
}

/// Begins a sign-in. That the gateway has just died is noticed a moment after the first request
/// without an answer.
pub(super) fn begin(bench: &Bench) -> (String, Value) {
    let login = wait_for("the gateway answers", || {
        let answer = bench.post("/api/agent/gateway/login", json!({}));
        (answer.status != 503).then_some(answer)
    });
    let login = login.ok();
    let id = login["login_id"].as_str().unwrap();
    (format!("/api/agent/gateway/login/{id}"), login)
}

/// Signs the operator in by pasting a text; returns how that ended.
fn paste(bench: &Bench, text: &str) -> Value {
    let (at, _) = begin(bench);
    bench.post(&at, json!({"text": text})).ok();
    wait_for("the sign-in has ended", || {
        let shown = bench.get(&at).ok();
        (shown["state"] != "waiting").then_some(shown)
    })
}

/// Installs the stand-in, and signs the operator in.
pub(super) fn sign_in(bench: &Bench) {
    install(bench);
    assert_eq!(paste(bench, "http://localhost:1455/auth/callback?code=x")["state"], "done");
}

pub(super) fn state(bench: &Bench) -> String {
    let health = bench.get("/api/agent/health").ok();
    health["runtimes"][0]["state"].as_str().unwrap().to_owned()
}

/// Returns the process of the gateway that runs now.
pub(super) fn pid(bench: &Bench) -> i32 {
    let alive = bench.alive();
    let found = alive.iter().find(|it| it.1.contains("main.mjs") && it.1.contains("node"));
    found.unwrap_or_else(|| panic!("{alive:?}")).0
}

pub(super) fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
}

/// Kills the gateway in the middle of an answer: it is started again, and the step begins anew.
pub(super) fn kill_in_answer(bench: &Bench, server: &Server, token: &str) {
    let mut live = Live::ask(server.address(), token, &json!({"message": "half"}));
    live.until(|it| it["type"] == "text").unwrap();
    kill(pid(bench));
    live.until(|it| it["type"] == "reset").unwrap();
    std::fs::write(bench.out.join("go"), "").unwrap();
    live.until(|it| it["type"] == "done").unwrap();
    assert_eq!(live.seen.last().unwrap()["reason"], "ok", "{:#?}", live.seen);
    let session = live.seen[0]["session_id"].as_str().unwrap();
    assert_eq!(history(bench, session)["messages"][1]["body"], "half whole");
}

#[test]
fn a_person_signs_in_and_is_answered_with_their_subscription() {
    let bench = Bench::new();
    let model = subscribed(&bench, "");
    let server = bench.serve();
    assert_eq!(state(&bench), "gateway_down");
    let refused = bench.post("/api/agent/gateway/login", json!({}));
    assert_eq!(refused.refusal(), (503, "gateway_down"));
    assert!(refused.body.to_string().contains("wiki-browser gateway install"), "{refused:?}");
    install(&bench);
    assert_eq!(state(&bench), "no_sign_in");
    let none = bench.post("/api/agent/chat-stream", json!({"message": "hello"}));
    assert_eq!(none.refusal(), (503, "runtime_unavailable"));
    let (at, login) = begin(&bench);
    assert_eq!(login["url"], "https://provider.test/sign-in?x=1");
    assert_eq!(login["instructions"], "Your code is 1234");
    // It is that of its person, and not for tokens.
    let bea = person(&bench, "bea");
    let token = token(&bench, "ada");
    for token in [&bea, &token] {
        let refused = bench.send(&Call::get(&at).token(token));
        assert_eq!(refused.refusal(), (403, "token_forbidden"));
    }
    assert_eq!(bench.get("/api/agent/gateway/login/other").refusal(), (404, "no_login"));
    let failed = paste(&bench, "wrong");
    assert_eq!(
        (&failed["state"], &failed["problem"]),
        (&json!("failed"), &json!("State mismatch"))
    );
    let ended = bench.get(&at);
    assert_eq!(ended.refusal(), (404, "no_login"), "another one was begun");
    assert_eq!(paste(&bench, "right")["state"], "done");
    assert_eq!(state(&bench), "ready");
    let items = ask(&bench, json!({"message": "hello"}));
    assert_eq!(text_of(&items), "Hello **you**");
    assert_eq!(items[0]["mode"], "gateway_subscription");
    let run = items[0]["run_id"].as_str().unwrap();
    assert_eq!(replay(&bench, run), items, "what was seen can be read again");
    // What was called goes back as it came.
    let session = &items[0]["session_id"];
    let call = json!([{"calls": [["list_directory", {}]]}, {"say": ["Seen."]}]);
    ask(&bench, json!({"session_id": session, "message": format!("script {call}")}));
    ask(&bench, json!({"session_id": session, "message": "again"}));
    let asked = model.asked();
    let last = asked.last().unwrap()["messages"].as_array().unwrap();
    assert!(last.iter().any(|it| it["content"][0]["type"] == "tool_use"), "{last:#?}");
    // The credential and the token of the gateway are where they belong.
    let auth = folder(&bench).join("auth");
    let mode = |path: &camino::Utf8Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder(&bench)), mode(&auth)), (0o700, 0o700));
    for file in auth.read_dir_utf8().unwrap() {
        assert_eq!(mode(file.unwrap().path()), 0o600);
    }
    let launch = std::fs::read_to_string(folder(&bench).join("run/launch.json")).unwrap();
    let launch: serde_json::Value = serde_json::from_str(&launch).unwrap();
    let written = launch["env"].as_array().unwrap();
    let is_written = |name: &str| written.iter().any(|it| it[0] == name);
    assert!(!is_written("WB_GATEWAY_TOKEN") && is_written("WB_GATEWAY_DIR"), "{launch:#}");
    assert!(launch["private_names"].as_array().unwrap().contains(&json!("WB_GATEWAY_TOKEN")));
    assert!(!server.log().contains(KEY));
    let gone =
        bench.send(&Call::new("DELETE", "/api/agent/gateway/login").token(&bench.operator()));
    assert_eq!(gone.ok()["was_signed_in"], true);
    assert_eq!(state(&bench), "no_sign_in");
    server.stop();
    let database = std::fs::read(bench.data.join("wiki.db")).unwrap();
    assert!(!database.windows(KEY.len()).any(|it| it == KEY.as_bytes()));
}

#[test]
fn a_gateway_that_is_killed_is_started_again_and_the_answer_goes_on() {
    let bench = Bench::new();
    let _model = subscribed(&bench, "");
    let server = bench.serve();
    sign_in(&bench);
    let (token, first) = (token(&bench, "ada"), pid(&bench));
    kill_in_answer(&bench, &server, &token);
    let second = pid(&bench);
    assert_ne!(first, second);
    // It ends with the server, however that ends.
    server.kill();
    until("the gateway has ended with its server", || {
        bench.alive().iter().all(|it| it.0 != second)
    });
}

#[test]
fn a_sign_in_that_the_gateway_lost_is_begun_again() {
    let bench = Bench::new();
    let _model = subscribed(&bench, "");
    let server = bench.serve();
    install(&bench);
    let (at, login) = begin(&bench);
    assert_eq!(login["state"], "waiting");
    kill(pid(&bench));
    let lost = wait_for("the sign-in is lost", || {
        let shown = bench.get(&at);
        (shown.status != 200).then_some(shown)
    });
    assert!(["no_login", "gateway_down"].contains(&lost.refusal().1), "{lost:?}");
    assert_ne!(bench.post(&at, json!({"text": "right"})).status, 200);
    assert_eq!(state(&bench), "no_sign_in");
    assert_eq!(paste(&bench, "right")["state"], "done");
    assert_eq!(state(&bench), "ready");
    server.stop();
}

#[test]
fn a_sign_in_is_renewed_once_and_ends_when_it_is_revoked() {
    let bench = Bench::new();
    let model = subscribed(&bench, "");
    let server = bench.serve();
    install(&bench);
    assert_eq!(paste(&bench, "old")["state"], "done");
    let token = token(&bench, "ada");
    let mut lives: Vec<Live> =
        (0..2).map(|_| Live::ask(server.address(), &token, &json!({"message": "hello"}))).collect();
    for live in &mut lives {
        live.until(|it| it["type"] == "done").unwrap();
        assert_eq!(text_of(&live.seen), "Hello **you**");
    }
    let refreshed = || std::fs::read_to_string(package(&bench).join("refreshed")).unwrap();
    assert_eq!(refreshed(), "x", "two answers at once renew it once");
    let file = folder(&bench).join("auth").read_dir_utf8().unwrap().next().unwrap().unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    let mut auth: Value = serde_json::from_str(&text).unwrap();
    auth["openai-codex"]["expires"] = json!(0);
    auth["openai-codex"]["refresh"] = json!("revoked");
    std::fs::write(file.path(), auth.to_string()).unwrap();
    let before = model.asked().len();
    let items = ask(&bench, json!({"message": "hello"}));
    let [.., error, done] = items.as_slice() else { panic!("{items:?}") };
    assert_eq!((&done["reason"], &error["code"]), (&json!("error"), &json!("auth_invalid")));
    assert_eq!(model.asked().len(), before, "the provider is not asked");
    server.stop();
}

#[test]
fn every_fault_of_a_provider_has_one_ending() {
    let bench = Bench::new();
    let model = subscribed(&bench, "limits = { idle = \"5s\" },");
    let server = bench.serve();
    sign_in(&bench);
    for (steps, reason, code, most) in [
        (json!([{"fault": {"status": 401}}]), "error", "auth_invalid", 1),
        (json!([{"fault": {"status": 404}}]), "error", "model_not_found", 1),
        (
            json!([{"fault": {"status": 400, "message": "prompt is too long: 9 > 8"}}]),
            "error",
            "context_full",
            1,
        ),
        (json!([{"fault": {"status": 503}}]), "error", "unreachable", 3),
        (json!([{"say": ["x"], "stop": "max_tokens"}]), "limit", "limit_output", 1),
        (json!([{"say": ["x"], "stop": "of_tomorrow"}]), "error", "bad_answer", 1),
        (json!([{}]), "error", "no_output", 1),
        (json!([{"say": ["x"], "fault": {"hang": true}}]), "timeout", "stalled", 2),
    ] {
        let before = model.asked().len();
        let items = ask(&bench, json!({"message": format!("script {steps}")}));
        let [.., error, done] = items.as_slice() else { panic!("{items:?}") };
        assert_eq!((&done["reason"], &error["code"]), (&json!(reason), &json!(code)), "{steps}");
        assert_eq!(model.asked().len() - before, most, "{steps}");
    }
    // What broke off is charged: the stand-in reports no tokens, so they are estimated.
    let words = "x".repeat(400);
    let cut = json!([{"say": [words], "fault": {"error": "overloaded_error"}}]);
    let items = ask(&bench, json!({"message": format!("script {cut}")}));
    let job = bench.show(items[0]["run_id"].as_str().unwrap());
    let count = |name: &str| job["usage"][name].as_u64().unwrap();
    assert!(count("input_tokens") >= 100 && count("output_tokens") >= 100, "{job}");
    let session = items[0]["session_id"].as_str().unwrap();
    let shown = bench.get(&format!("/api/agent/sessions/{session}")).ok();
    assert_eq!(shown["tokens_out"], job["usage"]["output_tokens"]);
    // A request that was refused costs nothing.
    let refused = json!([{"fault": {"status": 400}}]);
    let items = ask(&bench, json!({"message": format!("script {refused}")}));
    assert!(items.iter().all(|it| it["type"] != "usage"), "{items:#?}");
    // Who limits one person limits nobody else.
    let steps = json!([{"fault": {"status": 429, "wait": "3600", "times": 1}}]);
    let items = ask(&bench, json!({"message": format!("script {steps}")}));
    assert_eq!(items[items.len() - 2]["code"], "rate_limited");
    assert_eq!(state(&bench), "held");
    let bea = person(&bench, "bea");
    let health = bench.send(&Call::get("/api/agent/health").token(&bea)).ok();
    assert_eq!(health["runtimes"][0]["state"], "no_sign_in");
    server.stop();
}
