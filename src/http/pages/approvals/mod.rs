//! The page of an approval: the request, its outcome, and the decision.

pub(in crate::http::pages) mod list;

use askama::Template;
use serde_json::Value;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::approvals::{Decision, Past, Sort, State};
use crate::api::jobs::Status;
use crate::base::limit::APPROVAL_BODY_BYTES_MAX;
use crate::base::{ApprovalId, CallId, ChatId, Error, ErrorKind, JobId, Millis, Result};
use crate::flows::approvals::decide::{Answer, DecideRequest};
use crate::flows::approvals::show::Shown;
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::difference::Difference;
use crate::http::pages::parts::fields::Field;
use crate::http::pages::parts::job::Job;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels, payload_form};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// Most values shown as a list; longer and nested payloads are shown as JSON.
const FACTS_MAX: usize = 40;
/// Longest value in that list.
const FACT_CHARS_MAX: usize = 400;

/// Something that waits in a channel: a held answer, a pause or an escalation.
pub(in crate::http::pages) struct InChannel {
    pub(in crate::http::pages) waiting: Decision,
    pub(in crate::http::pages) since: Millis,
}

impl InChannel {
    pub(in crate::http::pages) fn fact(&self) -> &'static str {
        match &*self.waiting.what {
            "paused" => "messages wait until someone resumes it",
            "escalation" => "waits for the chair to read it",
            _ => "someone may have typed in its terminal",
        }
    }
}

/// Returns what an event of an approval is called.
fn event_words(event: &Past) -> &'static str {
    match event.event.as_str() {
        "created" => "Requested",
        "approved" => "Approved",
        "amended" => "Approved with changes",
        "rejected" => "Rejected",
        "withdrawn" => "Withdrawn",
        _ => "Expired",
    }
}

#[derive(Template)]
#[template(path = "approval.html")]
struct ApprovalPage {
    frame: Frame,
    view: Shown,
    /// The values of a flat payload.
    facts: Option<Vec<(String, String)>>,
    /// The payload as JSON, if it is not flat.
    json: String,
    /// The approver's changes.
    difference: Option<Difference>,
    fields: Vec<Field>,
    /// The job that requested it.
    job: Option<Job>,
    /// Why *Approve with changes* was refused, and the note that was typed.
    refused: Option<(String, String)>,
    /// The expired call that can still be made, and its conversation.
    later: Option<(CallId, ChatId)>,
}

impl ApprovalPage {
    fn live(&self) -> String {
        let job =
            self.view.approval.job_id.as_ref().map(|it| format!(" job:{it}")).unwrap_or_default();
        // The next leg, which starts when the cap is free again, is another job.
        let leg = if self.view.approval.waiting.is_some() { " jobs" } else { "" };
        format!("approval:{}{job}{leg}", self.view.approval.id)
    }

    fn is_pending(&self) -> bool {
        self.view.approval.state == State::Pending
    }

    /// Returns the change that a call of the assistant would make.
    fn preview(&self) -> Option<String> {
        let preview = self.view.texts.payload["preview"].as_str();
        preview.filter(|_| self.view.approval.sort == Sort::Call).map(str::to_owned)
    }

    /// Returns what the job does until there is a decision.
    fn waits(&self) -> Option<&'static str> {
        match self.job.as_ref()?.status {
            Status::Running => Some("The agent is running and may be waiting for your answer."),
            Status::Parked => Some("The agent is parked: no process runs until you decide."),
            _ => None,
        }
    }

    /// Returns the class of the banner with the outcome.
    fn tone(&self) -> &'static str {
        match self.view.approval.state {
            State::Approved | State::Amended => "good",
            State::Rejected => "bad",
            _ => "quiet",
        }
    }
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/approvals/{id}", site, show),
        post("/approvals/{id}/approve", site, async |site, call| {
            decide(site, call, Answer::Approve).await
        }),
        post("/approvals/{id}/reject", site, async |site, call| {
            decide(site, call, Answer::Reject).await
        }),
    ])
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (framed, id) = (Frame::of(&site, &call, "/decisions")?, call.param("id")?);
    approval_page(&site, framed, &id, None).await
}

/// Shows an approval; with the fields of *Approve with changes* as they were sent, if that was
/// refused.
async fn approval_page(
    site: &Site,
    (frame, caller): (Frame, Caller),
    id: &ApprovalId,
    refused: Option<(&[(String, String)], &Error)>,
) -> Result<Response> {
    let view = flows::approvals::show::show(site, &caller, id).await?;
    let job = job(site, &caller, view.approval.job_id.as_ref()).await?;
    let difference = match &view.texts.changes {
        Some(changes) => Some(
            compared(payload_form::pretty(&view.texts.payload), payload_form::pretty(changes))
                .await?,
        ),
        None => None,
    };
    let is_pending = view.approval.state == State::Pending;
    let mut fields = match is_pending && frame.may_decide {
        true => payload_form::fields(&view.texts.payload, view.texts.schema.as_ref()),
        false => Vec::new(),
    };
    let facts = facts(&view.texts.payload);
    let json =
        if facts.is_some() { String::new() } else { payload_form::pretty(&view.texts.payload) };
    let later = later(site, &caller, &view).await?;
    if let Some((sent, cause)) = refused {
        payload_form::refill(&mut fields, sent, cause);
    }
    let told = refused.map(|(sent, cause)| {
        (cause.message().to_owned(), given(sent, "note").map(form::text).unwrap_or_default())
    });
    let page =
        ApprovalPage { frame, facts, json, difference, fields, job, later, view, refused: told };
    match refused {
        None => reply::page(&page),
        Some((_, cause)) => reply::refused(&page, cause),
    }
}

/// Returns a field of a form that was sent.
fn given<'s>(sent: &'s [(String, String)], name: &str) -> Option<&'s str> {
    sent.iter().find(|(it, _)| it == name).map(|(_, text)| text.as_str())
}

/// Returns the call that an expired question was about, if it can still be made.
async fn later(site: &Site, caller: &Caller, view: &Shown) -> Result<Option<(CallId, ChatId)>> {
    let id: Option<CallId> = view.texts.payload["call_id"].as_str().and_then(|it| it.parse().ok());
    let Some(id) = id.filter(|_| view.approval.state == State::Expired) else { return Ok(None) };
    let call = match flows::assistant::show_call(site, caller, &id).await {
        Ok(call) if call.can_do => call,
        Ok(_) => return Ok(None),
        // The script declares no assistant for them any more, or the conversation was deleted.
        Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::Forbidden) => {
            return Ok(None);
        }
        Err(cause) => return Err(cause),
    };
    let run = flows::assistant::run(site, caller, &call.run_id).await?;
    Ok(Some((call.id, run.session_id)))
}

/// Compares two texts on a blocking thread.
async fn compared(old: String, new: String) -> Result<Difference> {
    let work = tokio::task::spawn_blocking(move || Difference::of(&old, &new, 0));
    work.await.map_err(|cause| Error::internal("comparing two texts failed").source(cause))
}

async fn job(site: &Site, caller: &Caller, id: Option<&JobId>) -> Result<Option<Job>> {
    let Some(id) = id else { return Ok(None) };
    Ok(Some(flows::jobs::show(site, caller, id).await?.into()))
}

/// Returns the values of a short, flat payload.
fn facts(payload: &Value) -> Option<Vec<(String, String)>> {
    let fields = payload.as_object().filter(|it| (1..=FACTS_MAX).contains(&it.len()))?;
    let mut facts = Vec::new();
    for (name, value) in fields {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Object(_) | Value::Array(_) => return None,
            other => other.to_string(),
        };
        if text.chars().count() > FACT_CHARS_MAX {
            return None;
        }
        facts.push((name.clone(), text));
    }
    Some(facts)
}

async fn decide(site: Site, mut call: Call, answer: Answer) -> Result<Response> {
    let sent: Vec<(String, String)> = call.form(APPROVAL_BODY_BYTES_MAX).await?;
    let (id, caller): (ApprovalId, _) = (call.param("id")?, call.caller()?);
    let at = format!("/approvals/{id}");
    let framed = Frame::of(&site, &call, "/decisions")?;
    let note = given(&sent, "note").and_then(form::optional);
    let typed = note.clone();
    let done = async {
        let version = given(&sent, "version").and_then(|it| it.parse().ok()).ok_or_else(|| {
            Error::invalid("the form has no version").code("bad_form").hint("reload the page")
        })?;
        let changes = match answer {
            Answer::Reject => None,
            Answer::Approve => {
                let shown = flows::approvals::show::show(&site, &caller, &id).await?;
                payload_form::changed(&shown.texts.payload, shown.texts.schema.as_ref(), &sent)?
            }
        };
        let request = DecideRequest { version, changes, note };
        flows::approvals::decide::decide(&site, &caller, &id, answer, request).await
    };
    match done.await {
        Err(cause) if cause.code_str() == payload_form::BAD_PAYLOAD => {
            approval_page(&site, framed, &id, Some((&sent, &cause))).await
        }
        done => form::answer(done, |_| at.clone(), at.clone(), typed),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_flat_payload_is_a_list_and_any_other_one_is_json() {
        let flat = facts(&json!({"team": "billing", "budget": 300, "dry": null})).unwrap();
        assert_eq!(flat[1], ("budget".to_owned(), "300".to_owned()));
        assert!(facts(&json!({"deep": {"a": 1}})).is_none());
        assert!(facts(&json!({"long": "x".repeat(401)})).is_none());
        assert!(facts(&json!([1])).is_none() && facts(&json!({})).is_none());
    }
}
