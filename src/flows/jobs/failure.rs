//! Failed jobs that need a person's attention: not those retried, settled or dismissed.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::api::topics::TopicStatus;
use crate::base::{Actor, JobId, Result, TopicId};
use crate::documents::topics::topic;
use crate::flows::{Site, viewer};
use crate::jobs;
use crate::people::Caller;

/// Returns the jobs that need no attention: dismissed, or their Topic is closed or gone.
///
/// # Errors
/// `forbidden` for a job.
pub async fn settled(
    site: &Site,
    caller: &Caller,
    failed: Vec<(JobId, Option<TopicId>)>,
) -> Result<BTreeSet<JobId>> {
    let person = caller.person()?.id.clone();
    let settled = move |c: &Connection| {
        let dismissed = jobs::dismissed(c, &person)?;
        let mut settled = BTreeSet::new();
        for (job, topic) in failed {
            let is_open = match &topic {
                Some(topic) => topic::status_of(c, topic).is_ok_and(|it| it == TopicStatus::Open),
                None => true,
            };
            if !is_open || dismissed.contains(&job) {
                settled.insert(job);
            }
        }
        Ok(settled)
    };
    site.store.read(settled).await
}

/// Dismisses a failed job from the caller's home page.
///
/// # Errors
/// `not_found`; `forbidden` for a job.
pub async fn dismiss(site: &Site, caller: &Caller, id: &JobId) -> Result<()> {
    let Actor::Person(person) = caller.actor() else { return caller.person().map(drop) };
    let (job, viewer) = (id.clone(), viewer(caller));
    site.store
        .write(move |tx| {
            jobs::find(tx.connection(), &viewer, &job)?;
            jobs::dismiss(tx, &person, &job)
        })
        .await
}
