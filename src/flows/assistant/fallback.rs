//! A subscription that cannot be used: the site's key answers instead, if the script allows it.
//!
//! **Invariant:** only before a reader has seen anything of the answer, and only once per run.
//! **Invariant:** the run's mode and the job's engine change in one transaction, so usage, cost and
//! limits count for the engine that really answered.

use std::sync::Arc;

use crate::base::{Error, Result};
use crate::chat::model::Fault;
use crate::chat::{self, Item, Line, Run};
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::{Seat, closed};
use crate::flows::{Site, Works};
use crate::jobs::{self, Task};
use crate::people;
use crate::script::Mode;

/// Returns the mode that answers instead of a closed one, if it can be used now. `why` is the state
/// of the closed mode, or the code of the fault that it met.
///
/// # Errors
/// As [`closed`].
pub(super) fn instead_of(
    works: &Works,
    seat: &Seat<'_>,
    (mode, why): (Mode, &str),
) -> Result<Option<Mode>> {
    let is_unusable = matches!(
        why,
        "held" | "rate_limited" | "gateway_down" | "auth_invalid" | "model_not_found"
    );
    if !seat.assistant.fallback || mode != Mode::GatewaySubscription || !is_unusable {
        return Ok(None);
    }
    let other = Mode::AnthropicApiKey;
    Ok(closed(works, seat, other)?.is_none().then_some(other))
}

/// Lets another engine answer a run that met a fault, and tells its readers. Returns whether there
/// is one.
///
/// # Errors
/// `conflict` if the job is ending; as reading and writing.
pub(super) async fn fall_back(
    site: &Site,
    task: &Task,
    line: &Arc<Line>,
    fault: &Fault,
) -> Result<bool> {
    let Some((run, other, engine)) = next(site, task, fault)? else { return Ok(false) };
    let (token, job) = (task.token_hash.clone(), task.job.clone());
    let now = site.store.clock().now();
    let wait_ms = |it: std::time::Duration| i64::try_from(it.as_millis()).unwrap_or(i64::MAX);
    let limit = (fault.code == "rate_limited").then(|| fault.wait.map(|it| now.plus(wait_ms(it))));
    let name = engine.clone();
    let changed = site.store.write(move |tx| {
        jobs::fence(tx, &token)?;
        if !chat::note_fallback(tx, &run.job_id, other.as_str())? {
            return Ok(false);
        }
        jobs::change_engine(tx, &job, &name, limit)?;
        Ok(true)
    });
    if !changed.await? {
        return Ok(false);
    }
    let message = format!("{}; the site's key answers instead", fault.message);
    let item = Item::Status { code: "fell_back".to_owned(), message };
    let line = Arc::clone(line);
    on_disk(move || line.push(item)).await?;
    Ok(true)
}

/// Returns the run of a task, with the mode and the engine that could answer it instead.
fn next(site: &Site, task: &Task, fault: &Fault) -> Result<Option<(Run, Mode, String)>> {
    let found = site.store.look(|c| {
        let Some(run) = chat::by_job(c, &task.job.id)? else { return Ok(None) };
        let person = people::find(c, &run.person_id)?;
        Ok(person.map(|person| (run, person)))
    })?;
    let Some((run, person)) = found else { return Ok(None) };
    let config = site.config_of(&task.job.id);
    let (Some(assistant), Some(mode)) = (&config.assistant, Mode::parse(&run.mode)) else {
        return Ok(None);
    };
    let seat = Seat { person, assistant };
    let Some(other) = instead_of(site, &seat, (mode, fault.code))? else { return Ok(None) };
    let engine = assistant.runtimes.get(&other).cloned();
    let engine = engine.ok_or_else(|| Error::internal(format!("{other} has no engine")))?;
    Ok(Some((run, other, engine)))
}
