//! Refused views: other versions, other jobs, other files, too large, too late.

use serde_json::{Value, json};

use super::{VIEW, asked, made, persona, perspective_kind, states, stored, view};
use crate::cli::desk::{text, with_token};
use crate::cli::envelope;
use crate::support::{Bench, Call};

/// An agent that leaves its token to the test, and waits for it.
const LENDS: &str = r#"
printf '%s\n' "$WB_TOKEN" > "$OUT/token.$job"
printf '%s\n' "$persona_sha" > "$OUT/persona_sha.$job"
until [ -e "$OUT/go" ]; do sleep 0.02; done
"#;

/// Starts a job that waits; returns its id and token.
fn lent(bench: &Bench, path: &str) -> (String, String) {
    let job = asked(bench, path, "critic")["job_id"].as_str().unwrap().to_owned();
    bench.wait_left(&format!("persona_sha.{job}"));
    let token = bench.left(&format!("token.{job}"));
    (job, token)
}

fn body(bench: &Bench, job: &str) -> Value {
    let shown = bench.show(job);
    json!({
        "source_path": shown["inputs"]["source_path"], "persona": "critic",
        "source_sha": shown["inputs"]["source_sha"],
        "persona_sha": shown["inputs"]["persona_sha"], "text": "# View\n",
    })
}

fn put(bench: &Bench, token: &str, body: &Value) -> (u16, String) {
    let answer = bench.send(&Call::post("/api/perspectives", body.clone()).token(token));
    match answer.status {
        201 => (201, String::new()),
        status => (status, answer.code().to_owned()),
    }
}

/// Fails with `WB_WITHOUT=own_versions`.
#[test]
fn a_job_stores_one_view_of_its_own_versions() {
    let bench = Bench::new();
    perspective_kind(&bench, LENDS);
    persona(&bench, "other", "", "Be kind.");
    let server = bench.serve();
    let (job, token) = lent(&bench, "guide.md");
    let (_, foreign) = lent(&bench, "notes.md");
    let own = body(&bench, &job);
    let with = |name: &str, value: &str| {
        let mut body = own.clone();
        body[name] = json!(value);
        body
    };
    let wrong = "a".repeat(40);
    for (token, sent, status, code) in [
        (&token, with("source_sha", &wrong), 409, "wrong_version"),
        (&token, with("persona_sha", &wrong), 409, "wrong_version"),
        (&token, with("source_sha", own["persona_sha"].as_str().unwrap()), 409, "wrong_version"),
        (&token, with("source_sha", "HEAD"), 400, "bad_json"),
        (&token, with("source_path", "notes.md"), 403, "not_granted"),
        (&token, with("source_path", "../guide.md"), 400, "bad_json"),
        (&token, with("persona", "other"), 403, "not_granted"),
        (&token, with("persona", "../x"), 403, "not_granted"),
        (&token, with("text", " \n"), 400, "empty_text"),
        (&token, with("text", "a\0b"), 400, "not_text"),
        (&token, with("more", "x"), 400, "unknown_field"),
        (&foreign, own.clone(), 403, "not_granted"),
    ] {
        let (is, said) = put(&bench, token, &sent);
        assert!(is == status && (code == "bad_json" || said == code), "{sent}: {is} {said}");
    }
    // Fifty megabytes: refused before they are read whole.
    let huge = with("text", &"x".repeat(50 * 1024 * 1024));
    assert_eq!(put(&bench, &token, &huge).0, 413);
    let large = with("text", &"x".repeat(8 * 1024 * 1024 + 1));
    assert_eq!(put(&bench, &token, &large).0, 413);
    let operator = bench.operator();
    assert_eq!(put(&bench, &operator, &own).0, 403);
    assert_eq!(stored(&bench), 0);

    assert_eq!(put(&bench, &token, &own).0, 201);
    assert_eq!(put(&bench, &token, &own).0, 201);
    assert_eq!(put(&bench, &token, &with("text", "# Other\n")), (409, "already_stored".into()));
    assert_eq!(stored(&bench), 1);
    // It does not count before its job has succeeded.
    assert_eq!(states(&bench, "guide.md")[0].1, "none");
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    assert_eq!(bench.ended(&job)["status"], "cancelled");
    assert_eq!(put(&bench, &token, &own), (409, "job_ended".into()));
    assert_eq!((states(&bench, "guide.md")[0].1.as_str(), stored(&bench)), ("none", 0));
    server.stop();
}

/// What was read belongs to the version that the view is kept for.
#[test]
fn a_persona_that_changes_while_its_job_runs_is_not_read_any_more() {
    let bench = Bench::new();
    let late = "\"$wb_agent\" get-persona --source-path \"$path\" --name \"$persona\" \
        --json > \"$OUT/late\" 2>&1\necho $? > \"$OUT/code\"\necho '# View' | view";
    perspective_kind(&bench, &format!("{LENDS}{late}"));
    let server = bench.serve();
    let (job, token) = lent(&bench, "guide.md");
    let persona_of = |path: &str, name: &str| {
        let args = ["get-persona", "--source-path", path, "--name", name, "--json"];
        let assert = with_token(&bench, &token, &args).assert();
        let output = assert.get_output().clone();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    assert!(persona_of("guide.md", "critic").1.contains("Be strict."));
    for (path, name) in [("notes.md", "critic"), ("guide.md", "other"), ("guide.md", "../x")] {
        let (code, _, said) = persona_of(path, name);
        assert_eq!((code, &envelope(said.as_bytes())["code"]), (3, &json!("not_granted")));
    }
    let call = Call::get("/api/personas").token(&token);
    assert_eq!(bench.send(&call).refusal(), (400, "missing_parameter"));

    persona(&bench, "critic", "", "Be kind.");
    let (code, _, said) = persona_of("guide.md", "critic");
    assert_eq!((code, &envelope(said.as_bytes())["code"]), (5, &json!("persona_changed")));
    // A request for the new version is not answered by the job of the old one.
    let next = asked(&bench, "guide.md", "critic");
    assert_eq!(next["is_new"], true, "{next:#}");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    let next = bench.ended(next["job_id"].as_str().unwrap());
    assert_eq!(next["status"], "succeeded", "{next:#}");
    let shown = view(&bench, "guide.md", "critic");
    assert_eq!((&shown["state"], &shown["job_id"]), (&json!("fresh"), &next["id"]));
    assert_eq!(stored(&bench), 2);
    server.stop();
}

#[test]
fn a_job_without_its_view_has_failed_and_a_failed_one_leaves_none() {
    let bench = Bench::new();
    perspective_kind(
        &bench,
        "echo '# View' | view; [ \"$(cat \"$BASE/exit\")\" = 0 ] || kill -9 $$",
    );
    bench.engine("idle", &format!("{VIEW}exit 0"));
    let server = bench.serve();
    std::fs::write(bench.base.join("exit"), "3").unwrap();
    let job = bench.ended(asked(&bench, "guide.md", "critic")["job_id"].as_str().unwrap());
    assert_eq!((&job["status"], stored(&bench)), (&json!("failed"), 0));
    std::fs::write(bench.base.join("exit"), "0").unwrap();
    made(&bench, "guide.md", "critic");
    server.stop();
    bench.edit(|it| it.replace("engine = \"views\"", "engine = \"idle\""));
    let server = bench.serve();
    bench.write("guide.md", "# Changed\n");
    let job = bench.ended(asked(&bench, "guide.md", "critic")["job_id"].as_str().unwrap());
    assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("no_result")));
    assert_eq!(job["error_tail"], "agent exited 0 but produced no perspective");
    assert_eq!(job["message"], "Agent finished without producing a perspective — retry.");
    // What there was is still there.
    assert_eq!(view(&bench, "guide.md", "critic")["state"], "stale");
    server.stop();
}

/// A persona's file is read below `agents/`, as a plain file, and is bounded.
#[test]
fn what_is_no_persona_is_refused_by_its_reason() {
    let bench = Bench::new();
    perspective_kind(&bench, "echo '# View' | view");
    let agents = bench.top.join("agents");
    std::fs::write(bench.base.join("secret"), "---\nname: linked\n---\nsecret\n").unwrap();
    std::os::unix::fs::symlink(bench.base.join("secret"), agents.join("linked.md")).unwrap();
    std::os::unix::fs::symlink(bench.base.join("secret"), bench.base.join("x.md")).unwrap();
    std::fs::create_dir(agents.join("folder.md")).unwrap();
    bench.write("agents/huge.md", format!("---\nname: huge\n---\n{}", "x".repeat(300_000)));
    bench.write("agents/binary.md", b"---\nname: binary\n---\n\xff\xfe");
    bench.write("agents/bomb.md", "---\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n---\nx\n");
    bench.write("agents/wide.md", format!("---\nname: wide\nabout: {}\n", "y".repeat(99_000)));
    bench.write("agents/renamed.md", "---\nname: ../../etc/passwd\n---\nx\n");
    bench.write("agents/-\u{1b}[2J.md", "---\nname: x\n---\nx\n");
    let server = bench.serve();
    for (name, status, code) in [
        ("linked", 400, "path_is_link"),
        ("folder", 400, "not_a_file"),
        ("huge", 413, "too_large"),
        ("binary", 400, "not_text"),
        ("bomb", 400, "bad_persona"),
        ("wide", 400, "bad_persona"),
        ("renamed", 400, "bad_persona"),
        ("../x", 400, "bad_input"),
        ("..", 400, "bad_input"),
        ("critic.md", 400, "bad_input"),
        ("agents/critic", 400, "bad_input"),
        ("", 400, "bad_input"),
        ("none", 404, "no_persona"),
    ] {
        let body = json!({"source_path": "guide.md", "persona": name});
        let asked = bench.post("/api/perspectives/request", body);
        assert_eq!(asked.refusal(), (status, code), "{name}");
        let body = json!({"kind": "perspective", "source_path": "guide.md", "persona_name": name});
        assert_eq!(bench.post("/api/agent/jobs", body).refusal(), (status, code), "{name}");
    }
    let listed = bench.get("/api/personas").ok();
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), 9, "{listed:#}");
    let whole: Vec<&Value> = items.iter().filter(|it| it["problem"].is_null()).collect();
    assert!(whole.len() == 1 && whole[0]["name"] == "critic", "{listed:#}");
    let (code, told, _) = bench.cli(&["check"]);
    assert!(code == 1 && !told.contains('\u{1b}'), "{told}");
    assert_eq!(told.matches("error[bad-persona]").count(), 8, "{told}");
    assert!(bench.get("/api/perspectives?source_path=guide.md").status == 200);
    server.stop();
    // A folder that is a link leads nowhere.
    std::fs::rename(&agents, bench.base.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(bench.base.join("elsewhere"), &agents).unwrap();
    let server = bench.serve();
    let body = json!({"source_path": "guide.md", "persona": "critic"});
    let asked = bench.post("/api/perspectives/request", body);
    assert_eq!(asked.refusal(), (400, "path_is_link"));
    assert_eq!(bench.get("/d/guide.md").status, 200);
    server.stop();
}
