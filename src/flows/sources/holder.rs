//! The waiting or running job that holds a Source, while its pages offer no other.

use crate::api::jobs::Holder;
use crate::base::{Result, SourcePath};
use crate::flows::{Site, viewer};
use crate::jobs::{self, Outlook, Status};
use crate::people::{self, Caller};

/// Returns the job that holds a Source; `None` if the Source is free.
///
/// # Errors
/// `forbidden` for jobs.
pub async fn holder(site: &Site, caller: &Caller, path: &SourcePath) -> Result<Option<Holder>> {
    caller.person()?;
    let (path, works, viewer) = (path.clone(), site.works.clone(), viewer(caller));
    site.store
        .read(move |c| {
            let Some((job, count)) = jobs::holder(c, &viewer, &path)? else {
                return Ok(None);
            };
            let waiting = match job.status {
                Status::Queued => {
                    let now = works.store.clock().now();
                    Outlook::load(c, &viewer, &works.config, now)?.why(c, &job)?
                }
                _ => None,
            };
            Ok(Some(Holder {
                requested_by_name: people::display_name(c, &job.requested_by)?,
                status: job.status,
                since: job.started_at.unwrap_or(job.created_at),
                job_id: job.id,
                kind: job.kind,
                waiting,
                others: count - 1,
            }))
        })
        .await
}
