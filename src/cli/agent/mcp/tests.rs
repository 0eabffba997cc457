//! The server of tools, without a process.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Tools of a test: `echo`, and `wait`, which ends when it is taken back.
#[derive(Default)]
struct Echo {
    waits: Mutex<BTreeMap<String, Sender<()>>>,
    taken_back: Mutex<Vec<String>>,
}

impl Tools for Echo {
    fn list(&self) -> Result<Vec<Value>> {
        Ok(vec![json!({"name": "echo", "inputSchema": {"type": "object"}})])
    }

    fn call(&self, call: &Call) -> Result<String> {
        match call.name.as_str() {
            "echo" => {
                Ok(format!("{}{}", call.params["arguments"]["text"], call.params["_meta"]["of"]))
            }
            "wait" => {
                let (tell, told): (Sender<()>, Receiver<()>) = channel();
                locked(&self.waits).insert(call.id.clone(), tell);
                told.recv().unwrap_err();
                Ok("late".to_owned())
            }
            _ => Err(Error::not_found("unknown tool")),
        }
    }

    fn cancel(&self, id: &str) {
        while locked(&self.waits).remove(id).is_none() {
            std::thread::yield_now();
        }
        locked(&self.taken_back).push(id.to_owned());
    }
}

/// Returns what is answered, by id.
fn said(tools: &Echo, lines: &[u8]) -> BTreeMap<String, Value> {
    let mut out = Vec::new();
    serve(tools, lines, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let answers = text.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    answers.map(|it| (it["id"].to_string(), it)).collect()
}

fn call(id: i64, name: &str, arguments: Value) -> String {
    let params = json!({"name": name, "arguments": arguments, "_meta": {"of": 7}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

fn ask(id: i64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

#[test]
fn a_request_is_answered_and_a_notice_is_not() {
    let lines = [
        ask(1, "initialize", json!({"protocolVersion": "2025-06-18"})),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        ask(2, "tools/list", json!({})),
        ask(3, "ping", json!({})),
        ask(4, "resources/list", json!({})),
        call(5, "echo", json!({"text": "hé\n"})),
        call(6, "none", json!({})),
        ask(7, "tools/call", json!({})),
        ask(8, "initialize", json!({"protocolVersion": "1999-01-01"})),
    ];
    let said = said(&Echo::default(), lines.join("\n").as_bytes());
    assert_eq!(said.len(), 8, "{said:?}");
    assert_eq!(said["1"]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(said["2"]["result"]["tools"][0]["name"], "echo");
    assert_eq!(said["3"]["result"], json!({}));
    assert_eq!(said["4"]["error"]["code"], -32_601);
    assert_eq!(said["5"]["result"]["content"][0]["text"], "\"hé\\n\"7");
    assert!(said["5"]["result"]["isError"].is_null());
    assert_eq!(said["6"]["result"]["isError"], true);
    assert_eq!(said["7"]["error"]["code"], -32_602);
    assert_eq!(said["8"]["result"]["protocolVersion"], VERSIONS[0]);
}

#[test]
fn what_is_no_request_is_refused_and_the_next_line_is_read() {
    let long = format!("{{\"jsonrpc\":\"2.0\",\"x\":\"{}\"}}", "x".repeat(17 * 1024 * 1024));
    for wrong in
        ["{", "[]", "{}", "7", "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", &long]
    {
        let lines = format!("{wrong}\n\n  \n{}\n", ask(1, "ping", json!({})));
        let said = said(&Echo::default(), lines.as_bytes());
        assert!(said["null"]["error"]["code"].is_i64(), "{said:?}");
        assert_eq!(said["1"]["result"], json!({}));
    }
}

#[test]
fn a_call_that_is_taken_back_is_not_answered() {
    let tools = Echo::default();
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
    });
    let lines = [call(1, "wait", json!({})), cancel.to_string(), cancel.to_string()];
    assert!(said(&tools, lines.join("\n").as_bytes()).is_empty());
    assert_eq!(*locked(&tools.taken_back), ["1"]);
    // The end of the input takes back what still runs.
    assert!(said(&tools, call(2, "wait", json!({})).as_bytes()).is_empty());
    assert_eq!(*locked(&tools.taken_back), ["1", "2"]);
}

#[test]
fn calls_at_once_are_bounded() {
    let tools = Echo::default();
    let lines: Vec<String> = (0..20).map(|id| call(id, "wait", json!({}))).collect();
    let said = said(&tools, lines.join("\n").as_bytes());
    assert_eq!(said.len(), 4);
    assert!(said.values().all(|it| it["error"]["code"] == -32_000), "{said:?}");
    let again = [call(1, "wait", json!({})), call(1, "wait", json!({}))].join("\n");
    let said = super::tests::said(&tools, again.as_bytes());
    assert_eq!(said["1"]["error"]["message"], "a call with this id is already running");
}
