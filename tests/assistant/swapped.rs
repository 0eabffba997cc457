//! Every route with another person's ids, wherever one can be: in the path, the query and the body.

use serde_json::{Map, Value, json};
use wiki_browser::http::{ROUTES, Route, Verb, Who};

use super::tools::vault;
use super::{Live, assistant, history, person, token};
use crate::support::{Bench, Call, ends_a_job};

const PRIVATE: &str = "PRIVATE-WORDS";
const DESCRIPTION: &str = include_str!("../../docs/openapi.json");
/// Fields that name something by its id, its path or its address.
const NAMES: [&str; 20] = [
    "action_id",
    "after",
    "at",
    "attachments",
    "before",
    "channel",
    "from",
    "head_id",
    "id",
    "in_reply_to",
    "parent_id",
    "path",
    "person",
    "query",
    "reply_to",
    "run_id",
    "session_id",
    "thread",
    "to",
    "topic_id",
];

/// The fields of a route by which something can be named.
struct Fields {
    query: Vec<String>,
    body: Vec<String>,
}

fn fields(description: &Value, route: &Route) -> Fields {
    let verb = route.verb.as_str().to_ascii_lowercase();
    let operation = &description["paths"][route.path][verb];
    let is_name = |name: &&str| NAMES.contains(name);
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let query = parameters.filter(|it| it["in"] == "query").filter_map(|it| it["name"].as_str());
    let mut schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    if let Some(name) = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next()) {
        schema = &description["components"]["schemas"][name];
    }
    let body = schema["properties"].as_object().into_iter().flatten().map(|it| it.0.as_str());
    Fields {
        query: query.filter(is_name).map(str::to_owned).collect(),
        body: body.filter(is_name).map(str::to_owned).collect(),
    }
}

/// Returns requests to a route that name an id.
fn calls(description: &Value, route: &Route, id: &str) -> Vec<Call> {
    let mut target = route.path.to_owned();
    for name in ["{id}", "{job}", "{name}", "{session}", "{template}", "{version}"] {
        target = target.replace(name, id);
    }
    let target = target.replace("{*path}", "guide.md");
    let Fields { query, body } = fields(description, route);
    let mut queries: Vec<String> = query.iter().map(|name| format!("?{name}={id}")).collect();
    let all: Vec<String> = query.iter().map(|name| format!("{name}={id}")).collect();
    queries.extend([String::new(), format!("?{}", all.join("&"))]);
    let value = |name: &str| if name == "attachments" { json!([id]) } else { json!(id) };
    let mut bodies: Vec<Value> = body.iter().map(|name| json!({name: value(name)})).collect();
    let all = body.iter().map(|name| (name.clone(), value(name))).collect::<Map<_, _>>();
    bodies.extend([json!({}), Value::Object(all.clone())]);
    if !all.is_empty() {
        let mut with = all;
        with.insert("message".to_owned(), json!("hello"));
        bodies.push(Value::Object(with));
    }
    let mut calls = Vec::new();
    for query in &queries {
        let target = format!("{target}{query}");
        match route.verb {
            Verb::Post if route.path.starts_with("/api/") => {
                calls.extend(bodies.iter().map(|body| Call::post(&target, body.clone())));
            }
            Verb::Post => {
                for name in ["run", "head", "call", "approval&version=1&answer=allow", "message"] {
                    let (name, more) = name.split_once('&').unwrap_or((name, ""));
                    calls.push(Call::form(&target, &format!("{name}={id}&{more}")));
                }
            }
            verb => calls.push(Call::new(verb.as_str(), &target)),
        }
    }
    calls
}

#[test]
fn no_id_of_a_person_opens_anything_to_another() {
    let bench = Bench::new();
    assistant(&bench, "");
    let server = bench.serve();
    let bea = person(&bench, "bea");
    bench.post("/api/persons", json!({"name": "boss", "role": "admin"})).ok();
    let boss = token(&bench, "boss");
    let own = token(&bench, "ada");
    let folder = vault(&bench);
    bench.get("/api/agent/scratch").ok();
    std::fs::write(folder.join("secret.md"), PRIVATE).unwrap();
    let upload = Call::file("/api/agent/attachments?name=a.txt", PRIVATE.as_bytes());
    let upload = bench.send(&upload.token(&bench.operator())).ok();
    // An answer that waits for its person.
    let message = format!("{PRIVATE}\ncall delete_file {{\"path\":\"secret.md\"}}");
    let mut live = Live::ask(server.address(), &own, &json!({"message": message}));
    let start = live.until(|it| it["type"] == "start").unwrap();
    let asked = live.until(|it| it["type"] == "confirm_required").unwrap();
    let of = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    let session = of(&start, "session_id");
    let shown = || {
        let mut shown = history(&bench, &session);
        shown["calls"][0]["ms"] = json!(null);
        shown
    };
    let before = shown();
    let ids = [
        of(&start, "run_id"),
        session.clone(),
        of(&before["messages"][0], "id"),
        of(&asked, "id"),
        of(&asked, "approval_id"),
        of(&upload, "path"),
        "secret.md".to_owned(),
    ];
    let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
    let mut count = 0;
    for (who, token) in [("a member", &bea), ("an admin", &boss)] {
        for (route, id) in ROUTES.iter().flat_map(|it| ids.iter().map(move |id| (it, id))) {
            let is_cancel = ends_a_job(route.path) && who == "an admin";
            let is_left_out = ["/api/logout", "/api/events"].contains(&route.path);
            if is_cancel || is_left_out || route.who == Who::Signed {
                continue;
            }
            for call in calls(&description, route, id) {
                let answer = bench.send(&call.token(token));
                let text = answer.body.to_string();
                let what = format!("{} {} with {id} to {who}", route.verb.as_str(), route.path);
                assert!(!text.contains(PRIVATE), "{what}: {text}");
                for other in ids.iter().filter(|other| *other != id) {
                    assert!(!text.contains(other.as_str()), "{what}: {text}");
                }
                count += 1;
            }
        }
    }
    assert!(count > 2_000, "{count}");
    // Nothing was changed either: the question still waits, and its person decides it.
    assert_eq!(shown(), before);
    assert_eq!(std::fs::read_to_string(folder.join("secret.md")).unwrap(), PRIVATE);
    assert!(folder.join(&ids[5]).exists());
    let approval = bench.get(&format!("/api/approvals/{}", ids[4])).ok();
    assert_eq!(approval["state"], "pending");
    let decline = format!("/api/approvals/{}/reject", ids[4]);
    bench.post(&decline, json!({"version": approval["version"]})).ok();
    assert_eq!(live.until(|it| it["type"] == "done").unwrap()["reason"], "ok");
    server.stop();
}
