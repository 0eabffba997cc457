//! The words of an approval: where it is in its life, and what it is about.

use std::fmt;
use std::str::FromStr;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::{Serialize, Serializer};

use crate::base::{Error, Result};

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
