//! What a fake agent hands in: by the same functions as over HTTP, with the token of its job.

use serde_json::{Map, Value, json};

use crate::api::mail::VerdictRequest;
use crate::base::limit::OPENED_TOPICS_MAX;
use crate::base::{Actor, Error, Result};
use crate::documents;
use crate::flows::approvals::ask as approvals;
use crate::flows::approvals::ask::AskRequest;
use crate::flows::lab::site::Ground;
use crate::flows::lab::{message, new_topic};
use crate::flows::proposals::submit;
use crate::flows::requests::without_topic;
use crate::flows::{instances, jobs as job_flow, perspectives, topics};
use crate::jobs::{Job, Rehearsal};
use crate::people::Caller;
use crate::script::{InputType, Kind};

/// Submits what the fake agent hands in, with the token of its job.
pub(super) async fn all(
    ground: &Ground,
    kind: &Kind,
    rehearsal: &Rehearsal,
    does: &Map<String, Value>,
) -> Result<()> {
    let (site, job) = (&ground.site, &rehearsal.job);
    let caller = Caller::Job { id: job.id.clone(), token_hash: rehearsal.token_hash.clone() };
    let refused = |what: &str, cause: Error| {
        let message = format!("the {what} of the fake agent was refused: {}", cause.message());
        match cause.hint_str() {
            Some(hint) => Error::new(cause.kind(), message).hint(hint),
            None => Error::new(cause.kind(), message),
        }
    };
    let text = |name: &str| does.get(name).and_then(Value::as_str).map(str::to_owned);
    if let Some(body) = text("message") {
        let Some(topic) = &job.topic_id else {
            return Err(refused(
                "message",
                Error::invalid("its job has no topic")
                    .hint("add an input of type topic to the kind"),
            ));
        };
        let request = topics::MessageRequest { body, suggestion: None, propose: false };
        let posted = topics::post_message(site, &caller, topic, request, None).await;
        posted.map_err(|it| refused("message", it))?;
    }
    if let Some(proposal) = does.get("proposal") {
        let proposed = propose(ground, kind, job, &caller, proposal).await;
        proposed.map_err(|it| refused("proposal", it))?;
    }
    for topic in does.get("topics").and_then(Value::as_array).into_iter().flatten() {
        let opened = new_topic(ground, &caller, topic).await;
        opened.map_err(|it| refused("topic", it))?;
    }
    if let Some(view) = text("view") {
        let stored = store_view(ground, kind, job, &caller, view).await;
        stored.map_err(|it| refused("view", it))?;
    }
    if let Some(result) = does.get("result") {
        let request = job_flow::ResultRequest { result: result.clone(), summary: text("summary") };
        let kept = job_flow::finish(site, &caller, &job.id, request).await;
        kept.map_err(|it| refused("result", it))?;
    }
    if let Some(asked) = does.get("ask") {
        let asked = ask(ground, &caller, asked).await;
        asked.map_err(|it| refused("request for a decision", it))?;
    }
    let reply = does.get("complete").map(|reply| ("ok", Some(message::json_of(reply)), None));
    let reason = text("fail").map(|reason| ("error", None, Some(reason)));
    // The second one is refused, as that of a real agent.
    for (verdict, reply, reason) in [reply, reason].into_iter().flatten() {
        let request = VerdictRequest { verdict: verdict.to_owned(), reply, reason };
        let given = instances::give(site, &caller, &job.id, request).await;
        given.map_err(|it| refused("verdict", it))?;
    }
    Ok(())
}

/// Asks a person, and ends with that, as `wb-agent approval create --and-exit` does.
async fn ask(ground: &Ground, caller: &Caller, asked: &Value) -> Result<()> {
    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
    let request = AskRequest {
        channel: text("channel"),
        title: text("title"),
        payload: asked.get("payload").map_or_else(|| json!({}), message::json_of),
        schema: asked.get("schema").cloned(),
        expires: None,
        and_exit: true,
    };
    approvals::ask(&ground.site, caller, request, None).await.map(drop)
}

/// Returns the value of the first input of a type.
fn value_of(kind: &Kind, job: &Job, ty: InputType) -> Result<String> {
    let input = kind.inputs.iter().find(|it| it.ty == ty);
    input.and_then(|it| job.input_text(&it.name)).ok_or_else(|| {
        let message = format!("kind \"{}\" has no value of type {}", kind.name, ty.as_str());
        Error::invalid(message).hint("add an input of that type to the kind")
    })
}

/// Returns the Source that the job changes: the one whose version is among its inputs. Others are
/// only read.
fn source_of(kind: &Kind, job: &Job) -> Result<String> {
    let source = kind.source_input(|it| job.input_text(&it.name).is_some());
    let path = source.and_then(|it| job.input_text(&it.name));
    path.map_or_else(|| value_of(kind, job, InputType::Source), Ok)
}

async fn propose(
    ground: &Ground,
    kind: &Kind,
    job: &Job,
    caller: &Caller,
    proposal: &Value,
) -> Result<()> {
    let field = |name: &str| proposal[name].as_str().map(str::to_owned);
    let text = proposal.as_str().map(str::to_owned).or_else(|| field("text")).unwrap_or_default();
    let base_source_sha = value_of(kind, job, InputType::Blob)?.parse()?;
    let has_topic = kind.inputs.iter().any(|it| it.ty == InputType::Topic);
    match &job.topic_id {
        Some(topic) if has_topic => {
            let (summary, anchors) = (field("summary"), Vec::new());
            let request = submit::ProposalRequest { base_source_sha, text, summary, anchors };
            submit::propose(&ground.site, caller, topic, request, None).await?;
        }
        _ => {
            let request = without_topic::FoundRequest {
                source_path: source_of(kind, job)?.parse()?,
                base_source_sha,
                text,
                title: field("title"),
                summary: field("summary"),
                anchors: Vec::new(),
            };
            without_topic::propose(&ground.site, caller, request, None).await?;
        }
    }
    Ok(())
}

async fn store_view(
    ground: &Ground,
    kind: &Kind,
    job: &Job,
    caller: &Caller,
    text: String,
) -> Result<()> {
    let request = perspectives::PutRequest {
        source_path: source_of(kind, job)?.parse()?,
        persona: value_of(kind, job, InputType::Persona)?,
        source_sha: value_of(kind, job, InputType::Blob)?.parse()?,
        persona_sha: value_of(kind, job, InputType::Hash)?.parse()?,
        text,
    };
    perspectives::put(&ground.site, caller, request).await.map(drop)
}

/// Adds what a job produced to its view.
pub(super) async fn show(ground: &Ground, job: &Job, shown: &mut Value) -> Result<()> {
    message::show_answer(ground, job, shown).await?;
    let job = job.clone();
    let found = ground.site.store.read(move |c| {
        let proposal = documents::proposals::proposal::by_job(c, &job.id)?;
        let proposal = proposal
            .map(|it| Ok::<_, Error>((documents::proposals::proposal::text(c, &it.id)?, it.id)))
            .transpose()?;
        let by = Actor::Job(job.id.clone());
        let message = match &job.topic_id {
            Some(topic) => documents::topics::message::last_body(c, topic, &by)?,
            None => None,
        };
        let has_view = documents::perspectives::has_job(c, &job.id)?;
        let view = has_view.then(|| documents::perspectives::body(c, &job.id)).transpose()?;
        let topics = documents::topics::job_topics::opened_by(c, &by, OPENED_TOPICS_MAX)?;
        Ok((proposal, message, view, topics))
    });
    let (proposal, message, view, topics) = found.await?;
    let (text, id) = proposal.unzip();
    (shown["proposal"], shown["proposal_id"]) = (json!(text), json!(id));
    shown["message"] = json!(message);
    shown["view"] = json!(view);
    shown["topics"] = json!(topics);
    Ok(())
}
