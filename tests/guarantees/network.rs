//! G23: a page of another origin reads nothing and changes nothing, over real TCP.

use serde_json::json;

use crate::support::{Bench, Call, raw};

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
    for target in ["/", "/healthz", "/readyz", "/assets/wb.css", "/api/me", "/login/x", "/nothing"]
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
