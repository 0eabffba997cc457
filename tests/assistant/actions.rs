//! Questions that a person keeps as files of their vault, and answers that change nothing.

use serde_json::{Value, json};

use super::tools::{of_type, vault};
use super::{ask, assistant, history, keyed, token};
use crate::support::{Bench, Call};

/// Writes the file of an action into the vault of the operator.
fn write(bench: &Bench, name: &str, text: &str) {
    let folder = vault(bench).join("agent/actions");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
}

fn actions(bench: &Bench) -> Vec<Value> {
    bench.get("/api/agent/actions").ok()["items"].as_array().unwrap().clone()
}

#[test]
fn a_file_of_the_vault_is_a_question() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    assert_eq!(actions(&bench), [] as [Value; 0], "no vault yet");
    write(&bench, "Weekly digest.md", "---\nabout: The week\n---\nhello {{person}}");
    write(&bench, "Post.md", "---\nrequires_confirmation: true\n---\n{{person}} at {{run_id}}");
    write(&bench, "Wrong.md", "---\nrequires_confirmaton: true\n---\nhello");
    write(&bench, "Twin.md", "hello");
    write(&bench, "twin.prompt.md", "hello");
    write(&bench, "notes.txt", "hello");
    let found = actions(&bench);
    let ids: Vec<&str> = found.iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["post", "twin", "weekly-digest", "wrong", "twin"]);
    let wrong: Vec<&str> = found.iter().filter_map(|it| it["error"].as_str()).collect();
    assert!(wrong[0].contains("several files are called `twin`"), "{wrong:?}");
    assert!(wrong[1].contains("`requires_confirmaton` is no field of an action"), "{wrong:?}");
    assert_eq!(wrong.len(), 3);

    let items = ask(&bench, json!({"action_id": "weekly-digest", "message": "shorter, please"}));
    let session = items[0]["session_id"].as_str().unwrap();
    let shown = history(&bench, session);
    let question = shown["messages"][0]["body"].as_str().unwrap();
    assert!(question.starts_with("hello ") && !question.contains("{{"), "{question}");
    assert!(question.ends_with("\n\nAdditional context:\n\nshorter, please"), "{question}");
    let of = |path: &str| bench.get(path).ok();
    // What is confirmed is shown as it would be asked.
    let filled = format!("{} at {{{{run_id}}}}", question[6..].lines().next().unwrap());
    assert_eq!(
        (&found[0]["filled"], &found[0]["prompt"]),
        (&json!(filled), &json!("{{person}} at {{run_id}}"))
    );
    let page = of("/assistant");
    assert!(page.as_str().unwrap().contains(&format!(">{filled}<")));
    assert_eq!(of(&format!("/api/agent/sessions/{session}"))["title"], "Weekly digest");
    let run = items[0]["run_id"].as_str().unwrap();
    assert_eq!(of(&format!("/api/agent/runs/{run}"))["action"], "weekly-digest");

    let refused = |body: Value, expected: (u16, &str)| {
        let answer = bench.post("/api/agent/chat-stream", body);
        assert_eq!(answer.refusal(), expected, "{}", answer.body);
    };
    refused(json!({"action_id": "none"}), (404, "no_action"));
    refused(json!({"action_id": "../../x"}), (404, "no_action"));
    refused(json!({"action_id": "wrong"}), (400, "bad_action"));
    refused(json!({"action_id": "twin"}), (400, "bad_action"));
    refused(json!({"action_id": "post"}), (409, "confirm_required"));
    refused(json!({"action_id": "post", "confirm": "0"}), (409, "action_changed"));
    refused(json!({"message": "hello", "confirm": "0"}), (400, "bad_action"));
    let digest = found[0]["digest"].as_str().unwrap();
    write(&bench, "Post.md", "---\nrequires_confirmation: true\n---\nsomething else");
    refused(json!({"action_id": "post", "confirm": digest}), (409, "action_changed"));
    let digest = actions(&bench)[0]["digest"].clone();
    ask(&bench, json!({"action_id": "post", "confirm": digest}));
    assert_eq!(of("/api/agent/sessions")["items"].as_array().unwrap().len(), 2);
    server.stop();
}

#[test]
fn an_action_is_its_persons_alone() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    actions(&bench);
    write(&bench, "Mine.md", "hello");
    let bea = super::person(&bench, "bea");
    let seen = bench.send(&Call::get("/api/agent/actions").token(&bea)).ok();
    assert_eq!(seen["items"], json!([]));
    let asked = Call::post("/api/agent/chat", json!({"action_id": "mine"})).token(&bea);
    assert_eq!(bench.send(&asked).refusal(), (404, "no_action"));
    let own = Call::get("/api/agent/actions").token(&token(&bench, "ada"));
    assert_eq!(bench.send(&own).ok()["items"][0]["label"], "Mine");
    server.stop();
}

/// Every runtime stops at the step that an action allows, and changes nothing in a dry run.
fn bounded(bench: &Bench) {
    let write_new = "call write_file {\"path\":\"new.md\",\"content\":\"x\"}";
    let delete = "call delete_file {\"path\":\"kept.md\"}";
    actions(bench);
    write(
        bench,
        "One.md",
        &format!("---\nmax_steps: 1\n---\n{write_new}\ncall list_directory {{}}"),
    );
    let items = ask(bench, json!({"action_id": "one"}));
    let error = items.iter().find(|it| it["type"] == "error");
    assert_eq!(error.map(|it| &it["code"]), Some(&json!("limit_steps")), "{items:#?}");

    std::fs::remove_file(vault(bench).join("new.md")).ok();
    std::fs::write(vault(bench).join("kept.md"), "kept\n").unwrap();
    let question = format!("{write_new}\n{delete}\ncall read_file {{\"path\":\"kept.md\"}}");
    let items = ask(bench, json!({"message": question, "dry_run": true}));
    let results = of_type(&items, "tool_result");
    let told: Vec<_> =
        results.iter().map(|it| (it["ok"].as_bool(), it["summary"].as_str().unwrap())).collect();
    let unmade = (Some(true), "dry run: not made");
    assert_eq!(told, [unmade, unmade, (Some(true), "kept.md, 1 lines")]);
    assert_eq!(of_type(&items, "confirm_required"), [] as [&Value; 0], "nobody is asked");
    assert!(!vault(bench).join("new.md").exists() && vault(bench).join("kept.md").exists());
    let run = items[0]["run_id"].as_str().unwrap();
    assert_eq!(bench.get(&format!("/api/agent/runs/{run}")).ok()["dry_run"], true);
    let shown = history(bench, items[0]["session_id"].as_str().unwrap());
    let call = &shown["calls"][0];
    assert_eq!(call["can_undo"], false);
    let whole = bench.get(&format!("/api/agent/calls/{}", call["id"].as_str().unwrap())).ok();
    assert!(whole["result"].as_str().unwrap().contains("+x"), "what it would be: {whole}");
}

#[test]
fn bounds_and_dry_runs_of_a_program() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    bounded(&bench);
    server.stop();
}

#[test]
fn bounds_and_dry_runs_of_a_model() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    bounded(&bench);
    server.stop();
}

#[test]
fn an_action_is_run_in_the_terminal() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let (code, _, err) = bench.cli(&["chat", "actions"]);
    assert!(code == 0 && err.contains("agent/actions"), "{err}");
    write(&bench, "Hello.md", "---\nabout: Says hello\n---\nhello");
    write(&bench, "Careful.md", "---\nrequires_confirmation: true\n---\nagain");
    let (code, out, _) = bench.cli(&["chat", "actions"]);
    assert!(code == 0 && out.contains("Says hello") && out.contains("careful"), "{out}");
    let (code, out, err) = bench.cli(&["ask", "--action", "hello"]);
    assert_eq!((code, out.as_str()), (0, "Hello **you**\n"), "{err}");
    let (code, out, err) = bench.cli(&["ask", "--action", "careful"]);
    assert!(code != 0 && out.is_empty() && err.contains("--yes"), "{code} {err}");
    let (code, _, err) = bench.cli(&["ask", "--action", "careful", "--yes"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = bench.cli(&["ask", "--action", "none"]);
    assert!(code != 0 && err.contains("you have no action `none`"), "{err}");
    server.stop();
}
