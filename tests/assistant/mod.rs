//! The assistant, with a shell script in the place of Claude Code and a stand-in for a model.

mod actions;
mod asking;
mod attached;
mod commands;
mod conformance;
mod crashes;
mod endings;
mod fallback;
mod gateway;
mod gateway_real;
mod keyed;
mod linkedin;
mod order;
mod page;
mod private;
mod records;
mod rights;
mod search;
mod settings;
mod siege;
mod signed_in;
mod swapped;
mod terminal;
mod tools;
mod tree;
mod vault_files;
mod web;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Bench, KEY, Model, wait_for};

/// What stands in for Claude Code: it does what the last line of its prompt says, as
/// `--output-format stream-json` would show it.
const CLAUDE: &str = r#"
prompt=$(cat)
resume=
before=
for it in "$@"; do
  [ "$before" = --resume ] && resume=$it
  before=$it
done
session=${resume:-$(cat /proc/sys/kernel/random/uuid)}
project=$CLAUDE_CONFIG_DIR/projects/$(pwd | sed 's/[^A-Za-z0-9]/-/g')
mkdir -p "$project" && echo '{}' >> "$project/$session.jsonl"
printf '%s\n' "$prompt" > "$OUT/prompt"
printf '%s\n' "$@" > "$OUT/arguments"
pwd > "$OUT/cwd"
env > "$OUT/env"
event() { printf '{"type":"stream_event","session_id":"%s","event":%s}\n' "$session" "$1"; }
begin() { event '{"type":"message_start","message":{"id":"m1","model":"fake"}}'; }
say() {
  event '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'"$1"'"}}'
}
result() {
  printf '{"type":"result","subtype":"success","is_error":%s,"result":"%s"' "$1" "$2"
  printf ',"session_id":"%s","num_turns":1,"total_cost_usd":0.25' "$session"
  printf ',"usage":{"input_tokens":12,"output_tokens":3}}\n'
}
finish() {
  event '{"type":"message_stop"}'
  printf '{"type":"assistant","session_id":"%s","message":{"id":"m1","model":"fake"' "$session"
  printf ',"content":[{"type":"text","text":"all"}]}}\n'
  result false all
}
fail() { result true "$1"; exit 1; }
# What the real one says when it is told to end.
cut() {
  printf '{"type":"result","subtype":"error_during_execution","is_error":true'
  printf ',"errors":["[ede_diagnostic] result_type=user"],"session_id":"%s"}\n' "$session"
  exit 1
}
# Calls a tool as the real one does: it prints the call, and its server of tools makes it.
use() {
  printf '{"type":"assistant","session_id":"%s","message":{"id":"%s","content":[' \
    "$session" "${message:-$1}"
  printf '{"type":"tool_use","id":"%s","name":"mcp__wb__%s","input":%s}]}}\n' "$1" "$2" "$3"
  rm -f "$OUT/fifo.$$"; mkfifo "$OUT/fifo.$$"
  { printf '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s"' "$2"
    printf ',"arguments":%s,"_meta":{"claudecode/toolUseId":"%s"}}}\n' "$3" "$1"
    cat "$OUT/fifo.$$"; } | "$CLIENT" mcp assistant | {
    read -r told; printf '%s\n' "$told" >> "$OUT/told"; : > "$OUT/fifo.$$"; }
}
trap cut INT TERM
printf '{"type":"system","subtype":"init","session_id":"%s","model":"fake","tools":[]}\n' "$session"
last=$(printf '%s\n' "$prompt" | tail -n 1)
case $last in
  hello) begin; say 'Hel'; say 'lo **you**'; finish ;;
  again) begin; say "again"; finish ;;
  half)
    begin; say 'half '; echo $$ > "$OUT/pid"
    while [ ! -e "$OUT/go" ]; do sleep 0.05; done
    say 'whole'; finish ;;
  leak) begin; say 'It is of the'; say ' oper'; say 'ator, I am of'; finish ;;
  silent) begin; say 'so far'; while :; do sleep 0.2; done ;;
  stubborn)
    trap 'use toolu_1 write_file "{\"path\":\"late.md\",\"content\":\"x\"}"; cut' INT TERM
    begin; say 'so far'; while :; do sleep 0.1; done ;;
  noisy) begin; while :; do say 'word '; sleep 0.05; done ;;
  nothing) result false '' ;;
  refused|'not signed in') fail 'Not logged in \u00b7 Please run /login' ;;
  limited) begin; say 'part'; fail 'API Error: 529 Overloaded' ;;
  crashed) begin; say 'part'; echo 'a stack trace' >&2; exit 3 ;;
  "call "*)
    echo $$ > "$OUT/pid"
    if printf '%s\n' "$prompt" | grep -q '^talk$'; then
      message=m1; begin; say 'I look. '
      printf '{"type":"assistant","session_id":"%s","message":{"id":"m1","model":"fake"' "$session"
      printf ',"content":[{"type":"text","text":"I look. "}]}}\n'
    fi
    printf '%s\n' "$prompt" | grep '^call ' > "$OUT/calls.$$"
    number=0
    while read -r _ tool args; do
      number=$((number + 1)); use "toolu_$number" "$tool" "$args"
    done < "$OUT/calls.$$"
    begin; say 'made'; finish ;;
  # Calls before it has printed the call, then makes an equal one of the same message.
  early)
    mkfifo "$OUT/early"
    "$CLIENT" mcp assistant < "$OUT/early" > "$OUT/told" & client=$!
    exec 9> "$OUT/early"
    call() {
      printf '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":' "$1" >&9
      printf '"list_directory","arguments":{},"_meta":{"claudecode/toolUseId":"%s"}}}\n' "$2" >&9
    }
    call 1 toolu_1
    until ls -l /proc/$client/fd | grep -q socket: ; do sleep 0.05; done
    one='{"type":"tool_use","name":"mcp__wb__list_directory","input":{},"id":'
    printf '{"type":"assistant","session_id":"%s","message":{"id":"m1","content":[' "$session"
    printf '%s"toolu_1"},%s"toolu_2"}]}}\n' "$one" "$one"
    call 2 toolu_2
    until grep -q '"id":2' "$OUT/told"; do sleep 0.05; done
    exec 9>&-
    begin; say 'made'; finish ;;
  tools)
    printf '{"type":"system","subtype":"init","tools":["Bash"]}\n'
    while :; do sleep 0.2; done ;;
  *) begin; say 'What?'; finish ;;
esac
"#;

/// Declares the assistant for ada and bea. `more` are further fields of it.
pub(crate) fn assistant(bench: &Bench, more: &str) {
    with_env(bench, "ANTHROPIC_API_KEY = \"of the operator\",", more);
}

fn with_env(bench: &Bench, env: &str, more: &str) {
    let file = bench.base.join("agents").join("claude.sh");
    std::fs::write(&file, CLAUDE).unwrap();
    let (out, wb_agent) = (&bench.out, env!("CARGO_BIN_EXE_wb-agent"));
    bench.lua(&format!(
        r#"wb.engine "claude-chat" {{
  type = "process", command = {{ "/bin/sh", "{file}" }}, prompt = "stdin",
  reads = "claude-stream-json", env = {{ {env} OUT = "{out}", CLIENT = "{wb_agent}" }},
}}
wb.assistant {{
  runtimes = {{ claude_code = "claude-chat" }}, claude_code_persons = {{ "ada", "bea" }}, {more}
}}
"#
    ));
}

/// Declares an assistant that asks a stand-in for a model, with a key in a file.
fn keyed(bench: &Bench, more: &str) -> Model {
    let (model, engine) = model(bench);
    bench.lua(&format!(
        "{engine}wb.assistant {{ runtimes = {{ anthropic_api_key = \"sonnet\" }}, {more} }}\n"
    ));
    model
}

fn model(bench: &Bench) -> (Model, String) {
    let (model, key) = (Model::start(&bench.out), bench.base.join("key"));
    std::fs::write(&key, format!("{KEY}\n")).unwrap();
    let address = model.address;
    let engine = format!(
        r#"wb.engine "sonnet" {{
  type = "anthropic", model = "m-1", base_url = "http://{address}", key = wb.secret.file "{key}",
  price = {{ input = 3, output = 15 }},
}}
"#
    );
    (model, engine)
}

/// Declares both modes for ada.
fn both(bench: &Bench) -> Model {
    let file = bench.base.join("agents").join("claude.sh");
    std::fs::write(&file, CLAUDE).unwrap();
    let ((model, engine), out) = (model(bench), &bench.out);
    bench.lua(&format!(
        r#"{engine}wb.engine "claude-chat" {{
  type = "process", command = {{ "/bin/sh", "{file}" }}, prompt = "stdin",
  reads = "claude-stream-json", env = {{ ANTHROPIC_API_KEY = "x", OUT = "{out}" }},
}}
wb.assistant {{
  runtimes = {{ anthropic_api_key = "sonnet", claude_code = "claude-chat" }},
  claude_code_persons = {{ "ada" }},
}}
"#
    ));
    model
}

/// Returns the items of a stream that has come whole, without pings.
fn items(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = match &answer.body {
        Value::String(text) => text.clone(),
        one => one.to_string(),
    };
    let lines = text.lines().filter(|it| it.starts_with('{'));
    let items = lines.map(|it| serde_json::from_str::<Value>(it).unwrap());
    items.filter(|it| it["type"] != "ping").collect()
}

/// Checks what holds of every stream that has ended: numbers without gaps, one beginning, one end.
#[track_caller]
fn assert_whole(items: &[Value]) {
    let numbers: Vec<u64> = items.iter().map(|it| it["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=items.len() as u64).collect::<Vec<_>>(), "{items:#?}");
    let types: Vec<&str> = items.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(types[0], "start");
    assert_eq!(*types.last().unwrap(), "done");
    for (word, most) in [("start", 1), ("done", 1), ("error", 1)] {
        assert!(types.iter().filter(|it| **it == word).count() <= most, "{types:?}");
    }
    let reason = &items.last().unwrap()["reason"];
    assert_eq!(reason == "ok", !types.contains(&"error"), "{items:#?}");
}

/// Asks as the operator and returns the whole stream.
#[track_caller]
fn ask(bench: &Bench, body: Value) -> Vec<Value> {
    let items = items(&bench.post("/api/agent/chat-stream", body));
    assert_whole(&items);
    items
}

fn text_of(items: &[Value]) -> String {
    let texts = items.iter().filter(|it| it["type"] == "text");
    texts.map(|it| it["delta"].as_str().unwrap()).collect()
}

/// Returns the items of a run from the beginning, once it has ended.
#[track_caller]
fn replay(bench: &Bench, run: &str) -> Vec<Value> {
    let items = items(&bench.get(&format!("/api/agent/runs/{run}/events")));
    assert_whole(&items);
    items
}

#[track_caller]
fn history(bench: &Bench, session: &str) -> Value {
    bench.get(&format!("/api/agent/session/history?session_id={session}")).ok()
}

/// Adds a person who may write, and returns a token of theirs.
fn person(bench: &Bench, name: &str) -> String {
    bench.post("/api/persons", json!({"name": name, "role": "member"})).ok();
    token(bench, name)
}

fn token(bench: &Bench, name: &str) -> String {
    // One name is given once.
    let word = format!("t{}", bench.get("/api/tokens").ok()["items"].as_array().unwrap().len());
    let token = bench.json(&[
        "token", "create", &word, "--person", name, "--scope", "read", "--scope", "write",
        "--scope", "decide",
    ]);
    token["token"].as_str().unwrap().to_owned()
}

/// A stream that is read while it comes.
struct Live {
    reader: BufReader<TcpStream>,
    seen: Vec<Value>,
}

impl Live {
    /// Asks a question with a token.
    fn ask(address: SocketAddr, token: &str, body: &Value) -> Live {
        Live::try_ask(address, token, body).unwrap()
    }

    /// Asks a server that may be gone.
    fn try_ask(address: SocketAddr, token: &str, body: &Value) -> Option<Live> {
        let body = body.to_string();
        let head = format!(
            "POST /api/agent/chat-stream HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer \
             {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            address.port(),
            body.len()
        );
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(head.as_bytes()).ok()?;
        Some(Live { reader: BufReader::new(stream), seen: Vec::new() })
    }

    /// Reads until an item has come that is wanted; nothing if the stream ends before.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            let Ok(item) = serde_json::from_str::<Value>(&line) else { continue };
            if !item.is_object() || item["type"] == "ping" {
                continue;
            }
            self.seen.push(item.clone());
            if is_it(&item) {
                return Some(item);
            }
        }
    }
}

/// Begins an answer that stands in the middle; returns its stream, its conversation and its run.
fn half(bench: &Bench, address: SocketAddr) -> (Live, String, String) {
    let token = token(bench, "ada");
    let mut live = Live::ask(address, &token, &json!({"message": "half"}));
    let start = live.until(|it| it["type"] == "start").unwrap();
    live.until(|it| it["type"] == "text").unwrap();
    let of = |name: &str| start[name].as_str().unwrap().to_owned();
    (live, of("session_id"), of("run_id"))
}

/// Waits until a run has ended and returns it.
#[track_caller]
fn ended(bench: &Bench, run: &str) -> Value {
    wait_for("the run has ended", || {
        let shown = bench.get(&format!("/api/agent/runs/{run}"));
        (shown.status == 200 && shown.body["state"] == "ended").then_some(shown.body)
    })
}
