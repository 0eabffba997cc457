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
