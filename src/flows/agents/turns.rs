//! The turns of agents: what caused each, how it ended, and where its answer is.

use rusqlite::Connection;

use crate::api::agents::{TurnList, TurnView, TurnsQuery};
use crate::base::{Actor, MailId, Millis, Result, TurnId, truncate_chars};
use crate::channels;
use crate::flows::agents::show;
use crate::flows::{Site, page_limit};
use crate::mail;
use crate::people::Caller;
use crate::turns::{self, Held, Turn};

/// Longest beginning of a message that is shown with a turn, in characters.
const ASKED_CHARS_MAX: usize = 300;

/// Returns the turns of an agent, newest first.
///
/// # Errors
/// `forbidden` for agents; `not_found` with code `no_agent`; `invalid` for a bad limit.
pub async fn turns(
    site: &Site,
    caller: &Caller,
    name: &str,
    query: TurnsQuery,
) -> Result<TurnList> {
    caller.may_read()?;
    caller.person()?;
    let (limit, before) = (page_limit(query.limit)?, query.before.unwrap_or(Millis(i64::MAX)));
    let name = show::show(site, caller, name).await?.name;
    let reader = caller.actor();
    let read = site.store.read(move |c| {
        let found = turns::of_agent(c, &name, before, limit)?;
        let items = found.into_iter().map(|turn| view(c, &reader, turn)).collect::<Result<_>>()?;
        Ok(TurnList { items })
    });
    read.await
}

/// Returns a turn with its answer, unless somebody may have typed in it and nobody has posted it.
///
/// # Errors
/// `forbidden` for agents; `not_found` with code `no_turn`.
pub async fn turn(site: &Site, caller: &Caller, id: TurnId) -> Result<TurnView> {
    caller.may_read()?;
    caller.person()?;
    let reader = caller.actor();
    let read = site.store.read(move |c| {
        let turn = turns::find(c, &id)?;
        let is_shown = !turn.is_mixed || turn.held == Some(Held::Posted);
        let answer = match is_shown && turn.state == "answered" {
            true => Some(turns::answer_of(c, &id)?),
            false => None,
        };
        Ok(TurnView { answer, ..view(c, &reader, turn)? })
    });
    read.await
}

fn view(c: &Connection, reader: &Actor, turn: Turn) -> Result<TurnView> {
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
    (reader, is_in_channel): (&Actor, bool),
    id: &MailId,
) -> Result<Option<String>> {
    let message = mail::find(c, id)?;
    if message.forgotten_at.is_some() || !(is_in_channel || message.sender == *reader) {
        return Ok(None);
    }
    let text = message.payload.as_str().map_or_else(|| message.payload.to_string(), str::to_owned);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = truncate_chars(&line, ASKED_CHARS_MAX);
    let asked = if cut.len() == line.len() { line } else { format!("{cut}…") };
    Ok((!asked.is_empty()).then_some(asked))
}
