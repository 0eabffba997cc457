//! Which requests are for this site, and which pages may send them.

use std::sync::atomic::Ordering;

use super::{bearer, request, site};
use wiki_browser::http::{ROUTES, Verb, Who};

#[tokio::test(flavor = "multi_thread")]
async fn g23_only_our_own_names_are_served() {
    let site = site().await;
    let port = site.address.port();
    let other = port.wrapping_add(1);
    let auth = site.bearer();
    let table = [
        (format!("Host: localhost:{port}"), 200),
        (format!("Host: LOCALHOST:{port}"), 200),
        (format!("Host: 127.0.0.1:{port}"), 200),
        (format!("Host: [::1]:{port}"), 200),
        ("Host: wiki.example.org".to_owned(), 200),
        (format!("Host: wiki.example.org:{port}"), 200),
        ("X-None: there is no Host".to_owned(), 421),
        ("Host:".to_owned(), 421),
        (format!("Host: localhost:{port}\r\nHost: localhost:{port}"), 421),
        (format!("Host: localhost:{port}\r\nHost: evil.example"), 421),
        (format!("Host: evil.example:{port}"), 421),
        ("Host: evil.example".to_owned(), 421),
        ("Host: localhost".to_owned(), 421),
        (format!("Host: localhost:{other}"), 421),
        (format!("Host: localhost.:{port}"), 421),
        (format!("Host: x.localhost:{port}"), 421),
        (format!("Host: 127.0.0.1.nip.io:{port}"), 421),
        (format!("Host: 127.1:{port}"), 421),
        (format!("Host: 0.0.0.0:{port}"), 421),
        (format!("Host: 2130706433:{port}"), 421),
        (format!("Host: 127.0.0.2:{port}"), 421),
        (format!("Host: ::1:{port}"), 421),
        (format!("Host: [::ffff:127.0.0.1]:{port}"), 421),
        (format!("Host: user@localhost:{port}"), 421),
        (format!("Host: localhost:{port}, evil.example"), 421),
        (format!("Host: localhost:0{port}"), 421),
        ("Host: evil.wiki.example.org".to_owned(), 421),
        (format!("Host: löcalhost:{port}"), 421),
    ];
    for (host, status) in table {
        for path in ["/api/me", "/healthz", "/assets/0/wb.css"] {
            let head = format!("GET {path} HTTP/1.1\r\n{host}\r\n{auth}Connection: close\r\n\r\n");
            let answer = site.tcp(&head).await;
            assert_eq!(answer.status, status, "{path} {host}: {}", answer.body);
        }
        let head = format!("GET /no/such HTTP/1.1\r\n{host}\r\n{auth}Connection: close\r\n\r\n");
        let expected = if status == 200 { 404 } else { 421 };
        assert_eq!(site.tcp(&head).await.status, expected, "404 {host}");
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g23_an_absolute_target_must_agree_with_the_host() {
    let site = site().await;
    let (host, auth) = (site.host(), site.bearer());
    for (target, status) in [
        (format!("http://{host}/api/me"), 200),
        (format!("HTTP://{host}/api/me"), 200),
        ("http://evil.example/api/me".to_owned(), 421),
        (format!("http://user@{host}/api/me"), 421),
        (format!("ftp://{host}/api/me"), 421),
    ] {
        let answer = site.tcp(&request("GET", &target, &host, &auth, "")).await;
        assert_eq!(answer.status, status, "{target}: {}", answer.body);
    }
    let rebound = request("GET", &format!("http://{host}/api/me"), "evil.example", &auth, "");
    assert_eq!(site.tcp(&rebound).await.status, 421);
    let old = format!("GET /api/me HTTP/1.0\r\n{auth}\r\n");
    assert_eq!(site.tcp(&old).await.status, 421);
    let tunnel = site.tcp(&request("CONNECT", &host, &host, &auth, "")).await;
    assert_eq!((tunnel.status, tunnel.code().as_str()), (404, ""), "{tunnel:?}");
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_socket_the_host_is_localhost() {
    let site = site().await;
    for (host, status) in
        [("localhost", 200), ("LocalHost", 200), ("localhost:80", 421), ("evil", 421), ("", 421)]
    {
        let answer = site.unix(&request("GET", "/api/me", host, &bearer("running"), "")).await;
        assert_eq!(answer.status, status, "{host}: {}", answer.body);
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g23_a_page_of_another_origin_changes_nothing() {
    let site = site().await;
    let (host, auth) = (site.host(), site.bearer());
    let own = format!("Origin: http://{host}\r\n");
    let cookie = format!("Cookie: {}=x\r\n", site.edge.gate.cookie_name);
    let port = site.address.port();
    // 401 means that the request got past this check.
    let table = [
        ("Sec-Fetch-Site: same-origin\r\n".to_owned(), true),
        ("Sec-Fetch-Site: none\r\n".to_owned(), false),
        (format!("Sec-Fetch-Site: none\r\n{cookie}"), false),
        (format!("Sec-Fetch-Site: none\r\n{own}"), true),
        ("Sec-Fetch-Site: same-origin\r\nOrigin: null\r\n".to_owned(), true),
        (own.clone(), true),
        (auth.clone(), true),
        (cookie.clone(), false),
        ("Sec-Fetch-Site: cross-site\r\n".to_owned(), false),
        ("Sec-Fetch-Site: same-site\r\n".to_owned(), false),
        ("Sec-Fetch-Site: strange\r\n".to_owned(), false),
        ("Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\n".to_owned(), false),
        (format!("Sec-Fetch-Site: cross-site\r\n{own}"), false),
        (format!("Sec-Fetch-Site: cross-site\r\n{auth}"), false),
        (format!("Sec-Fetch-Site: same-site\r\n{auth}"), false),
        (
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\
             Sec-Fetch-Dest: document\r\n"
                .to_owned(),
            false,
        ),
        ("Origin: http://evil.example\r\n".to_owned(), false),
        (format!("Origin: http://evil.example\r\n{auth}"), false),
        ("Origin: null\r\n".to_owned(), false),
        (format!("Origin: https://{host}\r\n"), false),
        (format!("Origin: http://127.0.0.1:{port}\r\n"), false),
        ("Origin: http://localhost\r\n".to_owned(), false),
        (format!("Origin: http://{host}.evil.example\r\n"), false),
        (format!("{own}Origin: http://evil.example\r\n"), false),
    ];
    for (headers, passes) in table {
        for path in ["/api/logout", "/api/login", "/api/nothing"] {
            let answer = site.post(path, &headers, "{}").await;
            assert_eq!(answer.code() != "cross_origin", passes, "{path} {headers:?} {answer:?}");
            assert!(passes || answer.status == 403, "{path} {headers:?}");
        }
    }
    // Nobody's page sends what has no credential; where none is needed, it is refused all the same.
    for headers in ["", "Authorization: Basic eDp5\r\n"] {
        for path in ["/api/logout", "/api/nothing"] {
            assert_eq!(site.post(path, headers, "{}").await.status, 401, "{path} {headers:?}");
        }
        assert_eq!(site.post("/api/login", headers, "{}").await.code(), "cross_origin");
    }
    let public = request("POST", "/api/logout", "wiki.example.org", "", "");
    for scheme in ["http", "https"] {
        let origin = format!("\r\nOrigin: {scheme}://wiki.example.org\r\n\r\n");
        let answer = site.tcp(&public.replacen("\r\n\r\n", &origin, 1)).await;
        assert_eq!(answer.status, 401, "{scheme}");
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g23_a_page_of_another_origin_reads_nothing() {
    let site = site().await;
    let auth = site.bearer();
    let navigate = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    let frame = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n";
    for from in ["cross-site", "same-site"] {
        for (path, headers, status) in [
            ("/api/me", "", 403),
            ("/api/events", "Sec-Fetch-Mode: cors\r\n", 403),
            ("/api/me", navigate, 403),
            ("/assets/0/wb.css", "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: style\r\n", 403),
            ("/login/x", navigate, 404),
            ("/no/such/page", navigate, 404),
            ("/login/x", frame, 403),
            ("/login/x", "", 403),
        ] {
            let headers = format!("Sec-Fetch-Site: {from}\r\n{headers}{auth}");
            let answer = site.get(path, &headers).await;
            assert_eq!(answer.status, status, "{path} {headers}");
        }
    }
    let foreign = format!("Origin: http://evil.example\r\n{auth}");
    assert_eq!(site.get("/api/me", &foreign).await.code(), "cross_origin");
    let preflight = "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
    let answer = site.tcp(&request("OPTIONS", "/api/login", &site.host(), preflight, "")).await;
    assert_eq!(answer.status, 403);
    assert!(!answer.head.to_ascii_lowercase().contains("access-control"));
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_the_headers_of_safety() {
    let site = site().await;
    let auth = site.bearer();
    for (path, headers) in [
        ("/healthz", ""),
        ("/api/me", auth.as_str()),
        ("/api/me", ""),
        ("/no/such", ""),
        ("/login/x", ""),
        ("/assets/0/wb.css", ""),
        ("/api/me", "Sec-Fetch-Site: cross-site\r\n"),
    ] {
        let answer = site.get(path, headers).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{path}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path} {name}");
        }
        let cache = if path.starts_with("/assets") { "no-cache" } else { "no-store" };
        assert_eq!(answer.header("cache-control"), Some(cache), "{path}");
    }
    site.end().await;
}

/// Routes that need nothing but the edge; this fixture serves no others.
const OF_THE_EDGE: &[&str] = &[
    "/healthz",
    "/readyz",
    "/assets/{version}/{name}",
    "/login/{code}",
    "/api/login",
    "/api/logout",
    "/api/me",
    "/api/login-links",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_route_wants_a_credential_and_is_served() {
    let site = site().await;
    for route in ROUTES.iter().filter(|it| it.path != "/api/events") {
        let path = route.path.replace(['{', '}', '*'], "x");
        let method = route.verb.as_str();
        let same = "Sec-Fetch-Site: same-origin\r\n";
        let bare = site.tcp(&request(method, &path, &site.host(), same, "")).await;
        if !matches!(route.who, Who::All | Who::Signed) {
            assert_eq!(bare.status, 401, "{method} {path}");
            assert_eq!(bare.header("www-authenticate"), Some("Bearer"));
        }
        if !OF_THE_EDGE.contains(&route.path) {
            continue;
        }
        let known = bearer(super::OPERATOR_SECRET);
        let answer = site.unix(&request(method, &path, "localhost", &known, "")).await;
        assert!(!matches!(answer.status, 401 | 403 | 405 | 500), "{method} {path}: {answer:?}");
        assert_ne!(answer.code(), "no_route", "{method} {path}");
        if route.verb == Verb::Get {
            let head = site.unix(&request("HEAD", &path, "localhost", &known, "")).await;
            assert_eq!((head.status, head.body.as_str()), (answer.status, ""), "HEAD {path}");
        }
    }
    assert_eq!(site.get("/api/events", "").await.status, 401);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_json_for_programs_and_pages_for_people() {
    let site = site().await;
    let auth = site.bearer();
    let missing = site.get("/api/nothing", &auth).await;
    assert_eq!((missing.status, missing.code().as_str()), (404, "no_route"));
    assert_eq!(missing.header("content-type"), Some("application/json"));
    let hidden = site.get("/api/nothing", "").await;
    assert_eq!((hidden.status, hidden.code().as_str()), (401, "unauthenticated"));
    let page = site.get("/nothing/%3Cscript%3E", &auth).await;
    assert_eq!(page.status, 404);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.body.contains("Page not found") && !page.body.contains("<script>"));
    let used = site.get("/login/x", "").await;
    assert!(used.status == 404 && used.body.contains("This link no longer works"), "{}", used.body);
    let verb = site.tcp(&request("DELETE", "/api/me", &site.host(), &auth, "")).await;
    assert_eq!((verb.status, verb.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(verb.code(), "method_not_allowed");
    let form = site.get("/settings/tokens", &auth).await;
    assert_eq!((form.status, form.header("location")), (303, Some("/settings")));
    // Everyone knows of this route: whoever misuses it needs no credential to hear how it is used.
    let open = site.tcp(&request("PUT", "/hooks/x", &site.host(), "", "")).await;
    assert_eq!((open.status, open.header("allow")), (405, Some("POST")));
    let query = site.get("/api/events?aftr=1", &auth).await;
    assert_eq!((query.status, query.code().as_str()), (400, "unknown_parameter"));
    let twice = site.get("/api/events?after=1&after=2", &auth).await;
    assert_eq!((twice.status, twice.code().as_str()), (400, "bad_parameter"));
    let same = "Sec-Fetch-Site: same-origin\r\n";
    for (body, code) in [
        ("{\"code\":\"x\",\"extra\":1}", "unknown_field"),
        ("{\"code\":", "bad_json"),
        ("{\"code\":\"x\"}", "bad_code"),
    ] {
        assert_eq!(site.post("/api/login", same, body).await.code(), code);
    }
    let long = format!("{{\"code\":\"{}\"}}", "x".repeat(5_000));
    let large = site.post("/api/login", same, &long).await;
    assert_eq!((large.status, large.code().as_str()), (413, "too_large"));
    let plain = format!("{same}Content-Type: text/plain\r\n");
    let plain = site.tcp(&request("POST", "/api/login", &site.host(), &plain, "{}")).await;
    assert_eq!((plain.status, plain.code().as_str()), (400, "not_json"));
    // As `curl -d` and some trackers send it; only a page's form is answered with a page.
    for (path, accept) in [("/api/login", ""), ("/hooks/none", "Accept: application/json\r\n")] {
        let head = format!("{same}{accept}Content-Type: application/x-www-form-urlencoded\r\n");
        let form = site.tcp(&request("POST", path, &site.host(), &head, "n=1")).await;
        assert!(form.status >= 400 && !form.code().is_empty(), "{path}: {form:?}");
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_shows_an_id_and_never_its_causes() {
    let site = site().await;
    assert_eq!(site.get("/readyz", "").await.status, 200);
    for (state, status, code) in [(1, 503, "unavailable"), (2, 500, "panic")] {
        site.ready.store(state, Ordering::SeqCst);
        let answer = site.get("/readyz", "").await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
        let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert!(json["error"]["request_id"].is_string());
        assert!(!answer.body.contains("hidden") && !answer.body.contains("handler"));
    }
    assert_eq!(site.get("/healthz", "").await.status, 200, "the site goes on");
    site.end().await;
}
