//! Files attached to messages: uploaded, sent once, shown to everyone in the channel, and harmless.

use serde_json::{Value, json};

use crate::channels::agents::{agents, wait_known, wait_said};
use crate::channels::{room, said};
use crate::support::{Answer, Bench, Call};

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
