//! G23: a page of another origin reads nothing and changes nothing, over real TCP.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;
use wiki_browser::http::{ROUTES, Route, Verb, Who};

use crate::support::{Bench, Call, Server, raw};

/// Fails with `WB_WITHOUT=host_check`.
#[test]
fn g23_only_our_own_names_are_served_on_every_route() {
    let bench = Bench::new();
    let server = bench.serve();
    let address = server.address();
    let port = address.port();
    let hosts = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        "127.0.0.1".to_owned(),
        format!("0.0.0.0:{port}"),
    ];
    for target in
        ["/", "/healthz", "/readyz", "/assets/0/wb.css", "/api/me", "/login/x", "/nothing"]
    {
        for host in &hosts {
            let answer = Call::get(target).header("Host", host).tcp(address);
            assert_eq!(answer.status, 421, "{target} {host}");
        }
        let own = Call::get(target).header("Host", &format!("localhost:{port}")).tcp(address);
        assert_ne!(own.status, 421, "{target}");
        assert!(!own.head.to_lowercase().contains("access-control-"), "{}", own.head);
    }
    for head in [
        format!("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n"),
        "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(),
        format!("GET http://evil.example/healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"),
    ] {
        let head = head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
        let answer = String::from_utf8_lossy(&raw(address, head.as_bytes())).into_owned();
        let is_refused = ["HTTP/1.1 421", "HTTP/1.1 400"].iter().any(|it| answer.starts_with(it));
        assert!(is_refused, "{head}: {answer}");
    }
    server.stop();
}

/// Fails with `WB_WITHOUT=origin_check`.
#[test]
fn g23_a_page_of_another_origin_changes_nothing() {
    let bench = Bench::new();
    let server = bench.serve();
    let address = server.address();
    let own = format!("http://127.0.0.1:{}", address.port());
    let cookie = sign_in(&bench, address);
    let post = || {
        let body = json!({"source_path": "guide.md", "global": true, "body": "x"});
        Call::post("/api/topics", body).header("Cookie", &cookie)
    };
    let foreign: [&[(&str, &str)]; 8] = [
        &[],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Origin", "http://127.0.0.1:1")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site"), ("Origin", &own)],
        &[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")],
        &[("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")],
    ];
    for headers in foreign {
        let call = headers.iter().fold(post(), |call, (name, value)| call.header(name, value));
        assert_eq!(call.tcp(address).refusal(), (403, "cross_origin"), "{headers:?}");
    }
    let topics = bench.get("/api/topics").ok();
    assert_eq!(topics["items"], json!([]));
    for (name, value) in [("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin")] {
        assert_eq!(post().header(name, value).tcp(address).status, 201, "{name}");
    }
    // A stream or an answer for programs is not even read from elsewhere.
    for target in ["/api/topics", "/api/events", "/api/me"] {
        let call = Call::get(target).header("Cookie", &cookie);
        let call = call.header("Sec-Fetch-Site", "cross-site");
        assert_eq!(call.tcp(address).refusal(), (403, "cross_origin"), "{target}");
    }
    // What counts on the socket counts nowhere else.
    let operator = Call::get("/api/me").token(&bench.operator());
    assert_eq!(operator.tcp(address).status, 401);
    server.stop();
}

/// Signs in by a one-time link; returns the cookie.
fn sign_in(bench: &Bench, address: std::net::SocketAddr) -> String {
    let link = bench.post("/api/login-links", json!({})).ok();
    let code = link["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let login = Call::post("/api/login", json!({"code": code}));
    let answer = login.header("Sec-Fetch-Site", "same-origin").tcp(address);
    assert_eq!(answer.status, 200, "{answer:?}");
    let line = answer.head.lines().find(|it| it.to_lowercase().starts_with("set-cookie:"));
    let line = line.unwrap().split_once(':').unwrap().1;
    line.split(';').next().unwrap().trim().to_owned()
}

/// Sends one request on a connection of its own; returns status and code. A stream is left.
fn ask(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let length = if body.is_empty() { String::new() } else { length(body) };
    stream.write_all(format!("{head}Connection: close\r\n{length}\r\n{body}").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let mut chunk = [0; 8192];
    // What was read before a reset counts.
    while let Ok(got @ 1..) = stream.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..got]);
        if String::from_utf8_lossy(&bytes).contains("text/event-stream") {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(!text.to_lowercase().contains("access-control-"), "{text}");
    let status = text.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
}

fn length(body: &str) -> String {
    format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
}

/// Returns a path of a route that names a Topic, a Source or anything else.
fn example(route: &Route, id: &str) -> String {
    let path = route.path.replace("{id}", id).replace("{*path}", "guide.md");
    path.replace("{name}", "wb.css").replace("{code}", "x")
}

/// Everything that a request could change, but for logins.
fn state(bench: &Bench) -> Vec<serde_json::Value> {
    ["/api/topics", "/api/proposals", "/api/agent/jobs"]
        .iter()
        .map(|it| bench.get(it).ok())
        .chain([json!(bench.status()), json!(bench.commits())])
        .collect()
}

/// Every route, every name that is not ours. Fails with `WB_WITHOUT=host_check`.
#[test]
fn g23_no_route_is_served_under_another_name() {
    let bench = Bench::new();
    bench.write_script();
    let script = bench.read("wiki-browser.lua");
    let public =
        "listen = \"127.0.0.1:0\", public_hosts = { \"wiki.example.org\", \"b.org:8443\" }";
    bench.write("wiki-browser.lua", script.replace("listen = \"127.0.0.1:0\"", public));
    let server = Server::spawn(&bench, &[]).ready();
    let (address, topic) = (server.address(), bench.topic("guide.md", "The first line.", "x"));
    let cookie = sign_in(&bench, address);
    let port = address.port();
    let good = [
        format!("localhost:{port}"),
        format!("LocalHost:{port}"),
        format!("[::1]:{port}"),
        "WIKI.example.org".to_owned(),
        format!("wiki.example.org:{port}"),
        "b.org:8443".to_owned(),
    ];
    let bad = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.:{port}"),
        "localhost".to_owned(),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        format!("127.0.0.1.:{port}"),
        format!("127.1:{port}"),
        format!("0x7f000001:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::1%25lo]:{port}"),
        format!("[0:0:0:0:0:0:0:1]:{port}"),
        format!("::1:{port}"),
        format!("[::1]{port}"),
        "wiki.example.org.".to_owned(),
        "wiki.example.org:80".to_owned(),
        "x.wiki.example.org".to_owned(),
        "b.org".to_owned(),
        format!("b.org:{port}"),
        format!("localhost:{port}@evil.example"),
        format!("evil.example#localhost:{port}"),
        format!("localhost:{port} evil"),
        format!("localhost\t:{port}"),
        String::new(),
    ];
    let before = state(&bench);
    for route in ROUTES {
        let (verb, path) = (route.verb.as_str(), example(route, &topic.id));
        let head = |host: &str| {
            format!(
                "{verb} {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\
                     Sec-Fetch-Site: same-origin\r\n"
            )
        };
        for host in &bad {
            let (status, _) = ask(address, &head(host), "");
            assert!(matches!(status, 421 | 400), "{verb} {path} {host:?}: {status}");
        }
        for host in &good {
            assert_ne!(ask(address, &head(host), "[]").0, 421, "{verb} {path} {host}");
        }
    }
    assert_eq!(before, state(&bench));
    server.stop();
}

/// What a browser says of where a request comes from.
const FROM: [(&str, &str); 15] = [
    ("nothing", ""),
    ("own", "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n"),
    ("typed", "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"),
    ("own", "Origin: OWN\r\n"),
    ("own", "Sec-Fetch-Site: same-origin\r\nOrigin: OWN\r\n"),
    ("other", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"),
    (
        "other",
        "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: cors\r\nOrigin: http://127.0.0.1:1\r\n",
    ),
    ("other", "Sec-Fetch-Site: cross-site\r\nOrigin: OWN\r\n"),
    ("other", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Site: same-origin\r\n"),
    (
        "other",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n",
    ),
    ("other", "Origin: http://evil.example\r\n"),
    ("other", "Origin: null\r\n"),
    ("other", "Origin: OWN\r\nOrigin: OWN\r\n"),
    ("other", "Origin: OWN.evil.example\r\n"),
    (
        "link",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n",
    ),
];

/// Returns headers with credentials: whether each is a bearer token, whether it counts over TCP.
fn credentials(cookie: &str, operator: &str, token: &str) -> [(String, bool, bool); 9] {
    [
        (String::new(), false, false),
        (format!("Cookie: {cookie}\r\n"), false, true),
        (format!("Cookie: {cookie}x\r\n"), false, false),
        (format!("Cookie: {cookie}; {cookie}\r\n"), false, true),
        (format!("Cookie: {cookie}\r\nAuthorization: Basic eDp5\r\n"), false, true),
        (format!("Authorization: Bearer {operator}\r\n"), true, false),
        (format!("Authorization: Bearer {token}\r\n"), true, false),
        (format!("Cookie: {cookie}\r\nAuthorization: Bearer wb_unknown\r\n"), true, false),
        (format!("Cookie: x=y; {cookie}; z\r\n"), false, true),
    ]
}

/// Every route, with and without each credential, from everywhere.
/// Fails with `WB_WITHOUT=origin_check`.
#[test]
fn g23_every_route_asks_where_a_request_comes_from_and_who_sends_it() {
    let bench = Bench::new();
    let agent =
        "echo \"$WB_TOKEN\" > \"$OUT/token\"; while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done";
    bench.word_kind("waits", "timeout = \"10m\"", agent);
    let server = bench.serve();
    let (address, topic) = (server.address(), bench.topic("guide.md", "The first line.", "x"));
    let cookie = sign_in(&bench, address);
    bench.job("waits", json!({"word": "w"}));
    let token = bench.wait_left("token");
    let own = format!("http://127.0.0.1:{}", address.port());
    let credentials = credentials(&cookie, &bench.operator(), &token);
    let before = state(&bench);
    // To those that want a signature nothing else counts (`cookbook::webhook`).
    for route in ROUTES.iter().filter(|it| it.who != Who::Signed) {
        let (verb, path) = (route.verb.as_str(), example(route, &topic.id));
        let is_page = !["/api", "/assets", "/healthz", "/readyz", "/metrics"]
            .iter()
            .any(|it| path.starts_with(it));
        let is_read = route.verb == Verb::Get;
        for (from, headers) in FROM {
            let headers = headers.replace("OWN", &own);
            // Who sends it does not matter to a request from elsewhere: some of each sort will do.
            let count = if from == "other" { 2 } else { credentials.len() };
            for (credential, is_bearer, counts) in credentials.iter().rev().take(count) {
                // Without a cookie a browser adds nothing that could count.
                let is_nobody = !credential.contains("Cookie") && route.who != Who::All;
                let comes_from_here = match from {
                    "own" => true,
                    "typed" => is_read,
                    "nothing" => is_read || *is_bearer || is_nobody,
                    "link" => is_read && is_page,
                    _ => false,
                };
                let host = format!("127.0.0.1:{}", address.port());
                let head =
                    format!("{verb} {path} HTTP/1.1\r\nHost: {host}\r\n{credential}{headers}");
                // A body that no route takes: what gets past all checks changes nothing either.
                let body = if is_read { "" } else { "[]" };
                let (status, code) = ask(address, &head, body);
                let said = format!("{verb} {path} {headers:?} {credential:?}: {status} {code}");
                if !comes_from_here {
                    assert_eq!(status, 403, "{said}");
                    assert!(is_page || code == "cross_origin", "{said}");
                } else if route.who == Who::All {
                    assert!(
                        !matches!(status, 0 | 403 | 421) && code != "unauthenticated",
                        "{said}"
                    );
                } else if *counts {
                    assert!(!matches!(status, 0 | 401 | 421) && code != "cross_origin", "{said}");
                    let leads_on = path == "/start";
                    assert!(status < 300 || !is_read || status >= 400 || leads_on, "{said}");
                } else {
                    assert_eq!(status, 401, "{said}");
                }
            }
        }
    }
    assert_eq!(before, state(&bench));
    std::fs::write(bench.out.join("go"), "").unwrap();
    server.stop();
}
