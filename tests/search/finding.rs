//! Which words find what, and the displayed snippets.

use serde_json::json;

use super::{address, found, names, ready, shown};
use crate::support::Bench;

#[test]
fn documents_topics_and_messages_are_found_by_their_words() {
    let bench = Bench::new();
    bench.write("docs/deep.md", "# Deep\n\nFar below.\n\nThe quick brown fox\njumps over.\n");
    bench.git(&["commit", "-q", "-a", "-m", "fox"]);
    let server = bench.serve();
    let topic = bench.topic("docs/deep.md", "brown fox", "Which animal\n\nIs it a zebra?");
    let body = json!({"body": "Not a zebra: a wombat."});
    bench.post(&format!("/api/topics/{}/messages", topic.id), body).ok();
    // At once, in the transaction that wrote them.
    assert_eq!(names(&bench, "wombat", &[]), ["message Which animal"]);
    assert_eq!(names(&bench, "\"a zebra\"", &[("kind", "topic")]), ["topic Which animal"]);
    ready(&bench);
    let mut all = names(&bench, "fox", &[]);
    all.sort();
    assert_eq!(all, ["source docs/deep.md", "topic Which animal"], "the quote is in its Topic");
    let source = &found(&bench, "quick JUMPS", &[])[0];
    assert_eq!(source["line"], 5);
    assert_eq!(shown(&source["snippet"]), "Deep Far below. The [quick] brown fox [jumps] over.");
    assert_eq!(
        (shown(&source["title_pieces"]).as_str(), &source["title"]),
        ("Deep", &json!("Deep"))
    );
    assert_eq!(shown(&source["path_pieces"]), "docs/deep.md");
    let message = &found(&bench, "wombat", &[])[0];
    assert_eq!(shown(&message["snippet"]), "Not a zebra: a [wombat].");
    assert_eq!((&message["sequence"], &message["status"]), (&json!(2), &json!("open")));
    assert_eq!(message["topic_id"], json!(topic.id));
    // By the words of its path.
    assert_eq!(names(&bench, "deep", &[("kind", "source")]), ["source docs/deep.md"]);
    // Filters.
    let author = bench.get("/api/me").ok()["person"]["name"].as_str().unwrap().to_owned();
    let zebra = |more: &[(&str, &str)]| names(&bench, "zebra", more).len();
    assert_eq!(zebra(&[]), 2);
    assert_eq!(zebra(&[("kind", "message")]), 1);
    assert_eq!(zebra(&[("path", "docs/")]), 2);
    assert_eq!(zebra(&[("path", "notes")]), 0);
    assert_eq!(zebra(&[("author", &author)]), 2);
    assert_eq!(zebra(&[("author", "system")]), 0);
    assert_eq!(zebra(&[("status", "open")]), 2);
    bench.post(&format!("/api/topics/{}/discard", topic.id), json!({})).ok();
    assert_eq!((zebra(&[("status", "open")]), zebra(&[("status", "discarded")])), (0, 2));
    assert_eq!(names(&bench, "fox", &[("status", "discarded")]), ["topic Which animal"]);
    // The command.
    let (code, out, err) = bench.cli(&["search", "zebra", "wombat"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(&topic.id[28..]) && out.contains("Not a zebra: a wombat."), "{out}");
    let (code, out, _) = bench.cli(&["search", "quick", "--kind", "source"]);
    assert!(code == 0 && out.starts_with("docs/deep.md:5\n"), "{out}");
    let (code, _, err) = bench.cli(&["search", "--", "zebra", "-not"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (_, status, _) = bench.cli(&["status"]);
    assert!(status.contains("search      up to date"), "{status}");
    server.stop();
}

#[test]
fn words_are_found_in_all_their_forms() {
    let bench = Bench::new();
    bench.write("notes.md", "Über die Straße zum Café. workflow_state x-ray\nКнига, Ёлка.\n");
    bench
        .write("guide.md", "これは日本語の文書です。全文検索をためす。 한국어를 배운다. ภาษาไทย\n");
    bench.git(&["commit", "-q", "-a", "-m", "forms"]);
    let server = bench.serve();
    ready(&bench);
    let finds = |query: &str| names(&bench, query, &[]);
    for query in [
        "uber",
        "ÜBER",
        "STRASSE",
        "cafe",
        "cafe\u{301}",
        "wor*",
        "workfl*",
        "\"die strasse\"",
        "workflow_state",
        "state",
        "x-ray",
        "книга",
        "елка",
        "\"zum caf\"*",
        "cafe -tea",
        "notes ray",
    ] {
        assert_eq!(finds(query), ["source notes.md"], "{query}");
    }
    for query in ["日本", "日本語", "全文検索", "検索*", "国어", "한국", "ไทย", "日本 検索"]
    {
        let wanted: &[&str] = if query == "国어" { &[] } else { &["source guide.md"] };
        assert_eq!(finds(query), wanted, "{query}");
    }
    for query in ["本日", "\"strasse die\"", "work", "cafe -strasse", "\"state ray\""] {
        assert_eq!(finds(query), Vec::<String>::new(), "{query}");
    }
    assert_eq!(shown(&found(&bench, "検索", &[])[0]["snippet"]).matches("[検索]").count(), 1);
    server.stop();
}

#[test]
fn no_search_is_a_fault_of_the_program() {
    let bench = Bench::new();
    let server = bench.serve();
    for (query, code) in [
        ("", "empty_query"),
        ("  \"\" * ?!", "empty_query"),
        ("-alone", "empty_query"),
        ("a*", "short_prefix"),
        (&"w ".repeat(20), "too_many_words"),
    ] {
        assert_eq!(bench.get(&address(query, &[])).refusal(), (400, code), "{query}");
    }
    let long = bench.get(&address(&"x".repeat(401), &[]));
    assert_eq!(long.refusal(), (413, "too_large"));
    for (name, value) in [
        ("kind", "job"),
        ("status", "closed"),
        ("author", "nobody"),
        ("author", "strange:x"),
        ("after", "-1"),
        ("after", "x"),
        ("limit", "0"),
        ("limit", "201"),
    ] {
        let refused = bench.get(&address("words", &[(name, value)]));
        assert_eq!(refused.refusal(), (400, "bad_parameter"), "{name}={value}");
    }
    for query in [
        "\"",
        "a OR b",
        "AND",
        "NOT x",
        "NEAR(a b, 2)",
        "title : x",
        "{a b}: c",
        "^first",
        "a + b",
        "(((",
        "'; DROP TABLE topics; --",
        "a\u{0}b",
        "\u{1}",
        "%_",
        "x\\y",
        "a\"b\"c*",
        "\u{202e}x",
        "*",
        "--",
        "- -",
        "ab**",
        "\"a b",
        "body:secret",
        "rowid:1",
    ] {
        let answer = bench.get(&address(query, &[]));
        let is_refused =
            answer.status == 400 && ["empty_query", "short_prefix"].contains(&answer.refusal().1);
        assert!(answer.status == 200 || is_refused, "{query}: {answer:?}");
    }
    assert_eq!(bench.get("/api/search").status, 400);
    server.stop();
}

#[test]
fn pages_hold_each_thing_once() {
    let bench = Bench::new();
    let server = bench.serve();
    for n in 0..25 {
        let body = json!({"source_path": "guide.md", "global": true, "body": format!("same {n}")});
        bench.post("/api/topics", body).ok();
    }
    let (mut seen, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = bench.get(&address("same", &[("limit", "10"), ("after", &after)])).ok();
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|it| it["topic_id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 25);
    assert_eq!(found(&bench, "same", &[("after", "500")]).len(), 0);
    server.stop();
}

#[test]
fn words_of_a_long_document_are_found_together_wherever_they_stand() {
    let bench = Bench::new();
    let filler = "some filling words of no interest\n".repeat(12_000);
    let text = format!(
        "# Long\n\nFirst a wombat 日本語.\n{filler}Then an okapi 全文検索.\n{filler}An end.\n"
    );
    bench.write("docs/long.md", &text);
    // Neither lines nor spaces at which a part could end.
    let unbroken = format!("{}境界線{}終点", "あ".repeat(87_380), "い".repeat(90_000));
    bench.write("docs/unbroken.md", &unbroken);
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "long"]);
    let server = bench.serve();
    ready(&bench);
    for query in [
        "wombat okapi",
        "okapi wombat end",
        "\"a wombat\" long",
        "wom* oka*",
        "日本 検索",
        "\"first a\" \"then an\"",
        "wombat end -giraffe",
        "okapi -\"wombat okapi\"",
    ] {
        assert_eq!(names(&bench, query, &[]), ["source docs/long.md"], "{query}");
    }
    for query in ["境界線", "\"あ境界線い\"", "境界線 終点", "終点 あ境"] {
        assert_eq!(names(&bench, query, &[]), ["source docs/unbroken.md"], "{query}");
    }
    let seen = &found(&bench, "wombat okapi", &[])[0];
    assert_eq!(seen["line"], 3);
    assert!(shown(&seen["snippet"]).contains("First a [wombat] "), "{seen:#}");
    let seen = &found(&bench, "okapi", &[])[0];
    assert_eq!(seen["line"], 12_004);
    // Words that only follow each other among the different words of the text are no phrase.
    for query in [
        "\"wombat okapi\"",
        "\"interest then\" wombat nothing",
        "\"okapi end\"",
        // What is not wanted is not there either if it stands in another part.
        "wombat -okapi",
        "wombat -okap*",
        "end -\"first a\" -rare",
        "日本 -検索",
        "境界線 -終点",
    ] {
        assert_eq!(names(&bench, query, &[]), Vec::<String>::new(), "{query}");
    }
    server.stop();
}

#[test]
fn a_filter_finds_what_has_its_marks_also_after_they_changed() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.top.join("docs/sub")).unwrap();
    bench.write("docs/sub/a b.md", "# A\n\nA narwhal.\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "sub"]);
    let server = bench.serve();
    let topic = bench.topic("docs/sub/a b.md", "A narwhal.", "Which narwhal?");
    let say = |body: &str| {
        let body = json!({"body": body});
        bench.post(&format!("/api/topics/{}/messages", topic.id), body).ok();
    };
    say("This narwhal.");
    say(&"A very long narwhal. ".repeat(300));
    ready(&bench);
    let count = |more: &[(&str, &str)]| names(&bench, "narwhal", more).len();
    for (path, want) in [
        ("docs/", 4),
        ("docs", 4),
        ("docs/sub/", 4),
        ("docs/sub/a", 4),
        ("docs/sub/a b.md", 4),
        ("docs/sub/a b.mdx", 0),
        ("docs/su/", 0),
        ("ocs/", 0),
        ("/", 0),
    ] {
        assert_eq!(count(&[("path", path)]), want, "{path}");
    }
    let by_state =
        || ["open", "incorporated", "discarded"].map(|status| count(&[("status", status)]));
    assert_eq!(by_state(), [3, 0, 0]);
    let turn = |verb: &str| {
        bench.post(&format!("/api/topics/{}/{verb}", topic.id), json!({"reason": "So."})).ok();
    };
    turn("discard");
    assert_eq!(by_state(), [0, 0, 3]);
    // The same if all of it is taken in anew.
    server.stop();
    bench.json(&["cleanup", "--search"]);
    let server = bench.serve();
    ready(&bench);
    assert_eq!(by_state(), [0, 0, 3]);
    turn("reopen");
    assert_eq!(by_state(), [3, 0, 0]);
    assert_eq!(count(&[("status", "open"), ("path", "docs/sub/"), ("author", "ada")]), 3);
    assert_eq!(count(&[("status", "open"), ("author", "system")]), 0);
    server.stop();
}

#[test]
fn who_types_a_title_finds_that_document_first() {
    let bench = Bench::new();
    let words = "Macros by example. ".repeat(40);
    bench.write("docs/macros.md", format!("# Macros\n\n{words}\n"));
    bench.write("docs/macros-by-example-index.md", format!("# Index\n\n{words}\n"));
    bench.write("docs/deep.md", "# Macros By Example\n\nShort.\n");
    bench.write("docs/unlike.md", "# Macros by examples of others\n\nShort.\n");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "titles"]);
    let server = bench.serve();
    ready(&bench);
    let first = |asked: &str| names(&bench, asked, &[])[0].clone();
    assert_eq!(first("macros by example"), "source docs/deep.md");
    assert_eq!(first("macros"), "source docs/macros.md");
    // The last word may be unfinished.
    let found = names(&bench, "macros by exam*", &[]);
    let titled = ["source docs/deep.md", "source docs/unlike.md"];
    assert!(titled.iter().all(|it| found[..2].contains(&(*it).to_owned())), "{found:?}");
    // A filter holds for titles too, and a list of documents is found by title as well.
    assert_eq!(names(&bench, "macros by example", &[("path", "guide")]), [""; 0]);
    let listed = bench.get("/api/sources?query=BY%20EXAMPLES").ok();
    assert_eq!(listed["items"][0]["path"], "docs/unlike.md");
    assert_eq!(listed["items"][0]["title"], "Macros by examples of others");
    server.stop();
}

#[test]
fn what_a_commit_changed_last_is_recent() {
    let bench = Bench::new();
    let server = bench.serve();
    let recent = || {
        let listed = bench.get("/api/sources?order=recent&limit=2").ok();
        listed["items"][0]["path"].as_str().unwrap().to_owned()
    };
    for (path, date) in [("notes.md", "2030-01-01T00:00:00Z"), ("guide.md", "2031-01-01T00:00:00Z")]
    {
        bench.write(path, "# Other words\n");
        bench.git(&["commit", "-q", "--date", date, "-m", "words", "--", path]);
        bench.git(&["rebase", "-q", "-f", "--committer-date-is-author-date", "HEAD~1"]);
        assert_eq!(recent(), path);
    }
    assert_eq!(bench.get("/api/sources?order=size").refusal(), (400, "bad_parameter"));
    server.stop();
}
