//! What a person sets without a shell: their prompt, memory and actions, on a page and over HTTP.

use serde_json::{Value, json};

use super::tools::vault;
use super::{ask, assistant, keyed, person};
use crate::support::{Bench, Call};

fn config(bench: &Bench) -> Value {
    bench.get("/api/agent/config").ok()
}

fn text(bench: &Bench, path: &str) -> Value {
    bench.get(&format!("/api/agent/vault/text?path={path}")).ok()
}

/// Sends a form of a page, with plain values.
fn form(bench: &Bench, target: &str, fields: &[(&str, &str)]) -> (u16, String) {
    let encoded = |text: &str| text.bytes().map(|it| format!("%{it:02X}")).collect::<String>();
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let answer = bench.send(&Call::form(target, &fields.join("&")).token(&bench.operator()));
    (answer.status, answer.body.as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_person_edits_their_prompt_and_a_change_meanwhile_is_a_conflict() {
    let bench = Bench::new();
    assistant(&bench, "limits = { steps = 7, cost_usd = 1.5 },");
    let server = bench.serve();
    let first = config(&bench);
    assert_eq!((&first["prompt"], &first["prompt_digest"]), (&json!(null), &json!("none")));
    assert_eq!((&first["limits"]["steps"], &first["limits"]["cost_usd"]), (&json!(7), &json!(1.5)));
    assert_eq!(first["actions_folder"], "agent/actions");
    let rule = |name: &str| {
        let tools = first["tools"].as_array().unwrap();
        tools.iter().find(|it| it["name"] == name).unwrap()["rule"].clone()
    };
    assert_eq!((rule("write_file"), rule("open_topic")), (json!("allow"), json!("ask")));
    let mode = &first["modes"][0];
    assert_eq!(mode["is_unsandboxed"], true);
    assert!(mode["terms"].as_str().unwrap().contains("the site pays"), "{mode}");

    let set = |body: Value| bench.post("/api/agent/config", body);
    let saved = set(json!({"prompt": "Answer in rhymes.", "prompt_digest": "none"})).ok();
    assert_eq!((&saved["prompt"], &saved["mode"]), (&json!("Answer in rhymes."), &first["mode"]));
    let digest = saved["prompt_digest"].clone();
    let file = vault(&bench).join("agents.md");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "Answer in rhymes.");
    let run = ask(&bench, json!({"message": "hello"}))[0]["run_id"].as_str().unwrap().to_owned();
    let system = bench.data.join("jobs").join(run).join("system.md");
    assert!(std::fs::read_to_string(system).unwrap().contains("Answer in rhymes."));

    // Another device, an editor or the assistant changes it.
    std::fs::write(&file, "Answer in prose.").unwrap();
    for (body, refusal) in [
        (json!({"prompt": "mine", "prompt_digest": digest}), (409, "prompt_changed")),
        (json!({"prompt": null, "prompt_digest": digest}), (409, "prompt_changed")),
        (json!({"prompt": "mine", "prompt_digest": "none"}), (409, "prompt_changed")),
        (json!({"prompt": "mine"}), (400, "bad_parameter")),
        (json!({"prompt": "x".repeat(32_001), "prompt_digest": digest}), (413, "too_large")),
        (json!({"prompt": "a\0b", "prompt_digest": digest}), (400, "not_text")),
        (json!({"prompt": "mine", "prompt_digest": digest, "mode": "x"}), (400, "unknown_mode")),
        (json!({}), (400, "no_changes")),
        (json!({"prompt_digest": digest}), (400, "no_changes")),
    ] {
        assert_eq!(set(body.clone()).refusal(), refusal, "{body}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "Answer in prose.", "{body}");
    }
    // The mode is chosen without a word about the prompt.
    assert_eq!(set(json!({"mode": "claude_code"})).ok()["prompt"], "Answer in prose.");
    let digest = config(&bench)["prompt_digest"].clone();
    let reset = set(json!({"prompt": null, "prompt_digest": digest})).ok();
    assert_eq!((&reset["prompt"], &reset["prompt_digest"]), (&json!(null), &json!("none")));
    assert!(!file.exists());
    set(json!({"prompt": null, "prompt_digest": "none"})).ok();
    server.stop();
}

#[test]
fn only_texts_that_instruct_the_assistant_are_edited_and_only_by_who_may_decide() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    bench.post("/api/persons", json!({"name": "bea", "role": "member"})).ok();
    let writer = bench
        .json(&["token", "create", "w", "--person", "bea", "--scope", "read", "--scope", "write"]);
    let writer = writer["token"].as_str().unwrap();
    let prompt = json!({"prompt": "Obey.", "prompt_digest": "none"});
    let refused = bench.send(&Call::post("/api/agent/config", prompt).token(writer));
    assert_eq!(refused.status, 403, "{refused:?}");
    let memory = json!({"path": "agent/memory.md", "text": "x", "digest": "none"});
    assert_eq!(bench.send(&Call::post("/api/agent/vault/text", memory).token(writer)).status, 403);

    assert_eq!(text(&bench, "agent/memory.md")["digest"], "none");
    let own = vault(&bench);
    let write = |path: &str, text: Value, digest: &str| {
        let body = json!({"path": path, "text": text, "digest": digest});
        bench.post("/api/agent/vault/text", body)
    };
    std::fs::create_dir_all(own.join("agent/actions/sub")).unwrap();
    std::fs::write(own.join("notes.md"), "n").unwrap();
    std::fs::write(own.join("twin"), "t").unwrap();
    std::fs::hard_link(own.join("twin"), own.join("agent/actions/Twin.md")).unwrap();
    std::os::unix::fs::symlink("../../notes.md", own.join("agent/actions/Link.md")).unwrap();
    std::fs::write(own.join("agent/actions/Bytes.md"), b"\xff").unwrap();
    for (path, refusal) in [
        ("notes.md", (400, "bad_path")),
        ("agent/actions/x.txt", (400, "bad_path")),
        ("agent/actions/.md", (400, "bad_path")),
        ("agent/actions/sub/x.md", (400, "bad_path")),
        ("agent/actions/../../x.md", (400, "bad_path")),
        ("agent/actions", (400, "bad_path")),
        ("agent/scratch/x.md", (400, "bad_path")),
        ("agent/actions/Link.md", (400, "not_a_file")),
        ("agent/actions/Twin.md", (400, "hard_link")),
        ("agent/actions/Bytes.md", (409, "action_changed")),
    ] {
        assert_eq!(write(path, json!("x"), "none").refusal(), refusal, "{path}");
    }
    let unread = |path: &str| bench.get(&format!("/api/agent/vault/text?path={path}"));
    assert_eq!(unread("notes.md").refusal(), (400, "bad_path"));
    assert_eq!(unread("agent/actions/Bytes.md").refusal(), (400, "not_text"));
    assert_eq!(std::fs::read_to_string(own.join("notes.md")).unwrap(), "n");

    // An action: added, changed, and removed.
    let path = "agent/actions/Weekly digest.md";
    assert_eq!(write(path, json!("{{wrong}}"), "none").refusal(), (400, "bad_action"));
    assert_eq!(write(path, json!(null), "none").refusal(), (404, "no_file"));
    let digest = write(path, json!("hello"), "none").ok()["digest"].as_str().unwrap().to_owned();
    let again = write("agent/actions/weekly-Digest.md", json!("x"), "none");
    assert_eq!(again.refusal(), (409, "action_exists"));
    assert_eq!(write(path, json!("x"), "none").refusal(), (409, "action_changed"));
    let listed = bench.get("/api/agent/actions").ok();
    let found = listed["items"].as_array().unwrap().iter().find(|it| it["path"] == path).unwrap();
    assert_eq!((&found["prompt"], &found["digest"]), (&json!("hello"), &json!(digest)));
    let next = write(path, json!("again"), &digest).ok()["digest"].as_str().unwrap().to_owned();
    assert_eq!(write(path, json!(null), &digest).refusal(), (409, "action_changed"));
    assert_eq!(write(path, json!(null), &next).ok()["digest"], "none");
    assert!(!own.join(path).exists());
    let large = "x".repeat(64 * 1024 + 1);
    assert_eq!(write(path, json!(large), "none").refusal(), (413, "too_large"));
    // Nobody else reads any of it.
    write("agent/memory.md", json!("The code is 1234."), "none").ok();
    let bea = super::token(&bench, "bea");
    let theirs = Call::get("/api/agent/vault/text?path=agent/memory.md").token(&bea);
    assert_eq!(bench.send(&theirs).ok()["text"], json!(null));
    server.stop();
}

#[test]
fn the_page_of_the_settings_keeps_what_was_typed_and_says_what_is_wrong() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let page = |at: &str| bench.get(at).ok().as_str().unwrap().to_owned();
    let shown = page("/assistant/settings");
    assert!(shown.contains("No actions yet") && shown.contains("assistant-unsandboxed"), "{shown}");
    let save = |text: &str, digest: &str| {
        let fields = [("path", "agents.md"), ("digest", digest), ("text", text)];
        form(&bench, "/assistant/settings/text", &fields)
    };
    assert_eq!(save(" \r\n", "none").0, 303, "nothing is nothing");
    assert_eq!(save("One.\r\nTwo.", "none").0, 303);
    let file = vault(&bench).join("agents.md");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "One.\nTwo.");
    let seen = text(&bench, "agents.md")["digest"].as_str().unwrap().to_owned();
    std::fs::write(&file, "<b>Theirs</b>").unwrap();
    let (status, shown) = save("Mine </textarea><script>", &seen);
    assert_eq!(status, 409);
    assert!(shown.contains("agents.md has changed since you saw it"), "{shown}");
    assert!(shown.contains("Mine &#60;/textarea&#62;&#60;script&#62;"), "{shown}");
    assert!(shown.contains("&#60;b&#62;Theirs&#60;/b&#62;"), "{shown}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "<b>Theirs</b>");
    // The form has the digest of what it shows, so that the next one is deliberate.
    let now = text(&bench, "agents.md")["digest"].as_str().unwrap().to_owned();
    assert!(shown.contains(&now), "{shown}");
    assert_eq!(save("Mine", &now).0, 303);
    let (status, shown) =
        save(&"x".repeat(32_001), text(&bench, "agents.md")["digest"].as_str().unwrap());
    assert!(status == 413 && shown.contains("the assistant reads 32000"), "{status}");
    assert_eq!(save(" ", text(&bench, "agents.md")["digest"].as_str().unwrap()).0, 303);
    assert!(!file.exists(), "an empty one is none");

    server.stop();
}

#[test]
fn an_action_is_added_changed_and_removed_on_the_page() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let page = |at: &str| bench.get(at).ok().as_str().unwrap().to_owned();
    page("/assistant/settings");
    // A new action, by its fields.
    let place = "/assistant/settings/action";
    let add = |name: &str, steps: &str| {
        let fields = [
            ("digest", "none"),
            ("name", name),
            ("prompt", "hello\r\n{{date}}"),
            ("about", "The \"week\": #1"),
            ("asks", "1"),
            ("steps", steps),
        ];
        form(&bench, place, &fields)
    };
    for (name, steps, why) in [
        ("", "", "the action has no name"),
        ("a/b", "", "is not edited here"),
        (".hidden", "", "hidden files are not part of the vault"),
        ("Week", "0", "from 1 to 500"),
    ] {
        let (status, shown) = add(name, steps);
        assert!((400..500).contains(&status) && shown.contains(why), "{name}: {status} {shown}");
        assert!(shown.contains("hello\n{{date}}"), "{name}: what was typed is gone");
    }
    assert_eq!(add("Week", "3").0, 303);
    let (status, shown) = add("week", "3");
    assert!(status == 409 && shown.contains("you have the action Week already"), "{shown}");
    let action = &bench.get("/api/agent/actions").ok()["items"][0];
    assert_eq!(action["about"], "The \"week\": #1");
    assert_eq!((&action["requires_confirmation"], &action["max_steps"]), (&json!(true), &json!(3)));
    assert!(page("/assistant/settings").contains("shows its prompt first"));
    // One that is no action is shown as its file, and mended there.
    let file = vault(&bench).join("agent/actions/Week.md");
    std::fs::write(&file, "---\nwrong: 1\n---\nhello").unwrap();
    let at = "/assistant/settings/action?path=agent/actions/Week.md";
    let shown = page(at);
    assert!(shown.contains("Can’t run") && shown.contains("wrong: 1"), "{shown}");
    let digest = text(&bench, "agent/actions/Week.md")["digest"].as_str().unwrap().to_owned();
    let edit = |digest: &str, file: &str| {
        let fields = [("path", "agent/actions/Week.md"), ("digest", digest), ("file", file)];
        form(&bench, place, &fields)
    };
    assert_eq!(edit(&digest, "---\nstill: wrong\n---\nx").0, 400);
    let (status, shown) = edit("stale", "mended");
    assert!(status == 409 && shown.contains("wrong: 1") && shown.contains("mended"), "{shown}");
    assert_eq!(edit(&digest, "mended").0, 303);
    assert!(page(at).contains("mended"));
    let digest = text(&bench, "agent/actions/Week.md")["digest"].as_str().unwrap().to_owned();
    let remove = [("path", "agent/actions/Week.md"), ("digest", digest.as_str())];
    assert_eq!(form(&bench, "/assistant/settings/remove", &remove).0, 303);
    assert!(!file.exists());
    assert_eq!(form(&bench, "/assistant/settings/remove", &remove).0, 404);
    assert_eq!(bench.get(at).status, 404);
    assert_eq!(bench.get("/assistant/settings/action?path=notes.md").status, 400);
    server.stop();
}

#[test]
fn a_vault_that_cannot_be_read_is_said_on_the_page_and_modes_can_still_be_chosen() {
    let bench = Bench::new();
    let _model = keyed(&bench, "");
    let server = bench.serve();
    text(&bench, "agents.md");
    let own = vault(&bench);
    std::fs::write(own.join("agents.md"), b"\xff\xfe").unwrap();
    std::fs::create_dir_all(own.join("agent")).unwrap();
    std::fs::write(own.join("agent/memory.md"), "é".repeat(16_001)).unwrap();
    let shown = config(&bench);
    assert_eq!((&shown["prompt"], &shown["prompt_digest"]), (&json!(null), &json!(null)));
    let problem = shown["vault_problem"].as_str().unwrap();
    assert!(problem.contains("agents.md was not read: it is no UTF-8 text"), "{problem}");
    let cut = "of agent/memory.md only the first 16000 characters are read";
    assert!(problem.contains(cut), "{problem}");
    let page = bench.get("/assistant/settings").ok();
    let page = page.as_str().unwrap();
    assert!(page.contains("agents.md is not a text (UTF-8)") && page.contains(cut), "{page}");
    bench.post("/api/agent/config", json!({"mode": "anthropic_api_key"})).ok();
    bench.post("/api/agent/config", json!({"mode": null})).ok();
    server.stop();

    let bench = Bench::new();
    let _model = keyed(&bench, "tools = {},");
    let server = bench.serve();
    person(&bench, "bea");
    let page = bench.get("/assistant/settings").ok();
    assert!(page.as_str().unwrap().contains("reads nothing of your vault"), "{page}");
    assert_eq!(config(&bench)["tools"], json!([]));
    server.stop();
}

/// An action gets another name where it is edited; what it says may change with it.
#[test]
fn an_action_gets_another_name() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let write = |body: Value| bench.post("/api/agent/vault/text", body);
    let at = |name: &str| format!("agent/actions/{name}.prompt.md");
    let new = |name: &str| json!({"path": at(name), "text": "Look.", "digest": "none"});
    let digest = write(new("One")).ok()["digest"].clone();
    write(new("Two")).ok();
    let rename = |to: &str, text: Value, digest: &Value| {
        write(json!({"path": at("One"), "to": to, "text": text, "digest": digest}))
    };
    for (to, text, of, refusal) in [
        (at("Two"), json!("x"), &digest, (409, "action_exists")),
        (at("TWO!"), json!("x"), &digest, (409, "action_exists")),
        (at("Three"), json!("x"), &json!("none"), (400, "bad_path")),
        (at("Three"), json!("x"), &json!("other"), (409, "action_changed")),
        (at("Three"), json!(null), &digest, (400, "bad_path")),
        ("agents.md".to_owned(), json!("x"), &digest, (400, "bad_path")),
        ("notes/Three.md".to_owned(), json!("x"), &digest, (400, "bad_path")),
        ("agent/actions/../../x.md".to_owned(), json!("x"), &digest, (400, "bad_path")),
    ] {
        assert_eq!(rename(&to, text, of).refusal(), refusal, "{to}");
    }
    let names = || -> Vec<Value> {
        let listed = bench.get("/api/agent/actions").ok();
        listed["items"].as_array().unwrap().iter().map(|it| it["label"].clone()).collect()
    };
    assert_eq!(names(), ["One", "Two"]);
    assert_eq!(text(&bench, &at("One"))["text"], "Look.", "what is refused changes nothing");
    // Only its case, and its text.
    let renamed = rename(&at("ONE"), json!("Look again."), &digest).ok();
    assert_eq!((&renamed["path"], &renamed["text"]), (&json!(at("ONE")), &json!("Look again.")));
    let prompt = rename_on_page(&bench, &at("ONE"), renamed["digest"].as_str().unwrap());
    assert_eq!(prompt["text"], "Look here.\n");
    assert_eq!(names(), ["Three", "Two"]);
    server.stop();
}

fn rename_on_page(bench: &Bench, path: &str, digest: &str) -> Value {
    let fields = [("path", path), ("digest", digest), ("prompt", "Look here.")];
    let page = "/assistant/settings/action";
    let (status, said) = form(bench, page, &[&fields[..], &[("name", "Two")]].concat());
    assert!(status == 409 && said.contains("you have the action Two already"), "{said}");
    assert!(said.contains("value=\"Two\""), "what was typed stays: {said}");
    assert_eq!(form(bench, page, &[&fields[..], &[("name", "Three")]].concat()).0, 303);
    text(bench, "agent/actions/Three.prompt.md")
}

/// Dates are those of the assistant's time zone.
#[test]
fn today_is_where_the_assistant_is() {
    let bench = Bench::new();
    // Whatever the time is, one of them has another date.
    for (zone, hours) in [("Pacific/Kiritimati", 14), ("Pacific/Niue", -11)] {
        assistant(&bench, &format!("zone = \"{zone}\","));
        let server = bench.serve();
        let day = || {
            let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
            (now + jiff::ToSpan::hours(hours)).strftime("%A, %Y-%m-%d").to_string()
        };
        let before = day();
        let items = ask(&bench, json!({"message": "hello"}));
        let run = items[0]["run_id"].as_str().unwrap();
        let system = bench.data.join("jobs").join(run).join("system.md");
        let system = std::fs::read_to_string(system).unwrap();
        let is_said = |day: &str| system.contains(&format!("Today is {day} ({zone})."));
        assert!(is_said(&before) || is_said(&day()), "{system}");
        server.stop();
        bench.edit(|lua| lua[..lua.find("wb.engine \"claude-chat\"").unwrap()].to_owned());
    }
}
