//! The turns of agents: what caused each, how it ended, and where its answer is.
//!
//! **Invariant:** a turn on a person's direct message is seen by that person alone, and by the
//! person whom its answer goes to; to everybody else it does not exist.

use rusqlite::Connection;

use crate::api::agents::{TurnList, TurnView, TurnsQuery};
use crate::base::{Actor, Address, MailId, Millis, Result, TurnId, truncate_chars};
use crate::channels;
use crate::flows::agents::show;
use crate::flows::{Site, page_limit};
use crate::mail;
use crate::people::{Caller, Person};
use crate::turns::{self, Held, Turn};

/// Most characters of an answer that was not posted.
const LATE_CHARS_MAX: usize = 4_000;
/// Longest beginning of a message that is shown with a turn, in characters.
const ASKED_CHARS_MAX: usize = 300;
/// Turns that are read at a time to fill a page, and how often.
const WALKED: u32 = 200;
const PAGES_WALKED: usize = 20;

/// Returns the turns of an agent that the caller may see, newest first.
///
/// # Errors
/// `forbidden` for agents; `not_found` with code `no_agent`; `invalid` for a bad limit.
pub async fn turns(
    site: &Site,
    caller: &Caller,
    name: &str,
    query: TurnsQuery,
) -> Result<TurnList> {
    let reader = reader(caller)?;
    let (limit, before) = (page_limit(query.limit)?, query.before.unwrap_or(Millis(i64::MAX)));
    let name = show::show(site, caller, name).await?.name;
    site.store.read(move |c| visible(c, &reader, (&name, before), limit)).await
}

/// Fills a page with what a person may see.
fn visible(
    c: &Connection,
    reader: &Person,
    (agent, mut before): (&str, Millis),
    limit: u32,
) -> Result<TurnList> {
    let (mut items, size) = (Vec::new(), limit.max(WALKED));
    for _ in 0..PAGES_WALKED {
        let page = turns::of_agent(c, agent, before, size)?;
        let is_last = page.len() < size as usize;
        for turn in page {
            before = turn.started_at;
            if !may_see(c, reader, &turn)? {
                continue;
            }
            let may_be_late = turn.channel.is_some() && !turn.is_mixed && turn.held.is_none();
            let mut shown = view(c, reader, turn)?;
            // One that came too late for its channel stands nowhere else.
            if may_be_late && shown.state == "answered" && shown.answer_sequence.is_none() {
                let answer = turns::answer_of(c, &shown.id)?;
                shown.answer = Some(truncate_chars(answer.trim(), LATE_CHARS_MAX));
            }
            items.push(shown);
            if items.len() == limit as usize {
                return Ok(TurnList { items });
            }
        }
        if is_last {
            break;
        }
    }
    Ok(TurnList { items })
}

fn reader(caller: &Caller) -> Result<Person> {
    caller.may_read()?;
    caller.person().cloned()
}

/// Returns whether a person may see a turn.
fn may_see(c: &Connection, reader: &Person, turn: &Turn) -> Result<bool> {
    if turn.channel.is_some() || turn.block_id.is_none() {
        return Ok(true);
    }
    let Some(id) = &turn.cause_message else { return Ok(false) };
    let message = mail::find(c, id)?;
    let reads_answer = match message.answer_to() {
        Some(Address::Person(name)) => Some(*name == reader.name),
        _ => None,
    };
    let wrote = match &message.sender {
        Actor::Person(id) => Some(*id == reader.id),
        _ => None,
    };
    let is_private = reads_answer.is_some() || wrote.is_some();
    Ok(!is_private || reads_answer == Some(true) || wrote == Some(true))
}

/// Returns a turn with its answer, unless somebody may have typed in it and nobody has posted it.
///
/// # Errors
/// `forbidden` for agents; `not_found` with code `no_turn`, also for a turn on somebody else's
/// direct message.
pub async fn turn(site: &Site, caller: &Caller, id: TurnId) -> Result<TurnView> {
    let reader = reader(caller)?;
    let read = site.store.read(move |c| {
        let turn = turns::find(c, &id)?;
        if !may_see(c, &reader, &turn)? {
            return Err(turns::missing(&id));
        }
        // Nobody knows whose words a turn without a message answers.
        let is_known = turn.channel.is_some() || turn.block_id.is_some();
        let is_shown = is_known && (!turn.is_mixed || turn.held == Some(Held::Posted));
        let answer = match is_shown && turn.state == "answered" {
            true => Some(turns::answer_of(c, &id)?),
            false => None,
        };
        Ok(TurnView { answer, ..view(c, &reader, turn)? })
    });
    read.await
}

fn view(c: &Connection, reader: &Person, turn: Turn) -> Result<TurnView> {
    let cause = match (turn.channel, &turn.block_id) {
        (Some(_), _) => "channel",
        (None, Some(_)) => "message",
        (None, None) => "other",
    };
    let channel = turn.channel.map(|number| channels::find(c, number)).transpose()?;
    let woke = match &turn.cause_message {
        Some(id) => channels::find_message(c, id)?,
        None => None,
    };
    let answered = channels::answer_of_turn(c, &turn.id)?;
    let asked = match &turn.cause_message {
        Some(id) => asked(c, (reader, channel.is_some()), id)?,
        None => None,
    };
    Ok(TurnView {
        cause: cause.to_owned(),
        channel: channel.map(|it| it.slug),
        sequence: woke.map(|message| message.sequence),
        answer_sequence: answered.map(|message| message.sequence),
        held: turn.held.map(|held| held.as_str().to_owned()),
        answer: None,
        asked,
        id: turn.id,
        agent: turn.agent,
        job_id: turn.job_id,
        message_id: turn.cause_message,
        state: turn.state,
        reason: turn.reason,
        started_at: turn.started_at,
        ended_at: turn.ended_at,
        tokens: turn.tokens,
        cost_usd: turn.cost_usd,
    })
}

/// Returns the beginning of a message. Everybody who may see turns reads channels; a direct message
/// is between its sender and the agent.
fn asked(
    c: &Connection,
    (reader, is_in_channel): (&Person, bool),
    id: &MailId,
) -> Result<Option<String>> {
    let message = mail::find(c, id)?;
    let is_own = message.sender == Actor::Person(reader.id.clone());
    if message.forgotten_at.is_some() || !(is_in_channel || is_own) {
        return Ok(None);
    }
    let text = message.payload.as_str().map_or_else(|| message.payload.to_string(), str::to_owned);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let asked = truncate_chars(&line, ASKED_CHARS_MAX);
    Ok((!asked.is_empty()).then_some(asked))
}
