//! A subscription that cannot be used, and the site's key that answers instead.

use serde_json::{Value, json};

use super::gateway::{install, kill, package, pid, sign_in};
use super::{Live, ask, history, model, text_of, token};
use crate::support::{Bench, Call, Model};

/// Declares both modes, the subscription with a provider of its own.
fn both(bench: &Bench, more: &str) -> (Model, Model) {
    let (site, engine) = model(bench);
    let provider = Model::start(&bench.out);
    std::fs::write(bench.base.join("provider"), provider.address.to_string()).unwrap();
    bench.lua(&format!(
        "{engine}wb.engine \"pi\" {{ type = \"gateway\", provider = \"openai-codex\", model = \
         \"m-2\" }}\nwb.assistant {{ runtimes = {{ gateway_subscription = \"pi\", \
         anthropic_api_key = \"sonnet\" }}, {more} }}\n"
    ));
    (provider, site)
}

fn asked(message: &str) -> Value {
    json!({"message": message, "mode": "gateway_subscription"})
}

fn status(items: &[Value]) -> Vec<&str> {
    let items = items.iter().filter(|it| it["type"] == "status");
    items.map(|it| it["code"].as_str().unwrap()).collect()
}

fn state(bench: &Bench, mode: &str) -> String {
    let health = bench.get("/api/agent/health").ok();
    let found = health["runtimes"].as_array().unwrap().iter().find(|it| it["mode"] == mode);
    found.unwrap()["state"].as_str().unwrap().to_owned()
}

#[test]
fn the_sites_key_answers_and_is_what_is_counted() {
    let bench = Bench::new();
    let (provider, site) = both(&bench, "fallback = true,");
    let server = bench.serve();
    let config = bench.post("/api/agent/config", json!({"mode": "gateway_subscription"})).ok();
    let of = |mode: &str| {
        config["modes"].as_array().unwrap().iter().find(|it| it["mode"] == mode).unwrap().clone()
    };
    let subscription = of("gateway_subscription");
    assert_eq!(
        (&subscription["available"], &subscription["instead"]),
        (&json!(true), &json!("anthropic_api_key"))
    );
    let page = bench.get("/assistant");
    let page = page.body.as_str().unwrap().to_owned();
    assert!(page.contains("Answered by API key in the meantime"), "{page}");
    let items = ask(&bench, json!({"message": "hello"}));
    assert_eq!(
        (&items[0]["mode"], status(&items)),
        (&json!("gateway_subscription"), vec!["fell_back"])
    );
    assert!(items[1]["message"].as_str().unwrap().contains("the site's key answers instead"));
    assert_eq!(text_of(&items), "Hello **you**");
    assert_eq!((provider.asked().len(), site.asked().len()), (0, 1));
    let run = items[0]["run_id"].as_str().unwrap();
    let shown = bench.get(&format!("/api/agent/runs/{run}")).ok();
    assert_eq!((&shown["mode"], &shown["fell_back"]), (&json!("anthropic_api_key"), &json!(true)));
    let job = bench.show(run);
    assert_eq!((&job["engine"], &job["status"]), (&json!("sonnet"), &json!("succeeded")));
    assert!(job["cost_usd"].as_f64().unwrap() > 0.0, "{job}");
    let session = items[0]["session_id"].as_str().unwrap();
    let answer = &history(&bench, session)["messages"][1];
    assert_eq!((&answer["fell_back"], &answer["state"]), (&json!(true), &json!("whole")));
    let page = bench.get(&format!("/assistant/{session}"));
    assert!(page.body.as_str().unwrap().contains("Answered with the site’s API key"));
    let (code, out, err) = bench.cli(&["ask", "again"]);
    assert_eq!((code, out.as_str()), (0, "again\n"), "{err}");
    assert!(err.contains("the site's key answers instead"), "{err}");
    // How the other engine fails is said as ever.
    let items = ask(&bench, asked("script [{\"say\": [\"x\"], \"stop\": \"of_tomorrow\"}]"));
    assert_eq!(status(&items), ["fell_back", "bad_answer"]);
    assert_eq!(items[items.len() - 2]["code"], "bad_answer");
    server.stop();
}

/// Who had chosen a mode that the script no longer has is answered in the script's own.
#[test]
fn a_mode_that_is_gone_is_nobodys_choice_any_more() {
    let bench = Bench::new();
    let _models = both(&bench, "");
    let server = bench.serve();
    bench.post("/api/agent/config", json!({"mode": "gateway_subscription"})).ok();
    bench.edit(|script| script.replace("gateway_subscription = \"pi\",", ""));
    bench.write_script();
    bench.json(&["reload"]);
    let config = bench.get("/api/agent/config").ok();
    assert_eq!(config["mode"], "anthropic_api_key", "{config:#}");
    assert_eq!(text_of(&ask(&bench, json!({"message": "hello"}))), "Hello **you**");
    let asked = bench.post("/api/agent/chat-stream", asked("hello"));
    assert_eq!(asked.refusal(), (503, "runtime_unavailable"));
    assert!(asked.body["error"]["message"].as_str().unwrap().contains("no mode"), "{asked:?}");
    server.stop();
}

/// A limit holds the subscription of that person, and not the site's key.
#[test]
fn a_limit_of_a_subscription_is_held_and_another_sign_in_is_not_used() {
    let bench = Bench::new();
    let (provider, site) = both(&bench, "fallback = true,");
    let server = bench.serve();
    install(&bench);
    // Somebody who has not signed in does not spend on the site's key unasked.
    let refused = bench.post("/api/agent/chat-stream", asked("hello"));
    assert_eq!(refused.refusal(), (503, "runtime_unavailable"));
    sign_in(&bench);
    let items = ask(&bench, asked("hello"));
    assert_eq!((status(&items), provider.asked().len()), (vec![], 1));
    std::fs::write(package(&bench).join("limited"), "").unwrap();
    let items = ask(&bench, asked("hello"));
    assert_eq!((status(&items), text_of(&items).as_str()), (vec!["fell_back"], "Hello **you**"));
    assert_eq!(state(&bench, "gateway_subscription"), "held");
    assert_eq!(state(&bench, "anthropic_api_key"), "ready");
    // From here on the provider is left alone.
    std::fs::remove_file(package(&bench).join("limited")).unwrap();
    ask(&bench, asked("hello"));
    assert_eq!((provider.asked().len(), site.asked().len()), (1, 2));
    // A hold is the person's own, who can lift it.
    let release = Call::post("/api/engines/pi/release", json!({})).token(&bench.operator());
    bench.send(&release).ok();
    assert_eq!(state(&bench, "gateway_subscription"), "ready");
    // Refused by the provider: the sign-in is over.
    let auth = bench.data.join("services/pi-gateway/auth");
    let file = auth.read_dir_utf8().unwrap().next().unwrap().unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), text.replace(crate::support::KEY, "another-key")).unwrap();
    let items = ask(&bench, asked("hello"));
    assert_eq!((status(&items), text_of(&items).as_str()), (vec!["fell_back"], "Hello **you**"));
    server.stop();
}

/// What a reader has seen of one model is not continued by another.
#[test]
fn an_answer_that_was_seen_is_not_begun_by_another_engine() {
    let bench = Bench::new();
    let (_provider, site) = both(&bench, "fallback = true,");
    let server = bench.serve();
    sign_in(&bench);
    let token = token(&bench, "ada");
    let mut live = Live::ask(server.address(), &token, &asked("half"));
    live.until(|it| it["type"] == "text").unwrap();
    std::fs::remove_dir_all(package(&bench)).unwrap();
    kill(pid(&bench));
    let done = live.until(|it| it["type"] == "done").unwrap();
    let error = &live.seen[live.seen.len() - 2];
    assert_eq!((&done["reason"], &error["code"]), (&json!("error"), &json!("gateway_down")));
    assert_eq!((status(&live.seen), site.asked().len()), (vec!["gateway_down"], 0));
    super::assert_whole(&live.seen);
    // The next question begins with the key.
    let items = ask(&bench, asked("hello"));
    assert_eq!(status(&items), ["fell_back"]);
    server.stop();
}

#[test]
fn without_a_fallback_nobody_else_answers() {
    let bench = Bench::new();
    let (_provider, site) = both(&bench, "");
    let server = bench.serve();
    let refused = bench.post("/api/agent/chat-stream", asked("hello"));
    assert_eq!((refused.refusal(), site.asked().len()), ((503, "runtime_unavailable"), 0));
    server.stop();
}
