//! When it is looked whether somebody stopped a guard: nobody is told of that but its parent.
//!
//! **Invariant:** a guard that nobody touches costs nothing. The signal of a child is only a bell,
//! which rings for every child that ends, too: so it leads to a look after a pause.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How long after the bell it is looked, and how often while an agent runs that has little time.
pub(in crate::process) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often it is looked while an agent lives on whose guard is no child of this process.
const LOOK_EVERY_LIVE: Duration = Duration::from_secs(30);
/// Longer than any job.
const FAR: Duration = Duration::from_secs(400 * 86_400);

/// When the next look at one guard is due.
#[derive(Debug)]
pub(in crate::process) struct Lookout {
    at: Instant,
    /// What tells that a child of this process was stopped, or ended.
    bell: Option<Signal>,
    /// The time from which looks at guards of others are counted: all of them at once.
    since: Instant,
}

impl Lookout {
    /// Begins to watch a guard. One that lives on and is a child of this process needs no looks
    /// but those of the bell.
    pub(in crate::process) fn new(is_live: bool, is_child: bool, since: Instant) -> Lookout {
        let mut lookout = Lookout { at: Instant::now() + LOOK_EVERY, bell: None, since };
        if is_live && is_child {
            match signal(SignalKind::child()) {
                Ok(bell) => lookout.bell = Some(bell),
                Err(cause) => tracing::warn!("a guard is looked at twice a minute: {cause}"),
            }
        }
        lookout
    }

    /// Puts the next look off for so long.
    pub(in crate::process) fn after(&mut self, pause: Duration) {
        self.at = Instant::now() + pause;
    }

    /// Puts the next look off until there is a reason for one.
    pub(in crate::process) fn until_reason(&mut self) {
        let now = Instant::now();
        if self.bell.is_some() {
            self.at = now + FAR;
            return;
        }
        let every = LOOK_EVERY_LIVE.as_secs();
        let rounds = now.saturating_duration_since(self.since).as_secs() / every + 1;
        self.at = self.since + Duration::from_secs(rounds * every);
    }

    /// Waits until a look is due. May be dropped at any time.
    pub(in crate::process) async fn wait(&mut self) {
        loop {
            let soon = Instant::now() + LOOK_EVERY;
            let is_far = self.at > soon;
            tokio::select! {
                () = tokio::time::sleep_until(self.at) => return,
                () = ring(self.bell.as_mut()), if is_far => self.at = soon,
            }
        }
    }
}

async fn ring(bell: Option<&mut Signal>) {
    let rung = match bell {
        Some(bell) => bell.recv().await,
        None => None,
    };
    if rung.is_none() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn looks_at_guards_of_others_are_due_at_the_same_time() {
        let since = Instant::now();
        tokio::time::advance(Duration::from_millis(12_345)).await;
        let mut one = Lookout::new(true, false, since);
        tokio::time::advance(Duration::from_secs(7)).await;
        let mut two = Lookout::new(true, false, since);
        for it in [&mut one, &mut two] {
            it.until_reason();
            assert_eq!(it.at, since + Duration::from_secs(30));
        }
        one.wait().await;
        one.until_reason();
        assert_eq!(one.at, since + Duration::from_secs(60));
    }
}
