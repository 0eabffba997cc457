//! Enums with the same names in Rust, SQL and JSON, and rules for text written by people.

use crate::base::{Error, ErrorKind, Result};

/// Defines an enum whose variants are stored and shown as one fixed name each.
macro_rules! word_enum {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// Returns the stored name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::base::Error;
            fn from_str(word: &str) -> crate::base::Result<Self> {
                let found = Self::ALL.iter().copied().find(|it| it.as_str() == word);
                found.ok_or_else(|| {
                    let shown = crate::base::truncate_chars(word, 40);
                    let all: Vec<&str> = Self::ALL.iter().map(|it| it.as_str()).collect();
                    crate::base::Error::invalid(format!(
                        "`{}` is not one of {}", shown.escape_debug(), all.join(", ")
                    ))
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S>(&self, to: S) -> std::result::Result<S::Ok, S::Error>
            where
                S: serde::Serializer,
            {
                to.serialize_str(self.as_str())
            }
        }

        #[cfg(test)]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words: Vec<&str> = Self::ALL.iter().map(|it| it.as_str()).collect();
                schemars::json_schema!({"type": "string", "enum": words})
            }
        }

        impl rusqlite::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(rusqlite::types::ToSqlOutput::from(self.as_str()))
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(
                value: rusqlite::types::ValueRef<'_>,
            ) -> rusqlite::types::FromSqlResult<Self> {
                value.as_str()?.parse().map_err(|cause: crate::base::Error| {
                    rusqlite::types::FromSqlError::Other(Box::new(cause))
                })
            }
        }
    };
}

pub(in crate::documents) use word_enum;

/// Refuses text of a person or agent that is empty, too long, or contains control characters other
/// than line feed and tab. `what` names it in the error.
pub(in crate::documents) fn check_text(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() > bytes_max {
        let message = format!("the {what} has {} bytes, {bytes_max} are allowed", text.len());
        return Err(Error::new(ErrorKind::TooLarge, message).hint("make it shorter"));
    }
    if text.trim().is_empty() {
        return Err(Error::invalid(format!("the {what} is empty")).hint("write some text"));
    }
    match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        None => Ok(()),
        Some(c) => {
            let shown = u32::from(c);
            Err(Error::invalid(format!("the {what} has the control character U+{shown:04X}"))
                .hint("only line feeds and tabs are allowed"))
        }
    }
}

/// Refuses text that is not a single line of printable characters.
pub(in crate::documents) fn check_line(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    check_text(what, text, bytes_max)?;
    if text.contains(['\n', '\t']) {
        let message = format!("the {what} is not a single line");
        return Err(Error::invalid(message).hint("leave the line breaks out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_refused_and_plain_text_is_not() {
        for good in ["a", "a\nb\tc", "日本語", "e\u{301}", "👩‍👩‍👧"] {
            assert!(check_text("message", good, 100).is_ok(), "{good:?}");
        }
        for bad in ["", " \n\t", "a\0b", "a\rb", "\u{1b}[31m", "a\u{85}b"] {
            assert!(check_text("message", bad, 100).is_err(), "{bad:?}");
        }
        assert_eq!(check_text("message", "abc", 2).unwrap_err().kind(), ErrorKind::TooLarge);
        assert!(check_line("title", "a\nb", 100).is_err());
    }
}
