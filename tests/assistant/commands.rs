//! Commands on conversations, and whether the assistant can work.

use serde_json::{Value, json};

use super::gateway::{install, sign_in, subscribed};
use super::{ask, assistant, keyed};
use crate::support::Bench;

#[test]
fn a_conversation_is_renamed_put_away_and_exported() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "hello"}));
    let session = items[0]["session_id"].as_str().unwrap();
    ask(&bench, json!({"session_id": session, "message": "## Assistant\n\nnot so\nagain"}));
    let run = |args: &[&str]| {
        let (code, out, err) = bench.cli(args);
        assert_eq!(code, 0, "{args:?}: {err}");
        out
    };
    assert!(run(&["chat", "rename", session, "The week"]).contains("The week"));
    assert!(run(&["chat", "pin", session]).contains(", pinned"));
    assert!(run(&["chat", "list"]).contains("pinned"));
    assert!(run(&["chat", "archive", session]).contains(", archived"));
    assert!(!run(&["chat", "list"]).contains("The week"));
    assert!(run(&["chat", "list", "--archived"]).contains("The week"));
    run(&["chat", "unarchive", session]);
    assert!(!run(&["chat", "unpin", session]).contains("pinned"));
    assert_eq!(run(&["chat", "rename", session, "Again", "--field", "title"]), "Again\n");
    let (code, _, err) = bench.cli(&["chat", "rename", session, " "]);
    assert!(code != 0 && err.contains("title"), "{err}");

    let text = run(&["chat", "export", session]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "# Again");
    // What was typed cannot pass for what the assistant said.
    let heads: Vec<&str> = lines.iter().copied().filter(|it| it.starts_with("## ")).collect();
    let names: Vec<&str> = heads.iter().map(|it| it.split(',').next().unwrap()).collect();
    assert_eq!(names, ["## You", "## Assistant", "## You", "## Assistant"], "{text}");
    assert!(lines.contains(&"> ## Assistant") && lines.contains(&"> Hello **you**"), "{text}");
    let lines = run(&["chat", "export", "--jsonl", session]);
    let roles: Vec<Value> = lines
        .lines()
        .map(|it| serde_json::from_str::<Value>(it).unwrap()["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    server.stop();
}

/// A conversation that is longer than a page of its history is exported whole.
#[test]
fn a_long_conversation_is_exported_whole() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let items = ask(&bench, json!({"message": "number 0"}));
    let session = items[0]["session_id"].as_str().unwrap();
    let head = super::history(&bench, session)["head_id"].as_str().unwrap().to_owned();
    server.stop();
    let mut parent = head;
    for number in 1..=450 {
        let id = format!("018bcfe5-6800-7000-8000-{number:012}");
        bench.sql(&format!(
            "INSERT INTO chat_messages (id, session_id, parent_id, role, state, body, created_ms) \
             VALUES ('{id}', '{session}', '{parent}', 'user', 'whole', 'number {number}', 0)"
        ));
        parent = id;
    }
    bench.sql(&format!("UPDATE chat_sessions SET head_id = '{parent}' WHERE id = '{session}'"));
    let server = bench.serve();
    let (code, out, err) = bench.cli(&["chat", "export", session]);
    assert_eq!(code, 0, "{err}");
    let numbers = out.lines().filter_map(|it| it.strip_prefix("> number "));
    let numbers: Vec<usize> = numbers.map(|it| it.parse().unwrap()).collect();
    assert_eq!(numbers, (0..=450).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn health_names_what_the_assistant_lacks() {
    let health = |bench: &Bench| bench.get("/api/agent/health").ok();
    let bench = Bench::new();
    let _model = subscribed(&bench, "");
    let server = bench.serve();
    let shown = health(&bench);
    assert_eq!((&shown["vault"]["state"], &shown["linkedin"]), (&json!("ready"), &Value::Null));
    assert_eq!(shown["gateway"]["state"], "not_installed");
    let hint = shown["gateway"]["hint"].as_str().unwrap();
    assert!(hint.contains("wiki-browser gateway install"), "{shown}");
    let (code, out, _) = bench.cli(&["assistant"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("gateway subscription") || out.contains("gateway_subscription"), "{out}");
    assert!(out.contains("not installed") && out.contains("vault"), "{out}");
    install(&bench);
    assert_eq!(health(&bench)["gateway"]["state"], "asleep");
    sign_in(&bench);
    assert_eq!(health(&bench)["gateway"]["state"], "ready");
    let (code, out, _) = bench.cli(&["assistant", "--field", "vault.state"]);
    assert_eq!((code, out.as_str()), (0, "ready\n"));
    server.stop();

    for (more, state) in [
        ("tools = {},", "unused"),
        ("vault_of = { ada = \"/nowhere/at/all\" },", "no_vault"),
        ("vault_of = { ada = \"LINK\" },", "vault_overlap"),
    ] {
        let bench = Bench::new();
        // By its name, it is outside the site.
        let link = bench.base.join("elsewhere");
        std::os::unix::fs::symlink(&bench.data, &link).unwrap();
        let more = &more.replace("LINK", link.as_str());
        let _model = keyed(&bench, more);
        let server = bench.serve();
        let shown = health(&bench);
        assert_eq!(shown["vault"]["state"], state, "{shown}");
        let is_wrong = state != "unused";
        assert_eq!(shown["vault"]["problem"].is_string(), is_wrong, "{shown}");
        assert_eq!(bench.cli(&["assistant"]).0, i32::from(is_wrong), "{more}");
        // The page of the settings says it, too, and stays usable.
        let page = bench.get("/assistant/settings").ok();
        let page = page.as_str().unwrap();
        assert_eq!(page.contains("the vault cannot be opened"), is_wrong, "{page}");
        server.stop();
    }
}
