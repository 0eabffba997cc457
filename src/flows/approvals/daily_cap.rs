//! The used-up daily cap that keeps a parked job from going on once its approval is decided.

use rusqlite::Connection;

use crate::approvals::{Approval, State};
use crate::base::Result;
use crate::flows::Works;
use crate::jobs::{self, Job, Outlook, Status};

/// Fills in the cap that the job of each approval will wait for, or waits for.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn fill(
    c: &Connection,
    works: &Works,
    approvals: &mut [Approval],
) -> Result<()> {
    let mut outlook = None;
    for approval in approvals {
        let Some(job) = waiting_job(c, approval)? else { continue };
        if outlook.is_none() {
            let config = &works.scripts.current().config;
            let now = works.store.clock().now();
            outlook = Some(Outlook::load(c, &jobs::Viewer::Program, config, now)?);
        }
        approval.waiting = outlook.as_ref().and_then(|it| it.capped(&job));
    }
    Ok(())
}

/// Returns the job that is parked for an approval, or will be, or its next leg in the queue.
fn waiting_job(c: &Connection, approval: &Approval) -> Result<Option<Job>> {
    let root = approval.root_id.as_ref().filter(|_| approval.state != State::Withdrawn);
    let Some(root) = root else { return Ok(None) };
    let last = jobs::last_leg(c, root)?;
    let waits_for = match (last.status, &last.resumes) {
        (Status::Running | Status::Parked, _) => last.waits_for.clone(),
        (Status::Queued, Some(before)) => {
            jobs::find_brief(c, &jobs::Viewer::Program, before)?.waits_for
        }
        _ => None,
    };
    Ok(Some(last).filter(|_| waits_for.as_ref() == Some(&approval.id)))
}
