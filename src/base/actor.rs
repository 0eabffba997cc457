//! The author of an action, as one validated string.

use std::fmt;
use std::str::FromStr;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base::{Error, JobId, PersonId, Result};

/// The author of an action: `person:ID`, `persona:NAME`, `job:ID`, `host:ID`, `schedule:NAME`,
/// `webhook:NAME`, `script`, `system`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// A human.
    Person(PersonId),
    /// A named role for an agent.
    Persona(String),
    /// A job, acting through its token.
    Job(JobId),
    /// A host that runs agents for this site.
    Host(String),
    /// A schedule.
    Schedule(String),
    /// An external caller whose request signature was verified.
    Webhook(String),
    /// A function of the script.
    Script,
    /// This program.
    System,
}

impl Actor {
    /// Returns the person's id, if this is a person.
    pub fn person(&self) -> Option<&PersonId> {
        match self {
            Actor::Person(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the job's id, if this is a job.
    pub fn job(&self) -> Option<&JobId> {
        match self {
            Actor::Job(id) => Some(id),
            _ => None,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::Person(id) => write!(f, "person:{id}"),
            Actor::Persona(name) => write!(f, "persona:{name}"),
            Actor::Job(id) => write!(f, "job:{id}"),
            Actor::Host(id) => write!(f, "host:{id}"),
            Actor::Schedule(name) => write!(f, "schedule:{name}"),
            Actor::Webhook(name) => write!(f, "webhook:{name}"),
            Actor::Script => f.write_str("script"),
            Actor::System => f.write_str("system"),
        }
    }
}

impl FromStr for Actor {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("`{text}` is not an actor"));
        match text {
            "system" => return Ok(Actor::System),
            "script" => return Ok(Actor::Script),
            _ => {}
        }
        let (sort, name) = text.split_once(':').ok_or_else(wrong)?;
        if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
            return Err(wrong());
        }
        match sort {
            "person" => name.parse().map(Actor::Person),
            "job" => name.parse().map(Actor::Job),
            "persona" => Ok(Actor::Persona(name.to_owned())),
            "host" => Ok(Actor::Host(name.to_owned())),
            "schedule" => Ok(Actor::Schedule(name.to_owned())),
            "webhook" => Ok(Actor::Webhook(name.to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl ToSql for Actor {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.to_string()))
    }
}

impl FromSql for Actor {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = String::column_result(value)?;
        text.parse().map_err(|cause: Error| FromSqlError::Other(Box::new(cause)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_survives_its_text() {
        for text in [
            "system",
            "script",
            "persona:editor",
            "webhook:issues",
            "job:018bcfe5-6800-7000-8000-000000000000",
        ] {
            assert_eq!(text.parse::<Actor>().unwrap().to_string(), text);
        }
        for text in ["", "person:", "person:me", "root:x", "persona:a\nb"] {
            assert!(text.parse::<Actor>().is_err(), "{text}");
        }
    }
}
