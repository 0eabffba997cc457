//! Changes of the repository by others are noticed: once, soon, and after a restart.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{events, kept, kept_in, ready, told};
use crate::support::{Bench, shell, until, wait_for, within};

const MORE: &str = "# Guide\n\nA new beginning.\n\nThe first line.\n\nThe second line.\n";

fn commit(bench: &Bench, message: &str) {
    bench.git(&["commit", "-q", "-a", "-m", message]);
}

#[test]
fn a_commit_of_somebody_else_is_noticed_and_its_topics_are_placed() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.write("guide.md", MORE);
    commit(&bench, "by hand");
    let head = bench.git(&["rev-parse", "HEAD"]);
    let is_told = |it: &Value| it["path"] == "guide.md" && it["commit"] == head.as_str();
    until("the commit is told", || events(&bench, "source_changed").iter().any(is_told));
    let last = told(&bench, "guide.md");
    assert_eq!((&last["branch"], &last["proposal_id"]), (&json!("refs/heads/main"), &json!(null)));
    until("it is a baseline", || kept(&bench, &topic)["working"] == 0);
    let kept = kept(&bench, &topic);
    assert_eq!((&kept["state"], &kept["by"]), (&json!("shifted"), &json!("system")));
    let quote = &bench.get(&format!("/api/topics/{}", topic.id)).ok()["topic"]["anchor"]["prefix"];
    assert!(quote.as_str().unwrap().contains("A new beginning."), "the baseline moved: {quote}");
    server.stop();
}

/// Whoever clones the repository again while a server runs learns so before an approval is refused.
#[test]
fn a_repository_that_was_cloned_again_is_reported() {
    let bench = Bench::new();
    let (git, new) = (bench.top.join(".git"), bench.out.join("new"));
    let server = bench.serve();
    ready(&bench);
    let warnings = || bench.json(&["status"])["warnings"].to_string();
    assert!(!warnings().contains("another repository"), "{}", warnings());
    shell(&format!("cp -a '{git}' '{new}' && rm -r '{git}' && mv '{new}' '{git}'"));
    let lines = || server.log().matches("is another repository").count();
    until("the log says so", || lines() > 0);
    assert!(warnings().contains("is another repository: it was a folder"), "{}", warnings());
    bench.write("notes.md", "# Notes\n\nOther.\n");
    told(&bench, "notes.md");
    assert_eq!(lines(), 1, "{}", server.log());
    server.stop();
    let server = bench.serve();
    assert!(!warnings().contains("another repository"), "{}", warnings());
    server.stop();
}

#[test]
fn it_takes_less_than_two_seconds() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let mut turns = 0..;
    // Once at least, because the machine may be busy with other tests.
    until("it is told in time", || {
        let begun = Instant::now();
        bench.write("notes.md", format!("# Notes\n\nTurn {}.\n", turns.next().unwrap()));
        told(&bench, "notes.md");
        begun.elapsed() < Duration::from_secs(2)
    });
    server.stop();
}

#[test]
fn branches_that_move_and_folders_that_come_and_go_are_noticed() {
    let bench = Bench::new();
    bench.git(&["switch", "-q", "-c", "topic/other"]);
    bench.write("docs/deep.md", "# Deep\n\nElsewhere.\n");
    commit(&bench, "other");
    let other = bench.git(&["rev-parse", "HEAD"]);
    bench.git(&["switch", "-q", "main"]);
    let server = bench.serve();
    ready(&bench);
    bench.git(&["switch", "-q", "topic/other"]);
    let seen = told(&bench, "docs/deep.md");
    assert_eq!(
        (&seen["branch"], &seen["commit"]),
        (&json!("refs/heads/topic/other"), &json!(other))
    );
    // The branch is moved under the working tree: the text is the same, and not committed now.
    bench.git(&["update-ref", "refs/heads/topic/other", "main"]);
    until("the text is not committed any more", || {
        told(&bench, "docs/deep.md")["commit"].is_null()
    });
    bench.git(&["reset", "-q", "--hard"]);
    until("it is as committed", || !told(&bench, "docs/deep.md")["commit"].is_null());

    std::fs::create_dir_all(bench.top.join("new/folder")).unwrap();
    bench.write("new/folder/a.md", "# A\n");
    bench.git(&["add", "new"]);
    told(&bench, "new/folder/a.md");
    bench.write("new/folder/a.md", "# A\n\nMore.\n");
    told(&bench, "new/folder/a.md");
    let gone = |bench: &Bench, path: &str| {
        let mut told = events(bench, "source_changed").into_iter().filter(|it| it["path"] == path);
        told.next_back().is_some_and(|it| it["blob"].is_null())
    };
    std::fs::rename(bench.top.join("docs"), bench.top.join("doks")).unwrap();
    until("a folder is gone", || gone(&bench, "docs/deep.md"));
    std::fs::rename(bench.top.join("doks"), bench.top.join("docs")).unwrap();
    until("it is back", || !gone(&bench, "docs/deep.md"));
    bench.write("docs/deep.md", "# Deep\n\nAnd edited.\n");
    told(&bench, "docs/deep.md");
    bench.git(&["rm", "-q", "--cached", "notes.md"]);
    until("it is not tracked", || gone(&bench, "notes.md"));
    server.stop();
}

/// Fails with `WB_WITHOUT=seen_record`: then the second start tells what the first one told.
#[test]
fn what_changed_while_no_server_ran_is_told_once() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    server.stop();
    bench.write("guide.md", MORE);
    commit(&bench, "while it was away");
    bench.write("notes.md", "# Notes\n\nEdited.\n");
    let server = bench.serve();
    told(&bench, "guide.md");
    assert!(told(&bench, "notes.md")["commit"].is_null());
    kept(&bench, &topic);
    server.stop();
    let count = events(&bench, "source_changed").len();
    assert_eq!(count, 2);
    let server = bench.serve();
    bench.write("docs/deep.md", "# Deep\n\nLast.\n");
    told(&bench, "docs/deep.md");
    assert_eq!(events(&bench, "source_changed").len(), count + 1, "nothing is told again");
    server.stop();
}

#[test]
fn an_approval_is_told_by_itself_alone() {
    let bench = Bench::new();
    let script = "sed 's/The first line/The better line/' \"$root/$path\" | propose";
    let fields = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";
    bench.topic_kind("rewrite", fields, script);
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The first line.", "x");
    let other = bench.topic("guide.md", "The second line.", "y");
    let shown = bench.proposal("rewrite", &topic);
    bench.send(&bench.approval(&shown)).ok();
    // What comes later shows that the commit was looked at.
    bench.write("notes.md", "# Notes\n\nEdited.\n");
    told(&bench, "notes.md");
    let told: Vec<Value> = events(&bench, "source_changed")
        .into_iter()
        .filter(|it| it["path"] == "guide.md")
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["proposal_id"], shown["proposal"]["id"]);
    assert_eq!(kept(&bench, &other)["method"], "committed");
    server.stop();
}

#[test]
fn very_many_changes_are_told_in_one_word_and_all_placed() {
    let bench = Bench::new();
    std::fs::create_dir(bench.top.join("many")).unwrap();
    let name = |it: usize| format!("many/{it}.md");
    for it in 0..250 {
        bench.write(&name(it), format!("# N {it}\n\nSome words.\n"));
    }
    bench.git(&["add", "-A"]);
    commit(&bench, "many");
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("many/249.md", "Some words.", "x");
    for it in 0..250 {
        bench.write(&name(it), format!("# N {it}\n\nNew.\n\nSome words.\n"));
    }
    commit(&bench, "all");
    // The edits may be seen in two pieces, and so may the commit.
    let count = wait_for("the change is told", || {
        let told = events(&bench, "sources_changed");
        told.into_iter().find_map(|it| it["count"].as_u64()).filter(|it| *it > 200)
    });
    assert!(count <= 250, "{count}");
    until("the topic is placed", || kept(&bench, &topic)["working"] == 0);
    assert_eq!(kept(&bench, &topic)["state"], "shifted");
    server.stop();
}

/// Where the kernel tells nothing, it is looked again and again while somebody is there.
#[cfg(feature = "faults")]
#[test]
fn without_the_kernels_help_it_is_looked_while_somebody_asks() {
    let bench = Bench::new();
    let server = bench.serve_with(&[("WB_ABSENT", "inotify")]);
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.write("guide.md", MORE);
    told(&bench, "guide.md");
    assert_eq!(kept(&bench, &topic)["state"], "shifted");
    server.stop();
}

#[test]
fn a_broken_repository_is_looked_at_again_when_it_is_mended() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let index = bench.top.join(".git/index");
    let whole = std::fs::read(&index).unwrap();
    std::fs::write(&index, "broken").unwrap();
    bench.write("notes.md", "# Notes\n\nEdited.\n");
    assert!(!within(Duration::from_millis(700), || !events(&bench, "source_changed").is_empty()));
    std::fs::write(&index, whole).unwrap();
    told(&bench, "notes.md");
    server.stop();
}

#[test]
fn a_commit_is_a_baseline_and_an_edit_after_it_is_none() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.write("guide.md", MORE);
    commit(&bench, "one");
    let one = bench.git(&["rev-parse", "HEAD:guide.md"]);
    until("one is a baseline", || kept_in(&bench, &topic, &one)["working"] == 0);
    bench.write("guide.md", MORE.replace("second", "last"));
    let edited = kept(&bench, &topic);
    assert_eq!((&edited["state"], &edited["working"]), (&json!("edited"), &json!(1)));
    commit(&bench, "two");
    until("two is a baseline", || kept(&bench, &topic)["working"] == 0);
    server.stop();
}
