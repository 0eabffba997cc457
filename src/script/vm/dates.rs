//! `wb.date`: the time of a call, and arithmetic on times.
//!
//! **Invariant:** the time of a call comes from the core and does not change during it; a loading
//! script has none, so that it loads the same every time.

use std::rc::Rc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mlua::{Function, Lua, Table, Value};

use crate::base::limit::parse_duration;
use crate::script::vm::session::{Caller, Session};

/// Longest pattern of `wb.date.format`, in bytes.
const PATTERN_BYTES_MAX: usize = 200;

/// Returns `{ now, format, add, seconds }`.
pub(crate) fn table(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("now", now(lua, session)?)?;
    table.raw_set("format", format(lua)?)?;
    table.raw_set("add", add(lua)?)?;
    let seconds = lua.create_function(|lua, at: Value| {
        Ok(time(&Caller::of(lua), "seconds", &at)?.as_second())
    })?;
    table.raw_set("seconds", seconds)?;
    Ok(table)
}

/// `wb.date.now()`: RFC 3339 in UTC.
fn now(lua: &Lua, session: &Rc<Session>) -> mlua::Result<Function> {
    let session = Rc::clone(session);
    lua.create_function(move |lua, ()| match session.rights() {
        Some(rights) => Ok(rights.now.rfc3339()),
        None => {
            let message = "wb.date.now can be called inside of functions only: a script that \
                loads again must say the same";
            Err(Caller::of(lua).error(message))
        }
    })
}

/// `wb.date.format(at, "%A, %d %B %Y", "Europe/Berlin")`; without a zone in UTC.
fn format(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, (at, pattern, zone): (Value, Value, Value)| {
        let caller = Caller::of(lua);
        let at = time(&caller, "format", &at)?;
        let Value::String(pattern) = pattern else {
            return Err(caller.error("wb.date.format takes a pattern like \"%Y-%m-%d\""));
        };
        let pattern = pattern.to_string_lossy();
        if pattern.len() > PATTERN_BYTES_MAX || has_width(&pattern) {
            let message = "wb.date.format takes a short pattern without widths: write \"%Y-%m-%d\"";
            return Err(caller.error(message));
        }
        let zone = match zone {
            Value::Nil => TimeZone::UTC,
            Value::String(name) => {
                let name = name.to_string_lossy();
                zone_of(&name).ok_or_else(|| {
                    let shown = name.escape_debug();
                    caller.error(format!("unknown time zone `{shown}`: {}", zone_note(&name)))
                })?
            }
            _ => return Err(caller.error("wb.date.format takes a zone like \"Europe/Berlin\"")),
        };
        jiff::fmt::strtime::format(&*pattern, &at.to_zoned(zone))
            .map_err(|cause| caller.error(format!("wb.date.format: {cause}: write \"%Y-%m-%d\"")))
    })
}

/// A width could request a text of many gigabytes.
fn has_width(pattern: &str) -> bool {
    let after =
        |part: &str| part.starts_with(|c: char| c.is_ascii_digit() || "_-+^#:.".contains(c));
    pattern.split('%').skip(1).any(after)
}

/// `wb.date.add(at, "1h")`; a leading `-` subtracts.
fn add(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, (at, duration): (Value, Value)| {
        let caller = Caller::of(lua);
        let at = time(&caller, "add", &at)?;
        let Value::String(text) = duration else {
            return Err(caller.error("wb.date.add takes a duration like \"1h\" or \"-7d\""));
        };
        let text = text.to_string_lossy();
        let (is_back, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, &*text),
        };
        let duration = parse_duration(text).map_err(|cause| caller.error(cause.message()))?;
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let moved = at.as_millisecond().saturating_add(if is_back { -ms } else { ms });
        match Timestamp::from_millisecond(moved) {
            Ok(at) => Ok(format!("{at:.3}")),
            Err(_) => Err(caller.error("wb.date.add leaves the years that there are")),
        }
    })
}

fn time(caller: &Caller, what: &str, at: &Value) -> mlua::Result<Timestamp> {
    let text = match at {
        Value::String(text) => text.to_string_lossy(),
        other => {
            let is = other.type_name();
            let takes = "takes a time like \"2026-01-02T03:04:05Z\"";
            return Err(caller.error(format!("wb.date.{what} {takes}, not a {is}")));
        }
    };
    text.parse().map_err(|_| {
        let shown = crate::base::truncate_chars(&text, 80);
        caller.error(format!("`{}` is not a time like 2026-01-02T03:04:05Z", shown.escape_debug()))
    })
}

/// Returns a time zone by its name, such as `Europe/Berlin`, `UTC` or `local`.
pub(crate) fn zone_of(name: &str) -> Option<TimeZone> {
    match name {
        "local" => Some(TimeZone::system()),
        "UTC" => Some(TimeZone::UTC),
        name => TimeZone::get(name).ok(),
    }
}

/// Returns the hint for an unknown zone: a city must follow its continent.
pub(crate) fn zone_note(name: &str) -> String {
    let meant = name.trim().replace(' ', "_").to_ascii_lowercase();
    let city = |zone: &str| zone.rsplit('/').next().is_some_and(|it| it == meant);
    let mut zones = jiff::tz::db().available();
    let found = zones.find(|it| !meant.is_empty() && city(&it.as_str().to_ascii_lowercase()));
    match found {
        Some(zone) => format!("write \"{zone}\""),
        None => "write \"Europe/Berlin\", \"UTC\" or \"local\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_city_is_found_behind_its_continent() {
        assert_eq!(zone_note("New York"), "write \"America/New_York\"");
        assert_eq!(zone_note("berlin"), "write \"Europe/Berlin\"");
        for unknown in ["", "Mars/Base", "+02:00"] {
            assert!(zone_note(unknown).contains("\"UTC\""), "{unknown}");
        }
    }

    #[test]
    fn a_pattern_cannot_ask_for_a_width() {
        for bad in ["%999999999d", "%_5d", "%-d", "a%9S"] {
            assert!(has_width(bad), "{bad}");
        }
        for good in ["%Y-%m-%d", "%A", "100 %d"] {
            assert!(!has_width(good), "{good}");
        }
    }
}
