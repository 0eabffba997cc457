//! G31: what changes in the user's repository while a job runs is noticed, named, and held so that
//! it can be put back.
//!
//! An agent is to propose, not to edit. Where it edits, stages, commits or resets all the same, its
//! job is settled by its result as ever, and carries warnings that name what is different; a person
//! decides about it (`flows::jobs::changes`).

use std::io::Write as _;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tracing::warn;

use crate::base::{Context, Error, ErrorKind, JobId, Result};
use crate::documents::changes::{self, row};
use crate::documents::snapshot::{Kept, Look, Looks, Snapshot};
use crate::flows::Works;
use crate::flows::check::agent_files;
use crate::flows::repository::look_cache::Known;
use crate::jobs::{self, Recall, Watch, Watched, job_dir};
use crate::process::JobFolder;

/// File of a job's folder that says what there was before its agent started.
const BEFORE: &str = "before.json";
/// Largest such file: some thousands of files with changes of the user's own.
const BEFORE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Returns what looks at the repository before a job's agent starts and after it has ended.
pub fn watch(works: &Works) -> Watch {
    let works = works.clone();
    let known = works.repo.folders().map(|folders| {
        let except = vec![works.config.site.data.clone(), works.repo.objects()];
        Known::new(folders, except, works.store.clock().clone())
    });
    Arc::new(move |job| {
        let (works, known) = (works.clone(), known.clone());
        Box::pin(async move {
            let begun = begin(&works, &job, known.as_ref()).await;
            let starting = starting(&works, &job).await;
            let noted = Noted { looks: works.repo.looks().clone(), job: job.clone() };
            let after = move || -> BoxFuture<'static, Vec<String>> {
                Box::pin(async move {
                    let look = noted.looks.end(&noted.job);
                    let repo = works.repo.clone();
                    // Git may be writing what is held: who waits no longer does not kill it.
                    let finish =
                        async move { Ok(finish(&works, &job, look, known.as_ref()).await) };
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
            Box::new(after) as Watched
        })
    })
}

/// Returns what looks after a job that an earlier server had begun to watch.
pub fn recall(works: &Works) -> Recall {
    let works = works.clone();
    Arc::new(move |job| {
        let works = works.clone();
        Box::pin(async move {
            match remembered(&works, &job).await {
                Ok(Some(look)) => finish(&works, &job, Some(look), None).await,
                // It had not begun.
                Ok(None) => Vec::new(),
                Err(cause) => {
                    warn!(job_id = %job, "what there was before is lost: {}", cause.chain());
                    vec![format!("unwatched: what there was before is lost: {}", cause.message())]
                }
            }
        })
    })
}

/// A job that is being watched; it is forgotten also if its agent could not be started.
struct Noted {
    looks: Looks,
    job: JobId,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.looks.end(&self.job);
    }
}

/// Looks before the agent starts; what cannot be looked at becomes a warning.
async fn begin(
    works: &Works,
    job: &JobId,
    known: Option<&Known<Snapshot>>,
) -> std::result::Result<(), String> {
    let begun = async {
        let kept = open_kept(works).await?;
        let before = look(works, &kept, known).await?;
        let look = works.repo.looks().begin(job, before);
        remember(works, job, look).await
    };
    begun.await.map_err(|cause| {
        // Git may be in the middle of something; a job is not failed for the want of it.
        warn!(job_id = %job, "the repository cannot be looked at: {}", cause.chain());
        format!("unwatched: git could not look before the job: {}", cause.message())
    })
}

/// Returns a warning if the job's agent is going to start programs that the repository names.
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
        agent_files::warning(engine, &config)
    });
    looked.await.ok().flatten()
}

/// Looks again, writes down what is different and returns the sentences that name it.
async fn finish(
    works: &Works,
    job: &JobId,
    look: Option<Look>,
    known: Option<&Known<Snapshot>>,
) -> Vec<String> {
    let Some(look) = look else { return Vec::new() };
    match compare(works, job, look, known).await {
        Ok(told) => {
            forget(works, job).await;
            told
        }
        Err(cause) => {
            warn!(job_id = %job, "what changed cannot be named: {}", cause.chain());
            vec![format!(
                "touched_git: git could look before the job, and cannot now: {}",
                cause.message()
            )]
        }
    }
}

async fn look(works: &Works, kept: &Kept, known: Option<&Known<Snapshot>>) -> Result<Snapshot> {
    match known {
        Some(known) => known.or_look(works.repo.look(kept)).await,
        None => works.repo.look(kept).await,
    }
}

async fn compare(
    works: &Works,
    job: &JobId,
    begun: Look,
    known: Option<&Known<Snapshot>>,
) -> Result<Vec<String>> {
    let kept = open_kept(works).await?;
    let after = look(works, &kept, known).await?;
    if begun.before == after {
        return Ok(Vec::new());
    }
    let named = agent_files::named_by_script(&works.config_of(job), works.repo.top());
    let moments = (&begun.before, &after);
    let mut found = changes::compare(&works.repo, &works.store, moments, &named).await?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    found.others = begun.others;
    let tips = (&begun.before.tip, &after.tip);
    let held = found.hold(&works.repo, &kept, job, tips).await;
    let mut told = found.sentences();
    if let Err(cause) = held {
        warn!(job_id = %job, "what changed cannot be held: {}", cause.chain());
        told.push(format!("not_held: what there was may be lost: {}", cause.message()));
    }
    let (id, steering) = (job.clone(), found.agent_files.first().cloned());
    let keep = works.store.write(move |tx| {
        if !found.agent_files.is_empty() {
            jobs::hold_steering(tx, &id, &found.agent_files)?;
        }
        row::insert(tx, &id, &found)
    });
    keep.await?;
    if let Some(file) = steering {
        warn!(
            job_id = %job,
            "no agent starts until somebody decides: {file}, which agents obey, changed while this \
             job ran; wiki-browser job restore {job} puts it back, wiki-browser job keep {job} \
             leaves it"
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

/// Writes down what there was: a server that is killed cannot compare.
async fn remember(works: &Works, job: &JobId, look: Look) -> Result<()> {
    let folder = job_dir(&works.config.site.data, job);
    blocking(move || {
        let text = serde_json::to_vec(&look)
            .context(ErrorKind::Internal, || "a snapshot is not JSON".to_owned())?;
        let written = JobFolder::make(&folder)?.replace(BEFORE, |file| file.write_all(&text));
        written.map(drop).context(ErrorKind::Unavailable, || format!("cannot write in {folder}"))
    })
    .await
}

async fn remembered(works: &Works, job: &JobId) -> Result<Option<Look>> {
    let folder = job_dir(&works.config.site.data, job);
    blocking(move || {
        let Some(opened) = JobFolder::open(&folder)? else { return Ok(None) };
        let Some(text) = opened.read(BEFORE, BEFORE_BYTES_MAX)? else { return Ok(None) };
        let damaged = || format!("{BEFORE} in {folder} is damaged");
        let look: Look = serde_json::from_slice(&text).context(ErrorKind::Unavailable, damaged)?;
        match look.before.is_plausible() {
            true => Ok(Some(look)),
            false => Err(Error::unavailable(damaged())),
        }
    })
    .await
}

async fn forget(works: &Works, job: &JobId) {
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
