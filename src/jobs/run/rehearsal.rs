//! Runs a job with a simulated agent: the same life cycle, without a process.
//!
//! **Invariant:** only the guard is left out. Claim, prompt, environment, telemetry, outcome, the
//! script's check and the settlement are those of [`Queue::serve`].

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::base::{Actor, Error, JobId, Result, digest_hex, random_token};
use crate::jobs::queue::claim;
use crate::jobs::rows::pool::Pool;
use crate::jobs::rows::table;
use crate::jobs::run::execution::{self, Ready};
use crate::jobs::run::generation::Pin;
use crate::jobs::run::settle::{self, Ended, Outcome};
use crate::jobs::telemetry::Telemetry;
use crate::jobs::{Generation, Job, Queue, Reason, Status, Viewer, job_dir};
use crate::process::{ExitRecord, GuardEnd, Stream, put_output};
use crate::script::Kind;

/// A claimed job that waits for its simulated agent.
pub struct Rehearsal {
    /// The job, with all its inputs.
    pub job: Job,
    /// The digest of its token.
    pub token_hash: String,
    queue: Queue,
    generation: Pin,
    ready: std::result::Result<Ready, Outcome>,
}

/// The result of a simulated agent: what its guard would have left.
pub struct Played {
    /// How it ended.
    pub record: ExitRecord,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl Queue {
    /// Claims and prepares this job, or else the next one. `None` if it may not run now.
    ///
    /// # Errors
    /// Same as the claim.
    pub async fn rehearse(&self, this: Option<&JobId>) -> Result<Option<Rehearsal>> {
        let claimed = match this {
            None => self.claim(&Pool::ALL).await?,
            Some(id) => self.claim_this(id).await?,
        };
        let Some((job, token, generation)) = claimed else { return Ok(None) };
        let token_hash = digest_hex(&token);
        let generation = self.inner.setup.generations.pin(&job.id, generation);
        let never = CancellationToken::new();
        let ready = execution::prepare(&self.inner, &generation, (&job, token), &never).await;
        let ready = ready.map_err(|it| it.outcome);
        let id = job.id.clone();
        let job =
            self.inner.setup.store.read(move |c| table::find(c, &Viewer::Program, &id)).await?;
        Ok(Some(Rehearsal { job, token_hash, queue: self.clone(), generation, ready }))
    }

    async fn claim_this(&self, id: &JobId) -> Result<Option<(Job, String, Arc<Generation>)>> {
        let (token, generation) = (random_token("wbj_")?, self.current());
        let (hash, caps, id) = (digest_hex(&token), generation.caps.clone(), id.clone());
        let config = generation.config.digest.clone();
        let claim =
            move |tx: &crate::store::Tx<'_>| claim::claim_this(tx, &caps, &id, (&hash, &config));
        let job = self.inner.setup.store.write(claim).await?;
        Ok(job.map(|job| (job, token, generation)))
    }

    /// Ends a queued job as if it had run.
    ///
    /// # Errors
    /// `conflict` if it is not queued; otherwise same as the settlement.
    pub async fn pretend(
        &self,
        id: &JobId,
        (status, reason): (Status, Option<Reason>),
        tail: String,
    ) -> Result<Job> {
        let Some((job, _, generation)) = self.claim_this(id).await? else {
            return Err(Error::conflict("not_ready", format!("job {id} cannot run now")));
        };
        let ended = match reason.filter(|_| status != Status::Succeeded) {
            Some(reason) => Ended::Not(status, reason),
            None => Ended::Well,
        };
        let outcome = Outcome { ended, error_tail: tail, ..Outcome::default() };
        let (id, hooks) = (job.id.clone(), self.inner.setup.hooks.clone());
        let lanes = generation.capacities().clone();
        self.inner
            .setup
            .store
            .write(move |tx| {
                if status == Status::Cancelled {
                    settle::request_cancel(tx, &id, &Actor::System)?;
                }
                settle::settle(tx, &id, &outcome, None, &hooks, &lanes)
            })
            .await
    }
}

impl Rehearsal {
    /// Returns the agent's prompt; `None` if the job fails before it starts.
    pub fn prompt(&self) -> Option<String> {
        let spec = &self.ready.as_ref().ok()?.spec;
        let prompt = spec.prompt.as_deref().unwrap_or_default();
        Some(String::from_utf8_lossy(prompt).into_owned())
    }

    /// Returns the job's kind; `None` if it fails before it starts.
    pub fn kind(&self) -> Option<&Kind> {
        self.ready.as_ref().ok()?;
        self.generation.config.kind_of_job(&self.job.kind)
    }

    /// Returns the engine's additions to the agent's environment.
    pub fn env(&self) -> Vec<(String, String)> {
        let Ok(ready) = &self.ready else { return Vec::new() };
        let kind = self.generation.config.kind_of_job(&self.job.kind);
        let engine = kind.and_then(|it| self.generation.engines.find(&it.engine).ok());
        let is_added = |name: &String| engine.is_some_and(|it| it.env.contains_key(name));
        let all = ready.spec.launch.env.iter().chain(&ready.spec.secrets);
        all.filter(|(name, _)| is_added(name)).cloned().collect()
    }

    /// Ends the job with its agent's result, which is ignored if the agent was never started.
    ///
    /// # Errors
    /// Same as the settlement.
    pub async fn end(self, played: Played) -> Result<Job> {
        let (inner, generation, job) = (&self.queue.inner, &self.generation, &self.job);
        let outcome = match self.ready {
            Err(outcome) => outcome,
            Ok(ready) => {
                let dir = job_dir(&inner.ground.data, &job.id);
                put_output(&dir, Stream::Stdout, &played.stdout)?;
                put_output(&dir, Stream::Stderr, &played.stderr)?;
                let clock = inner.setup.store.clock().clone();
                let telemetry = Telemetry::new(&dir, ready.reads, clock);
                execution::fence(inner, job).await;
                let (telemetry, _) = execution::pump(Some(telemetry), job, Vec::new(), true).await;
                let end = GuardEnd::Recorded(played.record);
                execution::ended((inner, generation), job, end, telemetry, false).await
            }
        };
        execution::settle_once(inner, generation, job, &outcome).await
    }
}
