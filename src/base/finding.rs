//! A result of a health check.

use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// Works as intended.
    Ok,
    /// The site works, but is weaker than it could be.
    Warn,
    /// The site cannot work, or a guarantee does not hold.
    Error,
}

impl Level {
    /// Returns the stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Ok => "OK",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        }
    }
}

/// One line of `wiki-browser doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// What was checked.
    pub what: &'static str,
    /// Its severity.
    pub level: Level,
    /// What was found.
    pub says: String,
    /// What the operator can do about it.
    pub advice: Option<String>,
}

impl Finding {
    /// Returns a passed check.
    pub fn ok(what: &'static str, says: impl Into<String>) -> Finding {
        Finding { what, level: Level::Ok, says: says.into(), advice: None }
    }

    /// Returns a warning with a remedy.
    pub fn warn(what: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { what, level: Level::Warn, says: says.into(), advice: Some(advice.into()) }
    }

    /// Returns a failed check with a remedy.
    pub fn error(
        what: &'static str,
        says: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding { what, level: Level::Error, says: says.into(), advice: Some(advice.into()) }
    }
}
