//! The index follows the repository, survives kills, and can be rebuilt.

use camino::Utf8Path;
use rusqlite::Connection;
use serde_json::json;
use wiki_browser::base::Clock;
use wiki_browser::store::{MIGRATIONS, salvage};

use super::{found, names, ready};
use crate::support::{Bench, until};

fn count(bench: &Bench, table: &str) -> i64 {
    let database = Connection::open(bench.data.join("wiki.db")).unwrap();
    let sql = format!("SELECT COUNT(*) FROM {table}");
    database.query_row(&sql, [], |row| row.get(0)).unwrap()
}

/// Fails with `WB_WITHOUT=search_look`.
#[test]
fn a_request_notices_that_the_repository_has_changed() {
    let bench = Bench::new();
    let server = bench.serve_with(&[("WB_ABSENT", "noticing")]);
    ready(&bench);
    assert_eq!(names(&bench, "second", &[]), ["source guide.md"]);
    bench.write("guide.md", "# Guide\n\nA giraffe.\n");
    bench.git(&["commit", "-q", "-a", "-m", "giraffe"]);
    until("the new word is found", || names(&bench, "giraffe", &[]) == ["source guide.md"]);
    assert_eq!(names(&bench, "second", &[]), Vec::<String>::new());
    bench.git(&["mv", "guide.md", "docs/moved.md"]);
    until("it is found where it is", || names(&bench, "giraffe", &[]) == ["source docs/moved.md"]);
    bench.git(&["rm", "-q", "--cached", "notes.md"]);
    until("what is no source is not found", || names(&bench, "keep", &[]).is_empty());
    // One that vanishes is not shown, also before the index has followed.
    std::fs::remove_file(bench.top.join("docs/moved.md")).unwrap();
    assert_eq!(names(&bench, "giraffe", &[]), Vec::<String>::new());
    server.stop();
    // What happened while no server ran is noticed by its start.
    bench.git(&["checkout", "-q", "HEAD", "--", "guide.md"]);
    let server = bench.serve();
    ready(&bench);
    assert_eq!(names(&bench, "giraffe", &[]), ["source guide.md"]);
    server.stop();
}

#[test]
fn an_index_of_git_that_is_written_again_leaves_nothing_to_be_taken_in() {
    let bench = Bench::new();
    let server = bench.serve_with(&[("WB_ABSENT", "noticing")]);
    ready(&bench);
    for _ in 0..5 {
        bench.git(&["update-index", "--force-write-index"]);
        let told = bench.get(&super::address("second", &[])).ok();
        assert_eq!(
            (&told["items"].as_array().unwrap().len(), told["index"]["state"].as_str()),
            (&1, Some("ready")),
            "{told}"
        );
    }
    // What is seen to be another text is taken in.
    bench.write("guide.md", "# Guide\n\nThe second giraffe.\n");
    assert_eq!(names(&bench, "second", &[]), ["source guide.md"]);
    until("it is taken in", || names(&bench, "giraffe", &[]) == ["source guide.md"]);
    ready(&bench);
    server.stop();
}

#[test]
fn what_is_no_text_is_found_by_its_path_alone() {
    let bench = Bench::new();
    bench.write("binary.md", b"words\0in it");
    bench.write("latin.md", b"caf\xe9 words");
    bench.write("empty.md", "");
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "strange"]);
    let server = bench.serve();
    ready(&bench);
    assert_eq!(names(&bench, "words", &[]), Vec::<String>::new());
    for name in ["binary", "latin", "empty"] {
        assert_eq!(names(&bench, name, &[]), [format!("source {name}.md")]);
    }
    server.stop();
}

#[test]
fn a_server_that_is_killed_while_it_takes_in_goes_on_where_it_was() {
    let bench = Bench::new();
    for n in 0..150 {
        bench.write(&format!("docs/n{n}.md"), format!("# N\n\ncommon number{n}\n"));
    }
    let long = "a line with some long text in it\n".repeat(20_000) + "finally zenith\n";
    bench.write("docs/long.md", &long);
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "many"]);
    for point in ["search_part", "search_part", "search_step", "search_step"] {
        let mut server = bench.start(&[("WB_CRASH_AT", point)]);
        assert!(!server.wait().0.success(), "{point} is never passed");
    }
    assert!(count(&bench, "search_parts") > 64, "what was done is not done again");
    let server = bench.serve();
    ready(&bench);
    assert_eq!(found(&bench, "common", &[("limit", "200")]).len(), 150);
    let zenith = &found(&bench, "zenith", &[])[0];
    assert_eq!((&zenith["source_path"], &zenith["line"]), (&json!("docs/long.md"), &json!(20_001)));
    assert_eq!(names(&bench, "zenith line", &[]), ["source docs/long.md"]);
    server.stop();
    assert_eq!(count(&bench, "search_sources"), 154);
    // The long one has three parts.
    assert_eq!(count(&bench, "search_parts"), 153 + 3);
}

#[test]
fn an_index_that_is_old_or_damaged_is_made_anew() {
    let bench = Bench::new();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line", "About a narwhal");
    let said = json!({"body": "And a pangolin"});
    bench.post(&format!("/api/topics/{}/messages", topic.id), said).ok();
    ready(&bench);
    let all = || {
        assert_eq!(names(&bench, "narwhal", &[]), ["topic About a narwhal"]);
        assert_eq!(names(&bench, "pangolin", &[]), ["message About a narwhal"]);
        assert_eq!(names(&bench, "second", &[]), ["source guide.md"]);
    };
    all();
    // By the operator, while the server runs and without it.
    assert_eq!(bench.json(&["cleanup", "--search"])["search"], true);
    until("it is made anew", || names(&bench, "pangolin", &[]).len() == 1);
    ready(&bench);
    all();
    server.stop();
    assert_eq!(bench.json(&["cleanup", "--search"])["search"], true);
    let server = bench.serve();
    ready(&bench);
    all();
    server.stop();
    // Damaged: SQLite finds its pages whole, and the index finds nothing in them.
    let database = Connection::open(bench.data.join("wiki.db")).unwrap();
    for table in ["search_topic_words_data", "search_message_words_data"] {
        let sql = format!("UPDATE {table} SET block = x'00000000FFFFFFFF' WHERE id > 10");
        assert!(database.execute(&sql, []).unwrap() > 0);
    }
    drop(database);
    let server = bench.serve();
    let told = bench.get(&super::address("narwhal", &[]));
    assert!(told.status == 200 || told.refusal() == (503, "index_damaged"), "{told:?}");
    // What is written meanwhile is written all the same.
    bench.topic("guide.md", "The second line", "About an okapi");
    until("it mends itself", || {
        let okapi = bench.get(&super::address("okapi", &[]));
        let pangolin = bench.get(&super::address("pangolin", &[]));
        [okapi, pangolin].iter().all(|it| {
            it.status == 200 && it.body["items"].as_array().is_some_and(|all| all.len() == 1)
        })
    });
    assert_eq!(bench.get("/api/health").ok()["status"], "ok");
    server.stop();
}

#[test]
fn what_is_saved_and_restored_is_found() {
    let bench = Bench::new();
    let server = bench.serve();
    bench.topic("guide.md", "The first line", "About a narwhal");
    ready(&bench);
    bench.json(&["backup", "copy.db"]);
    server.stop();
    // Rows of the index are not saved from a damaged database: they are made again.
    let saved = bench.base.join("saved.db");
    let from = bench.data.join("wiki.db");
    let report =
        salvage::salvage(&from, Utf8Path::new(&saved), MIGRATIONS, &Clock::system()).unwrap();
    assert!(report.iter().all(|it| !it.table.starts_with("search_")), "{report:?}");
    std::fs::rename(&saved, &from).unwrap();
    let server = bench.serve();
    ready(&bench);
    assert_eq!(names(&bench, "narwhal", &[]), ["topic About a narwhal"]);
    server.stop();
    assert_eq!(bench.cli(&["restore", "copy.db"]).0, 0);
    let server = bench.serve();
    ready(&bench);
    assert_eq!(names(&bench, "narwhal", &[]), ["topic About a narwhal"]);
    assert_eq!(names(&bench, "second", &[]), ["source guide.md"]);
    server.stop();
}
