//! Work on the disk, on a thread that may wait for it.

use crate::base::{Error, Result};

/// Does work that waits for the disk.
///
/// # Errors
/// As the work; `internal` if it panics.
pub(super) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::internal("work on the disk ended badly").source(cause))?
}
