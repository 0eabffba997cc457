//! What a run did, as a file of the vault; and calls that are made after their question expired.

use serde_json::{Value, json};

use super::tools::vault;
use super::{Live, ask, history, keyed, person, replay, token};
use crate::support::{Bench, Call, until, wait_for};

fn script(steps: &Value) -> Value {
    json!({"message": format!("script {steps}")})
}

fn write(path: &str) -> Value {
    json!({"calls": [["write_file", {"path": path, "content": "new\n"}]]})
}

/// Waits until a run is recorded; returns the path.
#[track_caller]
fn recorded(bench: &Bench, run: &str) -> String {
    let mut path = Value::Null;
    until("the run is recorded", || {
        path = bench.get(&format!("/api/agent/runs/{run}")).ok()["artefact"].clone();
        path.is_string()
    });
    path.as_str().unwrap().to_owned()
}

#[test]
fn a_run_that_did_something_is_recorded_in_the_vault() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    // Who only talked leaves nothing.
    let items = ask(&bench, json!({"message": "hello"}));
    assert!(items.last().unwrap().get("artefact").is_none());
    let steps = json!([write("made.md"), {"say": ["It is", " there."]}]);
    let items = ask(&bench, script(&steps));
    let run = items[0]["run_id"].as_str().unwrap();
    let path = recorded(&bench, run);
    assert_eq!(items.last().unwrap()["artefact"], path.as_str());
    assert_eq!(replay(&bench, run), items);
    assert!(path.starts_with("agent/runs/20") && path.ends_with(&format!("{run}.md")), "{path}");
    let file = vault(&bench).join(&path);
    let read = || std::fs::read_to_string(&file).unwrap();
    let text = read();
    assert!(text.contains("ended: ok\n") && text.contains("\n> script "), "{text}");
    assert!(
        text.contains("**done** write_file `made.md`: made.md was created (4 bytes)"),
        "{text}"
    );
    assert!(text.ends_with("## Answer\n\nIt is there.\n"), "{text}");
    let shown = history(&bench, items[0]["session_id"].as_str().unwrap());
    assert_eq!(shown["messages"][1]["artefact"], path.as_str());
    // What is taken back is said there; what a person wrote there stays.
    let call = shown["calls"][0]["id"].as_str().unwrap();
    bench.post(&format!("/api/agent/calls/{call}/undo"), json!({})).ok();
    until("the record says so", || read().contains("**undone** write_file"));
    let items = ask(&bench, script(&steps));
    let run = items[0]["run_id"].as_str().unwrap();
    let mine = vault(&bench).join(recorded(&bench, run));
    std::fs::write(&mine, "mine\n").unwrap();
    let shown = history(&bench, items[0]["session_id"].as_str().unwrap());
    let call = shown["calls"][0]["id"].as_str().unwrap();
    bench.post(&format!("/api/agent/calls/{call}/undo"), json!({})).ok();
    recorded(&bench, run);
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine\n");
    // An action is recorded whatever it did, and may name its run.
    let folder = vault(&bench).join("agent/actions");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("Note.md"), "as {{run_id}}\nhello").unwrap();
    let items = ask(&bench, json!({"action_id": "note"}));
    let run = items[0]["run_id"].as_str().unwrap();
    let shown = history(&bench, items[0]["session_id"].as_str().unwrap());
    assert_eq!(shown["messages"][0]["body"], format!("as {run}\nhello"));
    let text = std::fs::read_to_string(vault(&bench).join(recorded(&bench, run))).unwrap();
    assert!(text.contains("action: note\n") && text.contains("## Calls\n\nNone.\n"), "{text}");
    server.stop();
}

#[test]
fn a_killed_server_records_its_runs_at_the_next_start() {
    for point in ["after_settle", "before_record", "after_record"] {
        let bench = Bench::new();
        let _model = keyed(&bench, "");
        let armed = bench.base.join("armed");
        let mut server =
            bench.serve_with(&[("WB_CRASH_AT", point), ("WB_CRASH_WHEN", armed.as_str())]);
        let (address, token) = (server.address(), token(&bench, "ada"));
        std::fs::write(&armed, "").unwrap();
        let steps = json!([write("made.md"), {"say": ["It is there."]}]);
        let mut live = Live::ask(address, &token, &script(&steps));
        let start = live.until(|it| it["type"] == "start").unwrap();
        server.wait();
        let server = bench.serve();
        let path = recorded(&bench, start["run_id"].as_str().unwrap());
        let text = std::fs::read_to_string(vault(&bench).join(path)).unwrap();
        assert!(text.contains("**done** write_file `made.md`"), "{point}: {text}");
        server.stop();
    }
}

/// Asks for four files to be overwritten, and lets the questions expire; returns the calls.
fn expired(bench: &Bench, server: &crate::support::Server) -> Vec<(String, String)> {
    let token = token(bench, "ada");
    let ask = |path: &str| {
        let steps = json!([write(path), {"say": ["so be it"]}]);
        Live::ask(server.address(), &token, &script(&steps))
    };
    let asked: Vec<Live> = ["a.md", "b.md", "c.md", "d.md"].map(ask).into();
    let calls = asked.into_iter().map(|mut live| {
        live.until(|it| it["type"] == "done").unwrap();
        let session = live.seen[0]["session_id"].as_str().unwrap().to_owned();
        let shown = history(bench, &session);
        let call = &shown["calls"][0];
        assert_eq!((&call["state"], &call["can_do"]), (&json!("expired"), &json!(true)));
        assert!(call["preview"].as_str().unwrap().contains("+new"), "{call}");
        (call["id"].as_str().unwrap().to_owned(), session)
    });
    calls.collect()
}

#[test]
fn g43_an_expired_call_is_made_later_and_once() {
    let bench = Bench::new();
    let _model = keyed(&bench, "limits = { confirm = \"10s\" },");
    let server = bench.serve();
    ask(&bench, script(&json!([{"calls": [["list_directory", {}]]}, {"say": ["x"]}])));
    let file = |name: &str| vault(&bench).join(name);
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
    for name in ["a.md", "b.md", "c.md", "d.md"] {
        std::fs::write(file(name), "old\n").unwrap();
    }
    let calls = expired(&bench, &server);
    let do_now =
        |place: usize| bench.post(&format!("/api/agent/calls/{}/do", calls[place].0), json!({}));
    // Nobody else makes it, and no token that may not decide.
    let bea = person(&bench, "bea");
    let target = format!("/api/agent/calls/{}/do", calls[0].0);
    assert_eq!(bench.send(&Call::post(&target, json!({})).token(&bea)).status, 404);
    let call = bench.get(&format!("/api/agent/calls/{}", calls[0].0)).ok();
    let page = bench.get(&format!("/approvals/{}", call["approval_id"].as_str().unwrap()));
    let action = format!("action=\"/assistant/{}/do\"", calls[0].1);
    assert!(page.body.as_str().unwrap().contains(&action), "{page:?}");
    // Of two taps one makes it.
    let (socket, operator) = (bench.socket(), bench.operator());
    let tap = || Call::post(&target, json!({})).token(&operator).try_socket(&socket).unwrap();
    let taps: Vec<_> = std::thread::scope(|scope| {
        let taps: Vec<_> = (0..2).map(|_| scope.spawn(tap)).collect();
        taps.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let mut codes: Vec<_> = taps.iter().map(|it| it.status).collect();
    codes.sort_unstable();
    assert_eq!((codes, read("a.md").as_str()), (vec![200, 409], "new\n"), "{taps:?}");
    let made = bench.get(&format!("/api/agent/calls/{}", calls[0].0)).ok();
    assert_eq!((&made["state"], &made["ok"]), (&json!("done"), &json!(true)));
    assert!(made["result"].as_str().unwrap().contains("Nobody answered"), "as the model was told");
    let run = made["run_id"].as_str().unwrap();
    let text = std::fs::read_to_string(file(&recorded(&bench, run))).unwrap();
    assert!(text.contains("**done later** write_file `a.md`"), "{text}");
    bench.post(&format!("/api/agent/calls/{}/undo", calls[0].0), json!({})).ok();
    assert_eq!((read("a.md").as_str(), do_now(0).code()), ("old\n", "cannot_do"));
    // Not on anything else than what was shown; then it still can be.
    std::fs::write(file("b.md"), "mine\n").unwrap();
    assert_eq!(do_now(1).refusal(), (409, "changed_meanwhile"));
    assert_eq!(read("b.md"), "mine\n");
    std::fs::write(file("b.md"), "old\n").unwrap();
    let (code, said, _) = bench.cli(&["chat", "do", &calls[1].0]);
    assert_eq!((code, read("b.md").as_str()), (0, "new\n"), "{said}");
    server.stop();
    // Killed around the change: the file tells whether it was made, and it is not made again.
    for (place, point, then) in [(2, "before_again", "old\n"), (3, "after_again", "new\n")] {
        let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
        let target = format!("/api/agent/calls/{}/do", calls[place].0);
        let operator = bench.operator();
        Call::post(&target, json!({})).token(&operator).try_socket(&bench.socket());
        server.wait();
        let server = bench.serve();
        let call = wait_for("the file was looked at", || {
            let call = bench.get(&format!("/api/agent/calls/{}", calls[place].0)).ok();
            (call["state"] != "unknown").then_some(call)
        });
        assert_eq!(
            (&call["state"], &call["ok"], &call["can_do"]),
            (&json!("done"), &json!(then == "new\n"), &json!(false)),
            "{point}"
        );
        assert_eq!(do_now(place).refusal(), (409, "cannot_do"), "{point}");
        assert_eq!(read(["", "", "c.md", "d.md"][place]), then, "{point}");
        server.stop();
    }
}
