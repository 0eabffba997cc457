//! Mail and the list of inboxes: what was sent, and what became of it.

mod inbox;

use askama::Template;
use serde::Deserialize;
use serde_json::Value;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::mail::{
    AwaitState, Awaited, InboxView, MessageQuery, MessageView, SendRequest, Sort,
};
use crate::base::{Address, Error, MailId, Millis, Result};
use crate::flows::{self, Site};
use crate::http::markdown::Html;
use crate::http::pages::Frame;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::pages::topics::suggestion;
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// A payload as a form: every byte may be escaped by three.
const FORM_BYTES_MAX: usize = 3 * flows::mail::PAYLOAD_BYTES_MAX + 4 * 1024;
/// Messages of a page of the list.
const LISTED: u32 = 50;

#[derive(Template)]
#[template(path = "inboxes.html")]
struct InboxesPage {
    frame: Frame,
    inboxes: Vec<InboxView>,
}

#[derive(Template)]
#[template(path = "mail.html")]
struct MailPage {
    frame: Frame,
    is_mine: bool,
    messages: Vec<Row>,
    next: Option<String>,
    is_first: bool,
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    frame: Frame,
    row: Row,
    thread: Vec<Row>,
    awaited: Option<Awaited>,
    is_unread: bool,
    /// Where an answer goes, if it can be answered.
    answered_at: Option<Address>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerForm {
    key: String,
    text: String,
}

/// A message as a page shows it.
pub(super) struct Row {
    pub(super) message: MessageView,
    pub(super) at: Millis,
    text: String,
}

impl Row {
    pub(super) fn of(message: MessageView) -> Row {
        let text = match message.forgotten_at {
            Some(_) => "Its content was removed after 180 days.".to_owned(),
            None => text_of(&message.payload),
        };
        Row { at: message.created_at, text, message }
    }

    pub(super) fn from(&self) -> String {
        let from = self.message.from.as_ref().map(ToString::to_string);
        from.unwrap_or_else(|| self.message.sender.name.clone())
    }

    /// Returns the first line of what it says.
    pub(super) fn line(&self) -> String {
        let line = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        crate::base::truncate_chars(&line, 200).to_owned()
    }

    pub(super) fn state(&self) -> &str {
        // What was sent again has a delivery more.
        self.message.deliveries.last().map_or("", |it| it.state.as_str())
    }

    /// Returns what became of it, in words.
    pub(super) fn standing(&self) -> &str {
        self.word(self.state())
    }

    fn word<'s>(&self, state: &'s str) -> &'s str {
        labels::delivery(state, matches!(self.message.to, Address::Person(_)))
    }

    /// Returns a message in words as Markdown; `None` for one that is data, a failure or forgotten.
    fn html(&self) -> Option<Html> {
        let text = self.message.payload.as_str().filter(|_| self.message.forgotten_at.is_none())?;
        Some(suggestion::written("mail", text, ""))
    }

    /// Returns whether a person is to say whether it has arrived.
    fn is_unconfirmed(&self) -> bool {
        self.message.deliveries.iter().any(|it| it.state == "unconfirmed")
            && matches!(self.message.to, Address::Agent(_))
    }

    fn job(&self) -> Option<&str> {
        self.message.deliveries.iter().find_map(|it| it.job_id.as_ref()).map(|it| it.as_str())
    }

    pub(super) fn what(&self) -> &'static str {
        match self.message.sort {
            Sort::Message => "Message",
            Sort::Reply => "Reply",
            Sort::Failure => "No reply",
            Sort::Notice if self.message.category.as_deref() == Some("handoff") => "Handover",
            Sort::Notice => "Decision",
        }
    }
}

/// Returns the newest messages to and from an address, newest first: at most so many in each
/// direction.
pub(super) async fn conversation(
    site: &Site,
    caller: &Caller,
    address: &Address,
    limit: u32,
) -> Result<Vec<Row>> {
    let (address, limit) = (Some(address.to_string()), Some(limit));
    let to = MessageQuery { to: address.clone(), limit, ..MessageQuery::default() };
    let from = MessageQuery { from: address, limit, ..MessageQuery::default() };
    let mut found = flows::mail::list(site, caller, to).await?.items;
    found.extend(flows::mail::list(site, caller, from).await?.items);
    found.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    found.dedup_by(|a, b| a.id == b.id);
    Ok(found.into_iter().map(Row::of).collect())
}

/// Returns the newest messages that the caller, a person, has not read.
pub(super) async fn unread(site: &Site, caller: &Caller, limit: u32) -> Result<Vec<Row>> {
    // A name from before there were addresses may be none.
    if !crate::base::is_person_name(&caller.person()?.name) {
        return Ok(Vec::new());
    }
    let (to, state) = (Some("me".to_owned()), Some("queued".to_owned()));
    let query = MessageQuery { to, state, limit: Some(limit), ..MessageQuery::default() };
    let found = flows::mail::list(site, caller, query).await?.items;
    Ok(found.into_iter().map(Row::of).collect())
}

/// A text as it is, a failure as its sentence, anything else as JSON.
fn text_of(payload: &Value) -> String {
    let failure = payload["error"]["message"].as_str();
    match payload.as_str().or(failure) {
        Some(text) => text.to_owned(),
        None if payload.is_null() => "No text".to_owned(),
        None => format!("{payload:#}"),
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// `all`: also what is between agents and inboxes.
    of: Option<String>,
    after: Option<i64>,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/inboxes", site, inboxes),
        inbox::routes(site),
        get("/mail", site, list),
        get("/mail/{id}", site, show),
        post("/mail/{id}/read", site, read),
        post("/mail/{id}/answer", site, answer),
        post("/mail/{id}/resend", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let id: MailId = call.param("id")?;
            let outcome = flows::mail::resend(&site, &call.caller()?, &id).await;
            form::answer(outcome, |_| format!("/mail/{id}"), format!("/mail/{id}"), None)
        }),
        post("/mail/{id}/settle", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let id: MailId = call.param("id")?;
            let outcome = flows::mail::settle(&site, &call.caller()?, &id).await;
            form::answer(outcome, |_| format!("/mail/{id}"), format!("/mail/{id}"), None)
        }),
    ])
}

async fn inboxes(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/inboxes")?;
    let inboxes = flows::mail::inboxes(&site, &caller).await?.items;
    reply::page(&InboxesPage { frame, inboxes })
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let asked: Listed = call.query()?;
    let (frame, caller) = Frame::of(&site, &call, "/mail")?;
    let is_mine = asked.of.as_deref() != Some("all");
    let query = MessageQuery {
        to: is_mine.then(|| "me".to_owned()),
        after: asked.after,
        limit: Some(LISTED),
        ..MessageQuery::default()
    };
    let found = flows::mail::list(&site, &caller, query).await?;
    let of = if is_mine { "me" } else { "all" };
    let next = found.next.map(|after| format!("/mail?of={of}&after={after}"));
    let mut messages: Vec<Row> = found.items.into_iter().map(Row::of).collect();
    if is_mine {
        // Unread ones first.
        messages.sort_by_key(|it| it.state() != "queued");
    }
    reply::page(&MailPage { frame, is_mine, messages, next, is_first: asked.after.is_none() })
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let id: MailId = call.param("id")?;
    let (frame, caller) = Frame::of(&site, &call, "/mail")?;
    let row = Row::of(flows::mail::show(&site, &caller, &id).await?);
    let query = MessageQuery {
        thread: Some(row.message.thread.clone()),
        limit: Some(LISTED),
        ..MessageQuery::default()
    };
    let thread = flows::mail::list(&site, &caller, query).await?.items;
    let thread = thread.into_iter().filter(|it| it.id != id).map(Row::of).collect();
    let awaited = match row.job() {
        None => None,
        Some(_) => Some(flows::mail::look(&site, &caller, &id).await?),
    };
    let own = format!("person:{}", caller.person()?.name);
    let is_own = row.message.to.to_string() == own;
    let is_unread = is_own && row.state() == "queued";
    let answered_at = if is_own { answered_at(&row.message) } else { None };
    reply::page(&MessagePage { frame, row, thread, awaited, is_unread, answered_at })
}

/// Returns where an answer to a message goes. What the site says is not answered, nor a reply: the
/// instance that sent it has ended.
fn answered_at(message: &MessageView) -> Option<Address> {
    let is_answered = message.sort == Sort::Message;
    message.reply_to.clone().or_else(|| message.from.clone()).filter(|_| is_answered)
}

async fn answer(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (AnswerForm, _) = call.form_with_digest(FORM_BYTES_MAX).await?;
    let (id, caller): (MailId, _) = (call.param("id")?, call.caller()?);
    let key = call.key_of_form(sent.key, digest)?;
    let message = flows::mail::show(&site, &caller, &id).await?;
    let to = answered_at(&message).ok_or_else(|| {
        Error::invalid("this message has no sender to answer").code("no_recipient")
    })?;
    let typed = form::text(&sent.text);
    let request = SendRequest {
        to: to.to_string(),
        payload: Value::String(typed.clone()),
        in_reply_to: Some(id.clone()),
        reply_to: None,
        category: None,
    };
    let outcome = flows::mail::send(&site, &caller, request, Some(key)).await;
    if outcome.is_ok() {
        flows::mail::read(&site, &caller, &id).await?;
    }
    form::answer(outcome, |_| format!("/mail/{id}"), format!("/mail/{id}"), Some(typed))
}

async fn read(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let id: MailId = call.param("id")?;
    let outcome = flows::mail::read(&site, &call.caller()?, &id).await;
    form::answer(outcome, |_| format!("/mail/{id}"), "/mail".to_owned(), None)
}
