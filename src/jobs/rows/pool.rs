//! Pools, each with its own cap, so that jobs never wait for those of another pool.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::base::{Actor, PersonId, Result, fault};
use crate::script::Config;

const RUNNING: &str = "
    SELECT pool, COUNT(*) FROM agent_jobs INDEXED BY jobs_running_pool
    WHERE status = 'running' AND asks <> 1 GROUP BY pool";
const CHATS_OF_OWNERS: &str = "
    SELECT owner, SUM(asks <> 1), SUM(asks = 1) FROM agent_jobs INDEXED BY jobs_running_pool
    WHERE status = 'running' AND pool = 'chat' AND owner IS NOT NULL GROUP BY owner";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] =
    &[("pool::running", RUNNING), ("pool::chats_of_owners", CHATS_OF_OWNERS)];

/// How many answers of one person may wait for them, as a multiple of those that may be written at
/// once: each may have a process.
const ASKING_FACTOR: u32 = 4;

/// Which cap a job counts toward.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// Requested jobs: `limits.jobs`.
    #[default]
    Work,
    /// Long-lived agents: `limits.agents`.
    Live,
    /// Monitors of other jobs; uncapped.
    Monitor,
    /// Assistants' answers, with a cap per person besides the total.
    Chat,
}

impl Pool {
    /// All pools.
    pub const ALL: [Pool; 4] = [Pool::Work, Pool::Live, Pool::Monitor, Pool::Chat];

    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Pool::Work => "work",
            Pool::Live => "live",
            Pool::Monitor => "monitor",
            Pool::Chat => "chat",
        }
    }

    pub(in crate::jobs) fn parse(word: &str) -> Option<Pool> {
        Self::ALL.into_iter().find(|pool| pool.as_str() == word)
    }
}

/// Concurrency per pool.
#[derive(Clone, Debug)]
pub struct PoolCaps {
    pub(in crate::jobs) work: u32,
    pub(in crate::jobs) live: u32,
    pub(in crate::jobs) chat: u32,
    pub(in crate::jobs) chat_person: u32,
}

impl PoolCaps {
    /// Returns the caps of a script.
    pub(in crate::jobs) fn of(config: &Config) -> PoolCaps {
        PoolCaps {
            work: config.limits.jobs,
            live: config.limits.agents,
            chat: config.chat.running,
            chat_person: config.chat.running_person,
        }
    }

    /// Returns the cap of a pool; `None` for an uncapped one.
    pub(in crate::jobs) fn get(&self, pool: Pool) -> Option<u32> {
        match pool {
            Pool::Work => Some(self.work),
            Pool::Live => Some(self.live),
            Pool::Monitor => None,
            Pool::Chat => Some(self.chat),
        }
    }

    fn asking_person(&self) -> u32 {
        self.chat_person.saturating_mul(ASKING_FACTOR)
    }

    /// Returns whether a pool with this many running jobs is full.
    pub(in crate::jobs) fn is_full(&self, pool: Pool, running: u32) -> bool {
        let is_off = pool == Pool::Work && fault::is_off("job_cap");
        self.get(pool).is_some_and(|cap| running >= cap && !is_off)
    }
}

/// Running jobs by pool, without those that wait for their person.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Load {
    pools: BTreeMap<String, u32>,
    /// By owner, with those that wait for them.
    chats: BTreeMap<PersonId, (u32, u32)>,
}

impl Load {
    pub(in crate::jobs) fn read(connection: &Connection) -> Result<Load> {
        let mut statement = connection.prepare_cached(RUNNING)?;
        let pools = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let pools = pools.collect::<rusqlite::Result<BTreeMap<String, u32>>>()?;
        let mut statement = connection.prepare_cached(CHATS_OF_OWNERS)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        let chats = rows.collect::<rusqlite::Result<_>>()?;
        Ok(Load { pools, chats })
    }

    /// Returns how many jobs of a pool are running.
    pub(in crate::jobs) fn of(&self, pool: Pool) -> u32 {
        self.pools.get(pool.as_str()).copied().unwrap_or(0)
    }

    /// Returns how many chats of a person are running.
    pub(in crate::jobs) fn chats_of(&self, owner: &PersonId) -> u32 {
        self.chats.get(owner).map_or(0, |it| it.0)
    }

    /// Returns how many chats of a person wait for them, if no more may.
    pub(in crate::jobs) fn asks_too_much(&self, owner: &PersonId, caps: &PoolCaps) -> Option<u32> {
        self.chats.get(owner).map(|it| it.1).filter(|it| *it >= caps.asking_person())
    }

    /// Returns the people who have reached their limit in a pool.
    pub(in crate::jobs) fn full_persons(&self, pool: Pool, caps: &PoolCaps) -> Vec<String> {
        if pool != Pool::Chat {
            return Vec::new();
        }
        let is_full = |(working, asking): &(u32, u32)| {
            *working >= caps.chat_person || *asking >= caps.asking_person()
        };
        let full = self.chats.iter().filter(|it| is_full(it.1));
        full.map(|(owner, _)| Actor::Person(owner.clone()).to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::JobId;
    use crate::jobs::queue::claim::{is_awaited, unclaim};
    use crate::jobs::rows::table;
    use crate::jobs::tests::model::{Bench, Sort, person};
    use crate::jobs::{NewJob, Outlook, Viewer, cancel_queued};

    /// Chats do not wait for work, work not for chats, and people not for other people's chats.
    #[test]
    fn a_full_pool_keeps_no_other_one_waiting() {
        let mut bench = Bench::new(1, 1, 1);
        let sorts = [Sort::Work("a", None), Sort::Chat(1), Sort::Chat(1), Sort::Chat(1)];
        let first: Vec<JobId> =
            sorts.iter().map(|sort| bench.add(bench.request_in(*sort, 0))).collect();
        let work = bench.add(bench.request_in(sorts[0], 0));
        let other = bench.add(bench.request_in(Sort::Chat(2), 0));
        let late = bench.add(bench.request_in(Sort::Chat(2), 0));
        let started: Vec<JobId> =
            (0..4).map(|it| bench.take(&format!("{it}")).unwrap().id).collect();
        assert_eq!(started, [&first[0], &first[1], &first[2], &other].map(Clone::clone));
        assert!(bench.take("full").is_none());
        let why = |bench: &Bench, id: &JobId| {
            let job = table::find(&bench.connection, &Viewer::Program, id).unwrap();
            let now = bench.clock.now();
            let look =
                Outlook::of(&bench.connection, &Viewer::Program, bench.caps.clone(), now).unwrap();
            let waiting = look.why(&bench.connection, &job).unwrap().unwrap();
            format!("{}: {}", waiting.code, waiting.message)
        };
        assert_eq!(why(&bench, &work), "jobs_cap: 1 of at most 1 jobs run");
        assert_eq!(why(&bench, &late), "chat_cap: 3 of at most 3 answers are being written");
        bench.end(&other);
        assert_eq!(
            why(&bench, &first[3]),
            "chat_cap: 2 of at most 2 answers for you are being written"
        );
        assert_eq!(bench.take("next").unwrap().id, late);
        let open = [Pool::Live, Pool::Monitor];
        let now = bench.clock.now();
        assert!(!is_awaited(&bench.connection, &open, now).unwrap());
        let agent = bench.add(bench.request_in(Sort::Live, 1));
        assert!(is_awaited(&bench.connection, &open, now).unwrap());
        let taken = bench.take("live").unwrap();
        assert_eq!(
            (taken.id, taken.pool, taken.agent.as_deref()),
            (agent, Pool::Live, Some("agent-1"))
        );
    }

    #[test]
    fn the_events_of_a_private_job_are_its_owners() {
        let mut bench = Bench::new(1, 1, 1);
        let chat = bench.add(bench.request_in(Sort::Chat(1), 0));
        bench.take("t").unwrap();
        let back = table::find(&bench.connection, &Viewer::Program, &chat).unwrap();
        bench.tx(|bench, tx| unclaim(tx, &back, &bench.caps.lanes).unwrap());
        bench.take("u").unwrap();
        bench.end(&chat);
        let waiting = bench.add(bench.request_in(Sort::Chat(1), 0));
        bench.tx(|bench, tx| {
            assert!(cancel_queued(tx, &waiting, &Actor::Script, &bench.caps.lanes).unwrap());
        });
        let sql = "SELECT kind, scope FROM events WHERE kind LIKE 'job_%' ORDER BY id";
        let mut statement = bench.connection.prepare(sql).unwrap();
        let told = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let told: Vec<(String, String)> = told.map(std::result::Result::unwrap).collect();
        let scope = format!("person:{}", person(1));
        let kinds = ["queued", "started", "queued", "started", "finished", "queued", "finished"];
        let expected = kinds.map(|kind| (format!("job_{kind}"), scope.clone()));
        assert_eq!(told, expected);
    }

    #[test]
    fn a_private_job_is_asked_for_by_its_owner() {
        let mut bench = Bench::new(1, 1, 1);
        let chat = bench.request_in(Sort::Chat(1), 0);
        for wrong in [
            NewJob { owner: None, ..chat.clone() },
            NewJob { owner: Some(person(2)), ..chat.clone() },
            NewJob { requested_by: Actor::Script, ..chat },
        ] {
            assert!(bench.try_add(&wrong).is_err(), "{wrong:?}");
        }
    }
}
