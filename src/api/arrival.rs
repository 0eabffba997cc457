//! Decisions about messages of channels that an agent may not have received.

use serde::{Deserialize, Serialize};

/// The body of `POST /api/channels/{slug}/messages/{sequence}/resend` and `…/settle`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ArrivalRequest {
    /// The agent that may not have received it.
    pub to: String,
}
