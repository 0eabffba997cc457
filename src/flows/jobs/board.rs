//! The board of jobs: what waits and why, what runs, what has ended, and how much room there is.

use serde::{Deserialize, Serialize};

use crate::base::{Actor, Result, SourcePath};
use crate::flows::jobs::{JobView, view_with};
use crate::flows::{Site, viewer};
use crate::jobs::rows::board::{self, BoardFilter};
use crate::jobs::{self, Status};
use crate::people::Caller;

/// Jobs of each sort on a board.
const ROWS: u32 = 50;

/// What a board is asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BoardQuery {
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this Source.
    pub source_path: Option<SourcePath>,
    /// Only those that this actor asked for: `person:ID`.
    pub requested_by: Option<String>,
}

/// The board.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Board {
    /// Those that wait, the next one first; then parked ones.
    pub queued: Vec<JobView>,
    /// Those that run, the longest first.
    pub running: Vec<JobView>,
    /// Those that have ended, the latest first.
    pub ended: Vec<JobView>,
    /// How many wait, whatever was asked for.
    pub queued_count: i64,
    /// How many run in the slots.
    pub running_count: i64,
    /// How many may run at once.
    pub slots: u32,
    /// Kinds with a limit of their own: their name, how many run, how many may.
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
