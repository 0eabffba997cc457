//! G1: what was acknowledged survives `kill -9`.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::{Bench, Call, until};

const ROUNDS: usize = 20;
/// A round ends when this many answers at most have come.
const ACKNOWLEDGED_MAX: u8 = 60;

/// What was acknowledged: where it must be found again.
#[derive(Default)]
pub(super) struct Ledger {
    jobs: Mutex<BTreeSet<String>>,
    topics: Mutex<BTreeSet<String>>,
    messages: Mutex<BTreeSet<String>>,
}

impl Ledger {
    pub(super) fn count(&self) -> usize {
        [&self.jobs, &self.topics, &self.messages].iter().map(|it| it.lock().unwrap().len()).sum()
    }
}

/// Fails with `WB_WITHOUT=commit_first`. What a power cut takes, `synchronous=FULL` keeps; a kill
/// cannot show that.
#[test]
fn g01_what_was_acknowledged_survives_twenty_kills() {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    let ledger = Ledger::default();
    let mut server = bench.serve();
    let topic = bench.topic("notes.md", "Keep this.", "What for?").id;
    until("the topic is there", || bench.get(&format!("/api/topics/{topic}")).status == 200);
    for round in 0..ROUNDS {
        let before = ledger.count();
        let wanted = before + usize::from(random() % ACKNOWLEDGED_MAX);
        let is_over = AtomicBool::new(false);
        write_until(&bench, &ledger, &topic, round, &is_over, || {
            until("enough was acknowledged", || ledger.count() > wanted);
            server.signal("KILL");
        });
        server.wait();
        server = bench.serve();
        assert_all_there(&bench, &ledger, &topic, round);
    }
    assert!(ledger.count() > ROUNDS, "{}", ledger.count());
}

/// Writes with four clients and notes what was acknowledged, until `end` has returned.
pub(super) fn write_until(
    bench: &Bench,
    ledger: &Ledger,
    topic: &str,
    round: usize,
    is_over: &AtomicBool,
    end: impl FnOnce(),
) {
    let (socket, operator) = (&bench.socket(), &bench.operator());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let (call, book, field) = next(ledger, topic, writer, round, number);
                    let Some(answer) = call.token(operator).try_socket(socket) else { return };
                    let id = answer.ok()[field].as_str().unwrap().to_owned();
                    book.lock().unwrap().insert(id);
                }
            });
        }
        end();
        is_over.store(true, Ordering::SeqCst);
    });
}

/// Returns a request, where its answer is kept, and the name of the id in it.
fn next<'a>(
    ledger: &'a Ledger,
    topic: &str,
    writer: u32,
    round: usize,
    number: u32,
) -> (Call, &'a Mutex<BTreeSet<String>>, &'static str) {
    match writer {
        // Most of them wait for ever, so that the queue is not empty when the server is killed.
        0 | 1 => {
            let mut body = json!({"kind": "quick", "word": format!("{round}-{number}")});
            if !number.is_multiple_of(8) {
                body["not_before"] = json!("2100-01-01T00:00:00Z");
            }
            (Call::post("/api/agent/jobs", body), &ledger.jobs, "job_id")
        }
        2 => {
            let body = json!({"source_path": "guide.md", "global": true, "body": "Why?"});
            (Call::post("/api/topics", body), &ledger.topics, "id")
        }
        _ => {
            let target = format!("/api/topics/{topic}/messages");
            (Call::post(&target, json!({"body": "More."})), &ledger.messages, "id")
        }
    }
}

pub(super) fn assert_all_there(bench: &Bench, ledger: &Ledger, topic: &str, round: usize) {
    let jobs = all(bench, "/api/agent/jobs");
    let topics = all(bench, "/api/topics");
    let shown = bench.get(&format!("/api/topics/{topic}")).ok();
    let messages = ids(&shown["messages"]);
    let books = [(&ledger.jobs, jobs), (&ledger.topics, topics), (&ledger.messages, messages)];
    for (book, found) in books {
        let lost: Vec<String> = book.lock().unwrap().difference(&found).cloned().collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and lost: {lost:?}");
    }
}

/// Returns the ids of a whole collection.
fn all(bench: &Bench, target: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut after = String::new();
    loop {
        let page = bench.get(&format!("{target}?limit=200{after}")).ok();
        found.extend(ids(&page["items"]));
        let Some(next) = page["next"].as_str() else { return found };
        after = format!("&after={next}");
    }
}

fn ids(items: &Value) -> BTreeSet<String> {
    let items = items.as_array().unwrap().iter();
    items.map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

fn random() -> u8 {
    let mut byte = [0];
    getrandom::fill(&mut byte).unwrap();
    byte[0]
}
