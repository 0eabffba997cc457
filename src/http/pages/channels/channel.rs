//! The page of a channel: the conversation, who takes part, and what can be done.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::agents::StartRequest;
use crate::api::arrival::ArrivalRequest;
use crate::api::channels::{
    ChannelView, HeardView, HeldRequest, HistoryQuery, MemberRequest, MemberView, MessageView,
    PostRequest, ReadRequest, SeatRequest,
};
use crate::base::{Error, Millis, Result};
use crate::flows::channels::{self, Act, Arrival, Candidates, Change, Outcome};
use crate::flows::{self, Site};
use crate::http::markdown::{Html, mark_mentions};
use crate::http::pages::Frame;
use crate::http::pages::channels::seat::{self, Seat};
use crate::http::pages::channels::{Sent, manage, state};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::pages::topics::suggestion;
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// A message as a form: every byte may be escaped by three.
const FORM_BYTES_MAX: usize = 3 * 4 * 50_000 + 64 * 1024;
/// Most messages that are named one by one.
const MEANWHILE_MAX: usize = 3;
/// Messages of one page.
const MESSAGES: u32 = 60;

#[derive(Template)]
#[template(path = "channel.html")]
struct ChannelPage {
    frame: Frame,
    channel: ChannelView,
    lines: Vec<Line>,
    members: Vec<Seat>,
    candidates: Candidates,
    /// The first message of the page, if there are earlier ones.
    earlier: Option<i64>,
    /// Whether the page ends with the last message.
    is_latest: bool,
    may_manage: bool,
    /// What a finished conversation came to.
    outcomes: Vec<Outcome>,
    /// The message that is replied to.
    reply: Option<i64>,
}

/// A message as the page shows it.
struct Line {
    message: MessageView,
    at: Millis,
    html: Html,
    heard: Option<String>,
    /// The agents that may not have received it, for who may decide about that.
    unsure: Vec<String>,
    /// The answer that is held, for who may decide about it.
    held: Option<Html>,
    /// Whether what is new to whoever asks begins with it.
    is_first_new: bool,
}

impl ChannelPage {
    fn state(&self) -> labels::State {
        state(&self.channel)
    }

    /// Returns the events that change the page.
    fn live(&self) -> String {
        format!("channel:{} agents", self.channel.id)
    }

    fn is_open(&self) -> bool {
        matches!(self.channel.status.as_str(), "pending" | "active")
    }

    /// Returns the members of whose usage some is unknown.
    fn untold(&self) -> Option<String> {
        let untold = self.members.iter().filter(|it| !it.member.untold.is_empty());
        let names: Vec<&str> = untold.map(|it| it.member.handle.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    fn has_outsiders(&self) -> bool {
        self.members.iter().any(|it| it.member.sort == "outside")
    }

    /// Says what its agents may spend, and have.
    fn budget(&self) -> String {
        let (budget, spent) = (&self.channel.budget, &self.channel.spent);
        let turns = budget.turns.map(|most| format!("{} of {most} turns", spent.turns));
        let tokens = budget.tokens.map(|most| format!("{} of {most} tokens", spent.tokens));
        let cost = budget.cost_usd.map(|most| format!("${:.2} of ${most:.2}", spent.cost_usd));
        let parts: Vec<String> = [turns, tokens, cost].into_iter().flatten().collect();
        match parts.is_empty() {
            true => "Unlimited.".to_owned(),
            false => format!("Used: {}.", parts.join(", ")),
        }
    }

    /// Returns the address of the message in which an outcome stands.
    fn at(&self, it: &Outcome) -> String {
        let (slug, sequence) = (&self.channel.slug, it.sequence);
        format!("/channels/{slug}?before={}#m{sequence}", sequence + 1)
    }

    fn is_mine(&self) -> bool {
        self.channel.me.is_some()
    }

    fn is_me(&self, seat: &Seat) -> bool {
        self.channel.me.as_deref() == Some(&seat.member.handle)
    }

    /// What may be written behind an `@`, parted by blanks.
    fn names(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for it in self.members.iter().filter(|it| !self.is_me(it)) {
            names.push(&it.member.handle);
            names.extend(it.other_agent());
        }
        names.extend(["all", "chair"]);
        names.extend(self.channel.me.as_deref());
        names.join(" ")
    }

    /// Up to which message whoever asks has read.
    fn read(&self) -> i64 {
        self.channel.last_sequence - self.channel.unread.unread
    }

    /// Says who hears the next message, in a sentence.
    fn listeners(&self) -> String {
        seat::listeners(&self.members)
    }

    /// Returns the agents that do not hear the next message, if no agent does.
    fn silent(&self) -> Vec<&Seat> {
        seat::silent(&self.members)
    }

    /// Says which messages came while the answer to another one was written.
    fn meanwhile(&self, it: &Line) -> Option<String> {
        let (answers, own) = (it.message.answers?, it.message.sequence);
        it.message.turn_id.as_ref()?;
        let between = |it: &&Line| {
            let at = it.message.sequence;
            at > answers && at < own && it.message.kind != "system"
        };
        let came: Vec<String> =
            self.lines.iter().filter(between).map(|it| it.message.sequence.to_string()).collect();
        Some(match came.as_slice() {
            [] => return None,
            [one] => format!("while {one} came"),
            [first, .., last] if came.len() > MEANWHILE_MAX => {
                format!("while {} came, {first} to {last}", came.len())
            }
            [rest @ .., last] => format!("while {} and {last} came", rest.join(", ")),
        })
    }

    fn others(&self) -> impl Iterator<Item = &(String, String)> {
        self.candidates.people.iter()
    }
}

/// Says what became of a message: who heard it, and who does not yet.
fn heard(all: &[HeardView], is_newest: bool) -> Option<String> {
    let names = |is_so: &dyn Fn(&HeardView) -> bool| {
        let names: Vec<&str> =
            all.iter().filter(|it| is_so(it)).map(|it| it.agent.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let is_open = |it: &HeardView| matches!(it.state.as_str(), "claimed" | "sent");
    let mut parts = Vec::new();
    let mut add = |names: Option<String>, words: &str| {
        parts.extend(names.map(|names| format!("{names} {words}")));
    };
    add(names(&|it| it.state == "unconfirmed"), "may not have received it");
    add(names(&|it| it.wakes && it.state == "dropped"), "didn’t receive it");
    let came_to = |word: &'static str| move |it: &HeardView| it.came_to.as_deref() == Some(word);
    add(names(&came_to("silent")), "read it and had nothing to add");
    add(names(&came_to("acknowledged")), "acknowledged it");
    if is_newest {
        add(names(&|it| it.state == "confirmed" && it.came_to.is_none()), "received it");
        add(names(&is_open), "is receiving it");
        add(names(&|it| it.wakes && it.state == "queued"), "will receive it");
        add(names(&|it| !it.wakes && it.state == "queued"), "will read it later");
    }
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// Returns the agents that may not have received a message.
fn unsure(all: &[HeardView]) -> Vec<String> {
    let unsure = all.iter().filter(|it| it.state == "unconfirmed");
    unsure.map(|it| it.agent.clone()).collect()
}

#[derive(Default, Deserialize)]
struct Asked {
    before: Option<i64>,
    reply: Option<i64>,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/channels/{slug}", site, show),
        get("/channels/{slug}/export", site, export),
        post("/channels/{slug}/messages", site, say),
        post("/channels/{slug}/messages/{sequence}/again", site, again),
        post("/channels/{slug}/messages/{sequence}/held", site, held),
        post("/channels/{slug}/messages/{sequence}/resend", site, async |site, call| {
            arrival(site, call, Arrival::Resend).await
        }),
        post("/channels/{slug}/messages/{sequence}/settle", site, async |site, call| {
            arrival(site, call, Arrival::Settle).await
        }),
        post("/channels/{slug}/read", site, read),
        post("/channels/{slug}/members", site, add),
        post("/channels/{slug}/members/{handle}/remove", site, async |site, call| {
            set(site, call, Change::Remove).await
        }),
        post("/channels/{slug}/members/{handle}/mute", site, async |site, call| {
            set(site, call, Change::Mute).await
        }),
        post("/channels/{slug}/members/{handle}/unmute", site, async |site, call| {
            set(site, call, Change::Unmute).await
        }),
        post("/channels/{slug}/members/{handle}/seat", site, reseat),
        post("/channels/{slug}/members/{handle}/start", site, start),
        lives(site),
        manage::routes(site),
    ])
}

fn lives(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/channels/{slug}/join", site, async |site, call| act(site, call, Act::Join).await),
        post("/channels/{slug}/leave", site, async |site, call| act(site, call, Act::Leave).await),
        post("/channels/{slug}/pause", site, async |site, call| act(site, call, Act::Pause).await),
        post("/channels/{slug}/complete", site, async |site, call| {
            act(site, call, Act::Complete).await
        }),
        post("/channels/{slug}/archive", site, async |site, call| {
            act(site, call, Act::Archive).await
        }),
    ])
}

async fn act(site: Site, mut call: Call, act: Act) -> Result<Response> {
    call.nothing().await?;
    let slug = call.text_param("slug")?;
    back(channels::act(&site, &call.caller()?, slug, act).await, &call)
}

/// Redirects the browser to the channel, or shows the error.
pub(super) fn back(outcome: Result<ChannelView>, call: &Call) -> Result<Response> {
    let at = format!("/channels/{}", call.text_param("slug")?);
    form::answer(outcome, |it| format!("/channels/{}", it.slug), at, None)
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let asked: Asked = call.query()?;
    let slug = call.text_param("slug")?.to_owned();
    let (frame, caller) = Frame::of(&site, &call, "/channels")?;
    let channel = channels::show(&site, &caller, &slug).await?;
    if channel.slug != slug {
        return reply::see_other(&format!("/channels/{}", channel.slug));
    }
    let query =
        HistoryQuery { before: asked.before, limit: Some(MESSAGES), ..HistoryQuery::default() };
    let found = channels::history(&site, &caller, &slug, query).await?.items;
    let earlier = found.first().map(|it| it.sequence).filter(|it| *it > 1);
    let is_latest = found.last().is_none_or(|it| it.sequence == channel.last_sequence);
    let read = channel.last_sequence - channel.unread.unread;
    let is_new = |it: &&MessageView| channel.me.is_some() && it.sequence > read;
    let first_new = found.iter().find(is_new).map(|it| it.sequence);
    let newest = found.iter().rposition(|it| it.kind != "system");
    let handles = handles(&channel);
    let is_chair =
        |it: &MemberView| it.is_chair && channel.me.as_deref() == Some(it.handle.as_str());
    let may_manage = caller.may_administer().is_ok() || channel.members.iter().any(is_chair);
    let may_decide = may_manage || channel.me.is_some();
    let mut held = match may_decide {
        true => held_answers(&site, &caller, (&slug, &found)).await?,
        false => BTreeMap::new(),
    };
    let line = |(at, message): (usize, MessageView)| {
        let name = format!("m{}", message.sequence);
        let html = suggestion::written(&name, &message.text, "");
        Line {
            html: mark_mentions(&html, &handles),
            heard: heard(&message.heard, is_latest && Some(at) == newest),
            at: message.created_at,
            unsure: if may_decide { unsure(&message.heard) } else { Vec::new() },
            held: held.remove(&message.sequence),
            is_first_new: Some(message.sequence) == first_new && message.sequence > 1,
            message,
        }
    };
    let lines = found.into_iter().enumerate().map(line).collect();
    let members: Vec<Seat> = channel.present().map(Seat::of).collect();
    let outcomes = match channel.completed_at {
        Some(_) => channels::outcomes(&site, &caller, &slug).await?,
        None => Vec::new(),
    };
    let mut candidates = channels::candidates(&site, &caller).await?;
    let sits_here =
        |agent: &String| members.iter().any(|it| it.member.agent.as_ref() == Some(agent));
    candidates.personas.retain(|it| !it.agents.iter().any(sits_here));
    let is_here =
        |name: &str| members.iter().any(|it| it.member.sort != "agent" && it.member.handle == name);
    candidates.people.retain(|(name, _)| !is_here(name));
    reply::page(&ChannelPage {
        frame,
        channel,
        lines,
        members,
        candidates,
        earlier,
        is_latest,
        may_manage,
        outcomes,
        reply: asked.reply.filter(|it| *it > 0),
    })
}

/// Returns what may stand behind an `@`, in lower case.
fn handles(channel: &ChannelView) -> BTreeSet<String> {
    let mut handles: BTreeSet<String> = ["all", "chair"].map(str::to_owned).into();
    for it in &channel.members {
        handles.insert(it.handle.to_ascii_lowercase());
        handles.extend(it.agent.as_ref().map(|agent| agent.to_ascii_lowercase()));
    }
    handles
}

async fn export(site: Site, call: Call) -> Result<Response> {
    let slug = call.text_param("slug")?;
    let caller = call.caller()?;
    caller.person()?;
    let text = channels::export(&site, &caller, slug).await?;
    Ok(reply::typed(StatusCode::OK, "text/markdown; charset=utf-8", text.into_bytes()))
}

async fn say(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Vec<(String, String)>, _) = call.form_with_digest(FORM_BYTES_MAX).await?;
    let sent = Sent(sent);
    let key = call.key_of_form(sent.field("key").to_owned(), digest)?;
    let body = form::text(sent.field("body"));
    let slug = call.text_param("slug")?.to_owned();
    let attachments = sent.field("attachments").lines().filter(|line| !line.is_empty());
    let attachments = attachments.map(form::number).collect::<Result<_>>()?;
    let in_reply_to = form::optional(sent.field("in_reply_to"));
    let in_reply_to = in_reply_to.as_deref().map(form::number).transpose()?;
    let request =
        PostRequest { body: body.clone(), in_reply_to, attachments, ..PostRequest::default() };
    let posted = channels::post(&site, &call.caller()?, &slug, request, Some(key)).await;
    let to =
        |it: crate::api::channels::Posted| format!("/channels/{}#m{}", it.channel, it.sequence);
    form::answer(posted, to, format!("/channels/{slug}"), Some(body))
}

async fn read(site: Site, mut call: Call) -> Result<Response> {
    let sent: ReadRequest = call.form(FORM_BYTES_MAX).await?;
    let slug = call.text_param("slug")?.to_owned();
    channels::read(&site, &call.caller()?, &slug, sent.sequence).await?;
    reply::see_other(&format!("/channels/{slug}"))
}

async fn again(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (slug, number) = (call.text_param("slug")?, call.text_param("sequence")?);
    back(channels::again(&site, &call.caller()?, slug, number).await, &call)
}

async fn held(site: Site, mut call: Call) -> Result<Response> {
    let sent: HeldRequest = call.form(FORM_BYTES_MAX).await?;
    let place = (call.text_param("slug")?, call.text_param("sequence")?);
    back(channels::decide(&site, &call.caller()?, place, sent.decision).await, &call)
}

async fn arrival(site: Site, mut call: Call, decision: Arrival) -> Result<Response> {
    let sent: ArrivalRequest = call.form(FORM_BYTES_MAX).await?;
    let place = (call.text_param("slug")?, call.text_param("sequence")?);
    let what = (sent.to.as_str(), decision);
    back(channels::arrival(&site, &call.caller()?, place, what).await, &call)
}

/// Returns the answers that are held and may be read by whoever asks, by the lines that tell of
/// them.
async fn held_answers(
    site: &Site,
    caller: &Caller,
    (slug, found): (&str, &[MessageView]),
) -> Result<BTreeMap<i64, Html>> {
    let mut answers = BTreeMap::new();
    for line in found.iter().filter(|it| it.held.as_deref() == Some("waiting")) {
        let number = line.sequence.to_string();
        let held = channels::held(site, caller, slug, &number).await?;
        let html = suggestion::written(&format!("held{number}"), &held.text, "");
        answers.insert(line.sequence, html);
    }
    Ok(answers)
}

async fn add(site: Site, mut call: Call) -> Result<Response> {
    let sent: Vec<(String, String)> = call.form(FORM_BYTES_MAX).await?;
    let sent = Sent(sent);
    let who = sent.field("who");
    let request = match who.split_once(':') {
        Some(("person", name)) => {
            MemberRequest { person: Some(name.to_owned()), ..MemberRequest::default() }
        }
        Some(("persona", name)) => {
            MemberRequest { persona: Some(name.to_owned()), ..MemberRequest::default() }
        }
        _ => MemberRequest::default(),
    };
    let slug = call.text_param("slug")?;
    back(channels::add(&site, &call.caller()?, slug, request).await, &call)
}

async fn set(site: Site, mut call: Call, change: Change) -> Result<Response> {
    call.nothing().await?;
    let place = (call.text_param("slug")?, call.text_param("handle")?);
    back(channels::set_member(&site, &call.caller()?, place, change).await, &call)
}

/// Starts the agent in a seat.
async fn start(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (caller, slug) = (call.caller()?, call.text_param("slug")?);
    let handle = call.text_param("handle")?;
    let channel = channels::show(&site, &caller, slug).await?;
    let member = channel.members.iter().find(|it| it.handle == handle);
    let started = match member.and_then(|it| it.agent.as_ref()) {
        Some(agent) => {
            let request = StartRequest::default();
            flows::agents::start(&site, &caller, agent, request).await.map(|_| channel)
        }
        None => {
            let message = format!("no agent has the seat of {}", handle.escape_debug());
            Err(Error::not_found(message).code("no_member"))
        }
    };
    back(started, &call)
}

async fn reseat(site: Site, mut call: Call) -> Result<Response> {
    let sent: Vec<(String, String)> = call.form(FORM_BYTES_MAX).await?;
    let request = SeatRequest { agent: form::optional(Sent(sent).field("agent")) };
    let place = (call.text_param("slug")?, call.text_param("handle")?);
    back(channels::seat(&site, &call.caller()?, place, request).await, &call)
}
