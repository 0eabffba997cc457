//! What jobs have spent, what may still be spent today, and engines whose provider takes no more.

use serde::{Deserialize, Serialize};

use crate::api::jobs::Usage;
use crate::base::{JobId, Millis};

/// Sums, with how a person is called.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsageRow {
    /// The sums.
    #[serde(flatten)]
    pub usage: Usage,
    /// The person, if they are of one.
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

/// What was spent, and how much of each daily cap is used.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spending {
    /// What the rows are for: `day`, `kind`, `person` or `engine`.
    pub by: String,
    /// The first day, in UTC.
    pub since: String,
    /// The sums.
    pub items: Vec<UsageRow>,
    /// All of them together.
    pub total: Usage,
    /// The daily caps.
    pub caps: Vec<CapRow>,
    /// Nothing: there is one page.
    pub next: Option<String>,
}

/// Why an engine is held, and until when.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EngineHold {
    /// The engine.
    pub engine: String,
    /// When that was last found.
    pub since: Millis,
    /// When it is over; nothing if a person has to decide.
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
    /// `terminal`, `stream`, or what its body is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The form of its output.
    pub reads: Option<String>,
    /// `hold` or `go_on`.
    pub on_rate_limit: String,
    /// Its hold, if it is held.
    pub hold: Option<EngineHold>,
}

/// The answer of `POST /api/engines/{name}/release`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EngineReleased {
    /// The engine.
    pub engine: String,
    /// Nothing.
    pub hold: Option<EngineHold>,
}
