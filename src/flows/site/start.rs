//! The start of a site, in this order: settle what can be settled, recover approvals, then listen.

use tracing::warn;

use crate::base::Result;
use crate::flows::Site;
use crate::flows::assistant;
use crate::flows::automation::reload;
use crate::flows::jobs::changes;
use crate::flows::proposals::approve;
use crate::jobs::Left;

/// Recovers jobs and approvals; returns the jobs whose guards have not ended. Their lanes stay
/// held; everything else may start.
///
/// # Errors
/// As the database or git.
pub async fn recover(site: &Site) -> Result<Left> {
    // The git of a killed server would go on beside this one.
    let left_over = site.queue.children().end_left_over().await?;
    if left_over > 0 {
        warn!("{left_over} commands of a server that was killed were ended");
    }
    // First, so that what waits again is compared with the script, too.
    site.queue.put_back().await?;
    reload::begin(site).await?;
    reload::earlier::hold(site).await?;
    let left = site.queue.recover().await?;
    approve::recover(site).await?;
    changes::clear_spares(site).await;
    assistant::recover(site).await?;
    Ok(left)
}
