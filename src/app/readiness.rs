//! Readiness: every service responds, the writer commits, jobs have room, the socket is ours.

use std::sync::Arc;
use std::time::Duration;

use crate::app::services::Pulses;
use crate::app::tenancy::SocketMark;
use crate::base::{Error, Result};
use crate::flows::Site;
use crate::http::IsReady;
use crate::store::Store;

/// How long the writer may take for an empty commit.
const COMMIT_MAX: Duration = Duration::from_secs(5);

/// Returns the check behind `/readyz`.
pub(super) fn of(site: &Site, pulses: &Pulses, socket: SocketMark) -> IsReady {
    let (store, queue, pulses) = (site.store.clone(), site.queue.clone(), pulses.clone());
    Arc::new(move || {
        let (store, pulses, socket) = (store.clone(), pulses.clone(), socket.clone());
        let no_room = queue.no_room();
        Box::pin(async move {
            match no_room {
                Some(trouble) => Err(trouble.to_error()),
                None => look(&store, &pulses, &socket).await,
            }
        })
    })
}

async fn look(store: &Store, pulses: &Pulses, socket: &SocketMark) -> Result<()> {
    if let Some(trouble) = store.trouble() {
        return Err(trouble.to_error());
    }
    if !store.is_writing() {
        return Err(Error::unavailable("the database is not writable"));
    }
    pulses.check().await?;
    socket.check()?;
    // It changes no row, so it waits for no disk.
    match tokio::time::timeout(COMMIT_MAX, store.write(|_| Ok(()))).await {
        Ok(committed) => committed,
        Err(_) => Err(Error::unavailable("the database writer is not committing")
            .code("service_lost")
            .hint("check the disk and the log")),
    }
}
