//! An agent's transcript, as its engine records it: the last steps, and totals.

use serde_json::Value;

use crate::base::{ErrorKind, JobId, Result};
use crate::flows::{self, Site};
use crate::http::pages::parts::job::Job;
use crate::http::pages::parts::labels;
use crate::jobs::{Step, StepKind};
use crate::people::Caller;
use crate::script::Reads;

/// Steps on a job's page.
const ENTRIES: usize = 60;
/// Characters of a step there.
const CHARS_MAX: usize = 4_000;

/// An agent's transcript.
#[derive(Debug)]
pub(in crate::http::pages) struct Said {
    pub(in crate::http::pages) steps: Vec<Step>,
    /// The number of earlier steps.
    pub(in crate::http::pages) earlier: usize,
    pub(in crate::http::pages) facts: Facts,
}

/// The totals of all steps, with those of the job's row.
#[derive(Debug, Default)]
pub(in crate::http::pages) struct Facts {
    pub(in crate::http::pages) models: String,
    pub(in crate::http::pages) messages: i64,
    pub(in crate::http::pages) tool_calls: i64,
    pub(in crate::http::pages) turns: Option<i64>,
    pub(in crate::http::pages) read: Option<i64>,
    pub(in crate::http::pages) cached: Option<i64>,
    pub(in crate::http::pages) written: Option<i64>,
    /// The usage of each model, if there are several.
    pub(in crate::http::pages) by_model: Vec<(String, i64, i64)>,
    /// The number of steps; the script asks whether there are more.
    pub(in crate::http::pages) entries: u64,
}

impl Said {
    /// Returns the text of a step, cut if it is long.
    pub(in crate::http::pages) fn words(step: &Step) -> String {
        labels::beginning(&step.text, CHARS_MAX)
    }

    /// Returns the name of the called tool.
    pub(in crate::http::pages) fn tool(step: &Step) -> String {
        let name = if step.name.is_empty() { "a tool" } else { &step.name };
        labels::beginning(name, 80)
    }
}

impl Facts {
    fn of(sums: &Value, job: &Job) -> Facts {
        // Once the row has totals, they apply.
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

/// Returns the transcript of a job's agent; `None` if its engine records none or it was deleted.
pub(in crate::http::pages) async fn of(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    job: &Job,
) -> Result<Option<Said>> {
    // An agent that prints plain text has only its output.
    if !job.reads.is_some_and(|it| Reads::tells_steps(it.as_str())) {
        return Ok(None);
    }
    let (found, sums) = match flows::jobs::output::stream_end(site, caller, id, ENTRIES).await {
        Ok(found) => found,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    let facts = Facts::of(&sums, job);
    let earlier = usize::try_from(facts.entries).unwrap_or(0).saturating_sub(found.len());
    // The agent has the same uid and can write anything there, so unknown entries are skipped.
    let steps = found.iter().filter_map(Step::of);
    let steps = steps.filter(|it| it.kind != StepKind::Started).collect();
    Ok(Some(Said { steps, earlier, facts }))
}
