//! Why a job waits, and until when: the same answer for API, command line, page and claim.
//!
//! **Invariant:** the claim uses the same [`Gate`] from which the reasons are derived.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, named_params};

use crate::api::jobs::Waiting;
use crate::base::{JobId, Millis, PersonId, Result};
use crate::jobs::queue::cap::{DailyCaps, Spent};
use crate::jobs::queue::claim::Caps;
use crate::jobs::queue::engine_hold::{self, Hold};
use crate::jobs::queue::lane;
use crate::jobs::queue::steering_hold::{Steering, steering};
use crate::jobs::queue::unfit;
use crate::jobs::rows::pool::{Load, Pool};
use crate::jobs::{Job, Status, Viewer};
use crate::script::Config;

const RUNNING_OF_KINDS: &str = "
    SELECT COALESCE(kind_names.name, kind), COUNT(*) FROM agent_jobs INDEXED BY jobs_running
    LEFT JOIN kind_names ON kind_names.was = kind
    WHERE status = 'running' GROUP BY 1";
const HOLDERS: &str = "
    SELECT id, kind, started_ms, owner FROM agent_jobs INDEXED BY jobs_lane_slot
    WHERE lane_key = :lane AND status = 'running' ORDER BY lane_slot";
const FIRST_IN_LANE: &str = "
    SELECT id, kind, started_ms, owner FROM agent_jobs INDEXED BY jobs_waiting
    WHERE lane_key = :lane AND status = 'queued' AND ready >= 0
    ORDER BY priority DESC, seq LIMIT :free";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("waiting::running_of_kinds", RUNNING_OF_KINDS),
    ("waiting::holders", HOLDERS),
    ("waiting::first_in_lane", FIRST_IN_LANE),
];

/// Conditions for starting a job besides lanes and counts.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Rules {
    /// Daily caps.
    pub(in crate::jobs) daily: DailyCaps,
    /// The engine of each kind.
    pub(in crate::jobs) engines: BTreeMap<String, String>,
    /// The mark of each engine.
    marks: BTreeMap<String, String>,
    /// Engines that are not held when their provider is rate limiting.
    pub(in crate::jobs) unheld: BTreeSet<String>,
    /// Engines built into this program, which no file of the repository steers.
    builtin: BTreeSet<String>,
    /// Whether `engines` contains every kind.
    knows_kinds: bool,
}

/// What is blocked at one moment.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Gate {
    holds: BTreeMap<String, Hold>,
    /// Undecided changes of files that steer agents.
    steering: Option<Steering>,
    pub(in crate::jobs) spent: Spent,
}

impl Rules {
    pub(in crate::jobs) fn of(config: &Config) -> Rules {
        let engines = config.kinds_of_jobs().map(|it| (it.name.clone(), it.engine.clone()));
        let unheld = config.engines.values().filter(|it| !it.is_held_by_limits);
        let marks = config.engines.values().map(|it| (it.name.clone(), it.mark(&config.folder)));
        let builtin = config.engines.values().filter(|it| it.is_builtin());
        Rules {
            daily: DailyCaps::of(config),
            engines: engines.collect(),
            marks: marks.collect(),
            unheld: unheld.map(|it| it.name.clone()).collect(),
            builtin: builtin.map(|it| it.name.clone()).collect(),
            knows_kinds: true,
        }
    }

    /// Returns whether the script no longer has this kind. Its jobs wait until it has it again.
    fn is_gone(&self, kind: &str) -> bool {
        self.knows_kinds && !self.engines.contains_key(kind)
    }

    /// Returns the engine that runs jobs of a kind.
    pub(in crate::jobs) fn engine(&self, kind: &str) -> Option<&str> {
        self.engines.get(kind).map(String::as_str)
    }

    /// Returns the mark of the engine that runs jobs of a kind.
    pub(in crate::jobs) fn mark(&self, kind: &str) -> Option<&str> {
        self.marks.get(self.engine(kind)?).map(String::as_str)
    }

    /// Returns the engine whose holds a job waits for. Somebody is waiting for an assistant's
    /// answer, so chats start anyway, and use another engine or report the hold.
    fn held_engine(&self, pool: Pool, kind: &str) -> Option<&str> {
        self.engine(kind).filter(|_| pool != Pool::Chat)
    }

    /// Returns whether jobs of an engine wait while its provider is rate limiting.
    pub(in crate::jobs) fn is_held(&self, engine: &str) -> bool {
        !self.unheld.contains(engine)
    }

    /// Returns what is blocked now.
    pub(in crate::jobs) fn gate(&self, connection: &Connection, now: Millis) -> Result<Gate> {
        let holds = engine_hold::holds(connection, &Viewer::Site, now)?.into_iter();
        let holds = holds.filter(|it| self.is_held(&it.engine));
        Ok(Gate {
            holds: holds.map(|it| (it.engine.clone(), it)).collect(),
            steering: steering(connection)?,
            spent: self.daily.spent(connection, now)?,
        })
    }

    /// Returns whether no job of a kind may start in a pool, whoever requested it.
    pub(in crate::jobs) fn is_closed(&self, gate: &Gate, (pool, kind): (Pool, &str)) -> bool {
        if self.is_gone(kind) {
            return true;
        }
        let engine = self.held_engine(pool, kind);
        engine.is_some_and(|it| gate.holds.contains_key(it) || self.steering(gate, it).is_some())
            || gate.spent.is_kind(kind)
    }

    /// Returns the undecided changes that block an engine.
    fn steering<'g>(&self, gate: &'g Gate, engine: &str) -> Option<&'g Steering> {
        gate.steering.as_ref().filter(|_| !self.builtin.contains(engine))
    }

    /// Returns when something unblocks by itself: a job comes due, a hold expires, a day begins.
    pub(in crate::jobs) fn next_opening(
        &self,
        connection: &Connection,
        now: Millis,
    ) -> Result<Option<Millis>> {
        let gate = self.gate(connection, now)?;
        let due = lane::next_due(connection)?.map(Millis);
        let holds = gate.holds.values().map(|it| it.until);
        let times = holds.chain(due).chain(gate.spent.frees_at());
        // A job that is already due waits for a slot, and the end of another job will ring.
        Ok(times.filter(|it| *it > now).min())
    }
}

/// Another job of the same lane.
struct Other {
    id: JobId,
    kind: String,
    started_at: Option<Millis>,
    /// Whether the viewer can see it.
    is_seen: bool,
}

impl Other {
    fn name(&self) -> String {
        if self.is_seen { format!("job {}", self.id) } else { "another job".to_owned() }
    }
}

impl Waiting {
    fn new(code: &'static str, message: String) -> Waiting {
        let code = Cow::Borrowed(code);
        let (until, job_id, job_kind, job_started_at) = (None, None, None, None);
        Waiting { code, message, until, job_id, job_kind, job_started_at }
    }

    fn until(mut self, at: Millis) -> Waiting {
        self.until = Some(at);
        self
    }

    fn job(mut self, id: JobId) -> Waiting {
        self.job_id = Some(id);
        self
    }

    fn other(mut self, other: Other) -> Waiting {
        if !other.is_seen {
            return self;
        }
        self.job_id = Some(other.id);
        self.job_kind = Some(other.kind);
        self.job_started_at = other.started_at;
        self
    }
}

/// The state of the queue at one moment, from which the reasons are derived.
pub struct Outlook {
    viewer: Viewer,
    caps: Caps,
    gate: Gate,
    running: BTreeMap<String, u32>,
    load: Load,
    now: Millis,
}

impl Outlook {
    /// Loads the current state under this script, for a viewer.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn load(
        connection: &Connection,
        viewer: &Viewer,
        config: &Config,
        now: Millis,
    ) -> Result<Outlook> {
        Outlook::of(connection, viewer, Caps::of(config), now)
    }

    pub(in crate::jobs) fn of(
        connection: &Connection,
        viewer: &Viewer,
        caps: Caps,
        now: Millis,
    ) -> Result<Outlook> {
        let viewer = viewer.clone();
        let gate = caps.rules.gate(connection, now)?;
        let mut statement = connection.prepare_cached(RUNNING_OF_KINDS)?;
        let running = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let running = running.collect::<rusqlite::Result<_>>()?;
        let load = Load::read(connection)?;
        Ok(Outlook { viewer, caps, gate, running, load, now })
    }

    /// Returns whether no further job of a pool can start.
    pub fn is_full(&self, pool: Pool) -> bool {
        self.caps.pools.is_full(pool, self.load.of(pool))
    }

    /// Returns the used-up daily cap that a job, or its next leg, waits for.
    pub fn capped(&self, job: &Job) -> Option<Waiting> {
        let state = self.gate.spent.of(&job.kind, &job.requested_by)?;
        let sentence = state.sentence_for(&self.viewer);
        Some(Waiting::new("daily_cap", sentence).until(state.frees_at))
    }

    /// Returns why a job waits; `None` if it does not.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn why(&self, connection: &Connection, job: &Job) -> Result<Option<Waiting>> {
        if job.status != Status::Queued {
            return Ok(None);
        }
        if self.caps.rules.is_gone(&job.kind) {
            let kind = &job.kind;
            // Names of kinds contain no slash.
            if kind.contains('/') {
                let message = format!(
                    "the script has no inbox \"{kind}\": declare it again, or wiki-browser job \
                     cancel --kind {kind}"
                );
                return Ok(Some(Waiting::new("inbox_gone", message)));
            }
            let message = format!(
                "the script has no kind \"{kind}\": declare it again, write was = \"{kind}\" \
                 in the kind that took its place, or wiki-browser job cancel --kind {kind}"
            );
            return Ok(Some(Waiting::new("kind_gone", message)));
        }
        if let Some(why) = unfit::of(connection, &job.id)? {
            return Ok(Some(Waiting::new("kind_changed", unfit::sentence(job, &why))));
        }
        if let Some(at) = job.not_before.filter(|it| *it > self.now) {
            let message = format!("not before {} UTC", at.minute());
            return Ok(Some(Waiting::new("not_before", message).until(at)));
        }
        if let Some(waiting) = self.in_lane(connection, job)? {
            return Ok(Some(waiting));
        }
        Ok(Some(self.of_rules(job)))
    }

    fn in_lane(&self, connection: &Connection, job: &Job) -> Result<Option<Waiting>> {
        let Some(lane) = &job.lane else { return Ok(None) };
        let other = |row: &rusqlite::Row<'_>| {
            let owner: Option<PersonId> = row.get(3)?;
            let is_seen = self.viewer.sees(owner.as_ref());
            Ok(Other { id: row.get(0)?, kind: row.get(1)?, started_at: row.get(2)?, is_seen })
        };
        let holders: Vec<Other> = connection
            .prepare_cached(HOLDERS)?
            .query_map(named_params! {":lane": lane}, other)?
            .collect::<rusqlite::Result<_>>()?;
        let capacity = self.caps.lanes.of(lane) as usize;
        let free = capacity.saturating_sub(holders.len());
        if let (0, Some(holder)) = (free, holders.into_iter().next()) {
            let message = format!("lane {lane} is held by {}", holder.name());
            return Ok(Some(Waiting::new("lane_busy", message).other(holder)));
        }
        let first: Vec<Other> = connection
            .prepare_cached(FIRST_IN_LANE)?
            .query_map(named_params! {":lane": lane, ":free": free as i64}, other)?
            .collect::<rusqlite::Result<_>>()?;
        if first.iter().any(|it| it.id == job.id) {
            return Ok(None);
        }
        Ok(first.into_iter().next().map(|before| {
            let message = format!("{} is ahead of it in lane {lane}", before.name());
            Waiting::new("lane_order", message).other(before)
        }))
    }

    fn of_rules(&self, job: &Job) -> Waiting {
        let engine = self.caps.rules.held_engine(job.pool, &job.kind);
        if let Some(hold) = engine.and_then(|it| self.gate.holds.get(it)) {
            let message = format!(
                "engine \"{}\" is on hold until {} UTC: {}",
                hold.engine,
                hold.until.minute(),
                hold.message
            );
            let Some(job) = hold.job_id.clone() else {
                return Waiting::new("engine_held", message).until(hold.until);
            };
            let message = format!("{message} (job {job})");
            return Waiting::new("engine_held", message).until(hold.until).job(job);
        }
        let steering = engine.and_then(|it| Some((it, self.caps.rules.steering(&self.gate, it)?)));
        if let Some((engine, steering)) = steering {
            let message = format!("engine \"{engine}\" is on hold: {}", steering.sentence());
            return Waiting::new("engine_held", message).job(steering.job_id.clone());
        }
        if let Some(waiting) = self.capped(job) {
            return waiting;
        }
        let of_kind = self.running.get(&job.kind).copied().unwrap_or(0);
        if let Some(cap) = self.caps.kinds.get(&job.kind).filter(|it| of_kind >= **it) {
            let kind = &job.kind;
            let message = format!("{of_kind} of at most {cap} jobs of kind \"{kind}\" run");
            return Waiting::new("kind_cap", message);
        }
        self.of_pool(job).unwrap_or_else(|| Waiting::new("turn", "it starts soon".to_owned()))
    }

    fn of_pool(&self, job: &Job) -> Option<Waiting> {
        let running = self.load.of(job.pool);
        let is_full = self.caps.pools.is_full(job.pool, running);
        if let Some(cap) = self.caps.pools.get(job.pool).filter(|_| is_full) {
            let (code, what) = match job.pool {
                Pool::Live => ("agents_cap", "agents live"),
                Pool::Chat => ("chat_cap", "answers are being written"),
                Pool::Work | Pool::Monitor => ("jobs_cap", "jobs run"),
            };
            // With those that wait for a place again, there may be more.
            let running = running.min(cap);
            return Some(Waiting::new(code, format!("{running} of at most {cap} {what}")));
        }
        let owner = job.owner.as_ref().filter(|_| job.pool == Pool::Chat)?;
        if let Some(asking) = self.load.asks_too_much(owner, &self.caps.pools) {
            let message = format!("{asking} of your answers wait for your decision");
            return Some(Waiting::new("chat_asks", message));
        }
        let (own, cap) = (self.load.chats_of(owner), self.caps.pools.chat_person);
        let own = own.min(cap);
        let message = format!("{own} of at most {cap} answers for you are being written");
        (own >= cap).then(|| Waiting::new("chat_cap", message))
    }
}
