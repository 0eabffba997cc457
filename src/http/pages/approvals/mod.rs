//! The page of an approval: the request, its outcome, and the decision.

pub(in crate::http::pages) mod list;

use askama::Template;
use serde::Deserialize;
use serde_json::Value;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::jobs::Waiting;
use crate::base::limit::APPROVAL_BODY_BYTES_MAX;
use crate::base::{ApprovalId, CallId, ChatId, Error, ErrorKind, JobId, Result};
use crate::flows::approvals::decide::{Answer, DecideRequest};
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::difference::Difference;
use crate::http::pages::parts::fields::Field;
use crate::http::pages::parts::payload_form;
use crate::http::pages::parts::time::At;
use crate::http::pages::parts::view::{Job, read};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// Most values shown as a list; longer and nested payloads are shown as JSON.
const FACTS_MAX: usize = 40;
/// Longest value in that list.
const FACT_CHARS_MAX: usize = 400;

/// An approval in a list.
#[derive(Deserialize)]
pub(in crate::http::pages) struct ApprovalRow {
    pub(in crate::http::pages) id: String,
    pub(in crate::http::pages) channel: String,
    pub(in crate::http::pages) sort: String,
    pub(in crate::http::pages) title: String,
    pub(in crate::http::pages) state: String,
    pub(in crate::http::pages) created_at: At,
    pub(in crate::http::pages) expires_at: Option<At>,
    /// The used-up daily cap that keeps its job from going on.
    pub(in crate::http::pages) waiting: Option<Waiting>,
    requester_name: Option<String>,
    from: Option<String>,
    job_id: Option<String>,
}

impl ApprovalRow {
    /// Returns the requester: the address of an instance, otherwise a name.
    pub(in crate::http::pages) fn asker(&self) -> &str {
        let from = self.from.as_deref().filter(|_| self.job_id.is_some());
        from.or(self.requester_name.as_deref()).unwrap_or_default()
    }
}

/// An approval with its texts and its history.
#[derive(Deserialize)]
struct View {
    #[serde(flatten)]
    row: ApprovalRow,
    version: i64,
    note: Option<String>,
    decided_by_name: Option<String>,
    decided_at: Option<At>,
    payload: Value,
    schema: Option<Value>,
    changes: Option<Value>,
    events: Vec<Past>,
}

#[derive(Deserialize)]
struct Past {
    event: String,
    actor_name: Option<String>,
    at: At,
    data: Value,
}

impl Past {
    fn words(&self) -> &'static str {
        match self.event.as_str() {
            "created" => "Requested",
            "approved" => "Approved",
            "amended" => "Approved with changes",
            "rejected" => "Rejected",
            "withdrawn" => "Withdrawn",
            _ => "Expired",
        }
    }

    fn note(&self) -> Option<&str> {
        self.data["note"].as_str()
    }
}

#[derive(Template)]
#[template(path = "approval.html")]
struct ApprovalPage {
    frame: Frame,
    view: View,
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
        let job = self.view.row.job_id.as_ref().map(|it| format!(" job:{it}")).unwrap_or_default();
        // The next leg, which starts when the cap is free again, is another job.
        let leg = if self.view.row.waiting.is_some() { " jobs" } else { "" };
        format!("approval:{}{job}{leg}", self.view.row.id)
    }

    fn is_pending(&self) -> bool {
        self.view.row.state == "pending"
    }

    /// Returns the change that a call of the assistant would make.
    fn preview(&self) -> Option<String> {
        let preview = self.view.payload["preview"].as_str();
        preview.filter(|_| self.view.row.sort == "call").map(str::to_owned)
    }

    /// Returns what the job does until there is a decision.
    fn waits(&self) -> Option<&'static str> {
        match self.job.as_ref()?.status.as_str() {
            "running" => Some("The agent is running and may be waiting for your answer."),
            "parked" => Some("The agent is parked: no process runs until you decide."),
            _ => None,
        }
    }

    /// Returns the class of the banner with the outcome.
    fn tone(&self) -> &'static str {
        match self.view.row.state.as_str() {
            "approved" | "amended" => "good",
            "rejected" => "bad",
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
    let view: View = read(flows::approvals::show::show(site, &caller, id).await?)?;
    let job = job(site, &caller, view.row.job_id.as_deref()).await?;
    let difference = match &view.changes {
        Some(changes) => Some(
            compared(payload_form::pretty(&view.payload), payload_form::pretty(changes)).await?,
        ),
        None => None,
    };
    let is_pending = view.row.state == "pending";
    let mut fields = match is_pending && frame.may_decide {
        true => payload_form::fields(&view.payload, view.schema.as_ref()),
        false => Vec::new(),
    };
    let facts = facts(&view.payload);
    let json = if facts.is_some() { String::new() } else { payload_form::pretty(&view.payload) };
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
async fn later(site: &Site, caller: &Caller, view: &View) -> Result<Option<(CallId, ChatId)>> {
    let id: Option<CallId> = view.payload["call_id"].as_str().and_then(|it| it.parse().ok());
    let Some(id) = id.filter(|_| view.row.state == "expired") else { return Ok(None) };
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

async fn job(site: &Site, caller: &Caller, id: Option<&str>) -> Result<Option<Job>> {
    let Some(id) = id else { return Ok(None) };
    let id: JobId = id.parse()?;
    Ok(Some(read(flows::jobs::show(site, caller, &id).await?)?))
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
