//! What is changed in the repository without this program is noticed: commits of others, branches
//! that move, and edits that are not committed.
//!
//! The kernel tells which names change in the folders of the Sources and of git; then those Sources
//! are looked at. What was seen stands in the database, so what was changed while no server ran is
//! noticed at the next start, and nothing is told twice.
//!
//! **Invariant:** nothing wakes up while nothing changes. Where the kernel cannot watch all, it is
//! looked again and again, but only while somebody is there or a job runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::base::limit::{CHANGES_TOLD_MAX, WATCHED_FOLDERS_MAX};
use crate::base::{Actor, Error, ErrorKind, Event, EventKind, Result, SourcePath, fault};
use crate::documents::TipMarks;
use crate::documents::git::SPECIAL_FILE;
use crate::documents::proposals::proposal;
use crate::documents::seen::{self, Hint, Seen, Sighting, SourceChange};
use crate::documents::topics::{placement, topic};
use crate::flows::Works;
use crate::flows::automation::told::{self, Known};
use crate::flows::proposals::rebase;
use crate::flows::repository::presence::Presence;
use crate::flows::repository::{lanes, renames};
use crate::flows::topics::places;
use crate::flows::topics::places::Held;
use crate::jobs;
use crate::process::{Noticed, Notices};
use crate::store::Tx;

/// How long to wait for further changes: an editor writes a file in several steps, and git many
/// files.
const CALM: Duration = Duration::from_millis(80);
/// Longest total wait for further changes.
const CALM_MAX: Duration = Duration::from_millis(600);
/// First delay after a failed look; doubled each time.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest delay after failed looks.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// Interval of looks where not everything can be watched.
const POLL: Duration = Duration::from_millis(1_200);
/// Most Sources per database query.
const SOURCES_ASKED_MAX: usize = 200;
/// Minimum pause after a look, as a multiple of its duration.
const POLL_REST: u32 = 8;

/// Called for every recorded change; the next look waits until it returns.
pub type Told = Arc<dyn Fn(Works, Arc<Vec<SourceChange>>) -> BoxFuture<'static, ()> + Send + Sync>;

/// Looks whenever something may have changed, until `stop`.
///
/// From the call on, jobs wait for the first look.
pub fn serve(
    works: Works,
    presence: Presence,
    told: Vec<Told>,
    stop: CancellationToken,
) -> impl Future<Output = ()> {
    works.freshness.begin();
    go_on(works, presence, told, stop)
}

async fn go_on(works: Works, presence: Presence, told: Vec<Told>, stop: CancellationToken) {
    let freshness = works.freshness.clone();
    let (marks, is_whole, is_behind) = (Vec::new(), false, !fault::is_off("catching_up"));
    let (notices, replaced) = (None, None);
    let mut watch = Watch { works, told, notices, marks, is_whole, is_behind, replaced };
    tokio::select! {
        () = watch.go_on(&presence) => {}
        () = stop.cancelled() => {}
    }
    freshness.end();
}

/// Returns the callback that rebases open proposals for Sources whose committed text has changed.
pub fn following() -> Told {
    Arc::new(|works, changes| {
        Box::pin(async move {
            for change in changes.iter().filter(|it| it.head_blob.is_some()) {
                rebase::look_after(&works, &change.path).await;
            }
        })
    })
}

/// Returns the callback that places the open Topics of every changed Source.
pub fn placing() -> Told {
    Arc::new(|works, changes| {
        Box::pin(async move {
            let is_busy = is_busy(&works).await.unwrap_or_else(|cause| {
                warn!("cannot tell whether git is idle: {}", cause.chain());
                true
            });
            for change in changes.iter() {
                if let Err(cause) = place_change(&works, change, is_busy).await {
                    let path = &change.path;
                    warn!(source_path = %path, "the topics of {path} are placed when somebody \
                        looks: {}", cause.chain());
                }
            }
        })
    })
}

struct Watch {
    works: Works,
    told: Vec<Told>,
    notices: Option<Notices>,
    /// The watched folders of git.
    marks: Vec<Utf8PathBuf>,
    /// Whether every folder is watched.
    is_whole: bool,
    /// Whether callbacks for recorded changes may be incomplete.
    is_behind: bool,
    /// The warning about another repository, once it is in the log.
    replaced: Option<String>,
}

/// Where to look next.
struct Due {
    hint: Hint,
    /// Whether other folders may have to be watched.
    is_moved: bool,
}

impl Watch {
    async fn go_on(&mut self, presence: &Presence) {
        let mut due = Due { hint: Hint::All, is_moved: true };
        let mut pause = AGAIN;
        loop {
            while fault::holds("before_look") {
                tokio::time::sleep(CALM).await;
            }
            let (started, marks) = (Instant::now(), self.works.repo.tip_marks());
            let looked = self.look(&due).await;
            told_of_look(&self.works, marks, looked.as_ref().is_err_and(is_unread));
            match looked {
                Ok(()) => {
                    pause = AGAIN;
                    due = self.next(presence, started.elapsed()).await;
                }
                Err(cause) => {
                    warn!("the repository cannot be read: {}", cause.chain());
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.works.freshness.asked() => {}
                    }
                    pause = (pause * 2).min(AGAIN_MAX);
                    due = Due { hint: Hint::All, is_moved: true };
                }
            }
        }
    }

    /// Starts watching before it looks, so that changes in between are noticed.
    async fn look(&mut self, due: &Due) -> Result<()> {
        let replaced = self.works.repo.replacement().await?;
        if let Some(warning) = replaced.as_ref().filter(|it| self.replaced.as_ref() != Some(it)) {
            warn!("{warning}");
        }
        self.replaced = replaced;
        if due.is_moved {
            self.watch().await?;
        }
        self.is_behind |= look_once(&self.works, &due.hint, &self.told).await?;
        let is_busy = is_busy(&self.works).await?;
        self.is_behind |= is_busy;
        if self.is_behind && !is_busy {
            let left = self.left_over().await?;
            pass_on(&self.works, left, &self.told).await;
            self.is_behind = false;
        }
        Ok(())
    }

    /// Returns the Sources in whose current version a Topic was not placed: a server was killed
    /// before it could, or the previously seen commit is gone, so nothing can be compared.
    async fn left_over(&self) -> Result<Vec<SourceChange>> {
        let store = &self.works.store;
        let Some(seen) = store.read(seen::find).await? else { return Ok(Vec::new()) };
        let open = store.read(placement::sources).await?;
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let mut all = self.works.repo.all_seen(&seen).await?;
        all.retain(|it| open.contains(&it.path));
        let mut left = Vec::new();
        // In parts, so that no reader blocks for long.
        for some in all.chunks(SOURCES_ASKED_MAX) {
            let some = some.to_vec();
            let due = move |c: &rusqlite::Connection| -> Result<Vec<SourceChange>> {
                let mut due = Vec::new();
                for it in &some {
                    if let Some(blob) = &it.blob
                        && placement::is_due(c, &it.path, blob, it.is_clean)?
                    {
                        due.push(it.clone());
                    }
                }
                Ok(due)
            };
            left.extend(store.read(due).await?);
        }
        Ok(left)
    }

    async fn watch(&mut self) -> Result<()> {
        if fault::is_absent("inotify") {
            return Ok(());
        }
        let (marks, folders) = self.works.repo.folders_to_watch().await?;
        let notices = match &mut self.notices {
            Some(notices) => notices,
            none => match Notices::open() {
                Ok(opened) => none.insert(opened),
                Err(cause) => {
                    warn!("the repository is polled while somebody is present: {}", cause.chain());
                    return Ok(());
                }
            },
        };
        let wanted: Vec<Utf8PathBuf> = marks.iter().chain(&folders).cloned().collect();
        let watched = notices.watch_only(&wanted, WATCHED_FOLDERS_MAX);
        let is_whole = watched == wanted.len();
        if !is_whole && (self.is_whole || self.marks.is_empty()) {
            info!(
                "{watched} of {} folders are watched: the rest is polled while somebody is \
                 there (see fs.inotify.max_user_watches)",
                wanted.len()
            );
        }
        self.is_whole = is_whole;
        self.marks = marks;
        Ok(())
    }

    /// Waits until something may have changed, and returns where.
    async fn next(&mut self, presence: &Presence, took: Duration) -> Due {
        let rest = POLL.max(took * POLL_REST);
        let (is_whole, works) = (self.is_whole, self.works.clone());
        let poll = async {
            if is_whole {
                return std::future::pending().await;
            }
            until_wanted(&works, presence).await;
            tokio::time::sleep(rest).await;
        };
        let noticed = async {
            match &mut self.notices {
                Some(notices) => notices.next().await,
                None => std::future::pending().await,
            }
        };
        let first = tokio::select! {
            noticed = noticed => noticed,
            () = self.works.freshness.asked() => return Due { hint: Hint::All, is_moved: true },
            () = poll => return Due { hint: Hint::All, is_moved: false },
        };
        match first {
            Ok(first) => self.collect(first).await,
            Err(cause) => {
                warn!("the repository is polled while somebody is present: {}", cause.chain());
                self.notices = None;
                self.is_whole = false;
                Due { hint: Hint::All, is_moved: false }
            }
        }
    }

    /// Collects further changes at once.
    async fn collect(&mut self, mut found: Noticed) -> Due {
        let until = Instant::now() + CALM_MAX;
        while let Some(notices) = &mut self.notices
            && Instant::now() < until
        {
            match tokio::time::timeout(CALM, notices.next()).await {
                Ok(Ok(more)) => found.merge(more),
                // The next wait reports the reason.
                Ok(Err(_)) | Err(_) => break,
            }
        }
        if let Some(notices) = &mut self.notices {
            found.folders.iter().for_each(|it| notices.forget_below(it));
        }
        self.due(&found)
    }

    fn due(&self, found: &Noticed) -> Due {
        let is_of_git = found.paths.iter().any(|it| self.is_of_git(it));
        if found.is_overflow || !found.folders.is_empty() || is_of_git {
            return Due { hint: Hint::All, is_moved: true };
        }
        let top = self.works.repo.root().path();
        let source = |path: &Utf8PathBuf| -> Option<SourcePath> {
            let path: SourcePath = path.strip_prefix(top).ok()?.as_str().parse().ok()?;
            self.works.repo.matches(&path).then_some(path)
        };
        let paths: BTreeSet<SourcePath> = found.paths.iter().filter_map(source).collect();
        Due { hint: Hint::Paths(paths), is_moved: false }
    }

    /// Returns whether a file of git shows what is checked out or staged.
    fn is_of_git(&self, path: &Utf8Path) -> bool {
        let Some((folder, name)) = path.parent().zip(path.file_name()) else { return false };
        let Some(place) = self.marks.iter().position(|it| it == folder) else { return false };
        // The first two hold much else; all others hold only branches.
        let is_told = matches!(name, "HEAD" | "index" | "packed-refs");
        !name.ends_with(".lock") && (is_told || place >= 2 || folder.ends_with("refs/heads"))
    }
}

/// Looks once where something may have changed, records changes, and calls the callbacks. Returns
/// whether the changes cannot be determined.
///
/// # Errors
/// As git or the database.
pub(in crate::flows) async fn look_once(works: &Works, hint: &Hint, told: &[Told]) -> Result<bool> {
    let marks = works.repo.tip_marks();
    let found = works.store.read(|c| Ok((seen::find(c)?, told::find(c)?)));
    let (before, heard) = found.await?;
    let sighting = works.repo.sight(before.as_ref(), hint, works.store.clock()).await?;
    let is_same = before.as_ref().is_some_and(|it| {
        it.head == sighting.seen.head && it.dirty == sighting.seen.dirty && !sighting.is_all_new
    });
    if is_same {
        if heard.is_some() {
            works.store.write(told::forget).await?;
        }
        return Ok(false);
    }
    let (is_all_new, changes) = (sighting.is_all_new, sighting.changes.clone());
    let renamed = renames::find(works, before.as_ref(), &sighting).await?;
    let now = works.now();
    let mut moves = lanes::moves(&now, &renamed).await?;
    moves.displaced = renames::displaced(&now, before.as_ref(), &renamed).await?;
    let known = match &heard {
        Some(heard) => told::compare(works, (before.as_ref(), &sighting), &renamed, heard).await?,
        None => Known::default(),
    };
    let config = now.config;
    let write = move |tx: &Tx<'_>| {
        tell(tx, before.as_ref(), &sighting, &known)?;
        renames::tell(tx, (&renamed, &known.renames), &sighting, (&config, &moves))?;
        if known.is_first { told::forget(tx) } else { Ok(()) }
    };
    works.store.write(write).await?;
    fault::crash_point("change_told");
    // Who waits for the look need not wait for what follows from it.
    told_of_look(works, marks, false);
    pass_on(works, changes, told).await;
    Ok(is_all_new)
}

/// Returns whether the repository may be readable later. A file at which git would wait is there
/// until somebody removes it.
fn is_unread(cause: &Error) -> bool {
    cause.kind() == ErrorKind::Unavailable && cause.code_str() != SPECIAL_FILE
}

/// A look has ended: jobs may have waited for it.
fn told_of_look(works: &Works, marks: TipMarks, is_unread: bool) {
    if works.freshness.looked(marks, is_unread) {
        works.store.bell(jobs::BELL).notify_one();
    }
}

async fn pass_on(works: &Works, changes: Vec<SourceChange>, told: &[Told]) {
    if changes.is_empty() {
        return;
    }
    debug!("{} sources have changed", changes.len());
    let changes = Arc::new(changes);
    for told in told {
        told(works.clone(), Arc::clone(&changes)).await;
    }
}

/// Records the current state, with an event for each change; no handler hears of what is known.
fn tell(tx: &Tx<'_>, before: Option<&Seen>, sighting: &Sighting, known: &Known) -> Result<()> {
    seen::put(tx, before, &sighting.seen)?;
    let Some(before) = before else { return Ok(()) };
    if sighting.is_all_new {
        return tell_many(tx, sighting, None, known.is_all);
    }
    let (again, new): (Vec<&SourceChange>, Vec<&SourceChange>) =
        sighting.changes.iter().partition(|it| known.sources.contains(&it.path));
    for (changes, is_known) in [(again, true), (new, false)] {
        if changes.len() > CHANGES_TOLD_MAX {
            tell_many(tx, sighting, Some(changes.len()), is_known)?;
            continue;
        }
        for change in changes {
            tell_one(tx, (before, sighting), change, is_known)?;
        }
    }
    Ok(())
}

fn tell_many(tx: &Tx<'_>, sighting: &Sighting, count: Option<usize>, is_known: bool) -> Result<()> {
    let Sighting { seen, branch, .. } = sighting;
    let data = json!({"count": count, "commit": seen.head, "branch": branch});
    tx.emit(Event::new(EventKind::SourcesChanged, "sources".to_owned(), Actor::System, data))?;
    if is_known { told::mark(tx) } else { Ok(()) }
}

fn tell_one(
    tx: &Tx<'_>,
    (before, sighting): (&Seen, &Sighting),
    change: &SourceChange,
    is_known: bool,
) -> Result<()> {
    let SourceChange { path, blob, is_clean, .. } = change;
    if let (true, Some(blob)) = (is_clean, blob)
        && proposal::was_approved_since(tx.connection(), path, blob, before.at)?
    {
        // Its approval has already reported it.
        return Ok(());
    }
    let commit = sighting.seen.head.as_ref().filter(|_| *is_clean);
    let data = json!({
        "path": path, "blob": blob, "commit": commit, "branch": sighting.branch,
        "proposal_id": null,
    });
    let subject = format!("source:{path}");
    tx.emit(Event::new(EventKind::SourceChanged, subject, Actor::System, data))?;
    if is_known { told::mark(tx) } else { Ok(()) }
}

/// Waits until somebody is present or a job runs.
async fn until_wanted(works: &Works, presence: &Presence) {
    let mut bell = works.store.subscribe();
    loop {
        match works.store.look(jobs::running_guards) {
            Ok(running) if running.is_empty() => {}
            // If the database cannot be read, the look itself will report it.
            _ => return,
        }
        tokio::select! {
            () = presence.wait() => return,
            heard = bell.recv() => if matches!(heard, Err(RecvError::Closed)) { return },
        }
    }
}

/// While git is in the middle of an operation (a rebase, a merge, a bisection), the checked-out
/// state is temporary: Topics are shown in it, but it is no baseline.
async fn place_change(works: &Works, change: &SourceChange, is_busy: bool) -> Result<()> {
    let path = &change.path;
    let begun = Instant::now();
    let asked = path.clone();
    let open = works.store.read(move |c| topic::count_open_of(c, &asked)).await?;
    if open == 0 || change.blob.is_none() {
        return Ok(());
    }
    if let (false, Some(blob)) = (change.is_clean || is_busy, &change.head_blob)
        && let Some(text) = places::text_of(works, path, blob).await?
    {
        let held = Held::Covered;
        let version = places::Version { blob: blob.clone(), text, held, is_converted: false };
        places::keep(works, path, version).await?;
    }
    let (blob, text) = works.repo.present(path).await?;
    let is_committed = change.is_clean && Some(&blob) == change.blob.as_ref() && !is_busy;
    let held = if is_committed { Held::Committed } else { Held::Working };
    let is_converted = is_committed && change.head_blob.as_ref() != Some(&blob);
    let version = places::Version { blob, text, held, is_converted };
    let count = places::keep(works, path, version).await?;
    let took = begun.elapsed().as_millis();
    debug!(source_path = %path, "{count} topics of {path} were placed in {took} ms");
    Ok(())
}

/// Returns whether git is in the middle of an operation.
async fn is_busy(works: &Works) -> Result<bool> {
    if fault::is_off("busy") {
        return Ok(false);
    }
    match works.repo.refuse_busy().await {
        Ok(()) => Ok(false),
        Err(cause) if cause.kind() == ErrorKind::Conflict => Ok(true),
        Err(cause) => Err(cause),
    }
}
