//! What was said to and by an instance, and the form on its page that writes to it.

use serde::Deserialize;
use serde_json::Value;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::instances::{InstanceDetail, PhaseView};
use crate::api::mail::SendRequest;
use crate::base::{Error, JobId, Result};
use crate::flows::instances::Contact;
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::jobs;
use crate::http::pages::mail::{Row, conversation};
use crate::http::pages::parts::form;
use crate::http::{Call, any_of, post, reply};
use crate::people::Caller;

/// A text as a form: every byte may be escaped by three.
const FORM_BYTES_MAX: usize = 3 * flows::mail::PAYLOAD_BYTES_MAX + 4 * 1024;
/// Messages in each direction that the page shows.
const RECENT: u32 = 20;

/// What was said to and by an instance.
pub(super) struct Messages {
    pub(super) contact: Contact,
    pub(super) instance: InstanceDetail,
    pub(super) rows: Vec<Row>,
    /// What was typed, and why it was refused.
    pub(super) refused: Option<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendForm {
    key: String,
    text: String,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([post("/jobs/{id}/messages", site, send)])
}

impl Messages {
    /// Returns the phases of one run.
    pub(super) fn phases_of(&self, job: &str) -> impl Iterator<Item = &PhaseView> {
        self.instance.instance.phases.iter().filter(move |it| it.job_id.as_str() == job)
    }
}

/// Returns what was said to and by the instance that a job is a leg of.
pub(super) async fn of(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    refused: Option<&(String, Error)>,
) -> Result<Option<Messages>> {
    let Some(contact) = flows::instances::contact(site, caller, id).await? else {
        return Ok(None);
    };
    let rows = conversation(site, caller, &contact.address, RECENT).await?;
    let instance = flows::instances::show(site, caller, &contact.root).await?;
    let refused = refused.map(|(typed, cause)| (typed.clone(), cause.message().to_owned()));
    Ok(Some(Messages { contact, instance, rows, refused }))
}

async fn send(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (SendForm, _) = call.form_with_digest(FORM_BYTES_MAX).await?;
    let (id, caller): (JobId, _) = (call.param("id")?, call.caller()?);
    let key = call.key_of_form(sent.key, digest)?;
    let framed = Frame::of(&site, &call, "/jobs")?;
    let contact = flows::instances::contact(&site, &caller, &id).await?;
    let contact = contact.ok_or_else(|| {
        let message = format!("job {id} was not started by a message, so it has no address");
        Error::not_found(message).code("no_instance")
    })?;
    let typed = form::text(&sent.text);
    let request = SendRequest {
        to: contact.address.to_string(),
        payload: Value::String(typed.clone()),
        in_reply_to: None,
        reply_to: None,
        category: None,
    };
    match flows::mail::send(&site, &caller, request, Some(key)).await {
        Ok(_) => reply::see_other(&format!("/jobs/{id}#messages")),
        Err(cause) => jobs::show(&site, framed, &id, (None, Some((typed, cause)))).await,
    }
}
