//! The assistant: what a person chooses, their sign-in, and whether they can ask.

use serde::{Deserialize, Serialize};

use crate::base::Millis;

/// A mode, and whether a person can use it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModeView {
    /// Its word.
    pub mode: String,
    /// Whether it can be used now.
    pub available: bool,
    /// The mode that answers as long as this one cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// Why it cannot.
    pub why: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// The answer of `GET /api/agent/config` and of `POST`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConfigView {
    /// The mode of the person's runs.
    pub mode: String,
    /// All modes.
    pub modes: Vec<ModeView>,
    /// Longest question, in bytes.
    pub prompt_bytes_max: u64,
    /// Most runs of one person at once.
    pub running_person: u32,
}

/// The body of `POST /api/agent/config`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfigRequest {
    /// The mode of the person's runs; null for that of the site.
    pub mode: Option<String>,
}

/// The answer of `GET /api/agent/health`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "AssistantHealth"))]
pub struct HealthView {
    /// What answers.
    pub runtimes: Vec<RuntimeHealth>,
    /// What of the person's own words in the vault cannot be read, if anything.
    #[serde(default)]
    pub vault_problem: Option<String>,
}

/// The state of one runtime for one person.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RuntimeHealth {
    /// Its mode.
    pub mode: String,
    /// `ready`, `not_allowed`, `no_sign_in`, `key_missing`, `held` or `gateway_down`.
    pub state: String,
    /// What is wrong.
    pub problem: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// The body of `POST /api/agent/claude/login`.
#[derive(Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClaudeLogin {
    /// What `claude setup-token` printed.
    pub token: String,
}

/// A sign-in to the gateway, which lasts fifteen minutes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GatewayLogin {
    /// Its id.
    pub login_id: String,
    /// Whose subscription it is for.
    pub provider: String,
    /// `waiting`, `done`, `failed` or `ended`.
    pub state: String,
    /// Where the person signs in.
    pub url: Option<String>,
    /// What the provider says besides, such as a code to type there.
    pub instructions: Option<String>,
    /// Why it failed.
    pub problem: Option<String>,
}

/// The body of `POST /api/agent/gateway/login/{id}`.
#[derive(Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GatewayAnswer {
    /// What the provider gave the person: the address to which it led, or a code.
    pub text: String,
}

/// A person's sign-in at LinkedIn.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkedinView {
    /// `not_connected`, `connected`, `expires_soon` (within seven days), `expired`, or `refused` by
    /// LinkedIn.
    pub state: String,
    /// The person's name there.
    pub name: Option<String>,
    /// When the sign-in expires.
    pub expires_at: Option<Millis>,
    /// The granted permissions.
    pub scopes: Vec<String>,
    /// Where the person goes on with a sign-in in progress.
    pub url: Option<String>,
}

/// The answer of `POST /api/linkedin/connect`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkedinLogin {
    /// Where the person signs in.
    pub url: String,
    /// Until when.
    pub expires_at: Millis,
}

/// The body of `POST /api/linkedin/finish`: what LinkedIn added to the address it leads back to.
#[derive(Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LinkedinAnswer {
    /// The word that the sign-in began with.
    pub state: String,
    /// LinkedIn's code.
    pub code: String,
}

/// The answer of a sign-out.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SignedOut {
    /// Whether the person was signed in.
    pub was_signed_in: bool,
}

/// The query of `GET /api/agent/vault/file`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VaultFileQuery {
    /// The path in the vault.
    pub path: String,
}

/// The answer of `GET /api/agent/scratch`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScratchView {
    /// The files, by path.
    pub items: Vec<ScratchFile>,
    /// Their size together.
    pub bytes: u64,
    /// None of them was changed since.
    pub before: Millis,
    /// Whether there are more.
    pub is_cut: bool,
}

/// An old file in `agent/scratch`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScratchFile {
    /// Its path in the vault.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last changed.
    pub modified_at: Millis,
}

/// The query of `DELETE /api/agent/scratch`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScratchQuery {
    /// The `before` of the list.
    pub before: Millis,
}

/// The answer of `DELETE /api/agent/scratch`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScratchCleared {
    /// How many files were deleted.
    pub deleted: u32,
    /// Their size together.
    pub bytes: u64,
    /// How many were not, because they have changed or are larger than 1 MiB.
    pub kept: u32,
}
