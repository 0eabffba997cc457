//! The page of an inbox: its instances, its messages, and the form that writes to it.

use askama::Template;
use serde_json::Value;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::instances::{InstanceView, PhaseView};
use crate::api::jobs::Status;
use crate::api::mail::{InboxView, MessageQuery, SendRequest};
use crate::base::{Error, Millis, Result};
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::mail::{FORM_BYTES_MAX, Row};
use crate::http::pages::parts::fields::Field;
use crate::http::pages::parts::labels::{self, State};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, payload_form, time};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// Messages that the page shows.
const RECENT: u32 = 10;
/// Instances of each state that the page shows.
const OPEN_MAX: u32 = 20;
/// The newest instances, of which the page shows those that have ended.
const NEWEST: u32 = 20;
/// The field of the form that takes a whole payload.
const WHOLE: &str = "payload";

#[derive(Template)]
#[template(path = "inbox.html")]
struct InboxPage {
    frame: Frame,
    inbox: InboxView,
    open: Vec<Instance>,
    /// How many more have not ended.
    further: u64,
    ended: Vec<Instance>,
    messages: Vec<Row>,
    form: Form,
}

/// The form that writes to the inbox.
struct Form {
    /// A field for each property of the schema; empty if the payload is written as JSON.
    fields: Vec<Field>,
    /// What was typed as JSON.
    whole: Option<String>,
    /// Why it was refused.
    refusal: Option<String>,
}

impl Form {
    fn of(schema: Option<&Value>, refused: Option<(Vec<(String, String)>, &Error)>) -> Form {
        let fields = schema.and_then(payload_form::new_fields).unwrap_or_default();
        let mut form = Form { fields, whole: None, refusal: None };
        if let Some((sent, cause)) = refused {
            let whole = sent.iter().find(|(name, _)| name == WHOLE);
            form.whole = whole.map(|(_, text)| form::text(text));
            form.refusal = Some(cause.message().to_owned());
            if form.whole.is_none() {
                payload_form::refill(&mut form.fields, &sent, cause);
            }
        }
        form
    }
}

/// An instance as the page shows it.
struct Instance {
    view: InstanceView,
    now: Millis,
    /// Whether it is the first that waits.
    is_first: bool,
}

impl Instance {
    fn phase(&self) -> Option<&PhaseView> {
        self.view.phases.last().filter(|it| it.ended_at.is_none())
    }

    fn state(&self) -> State {
        match self.phase().filter(|_| self.view.status == Status::Running) {
            Some(phase) => State(labels::Tone::Running, labels::phase(phase)),
            None => labels::status_of_job(&self.view.status),
        }
    }

    /// Returns how long its phase runs.
    fn elapsed_ms(&self) -> Option<i64> {
        let started = self.phase()?.started_at;
        Some(self.now.0.saturating_sub(started.0).max(0))
    }

    /// Returns how long its phase may run.
    fn limit(&self) -> Option<String> {
        let limit =
            self.view.timeout_ms.filter(|_| self.phase().is_some_and(|it| it.phase == "run"));
        limit.map(|it| time::span(i64::try_from(it).unwrap_or(i64::MAX)))
    }

    /// Returns why it waits: of those that wait for their turn only the first.
    fn why(&self) -> Option<&str> {
        let waiting = self.view.waiting.as_ref()?;
        (self.is_first || waiting.code != "turn" && self.view.status != Status::Queued)
            .then_some(waiting.message.as_str())
            .filter(|_| waiting.code != "decision")
    }

    /// Returns whether it asks a person while it runs.
    fn is_asking(&self) -> bool {
        let code = self.view.waiting.as_ref().map(|it| &*it.code);
        self.view.approval_id.is_none() && code == Some("decision")
    }

    fn worktree(&self) -> Option<&str> {
        self.view.workspace.as_ref().map(|it| it.path.as_str())
    }
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/inboxes/{template}/{name}", site, async |site: Site, call: Call| {
            let (name, framed) = (name_of(&call)?, Frame::of(&site, &call, "/inboxes")?);
            show(&site, framed, &name, None).await
        }),
        post("/inboxes/{template}/{name}", site, send),
    ])
}

fn name_of(call: &Call) -> Result<String> {
    Ok(format!("{}/{}", call.text_param("template")?, call.text_param("name")?))
}

async fn show(
    site: &Site,
    (frame, caller): (Frame, Caller),
    name: &str,
    refused: Option<(Vec<(String, String)>, Error)>,
) -> Result<Response> {
    let inbox = flows::mail::inbox(site, &caller, name).await?;
    let to = Some(inbox.address.to_string());
    let query = MessageQuery { to, limit: Some(RECENT), ..MessageQuery::default() };
    let found = flows::mail::list(site, &caller, query).await?.items;
    let messages = found.into_iter().map(Row::of).collect();
    let instances = flows::instances::of_inbox(site, &caller, name, (OPEN_MAX, NEWEST)).await?;
    let now = frame.now();
    let first = instances.open.iter().position(|it| it.status == Status::Queued);
    let shown = |(place, view): (usize, InstanceView)| Instance {
        is_first: Some(place) == first,
        view,
        now,
    };
    let open: Vec<Instance> = instances.open.into_iter().enumerate().map(shown).collect();
    let ended = instances.ended.into_iter();
    let ended = ended.map(|view| Instance { view, now, is_first: false }).collect();
    let all = inbox.running + inbox.parked + inbox.depth;
    let further = all.saturating_sub(open.len() as u64);
    let (sent, cause) = refused.unzip();
    let form = Form::of(inbox.schema.as_ref(), sent.zip(cause.as_ref()));
    let page = InboxPage { frame, inbox, open, further, ended, messages, form };
    match cause {
        None => reply::page(&page),
        Some(cause) => reply::refused(&page, &cause),
    }
}

async fn send(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Vec<(String, String)>, _) = call.form_with_digest(FORM_BYTES_MAX).await?;
    let (name, caller) = (name_of(&call)?, call.caller()?);
    let key = sent.iter().find(|(it, _)| it == "key").map(|(_, text)| text.clone());
    let key = call.key_of_form(key.unwrap_or_default(), digest)?;
    let framed = Frame::of(&site, &call, "/inboxes")?;
    let schema = flows::mail::inbox(&site, &caller, &name).await?.schema;
    let outcome = match payload(schema.as_ref(), &sent) {
        Err(cause) => Err(cause),
        Ok(payload) => {
            let request = SendRequest {
                to: format!("topic:{name}"),
                payload,
                in_reply_to: None,
                reply_to: None,
                category: None,
            };
            flows::mail::send(&site, &caller, request, Some(key)).await
        }
    };
    match outcome {
        Ok(sent) => reply::see_other(&format!("/mail/{}", sent.message_id)),
        Err(cause) => show(&site, framed, &name, Some((sent, cause))).await,
    }
}

/// Returns the payload of a sent form: written as a whole, or in its fields.
fn payload(schema: Option<&Value>, sent: &[(String, String)]) -> Result<Value> {
    match sent.iter().find(|(it, _)| it == WHOLE) {
        Some((_, text)) => {
            let typed = form::text(text);
            // What is no JSON is a text.
            Ok(serde_json::from_str(&typed).unwrap_or(Value::String(typed)))
        }
        None => payload_form::new_payload(schema, sent),
    }
}
