//! Updates queued jobs of a renamed Source to its new name.
//!
//! **Invariant:** the inputs of a started job never change: its agent has seen them.

use std::collections::BTreeSet;

use rusqlite::{Connection, named_params};
use serde_json::{Map, Value};

use crate::base::{Error, JobId, Result, SourcePath};
use crate::jobs::queue::lane::{self, Capacities};
use crate::jobs::rows::{long_inputs, table};
use crate::jobs::{Grant, Viewer};
use crate::store::Tx;

const OF_SOURCE: &str = "
    SELECT id, status = 'running' FROM agent_jobs INDEXED BY jobs_by_source_status
    WHERE source_path = :source AND status IN ('queued', 'running') ORDER BY seq";
const RENAME: &str = "
    UPDATE agent_jobs SET source_path = :to, inputs_json = :inputs, grants_json = :grants,
        ready = CASE WHEN lane_key IS :lane THEN ready ELSE MIN(ready, 0) END, lane_key = :lane
    WHERE id = :id AND status = 'queued'";
// Only as a whole: running jobs of the other lane hold slots of it.
const MOVE_RUNNING: &str = "
    UPDATE agent_jobs SET lane_key = :to WHERE lane_key = :from AND status = 'running'
        AND NOT EXISTS (SELECT 1 FROM agent_jobs AS other
                        WHERE other.lane_key = :to AND other.status = 'running')";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("renamed::of_source", OF_SOURCE),
    ("renamed::rename", RENAME),
    ("renamed::move_running", MOVE_RUNNING),
];

/// Gives the queued jobs of a Source its new name in their grants, their lane, and those inputs
/// that `names` (by kind) declares to be Sources. The lane of running jobs changes too, so that
/// queued jobs keep waiting for them. Returns the jobs.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn rename_source(
    tx: &Tx<'_>,
    (from, to): (&SourcePath, &SourcePath),
    names: impl Fn(&str) -> Vec<String>,
    capacities: &Capacities,
) -> Result<Vec<JobId>> {
    let mut renamed = Vec::new();
    let mut lanes = BTreeSet::new();
    for (id, is_running) in of_source(tx.connection(), from)? {
        let job = table::find(tx.connection(), &Viewer::Program, &id)?;
        let lane = job.lane.as_deref().map(|it| (it.to_owned(), lane_after(it, from, to)));
        if !is_running {
            let mut inputs = job.inputs;
            rename(&mut inputs, &names(&job.kind), from, to);
            let grants: Vec<Grant> =
                job.grants.into_iter().map(|it| it.renamed(from, to)).collect();
            let grants = serde_json::to_string(&grants)
                .map_err(|cause| Error::internal("grants are not JSON").source(cause))?;
            let inputs = long_inputs::Text::of(&inputs)?;
            inputs.replace(tx, &id)?;
            tx.prepare_cached(RENAME)?.execute(named_params! {
                ":id": id, ":to": to, ":inputs": inputs.in_row(),
                ":grants": grants, ":lane": lane.as_ref().map(|it| &it.1),
            })?;
            renamed.push(id);
        }
        lanes.extend(lane.filter(|(before, after)| before != after));
    }
    for (before, after) in lanes {
        let params = named_params! {":from": before, ":to": after};
        tx.prepare_cached(MOVE_RUNNING)?.execute(params)?;
        lane::refresh(tx, &before, capacities)?;
        lane::refresh(tx, &after, capacities)?;
    }
    if !renamed.is_empty() {
        tx.ring(crate::jobs::BELL);
    }
    Ok(renamed)
}

fn of_source(connection: &Connection, source: &SourcePath) -> Result<Vec<(JobId, bool)>> {
    let mut statement = connection.prepare_cached(OF_SOURCE)?;
    let rows = statement
        .query_map(named_params! {":source": source}, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn rename(inputs: &mut Map<String, Value>, names: &[String], from: &SourcePath, to: &SourcePath) {
    for name in names {
        if let Some(value) = inputs.get_mut(name)
            && value.as_str() == Some(from.as_str())
        {
            *value = Value::String(to.to_string());
        }
    }
}

fn lane_after(lane: &str, from: &SourcePath, to: &SourcePath) -> String {
    match lane.split_once('=') {
        Some((name, value)) if value == from.as_str() => format!("{name}={to}"),
        _ => lane.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::model::Bench;
    use crate::jobs::{NewJob, Verb};

    fn path(text: &str) -> SourcePath {
        text.parse().unwrap()
    }

    fn on(bench: &Bench, name: &str, lane: &str) -> NewJob {
        let inputs = [("doc", name), ("note", name)];
        NewJob {
            source_path: Some(path(name)),
            inputs: inputs.map(|(it, value)| (it.to_owned(), value.into())).into_iter().collect(),
            grants: vec![Grant::source(&path(name), &[Verb::Read])],
            ..bench.request("a", Some(lane), 0, 0)
        }
    }

    #[test]
    fn who_waits_for_a_source_waits_for_it_under_its_new_name() {
        let mut bench = Bench::new(8, 8, 1);
        let first = bench.add(on(&bench, "a.md", "doc=a.md"));
        assert_eq!(bench.take("one").unwrap().id, first);
        let second = bench.add(on(&bench, "a.md", "doc=a.md"));
        let free = bench.add(on(&bench, "a.md", "other=x"));
        let elsewhere = bench.add(on(&bench, "c.md", "doc=c.md"));
        let renamed = bench.tx(|bench, tx| {
            let names = |_: &str| vec!["doc".to_owned(), "none".to_owned()];
            let pair = (&path("a.md"), &path("b.md"));
            rename_source(tx, pair, names, &bench.caps.lanes).unwrap()
        });
        assert_eq!(renamed, [second.clone(), free.clone()]);
        let find = |bench: &Bench, id: &JobId| {
            table::find(&bench.connection, &Viewer::Program, id).unwrap()
        };
        let moved = find(&bench, &second);
        assert_eq!(
            (moved.lane.as_deref(), moved.source_path),
            (Some("doc=b.md"), Some(path("b.md")))
        );
        assert_eq!((&moved.inputs["doc"], &moved.inputs["note"]), (&"b.md".into(), &"a.md".into()));
        assert_eq!(moved.grants, [Grant::source(&path("b.md"), &[Verb::Read])]);
        assert_eq!(find(&bench, &free).lane.as_deref(), Some("other=x"));
        let running = find(&bench, &first);
        assert_eq!(running.lane.as_deref(), Some("doc=b.md"), "who runs holds the new lane");
        assert_eq!(running.inputs["doc"], "a.md", "and knows what it was told");
        // The first one blocks the second, and any job requested by the new name.
        let third = bench.add(on(&bench, "b.md", "doc=b.md"));
        let next = [bench.take("two"), bench.take("three")].map(|it| it.unwrap().id);
        assert_eq!(next, [free, elsewhere]);
        assert!(bench.take("four").is_none());
        for (held_by, next) in [(first, second.clone()), (second, third)] {
            bench.end(&held_by);
            assert_eq!(bench.take(next.as_str()).unwrap().id, next);
        }
    }
}
