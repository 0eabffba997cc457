//! A Source that is called otherwise in the commit that is checked out now: its Topics go with it,
//! what personas see of it, and the jobs that wait for it; and who asks by the old name is told.
//!
//! **Invariant:** that is written in the transaction that writes down what is seen, so that a
//! rename is neither missed nor followed twice.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use crate::base::limit::CHANGES_TOLD_MAX;
use crate::base::{
    Actor, BlobId, Error, ErrorKind, Event, EventKind, Millis, Result, SourcePath, fault,
};
use crate::documents::seen::{Seen, Sighting, SourceChange};
use crate::documents::sources::rename;
use crate::documents::sources::source::LIST_HINT;
use crate::documents::topics::topic;
use crate::documents::{NOT_A_SOURCE, SOURCE_GONE, Source, perspectives};
use crate::flows::Works;
use crate::jobs::{self, Capacities, Job};
use crate::script::{Config, Input, InputType, Kind, nearest};
use crate::store::Tx;

/// Most documents of the same file name in a hint.
const NAMES_MEANT_MAX: usize = 3;

/// Characters of a commit's hash that are shown.
const COMMIT_CHARS: usize = 10;

/// Returns the new names of missing Sources. A rename that cannot be determined counts as none;
/// then the Topics keep the old name.
pub(in crate::flows) async fn find(
    works: &Works,
    before: Option<&Seen>,
    sighting: &Sighting,
) -> BTreeMap<SourcePath, SourcePath> {
    let heads = before.and_then(|it| it.head.as_ref()).zip(sighting.seen.head.as_ref());
    let Some((old, new)) = heads.filter(|(old, new)| old != new) else { return BTreeMap::new() };
    let is_gone = |it: &&SourceChange| it.blob.is_none() && it.head_blob.is_none();
    let gone = sighting.changes.iter().filter(is_gone).map(|it| it.path.clone());
    let gone: BTreeSet<SourcePath> = gone.collect();
    let found = async {
        let followed = followed(works, gone.clone()).await?;
        works.repo.renames(old, new, &gone, &followed).await
    };
    match found.await {
        Ok(renames) if !fault::is_off("renamed_sources") => renames,
        Ok(_) => BTreeMap::new(),
        Err(cause) => {
            warn!("cannot tell which sources were renamed: {}", cause.chain());
            BTreeMap::new()
        }
    }
}

/// Returns those of some Sources that something refers to.
async fn followed(works: &Works, gone: BTreeSet<SourcePath>) -> Result<BTreeSet<SourcePath>> {
    if gone.is_empty() {
        return Ok(gone);
    }
    works
        .store
        .read(move |c| {
            let mut followed = BTreeSet::new();
            for path in &gone {
                if topic::has_any(c, path)?
                    || jobs::holder(c, &jobs::Viewer::Program, path)?.is_some()
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
/// only for those with Topics.
pub(in crate::flows) fn tell(
    tx: &Tx<'_>,
    renames: &BTreeMap<SourcePath, SourcePath>,
    sighting: &Sighting,
    config: &Config,
) -> Result<()> {
    let lanes = Capacities(config.limits.lanes.clone());
    for (from, to) in renames {
        let topics = topic::rename_source(tx, from, to)?;
        let views = perspectives::rename_source(tx, from, to)?;
        let sources = |kind: &str| sources_of(config, kind);
        let waiting = jobs::rename_source(tx, (from, to), sources, &lanes)?.len();
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
        info!(
            source_path = %to,
            "{from} was renamed to {to}: {topics} topics, {views} views and {waiting} waiting jobs \
             go with it"
        );
    }
    Ok(())
}

/// Returns the names of a kind's inputs that are Sources.
fn sources_of(config: &Config, kind: &str) -> Vec<String> {
    let inputs = config.kinds.get(kind).into_iter().flat_map(|it| &it.inputs);
    inputs.filter(|it| it.ty == InputType::Source).map(|it| it.name.clone()).collect()
}

/// Returns the current name of a missing Source, if it was renamed while this site followed it.
///
/// # Errors
/// As reading the database or the repository.
pub async fn where_now(works: &Works, path: &SourcePath) -> Result<Option<SourcePath>> {
    let asked = path.clone();
    let name = works.store.read(move |c| rename::name_since(c, &asked, Millis(0))).await?;
    let Some(name) = name else { return Ok(None) };
    let found = works.repo.present(&name).await;
    if is_missing(&found) {
        return Ok(None);
    }
    found.map(|_| Some(name))
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
    let since = job.started_at.unwrap_or(job.created_at);
    Ok(rename::name_since(c, path, since)?.unwrap_or_else(|| path.clone()))
}

/// Updates renamed Sources in the inputs of a job that is retried.
///
/// # Errors
/// As [`where_now`].
pub(in crate::flows) async fn follow(
    works: &Works,
    kind: &Kind,
    values: &mut Map<String, Value>,
) -> Result<()> {
    let is_old = |it: &&Input| it.ty == InputType::Source && !it.new;
    for input in kind.inputs.iter().filter(is_old) {
        let given = values.get(&input.name).and_then(Value::as_str);
        let Some(path) = given.and_then(|it| it.parse().ok()) else { continue };
        if is_missing(&works.repo.present(&path).await)
            && let Some(name) = where_now(works, &path).await?
        {
            values.insert(input.name.clone(), Value::String(name.to_string()));
        }
    }
    Ok(())
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
                let hint = format!("wiki-browser source history {path} shows what it said");
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
