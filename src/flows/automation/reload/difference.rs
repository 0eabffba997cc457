//! The difference between two generations of the script.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::flows::automation::reload::waiting::Count;
use crate::script::{Config, Kind};

/// The difference between the active generation and another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    /// What was added, changed and removed.
    pub changes: Vec<Change>,
    /// Changes in the file that need a restart.
    pub needs_restart: Vec<String>,
    /// Files that were changed, added or removed.
    pub files: Vec<String>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// `kind "incorporate"`, `limits`.
    pub what: String,
    /// `added`, `changed` or `removed`.
    pub how: Cow<'static, str>,
    /// For a removed kind, the number of its queued and parked jobs, which wait until it is back;
    /// for an agent, of its messages, which are dropped at the next start or within an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<i64>,
    /// How many of them are parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<i64>,
    /// Commands of an added or changed kind or inbox, besides its engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
}

/// A command of a declaration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ScheduleRun"))]
pub struct Run {
    /// `prepare`, `start` or `cleanup`.
    pub when: Cow<'static, str>,
    /// The command as written; for a file, its path and its text.
    pub command: String,
}

impl Difference {
    /// Compares two generations.
    pub fn of(old: &Config, new: &Config, needs_restart: Vec<String>) -> Difference {
        let mut changes = Vec::new();
        let (before, after) = (parts(old), parts(new));
        for (what, part) in &before {
            match after.get(what) {
                None => changes.push(change(what, "removed")),
                Some(other) if other != part => changes.push(change(what, "changed")),
                Some(_) => {}
            }
        }
        let added = after.keys().filter(|it| !before.contains_key(*it));
        changes.extend(added.map(|what| change(what, "added")));
        for kind in new.kinds.values() {
            let title = kind.title();
            if let Some(change) = changes.iter_mut().find(|it| it.what == title) {
                let commands = kind.hooks.commands().into_iter();
                change.runs =
                    commands.map(|(when, command)| Run { when: when.into(), command }).collect();
            }
        }
        let texts = |config: &Config| {
            let pairs = config.files.iter().map(|it| (it.path.to_string(), it.text.clone()));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let (before, after) = (texts(old), texts(new));
        let all = before.keys().chain(after.keys().filter(|it| !before.contains_key(*it)));
        let files = all.filter(|it| before.get(*it) != after.get(*it)).cloned().collect();
        Difference { changes, needs_restart, files }
    }

    /// Counts the waiting jobs of removed kinds and the messages of removed agents. What a kind
    /// with `was` takes over does not wait for the removed one.
    pub(super) fn note_waiting(
        &mut self,
        old: &Config,
        new: &Config,
        queued: &BTreeMap<String, Count>,
    ) {
        let is_gone = |name: &str| {
            let takes_over = |it: &Kind| it.was.as_deref() == Some(name);
            !new.kinds.contains_key(name) && !new.kinds.values().any(takes_over)
        };
        for kind in old.kinds.values().filter(|it| is_gone(&it.name)) {
            let count = queued.get(&kind.name).copied().unwrap_or_default();
            let title = kind.title();
            if let Some(change) = self.changes.iter_mut().find(|it| it.what == title) {
                change.waiting = Some(count.all);
                change.parked = Some(count.parked).filter(|it| *it > 0);
            }
        }
    }

    /// Returns the removed kinds with the number of their waiting jobs.
    pub fn removed_kinds(&self) -> Value {
        let removed = self.changes.iter().filter(|it| it.waiting.is_some());
        removed.map(|it| json!({"what": it.what, "waiting": it.waiting})).collect()
    }

    /// Returns each change as one line.
    pub fn names(&self) -> Vec<String> {
        self.changes.iter().map(|it| format!("{} {}", it.what, it.how)).collect()
    }

    /// Returns everything in one line.
    pub fn sentence(&self) -> String {
        let mut parts = self.names();
        if parts.is_empty() {
            parts.push(match self.files.is_empty() {
                true => "nothing is different".to_owned(),
                false => format!("other texts in {}", self.files.join(", ")),
            });
        }
        if !self.needs_restart.is_empty() {
            parts.push(format!("needs a restart: {}", self.needs_restart.join(", ")));
        }
        parts.join("; ")
    }
}

fn change(what: &str, how: &'static str) -> Change {
    Change { what: what.to_owned(), how: how.into(), waiting: None, parked: None, runs: Vec::new() }
}

/// Returns every declaration as plain data, without its position in the text.
fn parts(config: &Config) -> BTreeMap<String, Value> {
    let mut parts = BTreeMap::new();
    let mut add = |what: String, value: Value| drop(parts.insert(what, placeless(value)));
    add("identity".to_owned(), json!(config.identity));
    add("limits".to_owned(), json!(config.limits));
    for (name, it) in &config.engines {
        add(format!("engine \"{name}\""), json!(it));
    }
    for it in config.kinds.values() {
        add(it.title(), json!(it));
    }
    for (name, it) in &config.schedules {
        let value = json!({"timing": it.describe(), "missed": it.missed, "enqueue": it.enqueue});
        add(format!("schedule \"{name}\""), value);
    }
    if let Some(it) = &config.assistant {
        add("assistant".to_owned(), json!(it));
    }
    let words = &config.channels;
    add("channels".to_owned(), json!([words.primer, words.footer, words.catch_up]));
    for (name, it) in &words.types {
        add(format!("channel_type \"{name}\""), json!(it));
    }
    for (name, it) in &config.webhooks {
        add(format!("webhook \"{name}\""), json!(it));
    }
    let mut handlers: BTreeMap<&str, u32> = BTreeMap::new();
    for handler in &config.handlers {
        *handlers.entry(handler.event.as_str()).or_default() += 1;
    }
    for (event, count) in handlers {
        add(format!("handlers of {event}"), json!(count));
    }
    parts
}

fn placeless(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_place = |name: &str, value: &Value| {
                (name == "at" && value.is_object()) || (name == "number" && value.is_u64())
            };
            let kept = fields.into_iter().filter(|(name, value)| !is_place(name, value));
            Value::Object(kept.map(|(name, value)| (name, placeless(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(placeless).collect()),
        other => other,
    }
}

/// Returns the part of a new script that can be activated now, and the names of the rest.
pub(super) fn settled(old: &Config, new: &Config) -> (Config, Vec<String>) {
    let mut config = new.clone();
    let (before, after) = (json!(old.site), json!(new.site));
    let mut waits: Vec<String> = match (before.as_object(), after.as_object()) {
        (Some(before), Some(after)) => after
            .iter()
            .filter(|(name, value)| before.get(*name) != Some(*value))
            .map(|(name, _)| format!("site.{name}"))
            .collect(),
        _ => Vec::new(),
    };
    if old.limits.grace != new.limits.grace {
        waits.push("limits.grace".to_owned());
    }
    config.site = old.site.clone();
    config.limits.grace = old.limits.grace;
    (config, waits)
}
