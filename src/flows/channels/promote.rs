//! A person's conversation with one agent becomes a channel: the agent goes on, and newcomers are
//! told what was said.
//!
//! **Invariant:** nothing is told but what this person wrote to the agent alone, and its answers;
//! an agent that works for somebody else, too, is refused.

use rusqlite::Connection;
use serde_json::json;

use crate::api::channels::ChannelView;
use crate::api::promotion::{PromoteRequest, PromotedTurn, Promotion};
use crate::base::{Actor, Error, Result, TurnId, truncate_chars};
use crate::channels::{self, Joining, NewChannel, NewPost};
use crate::flows::agents::AGENT_STATE;
use crate::flows::channels::create::{kept_slug, known_kind, seat_all};
use crate::flows::channels::hear::body;
use crate::flows::channels::{Ground, briefing, joining, kind_of, show};
use crate::flows::{Site, kept_answer};
use crate::mail;
use crate::mail::agent::{self, Agent};
use crate::people::{self, Caller, Person};
use crate::store::{Tx, idempotency};
use crate::turns::{self, Turn};

/// Most turns that newcomers are told.
const TURNS_MAX: usize = 20;
/// Most turns that are looked through for them.
const LOOKED_AT_MAX: u32 = 200;
/// How much of a question and of an answer newcomers are told, in characters.
const PART_CHARS_MAX: usize = 500;

/// Returns what newcomers would be told of the conversation of whoever asks with an agent.
///
/// # Errors
/// `forbidden` for viewers and jobs; `not_found` with code `no_agent`; `conflict`: `agent_state` if
/// it works for somebody else, too, and `no_conversation`.
pub async fn promotion(site: &Site, caller: &Caller, name: &str) -> Result<Promotion> {
    let (person, name) = (caller.may_write()?.clone(), name.to_owned());
    let read = move |c: &Connection| {
        let agent = own_agent(c, &person, &name)?;
        Ok(Promotion { turns: told(c, &person, &agent)?, agent: agent.name })
    };
    site.store.read(read).await
}

/// Makes a channel of the conversation of whoever asks with an agent, which takes a seat in it and
/// goes on with what it does.
///
/// # Errors
/// As [`promotion`]; `conflict`: `agent_already_in_channel`, `name_taken`; `invalid`:
/// `unknown_turn`, and as a new channel.
pub async fn promote(
    site: &Site,
    caller: &Caller,
    name: &str,
    request: PromoteRequest,
    key: Option<idempotency::Key>,
) -> Result<ChannelView> {
    let person = caller.may_write()?.clone();
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return show::changed(site, caller, kept_slug(&kept)?).await;
    }
    let (ground, name) = (Ground::of(site), name.to_owned());
    let made = site.store.write(move |tx| {
        if let Some(key) = &key
            && let Some(kept) = idempotency::find(tx.connection(), key)?
        {
            return kept_slug(&kept);
        }
        let agent = own_agent(tx.connection(), &person, &name)?;
        let slug = make((tx, &ground), &person, &agent, &request)?;
        if let Some(key) = &key {
            idempotency::remember(tx, key, &json!({"slug": slug}))?;
        }
        Ok(slug)
    });
    let slug = made.await?;
    show::changed(site, caller, slug).await
}

fn make(
    (tx, ground): (&Tx<'_>, &Ground),
    person: &Person,
    agent: &Agent,
    request: &PromoteRequest,
) -> Result<String> {
    channels::require_free(tx.connection(), &agent.name)?;
    let turns = chosen(told(tx.connection(), person, agent)?, request.turns.as_deref())?;
    let kind = known_kind(ground, request.kind.as_deref())?;
    let by = Actor::Person(person.id.clone());
    let new = NewChannel {
        kind: kind.to_owned(),
        name: request.name.clone().unwrap_or_else(|| agent.name.clone()),
        about: None,
        intent: None,
        by: by.clone(),
        budget: kind_of(ground, kind).budget,
        promoted_from: Some(agent.name.clone()),
    };
    let channel = channels::create(tx, &ground.ids, &new)?;
    let kind = kind_of(ground, &channel.kind);
    let name = person.name.clone();
    let own = Joining { member: by.clone(), name, agent: None, is_outside: false };
    channels::join(tx, (&channel, &kind), &own, &by)?;
    // Before anybody else is a member: it is what they find there.
    let shown = people::display_name(tx.connection(), &by)?;
    let count = turns.len();
    for line in lines((&shown, &agent.name), &turns) {
        channels::post(tx, &ground.ids, (channel.number, &kind), &NewPost::system(line))?;
    }
    let channel = channels::find(tx.connection(), channel.number)?;
    let seat = joining::seat(tx, ground, agent)?;
    let promoted = channels::join(tx, (&channel, &kind), &seat, &by)?;
    seat_all((tx, ground), (&channel, &kind), &by, &request.members)?;
    for member in channels::members(tx.connection(), channel.number)? {
        // The agent itself has said it.
        let is_own = member.member == promoted.member;
        let last = if is_own { 0 } else { u32::try_from(count + 1).unwrap_or(u32::MAX) };
        briefing::with_last(tx, ground, (&channel, &kind), (&member, last))?;
    }
    Ok(channel.slug)
}

/// Returns what stands in the channel of the conversation.
fn lines((person, agent): (&str, &str), turns: &[PromotedTurn]) -> Vec<String> {
    let head = match turns.len() {
        0 => format!("{person} went on here with {agent}."),
        1 => format!("{person} went on here with {agent}. Their last turn:"),
        count => format!("{person} went on here with {agent}. Their last {count} turns:"),
    };
    let turn = |it: &PromotedTurn| {
        format!("{person} to {agent}: {}\n\n{agent}: {}", it.asked, it.answered)
    };
    std::iter::once(head).chain(turns.iter().map(turn)).collect()
}

/// Returns those of the turns that a person chose.
fn chosen(told: Vec<PromotedTurn>, asked: Option<&[TurnId]>) -> Result<Vec<PromotedTurn>> {
    let Some(asked) = asked else { return Ok(told) };
    if let Some(other) = asked.iter().find(|id| told.iter().all(|it| it.turn_id != **id)) {
        let message = format!("turn {other} is none of those that would be told");
        return Err(Error::invalid(message).code("unknown_turn").of_input("turns"));
    }
    Ok(told.into_iter().filter(|it| asked.contains(&it.turn_id)).collect())
}

/// Returns an agent that a person talks with alone.
fn own_agent(c: &Connection, person: &Person, name: &str) -> Result<Agent> {
    let bare = name.strip_prefix("agent:").unwrap_or(name);
    let agent = agent::find(c, bare)?.ok_or_else(|| joining::no_agent(bare))?;
    let own = Actor::Person(person.id.clone());
    if let Some(other) = mail::other_person(c, &agent.name, &own)? {
        let other = people::display_name(c, &other)?;
        let message = format!("agent:{} works for {other}, too", agent.name);
        return Err(Error::conflict(AGENT_STATE, message)
            .hint("what was said to it in private must reach no channel: make one without it"));
    }
    Ok(agent)
}

/// Returns the last turns of a conversation, the oldest first.
fn told(c: &Connection, person: &Person, agent: &Agent) -> Result<Vec<PromotedTurn>> {
    let mut found = Vec::new();
    for turn in turns::direct_of_agent(c, &agent.name, LOOKED_AT_MAX)? {
        if found.len() == TURNS_MAX {
            break;
        }
        if let Some(asked) = asked(c, person, &turn)? {
            let answered = turns::answer_of(c, &turn.id)?;
            found.push(PromotedTurn {
                turn_id: turn.id,
                at: turn.started_at,
                asked: part(&asked),
                answered: part(&answered),
            });
        }
    }
    if found.is_empty() {
        let message = format!("you have no conversation with agent:{}", agent.name);
        return Err(Error::conflict("no_conversation", message)
            .hint(format!("`wiki-browser channel create NAME --with {}`", agent.name)));
    }
    found.reverse();
    Ok(found)
}

/// Returns what a person said in a turn; nothing if anybody else had a part in it, or if it was
/// forgotten.
fn asked(c: &Connection, person: &Person, turn: &Turn) -> Result<Option<String>> {
    let Some(block) = &turn.block_id else { return Ok(None) };
    let own = Actor::Person(person.id.clone());
    let mut texts = Vec::new();
    for id in mail::messages_of(c, block)? {
        let message = mail::find(c, &id)?;
        if message.sender != own || message.forgotten_at.is_some() {
            return Ok(None);
        }
        texts.push(body(c, &id)?);
    }
    Ok(Some(texts.join("\n\n")).filter(|it| !it.trim().is_empty()))
}

fn part(text: &str) -> String {
    truncate_chars(text.trim(), PART_CHARS_MAX)
}
