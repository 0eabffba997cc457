//! Whether the site is well, for people and for what watches over it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::api::config::ScriptView;
use crate::base::Millis;

/// The answer of `GET /healthz` and `GET /readyz`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Health {
    /// `ok` or `ready`.
    pub status: Cow<'static, str>,
}

/// What is wrong with the site.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "SiteHealth"))]
pub struct Report {
    /// `ok`, `degraded` or `corrupt`.
    pub status: Cow<'static, str>,
    /// What stands in the way of writing.
    pub database: Option<Database>,
    /// Its generation, why the last reload was refused, whether it is stuck.
    pub script: ScriptView,
    /// How many jobs wait and run.
    pub jobs: JobCounts,
}

/// What stands in the way of writing.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DatabaseTrouble"))]
pub struct Database {
    /// A stable word.
    pub code: String,
    /// The same for a person.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// When that began.
    pub since: Millis,
}

/// How many jobs there are.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobCounts {
    /// Those that wait.
    pub queued: i64,
    /// Those that run.
    pub running: i64,
}
