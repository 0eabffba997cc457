//! Keeps the index of the search up to date: Sources by version, and what was written before there
//! was an index. Topics and messages are taken in by the transactions that write them.
//!
//! **Invariant:** each step is one short transaction that leaves the index true for what is in it:
//! a server that is killed goes on where it was.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::base::limit::SEARCHES_MAX;
use crate::base::{
    BlobId, Context, Error, ErrorKind, EventKind, INDEX_DAMAGED, Result, SourcePath, fault,
};
use crate::chat;
use crate::documents::git::Identity;
use crate::documents::search::{self, Left, Part};
use crate::documents::sources::source::SourceEntry;
use crate::documents::sources::title::title_of;
use crate::flows::Works;
use crate::store::Tx;

/// Interval of looks at the repository without the bell. Searches look, too.
const LOOK_EVERY: Duration = Duration::from_secs(900);
/// Most changed paths handled one by one; beyond, the whole repository is compared.
const PATHS_MAX: usize = 50;
/// Most bytes of text per transaction, unless it is a single Source.
const STEP_BYTES: usize = 64 * 1024;
/// Most Sources per transaction.
const STEP_SOURCES: usize = 64;
/// Longest pause after a step. A pause is as long as the step, so that half of a processor and of
/// the writer's time is left.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// A handle to the index; clones share it.
#[derive(Clone)]
pub struct Index(Arc<Shared>);

struct Shared {
    changed: Mutex<Changed>,
    progress: Mutex<Progress>,
    slots: Semaphore,
    bell: tokio::sync::Notify,
}

/// What may have changed since the last look.
#[derive(Default)]
struct Changed {
    is_all: bool,
    is_damaged: bool,
    paths: BTreeSet<SourcePath>,
    seen: Option<Identity>,
}

/// The state of the index.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Progress {
    /// `building` while work is known to be left, or before the first look; `ready`; or `failed`
    /// until the next attempt.
    pub state: Cow<'static, str>,
    /// The remaining work; for Sources it is unknown before the first look at the repository.
    pub left: Left,
    /// The error, if it failed.
    pub problem: Option<String>,
}

impl Default for Index {
    fn default() -> Index {
        let progress = Progress { state: "building".into(), left: Left::default(), problem: None };
        Index(Arc::new(Shared {
            changed: Mutex::default(),
            progress: Mutex::new(progress),
            slots: Semaphore::new(SEARCHES_MAX),
            bell: tokio::sync::Notify::new(),
        }))
    }
}

impl Index {
    /// Records that these Sources may have changed, appeared or disappeared. Called by the watcher;
    /// costs nothing if nothing has changed.
    pub fn sources_changed(&self, paths: impl IntoIterator<Item = SourcePath>) {
        let mut changed = self.changed();
        changed.paths.extend(paths);
        if changed.paths.len() > PATHS_MAX {
            changed.paths.clear();
            changed.is_all = true;
        }
        drop(changed);
        self.fall_behind();
    }

    /// Records that many Sources have changed, for example after a pull.
    pub fn repository_changed(&self) {
        self.changed().is_all = true;
        self.fall_behind();
    }

    /// Records an error of a search: a damaged index is rebuilt.
    pub(super) fn failed(&self, cause: &Error) {
        if cause.code_str() == INDEX_DAMAGED {
            self.changed().is_damaged = true;
            self.fall_behind();
        }
    }

    /// Returns the state of the index.
    pub fn progress(&self) -> Progress {
        self.progress_lock().clone()
    }

    pub(super) fn slots(&self) -> &Semaphore {
        &self.0.slots
    }

    /// Records whether git has written its index since the last call. Git often does so without a
    /// change of a document (`git add`, `git status`), so nothing counts as left until the
    /// repository is compared.
    pub(super) fn look(&self, works: &Works) {
        let now = works.repo.index_identity();
        let mut changed = self.changed();
        if changed.seen != now && !fault::is_off("search_look") {
            changed.seen = now;
            changed.is_all = true;
            drop(changed);
            self.0.bell.notify_one();
        }
    }

    /// Records that changes may have been missed.
    fn missed(&self) {
        self.changed().is_all = true;
        self.0.bell.notify_one();
    }

    /// Records that work is left, and wakes the indexer.
    fn fall_behind(&self) {
        self.progress_lock().state = "building".into();
        self.0.bell.notify_one();
    }

    fn progress_lock(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that no work is left, unless something arrived in the meantime.
    fn set_ready(&self) {
        let changed = self.changed();
        if !changed.is_all && !changed.is_damaged && changed.paths.is_empty() {
            self.set("ready", Left::default(), None);
        }
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.0.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_changed(&self) -> (bool, Vec<SourcePath>) {
        let mut changed = self.changed();
        let paths = std::mem::take(&mut changed.paths);
        (std::mem::take(&mut changed.is_all), paths.into_iter().collect())
    }

    fn set(&self, state: &'static str, left: Left, problem: Option<String>) {
        *self.progress_lock() = Progress { state: state.into(), left, problem };
    }
}

/// Keeps the index up to date until `stop`.
pub async fn serve(works: Works, stop: CancellationToken) {
    let mut events = works.store.subscribe();
    let damaged = works.store.bell(search::BELL);
    let index = works.search.clone();
    index.look(&works);
    index.missed();
    let mut work = Work { works, queue: VecDeque::new(), left: Left::default() };
    loop {
        tokio::select! {
            done = work.run() => match done {
                Ok(()) => index.set_ready(),
                Err(cause) => work.give_up(&cause),
            },
            () = stop.cancelled() => return,
        }
        let called = async {
            loop {
                tokio::select! {
                    () = index.0.bell.notified() => return,
                    () = damaged.notified() => return,
                    event = events.recv() => match event {
                        Ok(event) if event.kind == EventKind::SourceChanged => {
                            let path = event.data["path"].as_str();
                            index.sources_changed(path.and_then(|it| it.parse().ok()));
                        }
                        Ok(event) if event.kind == EventKind::SourcesChanged => {
                            index.repository_changed();
                        }
                        Ok(_) => {}
                        Err(RecvError::Lagged(_)) => index.missed(),
                        Err(RecvError::Closed) => return,
                    },
                    () = tokio::time::sleep(LOOK_EVERY) => {
                        index.look(&work.works);
                        return;
                    }
                }
            }
        };
        tokio::select! {
            () = called => {}
            () = stop.cancelled() => return,
        }
    }
}

/// The work for one Source.
enum Step {
    /// Index its text, unless this version is already indexed.
    Take(SourcePath, Option<BlobId>),
    /// Remove it.
    Remove(SourcePath),
}

/// The work in progress.
struct Work {
    works: Works,
    queue: VecDeque<Step>,
    left: Left,
}

/// The writes of one transaction.
#[derive(Clone, Default)]
struct Batch {
    parts: Vec<(SourcePath, Option<String>, Part)>,
    seals: Vec<(SourcePath, BlobId)>,
    removals: Vec<SourcePath>,
}

/// A Source that was read and folded.
struct Taken {
    path: SourcePath,
    /// Its title.
    title: Option<String>,
    blob: Option<BlobId>,
    bytes: usize,
    parts: Vec<Part>,
}

impl Work {
    /// Works until nothing is left.
    async fn run(&mut self) -> Result<()> {
        let is_damaged = std::mem::take(&mut self.works.search.changed().is_damaged);
        if self.works.store.take_index_damage() || is_damaged {
            self.works.store.write(search::mark_damaged).await?;
        }
        let mut state = self.works.store.read(search::state).await?;
        if state.is_stale {
            info!("rebuilding the search index");
            let anew = |tx: &Tx<'_>| {
                search::begin_anew(tx)?;
                chat::forget_words(tx)
            };
            self.works.store.write(anew).await?;
            self.queue.clear();
            self.works.search.repository_changed();
            state.has_threads = false;
        }
        let mut has_threads = state.has_threads;
        let mut has_chats = self.works.store.read(chat::has_all_words).await?;
        if !has_threads {
            let left = self.works.store.read(search::left).await?;
            (self.left.topics, self.left.messages) = (left.topics, left.messages);
        }
        let begun = Instant::now();
        loop {
            let started = Instant::now();
            let (is_all, paths) = self.works.search.take_changed();
            if is_all {
                self.compare().await?;
            }
            self.look_at(paths).await?;
            self.left.sources = i64::try_from(self.queue.len()).unwrap_or(i64::MAX);
            if !self.queue.is_empty() {
                self.works.search.set("building", self.left, None);
                self.take_in().await?;
            } else if !has_threads {
                self.works.search.set("building", self.left, None);
                has_threads = self.take_in_threads().await?;
            } else if !has_chats {
                self.works.search.set("building", self.left, None);
                has_chats = self.works.store.write(chat::take_in_chats).await? == 0;
            } else if self.works.store.read(chat::has_gone_words).await? {
                self.works.store.write(chat::merge_words).await?;
            } else {
                break;
            }
            fault::crash_point("search_step");
            tokio::time::sleep(started.elapsed().min(PAUSE_MAX)).await;
        }
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        debug!(duration_ms = ms, "the search is up to date");
        Ok(())
    }

    /// Waits after an error. Pending work is kept.
    fn give_up(&self, cause: &Error) {
        warn!("the search is not up to date: {}", cause.chain());
        let index = &self.works.search;
        index.changed().is_all = true;
        index.set("failed", self.left, Some(cause.message().to_owned()));
        index.failed(cause);
    }

    /// Indexes some of the older Topics and messages; returns whether those were all.
    async fn take_in_threads(&mut self) -> Result<bool> {
        let taken = self.works.store.write(|tx| {
            Ok(match search::take_in_topics(tx)? {
                0 => (0, search::take_in_messages(tx)?),
                topics => (topics, 0),
            })
        });
        let (topics, messages) = taken.await?;
        self.left.topics = (self.left.topics - topics).max(0);
        self.left.messages = (self.left.messages - messages).max(0);
        Ok(topics == 0 && messages == 0)
    }

    /// Compares the existing Sources with the indexed ones.
    async fn compare(&mut self) -> Result<()> {
        let listed = self.works.repo.list_sources().await?;
        let known = self.works.store.read(search::known_sources).await?;
        let known: BTreeMap<SourcePath, Option<BlobId>> = known.into_iter().collect();
        self.queue.clear();
        let is_new = |it: &&SourceEntry| {
            known.get(&it.path).is_none_or(|blob| blob.as_ref() != Some(&it.blob))
        };
        let there: BTreeSet<&SourcePath> = listed.iter().map(|it| &it.path).collect();
        let gone = known.keys().filter(|it| !there.contains(it));
        self.queue.extend(gone.map(|it| Step::Remove(it.clone())));
        let taken = listed.iter().filter(is_new);
        self.queue.extend(taken.map(|it| Step::Take(it.path.clone(), Some(it.blob.clone()))));
        Ok(())
    }

    /// Moves some paths to the front of the queue.
    async fn look_at(&mut self, paths: Vec<SourcePath>) -> Result<()> {
        for path in paths {
            let step = match self.works.repo.present(&path).await {
                Ok((blob, _)) => Step::Take(path, Some(blob)),
                Err(cause) if is_no_source(&cause) => Step::Remove(path),
                Err(cause) if is_no_text(&cause) => Step::Take(path, None),
                Err(cause) => return Err(cause),
            };
            self.queue.push_front(step);
        }
        Ok(())
    }

    /// Indexes the next Sources of the queue, up to a limit.
    async fn take_in(&mut self) -> Result<()> {
        let (mut batch, mut bytes, mut count) = (Batch::default(), 0, 0);
        while bytes < STEP_BYTES && count < STEP_SOURCES {
            let Some(step) = self.queue.pop_front() else { break };
            count += 1;
            let (path, listed) = match step {
                Step::Take(path, listed) => (path, listed),
                Step::Remove(path) => {
                    batch.removals.push(path);
                    continue;
                }
            };
            match self.read(&path, listed).await? {
                None => batch.removals.push(path),
                Some(taken) if taken.parts.len() > 1 => {
                    self.write(std::mem::take(&mut batch)).await?;
                    return self.take_in_parts(taken).await;
                }
                Some(taken) => {
                    bytes += taken.bytes;
                    let title = taken.title;
                    let parts = taken.parts.into_iter();
                    batch.parts.extend(parts.map(|it| (path.clone(), title.clone(), it)));
                    batch.seals.extend(taken.blob.map(|blob| (path, blob)));
                }
            }
        }
        self.write(batch).await
    }

    /// Indexes a long Source, one transaction per part; it is complete after the last.
    async fn take_in_parts(&self, taken: Taken) -> Result<()> {
        for part in taken.parts {
            let started = Instant::now();
            let parts = vec![(taken.path.clone(), taken.title.clone(), part)];
            self.write(Batch { parts, ..Batch::default() }).await?;
            fault::crash_point("search_part");
            tokio::time::sleep(started.elapsed().min(PAUSE_MAX)).await;
        }
        let seals = taken.blob.map(|blob| (taken.path, blob)).into_iter().collect();
        self.write(Batch { seals, ..Batch::default() }).await
    }

    async fn write(&self, batch: Batch) -> Result<()> {
        let work = move |tx: &Tx<'_>| {
            let Batch { parts, seals, removals } = &batch;
            removals.iter().try_for_each(|path| search::remove_source(tx, path))?;
            for (path, title, part) in parts {
                search::put_part(tx, path, title.as_deref(), part)?;
            }
            seals.iter().try_for_each(|(path, blob)| search::seal_source(tx, path, blob))
        };
        self.works.store.write(work).await
    }

    /// Reads and folds a Source; `None` if it is gone. A Source without text is found only by its
    /// path.
    async fn read(&self, path: &SourcePath, listed: Option<BlobId>) -> Result<Option<Taken>> {
        let (blob, text) = match self.works.repo.text(path).await {
            Ok((blob, text)) => (Some(blob), text),
            Err(cause) if is_no_source(&cause) => return Ok(None),
            Err(cause) if is_no_text(&cause) => (listed, String::new()),
            Err(cause) => return Err(cause),
        };
        let path = path.clone();
        let folding = tokio::task::spawn_blocking(move || {
            let (title, parts) = (title_of(&path, &text), search::parts_of(&text));
            Taken { path, title, blob, bytes: text.len(), parts }
        });
        let taken = folding.await;
        taken.context(ErrorKind::Internal, || "folding a text panicked".to_owned()).map(Some)
    }
}

fn is_no_source(cause: &Error) -> bool {
    cause.kind() == ErrorKind::NotFound
}

/// Returns whether a file has no searchable text: binary, too large, a link, or unreadable.
fn is_no_text(cause: &Error) -> bool {
    matches!(cause.kind(), ErrorKind::Invalid | ErrorKind::TooLarge | ErrorKind::Forbidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_to_be_left_is_said() {
        let index = Index::default();
        assert_eq!(index.progress().state, "building", "nothing was looked at");
        index.set_ready();
        assert_eq!(index.progress().state, "ready");
        index.missed();
        assert_eq!(index.progress().state, "ready", "nothing is known to be left");
        index.set_ready();
        assert!(index.take_changed().0, "but it is looked at");
        index.sources_changed(["a.md".parse().unwrap()]);
        assert_eq!(index.progress().state, "building");
        index.set_ready();
        assert_eq!(index.progress().state, "building", "something came meanwhile");
        index.take_changed();
        index.set_ready();
        assert_eq!(index.progress().state, "ready");
        index.repository_changed();
        assert_eq!(index.progress().state, "building");
    }
}
