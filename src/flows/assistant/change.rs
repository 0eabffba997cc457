//! Stops runs; changes, clears and deletes conversations.

use rusqlite::Connection;

use crate::api::chat::{SessionRequest, SessionView, Stopped};
use crate::approvals;
use crate::base::{Actor, ApprovalId, CallId, ChatId, Error, JobId, PersonId, Result, fault};
use crate::chat::{self, Change, Home};
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::{RUN_ENDED, SESSION_BUSY, seat, show};
use crate::flows::{Site, jobs as job_flows};
use crate::jobs::{self, ALREADY_COMPLETED, JOB_ENDED, Viewer};
use crate::people::Caller;
use crate::process;
use crate::store::Tx;

/// Most entries of a run's folder removed at once.
const ENTRIES_MAX: usize = 100_000;

/// Stops a run. Its text so far is kept. A person who may no longer use the assistant may still
/// stop what runs in their name.
///
/// # Errors
/// `not_found` with code `no_run`; `conflict` with code `run_ended`.
pub async fn stop(site: &Site, caller: &Caller, id: &JobId) -> Result<Stopped> {
    let person = caller.may_write()?.id.clone();
    let (by, lanes, ids) = (Actor::Person(person.clone()), site.queue.capacities(), &site.ids);
    let (ids, id) = (ids.clone(), id.clone());
    site.store
        .write(move |tx| {
            let run = chat::find_run(tx.connection(), &person, &id)?;
            if run.end.is_some() {
                return Err(run_ended(&id));
            }
            if job_flows::cancel::cancel_waiting(tx, &ids, &id, &by, &lanes)? {
                return Ok(Stopped { run_id: id.clone(), state: "stopped".to_owned() });
            }
            job_flows::cancel::request(tx, &id, &by).map_err(|cause| match cause.code_str() {
                JOB_ENDED | ALREADY_COMPLETED => run_ended(&id),
                _ => cause,
            })?;
            Ok(Stopped { run_id: id.clone(), state: "stopping".to_owned() })
        })
        .await
}

fn run_ended(id: &JobId) -> Error {
    Error::conflict(RUN_ENDED, format!("run {id} has ended or is ending"))
        .hint("the history of the conversation has what it said")
}

/// Changes a conversation's title, pin and archive state, and the branch that is shown.
///
/// # Errors
/// `not_found`: `no_session`, `no_message`; `invalid`: `bad_title`, `no_changes`.
pub async fn set(
    site: &Site,
    caller: &Caller,
    id: &ChatId,
    request: SessionRequest,
) -> Result<SessionView> {
    let person = seat(site, caller)?.person.id;
    let is_empty = request.title.is_none()
        && request.is_pinned.is_none()
        && request.is_archived.is_none()
        && request.head_id.is_none();
    if is_empty {
        let hint = "send `title`, `is_pinned`, `is_archived` or `head_id`";
        return Err(Error::invalid("nothing is to be changed").code("no_changes").hint(hint));
    }
    let id = id.clone();
    site.store
        .write(move |tx| {
            let c = tx.connection();
            chat::find_session(c, &person, &id)?;
            let head = match &request.head_id {
                Some(head) => Some(chat::tip(c, &chat::find_message(c, &id, head)?.id)?),
                None => None,
            };
            let change = Change {
                title: request.title.clone(),
                is_pinned: request.is_pinned,
                is_archived: request.is_archived,
                head,
            };
            let session = chat::change(tx, &person, &id, &change)?;
            show::view(c, &session)
        })
        .await
}

/// Deletes a conversation's messages, and keeps its id.
///
/// # Errors
/// `not_found` with code `no_session`; `conflict` with code `session_busy`.
pub async fn clear(site: &Site, caller: &Caller, id: &ChatId) -> Result<()> {
    forget(site, caller, id, chat::forget).await
}

/// Deletes a conversation with its messages. Backups keep their copies.
///
/// # Errors
/// As [`clear`].
pub async fn remove(site: &Site, caller: &Caller, id: &ChatId) -> Result<()> {
    forget(site, caller, id, chat::remove).await
}

async fn forget(
    site: &Site,
    caller: &Caller,
    id: &ChatId,
    forget: fn(&Tx<'_>, &PersonId, &ChatId) -> Result<()>,
) -> Result<()> {
    let person = seat(site, caller)?.person.id;
    if fault::is_off("rows_first") {
        let left = site.store.look(|c| Left::of(c, &person, id))?;
        left.remove(site).await?;
        fault::crash_point("conversation_gone");
    }
    let (of, session) = (person.clone(), id.clone());
    let left = site
        .store
        .write(move |tx| {
            let c = tx.connection();
            chat::find_session(c, &of, &session)?;
            let left = Left::of(c, &of, &session)?;
            for run in &left.runs {
                if !jobs::find_brief(c, &Viewer::Person(of.clone()), run)?.status.is_final() {
                    let message = format!("run {run} answers in this conversation");
                    return Err(Error::conflict(SESSION_BUSY, message).hint("stop it first"));
                }
                jobs::forget_words(tx, run)?;
            }
            forget(tx, &of, &session)?;
            for approval in &left.approvals {
                approvals::remove_call(tx, approval)?;
            }
            Ok(left)
        })
        .await?;
    fault::crash_point("conversation_gone");
    left.remove(site).await
}

/// What a conversation leaves besides its own rows.
struct Left {
    person: PersonId,
    session: ChatId,
    runs: Vec<JobId>,
    calls: Vec<CallId>,
    approvals: Vec<ApprovalId>,
}

impl Left {
    fn of(c: &Connection, person: &PersonId, session: &ChatId) -> Result<Left> {
        let runs = chat::runs_of(c, session)?;
        let (mut calls, mut approvals) = (Vec::new(), Vec::new());
        for run in &runs {
            for call in chat::calls_of_run(c, run)? {
                approvals.extend(call.approval_id);
                approvals.extend(call.again_id);
                calls.push(call.id);
            }
        }
        let (person, session) = (person.clone(), session.clone());
        Ok(Left { person, session, runs, calls, approvals })
    }

    /// Removes the files. What a killed server leaves of them, the next one removes.
    async fn remove(self, site: &Site) -> Result<()> {
        let data = site.config.site.data.clone();
        on_disk(move || {
            for run in &self.runs {
                process::remove_some(&data.join("jobs"), run.as_str(), ENTRIES_MAX)?;
            }
            let home = Home::of(&data, &self.person);
            home.forget_kept(&self.calls)?;
            home.forget_conversation(&self.session)
        })
        .await
    }
}
