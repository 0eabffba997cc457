//! The assistant: what a person chooses, their sign-in, and whether they can ask.

use serde::{Deserialize, Deserializer, Serialize};

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
    /// Who gets what is asked and read, and who pays.
    pub terms: String,
    /// Whether its program can read everything that the server's account can.
    pub is_unsandboxed: bool,
}

/// The answer of `GET /api/agent/config` and of `POST`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConfigView {
    /// The mode of the person's runs.
    pub mode: String,
    /// All modes.
    pub modes: Vec<ModeView>,
    /// What the person wants of the assistant (`agents.md`); null without such a file, or if it
    /// cannot be read.
    pub prompt: Option<String>,
    /// What tells that text from others: `none` without a file, null if it cannot be read.
    pub prompt_digest: Option<String>,
    /// What of the vault the assistant does not read, and why.
    pub vault_problem: Option<String>,
    /// The tools that the site allows.
    pub tools: Vec<ToolRule>,
    /// The bounds of an answer.
    pub limits: AnswerBounds,
    /// The folder of the vault with the actions.
    pub actions_folder: String,
    /// Longest question, in bytes.
    pub prompt_bytes_max: u64,
    /// Most runs of one person at once.
    pub running_person: u32,
}

/// A tool that a site allows.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolRule {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// `allow`: asks if the call is risky; `ask`: always asks.
    pub rule: String,
    /// When it asks: `always`, `risky` or `never`. What is published always asks.
    pub asks: String,
}

/// The bounds of an answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AnswerBounds {
    /// Longest answer, in milliseconds.
    pub run_ms: u64,
    /// Longest silence of the model, in milliseconds.
    pub idle_ms: u64,
    /// How long a confirmation waits for the person, in milliseconds.
    pub confirm_ms: u64,
    /// Most calls of tools.
    pub tool_calls: u32,
    /// Most requests to a model.
    pub steps: u32,
    /// Longest answer, in bytes.
    pub output_bytes: u64,
    /// Most US dollars, if bounded.
    pub cost_usd: Option<f64>,
}

/// The body of `POST /api/agent/config`. A field that is not sent stays as it is.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfigRequest {
    /// The mode of the person's runs; null for that of the site.
    #[serde(default, deserialize_with = "sent", skip_serializing_if = "Option::is_none")]
    pub mode: Option<Option<String>>,
    /// What the person wants of the assistant; null for nothing.
    #[serde(default, deserialize_with = "sent", skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Option<String>>,
    /// The `prompt_digest` of the text that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_digest: Option<String>,
}

/// Tells null from a field that is not there.
fn sent<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// A text of the vault that its person edits: `agents.md`, `agent/memory.md` or an action.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VaultText {
    /// Its path in the vault.
    pub path: String,
    /// Its content; null without a file.
    pub text: Option<String>,
    /// What tells this content from others; `none` without a file.
    pub digest: String,
}

/// The body of `POST /api/agent/vault/text`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TextRequest {
    /// The path in the vault.
    pub path: String,
    /// The new content; null, which must be sent, removes the file.
    #[serde(deserialize_with = "Option::deserialize")]
    pub text: Option<String>,
    /// The digest of the content that it replaces; `none` for a new file.
    pub digest: String,
    /// Another path, for an action that gets another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// An action of a person.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ActionView {
    /// Its id.
    pub id: String,
    /// What it is called.
    pub label: String,
    /// The path of its file in the vault.
    pub path: String,
    /// What it does, in a line.
    pub about: Option<String>,
    /// Whether it runs only for whoever sends its digest as `confirm`.
    pub requires_confirmation: bool,
    /// The most steps that its answer may take.
    pub max_steps: Option<u32>,
    /// Its prompt, with the fields not filled in.
    pub prompt: Option<String>,
    /// Its prompt as it would be asked now; `{{run_id}}` is filled in when it runs.
    pub filled: Option<String>,
    /// What tells this content of its file from others.
    pub digest: Option<String>,
    /// Why it cannot be run.
    pub error: Option<String>,
}

/// The answer of `GET /api/agent/actions`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ActionPage {
    /// By the names of their files.
    pub items: Vec<ActionView>,
    /// The folder of the vault with the files.
    pub folder: String,
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
    /// The person's vault: `ready`, `unused` (the site allows no tools), or the code of what is
    /// wrong.
    pub vault: PartHealth,
    /// The gateway, if the site has one: `asleep`, `starting`, `ready`, `not_installed`, `broken`.
    pub gateway: Option<PartHealth>,
    /// The person's account at LinkedIn, if the site has an app: `not_connected`, `connected`,
    /// `expires_soon`, `expired`, `refused` or `secret_missing`.
    pub linkedin: Option<PartHealth>,
}

/// The state of something that the assistant needs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PartHealth {
    /// A word for its state.
    pub state: String,
    /// What is wrong.
    pub problem: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl PartHealth {
    /// Returns a state in which nothing is wrong.
    pub fn well(state: &str) -> PartHealth {
        PartHealth { state: state.to_owned(), problem: None, hint: None }
    }
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
