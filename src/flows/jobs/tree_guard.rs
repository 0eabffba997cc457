//! G31: what changes in the user's repository while a job runs is noticed, named, and held so that
//! it can be put back.
//!
//! An agent is to propose, not to edit. Where it edits, stages, commits or resets all the same, its
//! job is settled by its result as ever, and carries warnings that name what is different; a person
//! decides about it (`flows::jobs::changes`).

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::base::{Context, Error, ErrorKind, JobId, Result, digest_hex, fault};
use crate::documents::changes::{self, Changes, row};
use crate::documents::snapshot::{Kept, Look, Looks, Snapshot};
use crate::flows::Works;
use crate::flows::check::steering_files;
use crate::flows::jobs::steering_hold::{covered, hold, let_go_of};
use crate::flows::repository::look_cache::Known;
use crate::jobs::{self, Beginning, LOST, Recall, Steady, UNSEEN, Watch, Watched, job_dir};
use crate::process::JobFolder;
use crate::script::Engine;

/// The file in a job's folder with the state before its agent started.
const BEFORE: &str = "before.json";
/// The code of what there was before a job and is not known any more.
pub(super) const UNWATCHED: &str = "unwatched";
/// How often to look again while agents are held.
const AGAIN: Duration = Duration::from_secs(2);
/// Largest such file: some thousands of uncommitted files.
const BEFORE_BYTES_MAX: u64 = 64 * 1024 * 1024;

type Cache = Option<Known<Snapshot>>;
type Cached<'a> = Option<&'a Known<Snapshot>>;

/// Returns the hooks that compare the repository before and after a job's agent, and that decide
/// whether one may start.
pub fn watch(works: &Works) -> (Watch, Steady) {
    let works = works.clone();
    let known: Cache = works.repo.folders().map(|folders| {
        let except = vec![works.config.site.data.clone(), works.repo.objects()];
        Known::new(folders, except, works.store.clock().clone(), |it: &Snapshot| &it.named)
    });
    let (asked, cache) = (works.clone(), known.clone());
    let steady: Steady = Arc::new(move |job| {
        let (works, known) = (asked.clone(), cache.clone());
        Box::pin(async move { is_steady(&works, &job, known.as_ref()).await })
    });
    let watch: Watch = Arc::new(move |job, beginning| {
        let (works, known) = (works.clone(), known.clone());
        Box::pin(async move { watched(works, job, beginning, known).await })
    });
    (watch, steady)
}

async fn watched(works: Works, job: JobId, beginning: Beginning, known: Cache) -> Watched {
    let (begun, starting) = match beginning {
        Beginning::Now => (begin(&works, &job, known.as_ref()).await, starting(&works, &job).await),
        Beginning::Earlier => (resume(&works, &job).await, None),
    };
    let noted = Noted { looks: works.repo.looks().clone(), job: job.clone() };
    let after = move || -> BoxFuture<'static, Vec<String>> {
        Box::pin(async move {
            let repo = works.repo.clone();
            // Git may be writing objects; a caller that stops waiting does not kill it.
            let finish = async move {
                let noted = noted;
                Ok(finish(&works, &noted.job, known.as_ref()).await)
            };
            let mut told = match begun {
                Ok(()) => repo.run_to_end(finish).await.unwrap_or_else(|cause| {
                    vec![format!("unwatched: the look failed: {}", cause.message())]
                }),
                Err(unseen) => vec![unseen],
            };
            told.extend(starting);
            told
        })
    };
    Box::new(after)
}

/// Returns the guard for a job that an earlier server was watching.
pub fn recall(works: &Works) -> Recall {
    let works = works.clone();
    Arc::new(move |job| {
        let works = works.clone();
        Box::pin(async move {
            match remembered(&works, &job).await {
                Ok(Some(look)) => {
                    let noted = Noted { looks: works.repo.looks().clone(), job };
                    noted.looks.resume(&noted.job, look);
                    finish(&works, &noted.job, None).await
                }
                // Watching had not begun.
                Ok(None) => Vec::new(),
                Err(cause) => vec![lost(&works, &job, &cause).await],
            }
        })
    })
}

/// A watched job; removed even if its agent could not be started.
struct Noted {
    looks: Looks,
    job: JobId,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.looks.end(&self.job);
    }
}

/// Records the state before the agent starts; a failure becomes a warning.
async fn begin(works: &Works, job: &JobId, known: Cached<'_>) -> std::result::Result<(), String> {
    let _look = works.repo.looks().begin_look(job, works.store.clock().now());
    let begun = async {
        let kept = open_kept(works).await?;
        let before = look(works, job, &kept, known).await?;
        let look = works.repo.looks().begin(job, before);
        remember(works, job, look).await
    };
    begun.await.map_err(|cause| {
        // Git may be in the middle of an operation; the job does not fail because of that.
        warn!(job_id = %job, "the repository cannot be read: {}", cause.chain());
        format!("unwatched: git could not look before the job: {}", cause.message())
    })
}

/// Continues with a job that an earlier server was watching.
async fn resume(works: &Works, job: &JobId) -> std::result::Result<(), String> {
    match remembered(works, job).await {
        Ok(Some(look)) => {
            works.repo.looks().resume(job, look);
            Ok(())
        }
        Ok(None) => Err("unwatched: no server looked before the job".to_owned()),
        Err(cause) => Err(lost(works, job, &cause).await),
    }
}

/// The earlier state cannot be read, so the changes are unknown.
async fn lost(works: &Works, job: &JobId, cause: &Error) -> String {
    warn!(job_id = %job, "what there was before is lost: {}", cause.chain());
    let mark = if cause.code_str() == UNWATCHED { LOST } else { UNSEEN };
    hold(works, job, vec![mark.to_owned()]).await;
    format!("unwatched: what there was before is lost: {}", cause.message())
}

/// Checks the files that steer agents against the state at the start of each running job. If they
/// differ, this is recorded, and no agent starts until a person decides.
async fn is_steady(works: &Works, job: &JobId, known: Cached<'_>) -> bool {
    if fault::is_off("steering_hold") || is_builtin(works, job).await {
        return true;
    }
    let _look = works.repo.looks().begin_look(job, works.store.clock().now());
    let mut is_steady = true;
    for (other, _) in works.repo.looks().others(Some(job)) {
        is_steady &= !judge(works, &other, known).await;
    }
    is_steady
}

/// Holds all agents if the files that steer them changed since a running job began, or if that is
/// unknown; releases the hold if they are as before. Returns whether agents are held.
async fn judge(works: &Works, job: &JobId, known: Cached<'_>) -> bool {
    let looks = works.repo.looks();
    while let Some(begun) = looks.find(job) {
        let files = match steering_since(works, job, &begun, known).await {
            Ok(found) => found.map(|it| it.agent_files).unwrap_or_default(),
            Err(cause) => {
                warn!(job_id = %job, "nobody can say what changed: {}", cause.chain());
                vec![UNSEEN.to_owned()]
            }
        };
        let _decision = looks.decision().await;
        if looks.find(job).is_none_or(|it| it.before != begun.before) {
            continue;
        }
        if files.is_empty() {
            let_go_of(works, job).await;
            return false;
        }
        hold(works, job, files).await;
        return true;
    }
    // It has ended, and what changed is on record.
    let _decision = looks.decision().await;
    let holding = works.store.read(jobs::holding).await;
    holding.map_or(true, |it| it.contains(job))
}

/// Returns the changes since a job began.
pub(super) async fn steering_since(
    works: &Works,
    job: &JobId,
    begun: &Look,
    known: Cached<'_>,
) -> Result<Option<Changes>> {
    let kept = open_kept(works).await?;
    let now = look(works, job, &kept, known).await?;
    steering_between(works, job, (&begun.before, &now)).await
}

/// Returns the changes between two states of a job.
pub(super) async fn steering_between(
    works: &Works,
    job: &JobId,
    moments: (&Snapshot, &Snapshot),
) -> Result<Option<Changes>> {
    if moments.0 == moments.1 {
        return Ok(None);
    }
    let named = named_for(works, job);
    let kept = open_kept(works).await?;
    changes::compare((&works.repo, &kept), &works.store, moments, &named).await.map(Some)
}

/// Returns the files and folders by which a job's script steers its agents.
pub(super) fn named_for(works: &Works, job: &JobId) -> Vec<String> {
    steering_files::named_by_script(&works.config_of(job), works.repo.top())
}

async fn is_builtin(works: &Works, job: &JobId) -> bool {
    let (config, asked) = (works.config_of(job), job.clone());
    let found = works.store.read(move |c| jobs::find_brief(c, &jobs::Viewer::Program, &asked));
    let Ok(job) = found.await else { return false };
    let engine = config.kind_of_job(&job.kind).and_then(|it| config.engines.get(&it.engine));
    engine.is_some_and(Engine::is_builtin)
}

/// Rechecks, until `stop`, the jobs that hold agents and cannot be decided yet: they are still
/// running, or ended while git could not read the repository.
pub async fn serve(works: Works, stop: CancellationToken) {
    let held = works.store.bell(jobs::STEERING_BELL);
    loop {
        let holding = match works.store.read(jobs::holding).await {
            Ok(holding) => Some(holding),
            Err(cause) => {
                warn!("holds cannot be read: {}", cause.chain());
                None
            }
        };
        let is_calm = holding.as_ref().is_some_and(Vec::is_empty);
        tokio::select! {
            () = held.notified() => {}
            () = tokio::time::sleep(AGAIN), if !is_calm => {}
            () = stop.cancelled() => return,
        }
        for job in holding.into_iter().flatten() {
            if works.repo.looks().find(&job).is_some() {
                judge(&works, &job, None).await;
            } else if let Err(cause) = look_late(&works, &job).await {
                debug!(job_id = %job, "no look yet: {}", cause.chain());
            }
        }
    }
}

/// Compares after a job that ended while git could not read the repository. Returns whether it was
/// still open.
///
/// # Errors
/// What git says if it still cannot.
pub(in crate::flows) async fn look_late(works: &Works, job: &JobId) -> Result<bool> {
    let id = job.clone();
    let state = works.store.read(move |c| {
        let job = jobs::find_brief(c, &jobs::Viewer::Program, &id)?;
        let is_open = job.status.is_final() && row::find(c, &id)?.is_none();
        Ok(is_open && jobs::holding(c)?.contains(&id))
    });
    if !state.await? {
        return Ok(false);
    }
    let Some(begun) = remembered(works, job).await? else {
        return Err(Error::unavailable("the previous state is unknown").code(UNWATCHED));
    };
    let after = look(works, job, &open_kept(works).await?, None).await?;
    let _decision = works.repo.looks().decision().await;
    record(works, job, begun, &after).await?;
    forget(works, job).await;
    Ok(true)
}

/// Returns a warning if the job's agent will start programs that the repository names.
async fn starting(works: &Works, job: &JobId) -> Option<String> {
    let (config, asked) = (works.config_of(job), job.clone());
    let kind = match works
        .store
        .read(move |c| jobs::find_brief(c, &jobs::Viewer::Program, &asked))
        .await
    {
        Ok(job) => job.kind,
        Err(cause) => {
            warn!(job_id = %job, "the job cannot be read: {}", cause.chain());
            return None;
        }
    };
    let looked = tokio::task::spawn_blocking(move || {
        let engine = config.engines.get(&config.kinds.get(&kind)?.engine)?;
        steering_files::warning(engine, &config)
    });
    looked.await.ok().flatten()
}

/// Compares again, records the changes and returns sentences that name them.
async fn finish(works: &Works, job: &JobId, known: Cached<'_>) -> Vec<String> {
    let _look = works.repo.looks().begin_look(job, works.store.clock().now());
    match compare(works, job, known).await {
        Ok(told) => {
            forget(works, job).await;
            told
        }
        Err(cause) => {
            warn!(job_id = %job, "what changed cannot be named: {}", cause.chain());
            // The earlier state stays recorded, and is compared as soon as git works.
            hold(works, job, vec![UNSEEN.to_owned()]).await;
            vec![format!(
                "touched_git: git could look before the job, and cannot now: {}; no agent starts \
                 until it can",
                cause.message()
            )]
        }
    }
}

async fn look(works: &Works, job: &JobId, kept: &Kept, known: Cached<'_>) -> Result<Snapshot> {
    while fault::holds("look") {
        tokio::time::sleep(AGAIN).await;
    }
    // Not even what is known already says that nobody would wait there.
    works.repo.refuse_special().await?;
    let named = named_for(works, job);
    let look = works.repo.look(kept, &named);
    let Some(known) = known else { return look.await };
    let seen = known.or_look(&named, look).await?;
    // The folder of kept content may have been replaced.
    let (asked, place) = (seen.clone(), kept.clone());
    match blocking(move || Ok(place.has_all(&asked))).await? {
        true => Ok(seen),
        false => works.repo.look(kept, &named).await,
    }
}

/// Looks again, and records what a watched job changed, which is watched no longer. What a person
/// accepts during the look counts.
async fn compare(works: &Works, job: &JobId, known: Cached<'_>) -> Result<Vec<String>> {
    let looks = works.repo.looks();
    while let Some(begun) = looks.find(job) {
        let after = look(works, job, &open_kept(works).await?, known).await?;
        let _decision = looks.decision().await;
        if looks.find(job).is_some_and(|it| it.before == begun.before) {
            let begun = looks.end(job).unwrap_or(begun);
            return record(works, job, begun, &after).await;
        }
    }
    Ok(Vec::new())
}

/// Records the changes between two states of a job, and returns sentences that name them.
async fn record(works: &Works, job: &JobId, begun: Look, after: &Snapshot) -> Result<Vec<String>> {
    let kept = open_kept(works).await?;
    let mut found = Changes::default();
    if begun.before != *after {
        let (named, moments) = (named_for(works, job), (&begun.before, after));
        found = changes::compare((&works.repo, &kept), &works.store, moments, &named).await?;
    }
    if found.agent_files.is_empty() {
        // The files may have differed while it ran.
        let_go_of(works, job).await;
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    found.others = begun.others;
    let tips = (&begun.before.tip, &after.tip);
    let held = found.hold(&works.repo, &kept, job, tips).await;
    let mut told = covered(works, job, found.sentences());
    let files = covered(works, job, found.agent_files.clone());
    if let Err(cause) = held {
        warn!(job_id = %job, "what changed cannot be held: {}", cause.chain());
        told.push(format!("not_held: what there was may be lost: {}", cause.message()));
    }
    let (id, steering) = (job.clone(), files.first().cloned());
    let keep = works.store.write(move |tx| {
        if !files.is_empty() {
            jobs::hold_steering(tx, &id, &files)?;
        }
        row::insert(tx, &id, &found)
    });
    keep.await?;
    if let Some(file) = steering {
        warn!(
            job_id = %job,
            "no agent starts until someone decides: {file} controls agents and changed during this \
             job; to restore it: wiki-browser job restore {job} with its name, to keep it: \
             wiki-browser job keep {job}"
        );
    }
    Ok(told)
}

/// Opens the folder of kept content.
///
/// # Errors
/// `unavailable` if it cannot be made.
pub(in crate::flows) async fn open_kept(works: &Works) -> Result<Kept> {
    let data = works.config.site.data.clone();
    blocking(move || Kept::open(&data)).await
}

/// Writes the earlier state: a killed server could not compare otherwise. Its digest stands in the
/// database, because an agent can reach the file.
pub(super) async fn remember(works: &Works, job: &JobId, look: Look) -> Result<()> {
    let folder = job_dir(&works.config.site.data, job);
    let digest = blocking(move || {
        let text = serde_json::to_vec(&look)
            .context(ErrorKind::Internal, || "a snapshot is not JSON".to_owned())?;
        let written = JobFolder::make(&folder)?.replace(BEFORE, |file| file.write_all(&text));
        written.context(ErrorKind::Unavailable, || format!("cannot write in {folder}"))?;
        Ok(digest_hex(&text))
    });
    let (digest, id) = (digest.await?, job.clone());
    works.store.write(move |tx| jobs::keep_before(tx, &id, Some(&digest))).await
}

/// Returns the earlier state; `None` if nobody watches the job.
///
/// # Errors
/// `unavailable` if it was written and is gone, damaged or another one.
pub(super) async fn remembered(works: &Works, job: &JobId) -> Result<Option<Look>> {
    let (folder, id) = (job_dir(&works.config.site.data, job), job.clone());
    let known = works.store.read(move |c| jobs::before_of(c, &id)).await?;
    blocking(move || {
        let found = match JobFolder::open(&folder)? {
            Some(opened) => opened.read(BEFORE, BEFORE_BYTES_MAX)?,
            None => None,
        };
        let is_off = fault::is_off("before_digest");
        let text = match (found, &known) {
            (None, Some(_)) if !is_off => {
                let message = format!("{BEFORE} in {folder} is gone");
                return Err(Error::unavailable(message).code(UNWATCHED));
            }
            (None, _) => return Ok(None),
            (Some(text), _) => text,
        };
        let damaged = || format!("{BEFORE} in {folder} is damaged");
        // A server before this one may have written none.
        if known.is_some_and(|it| it != digest_hex(&text)) && !is_off {
            return Err(Error::unavailable(damaged()).code(UNWATCHED));
        }
        let look: Look = serde_json::from_slice(&text).context(ErrorKind::Unavailable, damaged)?;
        match look.before.is_plausible() {
            true => Ok(Some(look)),
            false => Err(Error::unavailable(damaged()).code(UNWATCHED)),
        }
    })
    .await
}

async fn forget(works: &Works, job: &JobId) {
    let id = job.clone();
    // Before the file: what is gone without this is missed.
    if let Err(cause) = works.store.write(move |tx| jobs::keep_before(tx, &id, None)).await {
        warn!(job_id = %job, "{BEFORE} stays: {}", cause.chain());
        return;
    }
    let folder = job_dir(&works.config.site.data, job);
    let removed = blocking(move || {
        let Some(opened) = JobFolder::open(&folder)? else { return Ok(()) };
        let cannot = || format!("cannot remove {BEFORE} in {folder}");
        opened.remove(BEFORE).context(ErrorKind::Unavailable, cannot)
    });
    if let Err(cause) = removed.await {
        warn!(job_id = %job, "{}", cause.chain());
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.context(ErrorKind::Internal, || "a look at the disk panicked".to_owned())?
}
