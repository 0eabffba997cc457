//! Instances whose engine goes on after a turn: further messages become turns of the same process.

use serde_json::{Value, json};

use crate::agents::HEAR;
use crate::mail::{answer, send};
use crate::support::{Bench, until, wait_for};

/// Declares an inbox `t/talk` on a shell agent that speaks lines.
pub(crate) fn talk(bench: &Bench, fields: &str, script: &str) {
    let file = bench.base.join("agents/talk.sh");
    std::fs::write(&file, format!("{HEAR}{script}\n")).unwrap();
    let out = &bench.out;
    bench.lua(&format!(
        r#"wb.engine "talk" {{
  type = "stream", command = {{ "/bin/sh", "{file}" }}, speaks = "lines", env = {{ OUT = "{out}" }},
  session = {{ "new", "{{{{session}}}}" }}, resume = {{ "old", "{{{{session}}}}" }},
}}
wb.inbox "t/talk" {{
  about = "A test", engine = "talk", timeout = "2m",
  prompt = "{{{{banner}}}}\n{{{{payload}}}}", {fields}
}}
"#
    ));
}

/// Ends with the second message to it, and says in each turn what it was told.
pub(crate) const COUNTS: &str = "while :; do hear; began
echo \"$text\" >> \"$OUT/heard\"
printf '%s\\n' \"$line\" >> \"$OUT/lines\"
case $text in hold) until [ -e \"$OUT/go\" ]; do sleep 0.05; done ;;
last) wb-agent complete --reply '\"done\"' ;; fall) exit 3 ;; esac
printf '{\"turn\":\"ended\",\"id\":\"%s\",\"text\":\"ok\",\"tokens\":100}\\n' \"$id\"
done";

/// Returns the job of a message and the address of its instance.
pub(crate) fn instance(bench: &Bench, message: &Value) -> (String, String) {
    let found = bench.get(&format!("/api/messages/{}", message.as_str().unwrap())).ok();
    let job = found["deliveries"][0]["job_id"].as_str().unwrap().to_owned();
    (format!("agent:t/{job}"), job)
}

pub(super) fn delivery(bench: &Bench, message: &Value) -> (Value, Value, Value) {
    let found = bench.get(&format!("/api/messages/{}", message.as_str().unwrap())).ok();
    let it = &found["deliveries"][0];
    (it["state"].clone(), it["proof"].clone(), it["reason"].clone())
}

#[test]
fn further_messages_are_turns_of_the_instance_until_its_verdict() {
    let bench = Bench::new();
    talk(&bench, "", COUNTS);
    let server = bench.serve();
    let first = send(&bench, "topic:t/talk", json!("first")).ok()["message_id"].clone();
    bench.wait_left("heard");
    let (address, job) = instance(&bench, &first);
    let sent: Vec<Value> = ["second", "hold", "last", "never"]
        .iter()
        .map(|it| send(&bench, &address, json!(it)).ok()["message_id"].clone())
        .collect();
    std::fs::write(bench.out.join("go"), "").unwrap();
    let told = answer(&bench, first.as_str().unwrap());
    assert_eq!((&told["state"], &told["reply"]), (&json!("replied"), &json!("done")), "{told:#}");
    assert_eq!(bench.left("heard"), "first\nsecond\nhold\nlast");
    let ended = bench.ended(&job);
    // Its input ends, so it exits by itself, long before it would be ended.
    assert_eq!((&ended["exit_code"], &ended["warnings"]), (&json!(0), &json!([])), "{ended:#}");
    assert_eq!(ended["usage"]["input_tokens"], 400, "{ended:#}");
    let used = bench.get("/api/usage?by=kind").ok();
    let used = &used["items"].as_array().unwrap()[0];
    assert_eq!((&used["jobs"], &used["input_tokens"]), (&json!(1), &json!(400)), "{used:#}");
    for message in &sent[..3] {
        assert_eq!(delivery(&bench, message).0, "confirmed");
        assert_eq!(delivery(&bench, message).1, "turn");
    }
    assert_eq!(delivery(&bench, &sent[3]).0, "dropped");
    // It took the second message and answered nothing: who waits for that hears it.
    let told = answer(&bench, sent[0].as_str().unwrap());
    assert_eq!(told["state"], "failed", "{told:#}");
    assert!(told["failure"].as_str().unwrap().contains("ended without an answer"), "{told:#}");
    // Above each stands who wrote, and how to answer; the banner does not speak of fetching them.
    let lines = bench.left("lines");
    let mut lines = lines.lines();
    let (banner, second) = (lines.next().unwrap(), lines.next().unwrap());
    assert!(banner.contains("end your turn") && !banner.contains("wb-agent inbox"), "{banner}");
    let head = format!("[message {} from person:ada; to answer: ", sent[0].as_str().unwrap());
    assert!(second.contains(&head), "{second}");
    bench.quiet();
    server.stop();
}

/// Silence between two turns is no sign of a stall: only `after_turn` ends it.
#[test]
fn an_instance_that_nobody_writes_to_ends_without_a_verdict() {
    let bench = Bench::new();
    talk(&bench, "after_turn = \"7s\", idle = \"5s\"", COUNTS);
    let server = bench.serve();
    let message = send(&bench, "topic:t/talk", json!("first")).ok()["message_id"].clone();
    let told = answer(&bench, message.as_str().unwrap());
    assert_eq!(told["state"], "failed", "{told:#}");
    let ended = bench.ended(&instance(&bench, &message).1);
    assert_eq!((&ended["reason"], &ended["exit_code"]), (&json!("no_result"), &json!(0)));
    server.stop();
}

#[test]
fn an_instance_that_waits_for_a_person_ends_with_its_turn_and_goes_on_in_another_process() {
    let bench = Bench::new();
    let script = "hear; began
if [ \"$1\" = new ]; then
  wb-agent approval create --channel c --title T --and-exit > \"$OUT/asked.part\"
  mv \"$OUT/asked.part\" \"$OUT/asked\"; say asked
  read -r line || echo ended > \"$OUT/ended\"
else
  printf '%s\\n' \"$line\" > \"$OUT/told\"; wb-agent complete --reply '\"decided\"'; say done
fi";
    talk(&bench, "", script);
    let server = bench.serve();
    let message = send(&bench, "topic:t/talk", json!("first")).ok()["message_id"].clone();
    let asked = bench.wait_left("asked");
    let (_, job) = instance(&bench, &message);
    bench.wait_status(&job, "parked");
    // It was not ended: its input was over.
    assert_eq!(bench.left("ended"), "ended");
    let body = json!({"version": 1, "note": "Go on."});
    bench.post(&format!("/api/approvals/{asked}/approve"), body).ok();
    let told = answer(&bench, message.as_str().unwrap());
    assert_eq!(told["reply"], "decided", "{told:#}");
    assert!(bench.left("told").contains("Go on."), "{}", bench.left("told"));
    let shown = bench.get(&format!("/api/instances/{job}")).ok();
    assert_eq!(shown["legs"].as_array().unwrap().len(), 2, "{shown:#}");
    server.stop();
}

/// One that ends its turns without naming them is given what comes next all the same.
#[test]
fn a_turn_that_nobody_names_holds_no_message_up() {
    let bench = Bench::new();
    let nameless = "while :; do hear; echo \"$text\" >> \"$OUT/heard\"
case $text in last) wb-agent complete --reply '\"done\"' ;; esac
case $text in second) echo '{\"turn\":\"ended\",\"text\":\"ok\"}' ;; *) began; say ok ;; esac
done";
    talk(&bench, "after_turn = \"1m\",", nameless);
    let server = bench.serve();
    let first = send(&bench, "topic:t/talk", json!("first")).ok()["message_id"].clone();
    bench.wait_left("heard");
    let (address, _) = instance(&bench, &first);
    let second = send(&bench, &address, json!("second")).ok()["message_id"].clone();
    until("nothing proves it", || delivery(&bench, &second).0 == "unconfirmed");
    send(&bench, &address, json!("last")).ok();
    assert_eq!(answer(&bench, first.as_str().unwrap())["reply"], "done");
    assert_eq!(bench.left("heard"), "first\nsecond\nlast");
    server.stop();
}

/// Its engine is given what was decided as soon as it is: it has nothing else to wake it.
#[test]
fn a_decision_reaches_an_instance_between_two_turns() {
    let bench = Bench::new();
    let asks = "while :; do hear; began; echo \"$text\" >> \"$OUT/heard\"
if [ -e \"$OUT/asked\" ]; then wb-agent complete --reply '\"done\"'
else wb-agent approval create --channel c --title T > \"$OUT/asked\"; fi
printf '{\"turn\":\"ended\",\"id\":\"%s\",\"text\":\"ok\",\"tokens\":100}\\n' \"$id\"; done";
    talk(&bench, "after_turn = \"1m\",", asks);
    let server = bench.serve();
    let first = send(&bench, "topic:t/talk", json!("first")).ok()["message_id"].clone();
    let id = bench.wait_left("asked");
    let (_, job) = instance(&bench, &first);
    until("its turn is over", || bench.show(&job)["usage"]["input_tokens"] == 100);
    bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1})).ok();
    assert_eq!(answer(&bench, first.as_str().unwrap())["reply"], "done");
    server.stop();
}

/// What was recorded and perhaps never written is nobody's to give again.
#[cfg(feature = "faults")]
#[test]
fn a_message_that_a_crash_caught_on_its_way_is_unconfirmed() {
    for point in ["block_claimed", ""] {
        let bench = Bench::new();
        talk(&bench, "", COUNTS);
        let mut server = match point {
            "" => bench.serve(),
            point => bench.serve_with(&[("WB_CRASH_AT", point)]),
        };
        let first = send(&bench, "topic:t/talk", json!("first")).ok()["message_id"].clone();
        bench.wait_left("heard");
        let (address, job) = instance(&bench, &first);
        bench.send_into_crash(&address, json!("fall"));
        if point.is_empty() {
            let second = json!(bench.newest_message(&address));
            let ended = bench.ended(&job);
            assert_eq!(ended["reason"], "exit_status", "{ended:#}");
            assert_eq!(delivery(&bench, &second).0, "confirmed");
            server.stop();
            continue;
        }
        server.wait();
        bench.quiet();
        let server = bench.serve();
        let ended = bench.ended(&job);
        assert_eq!(ended["reason"], "server_restarted", "{ended:#}");
        let second = json!(bench.newest_message(&address));
        let (state, _, reason) = delivery(&bench, &second);
        assert_eq!((state, reason), (json!("unconfirmed"), json!("recipient_ended")));
        assert_eq!(bench.left("heard"), "first");
        server.stop();
    }
}

/// A monitor's words reach an instance that is in no shell of its own.
#[test]
fn a_monitor_writes_to_an_instance_between_its_turns() {
    let bench = Bench::new();
    bench.raw_engine(
        "watch",
        "wb-agent send \"$WORKER_ADDR\" --payload '\"last\"'; while :; do sleep 0.2; done",
    );
    bench.lua(
        r#"wb.kind "watch" {
  about = "Watch an instance", engine = "watch", timeout = "5m",
  inputs = { worker = wb.input.line() }, prompt = "Watch {{worker}}.",
}
"#,
    );
    talk(&bench, "monitor = \"watch\"", COUNTS);
    let server = bench.serve();
    let message = send(&bench, "topic:t/talk", json!("first")).ok()["message_id"].clone();
    assert_eq!(answer(&bench, message.as_str().unwrap())["reply"], "done");
    let (_, job) = instance(&bench, &message);
    let ended = wait_for("it ends", || {
        let shown = bench.get(&format!("/api/instances/{job}")).ok();
        (shown["status"] == "succeeded").then_some(shown)
    });
    assert_eq!(ended["monitor"]["kind"], "watch");
    let lines = bench.left("lines");
    assert!(lines.contains(" from the monitor watch]"), "{lines}");
    until("its monitor ends", || {
        bench.get(&format!("/api/instances/{job}")).ok()["monitor"]["status"] == "cancelled"
    });
    server.stop();
}
