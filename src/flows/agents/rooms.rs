//! What rooms add to how agents are spoken to.

use std::sync::Arc;

use crate::flows::Works;
use crate::mail::Rooms;

/// Returns what rooms do: nothing is said in one yet.
pub(super) fn rooms(_works: &Works) -> Rooms {
    Rooms { compose: Arc::new(|_, _, _| Ok(None)), turn: Arc::new(|_, _| Ok(())) }
}
