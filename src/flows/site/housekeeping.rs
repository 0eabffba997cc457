//! Deletes what is kept for a limited time: events, stored responses, ended sessions, and the
//! folders of old jobs.

use std::time::Duration;

use camino::Utf8Path;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::base::Result;
use crate::channels;
use crate::documents::commit;
use crate::documents::search::mark_damaged;
use crate::flows::jobs::changes;
use crate::flows::site::job_folders::{self, Report, Sizes};
use crate::flows::{self, Works, perspectives};
use crate::mail;
use crate::people;
use crate::store::{Store, Tx, events, idempotency};

/// How long events without audit value, and responses to requests with a key, are kept.
const KEPT_MS: i64 = 7 * 24 * 3_600_000;
/// How long the text of messages is kept.
const MESSAGES_MS: i64 = 180 * 24 * 3_600_000;
/// Interval of cleanups.
const EVERY: Duration = Duration::from_secs(3_600);

/// The result of a cleanup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cleaned {
    /// The folders of jobs.
    pub jobs: Report,
    /// Events without audit value that are older than a week.
    pub events: u64,
    /// Responses to requests with a key that are older than a week.
    pub answers: u64,
    /// Ended browser sessions.
    pub logins: u64,
    /// Texts of received messages that are older than half a year.
    pub messages: u64,
    /// Uploads for channels that were not sent within a day.
    #[serde(default)]
    pub uploads: u64,
    /// Views of personas that no version needs; only a running server knows which these are.
    pub perspectives: u64,
    /// Whether to rebuild the search index.
    pub search: bool,
    /// Whether nothing was removed.
    pub dry_run: bool,
}

/// Cleans up at the start and then hourly, until `stop`.
pub async fn serve(works: Works, stop: CancellationToken) {
    let mut sizes = Sizes::default();
    loop {
        let done = tokio::select! {
            done = clean_site_with(&works, &mut sizes, false) => done,
            () = stop.cancelled() => return,
        };
        match done {
            Ok(done) => debug!(
                events = done.events,
                answers = done.answers,
                logins = done.logins,
                messages = done.messages,
                uploads = done.uploads,
                perspectives = done.perspectives,
                folders = done.jobs.removed_count,
                "old data was deleted"
            ),
            Err(cause) => warn!("old data could not be deleted: {}", cause.chain()),
        }
        match flows::mail::end_overdue(&works).await {
            Ok(0) => {}
            Ok(count) => info!("{count} messages were ended, because no agent took them"),
            Err(cause) => warn!("old messages could not be ended: {}", cause.chain()),
        }
        if let Err(cause) = changes::let_go(&works).await {
            warn!("the content of old changes could not be deleted: {}", cause.chain());
        }
        if let Err(cause) = commit::look_after_replaced(&works.repo, &works.store).await {
            warn!("replaced files could not be checked: {}", cause.chain());
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Cleans up now; with `dry_run` it only reports. With `search`, the search index is rebuilt by the
/// running or next server.
///
/// # Errors
/// As the database, or the folder of the jobs.
pub async fn clean(store: &Store, data: &Utf8Path, dry_run: bool, search: bool) -> Result<Cleaned> {
    let done = clean_with(store, data, &mut Sizes::default(), dry_run).await?;
    let search = make_search_anew(store, search && !dry_run).await?;
    Ok(Cleaned { search, ..done })
}

async fn make_search_anew(store: &Store, is_wanted: bool) -> Result<bool> {
    if is_wanted {
        store.write(mark_damaged).await?;
    }
    Ok(is_wanted)
}

/// The same for a running server, including views of personas.
///
/// # Errors
/// As [`clean`]; as reading the repository and the personas.
pub async fn clean_site(works: &Works, dry_run: bool, search: bool) -> Result<Cleaned> {
    let done = clean_site_with(works, &mut Sizes::default(), dry_run).await?;
    let search = make_search_anew(&works.store, search && !dry_run).await?;
    Ok(Cleaned { search, ..done })
}

async fn clean_site_with(works: &Works, sizes: &mut Sizes, dry_run: bool) -> Result<Cleaned> {
    let done = clean_with(&works.store, &works.config.site.data, sizes, dry_run).await?;
    let perspectives = perspectives::prune(works, dry_run).await?;
    Ok(Cleaned { perspectives, ..done })
}

async fn clean_with(
    store: &Store,
    data: &Utf8Path,
    sizes: &mut Sizes,
    dry_run: bool,
) -> Result<Cleaned> {
    let mut done = match dry_run {
        true => {
            let now = store.clock().now();
            store.read(move |c| count(c, now)).await?
        }
        false => store.write(drop_rows).await?,
    };
    done.jobs = job_folders::clean(store, data, sizes, dry_run).await?;
    done.dry_run = dry_run;
    Ok(done)
}

fn count(connection: &Connection, now: crate::base::Millis) -> Result<Cleaned> {
    let before = now.plus(-KEPT_MS);
    Ok(Cleaned {
        events: events::prunable(connection, before)?,
        answers: idempotency::prunable(connection, before)?,
        logins: people::prunable_logins(connection, now)?,
        messages: mail::forgettable(connection, now.plus(-MESSAGES_MS))?,
        uploads: channels::droppable(connection, now)?,
        ..Cleaned::default()
    })
}

fn drop_rows(tx: &Tx<'_>) -> Result<Cleaned> {
    let done = count(tx.connection(), tx.now())?;
    let before = tx.now().plus(-KEPT_MS);
    events::prune(tx, before)?;
    idempotency::prune(tx, before)?;
    people::prune_logins(tx)?;
    let messages = mail::forget(tx, tx.now().plus(-MESSAGES_MS))?;
    let uploads = channels::drop_unsent(tx)?;
    Ok(Cleaned { messages, uploads, ..done })
}
