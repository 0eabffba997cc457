//! `kill -9` of the server at random moments, again and again, while twenty answers are written.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use camino::Utf8Path;
use serde_json::{Value, json};

use super::tools::vault;
use super::{Live, ended, keyed, replay, token};
use crate::support::{Bench, Call, until};

/// How many kills there are unless `WB_KILLS` says more: CI has little time.
const KILLS: u64 = 8;
const ANSWERS: u64 = 20;
/// A round ends when this many more items at most have been seen.
const ITEMS_MAX: u64 = 400;
/// What a file has before and after a call.
const LINES: usize = 200;

/// What a reader saw of one answer.
struct Seen {
    items: Vec<Value>,
    path: String,
}

fn text(word: &str) -> String {
    format!("{word}\n").repeat(LINES)
}

/// A question whose answer speaks, writes a file, and speaks again.
fn question(path: &str) -> Value {
    let words: Vec<String> = (0..10).map(|it| format!("word {it} ")).collect();
    let write = json!(["write_file", {"path": path, "content": text("new")}]);
    let steps = json!([{"say": words, "calls": [write]}, {"say": words}]);
    json!({"message": format!("script {steps}")})
}

/// What a client saw can be read again, an answer has one ending, and a file is old or new.
#[test]
fn g42_what_was_seen_of_twenty_answers_survives_random_kills() {
    let kills = std::env::var("WB_KILLS").map_or(KILLS, |it| it.parse().unwrap());
    let bench = Bench::new();
    let _model = keyed(&bench, "limits = { running = 20, running_person = 20 },");
    let mut server = bench.serve();
    let token = token(&bench, "ada");
    // Made on the first use.
    bench.get("/api/agent/scratch").ok();
    let scratch = vault(&bench).join("agent/scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    let (count, number) = (AtomicU64::new(0), AtomicU64::new(0));
    let (mut answers, mut cut) = (0, 0);
    for round in 0..kills {
        let wanted = count.load(Ordering::SeqCst) + random() % ITEMS_MAX;
        let seen: Mutex<Vec<Seen>> = Mutex::default();
        let address = server.address();
        std::thread::scope(|scope| {
            for _ in 0..ANSWERS {
                scope.spawn(|| {
                    loop {
                        let name = format!("f{}.md", number.fetch_add(1, Ordering::SeqCst));
                        std::fs::write(scratch.join(&name), text("old")).unwrap();
                        let path = format!("agent/scratch/{name}");
                        let Some(mut live) = Live::try_ask(address, &token, &question(&path))
                        else {
                            return;
                        };
                        let done = live.until(|it| {
                            count.fetch_add(1, Ordering::SeqCst);
                            it["type"] == "done"
                        });
                        seen.lock().unwrap().push(Seen { items: live.seen, path });
                        if done.is_none() {
                            return;
                        }
                    }
                });
            }
            until("enough was seen", || count.load(Ordering::SeqCst) > wanted);
            server.signal("KILL");
        });
        server.wait();
        server = bench.serve();
        for Seen { items, path } in seen.into_inner().unwrap() {
            let Some(start) = items.first() else { continue };
            let run = start["run_id"].as_str().unwrap();
            let shown = ended(&bench, run);
            let told = replay(&bench, run);
            assert_eq!(told[..items.len()], items, "round {round}: what was seen is there");
            let last = told.last().unwrap();
            assert_eq!(last["reason"], shown["ended"], "round {round}");
            check_file(&vault(&bench).join(&path), last["reason"] == "ok", round);
            answers += 1;
            cut += u64::from(last["reason"] != "ok");
            // A person may have 2,000 conversations.
            let target = format!("/api/agent/sessions/{}", start["session_id"].as_str().unwrap());
            bench.send(&Call::new("DELETE", &target).token(&bench.operator())).ok();
        }
    }
    println!("{kills} kills, {answers} answers, {cut} of them interrupted");
    assert!(cut > kills, "the kills met answers");
    server.stop();
}

fn check_file(path: &Utf8Path, is_written: bool, round: u64) {
    let found = std::fs::read_to_string(path).unwrap();
    let is_new = found == text("new");
    assert!(is_new || (!is_written && found == text("old")), "round {round}: {path}: {found:?}");
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut bytes)
        .unwrap();
    u64::from_le_bytes(bytes)
}
