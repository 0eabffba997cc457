//! The envelope of every error.

use serde::{Deserialize, Serialize};

/// The response with a status of 400 or more.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Refusal {
    /// The error.
    pub error: RefusalView,
}

/// An error of a request or of the site.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RefusalView {
    /// A stable code for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// The invalid input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The id of the request in the server's log; only for a 5xx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}
