//! Clients that do not read, read very slowly, stop in the middle or vanish: over TCP and socket.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::json;
use wiki_browser::base::limit::{ANSWERS_BYTES_MAX, SOURCE_BYTES_MAX, TEXT_INPUT_BYTES_MAX};

use super::{memory_kib, sign_in};
use crate::support::{Bench, Call, shell, until, within};

/// A site with a Source whose JSON is of the largest size.
fn large() -> Bench {
    let bench = Bench::new();
    let text = "0123456789 abcdef\n".repeat(SOURCE_BYTES_MAX / 18 - 8);
    bench.write("large.md", text);
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "large"]);
    bench
}

/// Fails with `WB_WITHOUT=answer_room`.
#[test]
#[ignore = "long: half a gigabyte of answers; its shorter sibling is http::server::body"]
fn readers_that_hardly_read_do_not_fill_the_memory() {
    const LARGE: usize = TEXT_INPUT_BYTES_MAX;
    let bench = Bench::new();
    bench.engine("reads", "exit 0");
    bench.lua(
        "wb.kind \"text\" { about = \"x\", engine = \"reads\", timeout = \"20s\",\n\
         inputs = { text = wb.input.text() }, prompt = \"{{text}}\" }\n",
    );
    let server = bench.serve();
    let address = server.address();
    let job = bench.ended(&bench.job("text", json!({"text": "x".repeat(LARGE)})));
    let cookie = sign_in(&bench, address);
    let id = job["id"].as_str().unwrap();
    let ask = format!(
        "GET /api/agent/jobs/{id}/prompt HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n"
    );
    let fits = ANSWERS_BYTES_MAX / LARGE;
    let (mut held, mut full) = (Vec::new(), 0);
    for _ in 0..fits + 12 {
        // Each takes just enough not to be closed, however busy this machine is.
        for stream in &mut held {
            let mut taken = vec![0; 96 * 1024];
            std::io::Read::read_exact(stream, &mut taken).unwrap();
        }
        let mut stream = super::open(address, &ask);
        // The first line comes when the whole answer is in the server's memory.
        match super::first_line(&mut stream).as_str() {
            "HTTP/1.1 200" => held.push(stream),
            "HTTP/1.1 503" => {
                let mut rest = [0; 2_000];
                let got = stream.read(&mut rest).unwrap();
                let rest = String::from_utf8_lossy(&rest[..got]).to_lowercase();
                assert!(rest.contains("answers_full") && rest.contains("retry-after: 2"), "{rest}");
                assert!(rest.contains(&ANSWERS_BYTES_MAX.to_string()), "{rest}");
                full += 1;
            }
            other => panic!("{other}"),
        }
    }
    let peak = memory_kib(server.pid(), "VmHWM");
    println!("{} answers of 16 MiB held, {full} refused, peak {peak} KiB", held.len());
    // What stands around the text takes room too.
    assert_eq!((held.len(), full), (fits - 1, 13));
    assert!(peak < 600 * 1024, "{peak} KiB");
    // Small ones are answered, and who leaves makes room.
    assert_eq!(Call::get("/api/me").header("Cookie", &cookie).tcp(address).status, 200);
    held.truncate(fits / 2);
    until("there is room again", || {
        super::first_line(&mut super::open(address, &ask)) == "HTTP/1.1 200"
    });
    drop(held);
    server.stop();
}

/// Connections that are half-open in every way; after them the server is as before.
#[test]
fn clients_that_stop_in_the_middle_leave_nothing_behind() {
    let bench = large();
    let server = bench.serve();
    let (address, pid) = (server.address(), server.pid());
    let cookie = sign_in(&bench, address);
    let operator = bench.operator();
    // Sockets alone: connections to the database are made when they are needed first, and stay.
    let sockets = || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let links = files.filter_map(|it| std::fs::read_link(it.path()).ok());
        links.filter(|it| it.to_string_lossy().starts_with("socket:")).count()
    };
    let before = sockets();
    let tcp = format!("Host: {address}\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n");
    let unix = format!("Host: localhost\r\nAuthorization: Bearer {operator}\r\n");
    let requests = |who: &str| {
        vec![
            String::new(),
            "G".to_owned(),
            format!("GET /api/source?path=large.md HTTP/1.1\r\n{who}\r\n"),
            format!("GET /api/events HTTP/1.1\r\n{who}\r\n"),
            format!("GET /api/me HTTP/1.1\r\n{who}"),
            format!(
                "POST /api/topics HTTP/1.1\r\n{who}Content-Type: application/json\r\n\
                 Content-Length: 400000\r\n\r\n{{\"body\":\"{}",
                "x".repeat(100_000)
            ),
            format!(
                "POST /api/agent/jobs HTTP/1.1\r\n{who}Content-Type: application/json\r\n\
                 Content-Length: 33000000\r\n\r\n"
            ),
        ]
    };
    for (number, (tcp, unix)) in requests(&tcp).into_iter().zip(requests(&unix)).enumerate() {
        for _ in 0..5 {
            // Vanishes with unread bytes: the kernel sends a reset.
            let mut stream = super::open(address, &tcp);
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let _ = stream.read(&mut [0; 10]);
            drop(stream);
            // Says that it will send no more, and leaves.
            let stream = super::open(address, &tcp);
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut stream = UnixStream::connect(bench.socket()).unwrap();
            stream.write_all(unix.as_bytes()).unwrap();
            if number % 2 == 0 {
                stream.shutdown(std::net::Shutdown::Write).unwrap();
            }
        }
        assert_eq!(Call::get("/healthz").tcp(address).status, 200, "after {number}");
    }
    until("all of them are gone", || sockets() <= before);
    assert_eq!(bench.get("/api/topics").ok()["items"], serde_json::json!([]));
    assert!(!server.log().contains("panic"), "{}", server.log());
    server.stop();
}

/// Heads that come a byte at a time take connections, and no one else's answer.
#[test]
#[ignore = "long: the time for a head is ten seconds; its shorter sibling is a_slow_head_is_closed"]
fn slow_heads_hold_nobody_up() {
    let bench = Bench::new();
    let server = bench.serve();
    let address = server.address();
    let cookie = sign_in(&bench, address);
    let head = format!("GET /api/me HTTP/1.1\r\nHost: {address}\r\nX: ");
    let mut slow: Vec<TcpStream> = (0..300).map(|_| super::open(address, &head)).collect();
    let (start, mut worst, mut closed) = (Instant::now(), Duration::ZERO, 0);
    let is_over = within(Duration::from_secs(20), || {
        let asked = Instant::now();
        let me = Call::get("/api/me").header("Cookie", &cookie).tcp(address);
        assert_eq!(me.status, 200);
        worst = worst.max(asked.elapsed());
        slow.retain_mut(|stream| {
            stream.set_nonblocking(true).unwrap();
            // A byte keeps no head alive: the time is for all of it.
            let _ = stream.write(b"x");
            let is_gone = stream.read(&mut [0; 100]).is_ok();
            closed += usize::from(is_gone);
            !is_gone
        });
        slow.is_empty()
    });
    println!("300 slow heads: all closed after {:?}, others waited {worst:?}", start.elapsed());
    assert!(is_over, "{} are still there", slow.len());
    assert!(start.elapsed() > Duration::from_secs(8) && worst < Duration::from_secs(2));
    server.stop();
}

/// Fails with `WB_WITHOUT=write_progress`.
#[test]
#[ignore = "long: the time for 64 KiB of an answer is half a minute"]
fn a_reader_of_single_bytes_is_closed() {
    let bench = large();
    let server = bench.serve();
    let address = server.address();
    let cookie = sign_in(&bench, address);
    let ask = format!(
        "GET /api/source?path=large.md HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n"
    );
    let mut stream = super::open(address, &ask);
    assert_eq!(super::first_line(&mut stream), "HTTP/1.1 200");
    let connections = || {
        let of_server = format!("pid={},", server.pid());
        let port = address.port();
        let shown = shell(&format!("ss -tnpH 'sport = :{port}' 2>/dev/null || true"));
        shown.lines().filter(|it| it.contains(&of_server)).count()
    };
    assert_eq!(connections(), 1);
    let is_closed = within(Duration::from_secs(90), || {
        // Enough that something is taken in each half minute, and far from 64 KiB.
        let _ = stream.read(&mut [0; 16]);
        std::thread::park_timeout(Duration::from_millis(100));
        connections() == 0
    });
    assert!(is_closed, "a connection was held by a byte now and then");
    server.stop();
}
