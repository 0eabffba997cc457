//! Channels: who makes them, who takes part and speaks, what agents hear, and what becomes of their
//! answers.

mod again;
mod answers;
mod candidates;
mod create;
mod export;
mod hear;
mod life;
mod members;
mod show;
mod speak;
#[cfg(test)]
mod tests;
mod who;

use crate::base::{Ids, Result};
use crate::channels::{self, Channel, ChannelType, NewPost};
use crate::flows::Works;
use crate::store::Tx;

pub use again::again;
pub use answers::on_turn;
pub use candidates::{Candidates, FreeAgent, candidates};
pub use create::create;
pub use export::export;
pub use hear::compose;
pub use life::{archive, chair, change, complete, pause, resume};
pub use members::{Change, add, join, leave, set_member};
pub use show::{history, list, read, show};
pub use speak::post;
pub(in crate::flows) use speak::post_in_room;

/// What a transaction in a channel needs besides the database.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The source of ids.
    pub ids: Ids,
    /// The types of channels that the site knows; the first stands for one that is gone.
    pub kinds: Vec<ChannelType>,
}

impl Ground {
    /// Returns that of a site.
    pub fn of(works: &Works) -> Ground {
        Ground { ids: works.ids.clone(), kinds: ChannelType::built_in() }
    }

    fn kind(&self, name: &str) -> ChannelType {
        let found = self.kinds.iter().find(|it| it.name == name).or(self.kinds.first());
        found.cloned().unwrap_or_else(ChannelType::workshop)
    }
}

/// Returns the type of a channel; a workshop if there is no type of that name any more.
fn kind_of(ground: &Ground, name: &str) -> ChannelType {
    ground.kind(name)
}

/// Says in a channel what happened there.
fn say(tx: &Tx<'_>, ground: &Ground, channel: &Channel, text: String) -> Result<()> {
    let kind = kind_of(ground, &channel.kind);
    let line = NewPost::system(text);
    channels::post(tx, &ground.ids, (channel.number, &kind), &line).map(drop)
}
