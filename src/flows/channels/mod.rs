//! Operations on channels: their members, their messages, and the blocks and answers of
//! agents.

mod act;
mod again;
mod answers;
mod attachments;
mod attention;
mod briefing;
mod candidates;
mod create;
mod export;
mod hear;
mod held;
mod joining;
mod life;
mod members;
mod namesake;
mod outside;
mod promote;
mod script_facts;
mod seat;
mod show;
mod speak;
mod start_count;
#[cfg(test)]
mod tests;
mod told;
mod unconfirmed;
mod upload;
mod voice;
mod who;

use crate::base::Result;
use crate::channels::{self, Channel, ChannelType, NewPost};
use crate::store::Tx;

pub use act::{Act, act};
pub use again::again;
pub use answers::on_turn;
pub use attachments::attachment;
pub(in crate::flows) use attention::{escalated, paused};
pub(in crate::flows) use briefing::again as brief_again;
pub use candidates::{Candidates, FreePersona, candidates};
pub use create::create;
pub use export::{Outcome, export, export_lines, outcomes};
pub use hear::compose;
pub(in crate::flows) use held::waiting as held_waiting;
pub use held::{decide, held};
pub use life::{chair, change, resume};
pub use members::{Change, add, set_member};
pub(in crate::flows) use namesake::fresh;
pub use promote::{promote, promotion};
pub use script_facts::Ground;
pub use seat::seat;
pub(in crate::flows) use seat::take_over;
pub use show::{history, list, read, show};
pub use speak::post;
pub(in crate::flows) use speak::{await_turn, post_as_script, post_in_room};
pub use told::as_told;
pub use unconfirmed::{Arrival, arrival};
pub use upload::attach;
pub use voice::voice;

/// Returns a type; a workshop if the script no longer declares it.
fn kind_of(ground: &Ground, name: &str) -> ChannelType {
    ground.kind(name)
}

/// Posts a system message, unless the channel is complete.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn say_in(
    tx: &Tx<'_>,
    ground: &Ground,
    room: i64,
    text: String,
) -> Result<()> {
    let channel = channels::find(tx.connection(), room)?;
    match channel.status.is_open() {
        true => say(tx, ground, &channel, text),
        false => Ok(()),
    }
}

/// Posts a system message.
fn say(tx: &Tx<'_>, ground: &Ground, channel: &Channel, text: String) -> Result<()> {
    let kind = kind_of(ground, &channel.kind);
    let line = NewPost::system(text);
    channels::post(tx, &ground.ids, (channel.number, &kind), &line).map(drop)
}
