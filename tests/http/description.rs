//! The OpenAPI description, as served to programs.

use serde_json::Value;

use crate::support::{Bench, Call};

#[test]
fn the_description_is_there_for_everybody_and_without_a_server() {
    let bench = Bench::new();
    let server = bench.serve();
    let answer = Call::get("/api/openapi.json").tcp(server.address());
    assert_eq!(answer.status, 200);
    let (served, head) = (answer.body, answer.head.to_ascii_lowercase());
    let tag = head.lines().find_map(|it| it.strip_prefix("etag: ")).unwrap().to_owned();
    let again = Call::get("/api/openapi.json").header("If-None-Match", &tag);
    assert_eq!(again.tcp(server.address()).status, 304);
    server.stop();
    let (code, printed, _) = bench.cli(&["openapi"]);
    assert_eq!(code, 0);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed, served);
    assert_eq!(printed["openapi"], "3.1.0");
    // Every schema that is named is there.
    let text = printed.to_string();
    let names = text.split("\"#/components/schemas/").skip(1).filter_map(|it| it.split('"').next());
    for name in names {
        assert!(!printed["components"]["schemas"][name].is_null(), "{name}");
    }
}
