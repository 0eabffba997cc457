//! The board of jobs: waiting, running and ended ones, and the capacities.

use serde::{Deserialize, Serialize};

use crate::base::{Actor, Result, SourcePath};
use crate::flows::jobs::{JobView, view_with};
use crate::flows::{Site, viewer};
use crate::jobs::rows::board::{self, BoardFilter};
use crate::jobs::{self, QueueCounts, Status};
use crate::people::Caller;

/// Jobs of each state on a board.
const ROWS: u32 = 50;

/// Counts the waiting and running jobs that the caller sees.
///
/// # Errors
/// As any read.
pub async fn counts(site: &Site, caller: &Caller) -> Result<QueueCounts> {
    let viewer = viewer(caller);
    site.store.read(move |c| jobs::queue_counts(c, &viewer)).await
}

/// The filter of a board.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BoardQuery {
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this Source.
    pub source_path: Option<SourcePath>,
    /// Only those requested by this actor: `person:ID`.
    pub requested_by: Option<String>,
}

/// The board.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Board {
    /// Waiting jobs, next one first; then parked ones.
    pub queued: Vec<JobView>,
    /// Running jobs, longest first.
    pub running: Vec<JobView>,
    /// Ended jobs, latest first.
    pub ended: Vec<JobView>,
    /// Number of waiting jobs, without the filter.
    pub queued_count: i64,
    /// Number of running jobs.
    pub running_count: i64,
    /// Most jobs that may run at once.
    pub slots: u32,
    /// Kinds with a limit of their own: name, running, limit.
    pub kinds: Vec<(String, i64, u32)>,
}

/// Returns the board.
///
/// # Errors
/// `forbidden` for jobs.
pub async fn board(site: &Site, caller: &Caller, query: BoardQuery) -> Result<Board> {
    caller.person()?;
    let filter = BoardFilter {
        kind: query.kind,
        source_path: query.source_path,
        requested_by: query.requested_by.as_deref().map(str::parse::<Actor>).transpose()?,
        limit: ROWS,
    };
    let (works, viewer) = (site.works.clone(), viewer(caller));
    site.store
        .read(move |c| {
            let mut outlook = None;
            let mut views = |found: Vec<jobs::Job>| -> Result<Vec<JobView>> {
                found
                    .into_iter()
                    .map(|it| view_with(&works, (c, &viewer), it, &mut outlook))
                    .collect()
            };
            let mut ended = views(board::ended(c, &viewer, &filter)?)?;
            for it in &mut ended {
                it.retried_as = board::retries(c, &viewer, &it.job.id)?;
            }
            let counts = jobs::queue_counts(c, &viewer)?;
            let running = |kind: &str| {
                counts.running.iter().find(|(name, _)| name == kind).map_or(0, |(_, count)| *count)
            };
            let kinds = works.config.kinds.values();
            Ok(Board {
                queued: {
                    let mut waiting = views(board::active(c, &viewer, Status::Queued, &filter)?)?;
                    waiting.extend(views(board::active(c, &viewer, Status::Parked, &filter)?)?);
                    waiting
                },
                running: views(board::active(c, &viewer, Status::Running, &filter)?)?,
                ended,
                queued_count: counts.queued.iter().map(|(_, count)| count).sum(),
                running_count: counts.working,
                slots: works.config.limits.jobs,
                kinds: kinds
                    .filter_map(|it| Some((it.name.clone(), running(&it.name), it.max_running?)))
                    .collect(),
            })
        })
        .await
}
