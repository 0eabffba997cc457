//! Operations on a site that no server is serving.

use serde_json::Value;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::flows::site::backup::{self, BackupRequest};
use crate::flows::site::restore::{self, Offline};
use crate::flows::site::{housekeeping, recover};
use crate::store::{MIGRATIONS, Store, backup as files};

use camino::Utf8PathBuf;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A request.
#[derive(Clone, Debug)]
pub enum OfflineRequest {
    /// Back up the database.
    Backup(BackupRequest),
    /// Restore a backup.
    Restore {
        /// The backup.
        file: Utf8PathBuf,
        /// Keep tokens although it is unknown whether they were revoked.
        keep_tokens: bool,
    },
    /// Check the database, and repair it.
    Recover {
        /// Only check.
        dry_run: bool,
        /// Record proposals whose text is in the branch as approved.
        adopt: bool,
    },
    /// Delete old data.
    Cleanup {
        /// Only report.
        dry_run: bool,
        /// The next server rebuilds the search index.
        search: bool,
    },
}

impl OfflineRequest {
    /// Returns whether the request needs git.
    pub fn needs_git(&self) -> bool {
        matches!(self, OfflineRequest::Restore { .. } | OfflineRequest::Recover { .. })
    }
}

/// Handles a request; the caller holds the lock of the site.
///
/// # Errors
/// As [`restore::restore`], [`recover::recover`], [`backup::make`] and [`housekeeping::clean`].
pub async fn run(site: &Offline, request: OfflineRequest) -> Result<Value> {
    let data = &site.config.site.data;
    let database = data.join("wiki.db");
    match request {
        OfflineRequest::Restore { file, keep_tokens } => {
            json(&restore::restore(site, &file, keep_tokens).await?)
        }
        OfflineRequest::Recover { dry_run, adopt } => {
            json(&recover::recover(site, dry_run, adopt).await?)
        }
        OfflineRequest::Backup(request) => {
            files::put_in_place(&database)?;
            let start = site.clock.now();
            let mut made = backup::make(&database, data, &request, start)?;
            made.took_ms = site.clock.now().0 - start.0;
            json(&made)
        }
        OfflineRequest::Cleanup { dry_run, search } => {
            files::put_in_place(&database)?;
            if !database.exists() {
                return Err(Error::not_found(format!("no database at {database}"))
                    .code("no_database")
                    .hint("to restore a backup: wiki-browser restore FILE"));
            }
            let (store, writer) = Store::open(&database, MIGRATIONS, site.clock.clone())?;
            let (stop, writers) = (CancellationToken::new(), TaskTracker::new());
            let writing = writers.spawn(writer.serve(stop.clone()));
            let done = housekeeping::clean(&store, data, dry_run, search).await;
            stop.cancel();
            writing.await.context(ErrorKind::Internal, || "the writer ended badly".to_owned())?;
            json(&done?)
        }
    }
}

fn json<T: serde::Serialize>(value: &T) -> Result<Value> {
    serde_json::to_value(value).context(ErrorKind::Internal, || "no JSON".to_owned())
}
