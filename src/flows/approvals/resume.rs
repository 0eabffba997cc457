//! Resuming a job that was parked for an approval: its next leg has the answer in its prompt.

use rusqlite::Connection;

use crate::approvals::{self, Approval, Sort, State, Texts, Viewer};
use crate::base::{Actor, ApprovalId, Error, Result, fault};
use crate::flows::Works;
use crate::flows::approvals::named;
use crate::jobs::{self, Job};
use crate::script::{Config, Engine, Reads, Speech};
use crate::store::Tx;

/// Longest payload in the prompt of a later leg, in bytes.
const PRETTY_BYTES_MAX: usize = 16 * 1024;

/// Refuses a job that cannot be resumed.
///
/// # Errors
/// `conflict` with code `cannot_resume`.
pub(super) fn require_resumable(config: &Config, job: &Job) -> Result<()> {
    let Some(wrong) = obstacle(config, job) else { return Ok(()) };
    let message = format!("job {} cannot end and go on later: {wrong}", job.id);
    Err(Error::conflict("cannot_resume", message)
        .hint("ask without --and-exit, then wait with `wb-agent approval await`"))
}

/// Returns why a job, run by the engine that it names, could not be resumed under a script.
pub(in crate::flows) fn obstacle(config: &Config, job: &Job) -> Option<String> {
    let kind = config.kind(&job.kind);
    let engine = kind.and_then(|kind| config.engines.get(&kind.engine));
    let other = engine.and_then(|it| job.other_engine(it, &config.folder));
    if let Some(other) = other.filter(|_| !fault::is_off("same_engine")) {
        return Some(other);
    }
    let wrong = match (kind, engine) {
        _ if job.agent.is_some() => "its agent lives on",
        _ if job.monitor_of.is_some() => "it is a monitor, which ends with its worker",
        (Some(kind), _) if kind.produces.is_some() => {
            "its kind promises a result, which one run must leave"
        }
        (Some(kind), _) if kind.hooks.start.is_some() => "its kind has a start command",
        (_, Some(engine)) if !can_resume(engine) => "its engine has no arguments `resume`",
        (_, Some(engine))
            if engine.sessions.session.is_empty()
                && engine.reads().is_none_or(|it| it == Reads::Plain) =>
        {
            "its engine has no arguments `session`, and its output names none"
        }
        (Some(_), Some(_)) => return None,
        _ if job.message_id.is_some() => "its inbox is gone",
        _ => "its kind is gone",
    };
    Some(wrong.to_owned())
}

/// Returns whether a job can end with an open question, and continue with the decision.
pub(in crate::flows) fn can_park(config: &Config, job: &Job) -> bool {
    obstacle(config, job).is_none()
}

/// Refuses a decision whose job could not go on with it, because the script has changed since the
/// job was parked: the decision would be used up.
///
/// # Errors
/// `conflict` with code `cannot_resume`, naming the job.
pub(super) fn refuse_lost(c: &Connection, works: &Works, id: &ApprovalId) -> Result<()> {
    let Some(parked) = jobs::parked_for(c, id)? else { return Ok(()) };
    let job = jobs::find(c, &jobs::Viewer::Program, &parked)?;
    let config = &works.scripts.current().config;
    require_resumable(config, &job).map_err(|cause| {
        let is_gone = config.kind(&job.kind).is_none() && job.message_id.is_none();
        let was = match is_gone {
            true => format!(" (or write was = \"{}\" in the kind that takes its place)", job.kind),
            false => String::new(),
        };
        cause.hint(format!(
            "change the script back{was} and type `wiki-browser reload`, then decide again; or \
             `wiki-browser job cancel {parked}`"
        ))
    })
}

fn can_resume(engine: &Engine) -> bool {
    let is_told = |it: &Speech| it.speaks.resumes_by_request();
    !engine.sessions.resume.is_empty() || engine.speech.as_ref().is_some_and(is_told)
}

/// Queues the next leg of the job parked for an approval, if there is one.
///
/// # Errors
/// As any write.
pub(super) fn go_on(tx: &Tx<'_>, works: &Works, approval: &Approval, by: &Actor) -> Result<()> {
    if let Some(job) = jobs::parked_for(tx.connection(), &approval.id)? {
        let generation = works.scripts.current();
        let name = jobs::find_brief(tx.connection(), &jobs::Viewer::Program, &job)?.kind;
        if let Some(kind) = generation.config.kind(&name).filter(|it| it.name != name) {
            // It ran while its kind was renamed.
            jobs::rename_kind(tx, &name, &kind.name)?;
        }
        jobs::resume(tx, &works.ids, &job, (by, generation.capacities()))?;
    }
    Ok(())
}

/// Queues the next leg of a job that is being parked, if its approval was decided in the meantime.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn parked(tx: &Tx<'_>, works: &Works, job: &Job) -> Result<()> {
    let Some(id) = &job.waits_for else { return Ok(()) };
    let approval = approvals::find(tx.connection(), id, &Viewer::Program)?;
    match approval.state {
        State::Pending => Ok(()),
        _ => go_on(tx, works, &approval, &Actor::System),
    }
}

/// Returns the prompt of a later leg: the answer that it waited for. `None` for a first leg.
///
/// # Errors
/// As any read.
pub(in crate::flows) async fn prompt(works: &Works, job: &Job) -> Result<Option<String>> {
    let Some(before) = job.resumes.clone() else { return Ok(None) };
    let look = move |c: &Connection| {
        let waited = jobs::find_brief(c, &jobs::Viewer::Program, &before)?.waits_for;
        let id = waited.ok_or_else(|| Error::internal("a leg goes on from nothing"))?;
        let approval = named(c, approvals::find(c, &id, &Viewer::Program)?)?;
        Ok((approvals::texts(c, &id)?, approval))
    };
    let (texts, approval) = works.store.read(look).await?;
    Ok(Some(words(&approval, texts)))
}

fn words(approval: &Approval, texts: Texts) -> String {
    if approval.sort == Sort::Permission {
        return words_of_permission(approval);
    }
    let by = approval.decided_by_name.as_deref().unwrap_or("somebody");
    let said = match approval.state {
        State::Approved => format!("was approved by {by}."),
        State::Amended => format!("was approved by {by}, with changes: use the payload below."),
        State::Rejected => format!("was rejected by {by}: do not do it."),
        State::Expired => "has expired: nobody decided in time. Do not do it.".to_owned(),
        State::Withdrawn => "was withdrawn. Do not do it.".to_owned(),
        State::Pending => "is still pending.".to_owned(),
    };
    let mut text = format!(
        "The approval that you asked for, \u{201c}{}\u{201d} ({}), {said}\n",
        approval.title, approval.id
    );
    if let Some(note) = &approval.note {
        text += &format!("\nNote: {note}\n");
    }
    if matches!(approval.state, State::Approved | State::Amended) {
        let payload = texts.changes.unwrap_or(texts.payload);
        text += &match payload.to_string() {
            short if short.len() <= PRETTY_BYTES_MAX => {
                format!("\nThe payload that was approved:\n\n{payload:#}\n")
            }
            long => format!(
                "\nThe payload that was approved has {} bytes: `wb-agent approval get {}` prints \
                 it.\n",
                long.len(),
                approval.id
            ),
        };
    }
    text + "\nGo on from here.\n"
}

fn words_of_permission(approval: &Approval) -> String {
    let by = approval.decided_by_name.as_deref().unwrap_or("somebody");
    let said = match approval.state {
        State::Approved => {
            format!("was allowed by {by}, once: make exactly the same call again if you need it.")
        }
        State::Amended => format!(
            "was allowed by {by}, once and with changes: make exactly the same call again, and it \
             is done as it was approved."
        ),
        State::Rejected => format!("was refused by {by}: do without it."),
        _ => "was not decided: do without it.".to_owned(),
    };
    let note = approval.note.as_ref().map(|it| format!("\nNote: {it}\n")).unwrap_or_default();
    let title = &approval.title;
    let whose = "Your call of a tool, or that of an agent you started,";
    format!("{whose} \u{201c}{title}\u{201d}, {said}\n{note}\nGo on from here.\n")
}
