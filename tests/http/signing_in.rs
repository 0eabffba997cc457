//! Login links and sessions.

use super::{OPERATOR_SECRET, bearer, request, site};

#[tokio::test(flavor = "multi_thread")]
async fn a_login_link_works_once() {
    let site = site().await;
    let operator = bearer(OPERATOR_SECRET);
    let made = site.unix(&request("POST", "/api/login-links", "localhost", &operator, "{}")).await;
    let link: serde_json::Value = serde_json::from_str(&made.body).unwrap();
    let url = link["url"].as_str().unwrap();
    let start = format!("http://127.0.0.1:{}/login/", site.address.port());
    let code = url.strip_prefix(&start).unwrap();
    assert!(link["expires_at"].as_str().unwrap().ends_with('Z'));

    // Following the link, also many times, uses nothing up.
    for _ in 0..3 {
        let page = site.get(&format!("/login/{code}"), "").await;
        assert_eq!(page.status, 200);
        assert!(page.body.contains(code) && page.header("set-cookie").is_none());
    }
    let form = format!("code={code}");
    let headers = "Sec-Fetch-Site: same-origin\r\nAccept: text/html,*/*;q=0.8\r\n\
                   Content-Type: application/x-www-form-urlencoded\r\n";
    let send = request("POST", "/api/login", &site.host(), headers, &form);
    let first = site.tcp(&send).await;
    assert_eq!((first.status, first.header("location")), (303, Some("/")));
    let set = first.header("set-cookie").unwrap().to_owned();
    for part in ["; HttpOnly", "; SameSite=Lax", "; Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    let second = site.tcp(&send).await;
    assert_eq!((second.status, second.header("set-cookie")), (401, None));
    assert!(second.body.contains("<html"), "a form is answered with a page");
    assert_eq!(site.get(&format!("/login/{code}"), "").await.status, 404);

    let cookie = format!("Cookie: {}\r\n", set.split(';').next().unwrap());
    assert_eq!(site.get("/api/me", &cookie).await.status, 200);
    // The cookie alone is not enough to change something: the page must be ours.
    assert_eq!(site.post("/api/logout", &cookie, "").await.code(), "cross_origin");
    let ours = format!("{cookie}Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(site.post("/api/logout", &ours, "").await.status, 200);
    assert_eq!(site.get("/api/me", &cookie).await.status, 401);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_signs_in_as_well() {
    let site = site().await;
    let now = site.edge.store.clock().now();
    let (code, _) = site.edge.codes.issue(&site.person.id, now).unwrap();
    let body = serde_json::json!({"code": code}).to_string();
    let answer = site.post("/api/login", "Sec-Fetch-Site: same-origin\r\n", &body).await;
    assert_eq!(answer.status, 200);
    let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(json["person"]["name"], "ada");
    let name = &site.edge.gate.cookie_name;
    assert_eq!(name.len(), 11);
    assert!(answer.header("set-cookie").unwrap().starts_with(&format!("{name}=")));
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_codes_is_slowed_down() {
    let site = site().await;
    let mut last = 0;
    for _ in 0..11 {
        let body = "{\"code\":\"guess\"}";
        last = site.post("/api/login", "Sec-Fetch-Site: same-origin\r\n", body).await.status;
    }
    assert_eq!(last, 429);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_is_never_in_the_database() {
    let site = site().await;
    let now = site.edge.store.clock().now();
    let (code, _) = site.edge.codes.issue(&site.person.id, now).unwrap();
    let body = serde_json::json!({"code": code}).to_string();
    let answer = site.post("/api/login", "Sec-Fetch-Site: same-origin\r\n", &body).await;
    let set = answer.header("set-cookie").unwrap();
    let secret = set.split(['=', ';']).nth(1).unwrap();
    for name in ["wiki.db", "wiki.db-wal"] {
        let bytes = std::fs::read(super::utf8(&site.folder).join(name)).unwrap();
        for hidden in [secret, code.as_str(), site.token.as_str()] {
            let found = bytes.windows(hidden.len()).any(|it| it == hidden.as_bytes());
            assert!(!found, "{name}");
        }
    }
    site.end().await;
}
