//! Monitors: jobs that watch the run of an instance.

use serde_json::{Value, json};

use crate::mail::answer;
use crate::support::{Bench, cli};

/// A monitor that says when it is there, and then waits to be stopped.
const WATCHES: &str = "echo \"$WORKER_ID\" >> \"$OUT/watched\"\nwhile :; do sleep 0.2; done";

/// Declares an inbox `t/work` whose instances are watched by jobs of the kind `watch`.
fn watched(bench: &Bench, fields: &str, worker: &str, monitor: &str) {
    bench.raw_engine("watch", monitor);
    bench.lua(
        r#"wb.kind "watch" {
  about = "Watch an instance", engine = "watch", timeout = "5m",
  inputs = { worker = wb.input.line() }, prompt = "Watch {{worker}}.",
}
"#,
    );
    bench.inbox("t/work", &format!("monitor = \"watch\", timeout = \"2m\", {fields}"), worker);
}

/// Returns the jobs of a kind, the oldest first.
fn of_kind(bench: &Bench, kind: &str) -> Vec<Value> {
    let all = bench.json(&["job", "list", "--kind", kind, "--limit", "50"])["items"].clone();
    let mut all = all.as_array().unwrap().clone();
    all.reverse();
    all
}

#[test]
fn a_monitor_looks_at_its_worker_writes_to_it_and_ends_with_it() {
    let bench = Bench::new();
    let worker = "echo halfway\n\
        heard=$(wb-agent inbox --wait 50s)\n\
        until [ -s \"$OUT/sent\" ]; do sleep 0.05; done\n\
        case $heard in *hurry*) wb-agent complete --reply '\"hurried\"';; esac\n\
        wb-agent fail --reason \"$heard\"";
    let monitor = "until wb-agent peek --worker \"$WORKER_ID\" | grep halfway; do sleep 0.1; done\n\
        wb-agent peek --worker \"$OTHER\" 2> \"$OUT/refused\"\n\
        wb-agent send agent:t/$OTHER --payload '\"no\"' 2>> \"$OUT/refused\"\n\
        wb-agent approval create --channel c --title T --and-exit 2>> \"$OUT/refused\"\n\
        wb-agent send \"$WORKER_ADDR\" --payload '\"hurry\"' && echo sent > \"$OUT/sent\"\n\
        while :; do sleep 0.2; done";
    let other = "018bcfe5-6800-7000-8000-000000000000";
    let monitor = format!("OTHER={other}\n{monitor}");
    watched(&bench, "", worker, &monitor);
    let server = bench.serve();
    let args = ["send", "topic:t/work", "--payload", "{}", "--wait", "--timeout", "100s"];
    let (code, out, err) = cli(&bench.top, &args);
    assert_eq!((code, out.trim()), (0, "hurried"), "{err}");
    assert_eq!(bench.left("sent"), "sent");
    let refused = bench.left("refused");
    let lines: Vec<&str> = refused.lines().filter(|it| it.starts_with("error")).collect();
    assert_eq!(lines.len(), 3, "{refused}");
    assert!(lines[0].contains("may not look at"), "{refused}");
    assert!(lines[1].contains("may not send to"), "{refused}");

    let [instance] = &of_kind(&bench, "t/work")[..] else { panic!("one instance") };
    let id = instance["id"].as_str().unwrap();
    let [watch] = &of_kind(&bench, "watch")[..] else { panic!("one monitor") };
    let watch = bench.ended(watch["id"].as_str().unwrap());
    assert_eq!((&watch["status"], &watch["pool"]), (&json!("cancelled"), &json!("monitor")));
    assert_eq!((&watch["monitor_of"], &watch["inputs"]["worker"]), (&json!(id), &json!(id)));
    let shown = bench.show(id);
    assert_eq!(shown["monitor"]["job_id"], watch["id"]);
    let (_, told, _) = bench.cli(&["job", "show", id]);
    for it in [&instance["message_id"], &watch["id"]] {
        assert!(told.contains(it.as_str().unwrap()), "{it}: {told}");
    }
    assert_eq!(bench.json(&["inbox", "show", "t/work"])["monitor"], "watch");
    let (code, _, err) = bench.cli(&["instances", "t/wrok"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("no inbox t/wrok") && err.contains("topic:t/work"), "{err}");
    assert_eq!(bench.json(&["instances", "topic:t/work"])["items"][0]["id"], json!(id));
    let listed = bench.json(&["instances", "t/work"])["items"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!((&listed[0]["id"], &listed[0]["status"]), (&json!(id), &json!("succeeded")));
    assert_eq!(listed[0]["monitor"]["kind"], "watch");
    assert_eq!(listed[0]["legs"], json!([id]));
    let (code, table, err) = bench.cli(&["instances"]);
    assert_eq!(code, 0, "{err}");
    assert!(table.contains("t/work") && table.contains("cancelled"), "{table}");
    let peek = bench.get(&format!("/api/instances/{id}/peek?lines=5")).ok();
    assert_eq!((&peek["is_live"], &peek["output"]), (&json!(false), &json!("halfway")));
    let unknown = bench.get(&format!("/api/instances/{other}"));
    assert_eq!(unknown.refusal(), (404, "no_instance"));
    let page = bench.get(&format!("/jobs/{id}")).ok();
    let text = page.as_str().unwrap();
    assert!(text.contains("id=\"monitor\"") && text.contains("Ended with it"), "{text}");
    let retried =
        bench.post(&format!("/api/agent/jobs/{}/retry", watch["id"].as_str().unwrap()), json!({}));
    assert_eq!(retried.refusal(), (409, "is_monitor"));
    // Which is nothing to worry about.
    let (log, end) =
        (server.log(), format!("job {} ended cancelled", watch["id"].as_str().unwrap()));
    let line = log.lines().find(|it| it.contains(&end)).unwrap();
    assert!(line.contains("INFO"), "{line}");
    server.stop();
}

/// Each run has one monitor, which ends with it, wherever the server dies. Fails with
/// `WB_WITHOUT=monitor_end`.
#[cfg(feature = "faults")]
const LOST: &str = "on_lost = \"requeue_always\", on_server_loss = \"kill\"";

#[test]
fn a_killed_server_neither_doubles_nor_loses_a_monitor() {
    for point in ["run_begun", "after_guard", ""] {
        let bench = Bench::new();
        bench.limits("jobs = 2, grace = \"2s\"");
        let worker = "[ -e \"$OUT/go\" ] || while :; do sleep 0.2; done\n\
            until grep -q \"$INSTANCE_ID\" \"$OUT/watched\"; do sleep 0.1; done\n\
            wb-agent complete --reply 1";
        watched(&bench, LOST, worker, WATCHES);
        let mut server = match point {
            "" => bench.serve(),
            point => bench.serve_with(&[("WB_CRASH_AT", point)]),
        };
        bench.send_into_crash("topic:t/work", json!({}));
        match point {
            "" => {
                bench.wait_left("watched");
                server.kill();
            }
            _ => {
                server.wait();
            }
        }
        bench.quiet();
        std::fs::write(bench.out.join("go"), "").unwrap();
        let server = bench.serve();
        let told = answer(&bench, &bench.newest_message("topic:t/work"));
        assert_eq!(told["reply"], 1, "{point}: {told:#}");
        let runs = of_kind(&bench, "t/work");
        let ids = runs.iter().map(|it| it["id"].clone()).collect::<Vec<_>>();
        assert_eq!(ids.len(), 2, "{point}");
        let ended = of_kind(&bench, "watch").into_iter();
        let ended: Vec<Value> = ended.map(|it| bench.ended(it["id"].as_str().unwrap())).collect();
        let of: Vec<Value> = ended.iter().map(|it| it["monitor_of"].clone()).collect();
        assert_eq!(of, ids, "{point}: one monitor for each run");
        bench.quiet();
        server.stop();
    }
}
