//! The clock as a handle that tests can set.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::UNIX_EPOCH;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base::fault;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z. Serialized as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

impl Millis {
    /// Returns this time plus `ms` milliseconds.
    #[must_use]
    pub fn plus(self, ms: i64) -> Millis {
        Millis(self.0.saturating_add(ms))
    }

    /// Returns the time to the minute in UTC, for people: `2026-01-02 03:04`.
    pub fn minute(self) -> String {
        self.rfc3339().get(..16).unwrap_or_default().replace('T', " ")
    }

    /// Returns RFC 3339 in UTC with milliseconds, for example `2026-01-02T03:04:05.678Z`.
    pub fn rfc3339(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => format!("{at:.3}"),
            Err(_) => format!("{}ms", self.0),
        }
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.rfc3339())
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Millis(at.as_millisecond()))
    }
}

impl ToSql for Millis {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql().map(|_| ToSqlOutput::from(self.0))
    }
}

impl FromSql for Millis {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Millis)
    }
}

/// The system clock, or a fixed one set by a test.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// Returns the system's clock.
    pub fn system() -> Clock {
        Clock(None)
    }

    /// Returns a clock that stays at `start` until [`Clock::advance`].
    pub fn fixed(start: Millis) -> Clock {
        Clock(Some(Arc::new(AtomicI64::new(start.0))))
    }

    /// Returns the current time.
    pub fn now(&self) -> Millis {
        match &self.0 {
            Some(fixed) => Millis(fixed.load(Ordering::SeqCst)),
            None => system_now(),
        }
    }

    /// Advances a fixed clock; does nothing to the system clock.
    pub fn advance(&self, ms: i64) {
        if let Some(fixed) = &self.0 {
            fixed.fetch_add(ms, Ordering::SeqCst);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that asks the system for the time")]
fn system_now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)).plus(fault::clock_shift_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_rfc_3339_with_milliseconds() {
        let at = serde_json::to_string(&Millis(1_700_000_000_120)).unwrap();
        assert_eq!(at, "\"2023-11-14T22:13:20.120Z\"");
    }
}
