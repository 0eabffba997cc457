//! A Source that changes under an open proposal.

use serde_json::{Value, json};

use super::{bench, commit, decide, declare, hint, id_of, look, propose, reworked};
use crate::support::{Bench, until};

/// Changes the other line of the guide by hand, and commits it.
fn other_line(bench: &Bench) {
    let text = bench.read("guide.md").replace("second line", "second line by hand");
    commit(bench, "guide.md", &text);
}

#[test]
fn what_can_be_merged_is_a_new_revision_that_needs_an_approval_of_its_own() {
    let bench = bench();
    let server = bench.serve();
    let aside = bench.topic("guide.md", "The second line.", "And this?");
    let (topic, shown) = propose(&bench);
    other_line(&bench);
    // Whoever approves what they saw is told where to look now.
    let refused = bench.send(&bench.approval(&shown));
    assert!(["stale_base", "superseded"].contains(&refused.code()), "{refused:?}");
    let now = look(&bench, id_of(&shown));
    assert_eq!(now["proposal"]["status"], "superseded");
    let later = now["proposal"]["superseded_by"].as_str().unwrap();
    assert!(hint(&refused).contains(later), "{refused:?}");
    assert_eq!(bench.commits().len(), 2, "nothing was committed for anybody");
    assert_eq!(bench.send(&bench.approval(&shown)).refusal(), (409, "superseded"));
    let merged = look(&bench, later);
    let want = "# Guide\n\nThe best line.\n\nThe second line by hand.\n";
    assert_eq!(merged["text"], want);
    let proposal = &merged["proposal"];
    assert_eq!(proposal["origin"]["how"], "merged");
    assert_eq!(proposal["origin"]["made_by"], "system");
    assert_eq!(
        (&proposal["job_id"], &proposal["summary"]),
        (&shown["proposal"]["job_id"], &json!("better"))
    );
    assert_eq!(merged["base"]["is_current"], true);
    assert_eq!(merged["fate"][0]["topic_id"], aside.id);
    assert_eq!(merged["fate"][0]["after"]["state"], "shifted");
    // The digest of the earlier text does not pass for this one.
    let mut swapped = merged.clone();
    swapped["proposal"]["text_digest"] = shown["proposal"]["text_digest"].clone();
    assert_eq!(bench.send(&bench.approval(&swapped)).refusal(), (409, "text_changed"));
    let done = bench.send(&bench.approval(&merged)).ok();
    assert_eq!(bench.read("guide.md"), want);
    assert_eq!(done["still_open"][0]["id"], aside.id);
    let author = bench.git(&["log", "-1", "--format=%an%n%B"]);
    assert!(author.starts_with("Test Agent\n") && !author.contains("Co-authored"), "{author}");
    let shown = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    assert_eq!(shown["topic"]["status"], "incorporated");
    server.stop();
}

/// Where an agent put a Topic is where it is in the merged text too, and in an edited one, as long
/// as the words that it named stand there. Fails with `WB_WITHOUT=carried_anchors`.
#[test]
fn what_an_agent_said_of_other_topics_is_carried_along() {
    let bench = bench();
    let agent = "propose --anchors \"$OUT/anchors.json\" < \"$OUT/new.md\"";
    declare(&bench, "rewrite", agent);
    let server = bench.serve();
    let aside = bench.topic("guide.md", "The second line.", "And this?");
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let new = "# Guide\n\nThe best line.\n\nWhat shines is gold, so they say.\n";
    let quote = "What shines is gold, so they say.";
    let start = new.find(quote).unwrap();
    let end = start + quote.len();
    let anchor = json!({"topic_id": aside.id, "start": start, "end": end, "quote": quote});
    std::fs::write(bench.out.join("new.md"), new).unwrap();
    std::fs::write(bench.out.join("anchors.json"), json!([anchor]).to_string()).unwrap();
    let shown = bench.proposal("rewrite", &topic);
    let put = |shown: &Value| {
        let after = &shown["fate"][0]["after"];
        assert_eq!((&after["state"], &after["method"]), (&json!("rewritten"), &json!("agent")));
        assert!(after["decided_by"].as_str().unwrap().starts_with("job:"), "{after}");
        let at = |name: &str| usize::try_from(after[name].as_u64().unwrap()).unwrap();
        shown["text"].as_str().unwrap()[at("start")..at("end")].to_owned()
    };
    assert_eq!(put(&shown), quote);
    let text = bench.read("guide.md").replace("# Guide", "# The guide of all guides");
    commit(&bench, "guide.md", &text);
    let now = look(&bench, id_of(&shown));
    let merged = look(&bench, now["proposal"]["superseded_by"].as_str().unwrap());
    assert_eq!(merged["proposal"]["origin"]["how"], "merged");
    assert_eq!(put(&merged), quote);
    let text = merged["text"].as_str().unwrap().replace("best", "very best");
    let body = json!({"text": text, "text_digest": merged["proposal"]["text_digest"]});
    let edited = decide(&bench, id_of(&merged), "edit", body).ok();
    let edited = look(&bench, edited["id"].as_str().unwrap());
    assert_eq!(put(&edited), quote);
    // Where the words are not those any more, the agent has said nothing.
    let text = edited["text"].as_str().unwrap().replace("gold, so they say", "silver");
    let body = json!({"text": text, "text_digest": edited["proposal"]["text_digest"]});
    let other = decide(&bench, id_of(&edited), "edit", body).ok();
    let other = look(&bench, other["id"].as_str().unwrap());
    assert_eq!(other["fate"][0]["after"]["decided_by"], "system");
    server.stop();
}

/// Nobody has to look: a commit from outside is noticed, and what is open follows it.
#[test]
fn a_commit_from_outside_is_followed_at_once() {
    let bench = bench();
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    other_line(&bench);
    until("there is a merged revision", || {
        // A list asks nobody to merge.
        let page = bench.get("/api/proposals?source_path=guide.md").ok();
        let items = page["items"].as_array().unwrap();
        items.iter().any(|it| it["status"] == "open" && it["origin"]["how"] == "merged")
    });
    let refused = bench.send(&bench.approval(&shown));
    assert_eq!(refused.refusal(), (409, "superseded"));
    server.stop();
}

/// Fails with `WB_WITHOUT=moved_base`.
#[test]
fn a_look_is_enough_to_notice() {
    let bench = bench();
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    // Uncommitted work is nobody's base: nothing is merged with it.
    let text = bench.read("guide.md").replace("second line.", "second line, not yet.");
    bench.write("guide.md", &text);
    assert_eq!(look(&bench, id_of(&shown))["approvable"]["code"], "source_dirty");
    bench.git(&["commit", "-qam", "now"]);
    let seen = look(&bench, id_of(&shown));
    assert_eq!(seen["proposal"]["status"], "superseded");
    assert_eq!(seen["approvable"]["code"], "superseded");
    let later = look(&bench, seen["proposal"]["superseded_by"].as_str().unwrap());
    assert_eq!(
        (&later["approvable"]["ok"], &later["proposal"]["revision_number"]),
        (&json!(true), &json!(2))
    );
    // While git is in the middle of something nothing is merged.
    std::fs::write(bench.top.join(".git/MERGE_HEAD"), bench.commits()[1].clone() + "\n").unwrap();
    let text = bench.read("guide.md").replace("second line", "second line by hand");
    bench.write("guide.md", &text);
    bench.git(&["add", "guide.md"]);
    let tree = bench.git(&["write-tree"]);
    let made = bench.git(&["commit-tree", &tree, "-p", "HEAD", "-m", "by hand"]);
    bench.git(&["update-ref", "HEAD", &made]);
    let seen = look(&bench, id_of(&later));
    assert_eq!(
        (&seen["proposal"]["status"], &seen["approvable"]["code"]),
        (&json!("open"), &json!("merge_in_progress"))
    );
    std::fs::remove_file(bench.top.join(".git/MERGE_HEAD")).unwrap();
    assert_eq!(look(&bench, id_of(&later))["proposal"]["status"], "superseded");
    server.stop();
}

#[test]
fn an_edit_settles_a_conflict_with_its_own_lines() {
    let bench = bench();
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    let id = id_of(&shown);
    let by_hand = "# Guide\n\nThe first line, by hand.\n\nThe second line, by hand.\n";
    commit(&bench, "guide.md", by_hand);
    assert_eq!(look(&bench, id)["proposal"]["has_conflict"], true);
    // The same text again: the words of the proposal, on the document as it is now.
    let body = json!({
        "text": shown["text"], "text_digest": shown["proposal"]["text_digest"],
    });
    let made = decide(&bench, id, "edit", body).ok();
    let next = look(&bench, made["id"].as_str().unwrap());
    assert_eq!(next["base"]["is_current"], true);
    assert_eq!(next["proposal"]["origin"]["how"], "edited");
    let want = by_hand.replace("The first line, by hand.", "The best line.");
    assert_eq!(next["text"], json!(want));
    bench.send(&bench.approval(&next)).ok();
    assert_eq!(bench.read("guide.md"), want);
    server.stop();
}

#[test]
fn what_is_in_conflict_is_described_and_can_be_done_again() {
    let bench = bench();
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    let id = id_of(&shown);
    commit(&bench, "guide.md", "# Guide\n\nThe first line, by hand.\n\nThe second line.\n");
    let refused = bench.send(&bench.approval(&shown));
    assert_eq!(refused.refusal(), (409, "stale_base"));
    assert!(hint(&refused).contains("request changes"), "{refused:?}");
    let seen = look(&bench, id);
    assert_eq!(
        (&seen["proposal"]["status"], &seen["proposal"]["has_conflict"]),
        (&json!("open"), &json!(true))
    );
    let conflict = &seen["conflict"];
    assert_eq!(
        (&conflict["count"], &conflict["current_sha"]),
        (&json!(1), &seen["base"]["head_blob"])
    );
    let lines = json!([{"line": 3, "base": "The first line.\n",
        "current": "The first line, by hand.\n", "proposed": "The best line.\n"}]);
    assert_eq!(conflict["shown"], lines);
    let (code, out, _) = bench.cli(&["proposal", "show", id]);
    assert!(code == 0 && out.contains("  line 3 is now:\n    The first line, by hand.\n"), "{out}");
    let listed = bench.get("/api/proposals?status=open").ok();
    assert_eq!(listed["items"][0]["has_conflict"], true);
    // The document is put back: nothing stands against it any more.
    bench.git(&["revert", "--no-edit", "HEAD"]);
    let seen = look(&bench, id);
    assert_eq!((&seen["conflict"], &seen["approvable"]["ok"]), (&Value::Null, &json!(true)));
    bench.git(&["revert", "--no-edit", "HEAD"]);
    assert_eq!(look(&bench, id)["proposal"]["has_conflict"], true);
    // The rework begins from the document as it is now.
    let next = reworked(&bench, id, "Bring both together.");
    assert_eq!(next["base"]["is_current"], true);
    assert!(bench.left("prompt").contains("The Source has changed since that text was made"));
    let earlier: Value = serde_json::from_str(&bench.left("earlier.json")).unwrap();
    assert_eq!(earlier["conflict"]["shown"], lines);
    assert_eq!(look(&bench, id)["proposal"]["status"], "superseded");
    bench.send(&bench.approval(&next)).ok();
    server.stop();
}

#[test]
fn what_others_propose_for_a_source_is_never_lost_by_an_approval() {
    let bench = bench();
    let second = "sed 's/The second line/The other line/' \"$root/$path\" | propose";
    declare(&bench, "second", second);
    declare(&bench, "clash", "sed 's/The first line/The worst line/' \"$root/$path\" | propose");
    declare(&bench, "same", "sed 's/The first line/The best line/' \"$root/$path\" | propose");
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    let mut others = Vec::new();
    for kind in ["second", "clash", "same"] {
        let topic = bench.topic("guide.md", "The second line.", kind);
        others.push(bench.proposal(kind, &topic));
    }
    let done = bench.send(&bench.approval(&shown)).ok();
    assert_eq!(done["still_open"].as_array().unwrap().len(), 3);
    let outcomes: Vec<_> = done["followed"].as_array().unwrap().iter().collect();
    let outcome = |of: &Value| {
        let it = outcomes.iter().find(|it| it["proposal_id"] == of["proposal"]["id"]);
        it.map(|it| it["outcome"].as_str().unwrap().to_owned())
    };
    assert_eq!(outcome(&others[0]).as_deref(), Some("merged"));
    assert_eq!(outcome(&others[1]).as_deref(), Some("conflict"));
    // Another Topic whose proposal is this very text: approving it commits nothing and settles it.
    assert_eq!(outcome(&others[2]), None);
    let done = bench.send(&bench.approval(&others[2])).ok();
    assert_eq!((&done["already_committed"], bench.commits().len()), (&json!(true), 2));
    let merged = outcomes.iter().find(|it| it["outcome"] == "merged").unwrap();
    let merged = look(&bench, merged["revision_id"].as_str().unwrap());
    assert_eq!(merged["text"], "# Guide\n\nThe best line.\n\nThe other line.\n");
    bench.send(&bench.approval(&merged)).ok();
    assert_eq!((bench.commits().len(), bench.status()), (3, String::new()));
    decide(&bench, id_of(&others[1]), "reject", json!({"reason": "Taken."})).ok();
    server.stop();
}

#[test]
fn a_change_that_the_source_has_already_has_nothing_left_to_do() {
    let bench = bench();
    let server = bench.serve();
    let (topic, shown) = propose(&bench);
    commit(&bench, "guide.md", "# Guide\n\nThe best line.\n\nThe second line, too.\n");
    let seen = look(&bench, id_of(&shown));
    assert_eq!(seen["proposal"]["status"], "stale");
    assert_eq!(seen["proposal"]["reason"], "the source has all of this change already");
    assert_eq!(bench.send(&bench.approval(&shown)).refusal(), (409, "stale_base"));
    let topic = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    assert_eq!(topic["topic"]["status"], "open");
    server.stop();
}

/// Line ends and a missing last one are those of the two texts.
#[test]
fn bytes_survive_a_merge() {
    let bench = Bench::new();
    declare(&bench, "better", "sed 's/First/Best/' \"$root/$path\" | propose");
    bench.git(&["config", "core.autocrlf", "false"]);
    let text = "\u{feff}First\r\nkept\r\nLast\r\nend";
    bench.write("crlf.md", text);
    bench.git(&["add", "crlf.md"]);
    bench.git(&["commit", "-qm", "crlf"]);
    let server = bench.serve();
    let topic = bench.topic("crlf.md", "First", "Better.");
    let shown = bench.proposal("better", &topic);
    commit(&bench, "crlf.md", &text.replace("Last\r\nend", "Last!\nend\u{301}"));
    let seen = look(&bench, id_of(&shown));
    let merged = look(&bench, seen["proposal"]["superseded_by"].as_str().unwrap());
    let want = "\u{feff}Best\r\nkept\r\nLast!\nend\u{301}";
    assert_eq!(merged["text"], want);
    bench.send(&bench.approval(&merged)).ok();
    assert_eq!(std::fs::read(bench.top.join("crlf.md")).unwrap(), want.as_bytes());
    assert_eq!(bench.status(), "");
    server.stop();
}

/// Who looks while another branch is checked out, and comes back, finds the text as it was.
#[test]
fn a_branch_that_is_left_and_taken_again_leaves_the_text_as_it_was() {
    let bench = bench();
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    bench.git(&["switch", "-qc", "side"]);
    other_line(&bench);
    let seen = look(&bench, id_of(&shown));
    let aside = look(&bench, seen["proposal"]["superseded_by"].as_str().unwrap());
    assert!(aside["text"].as_str().unwrap().contains("by hand"));
    bench.git(&["switch", "-q", "main"]);
    let seen = look(&bench, id_of(&aside));
    let back = look(&bench, seen["proposal"]["superseded_by"].as_str().unwrap());
    assert_eq!(back["text"], shown["text"]);
    assert_eq!(back["proposal"]["text_digest"], shown["proposal"]["text_digest"]);
    bench.send(&bench.approval(&back)).ok();
    assert_eq!(
        (bench.git(&["rev-parse", "--abbrev-ref", "HEAD"]), bench.commits().len()),
        ("main".to_owned(), 2)
    );
    server.stop();
}
