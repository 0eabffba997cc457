//! Instances as they are shown, and what their agents print.

use rusqlite::Connection;

use crate::api::agents::{Peek, PeekQuery};
use crate::api::instances::{InstanceDetail, InstanceQuery, InstanceView, PhaseView};
use crate::api::jobs::Waiting;
use crate::api::mail::MessageView;
use crate::base::{Address, Error, ErrorKind, JobId, MailId, Millis, Page, Result};
use crate::flows::agents::peek::{last, lines, output};
use crate::flows::approvals::show::asks;
use crate::flows::instances::{self, monitor};
use crate::flows::mail::require_inbox;
use crate::flows::{self, Site, Works, page_limit, workspaces};
use crate::jobs::{self, Job, Outlook, Phase, Status, Viewer};
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
            let mut ground = Ground::of(&works);
            let items = found.iter().map(|it| view(&mut ground, c, it)).collect::<Result<_>>()?;
            Ok(Page { items, next })
        })
        .await
}

/// Returns an instance with its texts.
///
/// # Errors
/// `not_found` with code `no_instance`; `forbidden` with code `not_granted` for a job that is
/// neither the instance nor its monitor.
pub async fn show(site: &Site, caller: &Caller, id: &JobId) -> Result<InstanceDetail> {
    let (id, works) = (allowed(site, caller, id).await?, site.works.clone());
    let instance =
        site.store.read(move |c| view(&mut Ground::of(&works), c, &root(c, &id)?)).await?;
    let message = readable(site, caller, Some(&instance.message_id)).await?;
    let answer = readable(site, caller, instance.answer_id.as_ref()).await?;
    let status_file = jobs::status_file(&site.config.site.data, &instance.id);
    let attach = format!("wiki-browser job follow {}", instance.job_id);
    Ok(InstanceDetail { instance, message, answer, status_file, attach })
}

/// Returns a message if the caller may read it: what is to a person is that person's.
async fn readable(
    site: &Site,
    caller: &Caller,
    id: Option<&MailId>,
) -> Result<Option<MessageView>> {
    let Some(id) = id else { return Ok(None) };
    match flows::mail::show(site, caller, id).await {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        shown => shown.map(Some),
    }
}

/// Returns what the agent of an instance printed last.
///
/// # Errors
/// Same as [`show`]; `invalid` for a number of lines outside the range.
pub async fn peek(site: &Site, caller: &Caller, id: &JobId, query: &PeekQuery) -> Result<Peek> {
    let (id, lines) = (allowed(site, caller, id).await?, lines(query)?);
    let leg = site.store.read(move |c| jobs::last_leg(c, &root(c, &id)?.id)).await?;
    let is_live = leg.status == Status::Running && leg.ending_at.is_none();
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
    /// Its first job.
    pub root: JobId,
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
        let address = instances::address(&job.kind, job.root());
        Ok(Some(Contact { root: job.root().clone(), address, has_turns }))
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

/// What a list of instances shares: the script, and one look at the queue.
struct Ground<'w> {
    works: &'w Works,
    outlook: Option<Outlook>,
}

impl Ground<'_> {
    fn of(works: &Works) -> Ground<'_> {
        Ground { works, outlook: None }
    }

    /// Returns why a leg waits: for its turn, or for a person.
    fn waiting(&mut self, c: &Connection, leg: &Job) -> Result<Option<Waiting>> {
        match leg.status {
            Status::Queued => {}
            open if !open.is_final() => return asks(c, leg.root()),
            _ => return Ok(None),
        }
        let outlook = match &mut self.outlook {
            Some(outlook) => outlook,
            none => {
                let now = self.works.store.clock().now();
                none.insert(Outlook::load(c, &Viewer::Site, &self.works.config, now)?)
            }
        };
        outlook.why(c, leg)
    }

    fn timeout_ms(&self, leg: &Job) -> Option<u64> {
        let config = self.works.config_of(&leg.id);
        let timeout = config.kinds.get(&leg.kind)?.timeout;
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        (millis > 0).then_some(millis)
    }
}

fn view(ground: &mut Ground<'_>, c: &Connection, root: &Job) -> Result<InstanceView> {
    let legs = jobs::legs(c, &root.id)?;
    let last = jobs::last_leg(c, &root.id)?;
    let message = root
        .message_id
        .clone()
        .ok_or_else(|| Error::internal(format!("instance {} has no message", root.id)))?;
    Ok(InstanceView {
        address: instances::address(&root.kind, &root.id),
        answer_id: mail::answer_of(c, &message)?.map(|it| it.id),
        phases: legs.iter().flat_map(phases).collect(),
        legs: legs.into_iter().map(|it| it.id).collect(),
        workspace: workspaces::of_job(c, root)?,
        monitor: monitor::of(c, &last.id)?,
        waiting: ground.waiting(c, &last)?,
        timeout_ms: ground.timeout_ms(&last),
        id: root.id.clone(),
        inbox: root.kind.clone(),
        message_id: message,
        status: last.status,
        reason: last.reason.map(|it| it.as_str().to_owned()),
        phase: last.phase.map(|it| it.as_str().to_owned()),
        approval_id: last.waits_for.filter(|_| last.status == Status::Parked),
        created_at: root.created_at,
        started_at: root.started_at,
        completed_at: last.completed_at.filter(|_| last.status.is_final()),
        job_id: last.id,
    })
}

/// Returns the phases of a leg, in order. Each begins when the one before it ends.
fn phases(leg: &Job) -> Vec<PhaseView> {
    let Some(started) = leg.started_at else { return Vec::new() };
    let cleanup = leg.ending_at.filter(|_| leg.phase == Some(Phase::Cleanup));
    // A later leg goes on where the one before it was, and a leg that was cancelled while it waited
    // only cleans up.
    let prepares = leg.resumes.is_none() && Some(started) != cleanup;
    let begun = [
        (Phase::Prepare, Some(started).filter(|_| prepares)),
        (Phase::Run, leg.run_at),
        (Phase::Cleanup, cleanup),
    ];
    let begun: Vec<(Phase, Millis)> =
        begun.into_iter().filter_map(|(phase, at)| Some((phase, at?))).collect();
    let ends = begun.iter().skip(1).map(|it| Some(it.1)).chain([leg.completed_at]);
    let phase = |((phase, started_at), ended_at): (&(Phase, Millis), Option<Millis>)| PhaseView {
        job_id: leg.id.clone(),
        phase: phase.as_str().to_owned(),
        started_at: *started_at,
        ended_at,
    };
    begun.iter().zip(ends).map(phase).collect()
}

/// Instances of an inbox.
pub struct OfInbox {
    /// Those that have not ended: those that run, then parked ones, then those that wait, in their
    /// order.
    pub open: Vec<InstanceView>,
    /// Those that ended last, newest first.
    pub ended: Vec<InstanceView>,
}

/// Returns the instances of an inbox: so many of each status that have not ended, and of the newest
/// ones those that have.
///
/// # Errors
/// `forbidden` for jobs that may not read.
pub async fn of_inbox(
    site: &Site,
    caller: &Caller,
    name: &str,
    (open, newest): (u32, u32),
) -> Result<OfInbox> {
    caller.may_read()?;
    let (works, name) = (site.works.clone(), name.to_owned());
    site.store
        .read(move |c| {
            let mut ground = Ground::of(&works);
            let mut found = OfInbox { open: Vec::new(), ended: Vec::new() };
            for leg in jobs::open_of_inbox(c, &name, open)? {
                if leg.message_id.is_some() {
                    found.open.push(view(&mut ground, c, &root(c, leg.root())?)?);
                }
            }
            for root in jobs::instances(c, Some(&name), (None, newest))? {
                let shown = view(&mut ground, c, &root)?;
                if shown.status.is_final() {
                    found.ended.push(shown);
                }
            }
            Ok(found)
        })
        .await
}
