//! Another database in place of the present one: a backup, or what can be read of a damaged one.
//!
//! **Invariant:** until the new database is whole, settled and on the disk, the old one is in
//! force; and the old one is kept, under a name that is told.
//! **Invariant:** nothing that may have been done already is done again: a job that the replaced
//! database does not call waiting, or whose folder says that it was started, is not started by a
//! database that thinks it waits. A parked job that the replaced database has parked, too, was not
//! resumed: its next leg would be another job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::api::backups::Backup;
use crate::api::workspaces::Workspace;
use crate::approvals::pending_of_root;
use crate::base::{
    Actor, Clock, Context, DATABASE_CORRUPT, Error, ErrorKind, Ids, JobId, Millis, ProposalId,
    Result, TokenId, fault,
};
use crate::channels;
use crate::documents::Repo;
use crate::documents::proposals::attempt::approvers;
use crate::flows::automation::{handlers, schedules, told};
use crate::flows::jobs::cancel::cancel_waiting;
use crate::flows::people::roles::{Taken, take_again};
use crate::flows::site::backup as copies;
use crate::flows::site::undecided;
use crate::flows::site::unknown_commits::{Adopts, Found, reconcile};
use crate::flows::workspaces::orphan as workspaces;
use crate::flows::workspaces::orphan::Orphan;
use crate::jobs::{self, Capacities, Viewer, job_dir};
use crate::mail;
use crate::people::{self, Person};
use crate::script::{Config, Vm};
use crate::store::salvage::Salvaged;
use crate::store::{self, MIGRATIONS, Store, backup, events};

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
    /// Jobs of the replaced database about whose changes nobody has decided: what
    /// that held still holds.
    #[serde(default)]
    pub jobs_undecided: Vec<JobId>,
    /// Messages that had reached their recipients since the backup, or may have, and are not
    /// delivered again.
    #[serde(default)]
    pub deliveries_taken: usize,
    /// Members of channels who were removed since the backup, and are removed again.
    #[serde(default)]
    pub members_removed: usize,
    /// Channels where people from outside no longer wake agents.
    #[serde(default)]
    pub channels_calmed: usize,
    /// Channels that were paused since, and are paused again.
    pub channels_paused: usize,
    /// Members of channels who were muted since, and are muted again.
    pub members_muted: usize,
    /// Agents that were stopped since, and stay stopped.
    pub agents_stopped: usize,
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

/// How the name of a replaced database begins.
const REPLACED: &str = "replaced";

/// What is known about the time after a database was written.
pub(super) enum Since {
    /// Nothing came after it: it is what is left of the current one.
    Nothing,
    /// The content of the replaced database.
    Known(Old),
    /// The replaced database is missing or cannot be read.
    Unknown,
}

/// Decisions in the old database that must be carried over to a backup, and in those that it had
/// replaced itself after the backup was made: of what that restore forgot, they alone know.
pub(super) struct Old {
    /// Oldest first, each with whether anything happened in it after the backup: the content of an
    /// older backup says nothing of that time.
    databases: Vec<(Utf8PathBuf, bool)>,
    rows: BTreeMap<String, i64>,
    /// Jobs that wait, and whether each of the databases that know it has it parked.
    queued: BTreeMap<JobId, bool>,
    /// Jobs that wait in the backup and in one of the databases no more. One that does not know a
    /// job says nothing of it.
    past: BTreeSet<JobId>,
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
    let since = since(site, &working)?;
    let mut report = Report { from: Some(file.to_owned()), ..Report::default() };
    let new_rows = backup::row_counts(&working)?;
    if let Since::Known(old) = &since {
        let mut lost = rows_lost(&old.rows, &new_rows);
        // They are taken over.
        lost.remove("usage_days");
        report.rows_lost = Some(lost);
    }
    report.epoch = Some(begin_life(site, &working)?);
    settle(site, &working, &since, keep_tokens, &mut report).await?;
    put(site, &working, REPLACED, &mut report)?;
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

fn since(site: &Offline, working: &Utf8Path) -> Result<Since> {
    let waiting = |c: &Connection| Ok(jobs::queued(c)?.into_iter().map(|it| it.0).collect());
    let (at, waiting): (_, Vec<JobId>) =
        (events::newest(working)?, backup::look(working, waiting)?);
    let mut old = match Old::read(&site.database(), (at, &waiting)) {
        Ok(old) => old,
        Err(cause) => {
            warn!("the old database cannot be read: {}", cause.chain());
            return Ok(Since::Unknown);
        }
    };
    let unread = |cause: &Error, what: &str| warn!("{what} cannot be read: {}", cause.chain());
    match set_aside_since(site, at) {
        Ok(found) => {
            for path in found.iter().rev() {
                match Old::read(path, (at, &waiting)) {
                    Ok(earlier) => old.precede(earlier),
                    Err(cause) => unread(&cause, path.as_str()),
                }
            }
        }
        Err(cause) => unread(&cause, "what restores before this one replaced"),
    }
    Ok(Since::Known(old))
}

/// Returns the databases that restores before this one have put aside and that are newer than the
/// backup, oldest first.
fn set_aside_since(site: &Offline, at: Option<Millis>) -> Result<Vec<Utf8PathBuf>> {
    let mut found = Vec::new();
    for path in copies::list_aside(&copies::folder(site.data()))? {
        let is_replaced = path.file_name().is_some_and(|it| it.starts_with(REPLACED));
        // One that says nothing of its time is reported when it is read.
        if is_replaced && events::newest(&path).map_or(true, |then| then > at) {
            found.push(path);
        }
    }
    Ok(found)
}

impl Old {
    /// Reads what a database knows about the time after the newest event of a backup, and about the
    /// jobs that wait in that.
    fn read(database: &Utf8Path, (at, waiting): (Option<Millis>, &[JobId])) -> Result<Old> {
        if let Some(loss) = store::loss(database)? {
            return Err(Error::unavailable(loss.to_string()).code(DATABASE_CORRUPT));
        }
        let rows = backup::row_counts(database)?;
        let is_later = events::newest(database)? > at;
        backup::look(database, |c| {
            let queued: BTreeMap<JobId, bool> = jobs::queued(c)?.into_iter().collect();
            let mut past = BTreeSet::new();
            for id in waiting.iter().filter(|it| !queued.contains_key(*it)) {
                if jobs::is_known(c, id)? {
                    past.insert(id.clone());
                }
            }
            // What was taken before the backup, which gave it again, is not taken once more.
            let is_since = |it: Millis| Some(it) > at;
            let mut persons = people::list(c)?;
            persons.retain(|it| is_later && it.disabled_at.is_none_or(is_since));
            // What is taken over later can be read, or nothing counts.
            undecided::undecided(c)?;
            channels::all(c)?;
            told::last(c)?;
            Ok(Old {
                databases: vec![(database.to_owned(), is_later)],
                rows,
                queued,
                past,
                workspaces: workspaces::open(c)?,
                persons,
                revoked: people::revoked_tokens(c)?,
                approvers: approvers(c)?,
            })
        })
    }

    /// Adds what a database knows that was replaced before this one.
    fn precede(&mut self, earlier: Old) {
        self.databases.splice(..0, earlier.databases);
        for (id, is_parked) in earlier.queued {
            self.queued.entry(id).and_modify(|it| *it &= is_parked).or_insert(is_parked);
        }
        self.past.extend(earlier.past);
        self.persons.extend(earlier.persons);
        self.revoked.extend(earlier.revoked);
        for (proposal, by) in earlier.approvers {
            self.approvers.entry(proposal).or_insert(by);
        }
    }
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
        match since {
            Since::Known(old) => take_over(old, &store, report).await?,
            Since::Nothing => report.jobs_undecided = store.write(undecided::hold_again).await?,
            Since::Unknown => {}
        }
        fault::crash_point("restore_settled");
        let adopts = match since {
            Since::Known(old) => Adopts::Approved(&old.approvers),
            Since::Nothing | Since::Unknown => Adopts::All,
        };
        reconcile(site, &store, (true, adopts), report).await?;
        if let Since::Known(_) = since {
            // What follows from the restore happened before it, and was told then.
            store.write(handlers::skip).await?;
        }
        Ok(())
    };
    let done = done.await;
    stop.cancel();
    drop(store);
    writing.await.context(ErrorKind::Internal, || "the writer ended badly".to_owned())?;
    done
}

/// Takes over what only the replaced database knows, and those before it.
async fn take_over(old: &Old, store: &Store, report: &mut Report) -> Result<()> {
    let databases = old.databases.clone();
    let taken = store.write(move |tx| {
        let (mut open, mut channels) = (BTreeSet::new(), channels::Taken::default());
        let (mut deliveries, mut agents) = (0, 0);
        for (database, is_later) in &databases {
            backup::look(database, |old| {
                open.extend(undecided::take_over(tx, old)?);
                jobs::carry_usage(tx, old)?;
                schedules::take_later(tx, old)?;
                told::take_later(tx, old)?;
                if !*is_later {
                    return Ok(());
                }
                deliveries += mail::take_later(tx, old)?;
                agents += mail::stop_again(tx, old)?;
                channels::take_later(tx, old, &mut channels)
            })?;
        }
        let left = undecided::undecided(tx.connection())?;
        open.retain(|it| left.contains(it));
        Ok((open, deliveries, agents, channels))
    });
    let (open, deliveries, agents, channels) = taken.await?;
    report.jobs_undecided = open.into_iter().collect();
    report.deliveries_taken = deliveries;
    report.agents_stopped = agents;
    (report.members_removed, report.members_muted) = (channels.removed, channels.muted);
    (report.channels_paused, report.channels_calmed) = (channels.paused, channels.calmed);
    Ok(())
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
        Since::Known(old) => old.past.contains(id) || !old.queued.contains_key(id),
        Since::Unknown => true,
    };
    // It had a folder when the backup was made.
    let is_still_parked = |id: &JobId| match since {
        Since::Known(old) => !old.past.contains(id) && old.queued.get(id) == Some(&true),
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
