//! What an agent said and did, as its engine reads it: the last entries of its stream, and sums.

use serde_json::Value;

use crate::base::{ErrorKind, JobId, Result};
use crate::flows::{self, Site};
use crate::http::pages::parts::labels;
use crate::http::pages::parts::view::Job;
use crate::jobs::{Step, StepKind};
use crate::people::Caller;
use crate::script::Reads;

/// Entries on the page of a job.
const ENTRIES: usize = 60;
/// Characters of one entry there.
const CHARS_MAX: usize = 4_000;

/// What an agent said and did.
#[derive(Debug)]
pub(in crate::http::pages) struct Said {
    pub(in crate::http::pages) steps: Vec<Step>,
    /// How many there are before these.
    pub(in crate::http::pages) earlier: usize,
    pub(in crate::http::pages) facts: Facts,
}

/// What all entries add up to, together with what the job's row says.
#[derive(Debug, Default)]
pub(in crate::http::pages) struct Facts {
    pub(in crate::http::pages) models: String,
    pub(in crate::http::pages) messages: i64,
    pub(in crate::http::pages) tool_calls: i64,
    pub(in crate::http::pages) turns: Option<i64>,
    pub(in crate::http::pages) read: Option<i64>,
    pub(in crate::http::pages) cached: Option<i64>,
    pub(in crate::http::pages) written: Option<i64>,
    /// What each model was sent and has written, if there are several.
    pub(in crate::http::pages) by_model: Vec<(String, i64, i64)>,
    /// How many entries there are: a script asks whether there are more.
    pub(in crate::http::pages) entries: u64,
}

impl Said {
    /// Returns the text of a step, or the beginning of a long one.
    pub(in crate::http::pages) fn words(step: &Step) -> String {
        labels::beginning(&step.text, CHARS_MAX)
    }

    /// Returns the name of the tool that is called.
    pub(in crate::http::pages) fn tool(step: &Step) -> String {
        let name = if step.name.is_empty() { "a tool" } else { &step.name };
        labels::beginning(name, 80)
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
        let of_models = usage["by_model"].as_array().filter(|it| it.len() > 1);
        let by_model = of_models.into_iter().flatten().map(|it| {
            let count = |name: &str| it[name].as_i64().unwrap_or(0);
            let read = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
            let read = read.into_iter().fold(0_i64, |sum, name| sum.saturating_add(count(name)));
            let name = labels::beginning(it["model"].as_str().unwrap_or_default(), 100);
            (name, read, count("output_tokens"))
        });
        Facts {
            by_model: by_model.collect(),
            models: labels::beginning(&models.join(", "), 200),
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
pub(in crate::http::pages) async fn of(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    job: &Job,
) -> Result<Option<Said>> {
    // Of an agent that prints text there is nothing to say beyond its output.
    if !job.reads.as_deref().is_some_and(Reads::tells_steps) {
        return Ok(None);
    }
    let (found, sums) = match flows::jobs::output::stream_end(site, caller, id, ENTRIES).await {
        Ok(found) => found,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    let facts = Facts::of(&sums, job);
    let earlier = usize::try_from(facts.entries).unwrap_or(0).saturating_sub(found.len());
    // The agent, which has the same uid, can have written anything there: what is no entry of ours
    // is passed over.
    let steps = found.iter().filter_map(Step::of);
    let steps = steps.filter(|it| it.kind != StepKind::Started).collect();
    Ok(Some(Said { steps, earlier, facts }))
}
