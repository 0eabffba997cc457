//! What rooms add to how agents are spoken to: those of channels.

use std::sync::Arc;

use crate::flows::Works;
use crate::flows::channels::{self, Ground};
use crate::mail::Rooms;

/// Returns what rooms do, under the script in force.
pub(super) fn rooms(works: &Works) -> Rooms {
    let ground = Ground::of(&works.now());
    let (to_compose, to_hear) = (ground.clone(), ground);
    Rooms {
        compose: Arc::new(move |tx, agent, room| channels::compose(tx, &to_compose, agent, room)),
        turn: Arc::new(move |tx, turn| channels::on_turn(tx, &to_hear, turn)),
    }
}
