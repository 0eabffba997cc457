//! Updates queued and parked jobs of a renamed Source to its new name.
//!
//! **Invariant:** the inputs of a running job never change: its agent has seen them. Those of a
//! parked one are for its next leg.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, named_params};

use crate::base::{Error, JobId, Result, SourcePath};
use crate::jobs::queue::lane::{self, Capacities};
use crate::jobs::rows::on_sources::follow;
use crate::jobs::rows::{bulk, long_inputs, table};
use crate::jobs::{Grant, Job, Viewer};
use crate::store::Tx;

const OF_SOURCE: &str = "
    SELECT id FROM agent_jobs INDEXED BY jobs_by_source_status
    WHERE source_path = :source AND status IN ('queued', 'parked') ORDER BY seq";
const RENAME: &str = "
    UPDATE agent_jobs SET source_path = :source, inputs_json = :inputs, grants_json = :grants
    WHERE id = :id AND status IN ('queued', 'parked')";
const RELANE: &str = "
    UPDATE agent_jobs SET
        ready = CASE WHEN :lane IS NULL AND ready >= 0 THEN 1 ELSE MIN(ready, 0) END,
        lane_key = :lane
    WHERE id = :id AND status IN ('queued', 'parked') AND lane_key IS NOT :lane";
// Only as a whole: running jobs of the other lane hold slots of it.
const MOVE_RUNNING: &str = "
    UPDATE agent_jobs SET lane_key = :to WHERE lane_key = :from AND status = 'running'
        AND NOT EXISTS (SELECT 1 FROM agent_jobs AS other
                        WHERE other.lane_key = :to AND other.status = 'running')";
const MOVE_ONE: &str = "
    UPDATE agent_jobs SET lane_key = :to WHERE id = :id AND lane_key = :from
        AND status = 'running'";
const IS_OCCUPIED: &str = "
    SELECT EXISTS (SELECT 1 FROM agent_jobs INDEXED BY jobs_lane_slot
                   WHERE lane_key = :lane AND status = 'running')";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("renamed::of_source", OF_SOURCE),
    ("renamed::rename", RENAME),
    ("renamed::relane", RELANE),
    ("renamed::move_running", MOVE_RUNNING),
    ("renamed::move_one", MOVE_ONE),
    ("renamed::is_occupied", IS_OCCUPIED),
];

/// What is known of the jobs that follow renames, besides their rows.
#[derive(Clone, Copy, Debug)]
pub struct Follow<'a, N> {
    /// The inputs that are Sources now, by kind. Those that were some when a job was asked for are
    /// in its row.
    pub names: N,
    /// Jobs that have the Source as an input, but may work on another one.
    pub others: &'a [JobId],
    /// The new lanes of jobs whose lane a function determines.
    pub lanes: &'a BTreeMap<JobId, Option<String>>,
}

/// Gives the queued and parked jobs of a Source its new name in their grants, their lane, and those
/// inputs that are Sources. The lane of running jobs changes too, so that queued jobs keep waiting
/// for them. Returns the jobs.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn rename_source(
    tx: &Tx<'_>,
    (from, to): (&SourcePath, &SourcePath),
    with: &Follow<'_, impl Fn(&str) -> Vec<String>>,
    capacities: &Capacities,
) -> Result<Vec<JobId>> {
    let renames = BTreeMap::from([(from.clone(), to.clone())]);
    let mut renamed = Vec::new();
    let (mut moved, mut changed) = (BTreeSet::new(), BTreeSet::new());
    let mut jobs = of_source(tx.connection(), from)?;
    let known: BTreeSet<JobId> = jobs.iter().cloned().collect();
    jobs.extend(with.others.iter().filter(|it| !known.contains(*it)).cloned());
    for id in jobs {
        let mut job = table::find(tx.connection(), &Viewer::Program, &id)?;
        let before = job.lane.take();
        let by_name = || before.as_deref().map(|it| lane_after(it, &renames));
        let after = with.lanes.get(&id).cloned().unwrap_or_else(by_name);
        let mut names = source_names(&job, &(with.names)(&job.kind));
        if names.is_empty() {
            // Nobody knows its Sources: its kind is gone, and it was asked for before they were
            // kept.
            names.extend(job.inputs.keys().cloned());
        }
        rename_one(tx, job, &renames, &names, after.as_deref())?;
        renamed.push(id);
        if before != after {
            changed.extend([before, after].into_iter().flatten());
        }
    }
    // A running job keeps the name that it was told: it is its lane that tells of its Source.
    for job in table::running(tx.connection())? {
        let Some(before) = job.lane.filter(|_| !with.lanes.contains_key(&job.id)) else { continue };
        let sources = bulk::with_recorded(&(with.names)(&job.kind), job.sources);
        let after = lane_after(&before, &renames);
        // A lane that a function determines may hold jobs of other Sources: see `move_running`.
        let is_of_source =
            before.split_once('=').is_some_and(|it| sources.iter().any(|name| name == it.0));
        if is_of_source && before != after {
            changed.extend([before.clone(), after.clone()]);
            moved.insert((before, after));
        }
    }
    for (before, after) in moved {
        let params = named_params! {":from": before, ":to": after};
        tx.prepare_cached(MOVE_RUNNING)?.execute(params)?;
    }
    changed.iter().try_for_each(|it| lane::refresh(tx, it, capacities))?;
    if !renamed.is_empty() {
        tx.ring(crate::jobs::BELL);
    }
    Ok(renamed)
}

/// Returns the names of a job's inputs that are Sources, given those of its kind.
pub fn source_names(job: &Job, of_kind: &[String]) -> Vec<String> {
    bulk::with_recorded(of_kind, job.sources.clone())
}

/// Gives a job that was claimed and is queued again the names that its Sources got since its claim,
/// and their lane.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn rename_given_back(
    tx: &Tx<'_>,
    claimed: &Job,
    renames: &BTreeMap<SourcePath, SourcePath>,
    names: &[String],
    capacities: &Capacities,
) -> Result<()> {
    let now = table::find_slim(tx.connection(), &Viewer::Program, &claimed.id)?.lane;
    let by_name = claimed.lane.as_deref().map(|it| lane_after(it, renames));
    // A lane that a function determines has moved with the running job, if at all.
    let after = if by_name == claimed.lane { now.clone() } else { by_name };
    if !renames.is_empty() {
        rename_one(tx, claimed.clone(), renames, names, after.as_deref())?;
    }
    [now, after].into_iter().flatten().try_for_each(|it| lane::refresh(tx, &it, capacities))
}

fn rename_one(
    tx: &Tx<'_>,
    job: Job,
    renames: &BTreeMap<SourcePath, SourcePath>,
    names: &[String],
    lane: Option<&str>,
) -> Result<()> {
    let source = job.source_path.map(|it| renames.get(&it).cloned().unwrap_or(it));
    let mut inputs = job.inputs;
    follow(&mut inputs, names, renames);
    let grants: Vec<Grant> = job.grants.into_iter().map(|it| it.renamed(renames)).collect();
    let grants = serde_json::to_string(&grants)
        .map_err(|cause| Error::internal("grants are not JSON").source(cause))?;
    let inputs = long_inputs::Text::of(&inputs)?;
    inputs.replace(tx, &job.id)?;
    tx.prepare_cached(RENAME)?.execute(named_params! {
        ":id": job.id, ":source": source, ":inputs": inputs.in_row(), ":grants": grants,
    })?;
    tx.prepare_cached(RELANE)?.execute(named_params! {":id": job.id, ":lane": lane})?;
    Ok(())
}

/// Gives queued and parked jobs other lanes.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn move_waiting(
    tx: &Tx<'_>,
    lanes: &BTreeMap<JobId, Option<String>>,
    capacities: &Capacities,
) -> Result<()> {
    let mut changed: BTreeSet<String> = BTreeSet::new();
    for (id, lane) in lanes {
        let before = crate::jobs::find_brief(tx.connection(), &Viewer::Program, id)?.lane;
        let params = named_params! {":id": id, ":lane": lane};
        if tx.prepare_cached(RELANE)?.execute(params)? == 1 {
            changed.extend([before, lane.clone()].into_iter().flatten());
        }
    }
    changed.iter().try_for_each(|it| lane::refresh(tx, it, capacities))
}

/// Moves running jobs, each with its lane, to other lanes, unless others run there: those hold its
/// slots.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn move_running(
    tx: &Tx<'_>,
    moves: &[(JobId, String, String)],
    capacities: &Capacities,
) -> Result<()> {
    let lanes: BTreeSet<(&String, &String)> = moves.iter().map(|it| (&it.1, &it.2)).collect();
    for (from, to) in lanes.into_iter().filter(|(from, to)| from != to) {
        let mut is_occupied = tx.prepare_cached(IS_OCCUPIED)?;
        if is_occupied.query_row(named_params! {":lane": to}, |row| row.get(0))? {
            continue;
        }
        for (id, ..) in moves.iter().filter(|it| (&it.1, &it.2) == (from, to)) {
            let params = named_params! {":id": id, ":from": from, ":to": to};
            tx.prepare_cached(MOVE_ONE)?.execute(params)?;
        }
        lane::refresh(tx, from, capacities)?;
        lane::refresh(tx, to, capacities)?;
    }
    Ok(())
}

fn of_source(connection: &Connection, source: &SourcePath) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(OF_SOURCE)?;
    let rows = statement.query_map(named_params! {":source": source}, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn lane_after(lane: &str, renames: &BTreeMap<SourcePath, SourcePath>) -> String {
    let Some((name, value)) = lane.split_once('=') else { return lane.to_owned() };
    match renames.iter().find(|(from, _)| value == from.as_str()) {
        Some((_, to)) => format!("{name}={to}"),
        None => lane.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::queue::parking;
    use crate::jobs::rows::on_sources::{queued_by_source, touched};
    use crate::jobs::tests::model::Bench;
    use crate::jobs::{NewJob, Verb};

    fn path(text: &str) -> SourcePath {
        text.parse().unwrap()
    }

    /// Renames a Source for which nothing but the rows and these names are known.
    fn renamed(
        (bench, tx): (&Bench, &Tx<'_>),
        (from, to): (&str, &str),
        (names, others): (&[&str], &[JobId]),
        lanes: &BTreeMap<JobId, Option<String>>,
    ) -> Vec<JobId> {
        let names = |_: &str| names.iter().map(|it| (*it).to_owned()).collect();
        let with = Follow { names, others, lanes };
        rename_source(tx, (&path(from), &path(to)), &with, &bench.caps.lanes).unwrap()
    }

    /// No rename was recorded.
    fn as_told(_: &Connection, _: &Job, path: &SourcePath) -> Result<SourcePath> {
        Ok(path.clone())
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
        let gone = bench.tx(|bench, tx| {
            let names: (&[&str], _) = (&["doc", "none"], &[][..]);
            renamed((bench, tx), ("a.md", "b.md"), names, &BTreeMap::new())
        });
        assert_eq!(gone, [second.clone(), free.clone()]);
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

    #[test]
    fn the_next_leg_of_a_parked_job_works_on_the_new_name() {
        let mut bench = Bench::new(8, 8, 1);
        let mut new = on(&bench, "a.md", "doc=a.md");
        new.inputs.insert("read".to_owned(), "c.md".into());
        new.grants.push(Grant::source(&path("c.md"), &[Verb::Read]));
        new.sources = ["doc", "read"].map(str::to_owned).to_vec();
        let id = bench.add(new);
        let job = bench.take("one").unwrap();
        bench.tx(|bench, tx| {
            crate::jobs::wait_for(tx, &job, &bench.ids.mint()).unwrap();
            parking::keep_session(tx, &id, "s1").unwrap();
        });
        bench.end(&id);
        bench.tx(|bench, tx| {
            let renames = [("a.md", "b.md"), ("c.md", "d.md")].map(|it| (path(it.0), path(it.1)));
            let kinds = BTreeMap::from([("a".to_owned(), Vec::new())]);
            let found =
                touched(tx.connection(), &kinds, Some(&BTreeMap::from(renames)), &as_told).unwrap();
            let [it] = &found[..] else { panic!("{found:?}") };
            assert_eq!((&it.id, it.running_in.as_ref()), (&id, None));
            let by_source = queued_by_source(tx.connection(), |_| Vec::new()).unwrap();
            for pair in [("c.md", "d.md"), ("a.md", "b.md")] {
                let others = by_source[pair.0].as_slice();
                let moved = renamed((bench, tx), pair, (&[], others), &BTreeMap::new());
                assert_eq!(moved, std::slice::from_ref(&id));
            }
        });
        let job = table::find(&bench.connection, &Viewer::Program, &id).unwrap();
        assert_eq!((&job.inputs["doc"], &job.inputs["read"]), (&"b.md".into(), &"d.md".into()));
        assert_eq!((job.source_path, job.lane.as_deref()), (Some(path("b.md")), Some("doc=b.md")));
        let reads = [path("b.md"), path("d.md")].map(|it| Grant::source(&it, &[Verb::Read]));
        assert_eq!(job.grants, reads);
    }

    #[test]
    fn a_job_that_only_reads_a_source_keeps_the_one_that_it_works_on() {
        let mut bench = Bench::new(8, 8, 1);
        let reader = |bench: &Bench, reads: &str| {
            let mut new = on(bench, "a.md", "doc=a.md");
            new.inputs.insert("read".to_owned(), reads.into());
            new.grants.push(Grant::source(&path(reads), &[Verb::Read]));
            new
        };
        let first = bench.add(reader(&bench, "c.md"));
        let own = bench.add(reader(&bench, "a.md"));
        bench.add(reader(&bench, "d.md"));
        let names = |_: &str| vec!["doc".to_owned(), "read".to_owned()];
        let gone = bench.tx(|bench, tx| {
            let by_source = queued_by_source(tx.connection(), names).unwrap();
            let go = |pair: (&str, &str)| {
                let others = by_source[pair.0].as_slice();
                renamed((bench, tx), pair, (&["doc", "read"], others), &BTreeMap::new())
            };
            (go(("c.md", "e.md")), go(("a.md", "b.md")).len())
        });
        assert_eq!(gone, (vec![first.clone()], 3), "each is renamed once");
        let find = |id| table::find(&bench.connection, &Viewer::Program, id).unwrap();
        let job = find(&first);
        assert_eq!(job.source_path, Some(path("b.md")));
        assert_eq!((&job.inputs["doc"], &job.inputs["read"]), (&"b.md".into(), &"e.md".into()));
        let reads = [path("b.md"), path("e.md")].map(|it| Grant::source(&it, &[Verb::Read]));
        assert_eq!((job.grants, job.lane.as_deref()), (reads.to_vec(), Some("doc=b.md")));
        let job = find(&own);
        assert_eq!((&job.inputs["doc"], &job.inputs["read"]), (&"b.md".into(), &"b.md".into()));
    }

    #[test]
    fn a_running_job_holds_the_lane_of_its_source_over_every_rename() {
        let mut bench = Bench::new(8, 8, 1);
        let first = bench.add(on(&bench, "a.md", "doc=a.md"));
        assert_eq!(bench.take("one").unwrap().id, first);
        let other = bench.add(on(&bench, "a.md", "note=a.md"));
        assert_eq!(bench.take("two").unwrap().id, other);
        let lane =
            |bench: &Bench, id| table::find(&bench.connection, &Viewer::Program, id).unwrap().lane;
        // Aside and back, as two names are exchanged, and once more.
        for (from, to) in [("a.md", "---"), ("---", "b.md"), ("b.md", "c.md")] {
            bench.tx(|bench, tx| {
                renamed((bench, tx), (from, to), (&["doc"], &[]), &BTreeMap::new());
            });
            assert_eq!(lane(&bench, &first).unwrap(), format!("doc={to}"));
        }
        assert_eq!(lane(&bench, &other).unwrap(), "note=a.md", "that is no Source");
        bench.add(on(&bench, "c.md", "doc=c.md"));
        assert!(bench.take("three").is_none(), "who runs holds it");
    }

    /// Whatever the script declares by now; what was asked for before that was kept is taken at its
    /// word.
    #[test]
    fn a_job_of_a_kind_that_is_gone_goes_with_what_was_a_source_when_it_was_asked_for() {
        let mut bench = Bench::new(8, 8, 1);
        let sources = ["doc", "read"].map(str::to_owned).to_vec();
        let mut new = NewJob { sources, ..on(&bench, "a.md", "doc=a.md") };
        new.inputs.insert("read".to_owned(), "c.md".into());
        let recorded = bench.add(new);
        let earlier = bench.add(on(&bench, "a.md", "doc=a.md"));
        bench.tx(|bench, tx| {
            let by_source = queued_by_source(tx.connection(), |_| Vec::new()).unwrap();
            assert_eq!(by_source.keys().collect::<Vec<_>>(), ["a.md", "c.md"]);
            for pair in [("a.md", "b.md"), ("c.md", "d.md")] {
                let others = by_source[pair.0].as_slice();
                renamed((bench, tx), pair, (&[], others), &BTreeMap::new());
            }
        });
        let find = |id| table::find(&bench.connection, &Viewer::Program, id).unwrap();
        let (job, before) = (find(&recorded), find(&earlier));
        assert_eq!((&job.inputs["doc"], &job.inputs["read"]), (&"b.md".into(), &"d.md".into()));
        assert_eq!(job.inputs["note"], "a.md", "that was no Source");
        assert_eq!((job.source_path, job.lane.as_deref()), (Some(path("b.md")), Some("doc=b.md")));
        assert_eq!(before.inputs["doc"], "b.md");
    }

    /// The first one of a lane is marked as such, and nobody would find it by that without one.
    #[test]
    fn the_first_of_a_lane_that_loses_it_starts_all_the_same() {
        let mut bench = Bench::new(8, 8, 1);
        let first = bench.add(on(&bench, "a.md", "doc=a.md"));
        let next = bench.add(on(&bench, "a.md", "doc=a.md"));
        bench.tx(|bench, tx| {
            let lanes = BTreeMap::from([(first.clone(), None), (next.clone(), None)]);
            renamed((bench, tx), ("a.md", "b.md"), (&[], &[]), &lanes);
        });
        let taken = ["one", "two"].map(|it| bench.take(it).unwrap().id);
        assert_eq!(taken, [first, next]);
    }

    #[test]
    fn a_lane_of_a_function_moves_with_the_jobs_of_the_source_only() {
        let mut bench = Bench::new(8, 8, 1);
        let sourced = |bench: &Bench, name: &str, lane: &str| NewJob {
            sources: vec!["doc".to_owned()],
            ..on(bench, name, lane)
        };
        let runs = bench.add(sourced(&bench, "a.md", "page=a.md/de"));
        assert_eq!(bench.take("one").unwrap().id, runs);
        let waits = bench.add(sourced(&bench, "a.md", "page=a.md/de"));
        let freed = bench.add(sourced(&bench, "a.md", "page=a.md/de"));
        bench.tx(|bench, tx| {
            let kinds = BTreeMap::from([("a".to_owned(), Vec::new())]);
            let renames = BTreeMap::from([(path("a.md"), path("b.md"))]);
            let found = touched(tx.connection(), &kinds, Some(&renames), &as_told).unwrap();
            assert!(found.iter().all(|it| it.inputs["doc"] == "b.md"));
            let lanes = found.iter().map(|it| (it.id.clone(), it.running_in.as_deref()));
            let expected = [
                (waits.clone(), None),
                (freed.clone(), None),
                (runs.clone(), Some("page=a.md/de")),
            ];
            assert_eq!(lanes.collect::<Vec<_>>(), expected);
            let lanes = [(waits.clone(), Some("page=b.md/de".to_owned())), (freed.clone(), None)];
            let lanes = BTreeMap::from(lanes);
            renamed((bench, tx), ("a.md", "b.md"), (&[], &[]), &lanes);
            let moves = [(runs.clone(), "page=a.md/de".to_owned(), "page=b.md/de".to_owned())];
            move_running(tx, &moves, &bench.caps.lanes).unwrap();
        });
        let lane =
            |bench: &Bench, id| table::find(&bench.connection, &Viewer::Program, id).unwrap().lane;
        for id in [&runs, &waits] {
            assert_eq!(lane(&bench, id).as_deref(), Some("page=b.md/de"));
        }
        assert_eq!(lane(&bench, &freed), None);
        assert_eq!(bench.take("two").unwrap().id, freed, "it waits for no lane any more");
        assert!(bench.take("three").is_none(), "who runs holds the new lane");
        bench.end(&runs);
        assert_eq!(bench.take("four").unwrap().id, waits);
    }
}
