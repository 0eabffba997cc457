//! Schedules: every time runs once, also across restarts and crashes.

use serde_json::json;

use crate::script::{all_ended, events, jobs};
use crate::support::{Bench, until, wait_for};

const HOUR_MS: i64 = 3_600_000;

fn site(schedule: &str) -> Bench {
    let bench = Bench::new();
    bench.word_kind("ticks", "timeout = \"20s\"", "exit 0");
    bench.lua(schedule);
    bench
}

#[test]
fn a_schedule_fires_again_and_again_and_a_function_says_what() {
    let bench = site(
        "wb.schedule \"beat\" {
           every = \"1s\", about = \"A beat\",
           enqueue = function(time)
             wb.enqueue { kind = \"ticks\", word = wb.date.format(time.planned, \"%Y\") }
           end,
         }
         wb.schedule \"wrong\" { every = \"1s\", enqueue = function() error(\"boom\") end }
         wb.schedule \"never\" { at = \"07:30\", days = { \"monday\" }, zone = \"Europe/Berlin\",
           enqueue = { kind = \"ticks\", word = \"x\" } }\n",
    );
    let server = bench.serve();
    wait_for("it has fired twice", || (jobs(&bench, "ticks").len() >= 2).then_some(()));
    let job = jobs(&bench, "ticks").remove(0);
    assert_eq!(job["requested_by"], "schedule:beat", "{job:#}");
    let shown = bench.get("/api/schedules").ok();
    let named = |name: &str| {
        shown["items"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone()
    };
    let beat = named("beat");
    assert_eq!((&beat["when"], &beat["about"]), (&json!("every 1s"), &json!("A beat")));
    assert!(beat["next_at"].is_string() && beat["last_job"].is_string(), "{beat:#}");
    let wrong = named("wrong");
    assert!(wrong["last_error"].as_str().unwrap().contains("wiki-browser.lua:"), "{wrong:#}");
    let never = named("never");
    assert_eq!(never["when"], "monday at 07:30 (Europe/Berlin)");
    assert_eq!((&never["kind"], &never["last_at"]), (&json!("ticks"), &json!(null)));
    let (code, out, _) = bench.cli(&["schedule", "list"]);
    assert_eq!(code, 0);
    assert!(out.contains("monday at 07:30 (Europe/Berlin)") && out.contains("beat"), "{out}");
    server.stop();
    let fired = events(&bench, "schedule_fired");
    assert!(fired.iter().any(|it| it["schedule"] == "beat" && it["jobs"][0].is_string()));
    assert!(fired.iter().any(|it| it["error"].as_str().is_some_and(|it| it.contains("boom"))));
}

#[test]
fn a_run_waits_for_every_job_of_the_one_before() {
    let bench = Bench::new();
    let long = "[ \"$word\" != long ] || while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done";
    bench.limits("jobs = 4");
    bench.word_kind("ticks", "timeout = \"5m\"", long);
    bench.lua(
        "wb.schedule \"pages\" { every = \"1s\", enqueue = function()
           wb.enqueue { kind = \"ticks\", word = \"quick\" }
           wb.enqueue { kind = \"ticks\", word = \"long\" }
         end }\n",
    );
    let server = bench.serve();
    let is_over = |it: &serde_json::Value| it["status"] == "succeeded";
    until("the first one has ended", || jobs(&bench, "ticks").iter().any(is_over));
    let schedule = || bench.get("/api/schedules").ok()["items"][0].clone();
    let last = schedule()["last_at"].clone();
    until("it was due again, and again", || schedule()["last_at"] != last);
    let shown = schedule();
    assert!(shown["last_error"].to_string().contains("has not ended"), "{shown:#}");
    assert_eq!(jobs(&bench, "ticks").len(), 2);
    std::fs::write(bench.out.join("go"), "").unwrap();
    until("it goes on", || jobs(&bench, "ticks").len() >= 4);
    server.stop();
}

#[test]
fn what_was_missed_runs_once_and_a_crash_does_not_run_it_twice() {
    let bench = site(
        "wb.schedule \"hourly\" { every = \"1h\", enqueue = { kind = \"ticks\", word = \"h\" } }
         wb.schedule \"skips\" { every = \"1h\", missed = \"skip\",
           enqueue = { kind = \"ticks\", word = \"s\" } }\n",
    );
    let clock = bench.clock(0);
    let times = |bench: &Bench| bench.get("/api/schedules").ok()["items"].clone();
    let server = bench.serve_with(&[("WB_CLOCK", &clock)]);
    wait_for("the times are kept", || times(&bench)[0]["next_at"].as_str().map(drop));
    let first = times(&bench);
    server.kill();
    let server = bench.serve_with(&[("WB_CLOCK", &clock)]);
    wait_for("they are the same", || (times(&bench) == first).then_some(()));
    assert_eq!(jobs(&bench, "ticks").len(), 0);
    server.stop();
    // Five hours without a server, and then two that die in the middle of it.
    bench.clock(5 * HOUR_MS + HOUR_MS / 2);
    for point in ["after_schedule", "after_schedule_commit"] {
        let mut server = bench.start(&[("WB_CLOCK", &clock), ("WB_CRASH_AT", point)]);
        assert!(!server.wait().0.success(), "{point}");
    }
    let server = bench.serve_with(&[("WB_CLOCK", &clock)]);
    let job = all_ended(&bench, "ticks", 1).remove(0);
    assert_eq!(job["inputs"]["word"], "h");
    wait_for("both have their next time", || {
        let now = times(&bench);
        (now[0]["next_at"] != first[0]["next_at"] && now[1]["last_error"].is_string()).then_some(())
    });
    let now = times(&bench);
    assert!(now[1]["last_error"].as_str().unwrap().contains("no server"), "{now:#}");
    assert_eq!(jobs(&bench, "ticks").len(), 1, "what was missed runs once");
    server.stop();
    let fired = events(&bench, "schedule_fired");
    assert_eq!(fired.len(), 2, "{fired:?}");
    assert!(fired[0]["late_ms"].as_i64().unwrap() > 4 * HOUR_MS, "{fired:?}");
}

#[test]
fn a_time_that_was_served_after_a_backup_is_not_served_again_after_its_restore() {
    let bench = site("wb.schedule \"hourly\" { every = \"1h\", enqueue = { kind = \"ticks\" } }\n");
    let clock = bench.clock(0);
    let next = |bench: &Bench| bench.get("/api/schedules").ok()["items"][0]["next_at"].clone();
    let server = bench.serve_with(&[("WB_CLOCK", &clock)]);
    wait_for("its time is kept", || next(&bench).as_str().map(drop));
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    bench.clock(HOUR_MS + HOUR_MS / 2);
    all_ended(&bench, "ticks", 1);
    let then = next(&bench);
    server.stop();
    bench.json(&["restore", &backup]);
    let server = bench.serve_with(&[("WB_CLOCK", &clock)]);
    wait_for("it is asked", || next(&bench).as_str().map(drop));
    assert_eq!(next(&bench), then);
    assert_eq!(jobs(&bench, "ticks").len(), 0, "its job ran before");
    server.stop();
}

#[test]
fn a_schedule_waits_for_its_last_job_and_outlives_a_reload() {
    let bench = Bench::new();
    let agent = "while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done";
    bench.word_kind("ticks", "timeout = \"20s\"", agent);
    bench.lua("wb.schedule \"beat\" { every = \"1s\", enqueue = { kind = \"ticks\" } }\n");
    bench.lua("wb.schedule \"far\" { every = \"9h\", enqueue = { kind = \"ticks\" } }\n");
    let server = bench.serve();
    let shown = |name: &str| {
        let all = bench.get("/api/schedules").ok()["items"].clone();
        all.as_array().unwrap().iter().find(|it| it["name"] == name).cloned().unwrap_or_default()
    };
    wait_for("a time is skipped", || {
        let error = shown("beat")["last_error"].clone();
        error.as_str().is_some_and(|it| it.contains("has not ended")).then_some(())
    });
    assert_eq!(jobs(&bench, "ticks").len(), 1);
    let far = shown("far")["next_at"].clone();
    bench.edit(|lua| lua.replace("every = \"1s\"", "every = \"5h\""));
    bench.write_script();
    assert_eq!(bench.post("/api/config/reload", json!({})).ok()["ok"], true);
    assert_eq!(shown("far")["next_at"], far, "a time that reads as before goes on");
    assert_eq!(shown("beat")["when"], "every 5h");
    std::fs::write(bench.out.join("go"), "").unwrap();
    all_ended(&bench, "ticks", 1);
    server.stop();
}

/// A clock that was years ahead puts nothing off for years.
#[test]
fn a_time_that_a_wrong_clock_planned_is_planned_anew() {
    let bench = site(
        "wb.schedule \"hourly\" { every = \"1h\", enqueue = { kind = \"ticks\", word = \"h\" } }
         wb.schedule \"daily\" { at = \"07:30\", enqueue = { kind = \"ticks\", word = \"d\" } }\n",
    );
    let clock = bench.clock(5 * 365 * 24 * HOUR_MS);
    let times = |bench: &Bench| {
        let all = bench.get("/api/schedules").ok()["items"].clone();
        let of = |at: usize| all[at]["next_at"].as_str().map(|it| it[..4].to_owned());
        Some([of(0)?, of(1)?])
    };
    let server = bench.serve_with(&[("WB_CLOCK", &clock)]);
    let ahead = wait_for("the times are kept", || times(&bench));
    server.stop();
    bench.clock(0);
    let server = bench.serve_with(&[("WB_CLOCK", &clock)]);
    let now = wait_for("they are planned anew", || times(&bench).filter(|it| *it != ahead));
    assert!(now.iter().zip(&ahead).all(|(now, ahead)| now < ahead), "{now:?} {ahead:?}");
    assert!(server.log().contains("a clock that was ahead"), "{}", server.log());
    server.stop();
}

/// Fails with `WB_WITHOUT=look_ends` and with `WB_WITHOUT=asked_again`.
#[test]
fn what_waits_for_a_look_when_the_server_stops_is_done_by_the_next_one() {
    let bench = site(
        "wb.schedule \"hourly\" { every = \"1h\", enqueue = function()
           wb.log.info(\"it is due\") wb.enqueue { kind = \"ticks\", word = \"due\" } end }
         wb.on(\"message_posted\", function(event)
           wb.log.info(\"it is heard\") wb.enqueue { kind = \"ticks\", word = \"heard\" } end)\n",
    );
    let (clock, hold) = (bench.clock(0), bench.base.join("hold"));
    let env = [
        ("WB_CLOCK", clock.as_str()),
        ("WB_FAIL_AT", "before_look"),
        ("WB_CRASH_WHEN", hold.as_str()),
    ];
    let server = bench.serve_with(&env);
    let topic = bench.topic("guide.md", "second", "Why two?");
    wait_for("its time is kept", || {
        bench.get("/api/schedules").ok()["items"][0]["next_at"].as_str().map(drop)
    });
    server.stop();
    bench.clock(HOUR_MS + HOUR_MS / 2);
    std::fs::write(&hold, "").unwrap();
    let server = bench.serve_with(&env);
    let path = format!("/api/topics/{}/messages", topic.id);
    bench.post(&path, json!({"body": "And now?"})).ok();
    let says = |word: &str, count| server.log().matches(word).count() == count;
    until("both wait", || says("it is due", 1) && says("it is heard", 1));
    server.stop();
    std::fs::remove_file(&hold).unwrap();
    let server = bench.serve_with(&env);
    let mut words: Vec<_> =
        all_ended(&bench, "ticks", 2).iter().map(|it| it["inputs"]["word"].to_string()).collect();
    words.sort_unstable();
    assert_eq!(words, ["\"due\"", "\"heard\""]);
    server.stop();
    assert_eq!(events(&bench, "script_failed"), Vec::<serde_json::Value>::new());
}
