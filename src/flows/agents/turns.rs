//! The turns of agents: what caused each, how it ended, and where its answer is.

use rusqlite::Connection;

use crate::api::agents::{TurnList, TurnView, TurnsQuery};
use crate::base::{Millis, Result, TurnId};
use crate::channels;
use crate::flows::agents::show;
use crate::flows::{Site, page_limit};
use crate::people::Caller;
use crate::turns::{self, Held, Turn};

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
    let read = site.store.read(move |c| {
        let found = turns::of_agent(c, &name, before, limit)?;
        let items = found.into_iter().map(|turn| view(c, turn)).collect::<Result<_>>()?;
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
    let read = site.store.read(move |c| {
        let turn = turns::find(c, &id)?;
        let is_shown = !turn.is_mixed || turn.held == Some(Held::Posted);
        let answer = match is_shown && turn.state == "answered" {
            true => Some(turns::answer_of(c, &id)?),
            false => None,
        };
        Ok(TurnView { answer, ..view(c, turn)? })
    });
    read.await
}

fn view(c: &Connection, turn: Turn) -> Result<TurnView> {
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
    Ok(TurnView {
        cause: cause.to_owned(),
        channel: channel.map(|it| it.slug),
        sequence: woke.map(|message| message.sequence),
        answer_sequence: answered.map(|message| message.sequence),
        held: turn.held.map(|held| held.as_str().to_owned()),
        answer: None,
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
