//! Agents that live on: started, spoken to, ended and started again.

mod asked;
mod in_front;
mod kept;
mod kills;
mod life;
mod private;
#[cfg(feature = "faults")]
mod probe;
mod restored;
mod screen;
mod silent;
mod spending;
mod template;
pub(crate) mod terminal;
mod troubles;
mod turns;
mod typed_into;

use serde_json::{Value, json};

use crate::support::{Answer, Bench, until};

/// How a shell agent takes a message: `$id` is that of the block and `$text` what stands below the
/// line that says who wrote, as far as it is one line.
pub(crate) const HEAR: &str = "hear() {
  read -r line || exit 0
  id=$(printf '%s' \"$line\" | sed -n 's/^{\"id\":\"\\([^\"]*\\)\".*/\\1/p')
  text=$(printf '%s' \"$line\" | sed -n 's/.*\\\\n\\(.*\\)\"}$/\\1/p')
}
began() { printf '{\"turn\":\"began\",\"id\":\"%s\"}\\n' \"$id\"; }
say() { printf '{\"turn\":\"ended\",\"id\":\"%s\",\"text\":\"%s\"}\\n' \"$id\" \"$1\"; }
";

/// An agent that says again what it is told, until it is told to end.
pub(crate) const ECHO: &str = "while :; do hear; began
case $text in
  end) exit 0 ;;
  fall) exit 3 ;;
  quiet) say '[no-reply]' ;;
  wait) echo \"$id\" >> \"$OUT/waits\"
    while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done; say waited ;;
  *) echo \"$text\" >> \"$OUT/heard\"; say \"again $text\" ;;
esac
done";

/// Declares an agent that is a shell script and speaks lines.
pub(crate) fn declare(bench: &Bench, name: &str, fields: &str, script: &str) {
    let file = bench.base.join("agents").join(format!("{name}.sh"));
    std::fs::write(&file, format!("{HEAR}{script}\n")).unwrap();
    let out = &bench.out;
    bench.lua(&format!(
        r#"wb.engine "{name}" {{
  type = "stream", command = {{ "/bin/sh", "{file}" }}, speaks = "lines", env = {{ OUT = "{out}" }},
}}
wb.agent "{name}" {{ about = "A test", engine = "{name}", {fields} }}
"#
    ));
}

/// Sends a message to an agent; returns its id.
#[track_caller]
pub(crate) fn send(bench: &Bench, name: &str, payload: Value) -> String {
    let body = json!({"to": format!("agent:{name}"), "payload": payload});
    let sent = bench.post("/api/messages", body).ok();
    sent["message_id"].as_str().unwrap().to_owned()
}

/// Waits for the answer of a message.
#[track_caller]
fn answer(bench: &Bench, message: &str) -> Value {
    for _ in 0..4 {
        let found = bench.get(&format!("/api/messages/{message}/await?timeout=20")).ok();
        if found["state"] != "pending" {
            return found;
        }
    }
    panic!("no answer to {message}");
}

#[track_caller]
fn ask(bench: &Bench, name: &str, payload: Value) -> Value {
    answer(bench, &send(bench, name, payload))
}

fn show(bench: &Bench, name: &str) -> Value {
    bench.get(&format!("/api/agents/{name}")).ok()
}

pub(crate) fn control(bench: &Bench, name: &str, verb: &str) -> Answer {
    bench.post(&format!("/api/agents/{name}/{verb}"), json!({}))
}

#[track_caller]
pub(crate) fn wait_state(bench: &Bench, name: &str, state: &str) -> Value {
    until(&format!("{name} is {state}"), || show(bench, name)["state"] == state);
    show(bench, name)
}

/// Whether nothing shows that a message arrived, as whoever waits for its answer is told.
fn is_unproven(told: &Value) -> bool {
    let failure = told["failure"].as_str().unwrap_or_default();
    let hint = told["hint"].as_str().unwrap_or_default();
    failure.contains("(no_proof)") && hint.contains("mail resend") && hint.contains("mail settle")
}

/// The deliveries of a message: state and proof.
fn delivery(bench: &Bench, message: &str) -> (Value, Value) {
    let it = bench.get(&format!("/api/messages/{message}")).ok()["deliveries"][0].clone();
    (it["state"].clone(), it["proof"].clone())
}
