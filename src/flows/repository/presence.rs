//! Whether anybody is present: sending requests, or reading the event stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a request counts as presence.
const STAYS: Duration = Duration::from_secs(30);

/// A handle; clones share it.
#[derive(Clone)]
pub struct Presence(Arc<Shared>);

struct Shared {
    began: Instant,
    /// Time of the last request, in milliseconds since the start plus one; 0 for never.
    asked_ms: AtomicU64,
    streams: AtomicI64,
    bell: Notify,
}

/// An open stream; it counts until it is dropped.
pub struct Present(Arc<Shared>);

impl Default for Presence {
    fn default() -> Presence {
        Presence(Arc::new(Shared {
            began: Instant::now(),
            asked_ms: AtomicU64::new(0),
            streams: AtomicI64::new(0),
            bell: Notify::new(),
        }))
    }
}

impl Presence {
    /// Records a request.
    pub fn note(&self) {
        let now = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.asked_ms.store(now.saturating_add(1), Ordering::Relaxed);
        self.0.bell.notify_waiters();
    }

    /// Records an open stream, for as long as the returned value lives.
    pub fn stream(&self) -> Present {
        self.0.streams.fetch_add(1, Ordering::Relaxed);
        self.0.bell.notify_waiters();
        Present(Arc::clone(&self.0))
    }

    /// Returns the number of open streams.
    pub fn streams(&self) -> i64 {
        self.0.streams.load(Ordering::Relaxed)
    }

    /// Waits until somebody is present. A running agent sends requests too, or its end is reported.
    pub async fn wait(&self) {
        loop {
            let rung = self.0.bell.notified();
            tokio::pin!(rung);
            // From here on the bell is noticed, even before it is awaited.
            rung.as_mut().enable();
            if self.is_there() {
                return;
            }
            rung.await;
        }
    }

    fn is_there(&self) -> bool {
        let asked = self.0.asked_ms.load(Ordering::Relaxed);
        let now = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let stays = u64::try_from(STAYS.as_millis()).unwrap_or(u64::MAX);
        self.streams() > 0 || (asked > 0 && now.saturating_sub(asked - 1) < stays)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn somebody_is_there_while_they_ask_or_read() {
        let presence = Presence::default();
        let waits = async |presence: &Presence| {
            tokio::time::timeout(Duration::from_secs(1), presence.wait()).await.is_err()
        };
        assert!(waits(&presence).await, "nobody has come");
        presence.note();
        assert!(!waits(&presence).await);
        tokio::time::advance(STAYS).await;
        assert!(waits(&presence).await, "they have left");
        let stream = presence.stream();
        tokio::time::advance(STAYS).await;
        assert!(!waits(&presence).await);
        drop(stream);
        assert!(waits(&presence).await);
        let comes = presence.clone();
        let mut waiting = tokio::task::JoinSet::new();
        waiting.spawn(async move { comes.wait().await });
        tokio::task::yield_now().await;
        presence.note();
        waiting.join_next().await.unwrap().unwrap();
    }
}
