//! The states and kinds of approvals.

use std::fmt;
use std::str::FromStr;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::{Serialize, Serializer};

use crate::base::{Error, Result};

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
