//! Agents of which nothing was heard for long.

use serde_json::json;

use crate::agents::{ECHO, answer, declare, delivery, send, show, wait_state};
use crate::support::{Bench, shell, until};

/// What an old fact says is claimed as long as a look at the process allows it, and nothing is
/// given to an agent that is not seen to run.
#[test]
fn an_agent_is_unknown_while_nothing_proves_its_state() {
    let bench = Bench::new();
    let clock = bench.base.join("clock");
    let advance = |hours: i64| std::fs::write(&clock, (hours * 3_600_000).to_string()).unwrap();
    advance(0);
    let fields = "autostart = \"always\", probe_after = \"10m\"";
    declare(&bench, "robbo", fields, &format!("echo $$ > \"$OUT/pid\"\n{ECHO}"));
    bench
        .lua("wb.on(\"agent_changed\", function(it) wb.log.info(\"now %s\", it.data.state) end)\n");
    let server = bench.serve_with(&[("WB_CLOCK", clock.as_str())]);
    let idle = wait_state(&bench, "robbo", "idle");
    let pid = bench.wait_left("pid");
    let signal = |name: &str| shell(&format!("kill -{name} {pid}"));

    // Its process waits for input, as it did an hour before. A message makes the server look.
    advance(1);
    assert_eq!(answer(&bench, &send(&bench, "robbo", json!("one")))["reply"], "again one");
    let idle_since = show(&bench, "robbo")["fact_at"].clone();
    assert_ne!(idle_since, idle["fact_at"]);

    signal("STOP");
    let stat = format!("/proc/{pid}/stat");
    until("it stands still", || std::fs::read_to_string(&stat).unwrap().contains(") T "));
    advance(2);
    let message = send(&bench, "robbo", json!("two"));
    let unknown = wait_state(&bench, "robbo", "unknown");
    assert_eq!(unknown["reason"], "unknown_stopped", "{unknown:#}");
    assert_eq!((&unknown["fact"], &unknown["fact_at"]), (&json!("turn_ended"), &idle_since));
    let fix = unknown["problem"]["fix"].as_str().unwrap();
    assert!(fix.contains(&format!("kill -CONT {pid}")), "{fix}");
    assert!(fix.contains("wiki-browser agent restart robbo"), "{fix}");
    assert_eq!(delivery(&bench, &message).0, "queued");
    let waiting = bench.get(&format!("/api/messages/{message}/await")).ok()["waiting"].clone();
    assert!(waiting.as_str().unwrap().contains("stopped by a signal"), "{waiting}");
    let (_, told, _) = bench.cli(&["agent", "show", "robbo"]);
    assert!(told.contains("agent:robbo is unknown\n"), "{told}");
    let page = bench.get("/agents/robbo").ok();
    let page = page.as_str().unwrap();
    assert!(page.contains("<span>unknown</span>") && page.contains("kill -CONT"), "{page}");

    // It is looked at again, and gets what has waited.
    signal("CONT");
    send(&bench, "robbo", json!("three"));
    assert_eq!(answer(&bench, &message)["reply"], "again two");

    // A turn of which nothing is heard any more, although the process runs.
    let long = send(&bench, "robbo", json!("wait"));
    wait_state(&bench, "robbo", "busy");
    advance(3);
    send(&bench, "robbo", json!("four"));
    let silent = wait_state(&bench, "robbo", "unknown");
    assert_eq!(
        (&silent["reason"], &silent["fact"]),
        (&json!("unknown_silent"), &json!("turn_began"))
    );
    let what = silent["problem"]["what"].as_str().unwrap();
    assert!(what.contains("printed nothing for 10m"), "{what}");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, &long)["reply"], "waited");
    wait_state(&bench, "robbo", "idle");
    until("each change was an event", || server.log().matches("now unknown").count() == 2);
    server.stop();
}
