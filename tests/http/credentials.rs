//! Credentials: which one is accepted where.

use std::sync::atomic::Ordering;

use super::{OPERATOR_SECRET, RUNNING_JOB, bearer, request, site};
use wiki_browser::people;

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_counts_where_it_belongs() {
    let site = site().await;
    let token = site.token.clone();
    let double = format!("{}{}", bearer(&token), bearer("other"));
    let long = bearer(&"x".repeat(500));
    let table = [
        (bearer(&token), 200, 200),
        (bearer(OPERATOR_SECRET), 401, 200),
        (bearer("running"), 401, 200),
        (bearer("ended"), 401, 409),
        (bearer("unknown"), 401, 401),
        (bearer(""), 401, 401),
        ("Authorization: bearer\r\n".to_owned(), 401, 401),
        (format!("Authorization: {token}\r\n"), 401, 401),
        ("Authorization: Basic eDp5\r\n".to_owned(), 401, 401),
        (double, 401, 401),
        (long, 401, 401),
        (String::new(), 401, 401),
    ];
    for (headers, over_tcp, over_socket) in table {
        let answer = site.get("/api/me", &headers).await;
        assert_eq!(answer.status, over_tcp, "tcp {headers}");
        let answer = site.unix(&request("GET", "/api/me", "localhost", &headers, "")).await;
        assert_eq!(answer.status, over_socket, "socket {headers}");
    }
    let ended = request("GET", "/api/me", "localhost", &bearer("ended"), "");
    assert_eq!(site.unix(&ended).await.code(), "job_ended");
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn me_says_who_it_is() {
    let site = site().await;
    let person = site.get("/api/me", &site.bearer()).await;
    let json: serde_json::Value = serde_json::from_str(&person.body).unwrap();
    let id = site.person.id.as_str();
    assert_eq!(json["actor"], format!("person:{id}"));
    assert_eq!(json["person"]["name"], "ada");
    assert_eq!(json["person"]["role"], "admin");
    assert!(json["job_id"].is_null() && json["person"]["email"].is_null());
    let job = site.unix(&request("GET", "/api/me", "localhost", &bearer("running"), "")).await;
    let json: serde_json::Value = serde_json::from_str(&job.body).unwrap();
    assert_eq!(json["job_id"], RUNNING_JOB);
    assert!(json["person"].is_null() && json.get("person").is_some());
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g32_nobody_becomes_the_operator_by_lacking_a_token() {
    let site = site().await;
    let ask = |headers: &str| request("POST", "/api/login-links", "localhost", headers, "");
    assert_eq!(site.unix(&ask("")).await.status, 401);
    let job = site.unix(&ask(&bearer("running"))).await;
    assert_eq!((job.status, job.code().as_str()), (403, "agent_forbidden"));
    assert_eq!(site.unix(&ask(&bearer(OPERATOR_SECRET))).await.status, 200);
    // The same token from a process of a job is refused.
    site.is_agent.store(true, Ordering::SeqCst);
    let agent = site.unix(&ask(&bearer(OPERATOR_SECRET))).await;
    assert_eq!((agent.status, agent.code().as_str()), (403, "agent_peer"));
    // Over TCP a person's own token does not make links either.
    let tcp = site.post("/api/login-links", &site.bearer(), "").await;
    assert_eq!((tcp.status, tcp.code().as_str()), (403, "socket_only"));
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_wins_over_a_cookie() {
    let site = site().await;
    let id = site.person.id.clone();
    let secret = site.edge.store.write(move |tx| people::create_login(tx, &id)).await.unwrap();
    let name = &site.edge.gate.cookie_name;
    let cookie = format!("Cookie: a=b; {name}={secret}\r\n");
    assert_eq!(site.get("/api/me", &cookie).await.status, 200);
    let both = format!("{cookie}{}", bearer("unknown"));
    assert_eq!(site.get("/api/me", &both).await.status, 401);
    let other_site = format!("Cookie: wb_00000000={secret}\r\n");
    assert_eq!(site.get("/api/me", &other_site).await.status, 401);
    // What a neighbor on another port adds signs nobody out.
    for double in [format!("{name}={secret}; {name}=x"), format!("{name}=; {name}={secret}")] {
        assert_eq!(site.get("/api/me", &format!("Cookie: {double}\r\n")).await.status, 200);
    }
    let unknown = format!("Cookie: {name}=x; {name}=y\r\n");
    assert_eq!(site.get("/api/me", &unknown).await.status, 401);
    // A session of somebody else beside it is no way to act in their name.
    let ids = site.edge.ids.clone();
    let other = site.edge.store.write(move |tx| {
        let (name, role) = ("bo".to_owned(), people::Role::Viewer);
        let new = people::NewPerson { display_name: name.clone(), name, email: None, role };
        let bo = people::create_person(tx, &ids, &new)?;
        people::create_login(tx, &bo.id)
    });
    let two = format!("Cookie: {name}={secret}; {name}={}\r\n", other.await.unwrap());
    assert_eq!(site.get("/api/me", &two).await.status, 401);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_person_is_unknown() {
    let site = site().await;
    let id = site.person.id.clone();
    assert_eq!(site.get("/api/me", &site.bearer()).await.status, 200);
    site.edge.store.write(move |tx| people::disable(tx, &id)).await.unwrap();
    assert_eq!(site.get("/api/me", &site.bearer()).await.status, 401);
    site.end().await;
}
