//! The inboxes of the script, and what waits in them.

use rusqlite::Connection;

use crate::api::mail::{InboxList, InboxView};
use crate::base::{Address, Result};
use crate::flows::mail::recipient;
use crate::flows::{Site, Works};
use crate::jobs::{self, Choice, Status};
use crate::people::Caller;
use crate::script::{Kind, OnLost};

/// Returns all inboxes of the script in force, by name.
///
/// # Errors
/// As any read.
pub async fn list(site: &Site, caller: &Caller) -> Result<InboxList> {
    caller.may_read()?;
    let works: Works = site.works.clone();
    site.store
        .read(move |c| {
            let kinds = works.config.kinds.values().filter(|it| it.inbox.is_some());
            let items = kinds.map(|kind| view(c, kind)).collect::<Result<_>>()?;
            Ok(InboxList { items })
        })
        .await
}

/// Returns one inbox.
///
/// # Errors
/// `not_found` with code `no_recipient`.
pub async fn show(site: &Site, caller: &Caller, name: &str) -> Result<InboxView> {
    caller.may_read()?;
    let kind = recipient::inbox(site, name)?.clone();
    site.store.read(move |c| view(c, &kind)).await
}

fn view(c: &Connection, kind: &Kind) -> Result<InboxView> {
    let inbox = recipient::of_kind(kind)?;
    let count = |status: Status| {
        let choice =
            Choice { kind: Some(kind.name.clone()), status, before: None, is_unrepeated: false };
        jobs::count(c, &choice).map(i64::unsigned_abs)
    };
    Ok(InboxView {
        name: kind.name.clone(),
        address: Address::Inbox { template: inbox.template.clone(), inbox: inbox.name.clone() },
        about: kind.about.clone(),
        engine: kind.engine.clone(),
        depth: count(Status::Queued)?,
        running: count(Status::Running)?,
        parked: count(Status::Parked)?,
        concurrency: kind.max_running.unwrap_or(1),
        on_lost: match inbox.on_lost {
            OnLost::Fail => "fail",
            OnLost::Requeue => "requeue",
            OnLost::RequeueAlways => "requeue_always",
        }
        .to_owned(),
        monitor: inbox.monitor.clone(),
        schema: inbox.schema.as_ref().map(|it| it.as_json().clone()),
        reply_schema: inbox.reply_schema.as_ref().map(|it| it.as_json().clone()),
    })
}
