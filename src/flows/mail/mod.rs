//! Messages between addresses: who may write to whom, what a message starts, and how its answer
//! comes back.

mod answer;
mod inboxes;
mod overdue;
mod pull;
mod recipient;
mod reply;
mod send;
mod show;
mod unconfirmed;

pub use answer::{look, wait};
pub use inboxes::{list as inboxes, show as inbox};
pub use overdue::end_overdue;
pub use pull::pull;
pub(in crate::flows) use recipient::inbox as require_inbox;
pub(in crate::flows) use reply::{Back, fail, send_back, settle_job};
pub use send::send;
pub(in crate::flows) use send::{Draft, draft, send_of_script};
pub use show::{list, read, show};
pub use unconfirmed::{resend, settle};

pub use crate::base::limit::MAIL_PAYLOAD_BYTES_MAX as PAYLOAD_BYTES_MAX;

/// How long sends of a job are counted, in milliseconds.
const SENDS_WINDOW_MS: i64 = 60_000;
/// How many jobs may lead to a message, one after the other.
const DEPTH_MAX: u32 = crate::base::limit::SCRIPT_DEPTH_MAX;
