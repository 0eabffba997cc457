//! Instances as they are shown, and what their agents print.

use rusqlite::Connection;

use crate::api::agents::{Peek, PeekQuery};
use crate::api::instances::{InstanceQuery, InstanceView};
use crate::base::{Address, Error, ErrorKind, JobId, Page, Result};
use crate::flows::agents::peek::{last, lines, output};
use crate::flows::instances::{self, monitor};
use crate::flows::mail::require_inbox;
use crate::flows::{Site, page_limit, workspaces};
use crate::jobs::{self, Job, Viewer};
use crate::mail;
use crate::people::Caller;
use crate::process::{self, Stream};

/// Longest output that is shown as it is, in bytes.
const TAIL_BYTES_MAX: usize = 64 * 1024;

/// Returns instances, newest first.
///
/// # Errors
/// `forbidden` for jobs; `not_found` for an unknown `after`, and with code `no_recipient` for an
/// inbox that is not declared and has no instances.
pub async fn list(
    site: &Site,
    caller: &Caller,
    query: InstanceQuery,
) -> Result<Page<InstanceView>> {
    caller.person()?;
    let (limit, works) = (page_limit(query.limit)?, site.works.clone());
    site.store
        .read(move |c| {
            let page = (query.after.as_ref(), limit + 1);
            let mut found = jobs::instances(c, query.inbox.as_deref(), page)?;
            if let (true, Some(inbox)) = (found.is_empty(), &query.inbox) {
                // One that was removed from the script may still have instances.
                require_inbox(&works, inbox)?;
            }
            let has_more = found.len() > limit as usize;
            found.truncate(limit as usize);
            let next = if has_more { found.last().map(|it| it.id.to_string()) } else { None };
            let items = found.iter().map(|it| view(c, it)).collect::<Result<_>>()?;
            Ok(Page { items, next })
        })
        .await
}

/// Returns an instance.
///
/// # Errors
/// `not_found` with code `no_instance`; `forbidden` with code `not_granted` for a job that is
/// neither the instance nor its monitor.
pub async fn show(site: &Site, caller: &Caller, id: &JobId) -> Result<InstanceView> {
    let id = allowed(site, caller, id).await?;
    site.store.read(move |c| view(c, &root(c, &id)?)).await
}

/// Returns what the agent of an instance printed last.
///
/// # Errors
/// Same as [`show`]; `invalid` for a number of lines outside the range.
pub async fn peek(site: &Site, caller: &Caller, id: &JobId, query: &PeekQuery) -> Result<Peek> {
    let (id, lines) = (allowed(site, caller, id).await?, lines(query)?);
    let leg = site.store.read(move |c| jobs::last_leg(c, &root(c, &id)?.id)).await?;
    let is_live = leg.status == jobs::Status::Running && leg.ending_at.is_none();
    let shown = output(site, &leg.id, lines, is_live).await?;
    if !shown.output.is_empty() {
        return Ok(shown);
    }
    // Nothing parses the output of its engine; there may be none yet, or none any more.
    let dir = jobs::job_dir(&site.config.site.data, &leg.id);
    let tail = match process::output_tail(&dir, Stream::Stdout, TAIL_BYTES_MAX) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Vec::new(),
        tail => tail?,
    };
    Ok(Peek { is_live, output: last(&String::from_utf8_lossy(&tail), lines) })
}

/// How to write to an instance.
pub struct Contact {
    /// Its address.
    pub address: Address,
    /// Whether each message is a turn of its engine; otherwise its agent fetches them.
    pub has_turns: bool,
}

/// Returns how to write to the instance that a job is a leg of; nothing for any other job.
///
/// # Errors
/// `forbidden` for jobs that may not read.
pub async fn contact(site: &Site, caller: &Caller, job: &JobId) -> Result<Option<Contact>> {
    caller.may_read()?;
    let (id, config) = (job.clone(), site.works.now().config);
    let find = move |c: &Connection| {
        let job = match jobs::find_brief(c, &Viewer::Site, &id) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if job.message_id.is_none() || job.agent.is_some() {
            return Ok(None);
        }
        let engine = config.kinds.get(&job.kind).and_then(|it| config.engines.get(&it.engine));
        let has_turns = engine.is_some_and(|it| it.speech.is_some());
        Ok(Some(Contact { address: instances::address(&job.kind, job.root()), has_turns }))
    };
    site.store.read(find).await
}

/// Refuses jobs that neither are the instance nor watch it.
async fn allowed(site: &Site, caller: &Caller, id: &JobId) -> Result<JobId> {
    caller.may_read()?;
    if let Caller::Job { id: own, .. } = caller {
        let (own, id) = (own.clone(), id.clone());
        let find =
            move |c: &Connection| jobs::find_brief(c, &Viewer::Program, &own)?.require_worker(&id);
        site.store.read(find).await?;
    }
    Ok(id.clone())
}

/// Returns the first leg of an instance.
fn root(c: &Connection, id: &JobId) -> Result<Job> {
    let is_root = |it: &Job| it.message_id.is_some() && it.root_id.is_none();
    match jobs::find_brief(c, &Viewer::Site, id) {
        Ok(job) if is_root(&job) => Ok(job),
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(cause),
        _ => Err(Error::not_found(format!("no instance {id}"))
            .code("no_instance")
            .hint("list instances: `wiki-browser instances`")),
    }
}

fn view(c: &Connection, root: &Job) -> Result<InstanceView> {
    let last = jobs::last_leg(c, &root.id)?;
    let message = root
        .message_id
        .clone()
        .ok_or_else(|| Error::internal(format!("instance {} has no message", root.id)))?;
    Ok(InstanceView {
        address: instances::address(&root.kind, &root.id),
        answer_id: mail::answer_of(c, &message)?.map(|it| it.id),
        legs: jobs::legs(c, &root.id)?.into_iter().map(|it| it.id).collect(),
        workspace: workspaces::of_job(c, root)?,
        monitor: monitor::of(c, &last.id)?,
        id: root.id.clone(),
        inbox: root.kind.clone(),
        message_id: message,
        status: last.status,
        reason: last.reason.map(|it| it.as_str().to_owned()),
        phase: last.phase.map(|it| it.as_str().to_owned()),
        approval_id: last.waits_for.filter(|_| last.status == jobs::Status::Parked),
        created_at: root.created_at,
        started_at: root.started_at,
        completed_at: last.completed_at.filter(|_| last.status.is_final()),
        job_id: last.id,
    })
}
