//! Limits on connections, and the Unix socket.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use camino::Utf8Path;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};
use wiki_browser::http::{ServeLimits, bind_unix};

use super::{DEADLINE, answer_of, bearer, exchange, request, site, site_with};

const GRACE: Duration = Duration::from_secs(2);

/// Reads until the server closes; a reset is a close too.
async fn read_to_close(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before a reset counts.
    let _ = timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("closed in time");
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_head_is_closed() {
    let limits = ServeLimits { header_read: Duration::from_millis(300), ..Default::default() };
    let site = site_with(limits, GRACE).await;
    for sent in ["", "GET /heal", "GET /healthz HTTP/1.1\r\nHost: localh"] {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let start = Instant::now();
        let got = read_to_close(&mut stream).await;
        assert!(start.elapsed() < Duration::from_secs(10), "{sent:?}");
        assert_ne!(answer_of(&got).status, 200, "{sent:?}");
    }
    site.end().await;
    // Also one that had a good request, for which it has time, and then holds its connection.
    let limits = ServeLimits { header_read: Duration::from_secs(3), ..Default::default() };
    let site = site_with(limits, GRACE).await;
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let kept =
        request("GET", "/healthz", &site.host(), "", "").replace("Connection: close\r\n", "");
    stream.write_all(kept.as_bytes()).await.unwrap();
    assert_eq!(answer_of(&read_to_close(&mut stream).await).status, 200);
    site.end().await;
}

/// Fails with `WB_WITHOUT=silent_leave`.
#[tokio::test]
async fn who_only_holds_a_connection_makes_room_for_who_asks() {
    let limits = ServeLimits { tcp_connections_max: 3, ..Default::default() };
    let site = site_with(limits, GRACE).await;
    let ask = request("GET", "/healthz", &site.host(), "", "");
    let mut silent = Vec::new();
    for _ in 0..12 {
        silent.push(TcpStream::connect(site.address).await.unwrap());
    }
    for _ in 0..5 {
        let mut asks = TcpStream::connect(site.address).await.unwrap();
        asks.write_all(ask.as_bytes()).await.unwrap();
        assert_eq!(answer_of(&read_to_close(&mut asks).await).status, 200);
    }
    // The oldest was closed without a word: it had asked nothing.
    assert!(read_to_close(&mut silent[0]).await.is_empty());
    site.end().await;
}

/// Fails with `WB_WITHOUT=turned_away`.
#[tokio::test(flavor = "multi_thread")]
async fn one_connection_too_many_is_turned_away_with_a_word() {
    let limits = ServeLimits { tcp_connections_max: 3, ..Default::default() };
    let site = site_with(limits, GRACE).await;
    let kept =
        request("GET", "/healthz", &site.host(), "", "").replace("Connection: close\r\n", "");
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        stream.write_all(kept.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        timeout(DEADLINE, stream.read_exact(&mut first)).await.unwrap().unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        held.push(stream);
    }
    let mut refused = TcpStream::connect(site.address).await.unwrap();
    let refused = answer_of(&read_to_close(&mut refused).await);
    assert_eq!((refused.status, refused.code().as_str()), (503, "too_many_connections"));
    assert_eq!(refused.header("retry-after"), Some("2"));
    // The socket is not affected, and a place that becomes free is given away.
    let unix = site.unix(&request("GET", "/healthz", "localhost", "", "")).await;
    assert_eq!(unix.status, 200);
    held.pop();
    let start = Instant::now();
    loop {
        let mut again = TcpStream::connect(site.address).await.unwrap();
        // The write meets a reset if the place is not free yet.
        let _ = again
            .write_all(kept.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes())
            .await;
        if answer_of(&read_to_close(&mut again).await).status == 200 {
            break;
        }
        assert!(start.elapsed() < DEADLINE);
        tokio::task::yield_now().await;
    }
    drop(held);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_works_in_a_deep_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = Utf8Path::from_path(folder.path()).unwrap().to_owned();
    for _ in 0..8 {
        dir.push("a-folder-with-a-long-name");
    }
    assert!(dir.as_str().len() > 150);
    std::fs::create_dir_all(&dir).unwrap();
    let first = bind_unix(&dir, "wb.sock").unwrap();
    let mode = std::fs::metadata(dir.join("wb.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // A crash leaves the socket behind; the next start takes its place.
    drop(first);
    let second = bind_unix(&dir, "wb.sock").unwrap();
    let handle = std::fs::File::open(&dir).unwrap();
    let short = format!("/proc/self/fd/{}/wb.sock", std::os::fd::AsRawFd::as_raw_fd(&handle));
    let (client, server) = tokio::join!(UnixStream::connect(&short), second.accept());
    assert_eq!(
        client.unwrap().peer_cred().unwrap().uid(),
        server.unwrap().0.peer_cred().unwrap().uid()
    );
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing else is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn grace_ends_what_does_not_end() {
    let site = site_with(ServeLimits::default(), Duration::from_millis(300)).await;
    // A request whose body never comes holds its connection until grace is over.
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let head = format!(
        "POST /api/login HTTP/1.1\r\nHost: {}\r\nSec-Fetch-Site: same-origin\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n",
        site.host()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    timeout(DEADLINE, stream.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 100", "the handler waits for the body");
    let idle = TcpStream::connect(site.address).await.unwrap();
    let start = Instant::now();
    site.end().await;
    // Without an end of the grace it would wait for ever.
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
    for mut left in [stream, idle] {
        read_to_close(&mut left).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_requests_on_one_connection_are_two_requests() {
    let site = site().await;
    let good = request("GET", "/api/me", "localhost", &bearer("running"), "")
        .replace("Connection: close\r\n", "");
    let foreign = request("GET", "/api/me", "evil.example", &bearer("running"), "");
    let stream = UnixStream::connect(site.socket()).await.unwrap();
    let both = exchange(stream, &format!("{good}{foreign}")).await;
    assert_eq!(both.status, 200);
    assert!(both.body.contains("HTTP/1.1 421"), "{}", both.body);
    site.end().await;
}
