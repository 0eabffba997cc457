//! Owns the table `steering_holds`: files that steer agents, changed while a job ran. No agent
//! starts before somebody has decided about them.
//!
//! **Invariant:** a hold is written before its job is settled, and deleted in the transaction of
//! the decision.

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde::Serialize;
use serde_json::json;

use crate::base::{JobId, Millis, Result, fault};
use crate::jobs::BELL;
use crate::store::Tx;

/// Stands for the files while it is unknown which have changed.
pub const UNSEEN: &str = "?";
/// Stands for them if nobody can ever tell, since what there was before the job is lost.
pub const LOST: &str = "?lost";

/// Rung when agents are held.
pub const STEERING_BELL: &str = "steering";

const INSERT: &str = "
    INSERT INTO steering_holds (job_id, since_ms, files_json) VALUES (:job, :now, :files)
    ON CONFLICT (job_id) DO UPDATE SET files_json = :files WHERE files_json <> :files";
const FIRST: &str = "
    SELECT job_id, since_ms, files_json,
        EXISTS (SELECT 1 FROM agent_jobs WHERE id = job_id AND status = 'running')
    FROM steering_holds INDEXED BY steering_holds_since
    WHERE since_ms > 0 ORDER BY since_ms, job_id LIMIT 1";
const ALL: &str = "
    SELECT job_id FROM steering_holds INDEXED BY steering_holds_since
    WHERE since_ms > 0 ORDER BY since_ms, job_id LIMIT 1000";
const ALL_LOST: &str = "
    SELECT job_id FROM steering_holds INDEXED BY steering_holds_since
    WHERE since_ms > 0 AND files_json = :files ORDER BY since_ms, job_id LIMIT 1000";
const REMOVE: &str = "DELETE FROM steering_holds WHERE job_id = :job";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("steering_hold::insert", INSERT),
    ("steering_hold::first", FIRST),
    ("steering_hold::all", ALL),
    ("steering_hold::all_lost", ALL_LOST),
    ("steering_hold::remove", REMOVE),
];

/// Undecided changes of files that steer agents, made while a job ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Steering {
    /// The job.
    pub job_id: JobId,
    /// When the changes were found.
    pub since: Millis,
    /// The first of the files.
    pub files: Vec<String>,
    /// All jobs of which what there was before is lost, if this is one of them.
    pub lost: Vec<JobId>,
    /// Whether the job still runs.
    #[serde(skip)]
    pub is_running: bool,
}

impl Steering {
    /// Returns what happened and what to type, as a clause without a full stop.
    pub fn sentence(&self) -> String {
        let (job, first) = (&self.job_id, self.files.first().map_or("a file", String::as_str));
        let more = match self.files.len() {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        if first == LOST {
            let others = match self.lost.len() {
                0 | 1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            return format!(
                "what there was before job {job}{others} is lost (`before.json` is not in this \
                 data folder, as after a restore into another one), so nobody can tell what \
                 changed; check the repository, then accept it as it is: `wiki-browser job keep \
                 {job}`"
            );
        }
        if first == UNSEEN {
            return format!(
                "changes made during job {job} are unknown until git can read the \
                 repository; to keep them anyway: `wiki-browser job keep {job}`"
            );
        }
        if first == ".git" {
            return format!(
                "another repository is at .git since job {job}{more}, and nothing is approved; to \
                 restore it: move the earlier one back by hand, then `wiki-browser job restore \
                 {job}`; to keep this one: `wiki-browser job keep {job}`"
            );
        }
        // A link in the place of a folder is not restored before the folder is back.
        let by_hand = match self.files.iter().any(|it| it.starts_with(".git/")) {
            true => " (which names what is to be put back by hand)",
            false => "",
        };
        if self.is_running {
            return format!(
                "files that control agents changed: {first}{more}; job {job} was running, perhaps \
                 with others, and still is; put them back by hand, and agents go on; to keep the \
                 changes: `wiki-browser job keep {job}`"
            );
        }
        // Without names, everything is restored that has changed since the job began.
        let names = match words(&self.files) {
            Some(names) => format!("`wiki-browser job restore {job} {names}`"),
            None => format!(
                "`wiki-browser job restore {job}` with their names (`--dry-run` lists them)"
            ),
        };
        format!(
            "files that control agents changed during job {job}: {first}{more}; to restore them: \
             {names}{by_hand}, to keep the changes: `wiki-browser job keep {job}`"
        )
    }
}

/// Most names in a command.
const WORDS_MAX: usize = 8;

/// Returns names of changes as words for a shell; `None` if they are too many, or no shell would
/// take one as it is shown.
fn words(files: &[String]) -> Option<String> {
    let word = |name: &String| {
        // `.git/hooks/x (WHAT IT STARTS)`
        let starts = name.strip_suffix(')').filter(|_| name.starts_with(".git/"));
        let name = starts.and_then(|it| it.rsplit_once(" (")).map_or(&**name, |it| it.0);
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "._/+@%=-".contains(it);
        if name.is_empty() || name.starts_with('-') || name.chars().any(char::is_control) {
            return None;
        }
        match name.chars().all(is_plain) {
            true => Some(name.to_owned()),
            false => Some(format!("'{}'", name.replace('\'', "'\\''"))),
        }
    };
    let is_few = (1..=WORDS_MAX).contains(&files.len());
    let words: Option<Vec<String>> = is_few.then(|| files.iter().map(word).collect())?;
    Some(words?.join(" "))
}

/// Prevents all agents from starting until somebody decides about these files; replaces an earlier
/// hold of this job. Returns whether that is new.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn hold_steering(tx: &Tx<'_>, job: &JobId, files: &[String]) -> Result<bool> {
    let files = json!(files).to_string();
    let params = named_params! {":job": job, ":now": tx.now(), ":files": files};
    let is_new = tx.prepare_cached(INSERT)?.execute(params)? > 0;
    // Whoever hears it looks again, and holds again what is as before.
    if is_new {
        tx.ring(STEERING_BELL);
    }
    Ok(is_new)
}

/// Lets agents start again after a decision about the changes of a job.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn release_steering(tx: &Tx<'_>, job: &JobId) -> Result<()> {
    if tx.prepare_cached(REMOVE)?.execute(named_params! {":job": job})? > 0 {
        tx.ring(BELL);
    }
    Ok(())
}

/// Returns the oldest hold.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn steering(connection: &Connection) -> Result<Option<Steering>> {
    if fault::is_off("steering_hold") {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(FIRST)?;
    let found = statement.query_row([], |row| {
        let files: String = row.get(2)?;
        // A hold with a damaged list still holds.
        let files: Vec<String> = serde_json::from_str(&files).unwrap_or_default();
        let (job_id, since, is_running) = (row.get(0)?, row.get(1)?, row.get(3)?);
        Ok(Steering { job_id, since, files, lost: Vec::new(), is_running })
    });
    let mut found = found.optional()?;
    if let Some(it) = found.as_mut().filter(|it| it.files.first().is_some_and(|it| it == LOST)) {
        it.lost = lost(connection)?;
    }
    Ok(found)
}

/// Returns the jobs that hold agents because what there was before them is lost.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn lost(connection: &Connection) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(ALL_LOST)?;
    let files = json!([LOST]).to_string();
    let rows = statement.query_map(named_params! {":files": files}, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the jobs because of which agents are held.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn holding(connection: &Connection) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(ALL)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::model::Bench;

    /// Otherwise, one look would follow the other as long as agents are held.
    #[test]
    fn a_hold_that_is_there_already_is_no_news() {
        let mut bench = Bench::new(4, 4, 1);
        let new = bench.request("a", None, 0, 0);
        let job = bench
            .tx(|bench, tx| crate::jobs::enqueue(tx, &bench.ids, &bench.caps.lanes, &new).unwrap());
        let mut hold =
            |file: &str| bench.tx(|_, tx| hold_steering(tx, &job, &[file.to_owned()]).unwrap());
        assert_eq!([hold("a"), hold("a"), hold("b")], [true, false, true]);
    }
}
