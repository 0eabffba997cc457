//! Agents of which nothing was heard for long: a look at their processes shows whether what they
//! were last heard doing still holds.
//!
//! **Invariant:** only a fact makes an agent idle, busy or blocked. A look at its processes can
//! cast doubt on that, and remove the doubt, but never replaces the fact.

use rusqlite::Connection;

use crate::base::{Millis, Result};
use crate::flows::Works;
use crate::flows::agents::heard::ASKS;
use crate::flows::agents::restart::RESTART;
use crate::jobs::{self, Job, Status, Viewer};
use crate::mail::BELL;
use crate::mail::agent::{self, Agent, State};
use crate::process::{self, Sight};
use crate::script::{Config, kind_of_agent};
use crate::store::Tx;

/// The guard of its process does not answer.
pub(super) const GUARD: &str = "unknown_guard";
/// The process was stopped by a signal.
pub(super) const STOPPED: &str = "unknown_stopped";
/// The process is gone, and its guard has not reported that.
pub(super) const GONE: &str = "unknown_gone";
/// The process runs, and nothing shows that it works.
pub(super) const SILENT: &str = "unknown_silent";

/// The pause between two looks at an agent whose state is unknown, in milliseconds.
const AGAIN_MS: i64 = 30_000;

/// What a look at an agent showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Why its state is unknown; `None` if what was last heard still holds.
    pub(super) doubt: Option<&'static str>,
    /// When to look again at the latest.
    pub(super) again: Millis,
}

/// Looks at an agent if nothing was heard from it for `probe_after`; `None` if it does not run, or
/// a person is asked about it already.
///
/// # Errors
/// `unavailable` if its processes cannot be looked at.
pub(super) fn look(
    c: &Connection,
    config: &Config,
    agent: &Agent,
    now: Millis,
) -> Result<Option<Look>> {
    let kind = config.kinds.get(&kind_of_agent(&agent.declared));
    let Some(declared) = kind.and_then(|it| it.agent.as_ref()) else { return Ok(None) };
    let after = i64::try_from(declared.probe_after.as_millis()).unwrap_or(i64::MAX);
    let reason = agent.reason.as_deref().unwrap_or_default();
    if !agent.state.is_live() || reason == RESTART || reason.starts_with(ASKS) {
        return Ok(None);
    }
    let holds_until = |heard: Option<Millis>| {
        let until = heard.map(|it| Millis(it.0.saturating_add(after)));
        until.filter(|it| *it > now).map(|again| Some(Look { doubt: None, again }))
    };
    let Some(id) = &agent.job_id else { return Ok(holds_until(agent.fact_at).flatten()) };
    let job = jobs::find_brief(c, &Viewer::Program, id)?;
    let is_followed =
        matches!((job.status, job.ending_at, &job.cancelled_by), (Status::Running, None, None));
    if is_followed && job.unanswered_at.is_some() {
        // Whatever was heard: nothing it says now is heard.
        let again = Millis(now.0.saturating_add(AGAIN_MS));
        return Ok(Some(Look { doubt: Some(GUARD), again }));
    }
    if let Some(look) = holds_until(agent.fact_at) {
        return Ok(look);
    }
    if !is_followed {
        return Ok(None);
    }
    let Some(guard) = &job.guard else { return Ok(None) };
    let printed = process::last_printed(&jobs::job_dir(&config.site.data, id))?;
    if let Some(look) = holds_until(job.started_at.max(printed)) {
        return Ok(look);
    }
    let speech = kind.and_then(|it| config.engines.get(&it.engine)?.speech.as_ref());
    // A screen shows whether its program works; what it draws is not in its output.
    let is_typed = speech.is_some_and(|it| it.typed.is_some());
    let doubt = match process::look_below(guard)? {
        Sight::Stopped(_) => Some(STOPPED),
        Sight::Gone => Some(GONE),
        Sight::Runs if is_typed => None,
        // It says so when it goes on.
        Sight::Runs if matches!(agent.state, State::Idle | State::Blocked) => None,
        Sight::Runs => Some(SILENT),
    };
    let pause = if doubt.is_some() { AGAIN_MS } else { after };
    Ok(Some(Look { doubt, again: Millis(now.0.saturating_add(pause)) }))
}

/// Makes the loop of agents look at an agent whose guard does not answer, or does again.
pub(in crate::flows) fn answers(tx: &Tx<'_>, job: &Job) -> Result<()> {
    if job.agent.is_some() {
        tx.ring(BELL);
    }
    Ok(())
}

/// Records what a look at an agent showed, if it still shows that.
///
/// # Errors
/// As any write.
pub(super) async fn note(works: &Works, name: &str) -> Result<()> {
    let (about, name) = (works.clone(), name.to_owned());
    let note = move |tx: &Tx<'_>| {
        let Some(agent) = agent::find(tx.connection(), &name)? else { return Ok(()) };
        match look(tx.connection(), &about.config, &agent, tx.now())? {
            Some(look) if look.doubt != agent.doubt() => agent::doubt(tx, &agent, look.doubt),
            _ => Ok(()),
        }
    };
    works.store.write(note).await
}
