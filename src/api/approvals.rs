//! Approvals: what people are asked, and what they decided.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::base::{Actor, Address, ApprovalId, Error, JobId, Millis, PersonId, Result};

/// The code of a second use of a permission.
pub const PERMISSION_USED: &str = "permission_used";

/// A word of a column, with its list.
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
            /// Returns the word in the table.
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
    /// Where an approval is in its life.
    State "a state of an approval" {
        /// Nobody has decided.
        Pending = "pending",
        /// A person said yes.
        Approved = "approved",
        /// A person said yes to a changed payload.
        Amended = "amended",
        /// A person said no.
        Rejected = "rejected",
        /// Whoever asked, or the program, took it back.
        Withdrawn = "withdrawn",
        /// Its time passed.
        Expired = "expired",
    }
}

words! {
    /// What an approval is about.
    Sort "a sort of approval" {
        /// An agent or a person asks.
        Request = "request",
        /// An engine asks whether a tool may be used.
        Permission = "permission",
        /// An assistant asks its person whether a call may be made.
        Call = "call",
    }
}

/// An approval without its texts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Approval {
    /// Its name.
    pub id: ApprovalId,
    /// The label that it was filed under.
    pub channel: String,
    /// What it is about.
    pub sort: Sort,
    /// What is asked, in one line.
    pub title: String,
    /// Where it is.
    pub state: State,
    /// Counts its changes, from 1.
    pub version: i64,
    /// Who asks.
    pub requester: Actor,
    /// How the requester is called; flows fill it in.
    pub requester_name: Option<String>,
    /// The address of the requester, if it has one.
    pub from: Option<Address>,
    /// The job that asks.
    pub job_id: Option<JobId>,
    /// The first leg of that job.
    pub root_id: Option<JobId>,
    /// What was said with the decision.
    pub note: Option<String>,
    /// Who decided.
    pub decided_by: Option<Actor>,
    /// How that one is called; flows fill it in.
    pub decided_by_name: Option<String>,
    /// When it was decided.
    pub decided_at: Option<Millis>,
    /// When it expires.
    pub expires_at: Option<Millis>,
    /// When the permission was used.
    pub used_at: Option<Millis>,
    /// When whoever asked stopped waiting for it.
    #[serde(skip)]
    pub left_at: Option<Millis>,
    /// When it was asked.
    pub created_at: Millis,
    /// The only person who sees it.
    #[serde(skip)]
    pub private_to: Option<PersonId>,
}

/// What an approval is about, word for word.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Texts {
    /// What is to be approved.
    pub payload: Value,
    /// The JSON schema that the payload fits.
    pub schema: Option<Value>,
    /// The payload as it was approved, if it was changed.
    pub changes: Option<Value>,
}

/// One change of an approval.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Past {
    /// The version that it led to.
    pub version: i64,
    /// `created`, or the state that it led to.
    pub event: String,
    /// Who did it.
    pub actor: Actor,
    /// How they are called; flows fill it in.
    pub actor_name: Option<String>,
    /// When.
    pub at: Millis,
    /// What else is known: a `note`.
    pub data: Value,
}

/// What became of an approval.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApprovalOutcome {
    /// Its name.
    pub id: ApprovalId,
    /// Where it is.
    pub state: State,
    /// Counts its changes, from 1.
    pub version: i64,
    /// What was approved: the changed one, if it was changed.
    pub payload: Value,
    /// What was said with the decision.
    pub note: Option<String>,
    /// Who decided.
    pub decided_by: Option<Actor>,
}

/// The answer of `POST /api/agent/permissions`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PermissionAsked {
    /// The question.
    pub id: ApprovalId,
    /// Where it is.
    pub state: State,
    /// How long the engine is to wait for it.
    pub wait_ms: u64,
}

/// Whether an engine may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// With the input that a person approved.
    Allow,
    /// Not.
    Deny,
}

/// What an engine is told about its call, in its own words.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PermissionAnswer {
    /// Whether it may make it.
    pub behavior: Behavior,
    /// The input that was approved.
    #[serde(rename = "updatedInput", default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether its turn ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupt: bool,
}

/// Something that waits for a decision.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Decision {
    /// `proposal`, `approval`, `permission`, `call` or `held`.
    pub what: Cow<'static, str>,
    /// The id of that.
    pub id: String,
    /// What is asked, in one line.
    pub title: String,
    /// Who asks.
    pub from: String,
    /// Where it belongs: a document, or a channel.
    pub place: String,
    /// Since when it waits.
    pub since: Millis,
    /// When it expires.
    pub expires_at: Option<Millis>,
    /// The address of its page.
    pub link: String,
}
