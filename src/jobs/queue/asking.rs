//! A running job whose person is asked gives back its place in its pool, and takes one again before
//! it continues.
//!
//! **Invariant:** unanswered questions keep no other job waiting.
//! **Invariant:** a job that waits for a place again goes before all queued ones.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{JobId, PersonId, Result, fault};
use crate::jobs::BELL;
use crate::jobs::rows::pool::{Pool, PoolCaps};
use crate::jobs::run::dispatch::Queue;
use crate::store::Tx;

const ASK: &str = "
    UPDATE agent_jobs SET asks = 1 WHERE id = :id AND status = 'running' AND asks <> 1";
const WANT: &str = "
    UPDATE agent_jobs SET asks = 2 WHERE id = :id AND status = 'running' AND asks = 1";
const GO_ON: &str = "UPDATE agent_jobs SET asks = 0 WHERE id = :id";
const ASKING: &str = "
    SELECT owner, pool FROM agent_jobs WHERE id = :id AND status = 'running' AND asks <> 0";
const WORKING: &str = "
    SELECT COUNT(*), COALESCE(SUM(owner = :owner), 0) FROM agent_jobs INDEXED BY jobs_running_pool
    WHERE status = 'running' AND pool = :pool AND asks = 0";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("asking::ask", ASK),
    ("asking::want", WANT),
    ("asking::go_on", GO_ON),
    ("asking::asking", ASKING),
    ("asking::working", WORKING),
];

/// Gives back the place of a running job, because its person is asked.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn ask_person(tx: &Tx<'_>, id: &JobId) -> Result<()> {
    if fault::is_off("asking_place") {
        return Ok(());
    }
    tx.prepare_cached(ASK)?.execute(named_params! {":id": id})?;
    // Another job may start.
    tx.ring(BELL);
    Ok(())
}

/// Returns whether a running job has given its place back.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_asking(connection: &Connection, id: &JobId) -> Result<bool> {
    Ok(asking(connection, id)?.is_some())
}

type Asking = (Option<PersonId>, String);

fn asking(connection: &Connection, id: &JobId) -> Result<Option<Asking>> {
    let params = named_params! {":id": id};
    let mut statement = connection.prepare_cached(ASKING)?;
    Ok(statement.query_row(params, |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Takes a place for a job again; returns whether it has one. Without one, no queued job of its
/// pool starts before it.
fn take_place(tx: &Tx<'_>, id: &JobId, caps: &PoolCaps) -> Result<bool> {
    let Some((owner, pool)) = asking(tx.connection(), id)? else { return Ok(true) };
    let pool_of = Pool::parse(&pool).unwrap_or_default();
    let (working, own): (u32, u32) = tx
        .prepare_cached(WORKING)?
        .query_row(named_params! {":pool": pool, ":owner": owner}, |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let has_place = !caps.is_full(pool_of, working) && own < caps.chat_person;
    let next = if has_place { GO_ON } else { WANT };
    tx.prepare_cached(next)?.execute(named_params! {":id": id})?;
    Ok(has_place)
}

impl Queue {
    /// Takes a place for a running job whose person has answered; returns whether it has one.
    /// Otherwise it has the next one that becomes free: call this again after a job has ended, or
    /// has asked its person.
    ///
    /// # Errors
    /// Fails if the database cannot be written.
    pub fn take_place(&self, tx: &Tx<'_>, id: &JobId) -> Result<bool> {
        take_place(tx, id, &self.current().caps.pools)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::queue::claim::is_awaited;
    use crate::jobs::tests::model::{Bench, Sort};

    /// Three answers may be written at once, two of them for one person.
    #[test]
    fn a_job_that_asks_its_person_keeps_no_other_one_waiting() {
        let mut bench = Bench::new(1, 1, 1);
        let add = |bench: &mut Bench, person| bench.add(bench.request_in(Sort::Chat(person), 0));
        let first: Vec<JobId> = [1, 1, 2].map(|it| add(&mut bench, it)).into();
        for id in &first {
            assert_eq!(bench.take(id.as_str()).unwrap().id, *id);
        }
        let (own, other) = (add(&mut bench, 1), add(&mut bench, 2));
        assert!(bench.take("full").is_none());
        bench.tx(|_, tx| ask_person(tx, &first[0]).unwrap());
        assert_eq!(bench.take("own").unwrap().id, own);
        assert!(bench.take("full again").is_none());
        // Answered: it has the next place, before the one that was queued.
        let caps = bench.caps.pools.clone();
        let goes_on =
            |bench: &mut Bench, id: &JobId| bench.tx(|_, tx| take_place(tx, id, &caps).unwrap());
        assert!(!goes_on(&mut bench, &first[0]));
        assert!(is_asking(&bench.connection, &first[0]).unwrap());
        bench.end(&first[1]);
        assert!(bench.take("taken").is_none(), "the place is kept for it");
        assert!(goes_on(&mut bench, &first[0]));
        assert!(!is_asking(&bench.connection, &first[0]).unwrap());
        assert!(goes_on(&mut bench, &first[0]), "it has one already");
        bench.end(&own);
        assert!(is_awaited(&bench.connection, &[Pool::Chat], bench.clock.now()).unwrap());
        assert_eq!(bench.take("other").unwrap().id, other);
    }

    /// A process of an answer that asks stays, so their number is bounded too.
    #[test]
    fn a_person_leaves_only_so_many_questions_open() {
        let mut bench = Bench::new(1, 1, 1);
        for number in 0..8 {
            let id = bench.add(bench.request_in(Sort::Chat(1), 0));
            assert_eq!(bench.take(&format!("{number}")).unwrap().id, id);
            bench.tx(|_, tx| ask_person(tx, &id).unwrap());
        }
        bench.add(bench.request_in(Sort::Chat(1), 0));
        assert!(bench.take("late").is_none());
        let other = bench.add(bench.request_in(Sort::Chat(2), 0));
        assert_eq!(bench.take("other").unwrap().id, other);
    }
}
