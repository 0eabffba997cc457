//! Agents that misbehave: the outcome, and what a person reads (docs/engines.md).

use std::os::unix::net::UnixStream;

use camino::Utf8PathBuf;
use serde_json::{Value, json};

use crate::support::{Bench, Call, Patience, marked, shell, within};

/// An agent, and what its job comes to.
struct Case {
    /// Also the name of its kind.
    name: &'static str,
    /// Fields of the kind besides a timeout of 20 s.
    fields: &'static str,
    /// What it does.
    agent: &'static str,
    status: &'static str,
    reason: &'static str,
    /// The sentence for a person; empty if nothing is wrong.
    message: &'static str,
    /// What the end of its errors holds.
    tail: &'static str,
    /// How many of its proposals are open when it has ended.
    open: usize,
}

const OK: Case = Case {
    name: "",
    fields: "produces = \"proposal\"",
    agent: "",
    status: "succeeded",
    reason: "",
    message: "",
    tail: "",
    open: 1,
};
const FAILED: Case = Case {
    status: "failed",
    reason: "exit_status",
    message: "Agent failed. See log.",
    open: 0,
    ..OK
};
const NOTHING: Case = Case {
    reason: "no_result",
    message: "Agent finished without producing a proposal — retry.",
    tail: "agent exited 0 but produced no proposal",
    ..FAILED
};
const SLOW: Case = Case {
    fields: "produces = \"proposal\", timeout = \"1s\"",
    status: "timed_out",
    reason: "wall_timeout",
    message: "Agent timed out after 1s.",
    ..FAILED
};

/// Long enough to print more than is kept, also on a busy machine.
const LONG: Case = Case {
    fields: "produces = \"proposal\", timeout = \"4s\"",
    message: "Agent timed out after 4s.",
    ..SLOW
};

const CASES: &[Case] = &[
    // Output.
    Case { name: "endless", agent: "yes", ..LONG },
    Case { name: "one_line", agent: "tr '\\0' x < /dev/zero", ..LONG },
    Case {
        name: "not_text",
        agent: "printf 'a\\377\\376b\\000c\\033[2J' >&2; exit 3",
        tail: "a\u{fffd}\u{fffd}b\0c",
        ..FAILED
    },
    Case { name: "closes_pipes", agent: "exec >&- 2>&-; printf 'new\\n' | propose; exit 0", ..OK },
    Case { name: "holds_pipes", agent: "setsid sleep 30 & printf 'new\\n' | propose", ..OK },
    // Ends.
    Case { name: "exits_at_once", agent: "exit 0", ..NOTHING },
    Case { name: "fails_at_once", agent: "echo why >&2; exit 7", tail: "why\n", ..FAILED },
    Case {
        name: "dies",
        agent: "kill -KILL $$",
        reason: "signal",
        message: "Agent was killed (signal 9), possibly because memory ran out. See log.",
        ..FAILED
    },
    Case {
        name: "ignores_signals",
        agent: "trap '' INT TERM HUP; while :; do sleep 0.1; done",
        ..SLOW
    },
    Case {
        name: "kills_its_guard",
        agent: "printf 'new\\n' | propose; kill -KILL $PPID; sleep 30",
        reason: "guard_lost",
        message: "Agent failed: its guard process was killed, perhaps by the agent.",
        tail: "the guard ended without a record: was it killed?",
        ..FAILED
    },
    Case {
        name: "forks_while_killed",
        agent: "spawn() { trap '' INT TERM HUP; n=0; while [ $((n+=1)) -lt 200 ]; do \
                setsid sleep 30 & sleep 0.02; done; }; spawn & spawn & wait",
        ..SLOW
    },
    Case {
        name: "proposes_too_late",
        agent: "late() { trap '' INT TERM; printf 'late\\n' | propose; exit 0; }; \
                trap late INT TERM; \
                while :; do sleep 0.02; done",
        // Time to set its trap.
        fields: "produces = \"proposal\", timeout = \"5s\"",
        message: "Agent timed out after 5s.",
        tail: "has ended",
        ..SLOW
    },
    // Proposals.
    Case {
        name: "two_proposals",
        agent: "printf 'first\\n' | propose; printf 'second\\n' | propose",
        ..OK
    },
    Case {
        name: "many_proposals",
        agent: "n=0; while [ $((n+=1)) -le 11 ]; do printf \"$n\\n\" | propose || exit 4; done",
        ..OK
    },
    Case { name: "fails_at_last", agent: "printf 'new\n' | propose; echo why >&2; exit 5", ..OK },
    Case {
        name: "other_topic",
        agent: "topic=$(cat \"$BASE/other\"); printf 'new\\n' | propose",
        tail: "may not propose for topic ",
        ..FAILED
    },
    Case {
        name: "empty",
        agent: "printf '' | propose",
        tail: "error: the text of the proposal is empty\nhint: ",
        ..FAILED
    },
    Case { name: "blank", agent: "printf ' \\n\\n' | propose", tail: "is empty", ..FAILED },
    Case {
        name: "fifty_megabytes",
        agent: "head -c 52428800 /dev/zero | tr '\\0' x | propose",
        tail: "is longer than 8388608 bytes\nhint: ",
        ..FAILED
    },
    Case {
        name: "identical",
        agent: "propose < \"$root/$path\"",
        tail: "the proposed text is the same as the current text",
        ..FAILED
    },
    Case {
        name: "zero_byte",
        agent: "printf 'a\\000b\\n' | propose",
        tail: "has a NUL byte\nhint: ",
        ..FAILED
    },
    Case {
        name: "not_utf8",
        agent: "printf 'a\\377b\\n' | propose",
        tail: "is not UTF-8 at byte 1\nhint: ",
        ..FAILED
    },
    Case {
        name: "other_base",
        agent: "base=$(printf '%040d' 7); printf 'new\\n' | propose",
        tail: "is not the base of job",
        ..FAILED
    },
    // Results and messages.
    Case {
        name: "finishes_twice",
        fields: "produces = \"result\"",
        agent: "for n in 1 2; do echo $n | \"$wb_agent\" finish --result -; done; \
                echo more | \"$wb_agent\" post-message --topic-id \"$topic\"",
        open: 0,
        ..OK
    },
    Case {
        name: "result_is_not_json",
        fields: "produces = \"result\"",
        agent: "echo '{' | \"$wb_agent\" finish --result -",
        tail: "is not JSON",
        ..FAILED
    },
    Case {
        name: "only_talks",
        agent: "echo 'I did it.' | \"$wb_agent\" post-message --topic-id \"$topic\"",
        ..NOTHING
    },
];

/// Asserts what a job came to, in the row and in all places where a person looks.
fn assert_case(bench: &Bench, case: &Case, id: &str) {
    let (name, job) = (case.name, bench.ended(id));
    let word = |field: &str| job[field].as_str().unwrap_or_default();
    let got = (word("status"), word("reason"), word("message"));
    assert_eq!(got, (case.status, case.reason, case.message), "{name}: {job:#}");
    assert!(word("error_tail").contains(case.tail), "{name}: {job:#}");
    if case.status == "succeeded" {
        assert!(job["error_tail"].is_null(), "{name}: {job:#}");
    }
    let open = bench.get(&format!("/api/proposals?status=open&topic_id={}", word("topic_id"))).ok();
    assert_eq!(open["items"].as_array().unwrap().len(), case.open, "{name}: {open:#}");
    let (code, shown, _) = bench.cli(&["job", "show", id]);
    assert!(code == 0 && shown.contains(case.message), "{name}: {shown}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\0'), "{name}: {shown}");
    let page = bench.get(&format!("/jobs/{id}"));
    assert!(page.status == 200 && page.body.to_string().contains(case.message), "{name}: {page:?}");
    assert!(within(Patience::MAX, || marked(id).is_empty()), "{name}: something is left");
    let changed = &job["changes"];
    assert!(changed.is_null(), "{name}: {changed:#}");
}

#[test]
fn what_each_misbehavior_comes_to() {
    let bench = Bench::new();
    bench.limits("jobs = 8, grace = \"10s\"");
    for case in CASES {
        let fields = match case.fields.contains("timeout") {
            true => case.fields.to_owned(),
            false => format!("timeout = \"20s\", {}", case.fields),
        };
        bench.topic_kind(case.name, &fields, case.agent);
    }
    let server = bench.serve();
    let other = bench.topic("notes.md", "Keep this.", "Another topic.");
    std::fs::write(bench.base.join("other"), &other.id).unwrap();
    // Each has a Topic of its own, and all of them run at once, as many as may.
    let jobs: Vec<String> = CASES
        .iter()
        .map(|case| {
            let topic = bench.topic("guide.md", "The first line.", case.name);
            bench.job_on(case.name, &topic)
        })
        .collect();
    for (case, id) in CASES.iter().zip(&jobs) {
        assert_case(&bench, case, id);
    }
    let of = |name: &str| {
        let place = CASES.iter().position(|it| it.name == name).unwrap();
        bench.show(&jobs[place])
    };
    for name in ["endless", "one_line"] {
        assert!(of(name)["warnings"].to_string().contains("output_cut"), "{name}");
    }
    // What was handed in before counts; what the agent met is said.
    for (name, parts) in [
        ("fails_at_last", ["exit_status: ", "exited with status 5: why"]),
        ("many_proposals", ["exited with status 4: ", "has submitted 10 proposals"]),
    ] {
        let warnings = of(name)["warnings"].to_string();
        assert!(parts.iter().all(|it| warnings.contains(it)), "{name}: {warnings}");
    }
    assert_eq!(of("finishes_twice")["result"], 2);
    let last = of("two_proposals")["proposal_id"].as_str().unwrap().to_owned();
    let last = bench.get(&format!("/api/proposals/{last}")).ok();
    assert_eq!(
        (&last["text"], &last["proposal"]["revision_number"]),
        (&json!("second\n"), &json!(2))
    );
    let of_other = bench.get(&format!("/api/topics/{}", other.id)).ok();
    assert_eq!(of_other["proposals"], json!([]), "{of_other:#}");
    bench.get("/readyz").ok();
    server.stop();
}

/// Secrets that are not there: where they would be (and the engine's name), their name, why.
const LACKING: [(&str, &str, &str); 2] =
    [("env", "NOT_SET_ANYWHERE", "the server has no such variable"), ("file", "not/there", "")];

/// Programs that were there when the server started, and cannot be started now.
#[test]
fn what_cannot_be_started_says_why() {
    let bench = Bench::new();
    let program = |name: &str| bench.base.join("agents").join(name);
    let cases = [
        ("missing", "rm \"$p\"", "Check that PROGRAM is installed."),
        ("not_executable", "chmod -x \"$p\"", "PROGRAM is not executable: check its permissions."),
        (
            "a_folder",
            "rm \"$p\"; mkdir \"$p\"",
            "PROGRAM is not executable: check its permissions.",
        ),
        (
            "bad_interpreter",
            "printf '#!/nowhere/sh\\n' > \"$p\"",
            "PROGRAM exists, but this machine cannot run it.",
        ),
    ];
    for (name, _, _) in &cases {
        let file = program(name);
        std::fs::write(&file, "#!/bin/sh\nexit 0\n").unwrap();
        shell(&format!("chmod +x {file}"));
        bench.lua(&format!(
            "wb.engine \"{name}\" {{ type = \"process\", command = {{ \"{file}\" }},\n\
             prompt = \"stdin\" }}\n\
             wb.kind \"{name}\" {{ about = \"A test\", engine = \"{name}\", timeout = \"5s\",\n\
             prompt = \"x\", inputs = {{}} }}\n"
        ));
    }
    bench.lua(
        "wb.engine \"argument\" { type = \"process\", command = { \"/bin/true\" },\n\
         prompt = \"argument\" }\n\
         wb.kind \"argument\" { about = \"A test\", engine = \"argument\", timeout = \"5s\",\n\
         prompt = \"{{text}}\", inputs = { text = wb.input.text() } }\n\
         wb.kind \"zero\" { about = \"A test\", engine = \"argument\", timeout = \"5s\",\n\
         prompt = function() return \"a\\0b\" end, inputs = {} }\n",
    );
    let server = bench.serve();
    for (name, change, why) in &cases {
        let file = program(name);
        shell(&format!("p='{file}'; {change}"));
        let job = bench.ended(&bench.job(name, json!({})));
        assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("spawn_failed")));
        let why = format!("Agent is unreachable. {}", why.replace("PROGRAM", file.as_str()));
        assert_eq!(job["message"], why, "{name}: {job:#}");
        let tail = job["error_tail"].as_str().unwrap();
        assert!(tail.starts_with("agent unreachable: "), "{name}: {tail}");
    }
    // One argument takes 131,071 bytes: that is said before anything is started.
    let job = bench.ended(&bench.job("argument", json!({"text": "x".repeat(131_072)})));
    assert_eq!(job["reason"], "prompt_failed");
    assert_eq!(job["message"], "The prompt could not be rendered. See log.");
    assert!(job["error_tail"].as_str().unwrap().contains("an argument takes 131071"), "{job:#}");
    let job = bench.ended(&bench.job("zero", json!({})));
    assert!(job["error_tail"].as_str().unwrap().contains("has a zero byte"), "{job:#}");
    server.stop();
}

/// An engine's secret that is not there is named, and nothing is started without it.
#[test]
fn what_lacks_a_secret_says_which() {
    let bench = Bench::new();
    for (name, secret, _) in &LACKING {
        bench.lua(&format!(
            "wb.engine \"{name}\" {{ type = \"process\", command = {{ \"/bin/true\" }},\n\
             prompt = \"stdin\", env = {{ TOKEN = wb.secret.{name} \"{secret}\" }} }}\n\
             wb.kind \"{name}\" {{ about = \"A test\", engine = \"{name}\", timeout = \"5s\",\n\
             prompt = \"x\", inputs = {{}} }}\n"
        ));
    }
    let server = bench.serve();
    for (name, secret, why) in &LACKING {
        let job = bench.ended(&bench.job(name, json!({})));
        assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("spawn_failed")));
        let message = job["message"].as_str().unwrap();
        let begin = format!("Agent was not started: secret {name}:{secret}: {why}");
        assert!(message.starts_with(&begin), "{message}");
        assert!(message.ends_with(". See `wiki-browser check`."), "{message}");
        let (_, shown, _) = bench.cli(&["job", "show", job["id"].as_str().unwrap()]);
        assert!(shown.contains("\nnext        find out what is missing: wiki-browser doctor\n"));
    }
    server.stop();
}

/// The result was said, then nothing: what was promised decides.
#[test]
fn an_agent_that_hangs_after_its_result_is_ended() {
    let bench = Bench::new();
    let says = "echo '{\"type\":\"result\",\"is_error\":false}'; while :; do sleep 0.02; done";
    let fields = "timeout = \"20s\", linger = \"300ms\", produces = \"proposal\"";
    bench.topic_kind("well", fields, &format!("printf 'new\\n' | propose; {says}"));
    bench.topic_kind("badly", fields, says);
    bench.edit(|it| {
        it.replace("prompt = \"stdin\",", "prompt = \"stdin\", reads = \"claude-stream-json\",")
    });
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let well = bench.ended(&bench.job_on("well", &topic));
    assert_eq!(well["status"], "succeeded", "{well:#}");
    assert_eq!(well["warnings"], json!(["lingered"]));
    let badly = bench.ended(&bench.job_on("badly", &topic));
    assert_eq!(badly["reason"], "no_result");
    assert_eq!(badly["error_tail"], "agent hung after its final result but produced no proposal");
    assert_eq!(badly["message"], "Agent finished without producing a proposal — retry.");
    server.stop();
}

/// What Claude Code does that waits for a command in the background.
#[test]
fn a_turn_after_a_result_is_not_ended() {
    let bench = Bench::new();
    let works = "echo '{\"type\":\"result\",\"is_error\":false}'; sleep 0.5\n\
        echo '{\"type\":\"system\",\"subtype\":\"init\"}'\n\
        n=0; while [ $n -lt 60 ]; do n=$((n + 1)); sleep 0.1\n\
        echo '{\"type\":\"assistant\",\"message\":{\"content\":[]}}'; done\n\
        printf 'new\\n' | propose; echo '{\"type\":\"result\",\"is_error\":false}'";
    let fields = "timeout = \"60s\", linger = \"5s\", produces = \"proposal\"";
    bench.topic_kind("works", fields, works);
    bench.edit(|it| {
        it.replace("prompt = \"stdin\",", "prompt = \"stdin\", reads = \"claude-stream-json\",")
    });
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.ended(&bench.job_on("works", &topic));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    server.stop();
}

/// Runs inside of an agent, started by its script; does nothing otherwise. Fills the socket with
/// nonsense, with connections that say nothing, and with requests.
#[test]
fn the_one_that_floods() {
    let Ok(base) = std::env::var("TEST_FLOOD_BASE") else { return };
    let base = Utf8PathBuf::from(base);
    let (socket, token) = (base.join("wiki/data/wb.sock"), std::env::var("WB_TOKEN").unwrap());
    let mut silent = Vec::new();
    for _ in 0..300 {
        let Ok(mut stream) = UnixStream::connect(&socket) else { break };
        // A server that has seen enough may have closed it.
        let _ = std::io::Write::write_all(&mut stream, b"\x16\x03\x01\xff\0GET\r\n: / HTTP/9\r\n");
        silent.push(stream);
    }
    std::fs::write(base.join("out/flooding"), "x\n").unwrap();
    for _ in 0..300 {
        let _ = Call::get("/api/me").token(&token).try_socket(&socket);
    }
    drop(silent);
}

/// Fails with `WB_WITHOUT=job_messages`.
#[test]
fn a_job_that_floods_takes_nothing_from_people() {
    let bench = Bench::new();
    let exe = std::env::current_exe().unwrap();
    let flood = format!(
        "TEST_FLOOD_BASE=\"$BASE\" '{}' --exact failures::misbehavior::the_one_that_floods \
         > /dev/null",
        exe.display()
    );
    bench.topic_kind("requests", "timeout = \"25s\"", &flood);
    let talk = "n=0; while [ $((n+=1)) -le 30 ]; do \
        echo $n | \"$wb_agent\" post-message --topic-id \"$topic\" || exit 4; done";
    bench.topic_kind("messages", "timeout = \"25s\"", talk);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let flooding = bench.job_on("requests", &topic);
    bench.wait_left("flooding");
    // The operator is served meanwhile, and the pages too.
    for _ in 0..20 {
        bench.get("/api/me").ok();
    }
    assert_eq!(bench.ended(&flooding)["status"], "succeeded");
    let job = bench.ended(&bench.job_on("messages", &topic));
    assert_eq!((&job["reason"], &job["exit_code"]), (&json!("exit_status"), &json!(4)));
    let tail = job["error_tail"].as_str().unwrap();
    assert!(tail.contains("has written 20 messages in this topic"), "{tail}");
    let route = format!("/api/topics/{}/messages", topic.id);
    bench.post(&route, json!({"body": "There is room for me."})).ok();
    let thread = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    assert_eq!(thread["messages"].as_array().map(Vec::len), Some(22));
    assert_ne!(thread["messages"][21]["author"], Value::Null);
    server.stop();
}
