//! The common part of loops that handle due work: look, then sleep until the next time, a bell or
//! the stop.

use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::base::{Millis, Result};

/// Longest sleep, because the clock may be set, and the machine may have slept.
const LOOK_AGAIN: Duration = Duration::from_secs(20);
/// Delay after a failed read or write.
const AGAIN: Duration = Duration::from_secs(2);

/// Sleeps after a look, which returned how long there is nothing to do; without a time, until the
/// bell. Returns whether to look again: not after `stop`. `what` names a failed look in a warning.
pub(super) async fn sleep(
    looked: Result<Option<Duration>>,
    what: &str,
    bell: &Notify,
    stop: &CancellationToken,
) -> bool {
    let pause = looked.unwrap_or_else(|cause| {
        warn!("{what} later: {}", cause.chain());
        Some(AGAIN)
    });
    let asleep = async {
        match pause {
            Some(pause) => tokio::time::sleep(pause).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = asleep => true,
        () = bell.notified() => true,
        () = stop.cancelled() => false,
    }
}

/// Returns how long to sleep until a time.
pub(super) fn until(next: Millis, now: Millis) -> Duration {
    let ms = u64::try_from(next.0.saturating_sub(now.0)).unwrap_or(0);
    Duration::from_millis(ms.max(1)).min(LOOK_AGAIN)
}
