//! What a person may still do: after the script names them no more or a tool was withdrawn, after
//! their sign-in has expired, while questions wait, and with a long list of conversations.

use serde_json::{Value, json};

use super::tools::{of_type, vault};
use super::{Live, ask, keyed, token, with_env};
use crate::support::{Bench, Server, cli, shell, wait_for};

const NAMED: &str = "persons = { \"ada\", \"bea\" },";

/// Returns a question whose answer makes calls, then says so.
fn script(calls: Value) -> Value {
    json!({"message": format!("script {}", json!([{"calls": calls}, {"say": ["Made."]}]))})
}

fn overwrite() -> Value {
    script(json!([["write_file", {"path": "k.md", "content": "new\n"}]]))
}

/// Asks for a call that waits for ada; returns the stream, the approval and the run.
fn waiting(
    bench: &Bench,
    server: &Server,
    token: &str,
    question: &Value,
) -> (Live, String, String) {
    let mut live = Live::ask(server.address(), token, question);
    let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
    let run = live.seen[0]["run_id"].as_str().unwrap().to_owned();
    let id = asked["approval_id"].as_str().unwrap().to_owned();
    assert_eq!(bench.get(&format!("/api/approvals/{id}")).ok()["state"], "pending");
    (live, id, run)
}

fn decide(bench: &Bench, id: &str, verb: &str) -> crate::support::Answer {
    bench.post(&format!("/api/approvals/{id}/{verb}"), json!({"version": 1}))
}

/// Changes the script and reloads it.
fn reload(bench: &Bench, from: &str, to: &str) {
    bench.edit(|lua| {
        assert!(lua.contains(from), "{lua}");
        lua.replace(from, to)
    });
    bench.write_script();
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!(code, 0, "{out}{err}");
}

/// Writes the file that is to be overwritten, and returns how to read it.
fn file(bench: &Bench) -> impl Fn() -> String {
    ask(bench, script(json!([["list_directory", {}]])));
    let path = vault(bench).join("k.md");
    std::fs::write(&path, "old\n").unwrap();
    move || std::fs::read_to_string(&path).unwrap()
}

/// Fails with `WB_WITHOUT=named_now`.
#[test]
fn the_answer_of_somebody_who_is_named_no_more_is_stopped() {
    let bench = Bench::new();
    let _model = keyed(&bench, NAMED);
    let server = bench.serve();
    let (read, token) = (file(&bench), token(&bench, "ada"));
    let (mut live, id, _) = waiting(&bench, &server, &token, &overwrite());
    reload(&bench, NAMED, "persons = { \"bea\" },");
    // What is left of it ends by itself; no later decision carries the call out.
    let approval = wait_for("the question is withdrawn", || {
        let it = bench.get(&format!("/api/approvals/{id}")).ok();
        (it["state"] != "pending").then_some(it)
    });
    assert_eq!(approval["state"], "withdrawn");
    assert_eq!(decide(&bench, &id, "approve").refusal(), (403, "not_named"));
    assert_eq!(bench.get("/api/agent/sessions").refusal(), (403, "not_named"));
    live.until(|_| false);
    assert_eq!(read(), "old\n");
    reload(&bench, "persons = { \"bea\" },", NAMED);
    let run = live.seen[0]["run_id"].as_str().unwrap();
    assert_eq!(super::ended(&bench, run)["ended"], "stopped");
    server.stop();
}

/// Both lines of defence hold by themselves: the reload above stops the answer; here it does not.
/// Fails with `WB_WITHOUT=call_right`.
#[test]
fn a_call_is_judged_by_the_script_of_the_moment_when_it_is_made() {
    let bench = Bench::new();
    let _model = keyed(&bench, NAMED);
    let off = std::env::var("WB_WITHOUT").unwrap_or_default();
    let server = bench.serve_with(&[("WB_WITHOUT", &format!("named_now,{off}"))]);
    let (read, token) = (file(&bench), token(&bench, "ada"));
    // A tool that was withdrawn after the person was asked.
    let (mut live, id, _) = waiting(&bench, &server, &token, &overwrite());
    reload(
        &bench,
        NAMED,
        "persons = { \"ada\", \"bea\" }, tools = { list_directory = \"allow\" },",
    );
    decide(&bench, &id, "approve").ok();
    live.until(|it| it["type"] == "done").unwrap();
    let result = of_type(&live.seen, "tool_result")[0].clone();
    assert_eq!((&result["ok"], read().as_str()), (&json!(false), "old\n"), "{result}");
    assert!(result["summary"].as_str().unwrap().contains("not allowed here"), "{result}");
    // A person who was removed after that: nothing is made, and they can still stop it.
    reload(&bench, "tools = { list_directory = \"allow\" },", "");
    let (mut live, id, _) = waiting(&bench, &server, &token, &overwrite());
    let (_other, _, run) = waiting(&bench, &server, &token, &overwrite());
    reload(&bench, NAMED, "persons = { \"bea\" },");
    decide(&bench, &id, "approve").ok();
    live.until(|_| false);
    assert_eq!(read(), "old\n");
    bench.post("/api/agent/stop", json!({"run_id": run})).ok();
    server.stop();
}

#[test]
fn a_decision_is_judged_by_the_script_of_its_moment() {
    let bench = Bench::new();
    let _model = keyed(&bench, NAMED);
    let server = bench.serve();
    let (read, token) = (file(&bench), token(&bench, "ada"));
    let (mut live, id, _) = waiting(&bench, &server, &token, &overwrite());
    reload(&bench, NAMED, "persons = { \"ada\" }, tools = { list_directory = \"allow\" },");
    assert_eq!(decide(&bench, &id, "approve").refusal(), (404, "no_tool"));
    decide(&bench, &id, "reject").ok();
    live.until(|it| it["type"] == "done").unwrap();
    assert_eq!(
        (of_type(&live.seen, "tool_result")[0]["state"].as_str(), read().as_str()),
        (Some("declined"), "old\n")
    );
    server.stop();
}

/// One answer may be written at once, and one waits for its person: another one is written.
#[test]
fn a_question_that_waits_keeps_no_other_answer_waiting() {
    let bench = Bench::new();
    let _model = keyed(&bench, "limits = { running = 1, running_person = 1 },");
    let server = bench.serve();
    let (read, token) = (file(&bench), token(&bench, "ada"));
    let (mut live, id, _) = waiting(&bench, &server, &token, &overwrite());
    let bea = super::person(&bench, "bea");
    for token in [&token, &bea] {
        let mut other = Live::ask(server.address(), token, &json!({"message": "hello"}));
        assert_eq!(other.until(|it| it["type"] == "done").unwrap()["reason"], "ok");
    }
    // An answer that is written has the place; the one whose question was answered gets it then.
    let mut half = Live::ask(server.address(), &bea, &json!({"message": "half"}));
    half.until(|it| it["type"] == "text").unwrap();
    decide(&bench, &id, "approve").ok();
    live.until(|it| it["type"] == "tool_result").unwrap();
    assert_eq!(read(), "new\n", "what was allowed is done at once");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(half.until(|it| it["type"] == "done").unwrap()["reason"], "ok");
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "ok");
    server.stop();
}

/// The same for a program of its own, whose call is repeated until it has a place.
#[test]
fn a_program_that_waits_keeps_no_other_answer_waiting() {
    let bench = Bench::new();
    super::assistant(&bench, "limits = { running = 1, running_person = 1 },");
    let server = bench.serve();
    ask(&bench, json!({"message": "call list_directory {}"}));
    let path = vault(&bench).join("k.md");
    std::fs::write(&path, "old\n").unwrap();
    let token = token(&bench, "ada");
    let call = json!({"message": "call write_file {\"path\":\"k.md\",\"content\":\"new\\n\"}"});
    let (mut live, id, _) = waiting(&bench, &server, &token, &call);
    ask(&bench, json!({"message": "hello"}));
    decide(&bench, &id, "approve").ok();
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "ok");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");
    server.stop();
}

/// A token that Claude no longer accepts is replaced on the page or in a terminal.
#[test]
fn an_expired_sign_in_is_replaced() {
    let bench = Bench::new();
    with_env(&bench, "", "");
    let server = bench.serve();
    let page = |path: &str| bench.get(path).ok().as_str().unwrap().to_owned();
    let sign_out = "action=\"/assistant/sign-out\"";
    assert!(!page("/claude").contains(sign_out));
    let token = |digit: &str| format!("sk-ant-oat01-{}", digit.repeat(20));
    bench.post("/api/agent/claude/login", json!({"token": token("1")})).ok();
    let items = ask(&bench, json!({"message": "refused"}));
    let error = of_type(&items, "error")[0].clone();
    assert_eq!(error["code"], "auth_invalid");
    let session = items[0]["session_id"].as_str().unwrap();
    let shown = page(&format!("/assistant/{session}"));
    assert!(shown.contains("href=\"/claude\">Sign in again</a>"), "{shown}");
    let form = page("/claude");
    for wanted in ["Sign in again", "action=\"/assistant/sign-in\"", sign_out] {
        assert!(form.contains(wanted), "{wanted}: {form}");
    }
    // A new token takes the place of the old one.
    let path = bench.base.join("token");
    std::fs::write(&path, format!("{}\n", token("2"))).unwrap();
    let program = env!("CARGO_BIN_EXE_wiki-browser");
    shell(&format!("cd '{}' && exec '{program}' claude login < '{path}'", bench.top));
    ask(&bench, json!({"message": "hello"}));
    let env = bench.left("env");
    assert!(env.contains(&token("2")) && !env.contains(&token("1")), "{env}");
    let (code, out, err) = cli(&bench.top, &["claude", "logout"]);
    assert_eq!((code, out.as_str()), (0, "signed out\n"), "{err}");
    assert!(!page("/claude").contains(sign_out));
    server.stop();
}

/// Whoever allows a change can see all of it: up to a bound, and a long one next to the whole.
#[test]
fn a_long_note_is_rewritten_as_a_whole() {
    let bench = Bench::new();
    let _model = keyed(&bench, "limits = { prompt_kib = 1000 },");
    let server = bench.serve();
    let (read, token) = (file(&bench), token(&bench, "ada"));
    let note = |word: &str, lines: usize| format!("{word} line of a long note\n").repeat(lines);
    let path = vault(&bench).join("k.md");
    std::fs::write(&path, note("old", 1_200)).unwrap();
    let rewrite = |text: &str| script(json!([["write_file", {"path": "k.md", "content": text}]]));
    let (mut live, id, _) = waiting(&bench, &server, &token, &rewrite(&note("new", 1_200)));
    let session = live.seen[0]["session_id"].as_str().unwrap().to_owned();
    let page = bench.get(&format!("/assistant/{session}")).ok();
    let page = page.as_str().unwrap();
    let whole = page.find("Show the whole change").unwrap();
    let allow = page.find("Allow once").unwrap();
    assert!(whole < allow && page[whole..allow].matches("+new line").count() == 1_200);
    assert_eq!(page.matches("Allow once").count(), 1);
    decide(&bench, &id, "approve").ok();
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "ok");
    assert_eq!(read(), note("new", 1_200));
    // Beyond the bound nothing is asked, and nothing done.
    let items = ask(&bench, rewrite(&note("more", 9_000)));
    assert!(of_type(&items, "confirm_required").is_empty());
    let result = of_type(&items, "tool_result")[0];
    assert!(result["summary"].as_str().unwrap().contains("too large"), "{result}");
    assert_eq!(read(), note("new", 1_200));
    server.stop();
}

/// What a person told their assistant is not dropped without a word.
#[test]
fn wishes_that_cannot_be_read_are_reported() {
    let bench = Bench::new();
    let model = super::both(&bench);
    let server = bench.serve();
    let _read = file(&bench);
    let vault = vault(&bench);
    std::fs::create_dir_all(vault.join("agent")).unwrap();
    std::fs::write(vault.join("agent/memory.md"), "She likes tea.\n").unwrap();
    std::fs::write(vault.join("agents.md"), "x".repeat(1_100_000)).unwrap();
    for mode in ["anthropic_api_key", "claude_code"] {
        let items = ask(&bench, json!({"message": "hello", "mode": mode}));
        let told = of_type(&items, "status");
        assert_eq!(told[0]["code"], "vault_unread", "{mode}: {items:#?}");
        let message = told[0]["message"].as_str().unwrap();
        assert!(message.contains("agents.md") && !message.contains("memory.md"), "{message}");
    }
    let asked = model.asked().last().unwrap().to_string();
    assert!(asked.contains("She likes tea."), "the rest is read");
    let health = bench.get("/api/agent/health").ok();
    assert!(health["vault_problem"].as_str().unwrap().contains("agents.md"), "{health}");
    let page = bench.get("/assistant").ok();
    assert!(page.as_str().unwrap().contains("agents.md was not read"));
    let (_, _, err) = bench.cli(&["ask", "hello"]);
    assert!(err.contains("agents.md was not read"), "{err}");
    std::fs::write(vault.join("agents.md"), "Be brief.\n").unwrap();
    assert_eq!(bench.get("/api/agent/health").ok()["vault_problem"], Value::Null);
    server.stop();
}

/// A step that starts over takes nothing of the earlier ones with it.
#[test]
fn the_terminal_has_the_text_that_the_history_has() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let steps = json!([
        {"say": ["FIRST STEP."], "calls": [["list_directory", {}]]},
        {"say": ["part"], "fault": {"error": "overloaded_error", "times": 1}},
    ]);
    let question = format!("script {steps}");
    let (code, out, err) = bench.cli(&["ask", "--field", "text", &question]);
    assert_eq!((code, out.as_str()), (0, "FIRST STEP.\n\npart\n"), "{err}");
    // A call names what it is about.
    let steps = json!([{"calls": [["web_fetch", {"url": "https://docs.example.org/a"}]]}]);
    // Not the address itself, which would be fetched without a question.
    let page = json!({"message": format!("script {}", steps.to_string().replace('/', "\\/"))});
    let token = token(&bench, "ada");
    let (live, _, run) = waiting(&bench, &server, &token, &page);
    let call = live.seen.last().unwrap()["id"].as_str().unwrap().to_owned();
    let shown = bench.get(&format!("/api/agent/calls/{call}")).ok();
    assert_eq!(shown["subject"], "https://docs.example.org/a");
    bench.post("/api/agent/stop", json!({"run_id": run})).ok();
    server.stop();
}

#[test]
fn pinned_conversations_stand_first_and_archived_ones_apart() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    let asked: Vec<String> = (0..4)
        .map(|_| {
            ask(&bench, json!({"message": "hello"}))[0]["session_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let change = |id: &str, body: Value| {
        bench.post(&format!("/api/agent/sessions/{id}"), body).ok();
    };
    change(&asked[0], json!({"is_pinned": true}));
    change(&asked[2], json!({"is_archived": true}));
    let list = |query: &str| {
        let page = bench.get(&format!("/api/agent/sessions{query}")).ok();
        let items = page["items"].as_array().unwrap().iter();
        let ids: Vec<String> =
            items.map(|it| it["session_id"].as_str().unwrap().to_owned()).collect();
        (ids, page["next"].as_str().map(str::to_owned))
    };
    let of = |places: &[usize]| places.iter().map(|it| asked[*it].clone()).collect::<Vec<_>>();
    assert_eq!(list("").0, of(&[0, 3, 1]));
    assert_eq!(list("?archived=true").0, of(&[2]));
    // Page by page, none is lost and none comes twice.
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let (ids, next) = list(&format!("?limit=1{after}"));
        seen.extend(ids);
        let Some(next) = next else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, of(&[0, 3, 1]));
    let page = bench.get("/assistant?archived=true").ok();
    let page = page.as_str().unwrap();
    assert!(page.contains(&asked[2]) && !page.contains(&asked[1]));
    let page = bench.get(&format!("/assistant/{}", asked[0])).ok();
    assert!(page.as_str().unwrap().contains("Unpin"));
    // A new question takes it out of the archive.
    ask(&bench, json!({"session_id": asked[2], "message": "again"}));
    assert_eq!(list("").0, of(&[0, 2, 3, 1]));
    server.stop();
}
