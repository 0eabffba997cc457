//! Limits on the head of a request: the largest that is accepted, and one more.

use wiki_browser::base::limit::{
    HEAD_BYTES_MAX, HEADER_LINE_BYTES_MAX, HEADERS_MAX, NO_BODY_BYTES_MAX, PATH_BYTES_MAX,
    QUERY_BYTES_MAX, QUERY_PARAMETERS_MAX,
};

use super::{Answer, Fixture, request, site};

/// Sends a GET with these header lines; the right Host is among them.
async fn get(site: &Fixture, target: &str, headers: &str) -> Answer {
    let (host, auth) = (site.host(), site.bearer());
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{auth}{headers}\r\n");
    site.tcp(&head).await
}

fn message(answer: &Answer) -> String {
    let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let (message, hint) = (json["error"]["message"].clone(), json["error"]["hint"].clone());
    assert!(hint.is_string(), "{answer:?}");
    message.as_str().unwrap_or_default().to_owned()
}

/// The first is taken; the second is refused with this status and code, and its message says the
/// limit.
async fn edge(site: &Fixture, pair: [(&str, &str); 2], refused: (u16, &str), limit: usize) {
    let [(fine, fine_headers), (beyond, beyond_headers)] = pair;
    let close = |it: &str| format!("Connection: close\r\n{it}");
    let taken = get(site, fine, &close(fine_headers)).await;
    assert!(!["414", "431"].iter().any(|it| taken.head.contains(it)), "{taken:?}");
    assert_ne!(taken.code(), refused.1, "{taken:?}");
    let answer = get(site, beyond, &close(beyond_headers)).await;
    assert_eq!((answer.status, answer.code().as_str()), refused, "{answer:?}");
    assert!(message(&answer).contains(&limit.to_string()), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"));
}

/// Fails with `WB_WITHOUT=head_limits`.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_has_limits_and_each_has_its_word() {
    let site = site().await;
    let long = |bytes: usize| format!("X-Long: {}\r\n", "x".repeat(bytes));
    let (fine, beyond) = (long(HEADER_LINE_BYTES_MAX), long(HEADER_LINE_BYTES_MAX + 1));
    let pair = [("/api/me", fine.as_str()), ("/api/me", beyond.as_str())];
    edge(&site, pair, (431, "header_too_long"), HEADER_LINE_BYTES_MAX).await;

    // Host, the token and Connection are there already.
    let many = |count: usize| (0..count).map(|it| format!("X-{it}: 1\r\n")).collect::<String>();
    let (fine, beyond) = (many(HEADERS_MAX - 3), many(HEADERS_MAX - 2));
    let pair = [("/api/me", fine.as_str()), ("/api/me", beyond.as_str())];
    edge(&site, pair, (431, "too_many_headers"), HEADERS_MAX).await;

    let all = |last: usize| {
        let (a, b) = ("x".repeat(8_000), "x".repeat(4_000));
        format!("X-A: {a}\r\nX-B: {b}\r\nX-C: {}\r\n", "x".repeat(last))
    };
    // Of each line its name, its value and four bytes; of the first its method and target.
    let others = ("GET".len() + "/api/me".len())
        + ("host".len() + site.host().len() + 4)
        + (site.bearer().trim_end().len() + 2)
        + ("connection".len() + "close".len() + 4)
        + (3 * ("x-a".len() + 4) + 8_000 + 4_000);
    let (fine, beyond) = (all(HEAD_BYTES_MAX - others), all(HEAD_BYTES_MAX - others + 1));
    let pair = [("/api/me", fine.as_str()), ("/api/me", beyond.as_str())];
    edge(&site, pair, (431, "head_too_long"), HEAD_BYTES_MAX).await;

    let path = |bytes: usize| format!("/api/{}", "x".repeat(bytes - "/api/".len()));
    let (fine, beyond) = (path(PATH_BYTES_MAX), path(PATH_BYTES_MAX + 1));
    let pair = [(fine.as_str(), ""), (beyond.as_str(), "")];
    edge(&site, pair, (414, "path_too_long"), PATH_BYTES_MAX).await;

    let query = |bytes: usize| format!("/api/events?after={}", "x".repeat(bytes - "after=".len()));
    let (fine, beyond) = (query(QUERY_BYTES_MAX), query(QUERY_BYTES_MAX + 1));
    let pair = [(fine.as_str(), ""), (beyond.as_str(), "")];
    edge(&site, pair, (414, "query_too_long"), QUERY_BYTES_MAX).await;

    let query = |count: usize| format!("/api/events?{}", vec!["a=1"; count].join("&"));
    let (fine, beyond) = (query(QUERY_PARAMETERS_MAX), query(QUERY_PARAMETERS_MAX + 1));
    let pair = [(fine.as_str(), ""), (beyond.as_str(), "")];
    edge(&site, pair, (400, "too_many_parameters"), QUERY_PARAMETERS_MAX).await;
    site.end().await;
}

/// What is far beyond is refused by the parser, without a word but with a status.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_end_is_refused_early() {
    let site = site().await;
    let long = format!("X-Long: {}\r\n", "x".repeat(5 * HEAD_BYTES_MAX));
    assert_eq!(get(&site, "/healthz", &long).await.status, 431);
    let many: String = (0..5 * HEADERS_MAX).map(|it| format!("X-{it}: 1\r\n")).collect();
    assert_eq!(get(&site, "/healthz", &many).await.status, 431);
    let target = format!("/{}", "x".repeat(70_000));
    assert!(matches!(get(&site, &target, "").await.status, 414 | 431));
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_bodies_have_limits() {
    let site = site().await;
    let auth = site.bearer();
    let spaces = |bytes: usize| " ".repeat(bytes);
    let send = |body: String| request("POST", "/api/logout", &site.host(), &auth, &body);
    assert_eq!(site.tcp(&send(spaces(NO_BODY_BYTES_MAX))).await.status, 200);
    let refused = site.tcp(&send(spaces(NO_BODY_BYTES_MAX + 1))).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "too_large"));
    assert!(message(&refused).contains(&NO_BODY_BYTES_MAX.to_string()));
    site.end().await;
}
