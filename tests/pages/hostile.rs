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
    let [open, finished] = channels(&bench);
    let paths = [
        open,
        finished,
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
    let lists = ["/channels", "/channels?status=complete", "/channels/new"].map(str::to_owned);
    for path in paths.into_iter().chain(lists) {
        harmless(&path, &browser.page(&path));
    }
    let refused = browser.get("/topics/%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    assert_eq!(refused.status, 404);
    harmless("a refused id", &refused.html);
    let diff =
        browser.page(&format!("/proposals/{}", proposal["proposal"]["id"].as_str().unwrap()));
    assert!(diff.contains("data-code=\"U+202E\""), "an override in a diff is made visible: {diff}");
}

/// Makes an open channel and a finished one; returns their pages.
#[track_caller]
fn channels(bench: &Bench) -> [String; 2] {
    let shown = "<script>alert(1)</script> \"><img src=x onerror=alert(1)> </textarea></pre>";
    let person = json!({"name": "mal", "role": "member", "display_name": shown});
    bench.post("/api/persons", person).ok();
    let pages = ["open", "done"].map(|word| {
        let name = format!("{word} {}", HOSTILE.chars().take(120).collect::<String>());
        let members = json!([{"person": "mal"}]);
        let channel =
            json!({"name": name, "about": HOSTILE, "intent": HOSTILE, "members": members});
        let made = bench.post("/api/channels", channel).ok();
        let slug = made["slug"].as_str().unwrap();
        let body = format!("{HOSTILE}\nDecision: {HOSTILE}\n@mal {HOSTILE}");
        let said = json!({"body": body, "type": "escalation"});
        bench.post(&format!("/api/channels/{slug}/messages"), said).ok();
        format!("/channels/{slug}")
    });
    bench.post("/api/channels/2/complete", json!({})).ok();
    pages
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
