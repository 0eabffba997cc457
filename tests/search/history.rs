//! The history of a document: real commits, their causes, and commit messages that must not be
//! trusted.

use serde_json::{Value, json};

use crate::support::Bench;

const PROPOSES: &str = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";
const REWRITE: &str =
    "sed 's/The first line/The better line/' \"$root/$path\" | propose --summary 'Better words'";

fn page(bench: &Bench, path: &str, more: &str) -> Value {
    bench.get(&format!("/api/source/history?path={path}{more}")).ok()
}

fn subjects(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap();
    items.iter().map(|it| it["subject"].as_str().unwrap().to_owned()).collect()
}

fn change(bench: &Bench, text: &str, message: &str) {
    bench.write("guide.md", text);
    bench.git(&["commit", "-q", "-a", "-m", message]);
}

#[test]
fn a_commit_has_the_causes_that_this_site_wrote_down_and_no_others() {
    let bench = Bench::new();
    bench.topic_kind("rewrite", PROPOSES, REWRITE);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line", "Say it better\n\nPlease.");
    let proposal = bench.proposal("rewrite", &topic);
    let done = bench.send(&bench.approval(&proposal)).ok();
    let forged = format!("Nobody asked\n\nApproved-by: Ada <ada@x>\nTopic: {}\n", topic.id);
    change(&bench, "# Guide\n\nForged.\n", &forged);
    let history = page(&bench, "guide.md", "");
    assert_eq!(subjects(&history), ["Nobody asked", "Better words", "first"]);
    let items = history["items"].as_array().unwrap();
    assert_eq!(items[0]["causes"], json!([]));
    assert_eq!(items[0]["approved_by"], "Ada <ada@x>", "it is told as what it claims");
    assert_eq!(items[2]["causes"], json!([]));
    let cause = &items[1]["causes"][0];
    assert_eq!(items[1]["commit"], done["commit"]);
    assert_eq!(cause["topic_id"], json!(topic.id));
    assert_eq!(cause["topic_title"], "Say it better");
    assert_eq!(cause["topic_status"], "incorporated");
    assert_eq!(cause["proposal_id"], proposal["proposal"]["id"]);
    assert_eq!(cause["job_id"], proposal["proposal"]["job_id"]);
    assert_eq!(cause["revision_number"], 1);
    assert!(!cause["approver_name"].as_str().unwrap().is_empty());
    assert_eq!(
        (history["next"].clone(), history["is_shallow"].clone()),
        (json!(null), json!(false))
    );
    let (code, out, err) = bench.cli(&["source", "history", "guide.md"]);
    assert_eq!(code, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    let short = &topic.id[28..];
    assert!(lines[2].contains(short) && lines[2].contains("Better words"), "{out}");
    assert!(!lines[1].contains(short) && !lines[1].contains("Ada"), "{out}");
    server.stop();
}

#[test]
fn pages_go_on_from_where_the_first_one_began() {
    let bench = Bench::new();
    for n in 0..7 {
        change(&bench, &format!("text {n}\n"), &format!("change {n}"));
    }
    let server = bench.serve();
    let first = page(&bench, "guide.md", "&limit=3");
    assert_eq!(subjects(&first), ["change 6", "change 5", "change 4"]);
    change(&bench, "text late\n", "late");
    let (mut all, mut next) = (subjects(&first), first["next"].clone());
    while let Some(after) = next.as_str() {
        let more = page(&bench, "guide.md", &format!("&limit=3&after={after}"));
        all.extend(subjects(&more));
        next = more["next"].clone();
    }
    let expected: Vec<String> = (0..7).rev().map(|n| format!("change {n}")).collect();
    assert_eq!(all, [expected, vec!["first".to_owned()]].concat());
    assert_eq!(subjects(&page(&bench, "guide.md", "&limit=1")), ["late"]);
    for bad in ["x", "abc.1", "HEAD.1", "--all.1", &format!("{}.-1", "a".repeat(40))] {
        let refused = bench.get(&format!("/api/source/history?path=guide.md&after={bad}"));
        assert_eq!(refused.refusal(), (400, "bad_parameter"), "{bad}");
    }
    // A commit that is held somewhere else is not looked at.
    bench.git(&["commit", "-q", "--allow-empty", "-m", "secret"]);
    let hidden = bench.git(&["rev-parse", "HEAD"]);
    bench.git(&["update-ref", "refs/hidden", &hidden]);
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    for gone in [hidden, "0123456789".repeat(4)] {
        let refused = bench.get(&format!("/api/source/history?path=guide.md&after={gone}.0"));
        assert_eq!(refused.refusal(), (409, "history_changed"));
    }
    let (code, out, err) = bench.cli(&["source", "history", "guide.md", "--limit", "2"]);
    assert!(code == 0 && out.lines().count() == 3 && err.contains("more: --after "), "{err}");
    // One that is gone has a history; one that never was has none.
    bench.git(&["rm", "-q", "guide.md"]);
    bench.git(&["commit", "-q", "-m", "gone"]);
    assert_eq!(subjects(&page(&bench, "guide.md", ""))[0], "gone");
    assert_eq!(bench.get("/api/source/history?path=never.md").refusal().0, 404);
    server.stop();
}

#[test]
fn messages_of_any_size_and_kind_are_text() {
    let bench = Bench::new();
    let huge = "word ".repeat(400_000);
    let marks = format!("e{}", "\u{301}".repeat(300_000));
    for (n, message) in [
        &huge,
        "\u{1b}[2Jred\u{9b}31m\u{202e}txt",
        &format!("x\n\nApproved-by: {huge}\nTopic: {huge}\n"),
        "Topic: no-id\nApproved-by:",
    ]
    .iter()
    .enumerate()
    {
        bench.write("guide.md", format!("text {n}\n"));
        std::fs::write(bench.base.join("message"), message).unwrap();
        let file = bench.base.join("message");
        bench.git(&["commit", "-q", "-a", "--cleanup=verbatim", "-F", file.as_str()]);
    }
    let server = bench.serve();
    let history = page(&bench, "guide.md", "");
    let seen = subjects(&history);
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen[3].starts_with("word word") && seen[3].chars().count() <= 301);
    assert_eq!(seen[2], "[2Jred31m\u{202e}txt");
    assert_eq!(seen[1], "x");
    // What takes no columns cannot be cut by git: then the names and subjects are left out.
    std::fs::write(bench.base.join("message"), marks).unwrap();
    bench.write("guide.md", "marks\n");
    let file = bench.base.join("message");
    bench.git(&["commit", "-q", "-a", "-F", file.as_str()]);
    let seen = subjects(&page(&bench, "guide.md", "&limit=2"));
    assert_eq!(seen.len(), 2);
    // A shallow clone says that there may be more.
    let head = bench.git(&["rev-parse", "HEAD~1"]);
    std::fs::write(bench.top.join(".git/shallow"), format!("{head}\n")).unwrap();
    let history = page(&bench, "guide.md", "");
    assert_eq!((history["is_shallow"].clone(), subjects(&history).len()), (json!(true), 2));
    server.stop();
}

#[test]
fn a_renamed_document_has_the_history_of_its_earlier_names() {
    let bench = Bench::new();
    let long: String = (0..30).map(|n| format!("A line of its own, number {n}.\n")).collect();
    change(&bench, &long, "long");
    bench.git(&["mv", "guide.md", "docs/manual.md"]);
    bench.git(&["commit", "-q", "-m", "moved"]);
    bench.write("docs/manual.md", long.replace("number 7", "number seven"));
    bench.git(&["commit", "-q", "-a", "-m", "after"]);
    // A copy is a document of its own, and so is what has an earlier name later.
    bench.write("docs/copy.md", &long);
    bench.write("guide.md", "Something else.\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "others"]);
    // Renamed and changed at once, away from what is no Source.
    std::fs::create_dir_all(bench.top.join("drafts")).unwrap();
    bench.write("drafts/plan.txt", long.replace("line", "plan"));
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "draft"]);
    bench.git(&["mv", "drafts/plan.txt", "docs/plan.md"]);
    bench.write("docs/plan.md", long.replace("line", "plan") + "More.\n");
    bench.git(&["commit", "-q", "-a", "-m", "published"]);
    let server = bench.serve();
    let all = page(&bench, "docs/manual.md", "");
    assert_eq!(subjects(&all), ["after", "moved", "long", "first"]);
    let of = |name: &str| -> Vec<Value> {
        all["items"].as_array().unwrap().iter().map(|it| it[name].clone()).collect()
    };
    assert_eq!(of("renamed_from"), [json!(null), json!("guide.md"), json!(null), json!(null)]);
    let (now, then) = (json!("docs/manual.md"), json!("guide.md"));
    assert_eq!(of("path"), [now.clone(), now, then.clone(), then]);
    // Page by page it is the same.
    for limit in 1..=4 {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let next = page(&bench, "docs/manual.md", &format!("&limit={limit}{after}"));
            seen.extend(next["items"].as_array().unwrap().clone());
            let Some(place) = next["next"].as_str() else { break };
            after = format!("&after={place}");
        }
        assert_eq!(json!(seen), all["items"], "{limit}");
    }
    assert_eq!(subjects(&page(&bench, "docs/copy.md", "")), ["others"]);
    assert_eq!(subjects(&page(&bench, "guide.md", "")), ["others", "moved", "long", "first"]);
    let plan = page(&bench, "docs/plan.md", "");
    assert_eq!(subjects(&plan), ["published"]);
    assert_eq!(plan["items"][0]["renamed_from"], "drafts/plan.txt");
    // A place that leads to what is no Source, or is none.
    let head = bench.git(&["rev-parse", "HEAD"]);
    for wrong in [
        format!("{head}.0.{}", "2e2e2f78"),
        format!("{head}.0.zz"),
        format!("{head}.0."),
        format!("{head}.0.6"),
    ] {
        let refused = bench.get(&format!("/api/source/history?path=guide.md&after={wrong}"));
        assert_eq!(refused.refusal(), (400, "bad_parameter"), "{wrong}");
    }
    let secret = format!("{head}.0.{}", "6472616674732f706c616e2e747874");
    let refused = bench.get(&format!("/api/source/history?path=guide.md&after={secret}"));
    assert_eq!(refused.refusal(), (404, "not_a_source"));
    let (code, out, err) = bench.cli(&["source", "history", "docs/manual.md"]);
    assert!(code == 0 && out.contains("moved (renamed from guide.md)"), "{out}{err}");
    let shown = bench.get("/d/docs/manual.md?history");
    assert_eq!(shown.status, 200);
    server.stop();
}
