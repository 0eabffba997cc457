//! A Source that is called otherwise in the commit that is checked out now: its Topics go with it,
//! what personas see of it, and the jobs that wait for it; and who asks by the old name is told.
//!
//! **Invariant:** that is written in the transaction that writes down what is seen, so that a
//! rename is neither missed nor followed twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use crate::base::limit::CHANGES_TOLD_MAX;
use crate::base::{
    Actor, BlobId, Error, ErrorKind, Event, EventKind, JobId, Millis, Result, SourcePath, fault,
};
use crate::documents::seen::{Seen, Sighting, SourceChange};
use crate::documents::sources::rename::{self, Step};
use crate::documents::sources::source::LIST_HINT;
use crate::documents::topics::topic;
use crate::documents::{NOT_A_SOURCE, SOURCE_GONE, Source, perspectives};
use crate::flows::Works;
use crate::flows::automation::told;
use crate::jobs::{self, Capacities, Follow, Job};
use crate::script::{Config, InputType, Kind, nearest};
use crate::store::Tx;

/// Most documents of the same file name in a hint.
const NAMES_MEANT_MAX: usize = 3;

/// Characters of a commit's hash that are shown.
const COMMIT_CHARS: usize = 10;

/// Returns the new names of missing Sources, and of those whose name another one has now.
///
/// # Errors
/// As git or the database; then nothing must be recorded as seen: no later look finds them.
pub(in crate::flows) async fn find(
    works: &Works,
    before: Option<&Seen>,
    sighting: &Sighting,
) -> Result<BTreeMap<SourcePath, SourcePath>> {
    let heads = before.and_then(|it| it.head.as_ref()).zip(sighting.seen.head.as_ref());
    let Some((old, new)) = heads.filter(|(old, new)| old != new) else {
        return Ok(BTreeMap::new());
    };
    // Whatever has its name in the working tree by now is another one.
    let is_gone = |it: &&SourceChange| it.head_blob.is_none();
    let gone = sighting.changes.iter().filter(is_gone).map(|it| it.path.clone());
    let gone: BTreeSet<SourcePath> = gone.collect();
    // One that changes alone has its name still.
    let is_one = sighting.changes.len() == 1;
    let stays = |it: &&SourceChange| it.head_blob.is_some() && !is_one;
    let stay = sighting.changes.iter().filter(stays).map(|it| it.path.clone());
    let asked: BTreeSet<SourcePath> = gone.iter().cloned().chain(stay).collect();
    if asked.is_empty() || fault::is_off("renamed_sources") {
        return Ok(BTreeMap::new());
    }
    let followed = followed(works, asked).await?;
    works.repo.renames(old, new, &gone, &followed).await
}

/// Returns those of some Sources that something refers to.
async fn followed(works: &Works, asked: BTreeSet<SourcePath>) -> Result<BTreeSet<SourcePath>> {
    let config = works.scripts.current().config.clone();
    works
        .store
        .read(move |c| {
            let waiting = jobs::queued_by_source(c, |kind| sources_of(&config, kind))?;
            let mut followed = BTreeSet::new();
            for path in &asked {
                if topic::has_any(c, path)?
                    || jobs::is_named(c, path)?
                    || waiting.contains_key(path.as_str())
                    || !perspectives::personas_of(c, path)?.is_empty()
                {
                    followed.insert(path.clone());
                }
            }
            Ok(followed)
        })
        .await
}

/// Moves everything that refers to the Sources, with an event for each; if there are very many,
/// only for those with Topics. No handler hears of those that are known.
pub(in crate::flows) fn tell(
    tx: &Tx<'_>,
    (renames, known): (&BTreeMap<SourcePath, SourcePath>, &BTreeMap<SourcePath, SourcePath>),
    sighting: &Sighting,
    (config, moves): (&Config, &Moves),
) -> Result<()> {
    if renames.is_empty() {
        return Ok(());
    }
    let lanes = Capacities(config.limits.lanes.clone());
    let sources = |kind: &str| sources_of(config, kind);
    let queued = jobs::queued_by_source(tx.connection(), sources)?;
    for (id, why) in &moves.displaced {
        jobs::mark_unfit(tx, id, why, &lanes)?;
    }
    for Step { first, from, to, is_last } in &rename::steps(renames)? {
        let topics = topic::rename_source(tx, from, to)?;
        let views = perspectives::rename_source(tx, from, to)?;
        let others = queued.get(first.as_str()).map_or(&[][..], Vec::as_slice);
        let with = Follow { names: sources, others, lanes: &moves.lanes };
        let waiting = jobs::rename_source(tx, (from, to), &with, &lanes)?.len();
        if !is_last {
            continue;
        }
        let from = first;
        rename::put(tx, from, to)?;
        if topics == 0 && renames.len() > CHANGES_TOLD_MAX {
            continue;
        }
        let data = json!({
            "path": to, "from": from, "commit": sighting.seen.head, "branch": sighting.branch,
            "topics": topics,
        });
        let subject = format!("source:{to}");
        tx.emit(Event::new(EventKind::SourceRenamed, subject, Actor::System, data).audited())?;
        if known.get(from) == Some(to) {
            told::mark(tx)?;
        }
        info!(
            source_path = %to,
            "{from} was renamed to {to}: {topics} topics, {views} views and {waiting} waiting jobs \
             go with it"
        );
    }
    jobs::move_running(tx, &moves.running, &lanes)
}

/// What becomes of jobs on renamed Sources, as the script and the repository say.
#[derive(Clone, Debug, Default)]
pub(in crate::flows) struct Moves {
    /// The lanes of all of them, where functions of the script determine them.
    pub(super) lanes: BTreeMap<JobId, Option<String>>,
    /// The running ones of those, with their lane before and after.
    pub(super) running: Vec<(JobId, String, String)>,
    /// Those whose Source is gone, and whose name another one has, with the reason.
    pub(super) displaced: Vec<(JobId, String)>,
    /// Why some keep a lane that the script may have changed.
    pub(super) kept: Vec<String>,
}

/// Returns the names of a kind's inputs that are Sources.
fn sources_of(config: &Config, kind: &str) -> Vec<String> {
    config.kinds.get(kind).map(Kind::source_names).unwrap_or_default()
}

/// Returns the current name of a missing Source, if it was renamed while this site followed it.
///
/// # Errors
/// As reading the database or the repository.
pub async fn where_now(works: &Works, path: &SourcePath) -> Result<Option<SourcePath>> {
    let asked = path.clone();
    let name = works.store.read(move |c| rename::last_name(c, &asked)).await?;
    let Some(name) = name else { return Ok(None) };
    let found = works.repo.present(&name).await;
    if is_missing(&found) {
        return Ok(None);
    }
    found.map(|_| Some(name))
}

/// Returns the earlier names of this Source, the latest first. One that another Source has by now
/// comes with the moment until which it was a name of this one.
///
/// # Errors
/// As reading the database or the index.
pub async fn earlier_names(
    works: &Works,
    path: &SourcePath,
) -> Result<Vec<(SourcePath, Option<Millis>)>> {
    let asked = path.clone();
    let look = move |c: &Connection| {
        let names = rename::earlier_names(c, &asked)?.into_iter();
        names.map(|it| Ok((rename::last_left(c, &it)?.map(|it| it.0), it))).collect()
    };
    let names: Vec<(Option<Millis>, SourcePath)> = works.store.read(look).await?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known = works.repo.known_sources().await?;
    let is_taken = |name: &SourcePath| {
        known.binary_search_by(|(it, _)| it.as_str().cmp(name.as_str())).is_ok()
    };
    let until = |(at, name): (Option<Millis>, SourcePath)| {
        let at = at.filter(|_| is_taken(&name));
        (name, at)
    };
    Ok(names.into_iter().map(until).collect())
}

/// Returns the current name of a Source that a job was given when it started.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn since_start(
    c: &Connection,
    job: &Job,
    path: &SourcePath,
) -> Result<SourcePath> {
    Ok(rename::name_since(c, path, start_of(job))?.unwrap_or_else(|| path.clone()))
}

/// Returns the first moment at which a rename is later than the names that a job was given. What
/// was renamed in the moment of its start was seen before: it waited for that.
pub(in crate::flows) fn start_of(job: &Job) -> Millis {
    job.started_at.unwrap_or(job.created_at).plus(1)
}

/// Gives a job that was claimed and did not begin the names that its Sources got since, as if it
/// had waited.
///
/// # Errors
/// Fails if the database cannot be written.
pub(in crate::flows) fn give_back(tx: &Tx<'_>, config: &Config, job: &Job) -> Result<()> {
    let lanes = Capacities(config.limits.lanes.clone());
    let names = jobs::source_names(job, &sources_of(config, &job.kind));
    let given = names.iter().filter_map(|it| job.inputs.get(it)?.as_str()?.parse().ok());
    let given: BTreeSet<SourcePath> = given.chain(job.source_path.clone()).collect();
    let mut renames = BTreeMap::new();
    for path in given {
        if let Some((name, by)) = rename::taken_since(tx.connection(), &path, start_of(job))? {
            jobs::mark_unfit(tx, &job.id, &jobs::displaced_by(&by, &name), &lanes)?;
        }
        let name = since_start(tx.connection(), job, &path)?;
        if name != path {
            renames.insert(path, name);
        }
    }
    jobs::rename_given_back(tx, job, &renames, &names, &lanes)
}

/// Updates renamed Sources in the inputs of an ended job that is repeated. Its inputs went with
/// them as long as it waited.
///
/// # Errors
/// `conflict` with code `source_gone` if another one has the name of such a Source; as any read.
pub(in crate::flows) async fn follow(
    works: &Works,
    (kind, old): (&Kind, &Job),
    values: &mut Map<String, Value>,
) -> Result<()> {
    let waited_on = old.waits_for.is_some() || old.started_at.is_none();
    // As in `since_start`.
    let started = || old.started_at.map(|it| it.plus(1));
    let since = if waited_on { old.completed_at } else { started() };
    let since = since.unwrap_or(old.created_at);
    for input in kind.inputs.iter().filter(|it| it.ty == InputType::Source) {
        let given = values.get(&input.name).and_then(Value::as_str);
        let Some(path) = given.and_then(|it| it.parse().ok()) else { continue };
        let name = document_since(works, &path, since).await?;
        values.insert(input.name.clone(), Value::String(name.to_string()));
    }
    let id = old.id.clone();
    match works.store.read(move |c| jobs::displaced(c, &id)).await? {
        Some(why) => Err(is_displaced(why)),
        None => Ok(()),
    }
}

/// Returns the name of the Source now that had this one at a time.
///
/// # Errors
/// `conflict` with code `source_gone` if another one has been renamed to its name since; as any
/// read.
pub(in crate::flows) async fn document_since(
    works: &Works,
    path: &SourcePath,
    since: Millis,
) -> Result<SourcePath> {
    let asked = path.clone();
    let look = move |c: &Connection| {
        let taken = rename::taken_since(c, &asked, since)?;
        Ok((rename::name_since(c, &asked, since)?.unwrap_or(asked), taken))
    };
    match works.store.read(look).await? {
        (_, Some((name, by))) => Err(is_displaced(jobs::displaced_by(&by, &name))),
        (name, None) => Ok(name),
    }
}

fn is_displaced(why: String) -> Error {
    let hint = jobs::way_back(&why);
    Error::conflict(SOURCE_GONE, why).hint(hint)
}

/// Returns the waiting jobs on Sources that are gone, and whose names others have now, each with
/// the reason not to run it on them. Who asks by a name that was free when it was last seen means
/// the one that has it.
///
/// # Errors
/// As any read.
pub(in crate::flows) async fn displaced(
    works: &Works,
    before: Option<&Seen>,
    renames: &BTreeMap<SourcePath, SourcePath>,
) -> Result<Vec<(JobId, String)>> {
    let Some((seen, head)) = before.and_then(|it| Some((it.at, it.head.as_ref()?))) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let taken = renames.iter().filter(|it| !renames.contains_key(it.1));
    for (from, to) in taken {
        let (config, path) = (Arc::clone(&works.config), to.clone());
        let waiting = works.store.read(move |c| {
            let by_source = jobs::queued_by_source(c, |kind| sources_of(&config, kind))?;
            let ids = by_source.get(path.as_str()).into_iter().flatten();
            ids.map(|id| jobs::find_brief(c, &jobs::Viewer::Program, id)).collect()
        });
        let waiting: Vec<Job> = waiting.await?;
        let was_there = match waiting.is_empty() {
            true => false,
            false => works.repo.blob_at(head, to).await?.is_some(),
        };
        let mine = waiting.into_iter().filter(|it| was_there || it.created_at <= seen);
        let why = jobs::displaced_by(from, to);
        found.extend(mine.map(|it| (it.id, why.clone())));
    }
    Ok(found)
}

fn is_missing<T>(found: &Result<T>) -> bool {
    found.as_ref().is_err_and(|it| it.kind() == ErrorKind::NotFound)
}

/// Returns a Source; a request by an old name gets the new one in its error.
///
/// # Errors
/// As [`crate::documents::Repo::source`].
pub(in crate::flows) async fn source(works: &Works, path: &SourcePath) -> Result<Source> {
    match works.repo.source(path).await {
        Err(cause) => Err(explain(works, path, cause).await),
        found => found,
    }
}

/// Returns the current text of a Source with its version.
///
/// # Errors
/// As [`crate::documents::Repo::present`].
pub(in crate::flows) async fn present(
    works: &Works,
    path: &SourcePath,
) -> Result<(BlobId, String)> {
    match works.repo.present(path).await {
        Err(cause) => Err(explain(works, path, cause).await),
        found => found,
    }
}

/// Adds the new name to the error for a Source's old name.
pub(in crate::flows) async fn explain(works: &Works, path: &SourcePath, cause: Error) -> Error {
    if !matches!(cause.code_str(), SOURCE_GONE | NOT_A_SOURCE) {
        return cause;
    }
    match where_now(works, path).await {
        Ok(Some(name)) => {
            let message = format!("{}: it was renamed to {name}", cause.message());
            Error::not_found(message).code(SOURCE_GONE).hint(format!("ask for {name}"))
        }
        Ok(None) => match deletion(works, path).await {
            Ok(Some(words)) => {
                let message = format!("{}: {words}", cause.message());
                let quoted = path.as_str().replace('\'', "'\\''");
                let hint = format!("wiki-browser source history '{quoted}' shows what it said");
                Error::not_found(message).code(SOURCE_GONE).hint(hint)
            }
            Ok(None) => with_near_name(works, path, cause).await,
            Err(other) => {
                warn!("cannot tell whether {path} was deleted: {}", other.chain());
                cause
            }
        },
        Err(other) => {
            warn!("cannot tell whether {path} was renamed: {}", other.chain());
            cause
        }
    }
}

/// Describes how a Source was deleted; `None` if it never existed.
///
/// # Errors
/// As reading the repository.
pub async fn deletion(works: &Works, path: &SourcePath) -> Result<Option<String>> {
    let Some(deletion) = works.repo.deletion(path).await? else { return Ok(None) };
    if !deletion.is_committed {
        return Ok(Some("it is deleted, and that is not committed".to_owned()));
    }
    let Some(commit) = deletion.commit else { return Ok(None) };
    let newest = works.repo.history(path, 1).await?.pop().filter(|it| it.commit == commit);
    let by = newest.map(|it| format!(", by {}", it.author)).unwrap_or_default();
    let commit = commit.as_str();
    let commit = commit.get(..COMMIT_CHARS).unwrap_or(commit);
    Ok(Some(format!("it was deleted in commit {commit}{by}")))
}

/// Adds the name that was probably meant: a document of the same file name, or a similar path.
async fn with_near_name(works: &Works, path: &SourcePath, cause: Error) -> Error {
    if cause.hint_str() != Some(LIST_HINT) {
        return cause;
    }
    let Ok(sources) = works.repo.known_sources().await else { return cause };
    let known: Vec<&SourcePath> = sources.iter().map(|it| &it.0).collect();
    let file_name = |path: &SourcePath| path.as_str().rsplit('/').next().map(str::to_owned);
    let wanted = file_name(path);
    let mut same = known.iter().filter(|known| file_name(known) == wanted).take(NAMES_MEANT_MAX);
    let meant: Vec<&str> = same.by_ref().map(|known| known.as_str()).collect();
    let meant = match meant.is_empty() {
        true => {
            nearest(path.as_str(), known.iter().map(|known| known.as_str())).into_iter().collect()
        }
        false => meant,
    };
    if meant.is_empty() || meant == [path.as_str()] {
        return cause;
    }
    let names = meant.join("` or `");
    cause.hint(format!("did you mean `{names}`?"))
}
