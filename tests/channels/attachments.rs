//! Files attached to messages: uploaded, sent once, shown to everyone in the channel, and harmless.

use serde_json::{Value, json};

use crate::channels::agents::{agents, wait_known, wait_said};
use crate::channels::{room, said};
use crate::support::{Answer, Bench, Call, wait_for};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nnot really";

/// Uploads a file and returns the response.
fn upload(bench: &Bench, slug: &str, name: &str, content: &[u8]) -> Answer {
    let target = format!("/api/channels/{slug}/attachments?name={name}");
    bench.send(&Call::file(&target, content).token(&bench.operator()))
}

#[track_caller]
fn number(answer: Answer) -> i64 {
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body["number"].as_i64().unwrap()
}

#[track_caller]
fn has_header(answer: &Answer, beginning: &str) {
    let head = answer.head.to_lowercase();
    assert!(head.lines().any(|line| line.starts_with(beginning)), "{head}");
}

#[test]
fn a_file_reaches_people_and_agents_and_the_export() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Files", json!([{"agent": "robbo"}]));
    let file = bench.base.join("plan.md");
    std::fs::write(&file, "# A plan\n").unwrap();
    let sent = bench.json(&["msg", "send", &slug, "Is this right?", "--attach", file.as_str()]);
    assert_eq!(sent["sequence"], 1);
    wait_said(&bench, &slug, 2);
    let page = bench.get(&format!("/api/channels/{slug}/messages")).ok();
    let attached = &page["items"][0]["attachments"][0];
    assert_eq!((&attached["name"], &attached["kind"]), (&json!("plan.md"), &json!("text")));
    // The agent is told how to fetch it.
    let heard: Value = serde_json::from_str(bench.left("heard.robbo").trim()).unwrap();
    let text = heard["text"].as_str().unwrap();
    let line = "(attached: \"plan.md\", text, 9 bytes: `wb-agent channel attachment 1`)";
    assert!(text.contains(line), "{text}");
    let (code, out, err) = bench.cli(&["msg", "attachment", &slug, "1"]);
    assert_eq!((code, out.as_str()), (0, "# A plan\n"), "{err}");
    let (code, _, err) = bench.cli(&["msg", "attachment", &slug, "1", "--out", file.as_str()]);
    assert!(code == 5 && err.contains("already exists"), "{err}");
    // A picture without a text, shown in place.
    let picture = number(upload(&bench, &slug, "a.png", PNG));
    let body = json!({"body": "", "attachments": [picture]});
    bench.post(&format!("/api/channels/{slug}/messages"), body).ok();
    let target = format!("/api/channels/{slug}/attachments/{picture}");
    let got = bench.get(&target);
    assert_eq!(got.status, 200);
    has_header(&got, "content-type: image/png");
    let (_, export, _) = bench.cli(&["channel", "export", &slug]);
    assert!(export.contains("- Attachment 1: `plan.md`, text, 9 bytes"), "{export}");
    let (_, lines, _) = bench.cli(&["channel", "export", &slug, "--jsonl"]);
    let lines: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(lines[0]["attachments"][0]["number"], 1);
    let sequences: Vec<i64> = lines.iter().filter_map(|it| it["sequence"].as_i64()).collect();
    assert_eq!(sequences, (1..=lines.len() as i64).collect::<Vec<_>>());
    let (_, recent, _) = bench.cli(&["msg", "history", &slug, "--since", "1h"]);
    assert!(recent.contains("Is this right?") && recent.contains("plan.md"), "{recent}");
    let (_, none, _) = bench.cli(&["msg", "history", &slug, "--since", "2999-01-01T00:00:00Z"]);
    assert_eq!(none.trim(), "");
    // A completed channel keeps its files and takes no more.
    bench.json(&["channel", "complete", &slug]);
    assert_eq!(bench.get(&target).status, 200);
    assert_eq!(upload(&bench, &slug, "b.txt", b"b").refusal(), (409, "channel_not_active"));
    server.stop();
}

#[test]
fn a_hostile_file_is_a_download_or_refused() {
    let bench = Bench::new();
    let server = bench.serve();
    let (slug, other) = (room(&bench, "One", json!([])), room(&bench, "Two", json!([])));
    let path = format!("/api/channels/{slug}/messages");
    bench.post(&path, json!({"body": "Hello"})).ok();
    let before = said(&bench, &slug);
    for (content, refusal) in
        [(&b""[..], (400, "empty_file")), (&vec![b'x'; 10 * 1024 * 1024 + 1], (413, "too_large"))]
    {
        assert_eq!(upload(&bench, &slug, "x", content).refusal(), refusal);
    }
    let page = b"<script>alert(1)</script>";
    let html = number(upload(&bench, &slug, "..%2F..%2Fa%22%0D%0AX%3A%20y.html", page));
    // Sent once, by its uploader, in its channel, before it can be read.
    let target = format!("/api/channels/{slug}/attachments/{html}");
    assert_eq!(bench.get(&target).refusal(), (404, "no_attachment"));
    let with = |numbers: Value| json!({"body": "Look", "attachments": numbers});
    for numbers in [json!([html + 1]), json!([html, html])] {
        assert_eq!(bench.post(&path, with(numbers)).refusal(), (404, "no_attachment"));
    }
    let elsewhere = format!("/api/channels/{other}/messages");
    assert_eq!(bench.post(&elsewhere, with(json!([html]))).refusal(), (404, "no_attachment"));
    let many: Vec<i64> = (1..=11).collect();
    assert_eq!(bench.post(&path, with(json!(many))).refusal(), (400, "bad_attachments"));
    assert_eq!(said(&bench, &slug), before);
    bench.post(&path, with(json!([html]))).ok();
    assert_eq!(bench.post(&path, with(json!([html]))).refusal(), (404, "no_attachment"));
    let got = bench.get(&target);
    has_header(&got, "content-type: application/octet-stream");
    has_header(&got, "content-disposition: attachment; filename*=utf-8''..%2f..%2fa%22x");
    has_header(&got, "x-content-type-options: nosniff");
    let there = bench.get(&format!("/api/channels/{other}/attachments/{html}"));
    assert_eq!(there.refusal(), (404, "no_attachment"));
    // Nobody uploads without end.
    for _ in 0..20 {
        number(upload(&bench, &slug, "x.txt", b"x"));
    }
    assert_eq!(upload(&bench, &slug, "x.txt", b"x").refusal(), (429, "too_many_uploads"));
    server.stop();
}

/// A program that runs a script of the test for each message, and leaves what that printed.
const SENDER: &str = r#"while IFS= read -r line; do
id=$(printf '%s' "$line" | sed 's/^{"id":"\([^"]*\)".*/\1/')
printf '{"turn":"began","id":"%s"}\n' "$id"
cd "$OUT"
sh "$OUT/do.sh" > said.part 2>&1
mv said.part said
printf '{"turn":"ended","id":"%s","text":""}\n' "$id"
done
"#;

/// The same, but it says that its turn began only when the test knows that its post waits for that.
#[cfg(feature = "faults")]
const HASTY: &str = r#"while IFS= read -r line; do
id=$(printf '%s' "$line" | sed 's/^{"id":"\([^"]*\)".*/\1/')
cd "$OUT"
sh "$OUT/do.sh" > said.part 2>&1 &
while [ ! -e go ] && kill -0 $! 2>/dev/null; do sleep 0.05; done
printf '{"turn":"began","id":"%s"}\n' "$id"
wait
mv said.part said
printf '{"turn":"ended","id":"%s","text":""}\n' "$id"
done
"#;

/// Declares the agent `robbo` that runs scripts.
fn sender(bench: &Bench, program: &str) {
    let file = bench.base.join("agents/sender.sh");
    std::fs::write(&file, program).unwrap();
    let (out, client) = (&bench.out, env!("CARGO_BIN_EXE_wb-agent"));
    bench.lua(&format!(
        r#"wb.engine "sender" {{
  type = "stream", speaks = "lines", command = {{ "/bin/sh", "{file}" }},
  env = {{ OUT = "{out}", CLIENT = "{client}" }},
}}
wb.agent "robbo" {{ about = "A test", engine = "sender" }}
"#
    ));
}

/// Has the agent run a script when it reads a message; returns what that printed.
#[track_caller]
fn runs(bench: &Bench, script: &str, tell: impl FnOnce()) -> String {
    std::fs::write(bench.out.join("do.sh"), script).unwrap();
    tell();
    let said = bench.out.join("said");
    let printed = wait_for("robbo's script ends", || std::fs::read_to_string(&said).ok());
    std::fs::remove_file(said).unwrap();
    printed
}

#[test]
fn an_agent_attaches_files_and_nothing_else() {
    let bench = Bench::new();
    sender(&bench, SENDER);
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Files", json!([{"agent": "robbo"}]));
    let at = |name: &str| bench.out.join(name);
    std::fs::write(at("plan.md"), "# A plan\n").unwrap();
    std::fs::write(at("dot.png"), PNG).unwrap();
    std::fs::write(at("empty"), "").unwrap();
    std::fs::File::create(at("large")).unwrap().set_len(10 * 1024 * 1024 + 1).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", at("link.md")).unwrap();
    std::os::unix::fs::symlink("/etc", at("docs")).unwrap();
    // Refused as a whole, before anything is sent.
    let many = "--attach plan.md ".repeat(11);
    let refused = [
        ("--attach plan.md --attach link.md", "link.md is a link"),
        ("--attach docs/hostname", "docs/hostname is a link, or leads through one"),
        ("--attach \"$OUT/docs/hostname\"", "is a link, or leads through one"),
        ("--attach /proc/self/cwd/plan.md", "is a link, or leads through one"),
        ("--attach /proc/self/root/etc/hostname", "is a link, or leads through one"),
        ("--attach pipe", "pipe is not a regular file"),
        ("--attach /dev/zero", "/dev/zero is not a regular file"),
        ("--attach .", "not a regular file"),
        ("--attach absent", "cannot read absent"),
        ("--attach large", "more than 10485760 bytes"),
        ("--attach empty", "is empty"),
        (many.as_str(), "at most 10 attachments"),
    ];
    let mut script = "mkfifo pipe\n".to_owned();
    for (words, _) in &refused {
        script += &format!("echo Look | \"$CLIENT\" channel post {words}; echo \"exit $?\"\n");
    }
    let path = format!("/api/channels/{slug}/messages");
    let say = |text: &str| drop(bench.post(&path, json!({"body": text})).ok());
    let printed = runs(&bench, &script, || say("Try"));
    for (words, why) in refused {
        assert!(printed.contains(why), "{words}: {printed}");
    }
    assert!(!printed.contains("exit 0"), "{printed}");
    assert_eq!(said(&bench, &slug).len(), 1);
    let script = "echo Look | \"$CLIENT\" channel post --attach \"$OUT/plan.md\" --attach dot.png \
                  && \"$CLIENT\" channel post --attach plan.md < /dev/null\n";
    let printed = runs(&bench, script, || say("Send"));
    let page = bench.get(&path).ok();
    assert_eq!(printed, "3\n4\n", "{page:#}");
    let [.., third, fourth] = page["items"].as_array().unwrap().as_slice() else { panic!() };
    assert_eq!((&third["text"], &third["author"]["name"]), (&json!("Look\n"), &json!("robbo")));
    let (plan, dot) = (&third["attachments"][0], &third["attachments"][1]);
    assert_eq!((&plan["name"], &plan["kind"]), (&json!("plan.md"), &json!("text")));
    assert_eq!((&dot["name"], &dot["kind"]), (&json!("dot.png"), &json!("image/png")));
    assert_eq!(fourth["text"], "");
    let number = plan["number"].to_string();
    let (_, printed, _) = bench.cli(&["msg", "attachment", &slug, &number]);
    assert_eq!(printed, "# A plan\n");
    // In a turn that somebody else caused it sends nothing there.
    let script = "\"$CLIENT\" channel post --attach plan.md < /dev/null 2>&1 | tr 'a-z' 'A-Z'\n";
    let to = json!({"to": "agent:robbo", "payload": "Send it"});
    let printed = runs(&bench, script, || drop(bench.post("/api/messages", to).ok()));
    assert!(printed.contains("DID NOT CAUSE YOUR CURRENT TURN"), "{printed}");
    assert_eq!(said(&bench, &slug).len(), 4);
    server.stop();
}

/// An agent acts on a message before the server has read that its turn began. Fails with
/// `WB_WITHOUT=await_turn`.
#[cfg(feature = "faults")]
#[test]
fn what_an_agent_posts_at_once_waits_for_the_record_of_its_turn() {
    let bench = Bench::new();
    sender(&bench, HASTY);
    let server = bench.serve_with(&[("WB_LOG", "info,wiki_browser::flows::channels=debug")]);
    wait_known(&bench, 1);
    let slug = room(&bench, "Files", json!([{"agent": "robbo"}]));
    std::fs::write(bench.out.join("plan.md"), "# A plan\n").unwrap();
    let script = "echo Look | \"$CLIENT\" channel post --attach plan.md\n";
    let path = format!("/api/channels/{slug}/messages");
    let printed = runs(&bench, script, || {
        bench.post(&path, json!({"body": "Send"})).ok();
        wait_for("the post waits", || {
            let log = server.log();
            log.contains("waits for the record of its turn").then_some(())
        });
        std::fs::write(bench.out.join("go"), "").unwrap();
    });
    assert_eq!(printed, "2\n");
    let page = bench.get(&path).ok();
    assert_eq!(page["items"][1]["attachments"][0]["name"], "plan.md", "{page:#}");
    server.stop();
}
