//! Counts what awaits people on each Source: open Topics, and proposals to review.

use std::collections::HashMap;

use rusqlite::{Connection, named_params};

use crate::base::{ProposalId, Result, SourcePath};

// By status: few Topics are open, however many there were.
const TOPICS: &str = "
    SELECT source_path, COUNT(*) FROM topics INDEXED BY topics_by_status
    WHERE status = 'open' GROUP BY source_path";
// By the Topic's Source: a proposal keeps the name that its Source had at the time.
const PROPOSALS: &str = "
    SELECT topics.source_path, COUNT(*)
    FROM incorporation_proposals AS proposal INDEXED BY proposals_by_status
    JOIN topics ON topics.id = proposal.topic_id
    WHERE proposal.status = 'open' GROUP BY topics.source_path";
const PROPOSALS_COUNT: &str = "
    SELECT COUNT(*) FROM incorporation_proposals WHERE status = 'open'";
const OLDEST_PROPOSALS: &str = "
    SELECT id FROM incorporation_proposals INDEXED BY proposals_by_status
    WHERE status = 'open' ORDER BY id LIMIT :limit";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("pending::topics", TOPICS),
    ("pending::proposals", PROPOSALS),
    ("pending::proposals_count", PROPOSALS_COUNT),
    ("pending::oldest_proposals", OLDEST_PROPOSALS),
];

/// Counts per Source, without zeros.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// Open Topics.
    pub topics: HashMap<SourcePath, i64>,
    /// Proposals awaiting review.
    pub proposals: HashMap<SourcePath, i64>,
}

/// Returns the counts of all Sources.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn of_all(connection: &Connection) -> Result<Pending> {
    let counts = |sql: &str| -> Result<HashMap<SourcePath, i64>> {
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    };
    Ok(Pending { topics: counts(TOPICS)?, proposals: counts(PROPOSALS)? })
}

/// Returns how many proposals await review.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn proposals(connection: &Connection) -> Result<i64> {
    Ok(connection.prepare_cached(PROPOSALS_COUNT)?.query_row([], |row| row.get(0))?)
}

/// Returns the proposals awaiting review, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn oldest_proposals(connection: &Connection, limit: u32) -> Result<Vec<ProposalId>> {
    let mut statement = connection.prepare_cached(OLDEST_PROPOSALS)?;
    let ids = statement.query_map(named_params! {":limit": limit}, |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}
