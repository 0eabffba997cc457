//! G25: every event once, in order, whatever happens to the reader and to the server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use camino::Utf8Path;
use rusqlite::{Connection, OpenFlags};

use crate::guarantees::kills::{Ledger, write_until};
use crate::support::{Bench, until};

/// Follows the stream as a browser does, and leaves it at any moment.
struct Reader<'a> {
    socket: &'a Utf8Path,
    token: String,
    cursor: Option<String>,
    seen: Vec<i64>,
}

impl Reader<'_> {
    /// Connects once and reads up to `lines` lines; leaves in the middle of whatever comes then.
    fn visit(&mut self, lines: usize) -> Option<()> {
        let mut stream = UnixStream::connect(self.socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
        let last = self.cursor.as_ref().map(|it| format!("Last-Event-ID: {it}\r\n"));
        let ask = format!(
            "GET /api/events HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{}\r\n",
            self.token,
            last.unwrap_or_default(),
        );
        stream.write_all(ask.as_bytes()).ok()?;
        let (mut id, mut has_data) = (None, false);
        for line in BufReader::new(stream).lines().take(lines) {
            let line = line.ok()?;
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.to_owned());
            } else if line.starts_with("event: reset") {
                panic!("the past is gone");
            } else if line.starts_with("data: ") {
                has_data = true;
            } else if line.is_empty() {
                // Only what came whole counts, as in a browser.
                if let Some(id) = id.take() {
                    if std::mem::take(&mut has_data) {
                        let number = id.rsplit_once('-').unwrap().1;
                        self.seen.push(number.parse().unwrap());
                    }
                    self.cursor = Some(id);
                }
            }
        }
        Some(())
    }
}

fn numbers(bench: &Bench, after: i64) -> Vec<i64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(bench.data.join("wiki.db"), flags).unwrap();
    let mut all = connection.prepare("SELECT id FROM events WHERE id > ?1 ORDER BY id").unwrap();
    all.query_map([after], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn random(below: usize) -> usize {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).unwrap();
    usize::from(u16::from_le_bytes(bytes)) % below
}

fn follow(events: usize, restarts: usize) {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    let mut server = bench.serve();
    let topic = bench.topic("notes.md", "Keep this.", "What for?").id;
    let socket = bench.socket();
    let mut reader =
        Reader { socket: &socket, token: bench.operator(), cursor: None, seen: Vec::new() };
    until("the first id came", || {
        reader.visit(40);
        reader.cursor.is_some()
    });
    let first = reader.cursor.as_ref().unwrap().rsplit_once('-').unwrap().1.parse().unwrap();
    let (ledger, is_over) = (Ledger::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                reader.visit(1 + random(200));
            }
        });
        for round in 0..=restarts {
            let wanted = events * (round + 1) / (restarts + 1);
            write_until(&bench, &ledger, &topic, round, &AtomicBool::new(false), || {
                let happened = || numbers(&bench, first).len() >= wanted;
                until("enough has happened", happened);
                if round < restarts {
                    server.signal(if round % 2 == 0 { "KILL" } else { "TERM" });
                }
            });
            if round < restarts {
                server.wait();
                server = bench.serve();
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let all = || numbers(&bench, first);
    until("the reader has caught up", || {
        reader.visit(400);
        reader.seen.last() == all().last()
    });
    assert_eq!(reader.seen, all());
    assert!(reader.seen.len() >= events);
    server.stop();
}

/// Fails with `WB_WITHOUT=event_replay`.
#[test]
fn g25_a_reader_that_comes_and_goes_sees_every_event_once() {
    follow(400, 2);
}

#[test]
#[ignore = "long: 10,000 events over 20 restarts"]
fn g25_a_reader_that_comes_and_goes_sees_10_000_events_once() {
    follow(10_000, 20);
}
