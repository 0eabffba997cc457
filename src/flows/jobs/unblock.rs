//! The first step of a restore after a job that left a FIFO, a socket or a device where git opens a
//! file: without it git cannot tell what else changed.

use crate::api::changes::Item;
use crate::base::{Error, JobId, Result};
use crate::documents::changes::{row, unblock};
use crate::flows::jobs::changes::RestoreRequest;
use crate::flows::jobs::tree_guard;
use crate::flows::requests::inputs;
use crate::flows::{Site, viewer};
use crate::jobs;
use crate::people::Caller;

/// Removes what a job that has ended left where git opens a file, or only names it; the names of
/// what was removed are taken out of the request. Nothing, if git could compare after the job.
///
/// # Errors
/// `not_found` without such a job; `conflict` with code `unwatched` if what was there before is
/// lost.
pub(super) async fn unblocked(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    request: &mut RestoreRequest,
) -> Result<Vec<Item>> {
    let (asked, viewer) = (id.clone(), viewer(caller));
    let (job, is_open) = site
        .store
        .read(move |c| {
            let job = jobs::find(c, &viewer, &asked)?;
            let is_open = job.status.is_final() && row::find(c, &asked)?.is_none();
            Ok((job, is_open && jobs::holding(c)?.contains(&asked)))
        })
        .await?;
    inputs::refuse_private(&job)?;
    if !is_open {
        return Ok(Vec::new());
    }
    let begun = match tree_guard::remembered(site, id).await {
        Err(cause) if cause.code_str() == tree_guard::UNWATCHED => {
            let message = format!("what there was before job {id} is lost: nothing is restored");
            let hint = format!(
                "check the repository; to accept it as it is: `wiki-browser job keep {id}`"
            );
            return Err(Error::conflict(tree_guard::UNWATCHED, message).hint(hint).source(cause));
        }
        begun => begun?,
    };
    let Some(begun) = begun else { return Ok(Vec::new()) };
    let (names, is_rehearsal) = (&request.names, request.dry_run);
    let items = unblock(&site.repo, &begun.before, names, is_rehearsal).await?;
    request.names.retain(|name| !items.iter().any(|it| it.name == *name));
    Ok(items)
}
