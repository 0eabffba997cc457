//! Owns the table `workspaces`: the folder of an instance, identified by its root job.

use camino::Utf8PathBuf;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::api::workspaces::{Workspace, WorkspaceSort, WorkspaceState};
use crate::base::{Actor, BlobId, Error, Event, EventKind, JobId, Millis, Result, truncate_chars};
use crate::store::Tx;

/// Longest note, in characters.
const NOTE_CHARS_MAX: usize = 2_000;

/// A workspace to be created.
#[derive(Clone, Debug)]
pub struct NewWorkspace {
    /// The root job of the instance.
    pub root: JobId,
    /// Who creates it.
    pub sort: WorkspaceSort,
    /// Its absolute path.
    pub path: Utf8PathBuf,
    /// The repository of a worktree, absolute.
    pub repo: Option<Utf8PathBuf>,
    /// The cleanup hook, as JSON.
    pub cleanup: Option<String>,
}

const INSERT: &str = "
    INSERT INTO workspaces (root_job, sort, path, repo, state, cleanup_json, made_ms)
    VALUES (:root, :sort, :path, :repo, 'making', :cleanup, :now)";
const TAKEN: &str = "
    SELECT root_job FROM workspaces WHERE path = :path AND state <> 'gone'";
const FIND: &str = "SELECT * FROM workspaces WHERE root_job = :root";
const READY: &str = "
    UPDATE workspaces SET state = 'ready', base_commit = :base
    WHERE root_job = :root AND state = 'making'";
const RELOCATE: &str = "
    UPDATE workspaces SET path = :path, repo = :repo, cleanup_json = :cleanup
    WHERE root_job = :root AND state <> 'gone'";
const BEGIN_CLEANUP: &str = "
    UPDATE workspaces SET state = 'cleaning', tries = tries + 1, ended_ms = NULL,
        note = IIF(state = 'cleaning', NULL, note)
    WHERE root_job = :root AND state <> 'gone'";
const END: &str = "
    UPDATE workspaces SET state = :state, ended_ms = :now, note = :note,
        kept_ref = COALESCE(:kept, kept_ref)
    WHERE root_job = :root AND state = 'cleaning'";
const LEAVE: &str = "
    UPDATE workspaces SET state = 'gone', ended_ms = :now, note = :note
    WHERE root_job = :root AND state IN ('making', 'ready', 'failed')";
// `state > ''` is always true: it makes SQLite use the partial index.
const OPEN: &str = "
    SELECT * FROM workspaces INDEXED BY workspaces_open
    WHERE state <> 'gone' AND state > '' ORDER BY made_ms LIMIT :limit";
const LIST: &str = "
    SELECT * FROM workspaces INDEXED BY workspaces_by_time
    WHERE made_ms <= :until ORDER BY made_ms DESC LIMIT :limit";

/// The bell of those who clean up: a cleanup has failed, or is due.
pub const BELL: &str = "workspaces";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("workspaces::insert", INSERT),
    ("workspaces::taken", TAKEN),
    ("workspaces::find", FIND),
    ("workspaces::ready", READY),
    ("workspaces::relocate", RELOCATE),
    ("workspaces::begin_cleanup", BEGIN_CLEANUP),
    ("workspaces::end", END),
    ("workspaces::leave", LEAVE),
    ("workspaces::open", OPEN),
    ("workspaces::list", LIST),
];

/// Records that a workspace will be created, before anything of it is.
///
/// # Errors
/// `conflict` with code `workspace_taken` if another one has that path.
pub fn insert(tx: &Tx<'_>, new: &NewWorkspace) -> Result<()> {
    let mut taken = tx.prepare_cached(TAKEN)?;
    let other: Option<JobId> =
        taken.query_row(named_params! {":path": new.path.as_str()}, |row| row.get(0)).optional()?;
    if let Some(other) = other {
        let message = format!("{} is the workspace of job {other}", new.path);
        return Err(Error::conflict("workspace_taken", message)
            .hint("put {{message_id}} into `cwd_template`, so that each message has its own"));
    }
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":root": new.root, ":sort": new.sort, ":path": new.path.as_str(),
        ":repo": new.repo.as_ref().map(|it| it.as_str()), ":cleanup": new.cleanup,
        ":now": tx.now(),
    })?;
    changed(tx, &new.root, WorkspaceState::Making, &Actor::System)
}

/// Returns the workspace of an instance, if any.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find(connection: &Connection, root: &JobId) -> Result<Option<Workspace>> {
    let mut statement = connection.prepare_cached(FIND)?;
    Ok(statement.query_row(named_params! {":root": root}, from_row).optional()?)
}

/// Marks a workspace as ready. `base` is the commit of a worktree.
///
/// # Errors
/// `conflict` with code `workspace_state` if it is not being created.
pub fn ready(tx: &Tx<'_>, root: &JobId, base: Option<&BlobId>) -> Result<()> {
    let params = named_params! {":root": root, ":base": base};
    one(tx.prepare_cached(READY)?.execute(params)?, root)?;
    changed(tx, root, WorkspaceState::Ready, &Actor::System)
}

/// Records where a workspace of a moved site is now.
///
/// # Errors
/// `conflict` with code `workspace_state` if it is gone.
pub fn relocate(tx: &Tx<'_>, now: &Workspace) -> Result<()> {
    let params = named_params! {
        ":root": now.root, ":path": now.path.as_str(),
        ":repo": now.repo.as_ref().map(|it| it.as_str()), ":cleanup": now.cleanup,
    };
    one(tx.prepare_cached(RELOCATE)?.execute(params)?, &now.root)?;
    changed(tx, &now.root, now.state, &Actor::System)
}

/// Counts a cleanup that is about to start, and returns the row; `None` without a workspace, or if
/// it is gone.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn begin_cleanup(tx: &Tx<'_>, root: &JobId) -> Result<Option<Workspace>> {
    if tx.prepare_cached(BEGIN_CLEANUP)?.execute(named_params! {":root": root})? == 0 {
        return Ok(None);
    }
    changed(tx, root, WorkspaceState::Cleaning, &Actor::System)?;
    find(tx.connection(), root)
}

/// Records the end of a cleanup: `gone`, or `failed` with a note that says why.
///
/// # Errors
/// `conflict` with code `workspace_state` if no cleanup is running.
pub fn end(
    tx: &Tx<'_>,
    root: &JobId,
    state: WorkspaceState,
    (kept_ref, note): (Option<&str>, Option<&str>),
) -> Result<()> {
    let note = note.map(|it| truncate_chars(it, NOTE_CHARS_MAX));
    let params = named_params! {
        ":root": root, ":state": state, ":kept": kept_ref, ":note": note, ":now": tx.now(),
    };
    one(tx.prepare_cached(END)?.execute(params)?, root)?;
    tx.ring(BELL);
    changed(tx, root, state, &Actor::System)
}

/// Leaves a workspace to a person: this program no longer touches its folder.
///
/// # Errors
/// `conflict` with code `workspace_state` if it is gone or being cleaned up.
pub fn leave(tx: &Tx<'_>, root: &JobId, by: &Actor) -> Result<()> {
    let note = format!("left to {by}");
    let params = named_params! {":root": root, ":note": note, ":now": tx.now()};
    one(tx.prepare_cached(LEAVE)?.execute(params)?, root)?;
    changed(tx, root, WorkspaceState::Gone, by)
}

/// Returns the workspaces that are not gone, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn open(connection: &Connection, limit: u32) -> Result<Vec<Workspace>> {
    let mut statement = connection.prepare_cached(OPEN)?;
    let rows = statement.query_map(named_params! {":limit": limit}, from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the workspaces created up to a time, newest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list(connection: &Connection, until: Millis, limit: u32) -> Result<Vec<Workspace>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map(named_params! {":until": until, ":limit": limit}, from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn one(changed: usize, root: &JobId) -> Result<()> {
    match changed {
        1 => Ok(()),
        _ => Err(Error::conflict(
            "workspace_state",
            format!("the workspace of job {root} is gone or being cleaned up"),
        )
        .hint("see its state: wiki-browser workspace list")),
    }
}

fn changed(tx: &Tx<'_>, root: &JobId, state: WorkspaceState, by: &Actor) -> Result<()> {
    let data = json!({"job_id": root, "state": state});
    tx.emit(Event::new(EventKind::WorkspaceChanged, format!("job:{root}"), by.clone(), data))
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Workspace> {
    Ok(Workspace {
        root: row.get("root_job")?,
        sort: row.get("sort")?,
        path: row.get::<_, String>("path")?.into(),
        repo: row.get::<_, Option<String>>("repo")?.map(Utf8PathBuf::from),
        base_commit: row.get("base_commit")?,
        state: row.get("state")?,
        cleanup: row.get("cleanup_json")?,
        kept_ref: row.get("kept_ref")?,
        made_at: row.get("made_ms")?,
        ended_at: row.get("ended_ms")?,
        tries: row.get("tries")?,
        note: row.get("note")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fixture::Fixture;

    fn new(root: &JobId, path: &str) -> NewWorkspace {
        NewWorkspace {
            root: root.clone(),
            sort: WorkspaceSort::Folder,
            path: path.into(),
            repo: None,
            cleanup: Some("{}".to_owned()),
        }
    }

    #[test]
    fn a_workspace_lives_once_and_its_path_has_one_owner() {
        let mut fixture = Fixture::new();
        let topic = fixture.topic("a.md", "bridge").id;
        let (first, second) = (fixture.job(&topic), fixture.job(&topic));
        fixture.write(|tx, _| insert(tx, &new(&first, "/w/a"))).unwrap();
        let taken = fixture.write(|tx, _| insert(tx, &new(&second, "/w/a"))).unwrap_err();
        assert_eq!(taken.code_str(), "workspace_taken");
        fixture.write(|tx, _| ready(tx, &first, None)).unwrap();
        let again = fixture.write(|tx, _| ready(tx, &first, None)).unwrap_err();
        assert_eq!(again.code_str(), "workspace_state");
        let cleaning = fixture.write(|tx, _| begin_cleanup(tx, &first)).unwrap().unwrap();
        assert_eq!((cleaning.state, cleaning.tries), (WorkspaceState::Cleaning, 1));
        let failed = (None, Some("it hangs"));
        fixture.write(|tx, _| end(tx, &first, WorkspaceState::Failed, failed)).unwrap();
        let cleaning = fixture.write(|tx, _| begin_cleanup(tx, &first)).unwrap().unwrap();
        assert_eq!(cleaning.tries, 2);
        let kept = (Some("refs/wiki-browser/jobs/x/work"), None);
        fixture.write(|tx, _| end(tx, &first, WorkspaceState::Gone, kept)).unwrap();
        assert_eq!(fixture.write(|tx, _| begin_cleanup(tx, &first)).unwrap(), None);
        let gone = find(&fixture.connection, &first).unwrap().unwrap();
        assert_eq!((gone.state, gone.note), (WorkspaceState::Gone, None));
        assert_eq!(gone.kept_ref.as_deref(), kept.0);
        // Its path is free again.
        fixture.write(|tx, _| insert(tx, &new(&second, "/w/a"))).unwrap();
        let open = open(&fixture.connection, 10).unwrap();
        assert_eq!(open.iter().map(|it| &it.root).collect::<Vec<_>>(), [&second]);
        assert_eq!(list(&fixture.connection, fixture.clock.now(), 10).unwrap().len(), 2);
    }
}
