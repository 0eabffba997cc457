//! The real package of the gateway, with a stand-in for the provider behind it. Only where
//! `WB_PI_AI` names the folder of an installation, such as `data/services/pi-gateway/app`: tests
//! fetch nothing.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::gateway::{begin, kill_in_answer, package, pid, state};
use super::{Live, ask, text_of, token};
use crate::support::{Bench, KEY, Model, Server, until, wait_for};

const PROVIDER: &str = include_str!("../data/pi-ai/provider.mjs");

/// Declares an assistant with the real package; nothing if there is none.
fn real(bench: &Bench) -> Option<(Model, Server)> {
    let installed = std::env::var("WB_PI_AI").ok()?;
    let model = Model::start(&bench.out);
    bench.lua(
        "wb.engine \"pi\" { type = \"gateway\", provider = \"openai-codex\", model = \"gpt-5.1\" \
         }\nwb.assistant { runtimes = { gateway_subscription = \"pi\" }, limits = { idle = \
         \"20s\" } }\n",
    );
    let played = bench.base.join("played");
    std::fs::create_dir_all(&played).unwrap();
    std::fs::write(played.join("provider.mjs"), PROVIDER).unwrap();
    std::fs::write(played.join("address"), model.address.to_string()).unwrap();
    std::fs::write(played.join("key"), KEY).unwrap();
    let modules = package(bench).parent().unwrap().parent().unwrap().to_owned();
    std::fs::create_dir_all(modules.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(format!("{installed}/node_modules"), &modules).unwrap();
    // The gateway has no variable by which a test could tell node what to load first.
    let path = std::env::var("PATH").unwrap();
    let folders = std::env::split_paths(&path);
    let node = folders.map(|it| it.join("node")).find(|it| it.is_file()).unwrap();
    let own =
        format!("#!/bin/sh\nexec '{}' --import '{played}/provider.mjs' \"$@\"\n", node.display());
    let bin = bench.base.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("node"), own).unwrap();
    std::fs::set_permissions(bin.join("node"), Permissions::from_mode(0o755)).unwrap();
    let server = bench.serve_with(&[("PATH", &format!("{bin}:{path}"))]);
    Some((model, server))
}

/// Signs in with a code; returns the state in which that ended.
fn paste(bench: &Bench, code: &str) -> String {
    let (at, login) = begin(bench);
    assert!(login["url"].as_str().unwrap().starts_with("https://auth.openai.com/"), "{login}");
    bench.post(&at, json!({"text": code})).ok();
    wait_for("the sign-in has ended", || {
        let shown = bench.get(&at).ok();
        (shown["state"] != "waiting").then(|| shown["state"].as_str().unwrap().to_owned())
    })
}

#[test]
fn the_real_package_signs_in_and_renews_a_sign_in() {
    let bench = Bench::new();
    let Some((_model, server)) = real(&bench) else { return };
    assert_eq!(state(&bench), "no_sign_in");
    assert_eq!(paste(&bench, "http://localhost:1455/auth/callback?code=x&state=other"), "failed");
    assert_eq!(paste(&bench, "revoked"), "failed");
    // A token that has ended is renewed once for two answers at the same time.
    assert_eq!(paste(&bench, "old"), "done");
    let token = token(&bench, "ada");
    let mut lives: Vec<Live> =
        (0..2).map(|_| Live::ask(server.address(), &token, &json!({"message": "hello"}))).collect();
    for live in &mut lives {
        live.until(|it| it["type"] == "done").unwrap();
        assert_eq!(text_of(&live.seen), "Hello **you**", "{:#?}", live.seen);
    }
    let tokens = std::fs::read_to_string(bench.base.join("played/tokens")).unwrap();
    assert_eq!(tokens.matches("refresh_token\n").count(), 1, "{tokens}");
    // A sign-in that was revoked ends the answer.
    assert_eq!(paste(&bench, "gone"), "done");
    let items = ask(&bench, json!({"message": "hello"}));
    assert_eq!(items[items.len() - 2]["code"], "auth_invalid", "{items:#?}");
    assert!(!bench.base.join("played/others").exists(), "nothing else was asked for");
    server.stop();
}

#[test]
fn the_real_package_makes_steps_and_is_started_again() {
    let bench = Bench::new();
    let Some((model, server)) = real(&bench) else { return };
    assert_eq!(paste(&bench, "x"), "done");
    let token = token(&bench, "ada");
    // Calls, and what the next step is told of them.
    let steps = json!([
        {"say": ["I write."], "calls": [["write_file", {"path": "a.md", "content": "one"}]]},
        {"calls": [["read_file", {"path": "a.md"}], ["list_directory", {}]]},
        {"say": ["Done."]},
    ]);
    let items = ask(&bench, json!({"message": format!("script {steps}")}));
    assert_eq!(items.last().unwrap()["reason"], "ok", "{items:#?}");
    let results: Vec<bool> =
        items.iter().filter(|it| it["type"] == "tool_result").map(|it| it["ok"] == true).collect();
    assert_eq!(results, [true; 3], "{items:#?}");
    let asked = model.asked();
    let last = asked.last().unwrap();
    assert!(last["messages"].to_string().contains("one"), "{last}");
    assert!(last["tools"].to_string().contains("write_file"), "{last}");
    let job = bench.show(items[0]["run_id"].as_str().unwrap());
    let usage = (&job["usage"]["input_tokens"], &job["usage"]["output_tokens"]);
    assert_eq!(usage, (&json!(36), &json!(9)));
    let session = &items[0]["session_id"];
    let next = ask(&bench, json!({"session_id": session, "message": "again"}));
    assert_eq!(text_of(&next), "again");
    for (step, code) in [
        (json!({"fault": {"status": 401}}), "auth_invalid"),
        (json!({"fault": {"status": 404, "message": "model not found"}}), "model_not_found"),
        (json!({"say": ["x"], "stop": "max_tokens"}), "limit_output"),
        // The package passes on what a provider says in the middle, and not its code.
        (json!({"say": ["x"], "fault": {"error": "overloaded_error"}}), "unreachable"),
    ] {
        let items = ask(&bench, json!({"message": format!("script {}", json!([step]))}));
        assert_eq!(items[items.len() - 2]["code"], code, "{step}: {items:#?}");
    }
    kill_in_answer(&bench, &server, &token);
    assert!(!bench.base.join("played/others").exists(), "nothing else was asked for");
    let second = pid(&bench);
    server.stop();
    until("the gateway has ended with its server", || {
        bench.alive().iter().all(|it| it.0 != second)
    });
}
