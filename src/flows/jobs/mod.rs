//! Requesting jobs, reading them, and cancelling them.

pub mod board;
pub mod bulk;
pub mod cancel;
pub(in crate::flows) mod cancel_obsolete;
pub mod changes;
pub mod failure;
pub mod legs;
pub(in crate::flows) mod one_decision;
pub mod output;
mod private_output;
pub(in crate::flows) mod steering_hold;
pub mod tree_guard;
mod unblock;
pub mod usage;

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::api::changes::ChangesView;
use crate::api::instances::MonitorView;
use crate::api::mail::Sort;
use crate::api::topics::OpenedTopic;
use crate::api::workspaces::Workspace;
use crate::base::limit::RESULT_BYTES_MAX;
use crate::base::{
    Actor, Error, ErrorKind, JobId, Millis, Page, ProposalId, Result, SourcePath, TopicId,
};
use crate::documents;
use crate::documents::proposals::proposal::lineage;
use crate::flows::approvals::show::asks;
use crate::flows::people::refuse_disabled;
use crate::flows::proposals::suggestions;
use crate::flows::requests::{inputs, multi_topic, new_job, options, prepare, without_topic};
use crate::flows::topics::of_job;
use crate::flows::{Site, instances, kept_answer, page_limit, viewer, workspaces};
use crate::jobs::{self, Job, JobFilter, NewJob, Outlook, Status, Turn, Viewer, Waiting};
use crate::people::{self, Caller};
use crate::script::{EngineBody, Produces, Reads};
use crate::store::idempotency;

pub use board::counts;
pub use private_output::PRIVATE_OUTPUT;
pub(in crate::flows) use private_output::require_open_output;

/// How long a look at the repository may take before it is a reason to wait, in milliseconds.
const LONG_LOOK_MS: i64 = 2_000;

/// The body of `POST /api/agent/jobs`: the kind, its inputs, and when to start.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobRequest {
    /// The kind.
    pub kind: String,
    /// Higher starts first; between -100 and 100; by default the kind's own.
    #[serde(default)]
    pub priority: Option<i64>,
    /// RFC 3339; the job does not start earlier.
    #[serde(default)]
    pub not_before: Option<String>,
    /// Open proposals for these Topics may be superseded by this job's.
    #[serde(default)]
    pub replace_proposals: bool,
    /// The inputs of the kind.
    #[serde(flatten)]
    pub inputs: Map<String, Value>,
}

/// A job with details from other domains.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobView {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// The failure, as a sentence.
    pub message: Option<String>,
    /// Why it waits.
    pub waiting: Option<Waiting>,
    /// The requester.
    pub requested_by_name: String,
    /// Who cancelled it.
    pub cancelled_by_name: Option<String>,
    /// The engine that runs it.
    pub engine: Option<String>,
    /// Its wall-clock limit, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How long its agent may be silent at the start.
    pub start_ms: Option<u64>,
    /// How long its agent may be silent.
    pub idle_ms: Option<u64>,
    /// What it must produce.
    pub produces: Option<Cow<'static, str>>,
    /// The format of its agent's output.
    pub reads: Option<Reads>,
    /// When its agent last printed something.
    pub printed_at: Option<Millis>,
    /// The jobs that retry it.
    pub retried_as: Vec<JobId>,
    /// What it proposed.
    pub proposal_id: Option<ProposalId>,
    /// The Topics that it opened.
    pub opened_topics: Vec<OpenedTopic>,
    /// Changes of the repository while it ran.
    pub changes: Option<ChangesView>,
    /// Its agent's workspace.
    pub workspace: Option<Workspace>,
    /// The job that watches it, or watched its last run.
    pub monitor: Option<MonitorView>,
    /// Names of the environment of its agent, without their values.
    #[serde(default)]
    pub environment: Vec<String>,
    /// The runs of a job that was parked and went on, itself among them; empty if it has one.
    #[serde(default)]
    pub legs: Vec<legs::Leg>,
}

/// Accepts a job.
///
/// # Errors
/// `forbidden` for viewers and jobs; what is wrong with an input; `lane_busy`, `queue_full`, and
/// for a kind that proposes what `source_dirty` and its like say, before an agent spends time on
/// it; `unavailable` with code `stopping`.
pub async fn create(
    site: &Site,
    caller: &Caller,
    request: JobRequest,
    key: Option<idempotency::Key>,
) -> Result<JobId> {
    let person = caller.may_write()?;
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return kept["job_id"].as_str().unwrap_or_default().parse();
    }
    let kind = inputs::asked_kind(site, &request.kind)?;
    site.freshness.catch_up(&site.repo).await?;
    let checked = match inputs::check(site, kind, &request.inputs).await {
        Ok(checked) => checked,
        Err(refusal) => return Err(changes::explain(site, None, refusal).await),
    };
    if kind.produces == Some(Produces::Proposal) {
        for (input, path) in prepare::sources(kind, &checked.values) {
            if let Err(refusal) = new_job::refuse_unready(site, input, &path).await {
                let refusal = refusal.of_input(&input.name);
                return Err(changes::explain(site, Some(&path), refusal).await);
            }
        }
    }
    if let Some(topic) = &checked.topic_id {
        suggestions::refuse_same(site, kind, topic, (None, None)).await?;
    }
    if !request.replace_proposals {
        multi_topic::refuse_proposed(site, checked.topic_id.as_ref(), &checked.values).await?;
    }
    let by = Actor::Person(person.id.clone());
    let mut new = new_job::new_job(site, kind, checked, by).await?;
    new.priority = options::priority(kind, person, request.priority)?;
    new.not_before = request.not_before.as_deref().map(options::parse_time).transpose()?;
    accept(site, new, key).await
}

async fn accept(site: &Site, new: NewJob, key: Option<idempotency::Key>) -> Result<JobId> {
    let (ids, queue) = (site.ids.clone(), site.queue.clone());
    site.store
        .write(move |tx| {
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                return kept["job_id"].as_str().unwrap_or_default().parse();
            }
            refuse_disabled(tx.connection(), &new.requested_by)?;
            queue.admit(tx, &new)?;
            let id = jobs::enqueue(tx, &ids, &queue.capacities(), &new)?;
            if let Some(old) = &new.retry_of {
                lineage::repeat_rework(tx, &id, old)?;
                without_topic::reopen(tx, old, &new)?;
            }
            if let Some(key) = &key {
                idempotency::remember(tx, key, &json!({"job_id": id}))?;
            }
            Ok(id)
        })
        .await
}

/// The optional body of `POST /api/agent/jobs/{id}/retry`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// RFC 3339; the new job does not start earlier.
    #[serde(default)]
    pub not_before: Option<String>,
    /// Not before the provider's rate limit resets: `retry_at` of the job, or the end of the
    /// engine's hold.
    #[serde(default)]
    pub when_allowed: bool,
}

/// Retries an ended job as a new one that always queues.
///
/// # Errors
/// `conflict` with code `job_active` if it has not ended; `daily_cap`.
pub async fn retry(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    request: RetryRequest,
    key: Option<idempotency::Key>,
) -> Result<JobId> {
    let person = caller.may_write()?;
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return kept["job_id"].as_str().unwrap_or_default().parse();
    }
    let (asked, viewer) = (id.clone(), viewer(caller));
    let old = site.store.read(move |c| jobs::find(c, &viewer, &asked)).await?;
    inputs::refuse_private(&old)?;
    if !old.status.is_final() {
        return Err(Error::conflict("job_active", format!("job {id} is {}", old.status))
            .hint("cancel it first, or wait for it"));
    }
    refuse_unrepeatable(site, &old).await?;
    let (kind, mut new) = options::repeated(site, &old, person).await?;
    if let Some(topic) = &new.topic_id {
        suggestions::refuse_same(site, kind, topic, (None, None)).await?;
    }
    let not_before = request.not_before.as_deref().map(options::parse_time).transpose()?;
    let when = (not_before, request.when_allowed);
    new.not_before = options::earliest(site, &old, kind, when).await?;
    new.retry_of = Some(old.id);
    accept(site, new, key).await
}

/// Refuses to retry a monitor, and what is answered.
pub(in crate::flows::jobs) async fn refuse_unrepeatable(site: &Site, old: &Job) -> Result<()> {
    if let Some(worker) = &old.monitor_of {
        let message = format!("job {} watched a run of job {worker}", old.id);
        return Err(Error::conflict("is_monitor", message)
            .hint("a monitor is started with the run of its instance"));
    }
    refuse_answered(site, old).await
}

/// Refuses to retry an instance that continues as another leg, or whose message has its reply.
async fn refuse_answered(site: &Site, old: &Job) -> Result<()> {
    let Some(message) = old.message_id.clone() else { return Ok(()) };
    let root = old.root().clone();
    let look = move |c: &Connection| {
        let last = jobs::last_leg(c, &root)?;
        Ok((last, crate::mail::answer_of(c, &message)?))
    };
    let (last, answer) = site.store.read(look).await?;
    if !last.status.is_final() {
        let message =
            format!("its instance continues as job {}, which is {}", last.id, last.status);
        return Err(Error::conflict("job_active", message).hint("cancel it first, or wait for it"));
    }
    if answer.is_some_and(|it| it.sort == Sort::Reply) {
        let message = "its message already has a reply".to_owned();
        return Err(Error::conflict("already_answered", message).hint("send the message again"));
    }
    Ok(())
}

/// Returns a job; a job sees only itself.
///
/// # Errors
/// `not_found`; a job sees itself only.
pub async fn show(site: &Site, caller: &Caller, id: &JobId) -> Result<JobView> {
    let viewer = require_own(caller, id)?;
    let mut shown = site.store.look(|c| {
        let shown = view(&site.works, c, jobs::find(c, &viewer, id)?)?;
        let opened_topics = of_job::of_job(c, &shown.job)?;
        let (changes, retried_as) = (changes::view(c, id)?, jobs::retries(c, &viewer, id)?);
        let workspace = workspaces::of_job(c, &shown.job)?;
        let (monitor, legs) = (instances::monitor::of(c, id)?, legs::of(c, &shown.job)?);
        let waiting = match &shown.waiting {
            None if !shown.job.status.is_final() => asks(c, shown.job.root())?,
            known => known.clone(),
        };
        let shown = JobView { changes, retried_as, opened_topics, workspace, ..shown };
        Ok(JobView { monitor, legs, waiting, ..shown })
    })?;
    if shown.job.status == Status::Running {
        shown.printed_at = output::last_printed(site, id).await?;
    }
    if shown.job.started_at.is_some() {
        shown.environment = output::environment(site, id).await?;
    }
    Ok(shown)
}

/// Returns the viewer of a job; a job sees only itself.
///
/// # Errors
/// `forbidden` with code `not_granted` for another job.
pub(in crate::flows) fn require_own(caller: &Caller, id: &JobId) -> Result<Viewer> {
    match caller {
        Caller::Job { id: own, .. } if own == id => Ok(Viewer::Program),
        Caller::Job { id: own, .. } => {
            let message = format!("job {own} may not look at job {id}");
            Err(Error::new(ErrorKind::Forbidden, message).code("not_granted"))
        }
        person => Ok(viewer(person)),
    }
}

pub(super) fn view(works: &super::Works, c: &Connection, job: Job) -> Result<JobView> {
    let viewer = job.owner.clone().map_or(Viewer::Site, Viewer::Person);
    view_with(works, (c, &viewer), job, &mut None)
}

/// The same for one of several jobs, which share one look at the queue.
pub(super) fn view_with(
    works: &super::Works,
    (c, viewer): (&Connection, &Viewer),
    job: Job,
    outlook: &mut Option<Outlook>,
) -> Result<JobView> {
    let waiting = match (job.status, &mut *outlook) {
        (Status::Queued, Some(outlook)) => outlook.why(c, &job)?,
        (Status::Queued, none) => {
            let now = works.store.clock().now();
            none.insert(Outlook::load(c, viewer, &works.config, now)?).why(c, &job)?
        }
        (Status::Running, _) => looks(works, &job.id),
        _ => None,
    };
    let waiting = waiting.map(|it| works.freshness.reason(&works.repo, &job, it));
    let config = works.config_of(&job.id);
    let kind = config.kinds.get(&job.kind);
    let engine = kind.and_then(|it| config.engines.get(&it.engine));
    let program = match engine.map(|it| &it.body) {
        Some(EngineBody::Process { command, .. }) => {
            command.first().map_or("agent", String::as_str)
        }
        Some(EngineBody::Anthropic(model)) => model.model.as_str(),
        Some(EngineBody::Gateway(model)) => model.model.as_str(),
        _ => "wb-agent",
    };
    let canceller = job.cancelled_by.as_ref();
    let canceller = canceller.map(|it| people::display_name(c, it)).transpose()?;
    let timeout = kind.map(|it| it.timeout);
    let produces = kind.and_then(|it| it.produces);
    let millis = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    let proposal = documents::proposals::proposal::by_job(c, &job.id)?;
    Ok(JobView {
        message: jobs::sentence(&job, program, (timeout, produces), canceller.as_deref()),
        requested_by_name: people::display_name(c, &job.requested_by)?,
        cancelled_by_name: canceller,
        engine: job.engine.clone().or_else(|| engine.map(|it| it.name.clone())),
        waiting,
        timeout_ms: timeout.filter(|it| !it.is_zero()).map(millis),
        start_ms: kind.and_then(|it| it.start).map(millis),
        idle_ms: kind.and_then(|it| it.idle).map(millis),
        produces: produces.map(|it| Cow::Borrowed(it.as_str())),
        reads: engine.and_then(|it| it.reads()),
        printed_at: None,
        legs: Vec::new(),
        retried_as: Vec::new(),
        proposal_id: proposal.map(|it| it.id),
        opened_topics: Vec::new(),
        changes: None,
        workspace: None,
        monitor: None,
        environment: Vec::new(),
        job,
    })
}

/// Returns why a running job waits whose agent has not started or has ended, if a look at the
/// repository takes long.
fn looks(works: &super::Works, id: &JobId) -> Option<Waiting> {
    let wait = works.repo.looks().wait_of(id)?;
    if works.store.clock().now().0 - wait.since.0 < LONG_LOOK_MS {
        return None;
    }
    let since = wait.since.minute();
    let first = wait.other.as_ref().map(|it| format!("; job {it} is first"));
    let first = first.unwrap_or_default();
    Some(Waiting {
        code: "look".into(),
        message: format!("the repository has been compared since {since} UTC{first}"),
        until: None,
        job_id: wait.other,
        job_kind: None,
        job_started_at: None,
    })
}

/// The query of `GET /api/agent/jobs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobQuery {
    /// Only of this Source.
    pub source_path: Option<SourcePath>,
    /// Only in this state; `waiting` and `scheduled` are parts of `queued`.
    pub status: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this Topic.
    pub topic_id: Option<TopicId>,
    /// The `next` of the previous page.
    pub after: Option<JobId>,
    /// Rows per page.
    pub limit: Option<u32>,
}

/// Returns jobs, newest first.
///
/// # Errors
/// `invalid` for a status that is none; `forbidden` for jobs.
pub async fn list(site: &Site, caller: &Caller, query: JobQuery) -> Result<Page<JobView>> {
    caller.person()?;
    if let Some(kind) = &query.kind {
        inputs::refuse_private_kind(kind)?;
    }
    let (viewer, limit) = (viewer(caller), page_limit(query.limit)?);
    let (status, turn) = match query.status.as_deref() {
        Some("waiting") => (None, Some(Turn::Turn)),
        Some("scheduled") => (None, Some(Turn::Time)),
        Some(word) => (Some(Status::parse(word)?), None),
        None => (None, None),
    };
    let filter = JobFilter {
        source_path: query.source_path,
        topic_id: query.topic_id,
        kind: query.kind,
        status,
        turn,
        now: site.store.clock().now(),
        before: query.after,
        limit: limit + 1,
    };
    let works = site.works.clone();
    site.store
        .read(move |c| {
            let mut found = jobs::list(c, &viewer, &filter)?;
            let has_more = found.len() > limit as usize;
            found.truncate(limit as usize);
            let next = if has_more { found.last().map(|it| it.id.to_string()) } else { None };
            let mut outlook = None;
            let views =
                found.into_iter().map(|job| view_with(&works, (c, &viewer), job, &mut outlook));
            Ok(Page { items: views.collect::<Result<_>>()?, next })
        })
        .await
}

/// The body of `POST /api/agent/jobs/{id}/result`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResultRequest {
    /// Any JSON.
    pub result: Value,
    /// One sentence.
    #[serde(default)]
    pub summary: Option<String>,
}

/// Stores the result that an agent submits for its own job.
///
/// # Errors
/// `forbidden` for anybody but the job itself; `conflict` with code `job_ended`.
pub async fn finish(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    request: ResultRequest,
) -> Result<Value> {
    require_own(caller, id)?;
    if request.result.is_null() {
        return Err(Error::invalid("the result is null")
            .code("no_result")
            .hint("submit any other JSON"));
    }
    let bytes = request.result.to_string().len();
    if bytes > RESULT_BYTES_MAX {
        let message =
            format!("the result has {bytes} bytes as JSON, {RESULT_BYTES_MAX} are allowed");
        return Err(Error::new(ErrorKind::TooLarge, message)
            .hint("write large content to a file and submit its path"));
    }
    let token = caller.job()?.1.to_owned();
    let id = id.clone();
    site.store
        .write(move |tx| {
            jobs::fence(tx, &token)?;
            jobs::keep_result(tx, &id, &request.result, request.summary.as_deref())
        })
        .await?;
    Ok(json!({}))
}
