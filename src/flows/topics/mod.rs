//! Topics: opening, messages, closing and reopening.

pub(in crate::flows) mod deletion;
pub mod export;
pub mod of_job;
pub mod places;
pub mod reattach;
pub mod related;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::proposals::ProposalStatus;
use crate::api::topics::Discarded;
use crate::api::topics::{AgentOpenTopic, AgentTopic, EarlierProposal};
use crate::api::topics::{Message, Topic, TopicStatus};
use crate::base::{Actor, Error, Page, Result, SourcePath, TopicId};
use crate::documents::sources::text;
use crate::documents::topics::placement;
use crate::documents::topics::topic::{self, NewTopic, TopicFilter};
use crate::documents::topics::{message, suggestion};
use crate::documents::{self, Selection};
use crate::flows::jobs::cancel_obsolete;
use crate::flows::people::shown_names;
use crate::flows::proposals::rework;
use crate::flows::repository::renames;
use crate::flows::{Site, jobs as job_flow, kept_answer, page_limit, sources, viewer};
use crate::jobs::{self, Verb};
use crate::people::Caller;
use crate::store::idempotency;

/// Most jobs on a Topic's page.
const JOBS_SHOWN: u32 = 20;
/// Most earlier proposals for an agent, each with a reason of up to 4 KiB.
const PROPOSALS_SHOWN: usize = 10;

/// The body of `POST /api/topics`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TopicRequest {
    /// The Source.
    pub source_path: SourcePath,
    /// The first message; it may be empty with a suggestion.
    #[serde(default)]
    pub body: String,
    /// The suggested text for the passage; added to the message as a suggestion block.
    #[serde(default)]
    pub suggestion: Option<String>,
    /// Whether to start the job that applies suggestions.
    #[serde(default)]
    pub propose: bool,
    /// The passage.
    #[serde(default)]
    pub selection: Option<Selection>,
    /// Or that it is about the whole Source.
    #[serde(default)]
    pub global: bool,
    /// Title (optional; otherwise the first line of the message).
    #[serde(default)]
    pub title: Option<String>,
}

/// Opens a Topic, for a person or for a job whose kind opens Topics.
///
/// # Errors
/// `forbidden` with code `not_granted`; `conflict` with codes `too_many_topics` and `job_ended`,
/// and for a job with `source_gone` if another Source has the name of its own; `invalid` without a
/// selection and `global`, or with both; `unavailable` with code `stopping`; what resolving the
/// selection says.
pub async fn create(
    site: &Site,
    caller: &Caller,
    request: TopicRequest,
    key: Option<idempotency::Key>,
) -> Result<Topic> {
    let job = of_job::require(site, caller, &request.source_path).await?;
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        let id: TopicId = kept["id"].as_str().unwrap_or_default().parse()?;
        return site.store.read(move |c| shown(c, &id)).await;
    }
    site.freshness.catch_up(&site.repo).await?;
    let given = request.source_path;
    let path = match &job {
        Some((job, _)) => of_job::meant(site, job, &given, request.selection.as_ref()).await?,
        None => given.clone(),
    };
    let source = renames::source(site, &path).await?;
    let anchor = anchor_of((request.selection.as_ref(), request.global), &source)?;
    // The text of the selection must stay readable, even if it is not committed. The state is not
    // enough: a clean file whose line ends git converts has a version of its own.
    let is_kept = anchor.is_some() && source.head_blob.as_ref() != Some(&source.blob);
    if request.suggestion.is_some() && anchor.is_none() {
        return Err(Error::invalid("a suggestion needs a selection")
            .code("no_selection")
            .hint("send `selection`: the passage that the suggestion replaces"));
    }
    let new = NewTopic {
        source_path: path,
        is_global: request.global,
        title: request.title,
        body: written(&request.body, request.suggestion.as_deref())?,
        author: caller.actor(),
        anchor,
    };
    let (ids, token) = (site.ids.clone(), job.map(|it| it.1));
    site.store
        .write(move |tx| {
            let job = token.as_deref().map(|it| jobs::fence(tx, it)).transpose()?;
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                let id: TopicId = kept["id"].as_str().unwrap_or_default().parse()?;
                return shown(tx.connection(), &id);
            }
            if let Some(job) = &job {
                of_job::admit(tx, job, &given)?;
            }
            let made = topic::create(tx, &ids, new.clone())?;
            if is_kept {
                text::put(tx, &source.path, &source.blob, &source.text)?;
            }
            if let Some(key) = &key {
                idempotency::remember(tx, key, &json!({"id": made.id}))?;
            }
            shown_names::fill_topic(tx.connection(), made)
        })
        .await
}

fn anchor_of(
    about: (Option<&Selection>, bool),
    source: &documents::Source,
) -> Result<Option<documents::NewAnchor>> {
    match about {
        (Some(selection), false) => {
            documents::resolve(&source.text, &source.blob, selection).map(Some)
        }
        (None, true) => Ok(None),
        (Some(_), true) => {
            Err(Error::invalid("a topic has either a selection or `global`, not both"))
        }
        (None, false) => Err(Error::invalid("a topic needs a selection")
            .code("no_selection")
            .hint("send `selection`, or `global: true` for the whole source")),
    }
}

/// Returns a Topic with the name of its author.
fn shown(c: &Connection, id: &TopicId) -> Result<Topic> {
    shown_names::fill_topic(c, topic::find(c, id, None)?)
}

/// Returns a message for storage, with the suggestion as a block.
pub(super) fn written(body: &str, suggestion: Option<&str>) -> Result<String> {
    match suggestion {
        None => Ok(message::plain_lines(body)),
        Some(words) => {
            suggestion::message(&message::plain_lines(body), &message::plain_lines(words))
        }
    }
}

/// The query of `GET /api/topics`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TopicQuery {
    /// Only of this Source.
    pub source_path: Option<SourcePath>,
    /// `open`, `incorporated` or `discarded`.
    pub status: Option<String>,
    /// The `next` of the previous page.
    pub after: Option<TopicId>,
    /// Rows per page.
    pub limit: Option<u32>,
}

/// Returns Topics, newest first. With a `source_path`, each open one has its placement in the
/// current text, otherwise the last stored one; in a deleted Source none has a place.
///
/// # Errors
/// `invalid` for a status that is none; `forbidden` with code `not_granted`.
pub async fn list(site: &Site, caller: &Caller, query: TopicQuery) -> Result<Page<Topic>> {
    sources::require_site(site, caller).await?;
    let filter = TopicFilter {
        source_path: query.source_path.clone(),
        status: query.status.as_deref().map(str::parse).transpose()?,
        after: query.after,
        limit: page_limit(query.limit)?,
        blob: None,
    };
    let mut page = site
        .store
        .read(move |c| {
            let mut page = topic::list(c, &filter)?;
            page.items = page
                .items
                .into_iter()
                .map(|it| shown_names::fill_topic(c, it))
                .collect::<Result<_>>()?;
            for topic in page.items.iter_mut().filter(|it| it.anchor.is_some()) {
                topic.placement = placement::latest(c, &topic.id)?;
            }
            Ok(page)
        })
        .await?;
    if let Some(path) = &query.source_path {
        places::place_in_present(site, path, &mut page.items).await?;
    } else {
        deletion::mark_all(site, &mut page.items).await?;
    }
    Ok(page)
}

/// A Topic with everything that belongs to it.
#[derive(Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TopicPage {
    /// The Topic.
    pub topic: Topic,
    /// Its messages.
    pub messages: Vec<Message>,
    /// All proposals for it.
    pub proposals: Vec<documents::Proposal>,
    /// The newest jobs on it.
    pub jobs: Vec<job_flow::JobView>,
}

/// Returns a Topic with its messages, proposals and jobs.
///
/// # Errors
/// `not_found`; a job sees the Topics that it was granted.
pub async fn show(site: &Site, caller: &Caller, id: &TopicId) -> Result<TopicPage> {
    require_read(site, caller, id).await?;
    let (asked, works, viewer) = (id.clone(), site.works.clone(), viewer(caller));
    let mut page = site
        .store
        .read(move |c| {
            let topic = shown_names::fill_topic(c, topic::find(c, &asked, None)?)?;
            let proposals = documents::proposals::proposal::of_topic(c, &asked)?;
            let proposals = proposals
                .into_iter()
                .map(|it| shown_names::fill_proposal(c, it))
                .collect::<Result<_>>()?;
            let jobs = jobs::recent_of_topic(c, &viewer, &asked, JOBS_SHOWN)?;
            let jobs = jobs
                .into_iter()
                .map(|job| job_flow::view(&works, c, job))
                .collect::<Result<_>>()?;
            Ok(TopicPage { messages: messages(c, &asked)?, topic, proposals, jobs })
        })
        .await?;
    let path = page.topic.source_path.clone();
    if page.topic.status == TopicStatus::Open {
        places::place_in_present(site, &path, std::slice::from_mut(&mut page.topic)).await?;
    }
    Ok(page)
}

pub(super) fn messages(c: &Connection, id: &TopicId) -> Result<Vec<Message>> {
    message::list_of(c, id)?.into_iter().map(|it| shown_names::fill_message(c, it)).collect()
}

pub(super) async fn require_read(site: &Site, caller: &Caller, id: &TopicId) -> Result<()> {
    let Caller::Job { id: job, .. } = caller else { return Ok(()) };
    let job = job.clone();
    let job = site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &job)).await?;
    job.require_topic(id, Verb::Read)
}

/// The body of `POST /api/topics/{id}/messages`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MessageRequest {
    /// Markdown; it may be empty with a suggestion.
    #[serde(default)]
    pub body: String,
    /// The suggested text for the passage; added to the message as a suggestion block.
    #[serde(default)]
    pub suggestion: Option<String>,
    /// Whether to start the job that applies suggestions.
    #[serde(default)]
    pub propose: bool,
}

/// Adds a message, for a person or for a job with a grant.
///
/// # Errors
/// `conflict` with codes `topic_closed` and `job_ended`; `forbidden` with code `not_granted`.
pub async fn post_message(
    site: &Site,
    caller: &Caller,
    id: &TopicId,
    request: MessageRequest,
    key: Option<idempotency::Key>,
) -> Result<Message> {
    let token = match caller {
        Caller::Job { token_hash, .. } => Some(token_hash.clone()),
        Caller::Person { .. } => {
            caller.may_write()?;
            None
        }
    };
    let body = written(&request.body, request.suggestion.as_deref())?;
    let (ids, id, author) = (site.ids.clone(), id.clone(), caller.actor());
    site.store
        .write(move |tx| {
            if let Some(token) = &token {
                jobs::fence(tx, token)?.require_topic(&id, Verb::Message)?;
            }
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                let kept = kept["id"].as_str().unwrap_or_default().to_owned();
                let all = messages(tx.connection(), &id)?;
                let same = all.into_iter().find(|it| it.id.as_str() == kept);
                return same.ok_or_else(|| Error::not_found("the message no longer exists"));
            }
            let made = message::post(tx, &ids, &id, &author, &body, None)?;
            if let Some(key) = &key {
                idempotency::remember(tx, key, &json!({"id": made.id}))?;
            }
            shown_names::fill_message(tx.connection(), made)
        })
        .await
}

/// The body of discard and reopen.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// The reason; becomes a message of the Topic.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Closes a Topic without a change. The reason becomes its last message. Jobs for it are cancelled.
///
/// # Errors
/// `conflict` with code `topic_closed`.
pub async fn discard(
    site: &Site,
    caller: &Caller,
    id: &TopicId,
    request: ReasonRequest,
) -> Result<Discarded> {
    let actor = Actor::Person(caller.may_decide()?.id.clone());
    let (works, id) = (site.clone(), id.clone());
    site.store
        .write(move |tx| {
            if let Some(reason) = &request.reason {
                message::post(tx, &works.ids, &id, &actor, &message::plain_lines(reason), None)?;
            }
            topic::set_status(tx, &id, TopicStatus::Open, TopicStatus::Discarded, &actor)?;
            let cancelled_jobs = cancel_obsolete::of_topic(tx, &works, &id, &actor)?;
            let topic = topic::find(tx.connection(), &id, None)?;
            Ok(Discarded {
                topic: shown_names::fill_topic(tx.connection(), topic)?,
                cancelled_jobs,
            })
        })
        .await
}

/// Reopens a closed Topic. The reason becomes its next message.
///
/// # Errors
/// `conflict` with code `topic_not_closed`.
pub async fn reopen(
    site: &Site,
    caller: &Caller,
    id: &TopicId,
    request: ReasonRequest,
) -> Result<Topic> {
    let actor = Actor::Person(caller.may_decide()?.id.clone());
    let (ids, id) = (site.ids.clone(), id.clone());
    site.store
        .write(move |tx| {
            let was = topic::find(tx.connection(), &id, None)?.status;
            if was == TopicStatus::Open {
                let message = format!("topic {id} is open");
                return Err(Error::conflict("topic_not_closed", message)
                    .hint("it is still open: reply in it"));
            }
            topic::set_status(tx, &id, was, TopicStatus::Open, &actor)?;
            if let Some(reason) = &request.reason {
                message::post(tx, &ids, &id, &actor, &message::plain_lines(reason), None)?;
            }
            shown(tx.connection(), &id)
        })
        .await
}

/// Returns the output of `wb-agent get-topic`. The proposals are the last decided ones, without
/// their texts, with the reason of a rejection. `rework` is what this job has to revise.
///
/// # Errors
/// `not_found`; `forbidden` with code `not_granted`.
pub async fn for_agent(site: &Site, caller: &Caller, id: &TopicId) -> Result<AgentTopic> {
    let page = show(site, caller, id).await?;
    let decided = page.proposals.iter().filter(|it| it.status != ProposalStatus::Open);
    let earlier = decided.clone().count().saturating_sub(PROPOSALS_SHOWN);
    let proposals = decided.skip(earlier).map(|it| EarlierProposal {
        id: it.id.clone(),
        revision_number: it.revision_number,
        status: it.status,
        summary: it.summary.clone(),
        reason: it.reason.clone(),
        decided_by_name: it.decided_by_name.clone(),
        decided_at: it.decided_at,
        base_source_sha: it.base_source_sha.clone(),
    });
    let proposals = proposals.collect();
    let rework = rework::of_caller(site, caller).await?;
    let (anchor, messages) = (page.topic.anchor.clone(), page.messages);
    Ok(AgentTopic { topic: page.topic, anchor, messages, proposals, rework })
}

/// Returns the output of `wb-agent list-open-topics`: a bare array.
///
/// # Errors
/// `forbidden` with code `not_granted`; `conflict` with code `source_gone`.
pub async fn open_for_agent(
    site: &Site,
    caller: &Caller,
    path: &SourcePath,
) -> Result<Vec<AgentOpenTopic>> {
    let mut path = path.clone();
    if let Caller::Job { id, .. } = caller {
        let id = id.clone();
        let job = site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &id)).await?;
        job.require_source(&path, Verb::Read)?;
        if job.is_given(&path) {
            // Its document, whatever it is called by now.
            path = renames::document_since(site, &path, renames::start_of(&job)).await?;
        }
    }
    let asked = path.clone();
    let listed = site.store.read(move |c| {
        let open = topic::list_open_of(c, &asked, None)?;
        open.into_iter().map(|it| shown_names::fill_topic(c, it)).collect::<Result<Vec<_>>>()
    });
    let mut topics = listed.await?;
    places::place_in_present(site, &path, &mut topics).await?;
    let row = |topic: Topic| {
        let (anchor, placement) = (topic.anchor.clone(), topic.placement.clone());
        AgentOpenTopic { anchor, placement, topic }
    };
    Ok(topics.into_iter().map(row).collect())
}
