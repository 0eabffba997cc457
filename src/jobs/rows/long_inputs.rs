//! Inputs too long for a job's row, stored in a separate table that no list reads.

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde_json::{Map, Value};

use crate::base::{Error, JobId, Result};
use crate::store::Tx;

/// Longest inputs stored in the row, in bytes of JSON.
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Stored in the row in their place.
const ELSEWHERE: &str = "{}";

const PUT: &str = "
    INSERT INTO agent_job_inputs (job_id, inputs_json) VALUES (:job, :inputs)";
const DROP: &str = "DELETE FROM agent_job_inputs WHERE job_id = :job";
const FIND: &str = "SELECT inputs_json FROM agent_job_inputs WHERE job_id = :job";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] =
    &[("long_inputs::put", PUT), ("long_inputs::drop", DROP), ("long_inputs::find", FIND)];

/// Inputs as stored.
pub(in crate::jobs) struct Text(String);

impl Text {
    pub(in crate::jobs) fn of(inputs: &Map<String, Value>) -> Result<Text> {
        let text = serde_json::to_string(inputs);
        text.map(Text).map_err(|cause| Error::internal("inputs are not JSON").source(cause))
    }

    fn is_long(&self) -> bool {
        self.0.len() > INLINE_BYTES_MAX
    }

    /// Returns what is stored in the row.
    pub(in crate::jobs) fn in_row(&self) -> &str {
        if self.is_long() { ELSEWHERE } else { &self.0 }
    }

    /// Stores the inputs of a new job, if they are too long for its row.
    ///
    /// # Errors
    /// Fails if the database cannot be written.
    pub(in crate::jobs) fn keep(&self, tx: &Tx<'_>, job: &JobId) -> Result<()> {
        if self.is_long() {
            let params = named_params! {":job": job, ":inputs": self.0};
            tx.prepare_cached(PUT)?.execute(params)?;
        }
        Ok(())
    }

    /// Replaces the inputs of a job.
    ///
    /// # Errors
    /// Fails if the database cannot be written.
    pub(in crate::jobs) fn replace(&self, tx: &Tx<'_>, job: &JobId) -> Result<()> {
        tx.prepare_cached(DROP)?.execute(named_params! {":job": job})?;
        self.keep(tx, job)
    }
}

/// Returns the inputs of a job that are not in its row.
///
/// # Errors
/// Fails if the database cannot be read.
pub(in crate::jobs) fn find(
    connection: &Connection,
    job: &JobId,
) -> Result<Option<Map<String, Value>>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let text: Option<String> =
        statement.query_row(named_params! {":job": job}, |row| row.get(0)).optional()?;
    let inputs = text.map(|it| serde_json::from_str(&it)).transpose();
    inputs.map_err(|cause| Error::internal(format!("the inputs of job {job}")).source(cause))
}
