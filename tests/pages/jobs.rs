//! The board, the page of a job, and its output: as files, as rows, and as a page without scripts.

use serde_json::json;

use crate::pages::Browser;
use crate::support::{Bench, until};

/// An agent whose output is an attack: colors, a title, a link, a screen that is cleared, HTML.
const ATTACKS: &str = r"printf '\033[1;31mred\033[0m plain\n\033]0;title\007after the title\n' >&2
printf '\033]8;;javascript:alert(1)\033\\a link\033]8;;\033\\ <b>bold</b>\n' >&2
printf '\033[2J\033[8mhidden\n' >&2
printf '\033]0;never ended <i>\nnext line \342\200\256evil\n' >&2
exit 3";

#[test]
fn output_is_text_whatever_it_holds() {
    let bench = Bench::new();
    bench.word_kind("attack", "timeout = \"20s\"", ATTACKS);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let job = bench.job("attack", json!({}));
    bench.ended(&job);
    let html = browser.page(&format!("/jobs/{job}"));
    let log = &html[html.find("class=\"tail-part\"").unwrap()..];
    let log = &log[..log.find("tail-open").unwrap()];
    for part in [
        "<div><span class=\"t-bold t-ink1\">red</span> plain</div>",
        "<div>after the title</div>",
        "<div>a link &#60;b&#62;bold&#60;/b&#62;</div>",
        "<div>hidden</div>",
        "]0;never ended &#60;i&#62;</div>",
        "data-code=\"U+202E\"",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains("javascript") && !log.contains('\u{1b}'), "{log}");
    // As rows, the same; as a file, the bytes as they are.
    let rows = bench.get(&format!("/api/agent/jobs/{job}/log?rows=true")).ok();
    assert_eq!(rows["rows"][0], json!([["t-bold t-ink1", "red"], " plain"]), "{rows}");
    assert_eq!(rows["next_offset"], rows["total"]);
    let file = browser.get(&format!("/jobs/{job}/log?stream=stderr"));
    assert_eq!(file.status, 200);
    assert!(file.header("content-type").unwrap().starts_with("text/plain"));
    assert!(file.header("content-disposition").unwrap().starts_with("attachment"));
    assert!(file.html.contains("\u{1b}]0;title\u{7}after the title"), "{}", file.html);
    assert_eq!(browser.get(&format!("/jobs/{job}/log?stream=other")).status, 400);
}

#[test]
fn rows_come_in_parts_that_end_with_a_line_and_miss_nothing() {
    let bench = Bench::new();
    let agent = "seq -f 'line %.0f ääääääääää' 0 5999 >&2
printf 'no end' >&2; touch \"$OUT/printed\"; beat a";
    bench.word_kind("many", "timeout = \"60s\"", agent);
    let _server = bench.serve();
    let job = bench.job("many", json!({}));
    until("it has printed", || bench.out.join("printed").exists());
    let part = |query: &str| bench.get(&format!("/api/agent/jobs/{job}/log?rows=true{query}")).ok();
    until("all of it is there", || {
        let total = part("&offset=999999999")["total"].as_u64().unwrap();
        part(&format!("&offset={}", total.max(6) - 6))["open"] == json!([["no end"]])
    });
    let (mut offset, mut lines) = (0, Vec::new());
    loop {
        let found = part(&format!("&offset={offset}"));
        let rows = found["rows"].as_array().unwrap();
        lines.extend(rows.iter().map(|it| it[0].as_str().unwrap().to_owned()));
        if rows.is_empty() {
            // The line that is still being printed is shown, and comes again.
            assert_eq!(found["open"], json!([["no end"]]), "{found}");
            break;
        }
        offset = found["next_offset"].as_u64().unwrap();
    }
    let expected: Vec<String> = (0..6000).map(|it| format!("line {it} ääääääääää")).collect();
    assert!(lines == expected, "{} lines", lines.len());
    // From within a line: the next one, or exactly up to a byte.
    let found = part("&offset=3&align=true");
    assert_eq!(found["rows"][0], json!(["line 1 ääääääääää"]), "{found}");
    let start = found["offset"].as_u64().unwrap();
    let found = part(&format!("&offset=0&until={start}"));
    assert_eq!((&found["rows"], &found["next_offset"]), (&json!([[expected[0]]]), &json!(start)));
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    let ended = bench.ended(&job);
    assert_eq!(ended["status"], "cancelled");
    // What was open is a row of its own at the end.
    let found = part(&format!("&offset={offset}"));
    assert_eq!(found["rows"][0], json!(["no end"]), "{found}");
}

#[test]
fn the_board_says_what_waits_for_what_and_leads_back_to_itself() {
    let bench = Bench::new();
    bench.limits("jobs = 2, grace = \"1s\", daily = { tokens = 1000000 }");
    let fields = "timeout = \"60s\", lane = \"source_path\", produces = \"proposal\"";
    bench.topic_kind("rewrite", fields, "beat a");
    bench.word_kind("fail", "timeout = \"60s\"", "echo 'no way' >&2; exit 3");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line", "Better");
    let (first, second) = (bench.job_on("rewrite", &topic), bench.job_on("rewrite", &topic));
    bench.wait_status(&first, "running");
    let failed = bench.job("fail", json!({}));
    bench.ended(&failed);
    let html = browser.page("/jobs");
    for part in [
        format!(
            "Waiting for <bdi>guide.md</bdi>: <a href=\"/jobs/{first}\">another job</a> is \
             rewriting it"
        ),
        "1 of 2 in use".to_owned(),
        "of at most 1 min".to_owned(),
        "Agent failed. See log.".to_owned(),
        "<code>source_path=guide.md</code> <span>1 of 1, 1 waiting</span>".to_owned(),
        "0 tokens of 1,000,000 tokens today".to_owned(),
    ] {
        assert!(html.contains(&part), "{part}: {html}");
    }
    let html = browser.page("/jobs?kind=fail&source_path=&requested_by=");
    assert!(html.contains(&failed) && !html.contains(&first), "{html}");
    let me = bench.show(&first)["requested_by"].as_str().unwrap().to_owned();
    assert!(browser.page(&format!("/jobs?requested_by={me}")).contains(&first));
    let other = "person:018bcfe5-6800-7000-8000-000000000009";
    assert!(!browser.page(&format!("/jobs?requested_by={other}")).contains(&first));
    // The page of the one that waits says it too, and what is in its way is a link.
    let waiting = browser.page(&format!("/jobs/{second}"));
    assert!(waiting.contains(&format!("<a href=\"/jobs/{first}\">another job</a>")), "{waiting}");
    // In place: back to the board, with what was asked for.
    let cancel = format!("/jobs/{second}/cancel");
    let seen = browser.submit(&cancel, &[("back", "/jobs?kind=rewrite")]);
    assert_eq!(seen.header("location"), Some("/jobs?kind=rewrite"));
    assert_eq!(bench.ended(&second)["status"], "cancelled");
    let cancel = format!("/jobs/{first}/cancel");
    assert_eq!(browser.submit(&cancel, &[("back", "https://evil.example/")]).status, 400);
    assert_eq!(bench.show(&first)["status"], "running");
    let again = browser.fill("/jobs?kind=fail", &format!("/jobs/{failed}/retry"), &[]);
    assert_eq!(again, "/jobs?kind=fail");
    until("the repetition is told", || {
        let shown = bench.show(&failed);
        shown["retried_as"].as_array().is_some_and(|it| it.len() == 1)
    });
    assert!(browser.page(&format!("/jobs/{failed}")).contains("Retried</a>"));
    browser.submit(&cancel, &[]);
    bench.ended(&first);
}

#[test]
fn an_engine_that_is_held_is_let_go_on_from_the_board() {
    let bench = Bench::new();
    let limit = "echo 'You have hit your usage limit. Try again later.'; exit 1";
    bench.word_kind("limited", "timeout = \"20s\"", limit);
    bench.edit(|it| it.replace("prompt = \"stdin\",", "prompt = \"stdin\", reads = \"plain\","));
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let job = bench.job("limited", json!({}));
    assert_eq!(bench.ended(&job)["reason"], "rate_limited");
    let html = browser.page("/jobs");
    assert!(html.contains("Engine “limited” is on hold until"), "{html}");
    let waits = bench.job("limited", json!({}));
    assert!(browser.page("/jobs").contains("is on hold until"));
    assert_eq!(browser.fill("/jobs", "/engines/limited/release", &[]), "/jobs");
    bench.ended(&waits);
}
