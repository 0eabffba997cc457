//! What members from outside see of a channel: the messages since they joined, and its
//! members; not how agents work, what they cost, or which answers are held.

use rusqlite::Connection;

use crate::api::channels::{Budget, ChannelView, MemberView, MessageView, Spent};
use crate::base::Result;
use crate::channels::Channel;
use crate::flows::channels::who;
use crate::people::Caller;

/// Returns the number of the first message that a caller sees.
///
/// # Errors
/// As any read.
pub(super) fn first(c: &Connection, caller: &Caller, channel: &Channel) -> Result<i64> {
    if !caller.is_outside() {
        return Ok(0);
    }
    let own = who::member(c, caller, channel)?;
    Ok(own.map_or(i64::MAX, |it| it.joined_seq + 1))
}

/// Returns a channel as members from outside see it.
pub(super) fn channel(view: ChannelView) -> ChannelView {
    ChannelView {
        members: view.members.into_iter().map(member).collect(),
        last: view.last.map(message),
        budget: Budget::default(),
        spent: Spent { turns: 0, tokens: 0, cost_usd: 0.0 },
        promoted_from: None,
        ..view
    }
}

fn member(view: MemberView) -> MemberView {
    MemberView {
        agent: None,
        state: None,
        untold: Vec::new(),
        works_since: None,
        problem: None,
        unconfirmed: 0,
        ..view
    }
}

/// Returns a message as members from outside see it.
pub(super) fn message(mut view: MessageView) -> MessageView {
    view.heard.clear();
    if view.author.agent.take().is_some() {
        view.author.role = "agent".to_owned();
    }
    MessageView { turn_id: None, may_ask_again: false, held: None, ..view }
}
