//! The event stream: resumed without loss and duplicates, or reset.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{DEADLINE, Fixture, site, site_with};
use wiki_browser::base::{Actor, Event, EventKind, Millis, Scope};
use wiki_browser::http::ServeLimits;
use wiki_browser::store::{Store, events};

/// One event as a browser sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    id: String,
    kind: String,
    data: String,
}

/// A reader of the stream that follows the rules of browsers for `id` and blank lines.
struct Reader {
    lines: Lines<BufReader<TcpStream>>,
    last_id: String,
}

impl Reader {
    /// Opens the stream. HTTP/1.0: the body then comes without chunks around it.
    async fn open(site: &Fixture, last_id: Option<&str>) -> Reader {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        let resume = last_id.map(|it| format!("Last-Event-ID: {it}\r\n")).unwrap_or_default();
        let (host, auth) = (site.host(), site.bearer());
        let ask = format!("GET /api/events HTTP/1.0\r\nHost: {host}\r\n{auth}{resume}\r\n");
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next_line().await.unwrap().unwrap();
        assert!(first.contains("200"), "{first}");
        let mut head = String::new();
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            if line.is_empty() {
                break;
            }
            head.push_str(&line.to_ascii_lowercase());
        }
        assert!(head.contains("text/event-stream") && head.contains("x-accel-buffering: no"));
        Reader { lines, last_id: last_id.unwrap_or("").to_owned() }
    }

    /// Returns the next event; nothing at the end of the stream.
    async fn next(&mut self) -> Option<Seen> {
        let (mut kind, mut data) = (String::new(), String::new());
        loop {
            let line = timeout(DEADLINE, self.lines.next_line()).await.expect("a line in time");
            let Ok(Some(line)) = line else { return None };
            if line.is_empty() {
                if data.is_empty() {
                    continue;
                }
                return Some(Seen { id: self.last_id.clone(), kind, data });
            }
            match line.split_once(": ") {
                Some(("id", it)) => self.last_id = it.to_owned(),
                Some(("event", it)) => kind = it.to_owned(),
                Some(("data", it)) => data = it.to_owned(),
                _ => {}
            }
        }
    }

    /// Reads until the greeting has told where the stream stands.
    async fn wait_for_id(&mut self) {
        while self.last_id.is_empty() {
            let line = timeout(DEADLINE, self.lines.next_line()).await.unwrap().unwrap().unwrap();
            if let Some(it) = line.strip_prefix("id: ") {
                self.last_id = it.to_owned();
            }
        }
    }
}

fn event(number: usize) -> Event {
    let data = serde_json::json!({"number": number});
    Event::new(EventKind::SourceChanged, format!("source:{number}.md"), Actor::System, data)
}

async fn emit(store: &Store, numbers: std::ops::Range<usize>) {
    let write = store.write(move |tx| numbers.clone().try_for_each(|it| tx.emit(event(it))));
    write.await.unwrap();
}

fn number_of(seen: &Seen) -> usize {
    let data: serde_json::Value = serde_json::from_str(&seen.data).unwrap();
    assert_eq!(data["id"], seen.id.as_str());
    assert_eq!(data["kind"], seen.kind.as_str());
    usize::try_from(data["data"]["number"].as_u64().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn g25_a_client_that_comes_back_sees_every_event_once() {
    const ALL: usize = 2_000;
    let site = site().await;
    // The first visit sees nothing and leaves: what comes after must not be lost.
    let mut reader = Reader::open(&site, None).await;
    reader.wait_for_id().await;
    let mut last_id = reader.last_id.clone();
    drop(reader);

    let (store, mut writing) = (site.edge.store.clone(), JoinSet::new());
    writing.spawn(async move {
        let mut next = 0;
        while next < ALL {
            let end = (next + 1 + next % 7).min(ALL);
            emit(&store, next..end).await;
            next = end;
        }
    });
    let (mut seen, mut random, mut visits) = (0, 1_u64, 0);
    let start = Instant::now();
    while seen < ALL {
        assert!(start.elapsed() < 3 * DEADLINE, "{seen} events in {visits} visits");
        visits += 1;
        let mut reader = Reader::open(&site, Some(&last_id)).await;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        for _ in 0..(random >> 33) % 60 {
            if seen == ALL {
                break;
            }
            let event = reader.next().await.unwrap();
            assert_eq!(number_of(&event), seen, "visit {visits}");
            seen += 1;
            last_id = event.id;
        }
    }
    assert!(visits > 20);
    while let Some(done) = writing.join_next().await {
        done.unwrap();
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g25_a_past_that_is_gone_is_said() {
    let site = site().await;
    emit(&site.edge.store, 0..10).await;
    let epoch = site.edge.store.epoch().to_owned();
    let foreign = "018bcfe5-6800-7000-8000-000000000009";
    for last_id in [format!("{foreign}-3"), format!("{epoch}-11"), format!("{epoch}-9000")] {
        let mut reader = Reader::open(&site, Some(&last_id)).await;
        let reset = reader.next().await.unwrap();
        assert_eq!((reset.kind.as_str(), reset.id), ("reset", format!("{epoch}-10")));
    }
    for wrong in ["x", "9", "-", "a-b"] {
        let auth = site.bearer();
        let answer = site.get(&format!("/api/events?after={wrong}"), &auth).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_event_id"), "{wrong}");
    }
    let mut reader = Reader::open(&site, Some(&format!("{epoch}-9"))).await;
    assert_eq!(number_of(&reader.next().await.unwrap()), 9);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g25_what_was_pruned_is_not_passed_over_in_silence() {
    let site = site().await;
    let epoch = site.edge.store.epoch().to_owned();
    // 1 and 2 progress, 3 a decision, 4 to 6 progress; all progress is pruned, then 7 comes.
    let write = site.edge.store.write(|tx| {
        (1..=2).try_for_each(|it| tx.emit(event(it)))?;
        tx.emit(event(3).audited())?;
        (4..=6).try_for_each(|it| tx.emit(event(it)))
    });
    write.await.unwrap();
    let prune = site.edge.store.write(|tx| events::prune(tx, Millis(i64::MAX)));
    prune.await.unwrap();
    // All is gone up to the last number, which is known from its own table.
    for (after, kinds) in [
        (0, vec!["reset"]),
        (1, vec!["reset"]),
        (2, vec!["source_changed", "reset"]),
        (3, vec!["reset"]),
        (5, vec!["reset"]),
        (6, vec![]),
    ] {
        let mut reader = Reader::open(&site, Some(&format!("{epoch}-{after}"))).await;
        for kind in kinds {
            assert_eq!(reader.next().await.unwrap().kind, kind, "after {after}");
        }
        if after == 6 {
            emit(&site.edge.store, 7..8).await;
        }
        // After a reset the stream goes on; nothing else came before.
        if after >= 6 {
            assert_eq!(number_of(&reader.next().await.unwrap()), 7);
        }
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_another_person_is_not_shown() {
    let site = site().await;
    let own = site.person.id.clone();
    let mut reader = Reader::open(&site, None).await;
    reader.wait_for_id().await;
    let write = site.edge.store.write(move |tx| {
        let other = "018bcfe5-6800-7000-8000-00000000000b".parse()?;
        tx.emit(Event { scope: Scope::Person(other), ..event(1) })?;
        tx.emit(Event { scope: Scope::Person(own.clone()), ..event(2) })?;
        tx.emit(event(3))
    });
    write.await.unwrap();
    for expected in [2, 3] {
        assert_eq!(number_of(&reader.next().await.unwrap()), expected);
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_the_site_stops() {
    let site = site_with(ServeLimits::default(), Duration::from_secs(60)).await;
    let mut reader = Reader::open(&site, None).await;
    reader.wait_for_id().await;
    let start = Instant::now();
    site.end().await;
    assert!(reader.next().await.is_none());
    assert!(start.elapsed().as_secs() < 30, "grace was not needed: {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_lags_and_still_misses_nothing() {
    const ALL: usize = 6_000;
    let site = site().await;
    let mut reader = Reader::open(&site, None).await;
    reader.wait_for_id().await;
    // Far more than the sockets and the broadcast buffer hold, while nobody reads.
    for start in (0..ALL).step_by(500) {
        emit(&site.edge.store, start..start + 500).await;
    }
    for expected in 0..ALL {
        assert_eq!(number_of(&reader.next().await.unwrap()), expected);
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_never_reads_is_closed() {
    let limits = ServeLimits {
        tcp_connections_max: 1,
        write_stall: Duration::from_millis(300),
        ..Default::default()
    };
    let site = site_with(limits, Duration::from_secs(2)).await;
    let mut reader = Reader::open(&site, None).await;
    reader.wait_for_id().await;
    // More than the kernel buffers for one connection, and nobody reads.
    let filler = "x".repeat(2_000);
    for _ in 0..40 {
        let filler = filler.clone();
        let write = site.edge.store.write(move |tx| {
            (0..200).try_for_each(|it| {
                let subject = format!("source:{filler}.md");
                tx.emit(Event { subject, ..event(it) })
            })
        });
        write.await.unwrap();
    }
    // The connection is gone on the server's side: its only place is free again.
    let start = Instant::now();
    while site.get("/healthz", "").await.status != 200 {
        assert!(start.elapsed() < DEADLINE);
    }
    drop(reader);
    site.end().await;
}
