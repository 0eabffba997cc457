//! Decisions of reviewers, on the real server with real git: rework, edits, changed bases, several
//! Topics at once, and all of it concurrently.

mod called_off;
mod edit;
mod moved;
mod races;
mod rework;
mod several;

use serde_json::{Value, json};

use crate::support::{Answer, Bench, Call, Topic};

/// Fields of the kind of these tests.
const FIELDS: &str = "timeout = \"20s\", lane = \"source_path\", produces = \"proposal\"";
/// What every agent begins with: the prompt ends in words for a model, which are no assignments.
const BEGIN: &str = "cat > \"$OUT/prompt.$$\"
eval \"$(grep -E '^[a-z_]+=' \"$OUT/prompt.$$\")\"
earlier=$(sed -n 's/^Earlier proposal: *//p' \"$OUT/prompt.$$\")
mv \"$OUT/prompt.$$\" \"$OUT/prompt\"
propose() { \"$wb_agent\" insert-proposal --topic-id \"$topic\" --base-sha \"$base\" \"$@\"; }
\"$wb_agent\" get-topic --id \"$topic\" > \"$OUT/topic.json\"
";
/// An agent that makes the first line the best one, and the finest when it is asked again.
const BETTER: &str = "if [ -n \"$earlier\" ]; then
\"$wb_agent\" get-proposal --id \"$earlier\" > \"$OUT/earlier.json\"
\"$wb_agent\" get-proposal --id \"$earlier\" --text > \"$OUT/earlier.md\"
sed 's/best/finest/' \"$OUT/earlier.md\" | propose --summary 'finer'
else sed 's/The first line/The best line/' \"$root/$path\" | propose --summary 'better'; fi";

/// Declares a kind whose agent is a script that has read its prompt and its Topic.
fn declare(bench: &Bench, name: &str, agent: &str) {
    bench.topic_kind(name, FIELDS, "");
    let file = bench.base.join("agents").join(format!("{name}.sh"));
    std::fs::write(file, format!("{BEGIN}{agent}\n")).unwrap();
}

/// Returns a site whose agent makes the first line of the guide better.
fn bench() -> Bench {
    let bench = Bench::new();
    declare(&bench, "better", BETTER);
    bench
}

/// Runs a job on a new Topic about the first line; returns the Topic and the proposal.
#[track_caller]
fn propose(bench: &Bench) -> (Topic, Value) {
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let shown = bench.proposal("better", &topic);
    (topic, shown)
}

fn id_of(shown: &Value) -> &str {
    shown["proposal"]["id"].as_str().unwrap()
}

/// Looks at a proposal again.
#[track_caller]
fn look(bench: &Bench, id: &str) -> Value {
    bench.get(&format!("/api/proposals/{id}")).ok()
}

#[track_caller]
fn decide(bench: &Bench, id: &str, verb: &str, body: Value) -> Answer {
    bench.post(&format!("/api/proposals/{id}/{verb}"), body)
}

/// Asks for a rework and waits for its end; returns the new proposal.
#[track_caller]
fn reworked(bench: &Bench, id: &str, reason: &str) -> Value {
    let asked = decide(bench, id, "rework", json!({"reason": reason})).ok();
    let job = bench.ended(asked["job_id"].as_str().unwrap());
    assert_eq!(job["status"], "succeeded", "{job:#}");
    look(bench, job["proposal_id"].as_str().unwrap())
}

/// Commits what a person does to a Source by hand.
fn commit(bench: &Bench, name: &str, text: &str) {
    bench.write(name, text);
    bench.git(&["commit", "-qam", "by hand"]);
}

/// Adds a person; returns a token that may do what their role allows.
#[track_caller]
fn person(bench: &Bench, name: &str, role: &str) -> String {
    let email = format!("{name}@example.org");
    bench.json(&["person", "add", name, "--role", role, "--email", &email]);
    let scopes = match role {
        "viewer" => &["read"][..],
        _ => &["read", "write", "decide"],
    };
    let body = json!({"name": "t", "scopes": scopes, "person": name});
    let made = bench.post("/api/tokens", body).ok();
    made["token"].as_str().unwrap().to_owned()
}

/// The approval of a proposal as it was shown, by somebody else.
fn approval_by(shown: &Value, token: &str) -> Call {
    let it = &shown["proposal"];
    let body = json!({
        "text_digest": it["text_digest"], "base_source_sha": it["base_source_sha"],
    });
    Call::post(&format!("/api/proposals/{}/approve", id_of(shown)), body).token(token)
}

fn hint(answer: &Answer) -> String {
    answer.body["error"]["hint"].as_str().unwrap_or_default().to_owned()
}
