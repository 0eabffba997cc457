//! Posting in a channel: by a person, by an agent during its turn, or by mail to the channel.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tracing::debug;

use crate::api::channels::{PostRequest, Posted};
use crate::base::{Actor, Address, Error, ErrorKind, EventKind, Result, fault, from_json};
use crate::channels::{self, Author, Channel, Member, NewPost, Sort, Spoken, Uploader};
use crate::flows::agents;
use crate::flows::channels::{Ground, again, kind_of, members, outside, who};
use crate::flows::people::refuse_disabled;
use crate::flows::{Site, kept_answer};
use crate::jobs;
use crate::mail::{self, agent};
use crate::people::Caller;
use crate::store::{Tx, idempotency};
use crate::turns::{self, Turn};

/// Longest wait for the record of a turn that has begun.
const TURN_WAIT: Duration = Duration::from_secs(5);

/// Posts a message.
///
/// # Errors
/// `forbidden`: `not_a_member`, `chair_only`, `viewer`; `conflict`: `channel_not_active`,
/// `member_muted`, `private_turn`; `invalid`: `empty_text`, `unknown_mention`; `busy`: `too_fast`,
/// `channel_paused`; `too_large`.
pub async fn post(
    site: &Site,
    caller: &Caller,
    slug: &str,
    request: PostRequest,
    key: Option<idempotency::Key>,
) -> Result<Posted> {
    if !caller.is_job() {
        caller.may_speak()?;
    }
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return kept_posted(kept);
    }
    await_turn(site, caller, slug).await?;
    let (ground, asking, text) = (Ground::of(site), caller.clone(), slug.to_owned());
    site.store
        .write(move |tx| {
            if let Caller::Job { token_hash, .. } = &asking {
                jobs::fence(tx, token_hash)?;
            }
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                return kept_posted(kept);
            }
            let posted = post_in_room(tx, &ground, (&asking, &text), &request)?;
            if let Some(key) = &key {
                idempotency::remember(tx, key, &json!(posted))?;
            }
            Ok(posted)
        })
        .await
}

/// Waits until the turn of a calling agent is recorded. An agent can act on a message of the
/// channel before the server has read from its output that the turn began.
///
/// # Errors
/// As any read.
pub(in crate::flows) async fn await_turn(site: &Site, caller: &Caller, slug: &str) -> Result<()> {
    if !caller.is_job() || fault::is_off("await_turn") {
        return Ok(());
    }
    let until = Instant::now() + TURN_WAIT;
    // Subscribed before the first look: no event in between is missed.
    let mut events = site.store.subscribe();
    let ground = Ground::of(site);
    loop {
        let (asking, text, ground) = (caller.clone(), slug.to_owned(), ground.clone());
        let begins = site.store.read(move |c| is_about_to_begin(c, &ground, (&asking, &text)));
        if !begins.await? {
            return Ok(());
        }
        debug!("a post of {} waits for the record of its turn", caller.actor());
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = tokio::time::sleep_until(until) => return Ok(()),
            };
            match event {
                Ok(event) if event.kind == EventKind::TurnStarted => break,
                Ok(event) if event.kind == EventKind::DeliveryChanged => break,
                Ok(_) => {}
                // A missed event may have been the one.
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return Ok(()),
            }
        }
    }
}

/// Returns whether the calling agent was given a block of the channel whose turn is not recorded.
fn is_about_to_begin(
    c: &Connection,
    ground: &Ground,
    (caller, slug): (&Caller, &str),
) -> Result<bool> {
    let (job, _) = caller.job()?;
    let Some(agent) = who::agent_of(c, job)? else { return Ok(false) };
    if ground.in_terminals.contains(&agent.declared) {
        return Ok(false);
    }
    // What is wrong with the channel is said when the message is posted.
    let Ok(channel) = who::channel(c, caller, slug) else { return Ok(false) };
    let given = mail::open_block(c, &agent.name)?;
    Ok(given.is_some_and(|block| {
        block.room == Some(channel.number) && block.begun_at.is_none() && block.job_id == *job
    }))
}

fn kept_posted(kept: serde_json::Value) -> Result<Posted> {
    from_json(&kept)
        .map_err(|cause| Error::internal("a kept answer is none of a channel").source(cause))
}

/// Posts a message in the caller's transaction, which has checked the fence.
///
/// # Errors
/// As [`post`].
pub(in crate::flows) fn post_in_room(
    tx: &Tx<'_>,
    ground: &Ground,
    (caller, slug): (&Caller, &str),
    request: &PostRequest,
) -> Result<Posted> {
    let channel = who::channel(tx.connection(), caller, slug)?;
    channel.require_open()?;
    let sort = match request.kind.as_deref() {
        None => Sort::Message,
        Some(word) => Sort::parse(word).filter(|it| *it != Sort::System).ok_or_else(|| {
            Error::invalid(format!("unknown message type `{}`", word.escape_debug()))
                .code("bad_parameter")
                .of_input("type")
                .hint("write message, delegation or escalation")
        })?,
    };
    if let Some(number) = request.in_reply_to {
        let c = tx.connection();
        let found = again::find(c, &channel, number)?;
        if found.sequence < outside::first(c, caller, &channel)? {
            return Err(again::no_message(&number.to_string(), &channel.slug));
        }
    }
    let words = Words {
        sort,
        text: &request.body,
        to: request.to.as_deref(),
        in_reply_to: request.in_reply_to,
        attachments: &request.attachments,
    };
    let spoken = match caller {
        Caller::Person { .. } => by_person(tx, ground, (caller, &channel), &words)?,
        Caller::Job { .. } => by_agent(tx, ground, (caller, &channel), &words)?,
    };
    let waiting = match caller.is_job() || caller.is_outside() {
        true => Vec::new(),
        false => waiting(tx, ground, &spoken)?,
    };
    Ok(Posted { channel: channel.slug, sequence: spoken.sequence, message_id: spoken.id, waiting })
}

/// Says of each agent that a message wakes and that does not receive it now why that is.
fn waiting(tx: &Tx<'_>, ground: &Ground, spoken: &Spoken) -> Result<Vec<String>> {
    let (c, Some(config)) = (tx.connection(), &ground.config) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for heard in mail::heard_in_room(c, &spoken.id)?.iter().filter(|it| it.wakes) {
        found.extend(agents::why_waiting(c, (config, tx.now()), (heard.agent.as_str(), false))?);
    }
    Ok(found)
}

/// Posts a message of the script, which is no member; it wakes agents as a person's does.
///
/// # Errors
/// `not_found`: `no_channel`; `conflict`: `channel_not_active`; `invalid`: `empty_text`;
/// `too_large`.
pub(in crate::flows) fn post_as_script(
    tx: &Tx<'_>,
    ground: &Ground,
    slug: &str,
    (by, text, depth): (&Actor, String, u32),
) -> Result<Spoken> {
    let channel = channels::resolve(tx.connection(), slug)?;
    let kind = kind_of(ground, &channel.kind);
    let post = NewPost::by_script(by.clone(), text, depth);
    channels::post(tx, &ground.ids, (channel.number, &kind), &post)
}

/// The message.
struct Words<'a> {
    sort: Sort,
    text: &'a str,
    to: Option<&'a str>,
    in_reply_to: Option<i64>,
    attachments: &'a [i64],
}

/// Posts the first message of a channel.
pub(super) fn say_as_person(
    tx: &Tx<'_>,
    ground: &Ground,
    (caller, channel): (&Caller, i64),
    text: &str,
) -> Result<Spoken> {
    let channel = channels::find(tx.connection(), channel)?;
    let words = Words { sort: Sort::Message, text, to: None, in_reply_to: None, attachments: &[] };
    by_person(tx, ground, (caller, &channel), &words)
}

fn by_person(
    tx: &Tx<'_>,
    ground: &Ground,
    (caller, channel): (&Caller, &Channel),
    words: &Words<'_>,
) -> Result<Spoken> {
    let person = caller.person()?;
    let member = speaking_person(tx, ground, (caller, channel))?;
    if member.is_outside && words.sort != Sort::Message {
        let message = "members from outside cannot delegate or escalate";
        return Err(Error::new(ErrorKind::Forbidden, message).code("outside_forbidden"));
    }
    let post = NewPost {
        author: Author::Member {
            sender: caller.actor(),
            from: members::address_of_person(&person.name),
            member: Box::new(member.clone()),
        },
        sort: words.sort,
        text: words.text.to_owned(),
        to: words.to.map(str::to_owned),
        in_reply_to: words.in_reply_to,
        cause: None,
        turn: None,
        is_answer: false,
        job: None,
        attachments: words.attachments.to_vec(),
        depth: 0,
    };
    let kind = kind_of(ground, &channel.kind);
    let spoken = channels::post(tx, &ground.ids, (channel.number, &kind), &post)?;
    // The author has read everything before it.
    channels::read(tx, channel.number, &member.member, spoken.sequence)?;
    Ok(spoken)
}

/// Returns a person who can post now.
fn speaking_person(
    tx: &Tx<'_>,
    ground: &Ground,
    (caller, channel): (&Caller, &Channel),
) -> Result<Member> {
    refuse_disabled(tx.connection(), &caller.actor())?;
    let member = who::require_member(tx.connection(), caller, channel)?;
    if member.is_outside {
        require_calm(tx, ground, (channel, &member))?;
    }
    Ok(member)
}

/// Refuses what agents and members from outside may not do now.
fn require_calm(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, member): (&Channel, &Member),
) -> Result<()> {
    if channel.paused.is_some() {
        return Err(paused(channel));
    }
    if channels::is_too_fast(tx, channel, &kind_of(ground, &channel.kind), member)? {
        return Err(too_fast(channel));
    }
    Ok(())
}

/// Returns who uploads a file for a message that the caller could post now.
///
/// # Errors
/// As [`post`].
pub(super) fn uploader(
    tx: &Tx<'_>,
    ground: &Ground,
    (caller, channel): (&Caller, &Channel),
) -> Result<Uploader> {
    if caller.is_job() {
        let (member, _) = speaking_agent(tx, ground, (caller, channel))?;
        return Ok(Uploader::Agent(member.agent.unwrap_or_default()));
    }
    let member = speaking_person(tx, ground, (caller, channel))?;
    let id = caller.person()?.id.clone();
    Ok(if member.is_outside { Uploader::Outsider(id) } else { Uploader::Person(id) })
}

fn paused(channel: &Channel) -> Error {
    let message = format!("{} is paused", channel.slug);
    Error::new(ErrorKind::Busy, message)
        .code("channel_paused")
        .hint("wait until a person resumes it")
}

fn too_fast(channel: &Channel) -> Error {
    let message = format!("too many messages within a minute in {}", channel.slug);
    Error::new(ErrorKind::Busy, message).code("too_fast").hint("combine them into one message")
}

/// Returns an agent that can post now, and its turn. An agent posts only during a turn that this
/// channel caused: its other turns are between it and somebody else.
fn speaking_agent(
    tx: &Tx<'_>,
    ground: &Ground,
    (caller, channel): (&Caller, &Channel),
) -> Result<(Member, Turn)> {
    let c = tx.connection();
    let member = who::require_member(c, caller, channel)?;
    let agent = member.agent.clone().unwrap_or_default();
    let turn = turns::running_of(c, &agent)?.filter(|it| it.channel == Some(channel.number));
    let Some(turn) = turn else {
        let message = format!("{} did not cause your current turn", channel.slug);
        return Err(Error::conflict("private_turn", message)
            .hint("post while you answer a message of the channel"));
    };
    let lives_at = agent::find(c, &agent)?.map(|it| it.declared);
    if lives_at.is_some_and(|it| ground.in_terminals.contains(&it)) {
        // Whether somebody typed is known only at the end of the turn.
        let message = "agents in terminals cannot post before their final message";
        return Err(Error::conflict("private_turn", message)
            .hint("your final message is posted automatically"));
    }
    require_calm(tx, ground, (channel, &member))?;
    Ok((member, turn))
}

fn by_agent(
    tx: &Tx<'_>,
    ground: &Ground,
    (caller, channel): (&Caller, &Channel),
    words: &Words<'_>,
) -> Result<Spoken> {
    let c = tx.connection();
    let (job, _) = caller.job()?;
    let (member, turn) = speaking_agent(tx, ground, (caller, channel))?;
    let agent = member.agent.clone().unwrap_or_default();
    let cause = match &turn.cause_message {
        Some(id) => channels::find_message(c, id)?.map(|it| it.as_cause()),
        None => None,
    };
    let post = NewPost {
        author: Author::Member {
            member: Box::new(member),
            sender: Actor::Job(job.clone()),
            from: Some(Address::Agent(agent)),
        },
        sort: words.sort,
        text: words.text.to_owned(),
        to: words.to.map(str::to_owned),
        in_reply_to: words.in_reply_to,
        cause,
        turn: Some(turn.id),
        is_answer: false,
        job: Some(job.clone()),
        attachments: words.attachments.to_vec(),
        depth: 0,
    };
    let kind = kind_of(ground, &channel.kind);
    channels::post(tx, &ground.ids, (channel.number, &kind), &post)
}
