//! The lanes of waiting jobs, determined again: those of functions for renamed Sources, and all of
//! them under another script.

use std::collections::BTreeMap;

use rusqlite::Connection;
use tracing::warn;

use crate::base::{Result, SourcePath};
use crate::flows::Works;
use crate::flows::repository::renames::{self, Moves};
use crate::flows::requests::new_job;
use crate::jobs::{self, Capacities, Touched};
use crate::script::{Kind, Lane};
use crate::store::Tx;

/// How long functions are asked under another script.
const ASKED_MS_MAX: i64 = 10_000;

/// The inputs that are Sources, by kind.
type Kinds = BTreeMap<String, Vec<String>>;

/// Asks the functions of lanes again, with the new names. A job whose function fails keeps its
/// lane, unless that is the old name.
pub(super) async fn moves(
    works: &Works,
    renames: &BTreeMap<SourcePath, SourcePath>,
) -> Result<Moves> {
    if renames.is_empty() {
        return Ok(Moves::default());
    }
    let asked = renames.clone();
    let find = move |c: &Connection, kinds: &Kinds| {
        jobs::touched(c, kinds, Some(&asked), &renames::since_start)
    };
    let jobs = of_kinds(works, is_of_function, find).await?;
    ask(works, jobs, "a rename", None).await
}

/// Determines the lanes of all jobs, which may have been asked for, or renamed, under another
/// script. Those of functions come last: asking may take too long.
pub(in crate::flows) async fn under(works: &Works) -> Result<Moves> {
    let find = |c: &Connection, kinds: &Kinds| jobs::touched(c, kinds, None, &renames::since_start);
    // An agent's turns have no lane.
    let mut jobs = of_kinds(works, |it| it.agent.is_none(), find).await?;
    jobs.sort_by_key(|it| works.config.kind(&it.kind).is_some_and(is_of_function));
    let until = works.store.clock().now().0 + ASKED_MS_MAX;
    ask(works, jobs, "a reload", Some(until)).await
}

/// Gives the jobs those lanes, those too that run without one.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn tell(tx: &Tx<'_>, moves: &Moves, lanes: &Capacities) -> Result<()> {
    jobs::move_waiting(tx, &moves.lanes, lanes)?;
    jobs::move_running(tx, &moves.running, lanes)?;
    let given = moves.lanes.iter().filter_map(|(id, lane)| Some((id, lane.as_deref()?)));
    jobs::enter(tx, given, lanes)
}

/// Returns the warning of jobs that keep their lane, if there are any.
pub(in crate::flows) fn warning(moves: &Moves) -> Option<String> {
    let first = moves.kept.first()?;
    let whose = match moves.kept.len() {
        1 => "the lane of a job stays".to_owned(),
        count => format!("the lanes of {count} jobs stay"),
    };
    Some(format!("{whose} as before: {first}"))
}

fn is_of_function(kind: &Kind) -> bool {
    matches!(kind.lane, Some(Lane::Function(_)))
}

/// Finds jobs of some kinds, under their previous names, too.
async fn of_kinds(
    works: &Works,
    is_meant: impl Fn(&Kind) -> bool,
    find: impl FnOnce(&Connection, &Kinds) -> Result<Vec<Touched>> + Send + 'static,
) -> Result<Vec<Touched>> {
    let kinds = works.config.kinds.values().filter(|it| is_meant(it));
    let named = |it: &Kind| {
        let names = [Some(it.name.clone()), it.was.clone()];
        let sources = it.source_names();
        names.into_iter().flatten().map(move |name| (name, sources.clone()))
    };
    let kinds: Kinds = kinds.flat_map(named).collect();
    match kinds.is_empty() {
        true => Ok(Vec::new()),
        false => works.store.read(move |c| find(c, &kinds)).await,
    }
}

async fn ask(works: &Works, jobs: Vec<Touched>, after: &str, until: Option<i64>) -> Result<Moves> {
    let mut moves = Moves::default();
    for (done, it) in jobs.iter().enumerate() {
        if until.is_some_and(|until| works.store.clock().now().0 > until) {
            let why = "the script took too long";
            warn!("the lanes of {} jobs stay as they were after {after}: {why}", jobs.len() - done);
            moves.kept.resize(moves.kept.len() + jobs.len() - done, why.to_owned());
            break;
        }
        let Some(kind) = works.config.kind(&it.kind) else { continue };
        let mut given = it.inputs.clone();
        // As when it was asked for.
        given.retain(|name, _| kind.input(name).is_none_or(|it| !it.ty.is_computed()));
        let lane = match new_job::lane(&works.vm(), kind, &given).await {
            Ok(lane) => lane,
            Err(cause) => {
                warn!("the lane of job {} stays after {after}: {}", it.id, cause.chain());
                moves.kept.push(cause.message().to_owned());
                continue;
            }
        };
        if let Some((before, after)) = it.running_in.clone().zip(lane.clone()) {
            moves.running.push((it.id.clone(), before, after));
        }
        moves.lanes.insert(it.id.clone(), lane);
    }
    Ok(moves)
}
