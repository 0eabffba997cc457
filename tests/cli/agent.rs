//! `wb-agent` on a server: as an agent calls it inside a job, and as anybody else does.

use serde_json::{Value, json};

use super::desk::{PROPOSES, text, with_token};
use super::{envelope, wb_agent};
use crate::support::{Bench, Topic, until};

/// An agent that calls each verb as its skill tells it, and keeps what it got.
const CALLS_ALL: &str = r#"
set -e
cd "$OUT"
w="$wb_agent"
"$w" get-topic --id="$topic" > topic.json
"$w" list-open-topics --source-path="$path" > open.json
"$w" help --json > help.json
printf 'Working on it.' | "$w" post-message --topic-id="$topic" > message
printf '{"changed":1}' > result.json
"$w" finish --result result.json --summary 'All done'
"$w" finish --result '"twice"' 2> finish.err
sed 's/first/1st/' "$root/$path" | propose --summary 'Shorter' > proposal 2> fates
tail -c 1 proposal | od -An -c | tr -d ' ' > end
"#;

/// An agent that leaves its token to the test and waits for it.
const LENDS_ITS_TOKEN: &str = r#"
printf '%s\n' "$WB_TOKEN" > "$OUT/token.$job"
while [ ! -e "$OUT/go" ]; do sleep 0.02; done
"#;

/// Fields of a kind that proposes and shares its Source.
const FREE: &str = "timeout = \"10m\"";

/// Returns the token of a new job that waits until `$OUT/go` is there.
fn lent(bench: &Bench, topic: &Topic) -> String {
    bench.wait_left(&format!("token.{}", bench.job_on("lends", topic)))
}

fn base_of(bench: &Bench, path: &str) -> String {
    bench.git(&["rev-parse", &format!("HEAD:{path}")])
}

/// Runs a verb to a refusal, for an agent and for a program.
#[track_caller]
fn refuses(
    bench: &Bench,
    token: &str,
    args: &[&str],
    stdin: &[u8],
    exit: i32,
    code: &str,
) -> Value {
    let run = |args: &[&str]| {
        let assert = with_token(bench, token, args).write_stdin(stdin).assert();
        let output = assert.get_output();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
        said
    };
    let said = run(args);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("error: ") && lines.len() <= 2, "{args:?}: {said}");
    let error = envelope(run(&[args, &["--json"]].concat()).as_bytes());
    assert_eq!(error["code"], code, "{args:?}: {error}");
    error
}

#[test]
fn an_agent_does_its_work_with_nothing_but_its_environment() {
    let bench = Bench::new();
    bench.topic_kind("works", PROPOSES, CALLS_ALL);
    let server = bench.serve();
    let other = bench.topic("guide.md", "The second line.", "Why?");
    let topic = bench.topic("guide.md", "The first line.", "Shorter.");
    let job = bench.ended(&bench.job_on("works", &topic));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!((&job["result"], &job["summary"]), (&json!("twice"), &json!("All done")));
    let left = |name: &str| -> Value { serde_json::from_str(&bench.left(name)).unwrap() };
    let shown = left("topic.json");
    assert_eq!(shown["topic"]["id"], json!(topic.id));
    assert_eq!(shown["anchor"]["quote"], "The first line.");
    assert_eq!(shown["messages"][0]["body"], "Shorter.");
    let keys: Vec<&String> = shown.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["topic", "anchor", "messages", "proposals", "rework"]);
    let open = left("open.json");
    let ids: Vec<&Value> = open.as_array().unwrap().iter().map(|it| &it["topic"]["id"]).collect();
    assert!(ids.len() == 2 && ids.contains(&&json!(other.id)), "{open:#}");
    assert_eq!(open[0]["placement"]["state"], "exact");
    assert_eq!(left("help.json")["name"], "wb-agent");
    // On standard output stand the id and a newline; the fates stand on standard error.
    assert_eq!(bench.left("proposal"), job["proposal_id"].as_str().unwrap());
    assert_eq!(bench.left("end"), "\\n");
    let fate = format!("topic {}: exact -> shifted: The second line.", other.id);
    assert_eq!(bench.left("fates"), fate);
    let thread = bench.json(&["topic", "show", &topic.id]);
    let message = &thread["messages"][1];
    assert_eq!(
        (&message["id"], &message["body"]),
        (&json!(bench.left("message")), &json!("Working on it."))
    );
    assert_eq!(message["author"], format!("job:{}", job["id"].as_str().unwrap()));
    server.stop();
}

#[test]
fn a_proposal_that_cannot_be_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    bench.topic_kind("lends", &format!("{FREE}, produces = \"proposal\""), LENDS_ITS_TOKEN);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Shorter.");
    let other = bench.topic("guide.md", "The second line.", "Why?");
    let foreign = bench.topic("notes.md", "Keep this.", "Why?");
    let token = lent(&bench, &topic);
    let base = base_of(&bench, "guide.md");
    let insert = |topic: &str, base: &str| -> Vec<String> {
        let args = ["insert-proposal", "--topic-id", topic, "--base-sha", base];
        args.map(str::to_owned).to_vec()
    };
    let refuse = |args: &[String], stdin: &[u8], exit: i32, code: &str| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        refuses(&bench, &token, &args, stdin, exit, code)
    };
    let own = insert(&topic.id, &base);
    let notes = base_of(&bench, "notes.md");
    let nobody = "018bcfe5-6800-7000-8000-000000000000";
    let huge = vec![b'x'; 9 << 20];
    refuse(&insert(&topic.id, &notes), b"new", 5, "wrong_base");
    refuse(&insert(&topic.id, &"a".repeat(40)), b"new", 5, "wrong_base");
    refuse(&insert(&topic.id, "zz"), b"new", 2, "invalid");
    refuse(&insert(&foreign.id, &base), b"new", 3, "not_granted");
    refuse(&insert(&other.id, &base), b"new", 3, "not_granted");
    refuse(&insert(nobody, &base), b"new", 4, "not_found");
    refuse(&insert("7f3a", &base), b"new", 2, "invalid");
    refuse(&own, bench.read("guide.md").as_bytes(), 2, "nothing_changed");
    refuse(&own, b"", 2, "invalid");
    refuse(&own, b" \n", 2, "empty_text");
    refuse(&own, b"a\xff", 2, "not_utf8");
    refuse(&own, b"a\0b", 2, "not_text");
    refuse(&own, &huge, 2, "too_large");
    let anchors = |text: &str| {
        bench.write("anchors.json", text);
        [&own[..], &["--anchors".to_owned(), "anchors.json".to_owned()]].concat()
    };
    let moved = |quote: &str, start: usize, end: usize| {
        let topic_id = &other.id;
        json!([{"topic_id": topic_id, "start": start, "end": end, "quote": quote}]).to_string()
    };
    refuse(&anchors("no"), b"new text", 2, "invalid");
    refuse(&anchors("{}"), b"new text", 2, "invalid");
    refuse(&anchors("[{\"topic\":1}]"), b"new text", 2, "unknown_field");
    refuse(&anchors(&moved("text", 0, 4)), b"new text", 2, "bad_anchor");
    refuse(&anchors(&moved("text", 4, 99)), b"new text", 2, "bad_anchor");
    refuse(&anchors(&moved("", 4, 4)), b"new text", 2, "bad_anchor");
    let gone = [&own[..], &["--anchors".to_owned(), "none.json".to_owned()]].concat();
    refuse(&gone, b"new text", 2, "invalid");
    assert_eq!(bench.json(&["proposal", "list"])["items"], json!([]));
    // What is right is taken: the whole of it with --json.
    let right = [anchors(&moved("text", 4, 8)), vec!["--json".to_owned()]].concat();
    let args: Vec<&str> = right.iter().map(String::as_str).collect();
    let assert = with_token(&bench, &token, &args).write_stdin("new text").assert().success();
    let made: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(made["fate"][0]["after"]["state"], "rewritten", "{made:#}");
    server.stop();
}

#[test]
fn a_job_reaches_its_own_topic_and_source_and_nothing_else() {
    let bench = Bench::new();
    bench.topic_kind("lends", FREE, LENDS_ITS_TOKEN);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Shorter.");
    let foreign = bench.topic("notes.md", "Keep this.", "Why?");
    let token = lent(&bench, &topic);
    let (id, foreign) = (&*topic.id, &*foreign.id);
    let base = base_of(&bench, "guide.md");
    let refuse = |args: &[&str], stdin: &[u8], exit: i32, code: &str| {
        refuses(&bench, &token, args, stdin, exit, code);
    };
    refuse(&["get-topic", "--id", foreign], b"", 3, "not_granted");
    refuse(&["list-open-topics", "--source-path", "notes.md"], b"", 3, "not_granted");
    refuse(&["list-open-topics", "--source-path", "../x"], b"", 2, "bad_path");
    refuse(&["post-message", "--topic-id", foreign], b"x", 3, "not_granted");
    refuse(&["post-message", "--topic-id", id], b"", 2, "invalid");
    refuse(&["post-message", "--topic-id", id], b" \n ", 2, "invalid");
    refuse(&["post-message", "--topic-id", id], b"\xff", 2, "not_utf8");
    refuse(&["post-message", "--topic-id", id], &[b'x'; 70_000], 2, "too_large");
    // Its kind promises no proposal, so its token may not propose.
    let insert = ["insert-proposal", "--topic-id", id, "--base-sha", &base];
    refuse(&insert, b"new", 3, "not_granted");
    refuse(&["finish", "--result", "-"], b"not json", 2, "invalid");
    refuse(&["finish", "--result", "-"], b"", 2, "invalid");
    refuse(&["finish", "--result", "none.json"], b"", 2, "invalid");
    refuse(&["get-persona", "--source-path", "guide.md", "--name", "p"], b"", 3, "not_granted");
    let sha = "a".repeat(40);
    let put = [
        "put-perspective",
        "--source-path",
        "guide.md",
        "--persona",
        "p",
        "--source-sha",
        &sha,
        "--persona-sha",
        &sha,
    ];
    refuse(&put, b"view", 3, "not_granted");
    refuse(&["apply-suggestions"], b"", 1, "no_suggestion");
    // Over the operator's commands a job's token is nobody's.
    let operator = bench.operator();
    std::fs::write(bench.data.join("operator.token"), &token).unwrap();
    for args in [&["proposal", "list"][..], &["topic", "discard", id], &["login"]] {
        assert_eq!(bench.cli(args).0, 3, "{args:?}");
    }
    std::fs::write(bench.data.join("operator.token"), operator).unwrap();

    // A job that has ended is told to stop, whatever it asks.
    std::fs::write(bench.out.join("go"), "").unwrap();
    let job = bench.json(&["job", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    for (args, stdin) in [
        (&["get-topic", "--id", id][..], ""),
        (&["list-open-topics", "--source-path", "guide.md"], ""),
        (&["post-message", "--topic-id", id], "late"),
        (&["finish", "--result", "-"], "1"),
        (&insert, "new"),
        (&["apply-suggestions"], ""),
    ] {
        refuse(args, stdin.as_bytes(), 5, "job_ended");
    }
    assert_eq!(bench.json(&["topic", "show", id])["messages"].as_array().unwrap().len(), 1);
    server.stop();
}

#[test]
fn outside_of_a_job_there_is_no_way_in() {
    let bench = Bench::new();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Shorter.");
    let get = ["get-topic", "--id", &topic.id];
    let assert = wb_agent(bench.top.as_std_path()).args(get).assert().code(3);
    assert!(text(&assert.get_output().stderr).contains("no token"));
    for token in ["wrong", "wb_000"] {
        refuses(&bench, token, &get, b"", 3, "unauthenticated");
    }
    // The site is found by the nearest script, too; the token is what counts.
    let mut found = wb_agent(bench.top.join("docs").as_std_path());
    found.env("WB_TOKEN", bench.operator()).args(get).assert().success();
    let mut found = wb_agent(bench.base.as_std_path());
    found.env("WB_TOKEN", bench.operator()).args(get).args(["--data", bench.data.as_str()]);
    found.assert().success();
    // A person is no job.
    for (args, stdin) in [(&["finish", "--result", "-"][..], "1"), (&["apply-suggestions"], "")] {
        refuses(&bench, &bench.operator(), args, stdin.as_bytes(), 3, "forbidden");
    }
    server.stop();
    refuses(&bench, "any", &get, b"", 6, "no_server");
}

#[test]
fn an_agent_that_steals_the_operators_token_decides_nothing() {
    let bench = Bench::new();
    let program = env!("CARGO_BIN_EXE_wiki-browser");
    let agent = format!(
        "cd \"$BASE/wiki\"; env -i PATH=\"$PATH\" '{program}' topic discard \"$word\" --json \
         > \"$OUT/out\" 2> \"$OUT/err\"; echo $? > \"$OUT/code\""
    );
    bench.word_kind("steals", FREE, &agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Shorter.");
    bench.ended(&bench.job("steals", json!({"word": topic.id})));
    until("the code is there", || !bench.left("code").is_empty());
    assert_eq!(bench.left("code"), "3", "{}", bench.left("err"));
    assert_eq!(bench.json(&["topic", "show", &topic.id])["topic"]["status"], "open");
    server.stop();
}
