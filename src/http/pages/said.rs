//! What an agent said and did, as its engine reads it: the last entries of its stream, and sums.

use serde::Deserialize;
use serde_json::Value;

use crate::base::{ErrorKind, JobId, Result};
use crate::flows::{self, Site};
use crate::http::pages::view::{Job, read};
use crate::http::pages::words;
use crate::people::Caller;
use crate::script::Reads;

/// Entries on the page of a job.
const ENTRIES: usize = 60;
/// Characters of one entry there.
const CHARS_MAX: usize = 4_000;

/// What an agent said and did.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) entries: Vec<Entry>,
    /// How many there are before these.
    pub(super) earlier: usize,
    pub(super) facts: Facts,
}

/// One entry.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub(super) seq: u64,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    text: Value,
    #[serde(default)]
    name: Value,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    pub(super) ok: Option<bool>,
}

/// What all entries add up to, together with what the job's row says.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) models: String,
    pub(super) messages: i64,
    pub(super) tool_calls: i64,
    pub(super) turns: Option<i64>,
    pub(super) read: Option<i64>,
    pub(super) cached: Option<i64>,
    pub(super) written: Option<i64>,
    /// How many entries there are: a script asks whether there are more.
    pub(super) entries: u64,
}

impl Entry {
    /// Returns whether a person is shown it.
    fn is_shown(&self) -> bool {
        matches!(&*self.kind, "text" | "tool_call" | "tool_result" | "reset" | "done")
    }

    /// Returns its text, or the beginning of a long one.
    pub(super) fn words(&self) -> String {
        let text = match &*self.kind {
            "tool_call" => &self.input,
            "reset" => &self.error,
            _ => &self.text,
        };
        let text = match text {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        words::beginning(&text, CHARS_MAX)
    }

    /// Returns the first line of its text, for one that is folded.
    pub(super) fn first_line(&self) -> String {
        let words = self.words();
        words::beginning(words.trim().lines().next().unwrap_or_default(), 100)
    }

    /// Returns the name of the tool that is called.
    pub(super) fn tool(&self) -> String {
        words::beginning(self.name.as_str().unwrap_or("a tool"), 80)
    }
}

impl Facts {
    fn of(sums: &Value, job: &Job) -> Facts {
        // The row counts as soon as there is one.
        let usage = job.usage.as_ref().unwrap_or(&sums["usage"]);
        let models: Vec<&str> = match usage["models"].as_array() {
            Some(models) if !models.is_empty() => models.iter().filter_map(Value::as_str).collect(),
            _ => sums["model"].as_str().into_iter().collect(),
        };
        let add = |a: &str, b: &str| match (usage[a].as_i64(), usage[b].as_i64()) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Facts {
            models: words::beginning(&models.join(", "), 200),
            messages: sums["texts"].as_i64().unwrap_or(0),
            tool_calls: sums["tool_calls"].as_i64().unwrap_or(0),
            turns: usage["turns"].as_i64(),
            read: add("input_tokens", "cache_creation_input_tokens"),
            cached: usage["cache_read_input_tokens"].as_i64(),
            written: usage["output_tokens"].as_i64(),
            entries: sums["entries"].as_u64().unwrap_or(0),
        }
    }
}

/// Returns what a job's agent said and did; nothing if its engine does not read that, or if it is
/// not kept any more.
pub(super) async fn of(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    job: &Job,
) -> Result<Option<Said>> {
    // Of an agent that prints text there is nothing to say beyond its output.
    if !matches!(job.reads.as_deref(), Some(word) if Reads::ALL.iter().any(|it| it.as_str() == word && it.tells_steps()))
    {
        return Ok(None);
    }
    let (found, sums) = match flows::output::stream_end(site, caller, id, ENTRIES).await {
        Ok(found) => found,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    let facts = Facts::of(&sums, job);
    let earlier = usize::try_from(facts.entries).unwrap_or(0).saturating_sub(found.len());
    // The agent, which has the same uid, can have written anything there: what is no entry of ours
    // is passed over.
    let entries = found.into_iter().filter_map(|it| read::<Entry>(it).ok());
    let entries = entries.filter(Entry::is_shown).collect();
    Ok(Some(Said { entries, earlier, facts }))
}
