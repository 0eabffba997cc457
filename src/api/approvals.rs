//! Approvals: requests to people, and their decisions.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::api::jobs::Waiting;
use crate::base::{Actor, Address, ApprovalId, Error, JobId, Millis, PersonId, Result};

/// The code of a second use of a permission.
pub const PERMISSION_USED: &str = "permission_used";

/// Defines an enum stored as a word, with the list of its values.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident $noun:literal {
        $($(#[$of:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            /// Returns the stored word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(word: &str) -> Result<Self> {
                match word {
                    $($word => Ok($name::$variant),)*
                    _ => {
                        let message = format!("`{}` is not {}", word.escape_debug(), $noun);
                        let words = [$($word),*].join(", ");
                        Err(Error::invalid(message).code("bad_parameter")
                            .hint(format!("one of {words}")))
                    }
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
                let word = Cow::<'de, str>::deserialize(from)?;
                word.parse().map_err(|cause: Error| de::Error::custom(cause.message()))
            }
        }

        #[cfg(test)]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                concat!("Approval", stringify!($name)).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words: Vec<&str> = vec![$($word),*];
                schemars::json_schema!({"type": "string", "enum": words})
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.as_str()))
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let word: Result<Self> = value.as_str()?.parse();
                word.map_err(|cause| FromSqlError::Other(Box::new(cause)))
            }
        }
    };
}

words! {
    /// The state of an approval.
    State "a state of an approval" {
        /// Not decided yet.
        Pending = "pending",
        /// Approved by a person.
        Approved = "approved",
        /// Approved by a person with an edited payload.
        Amended = "amended",
        /// Rejected by a person.
        Rejected = "rejected",
        /// Withdrawn by the requester or the program.
        Withdrawn = "withdrawn",
        /// Expired.
        Expired = "expired",
    }
}

words! {
    /// The kind of an approval.
    Sort "a sort of approval" {
        /// A request by an agent or a person.
        Request = "request",
        /// An engine's request to use a tool.
        Permission = "permission",
        /// An assistant's request to its person to make a call.
        Call = "call",
    }
}

/// An approval without its payload.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// Its channel.
    pub channel: String,
    /// Its kind.
    pub sort: Sort,
    /// The request, in one line.
    pub title: String,
    /// Its state.
    pub state: State,
    /// Number of its changes, from 1.
    pub version: i64,
    /// Who requests it.
    pub requester: Actor,
    /// The requester's display name; filled by a flow.
    pub requester_name: Option<String>,
    /// The requester's address, if any.
    pub from: Option<Address>,
    /// The job that requested it.
    pub job_id: Option<JobId>,
    /// That job's root.
    pub root_id: Option<JobId>,
    /// The note with the decision.
    pub note: Option<String>,
    /// Who decided it.
    pub decided_by: Option<Actor>,
    /// The decider's display name; filled by a flow.
    pub decided_by_name: Option<String>,
    /// When it was decided.
    pub decided_at: Option<Millis>,
    /// When it expires.
    pub expires_at: Option<Millis>,
    /// When the permission was used.
    pub used_at: Option<Millis>,
    /// When the requester stopped waiting for it.
    #[serde(skip)]
    pub left_at: Option<Millis>,
    /// When it was requested.
    pub created_at: Millis,
    /// The used-up daily cap that its parked job will wait for, or waits for since the decision;
    /// filled by a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The only person who can see it.
    #[serde(skip)]
    pub private_to: Option<PersonId>,
}

impl Approval {
    /// Returns what people call the requester: the address of an instance, otherwise a name.
    pub fn asker(&self) -> String {
        match (&self.from, &self.job_id) {
            (Some(address), Some(_)) => address.to_string(),
            _ => self.requester_name.clone().unwrap_or_default(),
        }
    }
}

/// The payload of an approval.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Texts {
    /// The payload to be approved.
    pub payload: Value,
    /// The payload's JSON schema.
    pub schema: Option<Value>,
    /// The payload as approved, if it was edited.
    pub changes: Option<Value>,
}

/// One change of an approval.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Past {
    /// The resulting version.
    pub version: i64,
    /// `created`, or the resulting state.
    pub event: String,
    /// Who did it.
    pub actor: Actor,
    /// Their display name; filled by a flow.
    pub actor_name: Option<String>,
    /// When.
    pub at: Millis,
    /// Further data: a `note`.
    pub data: Value,
}

impl Past {
    /// Returns the note that came with it.
    pub fn note(&self) -> Option<&str> {
        self.data["note"].as_str()
    }
}

/// The outcome of an approval.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApprovalOutcome {
    /// Its id.
    pub id: ApprovalId,
    /// Its state.
    pub state: State,
    /// Number of its changes, from 1.
    pub version: i64,
    /// The approved payload, as changed by the approver.
    pub payload: Value,
    /// The note with the decision.
    pub note: Option<String>,
    /// Who decided it.
    pub decided_by: Option<Actor>,
    /// Why the caller should not wait, and what to do instead, if it asked to be told.
    #[serde(default)]
    pub advice: Option<String>,
}

/// The response of `POST /api/agent/permissions`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PermissionAsked {
    /// The approval.
    pub id: ApprovalId,
    /// Its state.
    pub state: State,
    /// How long the engine should wait for the decision.
    pub wait_ms: u64,
}

/// Whether an engine may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// With the approved input.
    Allow,
    /// Refused.
    Deny,
}

/// The answer about a call, in the engine's own terms.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PermissionAnswer {
    /// Whether the engine may make the call.
    pub behavior: Behavior,
    /// The approved input.
    #[serde(rename = "updatedInput", default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    /// The reason for a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether its turn ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupt: bool,
}

/// Something awaiting a decision.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Decision {
    /// `proposal`, `approval`, `permission`, `call`, `held`, `paused` or `escalation`.
    pub what: Cow<'static, str>,
    /// Its id.
    pub id: String,
    /// The request, in one line.
    pub title: String,
    /// The requester.
    pub from: String,
    /// Its document or channel.
    pub place: String,
    /// When it was created.
    pub since: Millis,
    /// When it expires.
    pub expires_at: Option<Millis>,
    /// The used-up daily cap that its parked job will wait for after the decision.
    #[serde(default)]
    pub waiting: Option<Waiting>,
    /// The address of its page.
    pub link: String,
}
