//! The inboxes of the script, and removed ones that have jobs; what waits in them.

use rusqlite::Connection;

use crate::api::mail::{InboxList, InboxView};
use crate::base::{Address, ErrorKind, Result};
use crate::flows::mail::recipient;
use crate::flows::{Site, Works};
use crate::jobs::{self, Choice, Status};
use crate::people::Caller;
use crate::script::{Config, JsonSchema, Kind, OnLost};

/// Most jobs of each status in the view of an inbox.
const JOBS_MAX: u32 = 50;

/// Returns all inboxes by name: those of the script in force, and removed ones with jobs that have
/// not ended.
///
/// # Errors
/// As any read.
pub async fn list(site: &Site, caller: &Caller) -> Result<InboxList> {
    caller.may_read()?;
    let works: Works = site.works.clone();
    site.store
        .read(move |c| {
            let kinds = works.config.kinds.values().filter(|it| it.inbox.is_some());
            let mut items = kinds.map(|kind| view(c, kind)).collect::<Result<Vec<_>>>()?;
            for name in jobs::open_inboxes(c)? {
                if !is_declared(&works.config, &name) {
                    items.push(removed(c, &name)?);
                }
            }
            items.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(InboxList { items })
        })
        .await
}

/// Returns one inbox; a removed one as long as it has jobs that have not ended.
///
/// # Errors
/// `not_found` with code `no_recipient`.
pub async fn show(site: &Site, caller: &Caller, name: &str) -> Result<InboxView> {
    caller.may_read()?;
    let unknown = match recipient::inbox(site, name) {
        Ok(kind) => {
            let kind = kind.clone();
            return site.store.read(move |c| view(c, &kind)).await;
        }
        Err(cause) if cause.kind() == ErrorKind::NotFound => cause,
        Err(cause) => return Err(cause),
    };
    let name = name.to_owned();
    let found = site.store.read(move |c| removed(c, &name)).await?;
    if found.jobs.is_empty() { Err(unknown) } else { Ok(found) }
}

fn is_declared(config: &Config, name: &str) -> bool {
    config.kinds.get(name).is_some_and(|it| it.inbox.is_some())
}

fn view(c: &Connection, kind: &Kind) -> Result<InboxView> {
    let inbox = recipient::of_kind(kind)?;
    Ok(InboxView {
        about: kind.about.clone(),
        engine: kind.engine.clone(),
        concurrency: kind.max_running.unwrap_or(1),
        on_lost: match inbox.on_lost {
            OnLost::Fail => "fail",
            OnLost::Requeue => "requeue",
            OnLost::RequeueAlways => "requeue_always",
        }
        .to_owned(),
        monitor: inbox.monitor.clone(),
        schema: inbox.schema.as_ref().map(|it| it.as_json().clone()),
        example: inbox.schema.as_ref().and_then(JsonSchema::example),
        reply_schema: inbox.reply_schema.as_ref().map(|it| it.as_json().clone()),
        is_gone: false,
        ..removed(c, &kind.name)?
    })
}

/// Returns what the database knows of an inbox that the script does not declare.
fn removed(c: &Connection, name: &str) -> Result<InboxView> {
    let count = |status: Status| {
        let choice =
            Choice { kind: Some(name.to_owned()), status, before: None, is_unrepeated: false };
        jobs::count(c, &choice).map(i64::unsigned_abs)
    };
    let (template, inbox) = name.split_once('/').unwrap_or((name, ""));
    let open = jobs::open_of_inbox(c, name, JOBS_MAX)?;
    Ok(InboxView {
        name: name.to_owned(),
        address: Address::Inbox { template: template.to_owned(), inbox: inbox.to_owned() },
        about: String::new(),
        engine: String::new(),
        depth: count(Status::Queued)?,
        running: count(Status::Running)?,
        parked: count(Status::Parked)?,
        concurrency: 0,
        on_lost: String::new(),
        monitor: None,
        schema: None,
        reply_schema: None,
        example: None,
        // A job that an inbox's message did not start was never one of its instances.
        jobs: open.into_iter().filter(|it| it.message_id.is_some()).map(|it| it.id).collect(),
        is_gone: true,
    })
}
