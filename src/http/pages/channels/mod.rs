//! Channels: the list of them, and a form that makes one.

pub(in crate::http::pages) mod channel;
mod manage;
pub(in crate::http::pages) mod seat;

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::channels::{ChannelQuery, ChannelView, CreateRequest, MemberRequest, MemberView};
use crate::base::{Error, Millis, Result};
use crate::channels::ChannelType;
use crate::documents::sources::plain::Plain as Words;
use crate::flows::Site;
use crate::flows::channels::{self, Candidates};
use crate::http::pages::Frame;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// A first message as a form: every byte may be escaped by three.
const FORM_BYTES_MAX: usize = 3 * 4 * 50_000 + 64 * 1024;
/// Longest part of a message that a list shows, in characters.
const PREVIEW_CHARS_MAX: usize = 160;

#[derive(Template)]
#[template(path = "channels.html")]
struct ChannelsPage {
    frame: Frame,
    status: String,
    rows: Vec<Row>,
    /// The last one of the page, if there may be more.
    next: Option<i64>,
}

/// A channel in a list.
pub(in crate::http::pages) struct Row {
    pub(in crate::http::pages) channel: ChannelView,
    pub(in crate::http::pages) last_at: Millis,
}

impl Row {
    /// Returns its members, and what those of them do that are agents and not just listening.
    pub(in crate::http::pages) fn members(&self) -> String {
        let one = |it: &MemberView| match seat::state(it) {
            Some(state) if state.1 != "Listening" => {
                format!("{} ({})", it.name, state.1.to_lowercase())
            }
            _ => it.name.clone(),
        };
        self.channel.present().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Returns the verb and the name of the button by which its members pause it or let it go on;
    /// a used-up budget needs a form.
    pub(in crate::http::pages) fn control(&self) -> Option<(&'static str, &'static str)> {
        match &self.channel.paused {
            Some(paused) if paused.reason == "budget" => None,
            Some(_) => Some(("resume", "Resume")),
            None if self.channel.status == "active" => Some(("pause", "Pause")),
            None => None,
        }
    }

    pub(in crate::http::pages) fn preview(&self) -> String {
        let Some(last) = &self.channel.last else { return "No messages yet".to_owned() };
        let plain = Words::of(&last.text).text;
        let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = crate::base::truncate_chars(&line, PREVIEW_CHARS_MAX);
        match last.kind.as_str() {
            "system" => line.to_owned(),
            _ => format!("{}: {line}", last.author.name),
        }
    }

    pub(in crate::http::pages) fn state(&self) -> labels::State {
        state(&self.channel)
    }
}

/// Returns the state of a channel in a word.
pub(in crate::http::pages) fn state(channel: &ChannelView) -> labels::State {
    use labels::{State, Tone};
    match channel.status.as_str() {
        _ if channel.paused.is_some() => State(Tone::Waiting, "Paused"),
        "pending" => State(Tone::Quiet, "New"),
        "active" if channel.members.iter().any(|it| it.works_since.is_some()) => {
            State(Tone::Running, "Working")
        }
        "active" => State(Tone::Good, "Open"),
        "complete" => State(Tone::Quiet, "Complete"),
        _ => State(Tone::Quiet, "Archived"),
    }
}

#[derive(Template)]
#[template(path = "new-channel.html")]
struct NewChannelPage {
    frame: Frame,
    kinds: Vec<ChannelType>,
    candidates: Candidates,
    /// What was typed and chosen.
    sent: Sent,
    refusal: Option<String>,
}

/// What a form sends, in the order of its fields.
#[derive(Default)]
pub(in crate::http::pages) struct Sent(pub(in crate::http::pages) Vec<(String, String)>);

impl Sent {
    pub(in crate::http::pages) fn field(&self, name: &str) -> &str {
        self.0.iter().find(|it| it.0 == name).map_or("", |it| it.1.as_str())
    }

    pub(in crate::http::pages) fn has(&self, name: &str, value: &str) -> bool {
        self.0.iter().any(|it| it.0 == name && it.1 == value)
    }

    /// Returns the members that were chosen.
    pub(in crate::http::pages) fn members(&self) -> Vec<MemberRequest> {
        let of = |(name, value): &(String, String)| match name.as_str() {
            "persona" => Some(MemberRequest { persona: Some(value.clone()), ..Default::default() }),
            "person" => Some(MemberRequest { person: Some(value.clone()), ..Default::default() }),
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    status: Option<String>,
    after: Option<i64>,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/channels", site, list),
        get("/channels/new", site, async |site: Site, call: Call| {
            let framed = Frame::of(&site, &call, "/channels")?;
            reply::page(&new_page(&site, framed, Sent::default(), None).await?)
        }),
        post("/channels", site, create),
    ])
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let asked: Listed = call.query()?;
    let (frame, caller) = Frame::of(&site, &call, "/channels")?;
    let status = asked.status.unwrap_or_else(|| "open".to_owned());
    let query = ChannelQuery {
        status: Some(status.clone()),
        after: asked.after,
        ..ChannelQuery::default()
    };
    let found = channels::list(&site, &caller, query).await?;
    let rows = found.items.into_iter().map(|it| Row { last_at: it.last_at, channel: it });
    reply::page(&ChannelsPage { frame, status, rows: rows.collect(), next: found.next })
}

/// Returns the open channels of whoever asks, those with something new first.
pub(in crate::http::pages) async fn rows_of(
    site: &Site,
    caller: &Caller,
    most: usize,
) -> Result<Vec<Row>> {
    if caller.is_job() {
        return Ok(Vec::new());
    }
    let query = ChannelQuery { mine: Some(true), ..ChannelQuery::default() };
    let mut found = channels::list(site, caller, query).await?.items;
    found.sort_by_key(|it| it.unread.unread == 0);
    found.truncate(most);
    Ok(found.into_iter().map(|it| Row { last_at: it.last_at, channel: it }).collect())
}

async fn new_page(
    site: &Site,
    (frame, caller): (Frame, Caller),
    sent: Sent,
    refusal: Option<&Error>,
) -> Result<NewChannelPage> {
    let candidates = candidates_beside(site, &caller).await?;
    Ok(NewChannelPage {
        frame,
        kinds: channels::Ground::of(site).kinds,
        candidates,
        sent,
        refusal: refusal.map(|it| it.message().to_owned()),
    })
}

/// Returns who can be added to a channel that the caller creates.
pub(in crate::http::pages) async fn candidates_beside(
    site: &Site,
    caller: &Caller,
) -> Result<Candidates> {
    let mut candidates = channels::candidates(site, caller).await?;
    let own = &caller.person()?.name;
    candidates.people.retain(|(name, _)| name != own);
    Ok(candidates)
}

async fn create(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Vec<(String, String)>, _) = call.form_with_digest(FORM_BYTES_MAX).await?;
    let sent = Sent(sent);
    let key = call.key_of_form(sent.field("key").to_owned(), digest)?;
    let request = CreateRequest {
        kind: form::optional(sent.field("type")),
        name: sent.field("name").trim().to_owned(),
        about: None,
        intent: form::optional(sent.field("intent")),
        members: sent.members(),
        budget: None,
        message: form::optional(sent.field("message")),
        ..CreateRequest::default()
    };
    let framed = Frame::of(&site, &call, "/channels")?;
    match channels::create(&site, &call.caller()?, request, Some(key)).await {
        Ok(made) => reply::see_other(&format!("/channels/{}", made.slug)),
        Err(cause) => reply::refused(&new_page(&site, framed, sent, Some(&cause)).await?, &cause),
    }
}
