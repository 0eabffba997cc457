//! Text of documents, people and agents stays text on every page.

use serde_json::json;

use crate::pages::{Browser, PROPOSES};
use crate::support::Bench;

const HOSTILE: &str = "<script>alert(1)</script> \"><img src=x onerror=alert(1)> ' onclick='x \
    {{ 7 * 7 }} [x](javascript:alert(1)) javascript:alert(1) </textarea></pre></title> \u{202e}exe";

/// What an agent prints, proposes and sums up.
const AGENT: &str = r##"printf '%s' "$HOSTILE" | tee "$OUT/printed" >&2
printf '# Guide\n\n%s\n\nThe second line.\n' "$HOSTILE" | propose --summary "$HOSTILE""##;

#[test]
fn hostile_text_is_shown_and_never_obeyed() {
    let bench = Bench::new();
    bench.topic_kind("rewrite", PROPOSES, &format!("HOSTILE=$(cat \"$BASE/text\")\n{AGENT}"));
    bench.topic_kind("fail", "timeout = \"20s\"", "cat \"$BASE/text\" >&2; exit 1");
    std::fs::write(bench.base.join("text"), HOSTILE).unwrap();
    bench.write("notes.md", format!("# {HOSTILE}\n\n{HOSTILE} twice\n"));
    bench.write("docs/\"><script>.md", HOSTILE);
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", HOSTILE]);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line", HOSTILE);
    let quoted = bench.topic("notes.md", &format!("{HOSTILE} twice"), HOSTILE);
    let proposal = bench.proposal("rewrite", &topic);
    let failed = bench.ended(&bench.job_on("fail", &quoted));
    let global = json!({"source_path": "docs/\"><script>.md", "global": true, "body": HOSTILE});
    let global = bench.post("/api/topics", global).ok();
    let job = proposal["proposal"]["job_id"].as_str().unwrap();
    let failed = failed["id"].as_str().unwrap();
    let name: String = HOSTILE.chars().take(128).collect();
    bench.post("/api/persons", json!({"name": "mal", "role": "member", "display_name": name})).ok();
    let members = json!([{"person": "mal"}]);
    for text in ["open", "done"] {
        let name = format!("{text} {}", HOSTILE.chars().take(120).collect::<String>());
        let channel =
            json!({"name": name, "about": HOSTILE, "intent": HOSTILE, "members": members});
        let slug = bench.post("/api/channels", channel).ok()["slug"].as_str().unwrap().to_owned();
        let body = format!("{HOSTILE}\nDecision: {HOSTILE}\n@mal {HOSTILE}");
        let path = format!("/api/channels/{slug}/messages");
        bench.post(&path, json!({"body": body, "type": "escalation"})).ok();
    }
    bench.post("/api/channels/2/complete", json!({})).ok();
    let channels = bench.get("/api/channels/1").ok()["slug"].as_str().unwrap().to_owned();
    let finished = bench.get("/api/channels/2").ok()["slug"].as_str().unwrap().to_owned();
    let paths = [
        format!("/channels/{channels}"),
        format!("/channels/{finished}"),
        "/channels".to_owned(),
        "/channels?status=complete".to_owned(),
        "/channels/new".to_owned(),
        "/".to_owned(),
        "/d".to_owned(),
        format!("/d?{}", serde_urlencoded::to_string([("query", HOSTILE)]).unwrap()),
        "/d/notes.md".to_owned(),
        "/d/notes.md?text=1".to_owned(),
        "/d/docs/%22%3E%3Cscript%3E.md".to_owned(),
        "/topics".to_owned(),
        "/topics?source_path=docs%2F%22%3E%3Cscript%3E.md".to_owned(),
        format!("/topics/{}", topic.id),
        format!("/topics/{}", quoted.id),
        format!("/topics/{}", global["id"].as_str().unwrap()),
        "/proposals".to_owned(),
        format!("/proposals/{}", proposal["proposal"]["id"].as_str().unwrap()),
        "/d/notes.md?history".to_owned(),
        "/search?query=script".to_owned(),
        "/search?query=alert+twice&kind=topic".to_owned(),
        format!("/search?{}", serde_urlencoded::to_string([("query", HOSTILE)]).unwrap()),
        "/search?query=x&path=%22%3E%3Cscript%3E&author=%3Cimg&status=%3Cscript".to_owned(),
        "/jobs".to_owned(),
        format!("/jobs/{job}"),
        format!("/jobs/{failed}"),
        format!("/jobs/{failed}/prompt"),
    ];
    for path in paths {
        harmless(&path, &browser.page(&path));
    }
    let refused = browser.get("/topics/%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    assert_eq!(refused.status, 404);
    harmless("a refused id", &refused.html);
    let diff =
        browser.page(&format!("/proposals/{}", proposal["proposal"]["id"].as_str().unwrap()));
    assert!(diff.contains("data-code=\"U+202E\""), "an override in a diff is made visible: {diff}");
}

#[track_caller]
fn harmless(path: &str, html: &str) {
    // Our own one, in every page's head.
    let html = &html.replacen("<script type=\"module\" src=\"/assets/", "", 1);
    for bad in ["<script", "<img", "onerror=alert(1)>", "' onclick='", "</textarea></pre>"] {
        assert!(!html.contains(bad), "{path} holds {bad}: {html}");
    }
    assert!(!html.contains(" 49 "), "{path}: a template was run");
    for name in ["href=\"", "action=\"", "src=\""] {
        for value in html.split(name).skip(1) {
            let value = value.split('"').next().unwrap();
            assert!(value.starts_with(['/', '#']) && !value.starts_with("//"), "{path}: {value}");
        }
    }
    assert!(!html.contains(" on") || !html.contains(" onclick=\""), "{path}");
}
