//! The usage of jobs, the rest of today's caps, and engines on hold.

use serde::{Deserialize, Serialize};

use crate::api::jobs::Usage;
use crate::base::{JobId, Millis};

/// Totals, with the person's display name.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsageRow {
    /// The totals.
    #[serde(flatten)]
    pub usage: Usage,
    /// The person, if the totals are a person's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// One measure of one daily cap, and how much of it is used.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CapRow {
    /// `limits.daily`, `limits.daily_person` or `kind.daily`.
    pub cap: String,
    /// The kind, or the person whose jobs are counted.
    pub of: Option<String>,
    /// `cost_usd`, `tokens` or `time`.
    pub measure: String,
    /// Today's usage: US dollars, tokens, or milliseconds.
    pub used: f64,
    /// The limit, in the same unit.
    pub limit: f64,
    /// Whether it is used up.
    pub is_spent: bool,
    /// When it resets: the next midnight in UTC.
    pub frees_at: Millis,
    /// The person whose cap it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// Usage, and the used part of each daily cap.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spending {
    /// What the rows are for: `day`, `kind`, `person` or `engine`.
    pub by: String,
    /// The first day, in UTC.
    pub since: String,
    /// The totals by group.
    pub items: Vec<UsageRow>,
    /// The totals of all groups.
    pub total: Usage,
    /// The daily caps.
    pub caps: Vec<CapRow>,
    /// Always absent: there is one page.
    pub next: Option<String>,
}

/// The hold of an engine.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EngineHold {
    /// The engine.
    pub engine: String,
    /// When the limit was last reached.
    pub since: Millis,
    /// When it ends; absent if a person must decide.
    pub until: Option<Millis>,
    /// Whether the provider named the end; otherwise it is a growing guess.
    pub is_said: bool,
    /// The rate-limited job; `None` if it is private.
    pub job_id: Option<JobId>,
    /// The reason, as a clause without a full stop.
    pub message: String,
}

/// An engine of the script.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EngineRow {
    /// Its name.
    pub name: String,
    /// `terminal`, `stream`, or the type of its body.
    #[serde(rename = "type")]
    pub kind: String,
    /// The format of its output.
    pub reads: Option<String>,
    /// `hold` or `go_on`.
    pub on_rate_limit: String,
    /// Its hold, if it is held.
    pub hold: Option<EngineHold>,
}

/// The query of `POST /api/engines/{name}/release`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseQuery {
    /// A person, for whose own jobs only the engine is on hold; admins only.
    pub person: Option<String>,
}

/// The response of `POST /api/engines/{name}/release`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EngineReleased {
    /// The engine.
    pub engine: String,
    /// Always absent.
    pub hold: Option<EngineHold>,
}
