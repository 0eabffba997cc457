//! Tests the queue against a model: order, lanes and caps, for any sequence of requests and ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use rusqlite::{Connection, named_params};
use serde_json::Map;

use crate::base::limit::{KIND_QUEUED_MAX, QUEUED_MAX};
use crate::base::{Actor, ApprovalId, Clock, Ids, JobId, Millis, PersonId, Result};
use crate::jobs::queue::claim::{Caps, claim, unclaim};
use crate::jobs::queue::lane::{Capacities, refresh_all};
use crate::jobs::queue::parking;
use crate::jobs::queue::waiting::Rules;
use crate::jobs::rows::pool::{Pool, PoolCaps};
use crate::jobs::rows::table;
use crate::jobs::run::settle::{Outcome, settle};
use crate::jobs::{
    Hooks, Job, NewJob, Prepared, Status, Viewer, Watched, Workspaces, cancel_queued, enqueue,
    fence,
};
use crate::script::OnBusy;
use crate::store::{Tx, in_memory};

/// Returns one of several people; the first two exist.
pub(in crate::jobs) fn person(digit: u8) -> PersonId {
    format!("018bcfe5-6800-7000-8000-00000000000{digit}").parse().unwrap()
}

pub(in crate::jobs) struct Bench {
    pub(in crate::jobs) connection: Connection,
    pub(in crate::jobs) clock: Clock,
    pub(in crate::jobs) ids: Ids,
    pub(in crate::jobs) caps: Caps,
    pub(in crate::jobs) hooks: Hooks,
}

impl Bench {
    pub(in crate::jobs) fn new(jobs: u32, kind_b: u32, lane: u32) -> Bench {
        let connection = in_memory();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        let clock = Clock::fixed(Millis(1_700_000_000_000));
        for number in 1..=2 {
            let person = named_params! {":id": person(number), ":name": format!("p{number}")};
            let sql = "INSERT INTO persons (id, name, display_name, role, created_ms)
                VALUES (:id, :name, :name, 'member', 0)";
            connection.execute(sql, person).unwrap();
        }
        let caps = Caps {
            pools: PoolCaps { work: jobs, live: 2, chat: 3, chat_person: 2 },
            kinds: BTreeMap::from([("b".to_owned(), kind_b)]),
            lanes: Capacities(BTreeMap::from([("wide".to_owned(), lane)])),
            rules: Rules::default(),
        };
        let hooks = Hooks {
            prepare: Arc::new(|_, _| {
                Box::pin(async {
                    let (inputs, prompt, grants) = Default::default();
                    let (env, files, session) = (Vec::new(), None, None);
                    let (alone, workspace) = (None, None);
                    Ok(Prepared { inputs, prompt, grants, env, files, session, alone, workspace })
                })
            }),
            verify: Arc::new(|_, _| Box::pin(async { None })),
            produced: Arc::new(|_, _, _| Ok(true)),
            settled: Arc::new(|_, _| Ok(())),
            answers: Arc::new(|_, _| Ok(())),
            quiet: Arc::new(|_| Box::pin(std::future::ready(()))),
            parked: Arc::new(|_, _| Ok(())),
            begun: Arc::new(|_, _, _| Ok(())),
            tip: Arc::new(|| Some(0)),
            given_back: Arc::new(|_, _| Ok(())),
            look: Arc::new(|| Box::pin(std::future::ready(()))),
            unread: Arc::new(|| {}),
            steady: Arc::new(|_| Box::pin(async { true })),
            watch: Arc::new(|_, _| {
                Box::pin(async {
                    let nothing: Watched = Box::new(|| Box::pin(async { Vec::new() }));
                    nothing
                })
            }),
            heard: Arc::new(|_, _, _| Ok(())),
            spent: Arc::new(|_| (None, None)),
            recall: Arc::new(|_| Box::pin(async { Vec::new() })),
            workspace: Workspaces::none(),
            listen: Arc::new(|_, _| Ok(None)),
        };
        Bench { connection, ids: Ids::new(clock.clone()), clock, caps, hooks }
    }

    pub(in crate::jobs) fn tx<T>(&mut self, work: impl Fn(&Bench, &Tx<'_>) -> T) -> T {
        self.clock.advance(1);
        let transaction = self.connection.unchecked_transaction().unwrap();
        let done = work(self, &Tx::for_test(&transaction, self.clock.now()));
        transaction.commit().unwrap();
        done
    }

    /// Returns a job parked for an approval.
    pub(in crate::jobs) fn parked(&mut self, lane: Option<&str>) -> (JobId, ApprovalId) {
        let approval: ApprovalId = self.ids.mint();
        let new = self.request("a", lane, 0, 0);
        let id = self.add(new);
        self.tx(|bench, tx| {
            let job = claim(tx, &bench.caps, id.as_str(), "c").unwrap().unwrap();
            parking::wait_for(tx, &job, &approval).unwrap();
            parking::keep_session(tx, &job.id, "s1").unwrap();
        });
        self.tx(|bench, tx| {
            let (done, lanes) = (Outcome::default(), &bench.caps.lanes);
            settle(tx, &id, &done, None, &bench.hooks, lanes).unwrap()
        });
        (id, approval)
    }

    pub(in crate::jobs) fn request(
        &self,
        kind: &str,
        lane: Option<&str>,
        priority: i64,
        delay: i64,
    ) -> NewJob {
        NewJob {
            kind: kind.to_owned(),
            lane: lane.map(str::to_owned),
            on_busy: OnBusy::Queue,
            source_path: None,
            topic_id: None,
            persona_name: None,
            inputs: Map::new(),
            sources: Vec::new(),
            grants: Vec::new(),
            requested_by: Actor::System,
            priority,
            not_before: (delay > 0).then(|| self.clock.now().plus(delay)),
            config_digest: "digest".to_owned(),
            retry_of: None,
            depth: 0,
            message_id: None,
            owner: None,
            pool: Pool::Work,
            agent: None,
            monitor_of: None,
        }
    }

    /// The same in another pool; a chat of one of two people.
    pub(in crate::jobs) fn request_in(&self, sort: Sort, seq: usize) -> NewJob {
        let new = self.request(sort.kind(), sort.lane(), 0, 0);
        match sort {
            Sort::Work(..) => new,
            Sort::Live => NewJob { pool: Pool::Live, agent: Some(format!("agent-{seq}")), ..new },
            Sort::Monitor => NewJob { pool: Pool::Monitor, ..new },
            Sort::Chat(digit) => {
                let owner = person(digit);
                let requested_by = Actor::Person(owner.clone());
                NewJob { pool: Pool::Chat, owner: Some(owner), requested_by, ..new }
            }
        }
    }

    pub(in crate::jobs) fn add(&mut self, new: NewJob) -> JobId {
        self.tx(|bench, tx| enqueue(tx, &bench.ids, &bench.caps.lanes, &new).unwrap())
    }

    pub(in crate::jobs) fn try_add(&mut self, new: &NewJob) -> Result<JobId> {
        self.tx(|bench, tx| enqueue(tx, &bench.ids, &bench.caps.lanes, new))
    }

    fn give_back(&mut self, id: &JobId) {
        let job = table::find(&self.connection, &Viewer::Program, id).unwrap();
        self.tx(|bench, tx| unclaim(tx, &job, &bench.caps.lanes).unwrap());
    }

    /// Sets new caps, like a start with another script.
    fn set_caps(&mut self, jobs: u32, kind_b: u32, lane: u32) {
        self.caps.pools.work = jobs;
        self.caps.kinds.insert("b".to_owned(), kind_b);
        self.caps.lanes.0.insert("wide".to_owned(), lane);
        self.tx(|bench, tx| refresh_all(tx, &bench.caps.lanes).unwrap());
    }

    pub(in crate::jobs) fn take(&mut self, token: &str) -> Option<Job> {
        self.tx(|bench, tx| claim(tx, &bench.caps, token, "digest").unwrap())
    }

    pub(in crate::jobs) fn end(&mut self, id: &JobId) {
        self.tx(|bench, tx| {
            settle(tx, id, &Outcome::default(), None, &bench.hooks, &bench.caps.lanes).unwrap()
        });
    }
}

/// What a job is, as far as caps are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jobs) enum Sort {
    /// Work of a kind, in a lane.
    Work(&'static str, Option<&'static str>),
    Live,
    Monitor,
    /// A chat of one of two people.
    Chat(u8),
}

impl Sort {
    fn kind(self) -> &'static str {
        match self {
            Sort::Work(kind, _) => kind,
            Sort::Live => "@a",
            // Kinds of several pools do not interfere with each other.
            Sort::Monitor => "a",
            Sort::Chat(_) => "c",
        }
    }

    fn lane(self) -> Option<&'static str> {
        if let Sort::Work(_, lane) = self { lane } else { None }
    }
}

/// The expected queue, as simply as possible.
#[derive(Clone, Debug)]
struct Waiting {
    id: JobId,
    sort: Sort,
    lane: Option<&'static str>,
    priority: i64,
    seq: usize,
    due: i64,
}

fn next<'a>(
    bench: &Bench,
    waiting: &'a [Waiting],
    running: &[Waiting],
    now: i64,
) -> Option<&'a Waiting> {
    let in_lane = |lane: &str| running.iter().filter(|it| it.lane == Some(lane)).count() as u32;
    let count = |is: &dyn Fn(Sort) -> bool| {
        u32::try_from(running.iter().filter(|it| is(it.sort)).count()).unwrap()
    };
    let of_kind = |kind: &str| count(&|sort| sort.kind() == kind);
    let pools = &bench.caps.pools;
    let has_room = |sort: Sort| match sort {
        Sort::Work(..) => count(&|it| matches!(it, Sort::Work(..))) < pools.work,
        Sort::Live => count(&|it| it == Sort::Live) < pools.live,
        Sort::Monitor => true,
        Sort::Chat(_) => {
            count(&|it| matches!(it, Sort::Chat(_))) < pools.chat
                && count(&|it| it == sort) < pools.chat_person
        }
    };
    let due: Vec<&Waiting> = waiting.iter().filter(|it| it.due <= now).collect();
    let order = |it: &&Waiting| (-it.priority, it.seq);
    let may_go = |it: &&Waiting| match it.lane {
        None => true,
        Some(lane) => {
            let free = bench.caps.lanes.of(lane).saturating_sub(in_lane(lane));
            let mut same: Vec<&&Waiting> =
                due.iter().filter(|other| other.lane == it.lane).collect();
            same.sort_by_key(|it| order(it));
            same.iter().take(free as usize).any(|other| other.id == it.id)
        }
    };
    let mut ready: Vec<&Waiting> = due.iter().copied().filter(may_go).collect();
    ready.retain(|it| {
        let kind = it.sort.kind();
        has_room(it.sort) && bench.caps.kinds.get(kind).is_none_or(|cap| of_kind(kind) < *cap)
    });
    ready.sort_by_key(order);
    ready.first().copied()
}

#[derive(Clone, Debug)]
enum Step {
    Add(Sort, i64, i64, OnBusy),
    Take,
    End(usize),
    Cancel(usize),
    Wait(i64),
    /// The server stops before a claimed job was started.
    GiveBack(usize),
    /// A new script has other caps: for all jobs, kind b, and the wide lane.
    Caps(u32, u32, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lanes = prop_oneof![
        Just(None),
        Just(Some("source_path=a.md")),
        Just(Some("source_path=b.md")),
        Just(Some("wide=x")),
    ];
    let busy = prop_oneof![3 => Just(OnBusy::Queue), 1 => Just(OnBusy::Reject)];
    let delay = prop_oneof![Just(0), 1..50i64];
    let work =
        (prop_oneof![Just("a"), Just("b")], lanes).prop_map(|(kind, lane)| Sort::Work(kind, lane));
    let sort = prop_oneof![
        6 => work,
        1 => Just(Sort::Live),
        1 => Just(Sort::Monitor),
        2 => (1..3u8).prop_map(Sort::Chat),
    ];
    let add = (sort, -1..2i64, delay, busy)
        .prop_map(|(sort, priority, delay, busy)| Step::Add(sort, priority, delay, busy));
    let step = prop_oneof![
        4 => add,
        4 => Just(Step::Take),
        3 => (0..8usize).prop_map(Step::End),
        1 => (0..8usize).prop_map(Step::Cancel),
        1 => (1..60i64).prop_map(Step::Wait),
        1 => (0..8usize).prop_map(Step::GiveBack),
        1 => (1..4u32, 1..4u32, 1..4u32).prop_map(|(a, b, c)| Step::Caps(a, b, c)),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        // A run with a disabled mechanism fails on purpose, and must leave nothing behind.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// G6 and half of G3: the next job is the one that the model predicts, and no cap is exceeded.
    #[test]
    fn g06_the_queue_does_what_the_model_says(
        steps in steps(), jobs in 1..4u32, kind_b in 1..3u32, lane in 1..3u32,
    ) {
        let mut bench = Bench::new(jobs, kind_b, lane);
        let (mut waiting, mut running): (Vec<Waiting>, Vec<Waiting>) = Default::default();
        for (seq, step) in steps.into_iter().enumerate() {
            match step {
                Step::Add(sort, priority, delay, on_busy) => {
                    let timed = bench.request(sort.kind(), None, priority, delay);
                    let new = NewJob {
                        on_busy, priority, not_before: timed.not_before,
                        ..bench.request_in(sort, seq)
                    };
                    let lane = sort.lane();
                    let due = new.not_before.map_or(0, |it| it.0);
                    let held = |it: &&Waiting| lane.is_some() && it.lane == lane;
                    let held = waiting.iter().filter(held).count()
                        + running.iter().filter(held).count();
                    let is_busy = lane.is_some_and(|it| held as u32 >= bench.caps.lanes.of(it));
                    let made = bench.try_add(&new);
                    if is_busy && on_busy == OnBusy::Reject {
                        let refused = made.unwrap_err();
                        prop_assert_eq!(refused.code_str(), "lane_busy");
                        continue;
                    }
                    waiting.push(Waiting { id: made.unwrap(), sort, lane, priority, seq, due });
                }
                Step::Take => {
                    let taken = bench.take(&format!("token-{seq}")).map(|it| it.id);
                    let now = bench.clock.now().0;
                    let expected = next(&bench, &waiting, &running, now).cloned();
                    prop_assert_eq!(&taken, &expected.as_ref().map(|it| it.id.clone()));
                    if let Some(expected) = expected {
                        waiting.retain(|it| it.id != expected.id);
                        running.push(expected);
                    }
                }
                Step::End(which) if !running.is_empty() => {
                    let ended = running.remove(which % running.len());
                    bench.end(&ended.id);
                }
                Step::Cancel(which) if !waiting.is_empty() => {
                    let gone = waiting.remove(which % waiting.len());
                    let lanes = bench.caps.lanes.clone();
                    let cancel = |_: &Bench, tx: &Tx<'_>| {
                        cancel_queued(tx, &gone.id, &Actor::System, &lanes).unwrap()
                    };
                    let did = bench.tx(cancel);
                    prop_assert!(did);
                }
                Step::Wait(ms) => bench.clock.advance(ms),
                Step::GiveBack(which) if !running.is_empty() => {
                    let back = running.remove(which % running.len());
                    bench.give_back(&back.id);
                    // Its time has come already, and it keeps its place in the order.
                    waiting.push(back);
                    waiting.sort_by_key(|it| it.seq);
                }
                Step::Caps(jobs, kind_b, lane) => bench.set_caps(jobs, kind_b, lane),
                Step::End(_) | Step::Cancel(_) | Step::GiveBack(_) => {}
            }
        }
    }
}

#[test]
fn a_busy_lane_refuses_and_names_the_job_in_the_way() {
    let mut bench = Bench::new(2, 2, 2);
    let first = bench.add(bench.request("a", Some("source_path=a.md"), 0, 0));
    let mut second = bench.request("a", Some("source_path=a.md"), 0, 0);
    second.on_busy = OnBusy::Reject;
    let refused =
        bench.tx(|bench, tx| enqueue(tx, &bench.ids, &bench.caps.lanes, &second).unwrap_err());
    assert_eq!(refused.code_str(), "lane_busy");
    assert!(refused.message().contains(first.as_str()));
    // A lane with room for two accepts a second one.
    bench.add(bench.request("a", Some("wide=x"), 0, 0));
    let mut other = bench.request("a", Some("wide=x"), 0, 0);
    other.on_busy = OnBusy::Reject;
    bench.add(other);
}

#[test]
fn g04_a_token_counts_while_its_job_runs_and_never_again() {
    let mut bench = Bench::new(1, 1, 1);
    let id = bench.add(bench.request("a", None, 0, 0));
    bench.take("digest-of-token").unwrap();
    let code = |bench: &mut Bench| {
        bench.tx(|_, tx| fence(tx, "digest-of-token").err().map(|it| it.code_str().to_owned()))
    };
    assert_eq!(code(&mut bench), None);
    bench.tx(|_, tx| assert!(crate::jobs::run::settle::begin_ending(tx, &id).unwrap()));
    assert_eq!(code(&mut bench).as_deref(), Some("job_ended"));
    bench.end(&id);
    assert_eq!(code(&mut bench).as_deref(), Some("job_ended"));
    let job = table::find(&bench.connection, &Viewer::Program, &id).unwrap();
    assert_eq!(job.status, Status::Succeeded);
    let unknown = bench.tx(|_, tx| fence(tx, "another").unwrap_err());
    assert_eq!(unknown.kind(), crate::base::ErrorKind::Unauthenticated);
}

#[test]
fn a_job_is_settled_once() {
    let mut bench = Bench::new(1, 1, 1);
    let id = bench.add(bench.request("a", None, 0, 0));
    bench.take("t").unwrap();
    bench.end(&id);
    let again = bench.tx(|bench, tx| {
        settle(tx, &id, &Outcome::default(), None, &bench.hooks, &bench.caps.lanes).unwrap_err()
    });
    assert_eq!(again.code_str(), "job_ended");
}

#[test]
fn a_full_queue_says_so() {
    let mut bench = Bench::new(1, 1, 1);
    for _ in 0..crate::base::limit::LANE_QUEUED_MAX {
        bench.add(bench.request("a", Some("source_path=a.md"), 0, 0));
    }
    let new = bench.request("a", Some("source_path=a.md"), 0, 0);
    let refused =
        bench.tx(|bench, tx| enqueue(tx, &bench.ids, &bench.caps.lanes, &new).unwrap_err());
    assert_eq!(refused.code_str(), "queue_full");
}

/// Fails with `WB_WITHOUT=fair_queue`.
#[test]
fn neither_a_kind_nor_a_person_fills_the_queue() {
    let mut bench = Bench::new(1, 1, 1);
    let person = |digit: u8| Actor::Person(person(digit));
    let mut filled = 0;
    let mut fill = |bench: &Bench, kind: &str, by: &Actor, count: i64| {
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
            INSERT INTO agent_jobs (id, kind, status, inputs_json, grants_json, requested_by, ready,
                created_ms, config_digest)
            SELECT printf('018bcfe5-6800-7000-8000-%012d', i + :filled), :kind, 'queued', '{}',
                '[]', :by, 1, 0, 'digest' FROM n";
        let params = rusqlite::named_params! {
            ":count": count, ":filled": filled, ":kind": kind, ":by": by,
        };
        bench.connection.execute(sql, params).unwrap();
        filled += count;
    };
    let ask = |bench: &mut Bench, kind: &str, by: u8| {
        let new = NewJob { requested_by: person(by), ..bench.request(kind, None, 0, 0) };
        bench.tx(|bench, tx| {
            let made = enqueue(tx, &bench.ids, &bench.caps.lanes, &new);
            made.err().map(|it| format!("{} {}", it.code_str(), it.message()))
        })
    };
    fill(&bench, "a", &person(1), KIND_QUEUED_MAX - 1);
    assert_eq!(ask(&mut bench, "a", 2), None);
    let refused = ask(&mut bench, "a", 2).unwrap();
    assert!(refused.contains("jobs of kind a") && refused.contains("5000"), "{refused}");
    assert_eq!(ask(&mut bench, "b", 1), None);
    let refused = ask(&mut bench, "b", 1).unwrap();
    assert!(refused.contains("same person") && refused.contains("5000"), "{refused}");
    assert_eq!(ask(&mut bench, "b", 2), None);
    fill(&bench, "b", &person(2), QUEUED_MAX - KIND_QUEUED_MAX - 2);
    let refused = ask(&mut bench, "c", 3).unwrap();
    assert!(refused.starts_with("queue_full") && refused.contains("10000"), "{refused}");
}
