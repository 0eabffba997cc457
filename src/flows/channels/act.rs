//! Changes of a channel that need nothing but the channel.

use crate::api::channels::ChannelView;
use crate::base::Result;
use crate::flows::Site;
use crate::flows::channels::{life, members};
use crate::people::Caller;

/// A change of a channel that needs no further input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The caller joins.
    Join,
    /// The caller leaves.
    Leave,
    /// No agent is woken until somebody resumes.
    Pause,
    /// The channel becomes read-only.
    Complete,
    /// Lists omit the channel.
    Archive,
}

/// Makes such a change.
///
/// # Errors
/// As each of them.
pub async fn act(site: &Site, caller: &Caller, slug: &str, act: Act) -> Result<ChannelView> {
    match act {
        Act::Join => members::join(site, caller, slug).await,
        Act::Leave => members::leave(site, caller, slug).await,
        Act::Pause => life::pause(site, caller, slug).await,
        Act::Complete => life::complete(site, caller, slug).await,
        Act::Archive => life::archive(site, caller, slug).await,
    }
}
