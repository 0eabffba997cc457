//! Sets of words that are the same in Rust, SQL and JSON.

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

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D>(from: D) -> std::result::Result<Self, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                let word = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                word.parse().map_err(|cause: crate::base::Error| {
                    serde::de::Error::custom(cause.message())
                })
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

pub(crate) use word_enum;
