//! The text from which a Topic is placed: the committed one, however it was committed.

use serde_json::{Value, json};

use super::{kept, kept_in, ready, rows, shown, told, words};
use crate::support::{Bench, Server, Topic, until};

fn commit(bench: &Bench, text: &str) -> String {
    bench.write("guide.md", text);
    bench.git(&["commit", "-q", "-a", "-m", "by hand"]);
    bench.git(&["rev-parse", "HEAD:guide.md"])
}

/// Waits until the words of a Topic are placed from the present text.
#[track_caller]
fn based(bench: &Bench, topic: &Topic) -> Value {
    told(bench, &topic.path);
    until("it is a baseline", || kept(bench, topic)["working"] == 0);
    kept(bench, topic)
}

#[track_caller]
fn quote(bench: &Bench, topic: &Topic) -> String {
    let shown = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    shown["topic"]["anchor"]["quote"].as_str().unwrap().to_owned()
}

/// Git forgets what was committed last: nothing may depend on it.
#[test]
fn a_branch_that_is_moved_back_takes_the_baselines_with_it() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    let first = bench.read("guide.md");
    commit(&bench, &first.replace("second line", "second line, in quite other words"));
    assert_eq!(based(&bench, &topic)["state"], "edited");
    assert_eq!(quote(&bench, &topic), "The second line, in quite other words.");
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    bench.git(&["reflog", "expire", "--expire=now", "--all"]);
    bench.git(&["gc", "-q", "--prune=now"]);
    until("the earlier words are the baseline again", || {
        quote(&bench, &topic) == "The second line."
    });
    commit(&bench, &first.replace("The second line.", "The second good line."));
    let place = based(&bench, &topic);
    assert_eq!(place["state"], "edited", "{place}");
    assert_eq!(words(&bench, &topic, &place), "The second good line.");
    server.stop();
}

/// Somebody copies what an agent proposes and commits it: it is their text now.
#[test]
fn a_proposed_text_that_is_committed_by_hand_is_a_baseline() {
    let bench = Bench::new();
    let script = "sed 's/The first line/The much better line/' \"$root/$path\" | propose";
    let fields = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";
    bench.topic_kind("rewrite", fields, script);
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The first line.", "x");
    let aside = bench.topic("guide.md", "The second line.", "y");
    let proposal = bench.proposal("rewrite", &topic);
    let text = proposal["text"].as_str().unwrap();
    // As long as it is in the working tree only it counts for nothing, as any other text.
    bench.write("guide.md", text);
    told(&bench, "guide.md");
    until("it is placed", || kept(&bench, &aside)["working"] == 1);
    commit(&bench, text);
    based(&bench, &aside);
    let prefix = |topic: &Topic| {
        let shown = bench.get(&format!("/api/topics/{}", topic.id)).ok();
        shown["topic"]["anchor"]["prefix"].as_str().unwrap().to_owned()
    };
    until("the surroundings are those of the commit", || {
        prefix(&aside).contains("The much better line.")
    });
    until("so are the words", || quote(&bench, &topic) == "The much better line.");
    server.stop();
}

/// An agent hands in a text that was committed before: that takes no baseline away.
#[test]
fn a_proposal_to_go_back_leaves_the_baselines() {
    let bench = Bench::new();
    let fields = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";
    bench.topic_kind("back", fields, "propose < \"$OUT/earlier.md\"");
    let server = bench.serve();
    ready(&bench);
    let first = bench.read("guide.md");
    std::fs::write(bench.out.join("earlier.md"), &first).unwrap();
    commit(&bench, "# Guide\n\nThe first line.\n");
    told(&bench, "guide.md");
    let topic = bench.topic("guide.md", "The first line.", "x");
    commit(&bench, &first);
    based(&bench, &topic);
    let lost = bench.topic("guide.md", "The second line.", "y");
    commit(&bench, "# A guide\n\nThe first line.\n");
    told(&bench, "guide.md");
    assert_eq!(kept(&bench, &lost)["state"], "orphaned");
    let proposal = bench.proposal("back", &topic);
    assert_eq!(proposal["text"], first.as_str());
    let fate = proposal["fate"].as_array().unwrap().clone();
    assert_eq!(fate[0]["after"]["state"], "exact", "it comes back: {fate:?}");
    commit(&bench, "# Guide\n\nThe first line.\n\nThe second long line.\n");
    let place = based(&bench, &lost);
    assert_eq!(words(&bench, &lost, &place), "The second long line.", "{place}");
    server.stop();
}

/// Fails with `WB_WITHOUT=orphans_again`.
#[test]
fn a_proposal_brings_back_words_that_were_lost() {
    let bench = Bench::new();
    let fields = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";
    bench.topic_kind("back", fields, "propose < \"$OUT/new.md\"");
    let text = "# Guide\n\nThe first line.\n\nThe crew stops all work when heavy rain falls.\n";
    bench.write("guide.md", text);
    bench.git(&["commit", "-q", "-a", "-m", "rain"]);
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The first line.", "x");
    let lost = bench.topic("guide.md", "The crew stops all work when heavy rain falls.", "y");
    commit(&bench, "# Guide\n\nThe first line.\n");
    told(&bench, "guide.md");
    assert_eq!(kept(&bench, &lost)["state"], "orphaned");
    let new = "# Guide\n\nThe best line.\n\nThe crew stops its work when very heavy rain falls.\n";
    std::fs::write(bench.out.join("new.md"), new).unwrap();
    let proposal = bench.proposal("back", &topic);
    let after = &proposal["fate"][0]["after"];
    assert_eq!(after["state"], "edited", "{after}");
    bench.send(&bench.approval(&proposal)).ok();
    let place = shown(&bench, &lost);
    let want = "The crew stops its work when very heavy rain falls.";
    assert_eq!(words(&bench, &lost, &place), want);
    server.stop();
}

/// A person points at a sentence that they are writing; its beginning is committed already.
#[test]
fn words_that_are_not_committed_are_not_taken_back_to_what_is() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let first = bench.read("guide.md");
    let long = "The second line, of which nobody has committed more than the beginning.";
    let draft = first.replace("The second line.", long);
    bench.write("guide.md", &draft);
    told(&bench, "guide.md");
    let topic = bench.topic("guide.md", long, "x");
    for turn in 0..2 {
        bench.write("guide.md", draft.replace("first", &format!("first {turn}")));
        told(&bench, "guide.md");
        let place = kept(&bench, &topic);
        assert_eq!(words(&bench, &topic, &place), long, "{place}");
    }
    commit(&bench, &draft.replace("first", "very first"));
    let place = based(&bench, &topic);
    assert_eq!(words(&bench, &topic, &place), long);
    server.stop();
}

/// Two Topics come from two versions. Fails with `WB_WITHOUT=placed_apart`.
#[test]
fn topics_from_different_versions_do_not_get_the_same_words() {
    let bench = Bench::new();
    let rain = "The crew stops all work on the bridge when heavy rain falls in the valley.";
    let wind = "The team pauses each task at a tower when strong wind blows over the hills.";
    let both = "The team pauses all work at the bridge when heavy wind falls over the hills.";
    bench.write("guide.md", format!("# Guide\n\n{rain}\n\nThe end.\n"));
    bench.git(&["commit", "-q", "-a", "-m", "rain"]);
    let server = bench.serve();
    ready(&bench);
    let one = bench.topic("guide.md", rain, "x");
    commit(&bench, &format!("# Guide\n\nThe end.\n\n{wind}\n"));
    told(&bench, "guide.md");
    assert_eq!(kept(&bench, &one)["state"], "orphaned");
    let other = bench.topic("guide.md", wind, "y");
    commit(&bench, &format!("# Guide\n\nThe end.\n\n{both}\n"));
    told(&bench, "guide.md");
    let places = [kept(&bench, &one), kept(&bench, &other)];
    let placed = places.iter().filter(|it| !it["start"].is_null()).count();
    assert_eq!(placed, 1, "{places:?}");
    assert!(places.iter().any(|it| it["method"] == "claimed"), "{places:?}");
    server.stop();
}

/// The same words under two Topics, which come from two versions: they may share them.
#[test]
fn topics_that_shared_words_may_share_them_again() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let first = bench.read("guide.md");
    let one = bench.topic("guide.md", "The second line.", "x");
    let other = bench.topic("guide.md", "The second", "y");
    // One of them is put elsewhere, and back: from then on it comes from another version.
    commit(&bench, "# Guide\n\nThe first line.\n");
    told(&bench, "guide.md");
    kept(&bench, &one);
    kept(&bench, &other);
    let body = json!({"selection": {"quote": "The first line."}});
    bench.post(&format!("/api/topics/{}/anchor", one.id), body).ok();
    commit(&bench, &first);
    told(&bench, "guide.md");
    let body = json!({"selection": {"quote": "The second line."}});
    bench.post(&format!("/api/topics/{}/anchor", one.id), body).ok();
    commit(&bench, &first.replace("Guide", "The guide"));
    let places = [based(&bench, &one), based(&bench, &other)];
    assert_eq!(words(&bench, &one, &places[0]), "The second line.");
    assert_eq!(words(&bench, &other, &places[1]), "The second");
    server.stop();
}

/// Words that grow beyond what a quote may have keep their place, and hold up nobody else.
#[test]
fn a_passage_that_outgrows_a_quote_keeps_its_place() {
    let bench = Bench::new();
    let long: String = (0..9_000).map(|it| format!("w{it} ")).collect();
    let long = long.trim();
    bench.write("guide.md", format!("# Guide\n\n{long}\n\nThe end.\n"));
    bench.git(&["commit", "-q", "-a", "-m", "long"]);
    let server = bench.serve();
    ready(&bench);
    let blob = bench.get("/api/source?path=guide.md").ok()["blob"].clone();
    let (start, end) = (9, 9 + long.len());
    assert!(long.len() < 64 * 1024 && long.len() > 50 * 1024);
    let selection = json!({"blob": blob, "start": start, "end": end});
    let body = json!({"source_path": "guide.md", "selection": selection, "body": "x"});
    let id = bench.post("/api/topics", body).ok()["id"].as_str().unwrap().to_owned();
    let topic = Topic { id, path: "guide.md".to_owned() };
    let aside = bench.topic("guide.md", "The end.", "y");
    let more: String = (0..3_000).map(|it| format!("more{it} ")).collect();
    commit(&bench, &format!("# Guide\n\n{}\n\nThe end.\n", long.replace("w5000 ", &more)));
    assert_eq!(based(&bench, &aside)["state"], "shifted");
    assert!(!based(&bench, &topic)["start"].is_null());
    server.stop();
}

/// A server is killed after it has noticed a commit and before its Topics are placed. Fails with
/// `WB_WITHOUT=catching_up`.
#[cfg(feature = "faults")]
#[test]
fn a_server_that_is_killed_while_it_places_leaves_nothing_behind() {
    let bench = Bench::new();
    let topic = {
        let server = bench.serve();
        ready(&bench);
        let topic = bench.topic("guide.md", "The second line.", "x");
        server.stop();
        topic
    };
    let armed = bench.base.join("armed");
    std::fs::write(&armed, "").unwrap();
    let text = bench.read("guide.md").replace("The first", "A new beginning. The first");
    let blob = commit(&bench, &text);
    let env = [("WB_CRASH_AT", "change_told"), ("WB_CRASH_WHEN", armed.as_str())];
    let mut server: Server = bench.start(&env);
    server.wait();
    let seen = || !rows(&bench, &at(&topic, &blob)).is_empty();
    assert!(!seen(), "nothing was placed");
    let server = bench.serve();
    ready(&bench);
    until("it is placed", seen);
    assert_eq!(kept_in(&bench, &topic, &blob)["working"], 0);
    server.stop();
}

/// The commit that was seen last is gone: nothing can be compared with it.
#[test]
fn what_cannot_be_compared_is_placed_all_the_same() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    let first = bench.read("guide.md");
    commit(&bench, &first.replace("Guide", "A guide"));
    based(&bench, &topic);
    server.stop();
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let blob = commit(&bench, &first.replace("Guide", "The other guide"));
    bench.git(&["reflog", "expire", "--expire=now", "--all"]);
    bench.git(&["gc", "-q", "--prune=now"]);
    let server = bench.serve();
    ready(&bench);
    until("it is placed", || !rows(&bench, &at(&topic, &blob)).is_empty());
    let place = kept(&bench, &topic);
    assert_eq!((&place["state"], &place["working"]), (&json!("shifted"), &json!(0)));
    server.stop();
}

fn at(topic: &Topic, blob: &str) -> String {
    let of = format!("topic_id = '{}' AND blob = '{blob}'", topic.id);
    format!("SELECT json_object('s', state) FROM placements WHERE {of}")
}

/// A rebase checks out a commit for a moment. Fails with `WB_WITHOUT=busy`.
#[test]
fn what_a_rebase_stops_at_is_no_baseline() {
    let bench = Bench::new();
    let first = bench.read("guide.md");
    commit(&bench, "# Guide\n\nNothing that was there before.\n");
    commit(&bench, &format!("On top.\n\n{first}"));
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    let stop_first = "sequence.editor=sed -i '1s/^pick/edit/'";
    bench.git(&["-c", stop_first, "rebase", "-q", "-i", "HEAD~2"]);
    assert_eq!((bench.read("guide.md").contains("second"), bench.status().as_str()), (false, ""));
    told(&bench, "guide.md");
    let place = kept(&bench, &topic);
    assert_eq!((&place["state"], &place["working"]), (&json!("orphaned"), &json!(1)), "{place}");
    bench.git(&["-c", "core.editor=true", "rebase", "--continue"]);
    let place = based(&bench, &topic);
    assert_eq!(words(&bench, &topic, &place), "The second line.");
    // The same text in a commit that nothing is in the middle of is a baseline.
    bench.git(&["checkout", "-q", "--detach", "HEAD~1"]);
    assert_eq!(based(&bench, &topic)["state"], "orphaned");
    server.stop();
}
