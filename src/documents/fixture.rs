//! An empty database and shared values for table tests.

use rusqlite::{Connection, Transaction, named_params};

use crate::api::topics::Topic;
use crate::base::{Actor, BlobId, Clock, Ids, JobId, Millis, SourcePath, TopicId};
use crate::documents::anchor::{NewAnchor, describe};
use crate::documents::topics::topic::{self, NewTopic};
use crate::store::{Tx, in_memory};

pub(in crate::documents) const TEXT: &str = "# Plan\n\nWe build the bridge in May.\n\n## Risks\n\n\
    - rain stops the work\n- the steel comes late\n";

pub(in crate::documents) struct Fixture {
    pub(in crate::documents) connection: Connection,
    pub(in crate::documents) ids: Ids,
    pub(in crate::documents) clock: Clock,
}

impl Fixture {
    pub(in crate::documents) fn new() -> Fixture {
        let clock = Clock::fixed(Millis(1_700_000_000_000));
        let connection = in_memory();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        Fixture { connection, ids: Ids::new(clock.clone()), clock }
    }

    /// Runs some work in its own transaction and commits it.
    pub(in crate::documents) fn write<T>(&mut self, work: impl FnOnce(&Tx<'_>, &Ids) -> T) -> T {
        let transaction: Transaction<'_> = self.connection.transaction().unwrap();
        let outcome = work(&Tx::for_test(&transaction, self.clock.now()), &self.ids);
        transaction.commit().unwrap();
        self.clock.advance(1_000);
        outcome
    }

    /// Opens a Topic on some words of [`TEXT`], or a global one if there are none.
    pub(in crate::documents) fn topic(&mut self, path: &str, words: &str) -> Topic {
        let anchor = (!words.is_empty()).then(|| anchor_on(TEXT, 'a', words));
        let new = NewTopic {
            source_path: source(path),
            is_global: anchor.is_none(),
            title: None,
            body: format!("About {words}.\nPlease look."),
            author: Actor::System,
            anchor,
        };
        self.write(|tx, ids| topic::create(tx, ids, new)).unwrap()
    }

    /// Adds a job row.
    pub(in crate::documents) fn job(&mut self, topic: &TopicId) -> JobId {
        let id: JobId = self.ids.mint();
        let sql = "INSERT INTO agent_jobs (id, kind, status, topic_id, inputs_json, grants_json,
            requested_by, created_ms, config_digest)
            VALUES (:id, 'incorporate', 'queued', :topic, '{}', '[]', 'system', 0, 'x')";
        self.connection.execute(sql, named_params! {":id": id, ":topic": topic}).unwrap();
        id
    }

    /// Returns the events after an id as (id, kind, audit, data).
    pub(in crate::documents) fn events(&self, after: i64) -> Vec<(i64, String, bool, String)> {
        let sql = "SELECT id, kind, audit, data_json FROM events WHERE id > :after ORDER BY id";
        let mut statement = self.connection.prepare(sql).unwrap();
        let rows = statement.query_map(named_params! {":after": after}, |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        });
        rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    /// Returns the kinds of the events after an id.
    pub(in crate::documents) fn kinds(&self, after: i64) -> Vec<String> {
        self.events(after).into_iter().map(|it| it.1).collect()
    }
}

pub(in crate::documents) fn source(path: &str) -> SourcePath {
    path.parse().unwrap()
}

pub(in crate::documents) fn blob(digit: char) -> BlobId {
    digit.to_string().repeat(40).parse().unwrap()
}

pub(in crate::documents) fn anchor_on(text: &str, digit: char, words: &str) -> NewAnchor {
    let start = text.find(words).unwrap();
    describe(text, &blob(digit), start..start + words.len()).unwrap()
}

#[test]
fn no_statement_scans_a_table() {
    let fixture = Fixture::new();
    let all = [
        topic::STATEMENTS,
        crate::documents::topics::message::STATEMENTS,
        crate::documents::anchor::row::STATEMENTS,
        crate::documents::topics::placement::STATEMENTS,
        crate::documents::proposals::proposal::STATEMENTS,
    ];
    for (name, sql) in all.into_iter().flatten() {
        let explained = format!("EXPLAIN QUERY PLAN {sql}");
        let mut statement = fixture.connection.prepare(&explained).unwrap();
        let rows = statement.raw_query().mapped(|row| row.get::<_, String>("detail"));
        let plan: Vec<String> = rows.collect::<rusqlite::Result<_>>().unwrap();
        // `SCAN CONSTANT ROW` is a SELECT without a table.
        let is_scan = |it: &String| it.contains("SCAN") && !it.contains("CONSTANT ROW");
        assert!(!plan.iter().any(is_scan), "{name}: {plan:?}");
    }
}
