//! What can be done with a site that no server serves.

use serde_json::Value;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::flows::site::backup::{self, BackupRequest};
use crate::flows::site::restore::{self, Offline};
use crate::flows::site::{housekeeping, recover};
use crate::store::{MIGRATIONS, Store, backup as files};

use camino::Utf8PathBuf;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What is asked.
#[derive(Clone, Debug)]
pub enum OfflineRequest {
    /// A copy of the database.
    Backup(BackupRequest),
    /// A backup in place of the database.
    Restore {
        /// The backup.
        file: Utf8PathBuf,
        /// Tokens count on although nothing says whether they were revoked.
        keep_tokens: bool,
    },
    /// A look at the database, and what can be mended.
    Recover {
        /// Only the look.
        dry_run: bool,
        /// Proposals whose text the branch holds are written down as approved.
        adopt: bool,
    },
    /// What is old is dropped.
    Cleanup {
        /// It is only said what would be.
        dry_run: bool,
        /// The next server makes the index of the search anew.
        search: bool,
    },
}

impl OfflineRequest {
    /// Returns whether it is about git too.
    pub fn needs_git(&self) -> bool {
        matches!(self, OfflineRequest::Restore { .. } | OfflineRequest::Recover { .. })
    }
}

/// Does what is asked; the caller holds the lock of the site.
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
