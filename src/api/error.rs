//! The envelope of every refusal.

use serde::{Deserialize, Serialize};

/// The answer with a status of 400 or more.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Refusal {
    /// What is wrong.
    pub error: RefusalView,
}

/// What is wrong with a request, or with the site.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RefusalView {
    /// A stable word for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The input that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The request in the log of the server; of a fault only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}
