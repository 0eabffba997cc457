//! Another database in place of the present one: a backup, or what can be read of a damaged one.
//!
//! **Invariant:** until the new database is whole, settled and on the disk, the old one is in
//! force; and the old one is kept, under a name that is told.
//! **Invariant:** nothing that may have been done already is done again: a job that the replaced
//! database does not call waiting, or whose folder says that it was started, is not started by a
//! database that thinks it waits. A parked job that the replaced database has parked, too, was not
//! resumed: its next leg would be another job.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::api::backups::Backup;
use crate::api::workspaces::Workspace;
use crate::approvals::pending_of_root;
use crate::base::{
    Actor, Clock, Context, DATABASE_CORRUPT, Error, ErrorKind, Ids, JobId, ProposalId, Result,
    TokenId, fault,
};
use crate::documents::Repo;
use crate::documents::proposals::attempt::approvers;
use crate::flows::jobs::cancel::cancel_waiting;
use crate::flows::people::roles::{Taken, take_again};
use crate::flows::site::backup as copies;
use crate::flows::site::unknown_commits::{Adopts, Found, reconcile};
use crate::flows::workspaces::orphan as workspaces;
use crate::flows::workspaces::orphan::Orphan;
use crate::jobs::{self, Capacities, Viewer, job_dir};
use crate::people::{self, Person};
use crate::script::{Config, Vm};
use crate::store::salvage::Salvaged;
use crate::store::{self, MIGRATIONS, Store, backup};

/// A site that no server is serving; the caller holds its lock.
pub struct Offline {
    /// The script.
    pub config: Arc<Config>,
    /// The script's VM.
    pub vm: Vm,
    /// The repository, or its error.
    pub repo: Result<Repo>,
    /// The path of `wb-agent`, if found.
    pub wb_agent: Utf8PathBuf,
    /// The clock.
    pub clock: Clock,
}

/// The result of replacing the database.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Report {
    /// The restored file; null if nothing was restored.
    pub from: Option<Utf8PathBuf>,
    /// Where the files of the old database are.
    pub kept: Vec<Utf8PathBuf>,
    /// The new epoch: event ids of earlier ones are invalid.
    pub epoch: Option<String>,
    /// Jobs that are running in the backup; the next start settles them.
    pub jobs_running: usize,
    /// Jobs that are waiting in the backup but were, or may have been, started or cancelled since:
    /// they are cancelled.
    pub jobs_cancelled: Vec<JobId>,
    /// Requests for decisions of these jobs, which were withdrawn with them.
    #[serde(default)]
    pub approvals_withdrawn: usize,
    /// Worktrees made since the backup, of which the new database has no row.
    #[serde(default)]
    pub worktrees: Vec<Orphan>,
    /// Tokens that ended: revoked since the backup, or unknown because the old database is
    /// unreadable.
    pub tokens_ended: usize,
    /// People who were disabled since the backup, and are disabled again.
    pub persons_disabled: usize,
    /// People who got a lower role since the backup, and get it again.
    pub persons_lowered: usize,
    /// A person who was no longer an admin but stays one, because the backup has no other; their
    /// tokens ended.
    pub admin_kept: Option<String>,
    /// Proposals whose commits are in the branch.
    pub approvals: Vec<Found>,
    /// Why git was not searched, or only in part.
    pub git_problem: Option<String>,
    /// How many rows more the old database had, by table; null if it cannot be read.
    pub rows_lost: Option<BTreeMap<String, i64>>,
    /// The result for each table of a damaged database.
    pub tables: Vec<Salvaged>,
    /// Errors of the database, in SQLite's words.
    pub damage: Vec<String>,
    /// Why nothing of a damaged database could be saved.
    pub not_saved: Option<String>,
    /// Available backups, newest first.
    pub backups: Vec<Backup>,
    /// Whether nothing was changed.
    pub dry_run: bool,
}

/// What is known about the time after a database was written.
pub(super) enum Since {
    /// Nothing came after it: it is what is left of the current one.
    Nothing,
    /// The content of the replaced database.
    Known(Old),
    /// The replaced database is missing or cannot be read.
    Unknown,
}

/// Decisions in the old database that must be carried over to a backup.
pub(super) struct Old {
    rows: BTreeMap<String, i64>,
    queued: BTreeMap<JobId, bool>,
    workspaces: Vec<Workspace>,
    persons: Vec<Person>,
    revoked: Vec<TokenId>,
    approvers: BTreeMap<ProposalId, Actor>,
}

impl Offline {
    pub(super) fn data(&self) -> &Utf8Path {
        &self.config.site.data
    }

    pub(super) fn database(&self) -> Utf8PathBuf {
        self.data().join("wiki.db")
    }

    /// The new database, while it is being prepared.
    fn working(&self) -> Utf8PathBuf {
        self.data().join("wiki.db.restoring")
    }

    /// Makes room for the new database: an earlier attempt's file is useless.
    pub(super) fn clear(&self) -> Result<Utf8PathBuf> {
        let working = self.working();
        let cannot = || format!("cannot clear {}", self.data());
        // Also an incomplete copy of it, which has its own name.
        let prefix = working.file_name().unwrap_or_default();
        for entry in self.data().read_dir_utf8().context(ErrorKind::Unavailable, cannot)? {
            let entry = entry.context(ErrorKind::Unavailable, cannot)?;
            if entry.file_name().starts_with(prefix) {
                std::fs::remove_file(entry.path()).context(ErrorKind::Unavailable, cannot)?;
            }
        }
        Ok(working)
    }
}

/// Replaces the current database by a backup.
///
/// # Errors
/// `not_found`; `invalid` with code `not_a_backup`; `conflict` with code `database_newer`;
/// `unavailable` with code `database_corrupt`, or if the disk does not take it. Then the old
/// database is in force.
pub async fn restore(site: &Offline, file: &Utf8Path, keep_tokens: bool) -> Result<Report> {
    backup::put_in_place(&site.database())?;
    let working = site.clear()?;
    backup::copy(file, &working, MIGRATIONS)?;
    fault::crash_point("restore_copied");
    let since = since(&site.database());
    let mut report = Report { from: Some(file.to_owned()), ..Report::default() };
    let new_rows = backup::row_counts(&working)?;
    if let Since::Known(old) = &since {
        report.rows_lost = Some(rows_lost(&old.rows, &new_rows));
    }
    report.epoch = Some(begin_life(site, &working)?);
    settle(site, &working, &since, keep_tokens, &mut report).await?;
    put(site, &working, "replaced", &mut report)?;
    if let Since::Known(old) = since {
        report.worktrees = orphans(site, old.workspaces).await?;
    }
    Ok(report)
}

/// Saves what is in worktrees that only the replaced database knew: no server would do it.
async fn orphans(site: &Offline, made: Vec<Workspace>) -> Result<Vec<Orphan>> {
    let unknown = backup::look(&site.database(), |c| workspaces::unknown(c, made))?;
    Ok(workspaces::save(site.repo.as_ref().ok(), site.data(), unknown).await)
}

fn since(database: &Utf8Path) -> Since {
    let read = || -> Result<Old> {
        if let Some(loss) = store::loss(database)? {
            return Err(Error::unavailable(loss.to_string()).code(DATABASE_CORRUPT));
        }
        let rows = backup::row_counts(database)?;
        backup::look(database, |c| {
            Ok(Old {
                rows,
                queued: jobs::queued(c)?.into_iter().collect(),
                workspaces: workspaces::open(c)?,
                persons: people::list(c)?,
                revoked: people::revoked_tokens(c)?,
                approvers: approvers(c)?,
            })
        })
    };
    read().map_or_else(
        |cause| {
            warn!("the old database cannot be read: {}", cause.chain());
            Since::Unknown
        },
        Since::Known,
    )
}

fn rows_lost(old: &BTreeMap<String, i64>, new: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let more = old.iter().map(|(table, rows)| (table, rows - new.get(table).unwrap_or(&0)));
    more.filter(|(_, rows)| *rows > 0).map(|(table, rows)| (table.clone(), rows)).collect()
}

pub(super) fn begin_life(site: &Offline, working: &Utf8Path) -> Result<String> {
    let epoch: JobId = Ids::new(site.clock.clone()).mint();
    backup::begin_life(working, epoch.as_str())?;
    Ok(epoch.to_string())
}

/// Keeps the old database under another name and puts the new one in its place.
pub(super) fn put(
    site: &Offline,
    working: &Utf8Path,
    word: &str,
    report: &mut Report,
) -> Result<()> {
    backup::into_one_file(working)?;
    let folder = copies::folder(site.data());
    backup::make_folder(&folder)?;
    let stamp = site.clock.now().rfc3339();
    let stamp: String = stamp.chars().filter(char::is_ascii_alphanumeric).collect();
    report.kept = backup::keep_aside(&site.database(), &folder.join(format!("{word}-{stamp}.db")))?;
    fault::crash_point("restore_aside");
    backup::replace(&site.database(), working)
}

/// Adapts rows of an earlier time to the present: jobs, credentials, approvals.
pub(super) async fn settle(
    site: &Offline,
    working: &Utf8Path,
    since: &Since,
    keep_tokens: bool,
    report: &mut Report,
) -> Result<()> {
    let (store, writer) = Store::open_aside(working, MIGRATIONS, site.clock.clone())?;
    let (stop, writers) = (CancellationToken::new(), TaskTracker::new());
    let writing = writers.spawn(writer.serve(stop.clone()));
    let done = async {
        settle_rows(site, &store, since, keep_tokens, report).await?;
        fault::crash_point("restore_settled");
        let adopts = match since {
            Since::Known(old) => Adopts::Approved(&old.approvers),
            Since::Nothing | Since::Unknown => Adopts::All,
        };
        reconcile(site, &store, (true, adopts), report).await
    };
    let done = done.await;
    stop.cancel();
    drop(store);
    writing.await.context(ErrorKind::Internal, || "the writer ended badly".to_owned())?;
    done
}

async fn settle_rows(
    site: &Offline,
    store: &Store,
    since: &Since,
    keep_tokens: bool,
    report: &mut Report,
) -> Result<()> {
    let waiting = store.read(jobs::queued).await?;
    let is_known = site.data().join("jobs").is_dir();
    // Without the folders, nothing shows that a job was not started since.
    let has_folder =
        |id: &JobId| !is_known || std::fs::symlink_metadata(job_dir(site.data(), id)).is_ok();
    // A missing folder shows nothing: folders are deleted after some time, and cancelled jobs have
    // none.
    let is_past = |id: &JobId| match since {
        Since::Nothing => false,
        Since::Known(old) => !old.queued.contains_key(id),
        Since::Unknown => true,
    };
    // It had a folder when the backup was made.
    let is_still_parked = |id: &JobId| match since {
        Since::Known(old) => old.queued.get(id) == Some(&true),
        Since::Nothing | Since::Unknown => false,
    };
    let mut past = Vec::new();
    for (id, is_parked) in waiting {
        let is_kept = is_parked && is_still_parked(&id);
        if !is_kept && (has_folder(&id) || is_past(&id)) {
            past.push(id);
        }
    }
    let (lanes, ids) = (Capacities(site.config.limits.lanes.clone()), past.clone());
    let source = Ids::new(store.clock().clone());
    let (persons, revoked) = match since {
        Since::Known(old) => (old.persons.clone(), old.revoked.clone()),
        Since::Nothing | Since::Unknown => (Vec::new(), Vec::new()),
    };
    let ends_all = matches!(since, Since::Unknown) && !keep_tokens;
    let done = store.write(move |tx| {
        let running = jobs::fence_all(tx)?;
        let mut withdrawn = 0;
        for id in &ids {
            let root = jobs::find_brief(tx.connection(), &Viewer::Program, id)?.root().clone();
            withdrawn += pending_of_root(tx.connection(), &root)?.len();
            cancel_waiting(tx, &source, id, &Actor::System, &lanes)?;
        }
        let tokens = match ends_all {
            true => people::revoke_all_tokens(tx)?,
            false => people::revoke_tokens(tx, &revoked)?,
        };
        let taken = take_again(tx, &persons, (&source, &lanes))?;
        Ok((running, withdrawn, tokens, taken))
    });
    let (running, withdrawn, tokens, taken) = done.await?;
    let Taken { disabled, lowered, kept, tokens: of_kept } = taken;
    report.jobs_running = running;
    report.approvals_withdrawn = withdrawn;
    report.jobs_cancelled = past;
    report.tokens_ended = tokens + of_kept;
    (report.persons_disabled, report.persons_lowered) = (disabled, lowered);
    report.admin_kept = kept;
    Ok(())
}

/// The same for the current database.
pub(super) async fn reconcile_in(
    site: &Offline,
    database: &Utf8Path,
    how: (bool, Adopts<'_>),
    report: &mut Report,
) -> Result<()> {
    // A dry run uses its own copy.
    let (store, writer) = match how.0 {
        true => Store::open(database, MIGRATIONS, site.clock.clone())?,
        false => Store::open_aside(database, MIGRATIONS, site.clock.clone())?,
    };
    let (stop, writers) = (CancellationToken::new(), TaskTracker::new());
    let writing = writers.spawn(writer.serve(stop.clone()));
    let done = reconcile(site, &store, how, report).await;
    stop.cancel();
    drop(store);
    writing.await.context(ErrorKind::Internal, || "the writer ended badly".to_owned())?;
    done
}
