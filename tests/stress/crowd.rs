//! A thousand event streams under a continuous flow of events.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wiki_browser::base::limit::{CREDENTIAL_STREAMS_MAX, STREAMS_MAX};
use wiki_browser::process::raise_descriptors;

use super::{memory_kib, sign_in};
use crate::support::{Bench, Call, until};

const STREAMS: usize = 1_000;
/// Memory that the server may take for each stream, in KiB.
const STREAM_KIB_MAX: u64 = 64;

/// What the streams have seen together.
#[derive(Default)]
struct Seen {
    open: AtomicUsize,
    events: AtomicUsize,
    gaps: AtomicUsize,
    resets: AtomicUsize,
    /// Streams that have seen an event of this number.
    last: AtomicI64,
    at_last: AtomicUsize,
}

/// Reads one stream to its end; every event must follow on the one before.
async fn follow(address: SocketAddr, cookie: String, seen: Arc<Seen>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // HTTP/1.0: the body then comes without chunks around it.
    let head = format!("GET /api/events HTTP/1.0\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut lines = BufReader::with_capacity(1024, stream).lines();
    let (mut position, mut kind) = (None, String::new());
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(word) = line.strip_prefix("event: ") {
            kind = word.to_owned();
        }
        let Some(id) = line.strip_prefix("id: ") else { continue };
        let number: i64 = id.rsplit('-').next().unwrap().parse().unwrap();
        match position {
            None => {
                seen.open.fetch_add(1, Ordering::SeqCst);
            }
            Some(before) if number == before + 1 => {
                seen.events.fetch_add(1, Ordering::SeqCst);
            }
            // A heartbeat says where the stream stands.
            Some(before) if number == before => {}
            Some(_) if kind == "reset" => {
                seen.resets.fetch_add(1, Ordering::SeqCst);
            }
            Some(_) => {
                seen.gaps.fetch_add(1, Ordering::SeqCst);
            }
        }
        position = Some(number);
        if number == seen.last.load(Ordering::SeqCst) {
            seen.at_last.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Returns the number of the last event.
fn last_event(address: SocketAddr, cookie: &str) -> i64 {
    use std::io::{BufRead as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = format!("GET /api/events HTTP/1.0\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let lines = std::io::BufReader::new(stream).lines();
    let id = lines.map_while(Result::ok).find_map(|it| Some(it.strip_prefix("id: ")?.to_owned()));
    id.unwrap().rsplit('-').next().unwrap().parse().unwrap()
}

/// Opens all streams, posts so many messages, and checks that everybody has seen all of them.
fn crowd(messages: usize) {
    // Both ends of every connection but the server's are in this process.
    assert!(raise_descriptors().unwrap() > 2_048, "this machine gives too few descriptors");
    let bench = Bench::new();
    let server = bench.serve();
    let address = server.address();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let cookies: Vec<String> =
        (0..STREAMS.div_ceil(60) + 1).map(|_| sign_in(&bench, address)).collect();
    let before = memory_kib(server.pid(), "VmRSS");

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (seen, mut streams) = (Arc::new(Seen::default()), JoinSet::new());
    seen.last.store(i64::MAX, Ordering::SeqCst);
    for number in 0..STREAMS {
        let cookie = cookies[number / 60].clone();
        streams.spawn_on(follow(address, cookie, Arc::clone(&seen)), runtime.handle());
    }
    until("all streams are open", || seen.open.load(Ordering::SeqCst) == STREAMS);
    let idle = memory_kib(server.pid(), "VmRSS");

    let own = cookies.last().unwrap();
    let first = last_event(address, own);
    seen.last.store(first + i64::try_from(messages).unwrap(), Ordering::SeqCst);
    let (start, mut waits) = (Instant::now(), Vec::new());
    let target = format!("/api/topics/{}/messages", topic.id);
    for number in 0..messages {
        assert_eq!(bench.post(&target, json!({"body": format!("{number}")})).status, 201);
        let asked = Instant::now();
        let me = Call::get("/api/me").header("Cookie", own).tcp(address);
        assert_eq!(me.status, 200);
        waits.push(asked.elapsed());
    }
    let posted = start.elapsed();
    until("everybody has seen the last event", || seen.at_last.load(Ordering::SeqCst) >= STREAMS);
    let took = start.elapsed();
    let (events, resets) = (seen.events.load(Ordering::SeqCst), seen.resets.load(Ordering::SeqCst));
    assert_eq!((seen.gaps.load(Ordering::SeqCst), resets), (0, 0));
    assert_eq!(events, STREAMS * messages, "each has seen each");
    assert_eq!(seen.open.load(Ordering::SeqCst), STREAMS, "nobody came back");

    let peak = memory_kib(server.pid(), "VmHWM");
    waits.sort();
    let at = |part: usize| waits[waits.len() * part / 100];
    println!(
        "{STREAMS} streams, {messages} events: {events} sent in {took:?} (posted in {posted:?}); \
         GET /api/me p50 {:?} p99 {:?} max {:?}; RSS {before} -> {idle} KiB idle, peak {peak} KiB",
        at(50),
        at(99),
        waits.last().unwrap(),
    );
    let bound = before + 1_001 * STREAM_KIB_MAX;
    assert!(peak < bound, "{peak} KiB for {STREAMS} streams, {before} before");
    assert!(at(99) < Duration::from_secs(2), "others are answered: {:?}", at(99));
    streams.abort_all();
    server.stop();
}

#[test]
fn g25_a_thousand_streams_see_every_event() {
    crowd(30);
}

#[test]
#[ignore = "long: two thousand events for a thousand streams take minutes in a debug build"]
fn g25_a_thousand_streams_see_very_many_events() {
    crowd(2_000);
}

/// Fails with `WB_WITHOUT=stream_limit`.
#[test]
fn one_stream_too_many_is_refused_and_told_when_to_come_back() {
    let bench = Bench::new();
    let server = bench.serve();
    let address = server.address();
    let cookie = sign_in(&bench, address);
    let ask = format!("GET /api/events HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n");
    let mut open: Vec<_> =
        (0..CREDENTIAL_STREAMS_MAX).map(|_| super::open(address, &ask)).collect();
    for stream in &mut open {
        assert_eq!(super::first_line(stream), "HTTP/1.1 200");
    }
    let more = || Call::get("/api/events").header("Cookie", &cookie).tcp(address);
    let refused = more();
    assert_eq!(refused.refusal(), (503, "too_many_streams"), "{refused:?}");
    assert!(refused.head.to_lowercase().contains("retry-after: 2"), "{}", refused.head);
    let message = refused.body["error"]["message"].as_str().unwrap();
    assert!(message.contains(&CREDENTIAL_STREAMS_MAX.to_string()), "{message}");
    assert!(refused.body["error"]["hint"].is_string());
    const { assert!(STREAMS_MAX > STREAMS && CREDENTIAL_STREAMS_MAX >= 60) };
    // Others are served, and a place that is given back is given away.
    let me = Call::get("/api/me").header("Cookie", &cookie).tcp(address);
    assert_eq!(me.status, 200);
    let other = sign_in(&bench, address);
    let other = ask.replace(&cookie, &other);
    assert_eq!(super::first_line(&mut super::open(address, &other)), "HTTP/1.1 200");
    open.pop();
    until("the place is free", || {
        super::first_line(&mut super::open(address, &ask)) == "HTTP/1.1 200"
    });
    drop(open);
    server.stop();
}

/// A session that ended has no stream any more, however much happens.
/// Fails with `WB_WITHOUT=stream_check`, as does its shorter sibling in `http::live::events`.
#[test]
#[ignore = "long: it is asked every ten seconds whether a stream may go on"]
fn g25_a_stream_ends_with_its_session_while_events_come() {
    use std::io::Read as _;
    let bench = Bench::new();
    let server = bench.serve();
    let address = server.address();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let cookie = sign_in(&bench, address);
    let ask = format!("GET /api/events HTTP/1.0\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n");
    let mut stream = super::open(address, &ask);
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let logout = Call::post("/api/logout", json!({})).header("Cookie", &cookie);
    assert_eq!(logout.header("Sec-Fetch-Site", "same-origin").tcp(address).status, 200);
    let start = Instant::now();
    let target = format!("/api/topics/{}/messages", topic.id);
    let mut counts: BTreeMap<bool, usize> = BTreeMap::new();
    let ended = crate::support::within(Duration::from_secs(14), || {
        // Never ten seconds of silence, in which a heartbeat could ask.
        assert_eq!(bench.post(&target, json!({"body": "x"})).status, 201);
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) => true,
            Ok(_) => {
                *counts.entry(true).or_default() += 1;
                false
            }
            Err(_) => false,
        }
    });
    assert!(ended, "it goes on after {:?}: {counts:?}", start.elapsed());
    server.stop();
}
