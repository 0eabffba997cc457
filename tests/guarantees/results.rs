//! An agent's input and its required result: G7, G11, G13.

use std::time::{Duration, Instant};

use serde_json::json;
use wiki_browser::base::digest_hex;

use crate::support::{Bench, Patience, arguments_with, shell, until, within};

/// Fails with `WB_WITHOUT=postcondition`.
#[test]
fn g07_exit_0_without_the_promised_result_is_a_failure() {
    let bench = Bench::new();
    let fields = "timeout = \"20s\", lane = \"source_path\", produces = ";
    bench.topic_kind("idle", &format!("{fields}\"proposal\""), "exit 0");
    bench.topic_kind("mute", &format!("{fields}\"message\""), "exit 0");
    bench.topic_kind("empty", &format!("{fields}\"result\""), "exit 0");
    bench.topic_kind("works", &format!("{fields}\"proposal\""), "printf 'new\\n' | propose");
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    // The proposal of another job, at the same time and on the same Topic, does not count.
    bench.proposal("works", &topic);
    for (kind, promised, sentence) in [
        ("idle", "proposal", "Agent finished without producing a proposal — retry."),
        ("mute", "message", "Agent finished without writing a message — retry."),
        ("empty", "result", "Agent finished without submitting a result — retry."),
    ] {
        let job = bench.ended(&bench.job_on(kind, &topic));
        assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("no_result")));
        assert_eq!(job["error_tail"], format!("agent exited 0 but produced no {promised}"));
        assert_eq!((&job["message"], &job["exit_code"]), (&json!(sentence), &json!(0)));
    }
    server.stop();
}

/// Fails with `WB_WITHOUT=drain` (the last words) and without the wait on the process (the minute).
#[test]
fn g11_a_job_ends_with_its_agent_and_keeps_its_last_words() {
    let bench = Bench::new();
    // One holds the output open for a minute; one speaks 20 to 30 ms after the agent has gone. It
    // starts no process of its own for that, which would take its time on a busy machine.
    let agent = "setsid sleep 60 &\npid=$$\n\
        (while read -r id name state rest < /proc/$pid/stat && [ \"$state\" != Z ]\n\
        do :; done 2> /dev/null\n\
        for tick in 1 2 3; do read -r was idle < /proc/uptime; now=$was\n\
        while [ $now = $was ]; do read -r now idle < /proc/uptime; done; done\n\
        echo last words >&2) &\nexit 3";
    bench.word_kind("parent", "timeout = \"50s\"", agent);
    let server = bench.serve();
    // Whoever does not get the processor for a tenth of a second speaks too late.
    until("its last words are kept", || {
        let asked = Instant::now();
        let job = bench.ended(&bench.job("parent", json!({})));
        assert!(asked.elapsed() < Duration::from_secs(40), "{:?}", asked.elapsed());
        assert_eq!((&job["status"], &job["exit_code"]), (&json!("failed"), &json!(3)));
        job["error_tail"].as_str().is_some_and(|it| it.contains("last words"))
    });
    server.stop();
}

/// A prompt of 16 MiB is standard input of mode 0600; there is no switch that makes it an argument,
/// which would be refused by its length.
#[test]
fn g13_a_prompt_of_16_mib_arrives_unchanged_and_is_in_no_ps() {
    const SIZE: usize = 16 * 1024 * 1024;
    let bench = Bench::new();
    let agent = "sha256sum | cut -d' ' -f1 > \"$OUT/sum.part\"\n\
        mv \"$OUT/sum.part\" \"$OUT/sum\"\n\
        until [ -e \"$OUT/seen\" ]; do sleep 0.02; done";
    bench.raw_engine("echo", agent);
    bench.lua(
        "wb.kind \"echo\" { about = \"Takes a text\", engine = \"echo\", timeout = \"60s\",\n\
         inputs = { text = wb.input.text() }, prompt = \"{{text}}\" }\n",
    );
    let server = bench.serve();
    for (place, size) in [131_071, 131_072, SIZE].into_iter().enumerate() {
        // Something of every sort: quotes, templates, shell, line breaks, long characters.
        let unit = "canary-5b1d '\"$(x) {{text}} `y` \\ ü\n";
        let mut text = unit.repeat(size / unit.len());
        text.push_str(&"x".repeat(size - text.len()));
        assert_eq!(text.len(), size);
        let file = bench.base.join("text");
        std::fs::write(&file, &text).unwrap();
        for left in ["sum", "seen"] {
            // Of the size before.
            let _ = std::fs::remove_file(bench.out.join(left));
        }
        let made = bench.json(&["job", "create", "echo", &format!("text=@{file}")]);
        let job = made["job_id"].as_str().unwrap();
        let sum = bench.wait_left("sum");
        assert_eq!(sum, digest_hex(&text), "{size}");
        let seen = arguments_with("canary-5b1d");
        assert_eq!(seen, Vec::<i32>::new(), "the prompt is in the arguments of a process");
        let prompts =
            shell(&format!("find {}/jobs/{job} -type f -size +100k -printf '%m\\n'", bench.data));
        assert!(prompts.lines().all(|it| it == "600"), "{prompts}");
        std::fs::write(bench.out.join("seen"), "x").unwrap();
        assert_eq!(bench.ended(job)["status"], "succeeded", "{place}");
    }
    let over = "x".repeat(SIZE + 1);
    let refused = bench.post("/api/agent/jobs", json!({"kind": "echo", "text": over}));
    assert!([400, 413].contains(&refused.status), "{}", refused.status);
    assert!(within(Patience::MAX, || bench.get("/api/me").status == 200));
    server.stop();
}
