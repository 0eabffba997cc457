//! Another database in place of the present one: a backup, or what can be read of a damaged one.
//!
//! **Invariant:** until the new database is whole, settled and on the disk, the old one is in
//! force; and the old one is kept, under a name that is told.
//! **Invariant:** nothing that may have been done already is done again: a job whose folder says
//! that it was started is not started by a database that thinks it waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::base::limit::PAGE_ROWS_MAX;
use crate::base::{
    Actor, BlobId, Clock, Context, Error, ErrorKind, Ids, JobId, PersonId, ProposalId, Result,
    TokenId, TopicId, fault,
};
use crate::documents::commit::{adopt, commit_of};
use crate::documents::proposal::{self, ProposalFilter};
use crate::documents::{Proposal, ProposalStatus, Repo};
use crate::flows::people::cancel_waiting;
use crate::flows::{Works, approve, backup as copies, names};
use crate::jobs::{self, Capacities, job_dir};
use crate::people;
use crate::script::{Config, Vm};
use crate::store::salvage::{Salvaged, salvage};
use crate::store::{CORRUPT, MIGRATIONS, Store, backup};

/// How far back git is asked for the commit of an open proposal.
const COMMITS_MAX: usize = 200;

/// A site that no server serves; the caller holds its lock.
pub struct Offline {
    /// The script.
    pub config: Arc<Config>,
    /// The script's functions.
    pub vm: Vm,
    /// The repository, or why there is none.
    pub repo: Result<Repo>,
    /// The agents' client, if there is one.
    pub wb_agent: Utf8PathBuf,
    /// The clock.
    pub clock: Clock,
}

/// A proposal that the branch holds and the database did not know to be approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its Topic.
    pub topic_id: TopicId,
    /// The commit that holds it.
    pub commit: BlobId,
    /// Whether the rows say so now.
    pub settled: bool,
}

/// What another database came to.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// What was put in place; null if nothing was.
    pub from: Option<Utf8PathBuf>,
    /// Where the files of the old database are.
    pub kept: Vec<Utf8PathBuf>,
    /// The life that begins: ids of events from before it mean nothing any more.
    pub epoch: Option<String>,
    /// Jobs that run in the backup: the next start settles them.
    pub jobs_running: usize,
    /// Jobs that wait in the backup and may have been started since: they are cancelled.
    pub jobs_cancelled: Vec<JobId>,
    /// Tokens that ended: revoked since the backup, or of an old database that does not say.
    pub tokens_ended: usize,
    /// People who were disabled since the backup.
    pub persons_disabled: usize,
    /// Proposals whose commits are in the branch.
    pub approvals: Vec<Found>,
    /// Why git was not asked, or could not say all.
    pub git_problem: Option<String>,
    /// How many rows more the old database had, by table; null if it cannot be read.
    pub rows_lost: Option<BTreeMap<String, i64>>,
    /// What became of each table of a damaged database.
    pub tables: Vec<Salvaged>,
    /// What is wrong with the database, in SQLite's words.
    pub damage: Vec<String>,
    /// Why nothing at all of a damaged database could be saved.
    pub not_saved: Option<String>,
    /// The copies that could be restored, newest first.
    pub backups: Vec<copies::Backup>,
    /// Whether nothing was changed.
    pub dry_run: bool,
}

/// What the old database knows and a backup must not forget.
#[derive(Default)]
struct Old {
    rows: BTreeMap<String, i64>,
    disabled: Vec<PersonId>,
    revoked: Vec<TokenId>,
}

impl Offline {
    fn data(&self) -> &Utf8Path {
        &self.config.site.data
    }

    fn database(&self) -> Utf8PathBuf {
        self.data().join("wiki.db")
    }

    /// The new database, while it is being made.
    fn working(&self) -> Utf8PathBuf {
        self.data().join("wiki.db.restoring")
    }

    /// Makes room for the new database: what an earlier try left is of no use.
    fn clear(&self) -> Result<Utf8PathBuf> {
        let working = self.working();
        for ending in ["", "-wal", "-shm", "-journal"] {
            let path = format!("{working}{ending}");
            match std::fs::remove_file(&path) {
                Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                    return Err(cause)
                        .context(ErrorKind::Unavailable, || format!("cannot remove {path}"));
                }
                _ => {}
            }
        }
        Ok(working)
    }
}

/// Puts a backup in place of the present database.
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
    let old = old_state(&site.database());
    let mut report = Report { from: Some(file.to_owned()), ..Report::default() };
    let new_rows = backup::row_counts(&working)?;
    report.rows_lost = old.as_ref().map(|old| rows_lost(&old.rows, &new_rows));
    report.epoch = Some(begin_life(site, &working)?);
    settle(site, &working, old.as_ref(), keep_tokens, &mut report).await?;
    put(site, &working, "replaced", &mut report)?;
    Ok(report)
}

/// Looks whether the database is whole, and whether git holds approvals that it does not know. A
/// damaged one is replaced by what can be read of it. With `dry_run` nothing is changed.
///
/// # Errors
/// `not_found` with code `no_database`; `unavailable` with code `database_corrupt` if nothing of it
/// can be read.
pub async fn recover(site: &Offline, dry_run: bool) -> Result<Report> {
    let database = site.database();
    let backups = copies::list(&copies::folder(site.data()))?;
    if !dry_run {
        backup::put_in_place(&database)?;
    }
    let damage = match backup::faults_of(&database) {
        Ok(damage) => damage,
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            return Err(Error::not_found(format!("there is no database {database}"))
                .code("no_database")
                .hint(advice(&backups)));
        }
        Err(cause) => vec![cause.chain()],
    };
    let mut report = Report { damage, backups, dry_run, ..Report::default() };
    let working = site.clear()?;
    if report.damage.is_empty() && dry_run {
        // On a copy: even opening a database can bring it to a newer version.
        backup::copy(&database, &working, MIGRATIONS)?;
        reconcile_in(site, &working, false, &mut report).await?;
        site.clear()?;
        return Ok(report);
    }
    if report.damage.is_empty() {
        reconcile_in(site, &database, true, &mut report).await?;
        return Ok(report);
    }
    match salvage(&database, &working, MIGRATIONS, &site.clock) {
        Ok(tables) => report.tables = tables,
        // What was asked is told: that it is beyond saving is an answer too.
        Err(cause) if dry_run && cause.code_str() == CORRUPT => {
            report.not_saved = Some(cause.message().to_owned());
        }
        Err(cause) => return Err(cause.hint(advice(&report.backups))),
    }
    if dry_run {
        site.clear()?;
        return Ok(report);
    }
    report.from = Some(database);
    report.epoch = Some(begin_life(site, &working)?);
    // What it says of its tokens and persons was saved with the rest.
    settle(site, &working, Some(&Old::default()), true, &mut report).await?;
    put(site, &working, "damaged", &mut report)?;
    Ok(report)
}

fn advice(backups: &[copies::Backup]) -> String {
    match backups.first() {
        Some(newest) => format!("restore the newest backup: wiki-browser restore {}", newest.path),
        None => "there is no backup in the data folder: wiki-browser restore FILE".to_owned(),
    }
}

fn old_state(database: &Utf8Path) -> Option<Old> {
    let read = || -> Result<Old> {
        let rows = backup::row_counts(database)?;
        backup::look(database, |c| {
            Ok(Old { rows, disabled: people::disabled(c)?, revoked: people::revoked_tokens(c)? })
        })
    };
    read().map_err(|cause| warn!("the old database cannot be read: {}", cause.chain())).ok()
}

fn rows_lost(old: &BTreeMap<String, i64>, new: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let more = old.iter().map(|(table, rows)| (table, rows - new.get(table).unwrap_or(&0)));
    more.filter(|(_, rows)| *rows > 0).map(|(table, rows)| (table.clone(), rows)).collect()
}

fn begin_life(site: &Offline, working: &Utf8Path) -> Result<String> {
    let epoch: JobId = Ids::new(site.clock.clone()).mint();
    backup::begin_life(working, epoch.as_str())?;
    Ok(epoch.to_string())
}

/// Keeps the old database under a name of its own and puts the new one in its place.
fn put(site: &Offline, working: &Utf8Path, word: &str, report: &mut Report) -> Result<()> {
    backup::into_one_file(working)?;
    let folder = copies::folder(site.data());
    backup::make_folder(&folder)?;
    let stamp = site.clock.now().rfc3339();
    let stamp: String = stamp.chars().filter(char::is_ascii_alphanumeric).collect();
    report.kept = backup::keep_aside(&site.database(), &folder.join(format!("{word}-{stamp}.db")))?;
    fault::crash_point("restore_aside");
    backup::replace(&site.database(), working)
}

/// Makes rows of another time fit the present: jobs, credentials, approvals.
async fn settle(
    site: &Offline,
    working: &Utf8Path,
    old: Option<&Old>,
    keep_tokens: bool,
    report: &mut Report,
) -> Result<()> {
    let (store, writer) = Store::open(working, MIGRATIONS, site.clock.clone())?;
    let (stop, writers) = (CancellationToken::new(), TaskTracker::new());
    let writing = writers.spawn(writer.serve(stop.clone()));
    let done = async {
        settle_rows(site, &store, old, keep_tokens, report).await?;
        fault::crash_point("restore_settled");
        reconcile(site, &store, true, report).await
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
    old: Option<&Old>,
    keep_tokens: bool,
    report: &mut Report,
) -> Result<()> {
    let folder = site.data().join("jobs");
    let is_known = folder.is_dir();
    let waiting = store.read(jobs::queued).await?;
    // Without the folders nothing shows that a job was not started since.
    let started: Vec<JobId> = waiting
        .into_iter()
        .filter(|id| !is_known || std::fs::symlink_metadata(job_dir(site.data(), id)).is_ok())
        .collect();
    let (lanes, ids) = (Capacities(site.config.limits.lanes.clone()), started.clone());
    let (disabled, revoked) =
        old.map(|it| (it.disabled.clone(), it.revoked.clone())).unwrap_or_default();
    let ends_all = old.is_none() && !keep_tokens;
    let done = store.write(move |tx| {
        let running = jobs::fence_all(tx)?;
        for id in &ids {
            jobs::cancel_queued(tx, id, &Actor::System, &lanes)?;
        }
        let tokens = match ends_all {
            true => people::revoke_all_tokens(tx)?,
            false => people::revoke_tokens(tx, &revoked)?,
        };
        let mut persons = 0;
        for id in &disabled {
            let person = people::find(tx.connection(), id)?;
            if person.is_some_and(|it| it.disabled_at.is_none()) {
                people::disable(tx, id)?;
                cancel_waiting(tx, id, &Actor::System, &lanes)?;
                persons += 1;
            }
        }
        Ok((running, tokens, persons))
    });
    (report.jobs_running, report.tokens_ended, report.persons_disabled) = done.await?;
    report.jobs_cancelled = started;
    Ok(())
}

/// The same for the present database.
async fn reconcile_in(
    site: &Offline,
    database: &Utf8Path,
    settles: bool,
    report: &mut Report,
) -> Result<()> {
    let (store, writer) = Store::open(database, MIGRATIONS, site.clock.clone())?;
    let (stop, writers) = (CancellationToken::new(), TaskTracker::new());
    let writing = writers.spawn(writer.serve(stop.clone()));
    let done = reconcile(site, &store, settles, report).await;
    stop.cancel();
    drop(store);
    writing.await.context(ErrorKind::Internal, || "the writer ended badly".to_owned())?;
    done
}

/// Looks in git for the commits of proposals that the database takes for open.
async fn reconcile(
    site: &Offline,
    store: &Store,
    settles: bool,
    report: &mut Report,
) -> Result<()> {
    let repo = match &site.repo {
        Ok(repo) => repo,
        Err(cause) => {
            report.git_problem = Some(cause.chain());
            return Ok(());
        }
    };
    let ids = Ids::new(site.clock.clone());
    if settles {
        let works = Works {
            store: store.clone(),
            ids: ids.clone(),
            config: Arc::clone(&site.config),
            vm: site.vm.clone(),
            repo: repo.clone(),
            wb_agent: site.wb_agent.clone(),
        };
        // An approval that was under way is finished or taken back first: it holds its branch.
        if let Err(cause) = approve::recover(&works).await {
            report.git_problem = Some(cause.chain());
        }
    }
    for proposal in open_proposals(store).await? {
        match find_approval(repo, store, &ids, &proposal, settles).await {
            Ok(Some(found)) => report.approvals.push(found),
            Ok(None) => {}
            Err(cause) => report.git_problem = Some(cause.chain()),
        }
    }
    repo.close().await;
    Ok(())
}

async fn open_proposals(store: &Store) -> Result<Vec<Proposal>> {
    let mut filter = ProposalFilter {
        status: Some(ProposalStatus::Open),
        limit: PAGE_ROWS_MAX,
        ..ProposalFilter::default()
    };
    let mut open = Vec::new();
    loop {
        let asked = filter.clone();
        let page = store.read(move |c| proposal::list(c, &asked)).await?;
        open.extend(page.items);
        match page.next {
            Some(next) => filter.after = Some(next.parse()?),
            None => return Ok(open),
        }
    }
}

async fn find_approval(
    repo: &Repo,
    store: &Store,
    ids: &Ids,
    proposal: &Proposal,
    settles: bool,
) -> Result<Option<Found>> {
    let asked = proposal.id.clone();
    let now = store.read(move |c| proposal::find(c, &asked)).await?;
    // Another approval may have made it stale meanwhile.
    let is_open = matches!(now.status, ProposalStatus::Open | ProposalStatus::Stale);
    let found = commit_of(repo, proposal, COMMITS_MAX).await?;
    let (Some((commit, approved_by)), true) = (found, is_open) else { return Ok(None) };
    let mut settled = false;
    if settles && now.status == ProposalStatus::Open {
        let approver = store
            .read(move |c| {
                let same: Vec<_> = people::list(c)?
                    .into_iter()
                    .map(|it| Actor::Person(it.id))
                    .map(|it| Ok((names::trailer(c, &it)?, it)))
                    .collect::<Result<_>>()?;
                let said = approved_by.unwrap_or_default();
                let mut same = same.into_iter().filter(|(name, _)| *name == said);
                // Only a name that means one person is that person.
                Ok(match (same.next(), same.next()) {
                    (Some((_, one)), None) => one,
                    _ => Actor::System,
                })
            })
            .await?;
        let adopted = (ids.mint(), commit.clone(), approver);
        adopt(repo, store, &approve::settle(), proposal, adopted).await?;
        settled = true;
    }
    let (proposal_id, topic_id) = (proposal.id.clone(), proposal.topic_id.clone());
    Ok(Some(Found { proposal_id, topic_id, commit, settled }))
}
