//! Requests that no browser sends: unusual framing, paths and smuggling attempts.
//!
//! Each is sent over TCP and over the socket; what differs is the Host.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{Answer, DEADLINE, Fixture, OPERATOR_SECRET, answer_of, bearer, site};

/// Writes bytes, says that no more will come, and reads to the end.
async fn say<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, bytes: &[u8]) -> Vec<u8> {
    // A server that has seen enough may close before all is written.
    let _ = stream.write_all(bytes).await;
    let mut got = Vec::new();
    // What was read before a reset counts.
    let _ = timeout(DEADLINE, stream.read_to_end(&mut got)).await.expect("an end in time");
    got
}

/// Sends the same over both; `HOST` and `AUTH` stand for what is right there.
async fn both(site: &Fixture, text: &str) -> [Vec<u8>; 2] {
    let fill = |host: &str, auth: &str| {
        let close = "Connection: close\r\n";
        let text = text.replace("HOST", host).replace("AUTH\r\n", &format!("{auth}{close}"));
        text.into_bytes()
    };
    let tcp = TcpStream::connect(site.address).await.unwrap();
    let unix = UnixStream::connect(site.socket()).await.unwrap();
    let over_tcp = say(tcp, &fill(&site.host(), &site.bearer())).await;
    let over_unix = say(unix, &fill("localhost", &bearer(OPERATOR_SECRET))).await;
    [over_tcp, over_unix]
}

async fn answers(site: &Fixture, text: &str) -> [Answer; 2] {
    both(site, text).await.map(|it| answer_of(&it))
}

/// Returns how many answers came.
fn count(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).matches("HTTP/1.1 ").count()
}

/// Fails with `WB_WITHOUT=framing`.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_says_its_length_once() {
    let site = site().await;
    let start = "POST /api/logout HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n";
    let hidden = "GET /api/me HTTP/1.1\r\nHost: HOST\r\n\r\n";
    for (headers, body) in [
        ("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n"),
        ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFFFF\r\n"),
        ("Transfer-Encoding: chunked\r\n", "2;x=y\r\n{}\r\n0\r\n\r\ntrailing garbage"),
        ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
        ("Content-Length: 2\r\nContent-Length: 3\r\n", "{}x"),
        ("Content-Length: +2\r\n", "{}"),
        ("Content-Length: 0x2\r\n", "{}"),
        ("Content-Length: 2, 2\r\n", "{}"),
        ("Content-Length: -1\r\n", ""),
        ("Content-Length: 99999999999999999999\r\n", ""),
        ("Content-Length:\r\n", ""),
    ] {
        for got in both(&site, &format!("{start}{headers}\r\n{body}{hidden}")).await {
            let answer = answer_of(&got);
            assert!(matches!(answer.status, 400 | 411), "{headers:?} {answer:?}");
            assert_eq!(count(&got), 1, "{headers:?}: what follows is not a second request");
        }
    }
    let start = "POST /api/logout HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n";
    let chunked = format!("{start}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    for answer in answers(&site, &chunked).await {
        assert_eq!((answer.status, answer.code().as_str()), (411, "length_required"));
        assert_eq!(answer.header("connection"), Some("close"));
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_shorter_or_longer_than_it_says() {
    let site = site().await;
    let start = "POST /api/logout HTTP/1.1\r\nHost: HOST\r\nAUTH\r\nContent-Length: ";
    // Longer: the rest is another request, and one that says `Connection: close` has no other.
    for got in both(&site, &format!("{start}2\r\n\r\n{{}}GET /api/me HTTP/1.1\r\n\r\n")).await {
        assert_eq!((answer_of(&got).status, count(&got)), (200, 1));
    }
    // Shorter: it ends with the client, and nothing was done.
    for target in ["tcp", "unix"] {
        let text = format!("{start}20\r\n\r\n{{}}");
        let got = if target == "tcp" {
            let auth = format!("{}Connection: close\r\n", site.bearer());
            let text = text.replace("HOST", &site.host()).replace("AUTH\r\n", &auth);
            let mut stream = TcpStream::connect(site.address).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            say(stream, b"").await
        } else {
            let auth = format!("{}Connection: close\r\n", bearer(OPERATOR_SECRET));
            let text = text.replace("HOST", "localhost").replace("AUTH\r\n", &auth);
            let mut stream = UnixStream::connect(site.socket()).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            say(stream, b"").await
        };
        assert_ne!(answer_of(&got).status, 200, "{target}");
    }
    assert_eq!(site.get("/healthz", "").await.status, 200);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_not_http_1_1() {
    let site = site().await;
    for (text, statuses) in [
        // The preface of HTTP/2, and a hello of TLS.
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0, 400, 505][..]),
        ("\x16\x03\x01\x02\0\x01\0\x01\x7c\x03\x03", &[0, 400]),
        ("GET /healthz HTTP/3.0\r\nHost: HOST\r\nAUTH\r\n\r\n", &[0, 400, 505]),
        ("GET /healthz\r\n\r\n", &[0, 400]),
        ("GET  /healthz HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[400]),
        ("GET /heal thz HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[400]),
        ("GET /healthz HTTP/1.1\r\nHost: HOST\r\nX: a\r\n b\r\nAUTH\r\n\r\n", &[400]),
        ("GET /healthz HTTP/1.1\r\n Host: HOST\r\nAUTH\r\n\r\n", &[400]),
        ("GET /healthz HTTP/1.1\r\nHost : HOST\r\nAUTH\r\n\r\n", &[400]),
        ("GET /healthz HTTP/1.1\r\nHost: HOST\r\nX: a\0b\r\nAUTH\r\n\r\n", &[400]),
        ("GET /healthz HTTP/1.1\r\nHost: HOST\rX: y\r\nAUTH\r\n\r\n", &[400, 421]),
        ("GET /heal\0thz HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[400]),
        ("GET /healthz\u{7f} HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[400]),
        ("G\u{e4}T /healthz HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[400]),
        ("GET /healthz HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\nAUTH\r\n\r\n", &[421]),
        ("GET /healthz HTTP/1.1\r\nHost: HOST, HOST\r\nAUTH\r\n\r\n", &[421]),
        ("GET /healthz HTTP/1.0\r\nAUTH\r\n\r\n", &[421]),
        ("GET /healthz HTTP/1.0\r\nHost: HOST\r\nAUTH\r\n\r\n", &[200]),
        ("OPTIONS * HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[404]),
        ("GET * HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[400, 404]),
        ("CONNECT HOST HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[404]),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[421]),
        ("TRACE /healthz HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[405]),
        ("BREW /healthz HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[405]),
        ("get /healthz HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[405]),
        ("GET http://evil.example/healthz HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[421]),
        ("GET //HOST/healthz HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n", &[404]),
    ] {
        for answer in answers(&site, text).await {
            assert!(statuses.contains(&answer.status), "{text:?}: {answer:?}");
            assert!(!answer.body.contains("Bearer"), "nothing is sent back: {answer:?}");
        }
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_not_talked_into_another_one() {
    let site = site().await;
    for path in [
        "/api/%6de",
        "/api//me",
        "/api/./me",
        "/api/../api/me",
        "/api/%2e%2e/api/me",
        "/api%2fme",
        "/api/me%00",
        "/api/me%",
        "/api/me%2",
        "/api/me/",
        "/api/me;x",
        "/assets/..%2f..%2fwiki-browser.lua",
        "/assets/%2e%2e",
        "/assets/..",
        "/assets/%c0%ae%c0%ae",
        "/assets/0/wb.css%00.png",
        "/login/%0d%0aSet-Cookie:%20a=b",
        "\\api\\me",
    ] {
        let text = format!("GET {path} HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n");
        for answer in answers(&site, &text).await {
            assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
            assert!(answer.header("set-cookie").is_none(), "{path}");
        }
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let site = site().await;
    let one = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: HOST\r\n\r\n");
    let last = "GET /login/x HTTP/1.1\r\nHost: HOST\r\nAUTH\r\n\r\n";
    let text = format!("{}{}{last}", one("/healthz"), one("/api/me"));
    for got in both(&site, &text).await {
        let text = String::from_utf8_lossy(&got).into_owned();
        let of =
            |it: &str| text.split("HTTP/1.1 ").nth(it.parse().unwrap()).unwrap()[..3].to_owned();
        assert_eq!([of("1"), of("2"), of("3")], ["200", "401", "404"], "{text}");
    }
    // A hundred at once are answered too, one after another.
    let text = format!("{}{last}", one("/healthz").repeat(100));
    for got in both(&site, &text).await {
        assert_eq!(count(&got), 101);
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_ask_before_it_sends() {
    let site = site().await;
    let head = format!(
        "POST /api/logout HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\
         Content-Length: 2\r\nExpect: 100-continue\r\n\r\n",
        site.host(),
        site.bearer()
    );
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 25];
    timeout(DEADLINE, stream.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(answer_of(&say(stream, b"{}").await).status, 200);
    // Who may not send it at all is told so at once, and is not asked for the body.
    let refused = head.replace(&site.bearer(), "Sec-Fetch-Site: cross-site\r\n");
    let stream = TcpStream::connect(site.address).await.unwrap();
    assert_eq!(answer_of(&say(stream, refused.as_bytes()).await).status, 403);
    site.end().await;
}
