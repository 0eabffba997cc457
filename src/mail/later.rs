//! What another database of the same site knows of deliveries that are open in this one, which is
//! older, and of agents that run in it.
//!
//! **Invariant:** what was handed out according to either of them is not handed out again.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{MailId, Millis, Result};
use crate::mail::agent::{self, Wanted};
use crate::store::Tx;

const OPEN: &str = "
    SELECT seq, message_id, to_name, state, block_id
    FROM deliveries INDEXED BY deliveries_by_state WHERE state IN ('queued', 'claimed', 'sent')";
// The last of those that repeat it says what became of it.
const LATER: &str = "
    SELECT state, block_id, proof, reason, ended_ms FROM deliveries
    INDEXED BY deliveries_of_message
    WHERE message_id = :message AND (seq = :seq OR repeats >= :seq AND to_name = :name)
    ORDER BY seq DESC LIMIT 1";
const SET: &str = "
    UPDATE deliveries SET state = :state, proof = :proof, reason = :reason, ended_ms = :ended,
        is_head = 1, block_id = NULL WHERE seq = :seq";
const BLOCKS: &str = "SELECT id, begun_ms FROM blocks";
const BEGUN: &str = "UPDATE blocks SET begun_ms = :begun WHERE id = :id";
const REMOVE: &str = "DELETE FROM blocks WHERE id = :id";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("later::open", OPEN),
    ("later::later", LATER),
    ("later::set", SET),
    ("later::blocks", BLOCKS),
    ("later::begun", BEGUN),
    ("later::remove", REMOVE),
];

/// A delivery that is open here.
struct Here {
    seq: i64,
    message: MailId,
    name: String,
    state: String,
    block: Option<String>,
}

/// What became of a delivery.
struct Later {
    state: String,
    block: Option<String>,
    proof: Option<String>,
    reason: Option<String>,
    ended: Option<Millis>,
}

/// Takes over what a later database says of the deliveries that are open here. One that it has
/// handed out without a sign of arrival is unconfirmed: a person decides. Returns how many were
/// changed.
///
/// # Errors
/// As any read or write.
pub fn take_later(tx: &Tx<'_>, later: &Connection) -> Result<usize> {
    let mut changed = 0;
    for here in open(tx.connection())? {
        let Some(found) = find(later, &here)? else { continue };
        let is_open = matches!(found.state.as_str(), "claimed" | "sent");
        let is_same = match is_open {
            true => here.state != "queued" && here.block == found.block,
            false => here.state == found.state,
        };
        if is_same {
            continue;
        }
        let unconfirmed = || Later {
            state: "unconfirmed".to_owned(),
            reason: Some("agent_ended".to_owned()),
            ended: Some(tx.now()),
            block: None,
            proof: None,
        };
        let found = if is_open { unconfirmed() } else { found };
        tx.prepare_cached(SET)?.execute(named_params! {
            ":seq": here.seq, ":state": found.state, ":proof": found.proof,
            ":reason": found.reason, ":ended": found.ended,
        })?;
        changed += 1;
    }
    let known = blocks(later)?;
    for (id, begun) in blocks(tx.connection())? {
        match known.iter().find(|it| it.0 == id) {
            None => {
                tx.prepare_cached(REMOVE)?.execute(named_params! {":id": id})?;
            }
            Some((_, now)) if *now != begun => {
                tx.prepare_cached(BEGUN)?.execute(named_params! {":id": id, ":begun": now})?;
            }
            Some(_) => {}
        }
    }
    Ok(changed)
}

fn open(connection: &Connection) -> Result<Vec<Here>> {
    let mut statement = connection.prepare_cached(OPEN)?;
    let rows = statement.query_map([], |row| {
        Ok(Here {
            seq: row.get("seq")?,
            message: row.get("message_id")?,
            name: row.get("to_name")?,
            state: row.get("state")?,
            block: row.get("block_id")?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn find(later: &Connection, here: &Here) -> Result<Option<Later>> {
    let mut statement = later.prepare_cached(LATER)?;
    let params = named_params! {":message": here.message, ":seq": here.seq, ":name": here.name};
    let found = statement.query_row(params, |row| {
        Ok(Later {
            state: row.get("state")?,
            block: row.get("block_id")?,
            proof: row.get("proof")?,
            reason: row.get("reason")?,
            ended: row.get("ended_ms")?,
        })
    });
    Ok(found.optional()?)
}

fn blocks(connection: &Connection) -> Result<Vec<(String, Option<Millis>)>> {
    let mut statement = connection.prepare_cached(BLOCKS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Stops the agents here that a later database wants stopped. Returns their number.
///
/// # Errors
/// As any read or write.
pub fn stop_again(tx: &Tx<'_>, later: &Connection) -> Result<usize> {
    let mut stopped = 0;
    for agent in agent::list(tx.connection())?.iter().filter(|it| it.wanted == Wanted::Running) {
        let now = agent::find(later, &agent.name)?;
        if now.is_some_and(|it| it.wanted == Wanted::Stopped) {
            agent::want(tx, agent, Wanted::Stopped)?;
            stopped += 1;
        }
    }
    Ok(stopped)
}
