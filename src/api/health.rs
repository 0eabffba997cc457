//! The health of the site, for people and for monitoring.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::api::config::ScriptView;
use crate::base::Millis;

/// The response of `GET /healthz` and `GET /readyz`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Health {
    /// `ok` or `ready`.
    pub status: Cow<'static, str>,
}

/// The problems of the site.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "SiteHealth"))]
pub struct Report {
    /// `ok`, `degraded` or `corrupt`.
    pub status: Cow<'static, str>,
    /// What prevents writing.
    pub database: Option<Database>,
    /// Its generation, the error of the last reload, and whether it is stuck.
    pub script: ScriptView,
    /// Numbers of waiting and running jobs.
    pub jobs: JobCounts,
}

/// A problem that prevents writing.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DatabaseTrouble"))]
pub struct Database {
    /// A stable code.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// When it began.
    pub since: Millis,
}

/// Numbers of jobs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobCounts {
    /// Waiting jobs.
    pub queued: i64,
    /// Running jobs.
    pub running: i64,
}
