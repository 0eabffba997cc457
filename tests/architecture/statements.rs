//! Every SQL statement is prepared on a fresh database, and none scans a table without a listed
//! reason.

use rusqlite::Connection;
use wiki_browser::base::Clock;
use wiki_browser::store::{MIGRATIONS, events, idempotency, migrate};
use wiki_browser::{approvals, channels, chat, documents, jobs, mail, people, turns};

use crate::architecture::rust_files;

/// Statements that may walk a whole table or index, and why.
const EXCUSED: &[(&str, &str)] = &[
    ("turn::waiting", "the index holds answers only that wait for a person, a page at most"),
    ("events::edges", "the smallest key is the first step of the walk"),
    ("person::list", "a page of at most as many people as there may be"),
    ("person::first_admin", "people are few"),
    ("person::other_admin", "people are few"),
    ("token::revoke_former", "people are few, and only a start asks"),
    ("attempt::approvers", "only a restore asks, with no server running"),
    ("token::revoked", "only a restore asks, with no server running"),
    ("token::revoke_all", "only a restore asks, with no server running"),
    ("measured::running", "the index holds running rows only, as many as the cap"),
    ("agent::list", "there are as many as are declared, and their successors"),
    ("retained::fence_dying", "the index holds running rows only, as many as the cap"),
    ("retained::kept", "the index holds running rows only, as many as the cap"),
    ("retained::fence_all", "the index holds running rows only, as many as the cap"),
    ("jobs::list_all", "it walks back from the newest row until the page is full"),
    ("idempotency::prune_beyond", "one walk over as many keys as are kept, four times a day"),
    ("jobs::list_by_source_kind", "it walks seven lists of a page at most"),
    ("enqueue::queued", "the index holds queued rows only, at most 10,000"),
    ("pool::running", "the index holds running rows only, as many as the cap"),
    ("parking::leaving", "the index holds running rows only, as many as the cap"),
    ("settle::cancelled", "the index holds running rows only, as many as the cap"),
    ("jobs::running", "the index holds running rows only, as many as the cap"),
    ("jobs::guards", "the index holds running rows only, as many as the cap"),
    ("claim::next_kind", "the smallest kind beyond a kind is one step of the index"),
    ("claim::next_person", "the smallest person beyond a person is one step of the index"),
    ("engine_hold::active", "as many rows as there are engines"),
    ("engine_hold::release_all_of", "as many rows as there are engines and people on hold"),
    ("agent::list", "as many rows as there are agents, at most 200"),
    ("waiting::running_of_kinds", "the index holds running rows only, as many as the cap"),
    ("search::sources", "the index of words is asked, and the newest hits only are ranked"),
    ("search::topics", "the index of words is asked, and the newest hits only are ranked"),
    ("search::messages", "the index of words is asked, and the newest hits only are ranked"),
    ("search::is_common_in_sources", "the index of words is asked, for a bounded number of rows"),
    ("search::is_common_in_topics", "the index of words is asked, for a bounded number of rows"),
    ("search::is_common_in_messages", "the index of words is asked, for a bounded number of rows"),
    ("search::rank_sources", "the index of words is asked for words of few rows"),
    ("search::rank_topics", "the index of words is asked for words of few rows"),
    ("search::rank_messages", "the index of words is asked for words of few rows"),
    ("search::sources_by_path", "the index of words is asked, for the newest hits"),
    ("search::topics_by_title", "the index of words is asked, for the newest hits"),
    ("search::drop_words", "SQLite says so of every virtual table; it is found by its number"),
    ("search::titles", "all documents are named on their list"),
    ("search::known_sources", "all are compared with the repository, when that has changed"),
    ("search::clear_parts", "the whole index is made anew"),
    ("search::clear_sources", "the whole index is made anew"),
    ("chat::search_matches", "the index of words is asked, and the newest hits only are ranked"),
    ("chat::search_is_common", "the index of words is asked, for a bounded number of rows"),
    ("chat::search_rank", "the index of words is asked for words of few rows"),
    ("chat::search_forget", "SQLite says so of every virtual table; it is found by its number"),
    ("chat::run_has_piped", "it walks up one branch, message by message"),
    ("chat::calls_above", "it walks up one branch, message by message"),
    ("chat::message_is_above", "it walks up one branch, message by message"),
    ("chat::message_has_images", "it walks up one branch, message by message"),
    ("mail::list", "it walks back from the newest row until the page is full"),
    ("unfit::all", "the index holds jobs only that the script no longer accepts"),
    ("told::mark", "SQLite's own table of sequences has a row for each of few tables"),
    ("told::untold", "only a restore asks"),
    ("origin::open_at", "it goes through the newest rows of one agent, which the index has found"),
    ("origin::told_at", "it goes through the newest rows of one job, which the index has found"),
    ("carry::spent", "only a restore asks, for all of them"),
    ("carry::names", "only a restore asks, for all of them"),
    ("later::blocks", "only a restore asks; an agent has one at most"),
    ("lane::next_due", "the smallest time is the first step of the index"),
];

fn all() -> Vec<(&'static str, &'static str)> {
    let mut all = jobs::statements();
    all.extend(documents::statements());
    all.extend(approvals::statements());
    all.extend(mail::statements());
    all.extend(chat::statements());
    all.extend(channels::statements());
    all.extend(turns::statements());
    all.extend(people::STATEMENTS.iter().copied().flatten().copied());
    all.extend(events::STATEMENTS);
    all.extend(wiki_browser::flows::automation::handlers::STATEMENTS);
    all.extend(wiki_browser::flows::automation::schedules::STATEMENTS);
    all.extend(wiki_browser::flows::automation::origin::STATEMENTS);
    all.extend(wiki_browser::flows::automation::told::STATEMENTS);
    all.extend(idempotency::STATEMENTS);
    all.extend(wiki_browser::store::STATEMENTS);
    all.extend(wiki_browser::store::WRITER_STATEMENTS);
    all.extend(wiki_browser::store::COMMIT_COUNT_STATEMENTS);
    all
}

#[test]
fn every_statement_is_sql_and_none_scans_unexcused() {
    let connection = Connection::open_in_memory().unwrap();
    migrate(&connection, MIGRATIONS, &Clock::system()).unwrap();
    let mut wrong = Vec::new();
    for (name, sql) in all() {
        let plan = format!("EXPLAIN QUERY PLAN {sql}");
        let mut statement = match connection.prepare(&plan) {
            Ok(statement) => statement,
            Err(cause) => {
                wrong.push(format!("{name} is not SQL: {cause}"));
                continue;
            }
        };
        let steps: Vec<String> =
            statement.raw_query().mapped(|row| row.get(3)).map(Result::unwrap).collect();
        let scans = |step: &&String| step.starts_with("SCAN") && !step.contains("CONSTANT ROW");
        if let Some(step) = steps.iter().find(scans)
            && !EXCUSED.iter().any(|(excused, _)| *excused == name)
        {
            wrong.push(format!("{name}: {step}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_excuse_is_stale_and_no_name_stands_twice() {
    let names: Vec<&str> = all().into_iter().map(|(name, _)| name).collect();
    for (excused, _) in EXCUSED {
        assert!(names.contains(excused), "{excused} is no statement");
    }
    for (place, name) in names.iter().enumerate() {
        assert!(!names[place + 1..].contains(name), "{name} stands twice");
    }
}

/// A statement that is in no list would be checked by nobody.
#[test]
fn every_statement_is_in_a_list() {
    let listed: Vec<&str> = all().into_iter().map(|(_, sql)| sql).collect();
    for (path, text) in rust_files("src") {
        let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_ours = !path.as_str().starts_with("src/store/migrate")
            && !path.as_str().contains("test")
            && !path.as_str().contains("fixture");
        if !is_ours {
            continue;
        }
        for piece in before_tests.split("const ").skip(1) {
            let Some((head, rest)) = piece.split_once(": &str = \"") else { continue };
            if head.contains(['\n', ' ']) {
                continue;
            }
            let sql = rest.split('"').next().unwrap_or_default();
            let starts = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
            if starts.iter().any(|word| sql.trim_start().starts_with(&format!("{word} "))) {
                let is_listed = listed.iter().any(|it| it.trim() == sql.trim());
                assert!(is_listed, "{path}: {head} is in no list of statements");
            }
        }
    }
}

#[test]
fn no_sql_is_put_together_from_pieces() {
    for (path, text) in rust_files("src") {
        for line in text.lines().filter(|it| it.contains("format!(")) {
            for word in ["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM"] {
                assert!(!line.contains(word), "{path}: {line}");
            }
        }
    }
}
