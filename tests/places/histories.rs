//! Git operations while Topics are open: merges, rebases, files that disappear and come back,
//! unusual checkouts. Topics stay right, or explain what happened.

use serde_json::{Value, json};

use super::{events, kept, ready, shown, told, words};
use crate::support::{Bench, Topic, git, try_git, until};

const FIRST: &str = "# Guide\n\nThe first line.\n\nThe second line.\n";

fn commit(bench: &Bench, text: &str) {
    bench.write("guide.md", text);
    bench.git(&["commit", "-q", "-a", "-m", "by hand"]);
}

/// Waits until a Topic's words are placed in the committed text; returns them, and its state.
#[track_caller]
fn settled(bench: &Bench, topic: &Topic) -> (String, String) {
    told(bench, &topic.path);
    until("it is a baseline", || kept(bench, topic)["working"] == 0);
    let place = kept(bench, topic);
    let state = place["state"].as_str().unwrap().to_owned();
    if place["start"].is_null() {
        (String::new(), state)
    } else {
        (words(bench, topic, &place), state)
    }
}

/// Each side changes what is before and after the words, and one of them the words.
#[test]
fn a_merge_brings_both_sides() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.git(&["switch", "-q", "-c", "side"]);
    commit(&bench, &FIRST.replace("second line", "second, much better line"));
    bench.git(&["switch", "-q", "main"]);
    commit(&bench, &FIRST.replace("# Guide\n", "# Guide\n\nA new beginning of it.\n"));
    bench.git(&["merge", "-q", "--no-edit", "side"]);
    until("both are there", || bench.read("guide.md").contains("much better"));
    let (quote, _) = settled(&bench, &topic);
    assert_eq!(quote, "The second, much better line.");
    // A merge that stops in conflict: its marks are an edit that is not committed.
    bench.git(&["switch", "-q", "-c", "again", "HEAD~1"]);
    commit(&bench, &bench.read("guide.md").replace("second", "other"));
    bench.git(&["switch", "-q", "main"]);
    let (code, _) = try_git(&bench.top, &["merge", "-q", "again"]);
    assert_ne!(code, 0, "it is in conflict");
    assert!(bench.read("guide.md").contains("<<<<<<<"));
    told(&bench, "guide.md");
    let place = kept(&bench, &topic);
    assert_eq!(place["working"], 1, "{place}");
    bench.git(&["merge", "--abort"]);
    until("it is as it was", || {
        let place = shown(&bench, &topic);
        !place["start"].is_null() && words(&bench, &topic, &place) == quote
    });
    server.stop();
}

/// The words are in a commit that a rebase takes away, stops at, and makes anew on other ground.
#[test]
fn a_rebase_that_stops_half_way_loses_no_words() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let long =
        |it: &str| format!("{FIRST}\nA long sentence of ours, which {it} nobody else wrote.\n");
    bench.git(&["switch", "-q", "-c", "ours"]);
    commit(&bench, &long("certainly"));
    bench.write("notes.md", "# Notes\n\nOurs.\n");
    bench.git(&["commit", "-q", "-a", "-m", "notes"]);
    told(&bench, "guide.md");
    let topic =
        bench.topic("guide.md", "A long sentence of ours, which certainly nobody else wrote.", "x");
    bench.git(&["switch", "-q", "main"]);
    commit(&bench, &format!("{FIRST}\nA long sentence of others.\n"));
    bench.write("notes.md", "# Notes\n\nTheirs.\n");
    bench.git(&["commit", "-q", "-a", "-m", "their notes"]);
    bench.git(&["switch", "-q", "ours"]);
    until("it is there", || settled(&bench, &topic).1 == "exact");
    // Stops twice: first the words are not there at all.
    try_git(&bench.top, &["rebase", "-q", "main"]);
    assert!(bench.read("guide.md").contains("<<<<<<<"));
    told(&bench, "guide.md");
    kept(&bench, &topic);
    let both = format!(
        "{FIRST}\nA long sentence of others.\n\n\
         A long sentence of ours, which certainly nobody else wrote.\n"
    );
    bench.write("guide.md", &both);
    bench.git(&["add", "-A"]);
    try_git(&bench.top, &["-c", "core.editor=true", "rebase", "--continue"]);
    told(&bench, "guide.md");
    bench.write("notes.md", "# Notes\n\nBoth.\n");
    bench.git(&["add", "-A"]);
    bench.git(&["-c", "core.editor=true", "rebase", "--continue"]);
    bench.git(&["reflog", "expire", "--expire=now", "--all"]);
    bench.git(&["gc", "-q", "--prune=now"]);
    until("it is on the new ground", || bench.git(&["status", "-sb"]) == "## ours");
    let (quote, state) = settled(&bench, &topic);
    assert_eq!(quote, "A long sentence of ours, which certainly nobody else wrote.", "{state}");
    server.stop();
}

/// The branch that is switched to has something like the words in their place. Fails with
/// `WB_WITHOUT=doubt`.
#[test]
fn what_was_found_in_doubt_is_left_for_the_words_themselves() {
    let bench = Bench::new();
    let ours = "A long sentence of ours, which certainly nobody else wrote.";
    bench.git(&["switch", "-q", "-c", "ours"]);
    commit(&bench, &format!("{FIRST}\n{ours}\n"));
    bench.git(&["switch", "-q", "main"]);
    commit(&bench, &format!("{FIRST}\nA long sentence of others.\n"));
    bench.git(&["switch", "-q", "ours"]);
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", ours, "x");
    bench.git(&["switch", "-q", "main"]);
    let (_, state) = settled(&bench, &topic);
    assert_eq!(state, "rewritten");
    // Nobody has looked: it stays in doubt, whatever else is changed.
    commit(&bench, &format!("# New\n\n{FIRST}\nA long sentence of others.\n"));
    assert_eq!(settled(&bench, &topic).1, "rewritten");
    let both = format!("# New\n\n{FIRST}\nA long sentence of others.\n\n{ours}\n");
    try_git(&bench.top, &["merge", "-q", "ours"]);
    commit(&bench, &both);
    until("the words themselves are found", || settled(&bench, &topic).0 == ours);
    assert_ne!(settled(&bench, &topic).1, "rewritten");
    server.stop();
}

#[test]
fn a_file_that_is_deleted_and_restored_has_its_topics_back() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    for is_committed in [false, true] {
        bench.git(&["rm", "-q", "guide.md"]);
        if is_committed {
            bench.git(&["commit", "-q", "-m", "gone"]);
        }
        let count = events(&bench, "source_changed").len();
        let is_gone = |it: &Value| it["path"] == "guide.md" && it["blob"].is_null();
        until("it is gone", || {
            events(&bench, "source_changed").last().is_some_and(is_gone) || count == 0
        });
        // The Topic is listed with its words, and whoever opens its Source is told.
        let listed = bench.get("/api/topics?status=open").ok();
        assert_eq!(listed["items"][0]["anchor"]["quote"], "The second line.");
        assert_eq!(bench.get("/api/source?path=guide.md").status, 404);
        assert_eq!(bench.get(&format!("/api/topics/{}", topic.id)).status, 200);
        let selection = json!({"selection": {"quote": "x"}});
        let refused = bench.post(&format!("/api/topics/{}/anchor", topic.id), selection);
        assert_eq!(refused.status, 404, "{refused:?}");
        if is_committed {
            bench.git(&["revert", "--no-edit", "HEAD"]);
        } else {
            bench.git(&["checkout", "-q", "HEAD", "--", "guide.md"]);
        }
        until("it is back", || shown(&bench, &topic)["state"] == "exact");
    }
    commit(&bench, &FIRST.replace("second", "good second"));
    assert_eq!(settled(&bench, &topic).0, "The good second line.");
    server.stop();
}

/// Has git write the working file again, by the attributes that count now.
#[track_caller]
fn checked_out_anew(bench: &Bench) {
    let count = || events(bench, "source_changed").len();
    let before = count();
    std::fs::remove_file(bench.top.join("guide.md")).unwrap();
    until("it is gone", || count() > before);
    bench.git(&["checkout", "-q", "--", "guide.md"]);
}

/// What git writes into the working tree is what people read; the version is of those bytes, of
/// which git has no copy. Fails with `WB_WITHOUT=converted_texts`.
#[test]
fn line_ends_and_filters_that_come_later_change_no_words() {
    let bench = Bench::new();
    bench.git(&["config", "filter.shout.clean", "tr A-Z a-z"]);
    bench.git(&["config", "filter.shout.smudge", "tr a-z A-Z"]);
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.write(".gitattributes", "*.md text eol=crlf\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "line ends"]);
    checked_out_anew(&bench);
    assert!(bench.read("guide.md").contains("\r\n"));
    assert_eq!(settled(&bench, &topic), ("The second line.".to_owned(), "shifted".to_owned()));
    commit(&bench, "# Guide\r\n\r\nNew.\r\n\r\nThe second line.\r\n");
    assert_eq!(settled(&bench, &topic).0, "The second line.");
    // A filter is never run by the server: what the user checked out is what there is.
    bench.write(".gitattributes", "*.md filter=shout\n");
    bench.git(&["commit", "-q", "-a", "-m", "a filter"]);
    checked_out_anew(&bench);
    assert!(bench.read("guide.md").contains("THE SECOND LINE."));
    told(&bench, "guide.md");
    let state = kept(&bench, &topic)["state"].as_str().unwrap().to_owned();
    assert!(["rewritten", "orphaned"].contains(&state.as_str()), "{state}");
    let shown = bench.get("/api/topics?source_path=guide.md").ok();
    assert_eq!(shown["items"][0]["anchor"]["origin"]["quote"], "The second line.");
    server.stop();
}

/// The pointer of a large file is a text of three lines; it is a Source like any other.
#[test]
fn a_pointer_in_place_of_a_text_orphans_and_the_text_brings_back() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
    commit(&bench, pointer);
    assert_eq!(settled(&bench, &topic).1, "orphaned");
    commit(&bench, &format!("{FIRST}\nMore.\n"));
    assert_eq!(settled(&bench, &topic).0, "The second line.");
    server.stop();
}

/// Puts another checkout of the site's repository in place of the first one.
fn replace_checkout(bench: &Bench, make: impl FnOnce(&Bench)) {
    std::fs::rename(&bench.top, bench.base.join("full")).unwrap();
    make(bench);
    for text in ["data", "docs"] {
        std::fs::create_dir_all(bench.top.join(text)).unwrap();
    }
}

#[test]
fn a_shallow_clone_is_a_site_like_another() {
    let bench = Bench::new();
    commit(&bench, &format!("{FIRST}\nMore.\n"));
    replace_checkout(&bench, |bench| {
        let from = format!("file://{}", bench.base.join("full"));
        git(&bench.base, &["clone", "-q", "--depth=1", &from, bench.top.as_str()]);
    });
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    let full = bench.base.join("full");
    for turn in 0..3 {
        std::fs::write(full.join("guide.md"), format!("# Turn {turn}\n\n{FIRST}")).unwrap();
        git(&full, &["commit", "-q", "-a", "-m", "there"]);
    }
    // What was seen last is forgotten: the new tip has no parent here.
    bench.git(&["fetch", "-q", "--depth=1", "origin", "main"]);
    bench.git(&["reset", "-q", "--hard", "FETCH_HEAD"]);
    bench.git(&["reflog", "expire", "--expire=now", "--all"]);
    bench.git(&["gc", "-q", "--prune=now"]);
    until("it is followed", || {
        let place = shown(&bench, &topic);
        place["state"] == "shifted" && words(&bench, &topic, &place) == "The second line."
    });
    let history = bench.get("/api/source/history?path=guide.md").ok();
    assert_eq!(history["is_shallow"], true);
    server.stop();
}

#[test]
fn a_linked_working_tree_notices_its_own_branch() {
    let bench = Bench::new();
    replace_checkout(&bench, |bench| {
        let full = bench.base.join("full");
        git(&full, &["switch", "-q", "--detach"]);
        git(&full, &["worktree", "add", "-q", bench.top.as_str(), "main"]);
    });
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    commit(&bench, &FIRST.replace("# Guide\n", "# Guide\n\nNew.\n"));
    assert_eq!(settled(&bench, &topic).0, "The second line.");
    // Somebody moves the branch from the other one: the files here are edits then.
    git(&bench.base.join("full"), &["update-ref", "refs/heads/main", "main~1"]);
    until("it is told", || told(&bench, "guide.md")["commit"].is_null());
    bench.git(&["reset", "-q", "--hard"]);
    until("it is as committed", || !told(&bench, "guide.md")["commit"].is_null());
    until("it is where it was", || shown(&bench, &topic)["state"] == "exact");
    server.stop();
}

#[test]
fn what_a_sparse_checkout_leaves_out_is_no_source_and_comes_back_with_its_topics() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("docs/deep.md", "Far below.", "x");
    bench.git(&["sparse-checkout", "set", "--no-cone", "/*", "!/docs/"]);
    assert!(!bench.top.join("docs/deep.md").exists());
    until("it is gone", || bench.get("/api/source?path=docs/deep.md").status == 404);
    let refused = bench.get("/api/source?path=docs/deep.md");
    let hint = refused.body["error"]["hint"].as_str().unwrap_or_default().to_owned();
    assert!(hint.contains("sparse"), "{refused:?}");
    assert_eq!(bench.get(&format!("/api/topics/{}", topic.id)).status, 200);
    bench.git(&["sparse-checkout", "disable"]);
    until("it is back", || bench.get("/api/source?path=docs/deep.md").status == 200);
    assert_eq!(shown(&bench, &topic)["state"], "exact");
    server.stop();
}

/// A Source becomes a link, and a folder becomes a repository of its own.
#[test]
fn what_becomes_a_link_or_a_submodule_is_gone_and_its_topics_say_so() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let linked = bench.topic("guide.md", "The second line.", "x");
    let inner = bench.topic("docs/deep.md", "Far below.", "y");
    std::fs::remove_file(bench.top.join("guide.md")).unwrap();
    std::os::unix::fs::symlink("notes.md", bench.top.join("guide.md")).unwrap();
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "a link"]);
    let refused = bench.get("/api/source?path=guide.md");
    assert!([400, 404].contains(&refused.status), "{refused:?}");
    bench.git(&["rm", "-q", "-r", "docs"]);
    std::fs::create_dir_all(bench.top.join("docs")).unwrap();
    git(&bench.top.join("docs"), &["init", "-q"]);
    std::fs::write(bench.top.join("docs/deep.md"), "# Deep\n\nFar below.\n").unwrap();
    git(&bench.top.join("docs"), &["add", "-A"]);
    git(&bench.top.join("docs"), &["commit", "-q", "-m", "inner"]);
    bench.git(&["-c", "advice.addEmbeddedRepo=false", "add", "-A"]);
    bench.git(&["commit", "-q", "-m", "a submodule"]);
    let gone = |path: &str| {
        let told = events(&bench, "source_changed");
        told.iter().rfind(|it| it["path"] == path).is_some_and(|it| it["blob"].is_null())
    };
    until("both are gone", || gone("guide.md") && gone("docs/deep.md"));
    let refused = bench.get("/api/source?path=docs/deep.md");
    assert_eq!(refused.status, 404, "{refused:?}");
    for topic in [&linked, &inner] {
        assert_eq!(bench.get(&format!("/api/topics/{}", topic.id)).status, 200);
    }
    bench.git(&["reset", "-q", "--hard", "HEAD~2"]);
    std::fs::remove_dir_all(bench.top.join("docs/.git")).unwrap();
    bench.git(&["reset", "-q", "--hard"]);
    until("the file is back", || shown(&bench, &linked)["state"] == "exact");
    server.stop();
}
