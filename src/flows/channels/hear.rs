//! The block of messages that an idle agent receives from its channel.

use rusqlite::Connection;

use crate::base::{Actor, Result, fault};
use crate::channels::{
    self, Attachment, BLOCK_BYTES_MAX, Channel, Envelope, MESSAGES_MAX, NEW_MESSAGES, Sort, Spoken,
    Status, UNSURE,
};
use crate::flows::channels::{Ground, who};
use crate::mail::{self, Block, Waiting, agent};
use crate::people::{self, Role};
use crate::store::Tx;

/// Longest block for an agent in a terminal, in bytes, unless one message is longer: a longer one
/// would be passed as a file.
pub(super) const TYPED_BYTES_MAX: usize = 7 * 1024;
/// What a block holds beside its messages and the briefing, at most.
const HEAD_BYTES: usize = 128;
/// Most messages that an agent is reminded of because it may not have received them.
const UNSURE_MAX: u32 = 5;

/// Composes the block for an idle agent: the waking messages, and the context that waits
/// before them. None while the channel is paused or complete, or the agent has no seat in it.
///
/// # Errors
/// As any read and write.
pub fn compose(tx: &Tx<'_>, ground: &Ground, agent: &str, room: i64) -> Result<Option<Block>> {
    let c = tx.connection();
    let channel = channels::find(c, room)?;
    let is_paused = channel.paused.is_some() && !fault::is_off("guard_tx");
    if channel.status != Status::Active || is_paused {
        return Ok(None);
    }
    if !who::seated(c, room, agent)?.is_some_and(|it| it.is_active()) {
        return Ok(None);
    }
    let mut parts = Vec::new();
    for row in mail::waiting_in_room(c, agent, room)? {
        parts.push(Part::of(c, &channel, row)?);
    }
    // A new agent in a seat gets the briefing first, then the waiting messages in their order: one
    // that is given again stands before those that came after it.
    if !fault::is_off("block_order") {
        parts.sort_by_key(|it| (!it.is_briefing, it.sequence));
    }
    // Context after the last waking message comes with the next one.
    let Some(last) = parts.iter().rposition(|it| it.wakes) else { return Ok(None) };
    parts.truncate(last + 1);
    let too_many = mail::left_out_in_room(c, agent, room)?;
    let bytes_max = bytes_max(c, ground, agent)?;
    let unsure = unsure(c, &channel, agent, bytes_max / 4)?;
    let too_long = fit(&mut parts, bytes_max - unsure.len());
    for seq in &too_long {
        mail::drop_waiting(tx, *seq, "too_long")?;
    }
    let rows = parts.iter().map(|it| it.seq).collect();
    let text = text(&parts, (unsure, too_many + too_long.len()));
    Ok(Some(Block { id: ground.ids.mint(), text, rows }))
}

/// One delivery in a block.
struct Part {
    seq: i64,
    wakes: bool,
    is_briefing: bool,
    /// The number of the message; 0 for a briefing.
    sequence: i64,
    text: String,
}

impl Part {
    fn of(c: &Connection, channel: &Channel, row: Waiting) -> Result<Part> {
        let spoken = channels::find_message(c, &row.message_id)?;
        let text = match &spoken {
            Some(spoken) => channels::envelopes(&[envelope(c, channel, spoken)?]),
            None => body(c, &row.message_id)?,
        };
        let sequence = spoken.map_or(0, |it| it.sequence);
        let Waiting { seq, wakes, is_briefing, .. } = row;
        Ok(Part { seq, wakes, is_briefing, sequence, text })
    }
}

/// Returns the last messages that an agent may not have received, below their heading, as far as
/// they fit; nothing if there are none.
fn unsure(c: &Connection, channel: &Channel, agent: &str, bytes_max: usize) -> Result<String> {
    let mut text = String::new();
    let found = mail::unconfirmed_in_room(c, (agent, channel.number), UNSURE_MAX)?;
    for id in found.iter().rev() {
        let Some(spoken) = channels::find_message(c, id)? else { continue };
        let own = channels::envelopes(&[envelope(c, channel, &spoken)?]);
        if text.len() + own.len() > bytes_max {
            break;
        }
        text.insert_str(0, &own);
    }
    Ok(if text.is_empty() { text } else { format!("{UNSURE}\n{text}") })
}

/// Returns the longest block for an agent; it is shorter for a terminal.
fn bytes_max(c: &Connection, ground: &Ground, agent: &str) -> Result<usize> {
    let declared = agent::find(c, agent)?.map(|it| it.declared);
    Ok(match declared.is_some_and(|it| ground.in_terminals.contains(&it)) {
        true => TYPED_BYTES_MAX,
        false => BLOCK_BYTES_MAX,
    })
}

/// Removes what does not fit: the oldest context first, then the newest messages, which keep
/// waiting. Returns the deliveries to drop.
fn fit(parts: &mut Vec<Part>, bytes_max: usize) -> Vec<i64> {
    let mut dropped = Vec::new();
    loop {
        let bytes: usize = parts.iter().map(|it| it.text.len()).sum();
        let messages = parts.iter().filter(|it| !it.is_briefing).count();
        if messages <= MESSAGES_MAX && bytes + HEAD_BYTES <= bytes_max {
            return dropped;
        }
        let waking = parts.iter().filter(|it| it.wakes).count();
        let context = parts.iter().position(|it| !it.wakes && !it.is_briefing);
        match context {
            Some(at) => dropped.push(parts.remove(at).seq),
            None if waking > 1 => drop(parts.pop()),
            // One message and the briefing, which leaves room for it.
            None => return dropped,
        }
    }
}

fn text(parts: &[Part], (unsure, left_out): (String, usize)) -> String {
    let (briefings, messages): (Vec<&Part>, Vec<&Part>) =
        parts.iter().partition(|it| it.is_briefing);
    let mut text: String = briefings.iter().map(|it| it.text.as_str()).collect();
    text.push_str(&unsure);
    if !text.is_empty() {
        text.push_str(NEW_MESSAGES);
        text.push('\n');
    }
    text.push_str(&channels::left_out(left_out));
    messages.iter().for_each(|it| text.push_str(&it.text));
    text
}

/// Returns messages in their envelopes.
pub(super) fn envelopes(
    c: &Connection,
    channel: &Channel,
    messages: &[Spoken],
) -> Result<Vec<Envelope>> {
    messages.iter().map(|it| envelope(c, channel, it)).collect()
}

/// Returns how agents read the author of a message.
///
/// # Errors
/// As any read.
pub(super) fn role(c: &Connection, spoken: &Spoken) -> Result<String> {
    Ok(match (&spoken.author, &spoken.agent) {
        (_, Some(agent)) => format!("agent:{agent}"),
        (Actor::Person(id), None) => match people::find(c, id)? {
            Some(person) if person.is_external => "outside".to_owned(),
            Some(person) if person.role == Role::Admin => "operator".to_owned(),
            _ => "person".to_owned(),
        },
        (Actor::System, None) => "system".to_owned(),
        _ => "script".to_owned(),
    })
}

fn envelope(c: &Connection, channel: &Channel, spoken: &Spoken) -> Result<Envelope> {
    let role = role(c, spoken)?;
    let author = match (&spoken.handle, &spoken.author) {
        (Some(handle), _) => handle.clone(),
        (None, Actor::System) => "wiki-browser".to_owned(),
        (None, _) => "script".to_owned(),
    };
    Ok(Envelope {
        channel: channel.short().to_owned(),
        author,
        role,
        sort: if spoken.sort == Sort::System { Sort::Message } else { spoken.sort },
        text: with_attachments(
            channels::cut(&body(c, &spoken.id)?, spoken.sequence),
            &channels::attachments_of(c, &spoken.id)?,
        ),
    })
}

/// Adds a line for each attached file, with the command that fetches it.
fn with_attachments(mut text: String, files: &[Attachment]) -> String {
    for file in files {
        let Attachment { number, name, kind, bytes, .. } = file;
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!(
            "(attached: {name:?}, {kind}, {bytes} bytes: `wb-agent channel attachment {number}`)"
        ));
    }
    text
}

/// Returns the text of a message of a channel.
pub(super) fn body(c: &Connection, id: &crate::base::MailId) -> Result<String> {
    let payload = mail::find(c, id)?.payload;
    Ok(payload.as_str().map_or_else(|| payload.to_string(), str::to_owned))
}
