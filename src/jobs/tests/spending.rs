//! Tests of daily caps, engine holds and usage, with a clock set by the tests.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use crate::base::{Actor, JobId, Millis};
use crate::jobs::rows::table;
use crate::jobs::rows::usage::{DAY_MS, day_of, next_day};
use crate::jobs::run::settle::{Ended, Outcome, settle};
use crate::jobs::telemetry::limit::Limit;
use crate::jobs::tests::model::{Bench, Sort, person};
use crate::jobs::{
    Job, Outlook, Reason, Status, UsageBy, Viewer, cancel_queued, enqueue, holds, release, usage,
};
use crate::script::Daily;

fn dollars(cost_usd: f64) -> Daily {
    Daily { cost_usd: Some(cost_usd), ..Daily::default() }
}

fn persona(name: &str) -> Actor {
    Actor::Persona(name.to_owned())
}

/// Returns a person: a cap of persons counts no other actor.
fn named(name: &str) -> Actor {
    let place = ["ada", "bob", "cy"].iter().position(|it| *it == name).unwrap();
    Actor::Person(person(u8::try_from(place).unwrap() + 1))
}

fn ask(bench: &mut Bench, kind: &str, by: &str) -> JobId {
    let mut new = bench.request(kind, None, 0, 0);
    new.requested_by = named(by);
    bench.add(new)
}

/// Settles a job with its usage.
fn spend(bench: &mut Bench, id: &JobId, cost_usd: f64, outcome: Outcome) -> Job {
    let usage = json!({
        "input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100,
        "output_tokens": 1,
    });
    let outcome = Outcome { usage: Some(usage), cost_usd: Some(cost_usd), ..outcome };
    bench.tx(|bench, tx| settle(tx, id, &outcome, None, &bench.hooks, &bench.caps.lanes).unwrap())
}

fn run(bench: &mut Bench, kind: &str, by: &str, cost_usd: f64) {
    let id = ask(bench, kind, by);
    assert_eq!(bench.take(id.as_str()).map(|it| it.id), Some(id.clone()));
    spend(bench, &id, cost_usd, Outcome::default());
}

fn why(bench: &Bench, id: &JobId) -> (&'static str, String) {
    let job = table::find(&bench.connection, &Viewer::Program, id).unwrap();
    let look =
        Outlook::of(&bench.connection, &Viewer::Program, bench.caps.clone(), bench.clock.now())
            .unwrap();
    let waiting = look.why(&bench.connection, &job).unwrap().unwrap();
    let Cow::Borrowed(code) = waiting.code else { panic!("a word of this program") };
    (code, waiting.message)
}

fn refusal(bench: &mut Bench, kind: &str, by: &str, not_before: Option<Millis>) -> Option<String> {
    let mut new = bench.request(kind, None, 0, 0);
    (new.requested_by, new.not_before) = (named(by), not_before);
    bench.tx(|bench, tx| {
        let admitted = bench.caps.rules.daily.admit(tx.connection(), &new, tx.now());
        admitted.err().map(|it| format!("{}: {it} {}", it.code_str(), it.hint_str().unwrap()))
    })
}

#[test]
fn g06_a_day_ends_at_its_cap_and_the_next_one_begins_at_midnight() {
    let mut bench = Bench::new(4, 4, 1);
    bench.caps.rules.daily.site = Some(dollars(1.0));
    run(&mut bench, "a", "ada", 0.4);
    assert_eq!(refusal(&mut bench, "a", "ada", None), None);
    let waiting = ask(&mut bench, "a", "ada");
    let last = ask(&mut bench, "a", "ada");
    // A cap that is reached exactly is exhausted.
    assert_eq!(bench.take("1").unwrap().id, waiting);
    spend(&mut bench, &waiting, 0.6, Outcome::default());
    assert!(bench.take("2").is_none());
    let (code, message) = why(&bench, &last);
    assert_eq!(code, "daily_cap");
    assert_eq!(
        message,
        "the daily cap of the site is used up (1.00 USD of 1.00 USD) until 2023-11-15 00:00 UTC"
    );
    let refused = refusal(&mut bench, "a", "ada", None).unwrap();
    assert!(refused.starts_with("daily_cap: the daily cap of the site"), "{refused}");
    assert!(refused.contains("wait until 2023-11-15T00:00:00.000Z"), "{refused}");
    let midnight = next_day(bench.clock.now());
    let too_early = Some(midnight.plus(-1));
    assert!(refusal(&mut bench, "a", "ada", too_early).is_some());
    assert_eq!(refusal(&mut bench, "a", "ada", Some(midnight)), None);
    // The queue sleeps until then, and nothing starts a moment before.
    let next = |bench: &Bench| {
        bench.caps.rules.next_opening(&bench.connection, bench.clock.now()).unwrap()
    };
    assert_eq!(next(&bench), Some(midnight));
    bench.clock.advance(midnight.0 - bench.clock.now().0 - 2);
    assert!(bench.take("3").is_none());
    assert_eq!(bench.take("4").unwrap().id, last);
    assert_eq!(bench.clock.now(), midnight);
    assert_eq!(next(&bench), None);
    spend(&mut bench, &last, 0.1, Outcome::default());
    let (days, total) =
        usage(&bench.connection, &Viewer::Program, UsageBy::Day, Millis(0)).unwrap();
    let shown: Vec<_> = days.iter().map(|it| (it.name.as_str(), it.jobs, it.cost_usd)).collect();
    assert_eq!(shown, [("2023-11-15", 1, 0.1), ("2023-11-14", 2, 1.0)]);
    assert_eq!((total.jobs, total.cached_tokens, total.input_tokens), (3, 300, 45));
}

#[test]
fn g06_no_more_than_what_runs_already_goes_beyond_a_cap() {
    let mut bench = Bench::new(3, 4, 1);
    bench.caps.rules.daily.kinds.insert("a".to_owned(), dollars(1.0));
    let asked: Vec<JobId> = (0..5).map(|_| ask(&mut bench, "a", "ada")).collect();
    let other = ask(&mut bench, "b", "ada");
    let running: Vec<Job> = (0..3).filter_map(|it| bench.take(&format!("t{it}"))).collect();
    assert_eq!(running.len(), 3);
    spend(&mut bench, &running[0].id, 5.0, Outcome::default());
    // Only the kind is capped; its running jobs continue, and are counted.
    assert_eq!(bench.take("u").unwrap().id, other);
    assert!(bench.take("v").is_none());
    for job in &running[1..] {
        spend(&mut bench, &job.id, 5.0, Outcome::default());
    }
    assert!(bench.take("w").is_none());
    let (code, message) = why(&bench, &asked[3]);
    assert_eq!(code, "daily_cap");
    assert!(message.contains("kind \"a\" is used up (15.00 USD of 1.00 USD)"), "{message}");
}

#[test]
fn the_caps_of_persons_do_not_touch_others() {
    let mut bench = Bench::new(4, 4, 1);
    bench.caps.rules.daily.person = Some(Daily { tokens: Some(116), ..Daily::default() });
    run(&mut bench, "a", "ada", 0.0);
    let hers: Vec<JobId> = (0..3).map(|_| ask(&mut bench, "a", "ada")).collect();
    let his = ask(&mut bench, "a", "bob");
    let theirs = ask(&mut bench, "b", "cy");
    assert_eq!(bench.take("1").unwrap().id, his);
    assert_eq!(bench.take("2").unwrap().id, theirs);
    assert!(bench.take("3").is_none());
    // What she has spent, in private too, is told to her alone.
    let told = why(&bench, &hers[0]).1;
    assert_eq!(told, "the daily cap of the requester is used up until 2023-11-15 00:00 UTC");
    let job = table::find(&bench.connection, &Viewer::Program, &hers[0]).unwrap();
    let own = Viewer::Person(named("ada").person().unwrap().clone());
    let look = Outlook::of(&bench.connection, &own, bench.caps.clone(), bench.clock.now()).unwrap();
    assert!(look.capped(&job).unwrap().message.contains("116 tokens of 116 tokens"));
    assert!(refusal(&mut bench, "b", "ada", None).is_some());
    assert_eq!(refusal(&mut bench, "b", "bob", None), None);
    bench.clock.advance(DAY_MS);
    assert_eq!(bench.take("4").unwrap().id, hers[0]);
}

#[test]
fn who_is_no_person_has_no_cap_of_persons() {
    let mut bench = Bench::new(4, 4, 1);
    bench.caps.rules.daily.person = Some(Daily { tokens: Some(116), ..Daily::default() });
    for actor in [Actor::Script, persona("ada"), Actor::Schedule("ada".to_owned())] {
        for _ in 0..2 {
            let mut new = bench.request("a", None, 0, 0);
            new.requested_by = actor.clone();
            let id = bench.add(new);
            assert_eq!(bench.take(id.as_str()).map(|it| it.id), Some(id.clone()), "{actor}");
            spend(&mut bench, &id, 1.0, Outcome::default());
        }
    }
}

#[test]
fn what_never_ran_has_spent_nothing_and_what_was_ended_has() {
    let mut bench = Bench::new(4, 4, 1);
    bench.caps.rules.daily.site =
        Some(Daily { time: Some(Duration::from_secs(60)), ..Daily::default() });
    let gone = ask(&mut bench, "a", "ada");
    let lanes = bench.caps.lanes.clone();
    bench.tx(|_, tx| assert!(cancel_queued(tx, &gone, &persona("ada"), &lanes).unwrap()));
    let sums = |bench: &Bench| {
        usage(&bench.connection, &Viewer::Program, UsageBy::Person, Millis(0)).unwrap()
    };
    assert_eq!(sums(&bench), (Vec::new(), Default::default()));
    let id = ask(&mut bench, "a", "ada");
    bench.take("t").unwrap();
    bench.tx(|_, tx| crate::jobs::request_cancel(tx, &id, &persona("ada")).unwrap());
    bench.clock.advance(60_000);
    let ended = spend(&mut bench, &id, 0.25, Outcome::default());
    assert_eq!(ended.status, Status::Cancelled);
    let (items, total) = sums(&bench);
    assert_eq!((&*items[0].name, items[0].cancelled), (&*named("ada").to_string(), 1));
    assert_eq!((total.cost_usd, total.output_tokens), (0.25, 1));
    assert!(total.agent_ms >= 60_000, "{total:?}");
    assert!(refusal(&mut bench, "a", "ada", None).unwrap().contains("1m of 1m"));
}

fn limited(retry_at: Option<Millis>) -> Outcome {
    Outcome {
        ended: Ended::Not(Status::Failed, Reason::ExitStatus),
        limit: Some(Limit { retry_at, is_prose: false }),
        holds_engine: true,
        ..Outcome::default()
    }
}

fn engines(bench: &mut Bench) {
    let pairs = [("a", "claude"), ("b", "codex"), ("c", "claude")];
    let pairs = pairs.map(|(kind, engine)| (kind.to_owned(), engine.to_owned()));
    bench.caps.rules.engines = BTreeMap::from(pairs);
}

#[test]
fn g06_a_limit_holds_the_other_jobs_of_its_engine_until_its_time() {
    let mut bench = Bench::new(4, 4, 1);
    engines(&mut bench);
    let first = ask(&mut bench, "a", "ada");
    bench.take("1").unwrap();
    let until = bench.clock.now().plus(3_600_000);
    let failed = spend(&mut bench, &first, 0.0, limited(Some(until)));
    assert_eq!((failed.reason, failed.retry_at), (Some(Reason::RateLimited), Some(until)));
    assert_eq!(failed.engine.as_deref(), Some("claude"));
    let waiting: Vec<JobId> = ["a", "c"].map(|kind| ask(&mut bench, kind, "ada")).into();
    let other = ask(&mut bench, "b", "ada");
    assert_eq!(bench.take("2").unwrap().id, other);
    assert!(bench.take("3").is_none());
    for id in &waiting {
        let (code, message) = why(&bench, id);
        assert_eq!(code, "engine_held");
        assert!(message.contains("\"claude\" is on hold until 2023-11-14 23:13 UTC"), "{message}");
    }
    let opening = bench.caps.rules.next_opening(&bench.connection, bench.clock.now()).unwrap();
    assert_eq!(opening, Some(until));
    bench.clock.advance(3_600_000);
    assert_eq!(bench.take("4").unwrap().id, waiting[0]);
    // An engine that is not held, at the script's request.
    let again = limited(Some(bench.clock.now().plus(9_000)));
    let failed = spend(&mut bench, &waiting[0], 0.0, again);
    assert_eq!(failed.reason, Some(Reason::RateLimited));
    assert!(bench.take("5").is_none());
    bench.caps.rules.unheld = BTreeSet::from(["claude".to_owned()]);
    assert_eq!(bench.take("6").unwrap().id, waiting[1]);
}

/// A private job uses its owner's login: its limit affects nobody else.
#[test]
fn a_limit_of_a_private_job_holds_its_owner_and_no_claim() {
    let mut bench = Bench::new(4, 4, 1);
    let pairs = [("a", "claude"), ("c", "claude")];
    let pairs = pairs.map(|(kind, engine)| (kind.to_owned(), engine.to_owned()));
    bench.caps.rules.engines = BTreeMap::from(pairs);
    let chat = bench.add(bench.request_in(Sort::Chat(1), 0));
    bench.take("1").unwrap();
    let until = bench.clock.now().plus(3_600_000);
    spend(&mut bench, &chat, 0.0, limited(Some(until)));
    let held = |bench: &Bench, viewer: &Viewer| {
        let held = holds(&bench.connection, viewer, bench.clock.now()).unwrap();
        held.into_iter().map(|hold| (hold.engine, hold.until, hold.job_id)).collect::<Vec<_>>()
    };
    let (own, other) = (Viewer::Person(person(1)), Viewer::Person(person(2)));
    assert_eq!(held(&bench, &own), [("claude".to_owned(), until, None)]);
    assert!(held(&bench, &other).is_empty() && held(&bench, &Viewer::Site).is_empty());
    let last = "SELECT scope, data_json FROM events WHERE kind = 'engine_held' ORDER BY id DESC";
    let event = |bench: &Bench| -> (String, String) {
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        bench.connection.query_row(last, [], row).unwrap()
    };
    let (scope, data) = event(&bench);
    assert_eq!(scope, format!("person:{}", person(1)));
    assert!(data.contains("\"job_id\":null"), "{data}");
    // Jobs of the site continue, and have holds of their own; chats start regardless.
    let work = ask(&mut bench, "a", "ada");
    assert_eq!(bench.take("2").unwrap().id, work);
    spend(&mut bench, &work, 0.0, limited(Some(until.plus(9))));
    assert_eq!(held(&bench, &own), [("claude".to_owned(), until.plus(9), Some(work))]);
    let later = ask(&mut bench, "a", "ada");
    let next = bench.add(bench.request_in(Sort::Chat(1), 0));
    assert_eq!(why(&bench, &later).0, "engine_held");
    assert_eq!(bench.take("3").unwrap().id, next);
    assert!(bench.take("4").is_none());
    // Lifting it lifts both; other people's holds are invisible.
    bench.tx(|_, tx| release(tx, "claude", None, &Actor::Person(person(2))).unwrap());
    assert_eq!(held(&bench, &own).len(), 1);
    assert_eq!(bench.take("5").unwrap().id, later);
    let lift = |bench: &mut Bench, digit: u8| {
        bench.tx(|_, tx| release(tx, "claude", None, &Actor::Person(person(digit))).is_ok())
    };
    assert!(!lift(&mut bench, 2));
    // Somebody else lifts it only by naming its person.
    bench.tx(|_, tx| release(tx, "claude", Some(&person(1)), &Actor::Person(person(2))).unwrap());
    assert!(held(&bench, &own).is_empty() && !lift(&mut bench, 1));
}

#[test]
fn a_person_lifts_a_hold_and_a_guess_grows() {
    let mut bench = Bench::new(4, 4, 1);
    engines(&mut bench);
    let now_held = |bench: &Bench| {
        let now = bench.clock.now();
        let held = holds(&bench.connection, &Viewer::Site, now).unwrap();
        held.first().map(|it| it.until.0 - now.0)
    };
    // Two that run concurrently hit the same limit.
    let pair: Vec<JobId> = (0..2).map(|_| ask(&mut bench, "a", "ada")).collect();
    bench.take("1").unwrap();
    bench.take("2").unwrap();
    for id in &pair {
        spend(&mut bench, id, 0.0, limited(None));
    }
    assert_eq!(now_held(&bench), Some(60_000));
    for expected in [120_000, 240_000, 480_000, 960_000, 1_800_000, 1_800_000] {
        bench.clock.advance(1_900_000);
        let id = ask(&mut bench, "a", "ada");
        bench.take(id.as_str()).unwrap();
        spend(&mut bench, &id, 0.0, limited(None));
        assert_eq!(now_held(&bench), Some(expected));
    }
    bench.tx(|_, tx| release(tx, "claude", None, &persona("ada")).unwrap());
    assert_eq!(now_held(&bench), None);
    let again = bench.tx(|_, tx| release(tx, "claude", None, &persona("ada")).unwrap_err());
    assert_eq!(again.code_str(), "engine_not_held");
    // A success resets it.
    let id = ask(&mut bench, "a", "ada");
    bench.take("3").unwrap();
    spend(&mut bench, &id, 0.0, limited(None));
    assert_eq!(now_held(&bench), Some(60_000));
    bench.clock.advance(60_000);
    run(&mut bench, "a", "ada", 0.0);
    let id = ask(&mut bench, "a", "ada");
    bench.take("4").unwrap();
    spend(&mut bench, &id, 0.0, limited(None));
    assert_eq!(now_held(&bench), Some(60_000));
}

/// A text about limits, printed last by a job that failed for another reason, must not block
/// everybody for a week.
#[test]
fn a_time_in_prose_is_kept_with_the_job_and_holds_nobody_until_then() {
    let mut bench = Bench::new(4, 4, 1);
    engines(&mut bench);
    let id = ask(&mut bench, "a", "ada");
    bench.take("1").unwrap();
    let until = bench.clock.now().plus(7 * 86_400_000);
    let limit = Some(Limit { retry_at: Some(until), is_prose: true });
    let job = spend(&mut bench, &id, 0.0, Outcome { limit, ..limited(None) });
    assert_eq!((job.reason, job.retry_at), (Some(Reason::RateLimited), Some(until)));
    let held = holds(&bench.connection, &Viewer::Site, bench.clock.now()).unwrap();
    assert_eq!((held[0].until, held[0].is_said), (bench.clock.now().plus(60_000), false));
}

#[test]
fn a_job_that_left_what_it_promised_has_succeeded_whatever_it_met() {
    let mut bench = Bench::new(4, 4, 1);
    engines(&mut bench);
    let id = ask(&mut bench, "a", "ada");
    bench.take("1").unwrap();
    let outcome = Outcome { ended: Ended::Well, ..limited(None) };
    let job = spend(&mut bench, &id, 0.0, outcome);
    assert_eq!((job.status, job.reason, job.retry_at), (Status::Succeeded, None, None));
    assert!(holds(&bench.connection, &Viewer::Site, bench.clock.now()).unwrap().is_empty());
}

#[test]
fn why_a_job_waits_is_told() {
    let mut bench = Bench::new(2, 1, 1);
    let lane = Some("source_path=a.md");
    let first = bench.add(bench.request("a", lane, 0, 0));
    let second = bench.add(bench.request("a", lane, 0, 0));
    let third = bench.add(bench.request("a", lane, 5, 60_000));
    assert_eq!(why(&bench, &first).0, "turn");
    assert_eq!(why(&bench, &second).0, "lane_order");
    assert!(why(&bench, &second).1.contains(first.as_str()));
    assert_eq!(why(&bench, &third).0, "not_before");
    bench.take("1").unwrap();
    assert_eq!(why(&bench, &second).0, "lane_busy");
    let held = format!("lane source_path=a.md is held by job {first}");
    assert_eq!(why(&bench, &second).1, held);
    let of_b: Vec<JobId> = (0..2).map(|_| ask(&mut bench, "b", "ada")).collect();
    bench.take("2").unwrap();
    assert_eq!(why(&bench, &of_b[1]), ("kind_cap", "1 of at most 1 jobs of kind \"b\" run".into()));
    let last = ask(&mut bench, "a", "ada");
    assert_eq!(why(&bench, &last), ("jobs_cap", "2 of at most 2 jobs run".to_owned()));
    let running = table::find(&bench.connection, &Viewer::Program, &first).unwrap();
    let look =
        Outlook::of(&bench.connection, &Viewer::Program, bench.caps.clone(), bench.clock.now())
            .unwrap();
    assert_eq!(look.why(&bench.connection, &running).unwrap(), None);
}

#[test]
fn days_are_those_of_utc() {
    assert_eq!(day_of(Millis(0)), 0);
    assert_eq!(day_of(Millis(-1)), -1);
    assert_eq!(next_day(Millis(DAY_MS - 1)), Millis(DAY_MS));
    assert_eq!(next_day(Millis(DAY_MS)), Millis(2 * DAY_MS));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// For any sequence of requests, spending and waiting: nothing starts beyond a cap, what may
    /// start does, in order of acceptance, and the sums match the jobs.
    #[test]
    fn g06_caps_hold_for_any_sequence(
        steps in prop::collection::vec((0..4u8, 0..2usize, 0..3usize, 0..30i64), 1..80),
    ) {
        let mut bench = Bench::new(3, 9, 1);
        bench.caps.rules.daily.site = Some(dollars(0.9));
        bench.caps.rules.daily.person = Some(dollars(0.4));
        bench.caps.rules.daily.kinds.insert("b".to_owned(), dollars(0.3));
        let (kinds, people) = (["a", "b"], ["ada", "bob", "cy"]);
        let mut waiting: Vec<(JobId, usize, usize)> = Vec::new();
        let mut running = Vec::new();
        // Cents by day, kind and person.
        let mut spent: Vec<(i64, usize, usize, i64)> = Vec::new();
        for (number, (step, kind, person, cents)) in steps.into_iter().enumerate() {
            match step {
                0 => waiting.push((ask(&mut bench, kinds[kind], people[person]), kind, person)),
                1 => {
                    let taken = bench.take(&format!("t{number}")).map(|it| it.id);
                    let today = day_of(bench.clock.now());
                    let sum = |is: &dyn Fn(usize, usize) -> bool| -> i64 {
                        let rows = spent.iter().filter(|it| it.0 == today && is(it.1, it.2));
                        rows.map(|it| it.3).sum()
                    };
                    let may = |kind: usize, person: usize| {
                        sum(&|_, _| true) < 90
                            && sum(&|_, who| who == person) < 40
                            && (kind == 0 || sum(&|what, _| what == 1) < 30)
                    };
                    let expected = waiting.iter().position(|it| may(it.1, it.2));
                    let expected = expected.filter(|_| running.len() < 3);
                    prop_assert_eq!(taken, expected.map(|it| waiting[it].0.clone()));
                    if let Some(place) = expected {
                        running.push(waiting.remove(place));
                    }
                }
                2 if !running.is_empty() => {
                    let (id, kind, person) = running.remove(0);
                    spend(&mut bench, &id, cents as f64 / 100.0, Outcome::default());
                    spent.push((day_of(bench.clock.now()), kind, person, cents));
                }
                3 => bench.clock.advance(cents * DAY_MS / 40),
                _ => {}
            }
        }
        let sums = usage(&bench.connection, &Viewer::Program, UsageBy::Engine, Millis(0));
        let (_, total) = sums.unwrap();
        prop_assert_eq!(total.jobs, spent.len() as i64);
        let cents = (total.cost_usd * 100.0).round() as i64;
        prop_assert_eq!(cents, spent.iter().map(|it| it.3).sum::<i64>());
    }
}

#[test]
fn a_job_beside_its_lane_is_not_touched_by_a_job_that_must_wait_for_its_day() {
    let mut bench = Bench::new(4, 4, 1);
    bench.caps.rules.daily.kinds.insert("b".to_owned(), dollars(0.1));
    run(&mut bench, "b", "ada", 1.0);
    let lane = Some("source_path=a.md");
    let capped = bench.add(bench.request("b", lane, 0, 0));
    let behind = bench.add(bench.request("a", lane, 0, 0));
    let beside = bench.add(bench.request("a", None, 0, 0));
    assert_eq!(bench.take("1").unwrap().id, beside);
    // Within a lane the order of acceptance holds: jobs behind wait as well, and say so.
    assert!(bench.take("2").is_none());
    assert_eq!(why(&bench, &capped).0, "daily_cap");
    assert_eq!(why(&bench, &behind).0, "lane_order");
    let lanes = bench.caps.lanes.clone();
    bench.tx(|_, tx| assert!(cancel_queued(tx, &capped, &Actor::System, &lanes).unwrap()));
    assert_eq!(bench.take("3").unwrap().id, behind);
    let new = bench.request("b", lane, 0, 0);
    bench.tx(|bench, tx| {
        enqueue(tx, &bench.ids, &bench.caps.lanes, &new).unwrap();
    });
}

#[test]
fn what_the_clock_was_set_by_is_no_time_that_an_agent_worked() {
    let mut bench = Bench::new(4, 4, 1);
    let id = ask(&mut bench, "a", "ada");
    assert_eq!(bench.take(id.as_str()).map(|it| it.id), Some(id.clone()));
    bench.clock.advance(3 * 86_400_000);
    spend(&mut bench, &id, 0.0, Outcome { ran_ms: Some(1_500), ..Outcome::default() });
    let sum = "SELECT SUM(agent_ms) FROM usage_days";
    let ms: i64 = bench.connection.query_row(sum, [], |row| row.get(0)).unwrap();
    assert_eq!(ms, 1_500);
}
