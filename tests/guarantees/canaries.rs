//! G28: no secret is written anywhere.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use crate::support::{Bench, Call};

const KEY: &str = "canary-key-5f1d0c77aa";
const PASSWORD: &str = "canary-password-90b1e2";

/// Prints what it must not print, in one piece and in many, on both outputs, and fails with it.
const AGENT: &str = "echo \"$WB_TOKEN\" > \"$OUT/token.$job\"
echo \"the key is $MY_API_KEY.\"; echo \"$WB_TOKEN\" >&2
printf '%s' canary-ke; sleep 0.3; printf '%s\\n' y-5f1d0c77aa
i=1; while [ $i -le 70 ]; do printf '%s' \"$WB_TOKEN\" | cut -c$i | tr -d '\\n'; i=$((i+1)); done
echo; echo \"$DATABASE_PASSWORD\" >&2; [ $word = fail ] && exit 3; exit 0";

/// Says it as Claude Code does, so that it would become the summary of the job.
const CLAUDE: &str = r#"printf '%s\n' "{\"type\":\"result\",\"subtype\":\"success\",\
\"is_error\":false,\"result\":\"key $MY_API_KEY\",\"session_id\":\"s\"}""#;

/// Returns all files below a folder that hold some text.
fn files_with(folder: &Utf8Path, text: &str) -> Vec<Utf8PathBuf> {
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8().unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files_with(entry.path(), text));
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap();
            if bytes.windows(text.len()).any(|it| it == text.as_bytes()) {
                found.push(entry.into_path());
            }
        }
    }
    found
}

/// What the script names as a secret is one to every agent and hook, whatever its variable is
/// called and whoever it was named for. Fails with `WB_WITHOUT=named_masked`.
#[test]
fn g28_a_secret_that_the_script_names_is_one_to_all() {
    let bench = Bench::new();
    let (db, url, pass) = ("canary-db-77ab02c1", "canary-url-1d5f90", "canary-file-31f0ac");
    bench.word_kind(
        "prints",
        "timeout = \"20s\", prepare = [[echo \"hook $DB $KEYX\" >&2]],
         cleanup = [[echo \"last $DB\"; echo \"$KEYX\" >&2; exit 3]]",
        "echo \"db $DB, key $KEYX, url $URL\"; cat \"$PASSES\"
         echo \"why $DB $URL\" >&2; env > \"$OUT/env\"; exit 3",
    );
    let file = bench.base.join("pass");
    fs::write(&file, pass).unwrap();
    bench.lua(&format!(
        "wb.engine \"sonnet\" {{ type = \"anthropic\", model = \"m-1\",
           key = wb.secret.env \"KEYX\" }}
         wb.engine \"other\" {{ type = \"process\", command = {{ \"true\" }}, prompt = \"stdin\",
           env = {{ X = wb.secret.env \"DB\", Y = wb.secret.env \"URL\",
           Z = wb.secret.file \"{file}\" }} }}\n"
    ));
    let told = [("KEYX", KEY), ("DB", db), ("URL", url), ("PASSES", file.as_str())];
    let server = bench.serve_with(&told);
    let id = bench.job("prints", json!({"word": "a"}));
    let row = bench.ended(&id);
    let log = bench.get(&format!("/api/agent/jobs/{id}/log?stream=stdout")).ok();
    let stars = |it: &str| "*".repeat(it.len());
    let said = format!("db {}, key {}, url {}\n{}", stars(db), stars(KEY), stars(url), stars(pass));
    assert_eq!(log["text"], said, "{row:#}");
    let tail = row["error_tail"].as_str().unwrap();
    assert!(tail.contains(&format!("why {} {}", stars(db), stars(url))), "{tail}");
    // It is told no value that it would not have otherwise.
    assert!(!bench.left("env").contains(pass));
    let folder = bench.data.join("jobs").join(&id);
    assert_eq!(files_with(&folder, "hook ****"), [folder.join("prepare/stderr.log")]);
    assert_eq!(files_with(&folder, "last ****"), [folder.join("cleanup-1/stdout.log")]);
    let shown = bench.get(&format!("/api/agent/jobs/{id}")).ok().to_string();
    let printed = server.log();
    server.stop();
    for canary in [KEY, db, url, pass] {
        assert_eq!(files_with(&bench.data, canary), [""; 0], "{canary}");
        assert!(!shown.contains(canary) && !printed.contains(canary), "{shown}");
    }
}

/// Fails with `WB_WITHOUT=masking`.
#[test]
fn g28_secrets_are_written_nowhere() {
    let bench = Bench::new();
    bench.word_kind("prints", "timeout = \"20s\"", AGENT);
    let file = bench.base.join("agents/claude.sh");
    fs::write(&file, CLAUDE).unwrap();
    bench.lua(&format!(
        "wb.engine \"claude\" {{ type = \"process\", command = {{ \"/bin/sh\", \"{file}\" }},\n\
         prompt = \"stdin\", reads = \"claude-stream-json\" }}\n\
         wb.kind \"claude\" {{ about = \"A test\", engine = \"claude\", timeout = \"20s\",\n\
         prompt = \"x\", inputs = {{}} }}\n"
    ));
    let server = bench.serve_with(&[("MY_API_KEY", KEY), ("DATABASE_PASSWORD", PASSWORD)]);
    let mut canaries = vec![KEY.to_owned(), PASSWORD.to_owned()];
    let mut answers = String::new();
    for word in ["well", "fail"] {
        let job = bench.job("prints", json!({"word": word}));
        bench.ended(&job);
        canaries.push(bench.left(&format!("token.{job}")));
        for part in ["", "/log?stream=stdout", "/log?stream=stderr", "/prompt", "/stream"] {
            answers += &bench.get(&format!("/api/agent/jobs/{job}{part}")).body.to_string();
        }
        let out = bench.get(&format!("/api/agent/jobs/{job}/log?stream=stdout")).ok();
        let text = out["text"].as_str().unwrap();
        assert!(text.starts_with("the key is *********************.\n***"), "{text}");
    }
    let claude = bench.ended(&bench.job("claude", json!({})));
    assert_eq!(claude["summary"], "key *********************", "{claude:#}");

    // A login: its code, and the session that it led to.
    let operator = bench.operator();
    let link = Call::post("/api/login-links", json!({})).token(&operator);
    let link = bench.send(&link.header("Idempotency-Key", "link")).ok();
    let code = link["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let host = format!("127.0.0.1:{}", server.address().port());
    let login = Call::post("/api/login", json!({"code": code}));
    let answer = login.header("Origin", &format!("http://{host}")).tcp(server.address());
    let cookie = answer.head.lines().find(|it| it.to_lowercase().starts_with("set-cookie"));
    let cookie = cookie.unwrap().split('=').nth(1).unwrap().split(';').next().unwrap().to_owned();
    assert!(cookie.len() > 30, "{cookie}");
    canaries.extend([code, cookie]);
    // Requests that are refused say why, and not with which secret they came.
    for canary in &canaries {
        let call = Call::get("/api/me").token(canary);
        answers += &bench.send(&call).body.to_string();
        let body = json!({"code": canary});
        answers += &bench.send(&Call::post("/api/login", body)).body.to_string();
    }
    let all: Value = bench.get("/api/agent/jobs?limit=200").ok();
    answers += &all.to_string();
    for canary in &canaries {
        assert_eq!(files_with(&bench.data, canary), [""; 0], "{canary}");
        assert!(!server.log().contains(canary.as_str()), "{canary}: {}", server.log());
        assert!(!answers.contains(canary.as_str()), "{canary}: {answers}");
    }
    // The one exception.
    assert_eq!(files_with(&bench.data, &operator), [bench.data.join("operator.token")]);
    assert!(!server.log().contains(&operator));
    server.stop();
    for canary in canaries.iter().chain([&operator]) {
        let left = files_with(&bench.data, canary);
        assert!(left.iter().all(|it| it.file_name() == Some("operator.token")), "{left:?}");
    }
}
