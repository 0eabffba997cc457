//! The tasks that live as long as the server: which of them respond, and which have ended
//! unexpectedly.
//!
//! **Invariant:** a service that panics or returns before it is told to stop ends the server: what
//! serves without its queue or its listeners would look well and do nothing.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::{Error, Result, fault};

/// Stack of a thread that runs tasks: futures of an operation on git lie deep in one another, and
/// an overflow would end the server. What is not used takes no memory.
pub(super) const STACK_BYTES: usize = 4 * 1024 * 1024;

/// Exit code of a server one of whose services ended (EX_SOFTWARE).
pub(super) const EXIT_CODE: u8 = 70;
/// How long all services together may take to respond.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Most pending checks per service.
const QUESTIONS_MAX: usize = 16;

type Questions = mpsc::Sender<oneshot::Sender<()>>;

/// The services that can be checked.
#[derive(Clone, Default)]
pub(super) struct Pulses(Arc<Mutex<Vec<(&'static str, Questions)>>>);

impl Pulses {
    /// Returns a future that runs `service` and responds to checks in the meantime.
    pub(super) fn beating<F: Future>(
        &self,
        name: &'static str,
        service: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let (questions, mut asked) = mpsc::channel::<oneshot::Sender<()>>(QUESTIONS_MAX);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, questions));
        async move {
            let mut service = pin!(service);
            loop {
                tokio::select! {
                    done = &mut service => return done,
                    question = asked.recv() => {
                        assert!(!fault::fails(name), "a fault was requested");
                        if let Some(question) = question {
                            // The caller may have left.
                            let _ = question.send(());
                        }
                    }
                }
            }
        }
    }

    /// Checks every service.
    ///
    /// # Errors
    /// `unavailable` with code `service_lost`, naming the first that does not answer.
    pub(super) async fn check(&self) -> Result<()> {
        let services = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let deadline = tokio::time::Instant::now() + ANSWER_MAX;
        for (name, questions) in services {
            let answer = async {
                let (reply, beat) = oneshot::channel();
                questions.send(reply).await.ok()?;
                beat.await.ok()
            };
            let answered = tokio::time::timeout_at(deadline, answer).await;
            if !matches!(answered, Ok(Some(()))) {
                return Err(Error::unavailable(format!("{name} does not answer"))
                    .code("service_lost")
                    .hint("see the log for the cause, then restart the server"));
            }
        }
        Ok(())
    }
}

/// A service that ended unexpectedly, and how.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) name: &'static str,
    pub(super) has_panicked: bool,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = if self.has_panicked { "panicked" } else { "ended" };
        write!(f, "{} {how}", self.name)
    }
}

/// All services of a server.
pub(super) struct Services {
    /// Tracks short tasks besides the services.
    pub(super) tracker: TaskTracker,
    /// Stops them all.
    pub(super) stop: CancellationToken,
    pulses: Pulses,
    losses: mpsc::UnboundedSender<Lost>,
    lost: mpsc::UnboundedReceiver<Lost>,
}

impl Services {
    pub(super) fn new(pulses: Pulses, stop: CancellationToken) -> Services {
        let (losses, lost) = mpsc::unbounded_channel();
        Services { tracker: TaskTracker::new(), stop, pulses, losses, lost }
    }

    /// Starts a service that runs until `stop`.
    pub(super) fn spawn(
        &self,
        name: &'static str,
        service: impl Future<Output = ()> + Send + 'static,
    ) {
        let (stop, losses) = (self.stop.clone(), self.losses.clone());
        let service = self.pulses.beating(name, service);
        self.tracker.spawn(async move {
            let has_panicked = AssertUnwindSafe(service).catch_unwind().await.is_err();
            if has_panicked || !stop.is_cancelled() {
                // The receiver lives until all tasks have ended.
                let _ = losses.send(Lost { name, has_panicked });
            }
        });
    }

    /// Waits until a service ends unexpectedly.
    pub(super) async fn lost(&mut self) -> Lost {
        match self.lost.recv().await {
            Some(lost) => lost,
            // A sender is held here.
            None => std::future::pending().await,
        }
    }

    /// Returns a service that ended unexpectedly and was not reported, if there is one.
    pub(super) fn lost_meanwhile(&mut self) -> Option<Lost> {
        self.lost.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_service_that_panics_or_returns_is_told() {
        let stop = CancellationToken::new();
        let mut services = Services::new(Pulses::default(), stop.clone());
        services.spawn("one", async { panic!("a test") });
        assert_eq!(services.lost().await, Lost { name: "one", has_panicked: true });
        services.spawn("two", async {});
        assert_eq!(services.lost().await, Lost { name: "two", has_panicked: false });
        services.spawn("three", stop.clone().cancelled_owned());
        stop.cancel();
        services.tracker.close();
        services.tracker.wait().await;
        assert_eq!(services.lost_meanwhile(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_service_that_runs_answers() {
        let (pulses, stop) = (Pulses::default(), CancellationToken::new());
        let services = Services::new(pulses.clone(), stop.clone());
        services.spawn("one", stop.clone().cancelled_owned());
        pulses.check().await.unwrap();
        services.spawn("two", async {});
        let cause = pulses.check().await.unwrap_err();
        assert_eq!((cause.code_str(), cause.message()), ("service_lost", "two does not answer"));
        // One that is never polled.
        let stuck = Pulses::default();
        let _never = stuck.beating("three", std::future::pending::<()>());
        let cause = stuck.check().await.unwrap_err();
        assert_eq!(cause.message(), "three does not answer");
        stop.cancel();
    }
}
