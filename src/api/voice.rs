//! What people say to channels.

use serde::{Deserialize, Serialize};

/// The body of `POST /api/voice/command`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VoiceRequest {
    /// What was said: `say TEXT`, `tell NAME TEXT`, `add NAME` or `what is new`.
    pub text: String,
    /// The channel; by default the caller's that was last active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// The answer of `POST /api/voice/command`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VoiceAnswer {
    /// What to say to the person.
    pub spoken: String,
    /// The channel.
    pub channel: String,
}
