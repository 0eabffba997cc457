//! A database with a million jobs that have ended, as a busy site would have it after years.

use std::path::Path;

use camino::Utf8PathBuf;
use rusqlite::{Connection, named_params};

use crate::Asked;
use crate::site::{Outcome, Site, progress};

/// A site whose database is large.
pub(crate) struct Large {
    pub(crate) site: Site,
    pub(crate) database: Utf8PathBuf,
}

/// Sources, Topics and jobs. The kinds and states are uneven on purpose: `once` is rare and old,
/// `audit` has never been cancelled, one Source has a tenth of all jobs.
const TOPICS: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :topics)
    INSERT INTO topics (id, source_path, is_global, title, status, created_by, created_ms)
    SELECT printf('018bcfe5-6800-7000-9000-%012x', i), printf('docs/page-%04d.md', i % 1000), 0,
        'What about this?', 'open', :by, 1700000000000 + i FROM n";
const JOBS: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :jobs)
    INSERT INTO agent_jobs (seq, id, kind, lane_key, status, reason, source_path, topic_id,
        inputs_json, grants_json, requested_by, ready, created_ms, started_ms, ending_ms,
        completed_ms, exit_code, error_tail, summary, usage_json, cost_usd, config_digest,
        token_hash)
    SELECT i, printf('018bcfe5-6800-7000-8000-%012x', i), kind, 'source_path=' || source, status,
        CASE status WHEN 'failed' THEN 'exit_status' WHEN 'timed_out' THEN 'idle_timeout'
            WHEN 'cancelled' THEN 'cancelled' END,
        source, topic,
        json_object('topic_id', topic, 'source_path', source,
            'base_source_sha', printf('%040x', i)),
        json_array('topic:' || topic || ' read+message+propose', 'source:' || source || ' read'),
        :by, 0, 1700000000000 + i * 1000, 1700000000100 + i * 1000, 1700000050000 + i * 1000,
        1700000050100 + i * 1000, CASE status WHEN 'succeeded' THEN 0 ELSE 1 END,
        CASE status WHEN 'succeeded' THEN NULL ELSE 'the last line of its standard error' END,
        'Rewrote the second paragraph so that it says what was asked.',
        '{\"input_tokens\":12345,\"output_tokens\":678,\"turns\":9}', 0.0421,
        printf('%064x', i / 1000), printf('%064x', i)
    FROM (SELECT i,
        CASE WHEN i < 40 THEN 'once' WHEN i % 10 < 6 THEN 'incorporate'
            WHEN i % 10 < 9 THEN 'audit' ELSE 'true' END AS kind,
        CASE WHEN i % 10 = 7 THEN 'succeeded' WHEN i % 1000 = 3 THEN 'cancelled'
            WHEN i % 100 = 5 THEN 'timed_out' WHEN i % 10 = 4 THEN 'failed'
            ELSE 'succeeded' END AS status,
        CASE WHEN i % 10 = 1 THEN 'docs/page-0000.md'
            ELSE printf('docs/page-%04d.md', i * 7 % 1000) END AS source,
        printf('018bcfe5-6800-7000-9000-%012x', i % :topics + 1) AS topic FROM n)";

/// Builds it: the schema by the program itself, the rows by SQL.
pub(crate) async fn build(asked: &Asked, base: &Path) -> Outcome<Large> {
    progress(&format!("making a database with {} jobs", asked.rows));
    let site = Site::new(base, "large", 2)?;
    // It makes the schema and the operator, to whom all of the jobs belong.
    site.serve().await?.0.stop()?;
    let database = site.data.join("wiki.db");
    let (path, jobs) = (database.clone(), asked.rows);
    tokio::task::spawn_blocking(move || fill(&Connection::open(path)?, jobs)).await??;
    let bytes = std::fs::metadata(&database)?.len();
    progress(&format!("it has {} MB", bytes / 1_000_000));
    Ok(Large { site, database })
}

fn fill(connection: &Connection, jobs: u32) -> Outcome<()> {
    connection.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; PRAGMA foreign_keys = OFF;",
    )?;
    let by: String =
        connection
            .query_row("SELECT 'person:' || id FROM persons LIMIT 1", [], |row| row.get(0))?;
    // Making the indexes at the end is several times quicker.
    let mut indexes: Vec<(String, String)> = Vec::new();
    let mut statement = connection.prepare(
        "SELECT name, sql FROM sqlite_schema
         WHERE type = 'index' AND tbl_name = 'agent_jobs' AND sql IS NOT NULL",
    )?;
    for index in statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
        indexes.push(index?);
    }
    drop(statement);
    connection.execute_batch("BEGIN")?;
    for (name, _) in &indexes {
        connection.execute_batch(&format!("DROP INDEX {name}"))?;
    }
    let topics = (jobs / 500).max(1);
    connection.execute(TOPICS, named_params! {":topics": topics, ":by": by})?;
    connection.execute(JOBS, named_params! {":jobs": jobs, ":topics": topics, ":by": by})?;
    for (_, sql) in &indexes {
        connection.execute_batch(sql)?;
    }
    connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(())
}
