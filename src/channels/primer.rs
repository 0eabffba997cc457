//! What an agent is told once about a channel, before the first message that it hears there.

use crate::channels::block::{self, CONTEXT, Envelope, LAST};
use crate::channels::channel::Channel;
use crate::channels::kind::ChannelType;
use crate::channels::member::Member;

/// How many of the last messages a newcomer is told.
pub const CATCH_UP: u32 = 10;

const RULES: &str = "\
- Everybody here reads what you write. Say what you have come to, not how you got there.
- Your last words of a turn are posted here for you. One answer to what you were told is enough.
- If you have nothing to add, answer [no-reply]: then nothing is posted.
- Write @name to have somebody answer; what others write reaches you after your turn, so do not
  wait or poll.
- Begin a line with `Decision:` or `Action:` when there is one.";

/// Returns the rules of a channel for one of its members.
pub fn primer(channel: &Channel, kind: &ChannelType, members: &[Member], you: &str) -> String {
    let named = |it: &Member| match &it.agent {
        Some(agent) => format!("{} (agent:{agent})", it.handle),
        None => format!("{} (person)", it.handle),
    };
    let all: Vec<String> = members.iter().filter(|it| !it.has_left()).map(named).collect();
    let chair = members.iter().find(|it| it.is_chair).map_or("nobody", |it| it.handle.as_str());
    let about = channel.about.as_deref().unwrap_or(&kind.about);
    let intent = channel.intent.as_deref().unwrap_or(&kind.intent);
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "{CONTEXT} You take part in #{} as {you}. Members: {}. Chair: {chair}.\n\
         About: {}\nIntent: {}\n{RULES}\n",
        channel.short(),
        all.join(", "),
        flat(about),
        flat(intent),
    )
}

/// Returns what a newcomer is told: the rules, and the last messages.
pub fn briefing(primer: &str, last: &[Envelope]) -> String {
    match last.is_empty() {
        true => primer.to_owned(),
        false => format!("{primer}{LAST}\n{}", block::envelopes(last)),
    }
}
