//! The end of a turn: the answer is posted in the transaction that ends it.
//!
//! **Invariant:** an answer is posted only if a channel's block caused its turn, in that
//! channel, once, and not if somebody may have typed in it.

use crate::base::{Actor, Address, BlockId, JobId, Result, fault};
use crate::channels::{self, Author, Channel, NewPost, Pause, Sort, Speaks, TEXT_CHARS_MAX};
use crate::flows::channels::hear::body;
use crate::flows::channels::{Ground, held, kind_of, members, say, who};
use crate::mail::{self, Turn, TurnEnd};
use crate::store::Tx;
use crate::turns::{self, End, NewTurn, Outcome};

/// How many of the last messages are compared with an answer.
const SAID_MAX: u32 = 10;
/// The answer of an agent that has nothing to say.
const NO_REPLY: &str = "[no-reply]";
/// Longest reason of a failure in a channel, in characters.
const WHY_CHARS_MAX: usize = 300;

/// Records a fact about a turn and its consequences.
///
/// # Errors
/// As any write.
pub fn on_turn(tx: &Tx<'_>, ground: &Ground, turn: &Turn) -> Result<()> {
    match turn {
        Turn::Began { agent, job, block } => began(tx, ground, (agent, job), block.as_ref()),
        Turn::Ended { agent, block, text, how, tokens, cost_usd, is_mixed, .. } => {
            let (tokens, cost_usd, is_mixed) = (*tokens, *cost_usd, *is_mixed);
            let fact = Fact { text, how, tokens, cost_usd, is_mixed };
            ended(tx, ground, (agent, block.as_ref()), &fact)
        }
    }
}

/// How a turn ended.
struct Fact<'a> {
    text: &'a str,
    how: &'a TurnEnd,
    tokens: u64,
    cost_usd: Option<f64>,
    is_mixed: bool,
}

fn began(
    tx: &Tx<'_>,
    ground: &Ground,
    (agent, job): (&str, &JobId),
    block: Option<&BlockId>,
) -> Result<()> {
    let c = tx.connection();
    let room = match block {
        Some(block) => mail::open_block(c, agent)?.filter(|it| it.id == *block),
        None => None,
    };
    let channel = room.and_then(|it| it.room).map(|it| channels::find(c, it)).transpose()?;
    let tag = channel.as_ref().map(|it| it.id.as_str());
    if let Some(open) = turns::running_of(c, agent)? {
        // Its end was never reported, and it cannot continue.
        let lost = Outcome {
            end: End::Lost,
            answer: "",
            reason: None,
            tokens: 0,
            cost_usd: None,
            is_mixed: false,
        };
        turns::end(tx, &open, &lost, None)?;
    }
    let cause_message = match block {
        Some(block) => mail::waking_of_block(c, block)?,
        None => None,
    };
    let number = channel.as_ref().map(|it| it.number);
    let new = NewTurn { agent, job, block, channel: number, cause_message };
    turns::begin(tx, &ground.ids, &new, tag)?;
    let (Some(channel), Some(block)) = (&channel, block) else { return Ok(()) };
    let Some(member) = who::seated(c, channel.number, agent)? else { return Ok(()) };
    let mut heard = member.joined_seq;
    for message in mail::messages_of(c, block)? {
        heard = channels::find_message(c, &message)?.map_or(heard, |it| it.sequence.max(heard));
    }
    channels::seen(tx, channel.number, &member.member, heard)
}

fn ended(
    tx: &Tx<'_>,
    ground: &Ground,
    (agent, block): (&str, Option<&BlockId>),
    fact: &Fact<'_>,
) -> Result<()> {
    let c = tx.connection();
    let Some(turn) = turns::of_end(c, agent, block)? else { return Ok(()) };
    let channel = turn.channel.map(|it| channels::find(c, it)).transpose()?;
    let text: String = fact.text.chars().filter(|c| *c != '\0').collect();
    let text = match channel {
        Some(_) => without_footer(text.trim(), ground.footer.as_deref()),
        None => text.trim(),
    };
    let is_silent = text.is_empty() || text == NO_REPLY;
    let (end, reason) = match fact.how {
        TurnEnd::Answered if is_silent => (End::Silent, None),
        TurnEnd::Answered => (End::Answered, None),
        TurnEnd::Interrupted => (End::Interrupted, None),
        TurnEnd::Failed(why) => (End::Failed, Some(why.as_str())),
        TurnEnd::Lost => (End::Lost, None),
    };
    let outcome = Outcome {
        end,
        answer: text,
        reason,
        tokens: fact.tokens,
        cost_usd: fact.cost_usd,
        is_mixed: fact.is_mixed,
    };
    let tag = channel.as_ref().map(|it| it.id.as_str());
    let is_first = turns::end(tx, &turn, &outcome, tag)?;
    if !is_first && !fault::is_off("one_answer") {
        return Ok(());
    }
    fault::crash_point("turn_ended");
    let seat = match (&channel, fault::is_off("cause")) {
        (Some(channel), _) => Some(channel.clone()),
        // Posts any answer in the channel of the agent's seat.
        (None, true) => channels::seat_of(c, agent)?.map(|it| channels::find(c, it)).transpose()?,
        (None, false) => None,
    };
    let Some(channel) = seat else { return Ok(()) };
    match end {
        End::Answered => answer(tx, ground, (&channel, agent), (&turn, text, fact.is_mixed))?,
        End::Silent => {}
        End::Failed => {
            let why = one_line(reason.unwrap_or("no reason was given"));
            note(tx, ground, (&channel, &turn), format!("{agent} could not answer: {why}"))?;
        }
        End::Interrupted => {
            note(tx, ground, (&channel, &turn), format!("{agent} was interrupted."))?;
        }
        End::Lost => {
            let line = format!("{agent} stopped during its turn.");
            note(tx, ground, (&channel, &turn), line)?;
        }
    }
    spent(tx, ground, &channel, fact)?;
    go(tx, ground, (&channel, agent))
}

/// Takes an agent out that has asked for it during the turn.
fn go(tx: &Tx<'_>, ground: &Ground, (channel, agent): (&Channel, &str)) -> Result<()> {
    let c = tx.connection();
    let channel = channels::find(c, channel.number)?;
    match who::seated(c, channel.number, agent)? {
        Some(member) if member.is_leaving && channel.status.is_open() => {
            members::take_out(tx, ground, (&channel, &member), (&member.member, None))
        }
        _ => Ok(()),
    }
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    crate::base::truncate_chars(&line, WHY_CHARS_MAX).to_owned()
}

/// Reports the end of a turn in its channel, if that is still open.
fn note(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, turn): (&Channel, &turns::Turn),
    line: String,
) -> Result<()> {
    if !channels::find(tx.connection(), channel.number)?.status.is_open() {
        return Ok(());
    }
    let kind = kind_of(ground, &channel.kind);
    let line = NewPost { turn: Some(turn.id.clone()), ..NewPost::system(line) };
    channels::post(tx, &ground.ids, (channel.number, &kind), &line).map(drop)
}

/// Posts the answer of a turn if its agent may still post there, or holds it.
pub(super) fn answer(
    tx: &Tx<'_>,
    ground: &Ground,
    (channel, agent): (&Channel, &str),
    (turn, text, is_mixed): (&turns::Turn, &str, bool),
) -> Result<()> {
    let c = tx.connection();
    if !channel.status.is_open() {
        let line = format!("{agent} answered after the channel was completed; see agent:{agent}.");
        let line = NewPost { turn: Some(turn.id.clone()), ..NewPost::system(line) };
        return channels::add_late_line(tx, &ground.ids, channel, &line);
    }
    let Some(member) = who::seated_or_followed(c, channel.number, agent)? else {
        let line = format!("{agent} answered after it had left; see agent:{agent}.");
        return note(tx, ground, (channel, turn), line);
    };
    let kind = kind_of(ground, &channel.kind);
    if kind.speaks == Speaks::Chair && !member.is_chair {
        return Ok(());
    }
    if is_mixed {
        return held::hold(tx, ground, (channel, turn));
    }
    let cause = match &turn.cause_message {
        Some(id) => channels::find_message(c, id)?.map(|it| it.as_cause()),
        None => None,
    };
    if has_said(tx, channel, turn, text)? {
        return Ok(());
    }
    let sender = Actor::Job(turn.job_id.clone());
    let from = Some(Address::Agent(agent.to_owned()));
    let post = NewPost {
        author: Author::Member { member: Box::new(member), sender, from },
        sort: Sort::Message,
        text: cut(text, turn),
        to: None,
        in_reply_to: None,
        cause,
        turn: Some(turn.id.clone()),
        is_answer: true,
        job: Some(turn.job_id.clone()),
        attachments: Vec::new(),
        depth: 0,
    };
    channels::post(tx, &ground.ids, (channel.number, &kind), &post).map(drop)
}

/// Returns whether the agent already posted the same text during this turn.
fn has_said(tx: &Tx<'_>, channel: &Channel, turn: &turns::Turn, text: &str) -> Result<bool> {
    let c = tx.connection();
    for spoken in channels::before(c, channel.number, None, SAID_MAX)? {
        if spoken.turn_id.as_ref() == Some(&turn.id) && body(c, &spoken.id)?.trim() == text {
            return Ok(true);
        }
    }
    Ok(false)
}

fn cut(text: &str, turn: &turns::Turn) -> String {
    if text.chars().count() <= TEXT_CHARS_MAX {
        return text.to_owned();
    }
    let note = format!("\n\n(cut; the rest is in the log of job {})", turn.job_id);
    let room = TEXT_CHARS_MAX - note.chars().count();
    text.chars().take(room).chain(note.chars()).collect()
}

/// Adds the usage of a turn; warns when most of the budget is used, and pauses when all of it is.
fn spent(tx: &Tx<'_>, ground: &Ground, channel: &Channel, fact: &Fact<'_>) -> Result<()> {
    let cost = fact.cost_usd.unwrap_or_default();
    let channel = channels::spend(tx, channel.number, fact.tokens, cost)?;
    if !channel.status.is_open() {
        return Ok(());
    }
    if channel.has_used(3) {
        let kind = kind_of(ground, &channel.kind);
        return channels::pause(tx, &ground.ids, (&channel, &kind), Pause::Budget);
    }
    if channel.has_used(2) && channel.warned_at.is_none() {
        channels::warned(tx, channel.number)?;
        return say(tx, ground, &channel, "Two thirds of the budget are used.".to_owned());
    }
    Ok(())
}

/// Cuts the end of an answer that begins with the script's footer off it, with a rule above it.
fn without_footer<'t>(text: &'t str, footer: Option<&str>) -> &'t str {
    let Some(footer) = footer else { return text };
    let mut at = 0;
    let mut found = None;
    for line in text.split_inclusive('\n') {
        if line.trim() == footer {
            found = Some(at);
        }
        at += line.len();
    }
    let kept = found.map_or(text, |at| &text[..at]).trim_end();
    kept.strip_suffix("\n---").unwrap_or(kept).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_the_footer_is_no_part_of_an_answer() {
        for (text, expected) in [
            ("done\n\n---\nCOMMAND COMPLETE\nfiles: 2\n---", "done"),
            ("done\nCOMMAND COMPLETE", "done"),
            ("COMMAND COMPLETE", ""),
            ("it says COMMAND COMPLETE there", "it says COMMAND COMPLETE there"),
            ("COMMAND COMPLETE\nmore\nCOMMAND COMPLETE\n", "COMMAND COMPLETE\nmore"),
        ] {
            assert_eq!(without_footer(text, Some("COMMAND COMPLETE")), expected, "{text:?}");
            assert_eq!(without_footer(text, None), text);
        }
    }
}
