//! Retrying a job that opened its own Topic: the next text is a revision in that Topic.

use serde_json::{Value, json};

use super::kinds::{BASE, NEW, bench, kind, writes, written};
use crate::support::Bench;

/// Reads the earlier text, writes another one, and says so in the Topic.
const AGAIN: &str = "earlier=$(printf '%s\n' \"$prompt\" | sed -n 's/^Earlier proposal: *//p')
if [ -n \"$earlier\" ]; then
\"$wb_agent\" get-proposal --id \"$earlier\" --text > \"$OUT/earlier.md\" || exit 5
fi
printf '# %s\\n' \"$word, again\" | \"$wb_agent\" insert-proposal --json --source-path \"$path\" \\
    --base-sha \"$base\" --title \"About $word\" > \"$OUT/made.json\" || exit 6
topic=$(sed -n 's/.*\"topic_id\": *\"\\([^\"]*\\)\".*/\\1/p' \"$OUT/made.json\" | head -1)
echo 'Done again.' | \"$wb_agent\" post-message --topic-id \"$topic\" || exit 7";

fn look(bench: &Bench, id: &Value) -> Value {
    bench.get(&format!("/api/proposals/{}", id.as_str().unwrap())).ok()
}

#[test]
fn a_rework_of_a_new_document_is_its_next_revision() {
    let bench = bench();
    writes(&bench);
    let server = bench.serve();
    let first = written(&bench, "new/page.md", "rain");
    assert!(first["diff"].as_str().unwrap().starts_with("--- /dev/null\n+++ b/new/page.md\n"));
    let skill = bench.top.join("skills/writes/SKILL.md");
    std::fs::write(&skill, format!("---\nname: writes\n---\n```sh\n{AGAIN}\n```\n")).unwrap();
    let id = &first["proposal"]["id"];
    let ask = format!("/api/proposals/{}/rework", id.as_str().unwrap());
    let asked = bench.post(&ask, json!({"reason": "Once more."})).ok();
    let job = bench.ended(asked["job_id"].as_str().unwrap());
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(bench.left("earlier.md"), "# rain");
    let next = look(&bench, &job["proposal_id"]);
    assert_eq!(next["topic"]["id"], first["topic"]["id"]);
    assert_eq!(next["proposal"]["revision_number"], 2);
    assert_eq!(next["proposal"]["origin"]["from_id"], *id);
    assert_eq!(look(&bench, id)["proposal"]["status"], "superseded");
    let topic = bench.get(&format!("/api/topics/{}", next["topic"]["id"].as_str().unwrap())).ok();
    let said: Vec<&Value> =
        topic["messages"].as_array().unwrap().iter().map(|it| &it["body"]).collect();
    assert_eq!(said, ["Wrote rain", "Once more.", "Done again.\n"]);
    assert_eq!(bench.json(&["topic", "list"])["items"].as_array().unwrap().len(), 1);
    bench.send(&bench.approval(&next)).ok();
    assert_eq!(bench.read("new/page.md"), "# rain, again\n");
    server.stop();
}

#[test]
fn a_repeated_job_goes_on_in_the_topic_that_the_first_one_opened() {
    let bench = bench();
    let fails = "printf '# One\\n' | \"$wb_agent\" insert-proposal --source-path \"$path\" \\
        --base-sha \"$base\" --title One; [ \"$(cat \"$OUT/code\")\" = 0 ] || kill -9 $$";
    std::fs::write(bench.out.join("code"), "3").unwrap();
    kind(&bench, "tries", "produces = \"proposal\"", &[NEW, BASE], fails);
    let server = bench.serve();
    let first = bench.ended(&bench.job("tries", json!({"path": "new.md"})));
    assert_eq!(first["status"], "failed");
    let topic = first["topic_id"].as_str().unwrap();
    let shown = || bench.get(&format!("/api/topics/{topic}")).ok();
    assert_eq!(shown()["topic"]["status"], "discarded");
    let retry = |job: &Value| {
        let again = format!("/api/agent/jobs/{}/retry", job["id"].as_str().unwrap());
        bench.ended(bench.post(&again, json!({})).ok()["job_id"].as_str().unwrap())
    };
    // It fails again: the Topic is closed again, and is still one.
    let second = retry(&first);
    assert_eq!((&second["status"], &second["topic_id"]), (&json!("failed"), &json!(topic)));
    assert_eq!(shown()["topic"]["status"], "discarded");
    std::fs::write(bench.out.join("code"), "0").unwrap();
    let third = retry(&second);
    assert_eq!((&third["status"], &third["topic_id"]), (&json!("succeeded"), &json!(topic)));
    let now = shown();
    assert_eq!(now["topic"]["status"], "open");
    let states: Vec<&Value> =
        now["proposals"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(states, ["void", "void", "open"]);
    // What a person has closed stays closed: a repetition opens another one.
    bench.post(&format!("/api/topics/{topic}/discard"), json!({})).ok();
    let fourth = retry(&third);
    assert_eq!(fourth["status"], "succeeded");
    assert_ne!(fourth["topic_id"], json!(topic));
    assert_eq!(shown()["topic"]["status"], "discarded");
    server.stop();
}
