//! Handlers that request jobs, functions for lanes and retries, and where their errors appear.

use serde_json::json;

use crate::script::{all_ended, events, jobs};
use crate::support::{Bench, until, wait_for, within};

const QUICK: &str = "timeout = \"20s\"";

#[test]
fn a_handler_asks_for_a_job_when_a_person_has_decided() {
    let bench = Bench::new();
    let agent = "sed 's/second/third/' \"$root/$path\" > \"$OUT/new\"; propose < \"$OUT/new\"";
    bench.topic_kind("proposes", &format!("{QUICK}, produces = \"proposal\""), agent);
    bench.word_kind("follows", QUICK, "echo \"$word\" > \"$OUT/word\"");
    bench.lua(
        "wb.on(\"proposal_decided\", function(event)
           if event.data.status == \"approved\" then
             wb.enqueue { kind = \"follows\", word = event.data.proposal_id, priority = 7 }
           end
         end)\n",
    );
    let server = bench.serve();
    let topic = bench.topic("guide.md", "second", "Make it the third.");
    let shown = bench.proposal("proposes", &topic);
    bench.send(&bench.approval(&shown)).ok();
    let job = all_ended(&bench, "follows", 1).remove(0);
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!((job["requested_by"].as_str(), job["priority"].as_i64()), (Some("script"), Some(7)));
    assert_eq!(job["requested_by_name"], "the script");
    assert_eq!(bench.left("word"), shown["proposal"]["id"].as_str().unwrap());
    server.stop();
}

#[test]
fn a_handler_that_fails_asks_for_nothing_and_says_where() {
    let bench = Bench::new();
    bench.word_kind("echoes", QUICK, "exit 0");
    bench.word_kind("follows", QUICK, "exit 0");
    bench.lua(
        "wb.on(\"job_finished\", function(event)
           if event.job.kind ~= \"echoes\" then return end
           wb.enqueue { kind = \"follows\", word = \"lost\" }
           error(\"boom\")
         end)
         wb.on(\"job_finished\", function(event)
           if event.job.kind ~= \"echoes\" then return end
           wb.enqueue { kind = \"nosuch\" }
           wb.enqueue { kind = \"follows\", word = \"kept\" }
         end)\n",
    );
    let server = bench.serve();
    let job = bench.job("echoes", json!({}));
    let followed = all_ended(&bench, "follows", 1).remove(0);
    assert_eq!(followed["inputs"]["word"], "kept");
    // Whoever looks at the job sees it, with file and line.
    let shown = bench.show(&job);
    assert_eq!(shown["status"], "succeeded");
    let warnings: Vec<&str> =
        shown["warnings"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    let script = bench.read("wiki-browser.lua");
    let line = |what: &str| 1 + script.lines().position(|it| it.contains(what)).unwrap();
    let boom = format!("on.job_finished: wiki-browser.lua:{}: boom", line("boom"));
    let nosuch = format!("on.job_finished: wiki-browser.lua:{}: no kind", line("nosuch"));
    assert_eq!(warnings.len(), 2, "{shown:#}");
    assert!(warnings[0].starts_with(&boom), "{shown:#}");
    assert!(warnings[1].starts_with(&nosuch), "{shown:#}");
    let log = server.log();
    assert!(log.contains("a handler of job_finished at wiki-browser.lua:"), "{log}");
    server.stop();
    let failed = events(&bench, "script_failed");
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert_eq!(failed[0]["function"], "on.job_finished");
    assert_eq!(failed[0]["at"], format!("wiki-browser.lua:{}", line("wb.on(\"job_finished\"")));
    assert!(failed[0]["message"].as_str().unwrap().ends_with("boom"), "{failed:?}");
}

#[test]
fn a_handler_of_failures_that_fails_is_not_told_of_that() {
    let bench = Bench::new();
    bench.word_kind("echoes", QUICK, "exit 0");
    bench.lua(
        "wb.on(\"job_queued\", function() error(\"first\") end)
         wb.on(\"script_failed\", function(event)
           wb.log.warn(\"told of %s\", event.data.message)
           error(\"second\")
         end)\n",
    );
    let server = bench.serve();
    bench.ended(&bench.job("echoes", json!({})));
    wait_for("the second failure is logged", || {
        server.log().contains("a handler of script_failed").then_some(())
    });
    server.stop();
    assert_eq!(events(&bench, "script_failed").len(), 1);
}

#[test]
fn jobs_that_ask_for_one_another_end() {
    let bench = Bench::new();
    bench.word_kind("loops", QUICK, "exit 0");
    bench.lua(
        "wb.on(\"job_finished\", function(event)
           wb.enqueue { kind = \"loops\", word = \"again\" }
         end)\n",
    );
    let server = bench.serve();
    bench.job("loops", json!({}));
    // A person's job, and five that follow from it.
    all_ended(&bench, "loops", 6);
    wait_for("the last one is refused", || {
        let last = jobs(&bench, "loops").remove(0);
        let warnings = last["warnings"].to_string();
        warnings.contains("5 jobs of the script led to one another").then_some(())
    });
    assert_eq!(jobs(&bench, "loops").len(), 6);
    server.stop();
}

/// The failures are events, too.
#[test]
fn what_a_failed_handler_leads_to_comes_to_an_end() {
    let bench = Bench::new();
    bench.limits("jobs = 2, script_jobs = 30");
    bench.word_kind("loops", QUICK, "exit 0");
    bench.lua(
        "wb.on(\"job_finished\", function() error(\"broken\") end)
         wb.on(\"script_failed\", function() wb.enqueue { kind = \"loops\" } end)\n",
    );
    let server = bench.serve();
    bench.job("loops", json!({}));
    until("the last one is refused", || server.log().contains("5 jobs of the script led to one"));
    all_ended(&bench, "loops", 6);
    server.stop();
}

#[test]
fn a_handler_that_runs_away_is_stopped_within_the_hour() {
    let bench = Bench::new();
    bench.limits("jobs = 4, script_jobs = 7");
    bench.word_kind("loops", QUICK, "exit 0");
    bench.lua(
        "wb.on(\"job_finished\", function(event)
           for _ = 1, 5 do wb.enqueue { kind = \"loops\" } end
         end)
         wb.on(\"topic_created\", function() wb.enqueue { kind = \"calm\" } end)\n",
    );
    bench.word_kind("calm", QUICK, "exit 0");
    let server = bench.serve();
    let first = bench.job("loops", json!({}));
    all_ended(&bench, "loops", 8);
    let refused = "the handler has enqueued 7 jobs within an hour, the maximum";
    wait_for("the last ones are refused", || {
        let all = jobs(&bench, "loops");
        all.iter()
            .all(|it| it["id"] == first || it["warnings"].to_string().contains(refused))
            .then_some(())
    });
    // What a person asks for is not bounded by it, and no other handler is.
    assert_eq!(bench.ended(&bench.job("loops", json!({})))["status"], "succeeded");
    bench.topic("guide.md", "second", "Calm.");
    all_ended(&bench, "calm", 1);
    let warned = || bench.json(&["status"])["warnings"].to_string();
    let told = "a handler of job_finished (wiki-browser.lua:";
    assert!(warned().contains(told) && !warned().contains("topic_created"), "{}", warned());
    // A reload of a changed script starts its count anew.
    bench.limits("jobs = 4, script_jobs = 9");
    bench.write_script();
    bench.json(&["reload"]);
    bench.job("loops", json!({}));
    all_ended(&bench, "loops", 8 + 1 + 1 + 9);
    server.stop();
    let failed = events(&bench, "script_failed");
    assert!(failed[0]["message"].as_str().unwrap().contains("raise script_jobs in wb.limits"));
}

/// Handlers of one function, or of one line, are counted each.
#[test]
fn a_handler_that_a_function_made_leaves_the_others_alone() {
    let bench = Bench::new();
    bench.limits("jobs = 4, script_jobs = 3");
    for kind in ["one", "two"] {
        bench.word_kind(kind, QUICK, "exit 0");
    }
    bench.lua(
        "local function asks_for(kind)
           return function() for _ = 1, 5 do wb.enqueue { kind = kind } end end
         end
         for _, kind in ipairs { \"one\", \"two\" } do
           wb.on(\"topic_created\", asks_for(kind))
         end\n",
    );
    let server = bench.serve();
    bench.topic("guide.md", "second", "Both.");
    all_ended(&bench, "one", 3);
    all_ended(&bench, "two", 3);
    // Who of them asked for too much is named.
    let warned = bench.json(&["status"])["warnings"].to_string();
    let first = warned.find("a handler of topic_created (wiki-browser.lua:").unwrap();
    assert!(warned[first..].contains(", number 2)"), "{warned}");
    server.stop();
}

/// Inputs too long for a list are not missing where a function decides.
#[test]
fn a_job_with_long_inputs_is_repeated_by_what_they_say() {
    let bench = Bench::new();
    bench.engine("tries", "exit 1");
    bench.lua(
        "wb.kind \"tries\" { about = \"A test\", engine = \"tries\", timeout = \"20s\",
           prompt = \"{{long}}\", inputs = { long = wb.input.text() },
           retry = function(job) return job.attempt < 2 and #job.inputs.long == 70000 end }\n",
    );
    let server = bench.serve();
    bench.job("tries", json!({"long": "x".repeat(70_000)}));
    all_ended(&bench, "tries", 2);
    server.stop();
}

#[test]
fn what_a_handler_of_the_queue_says_stays_with_the_job() {
    let bench = Bench::new();
    bench.word_kind("echoes", QUICK, "while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done");
    bench.lua("wb.on(\"job_queued\", function() error(\"too early\") end)\n");
    let server = bench.serve();
    let job = bench.job("echoes", json!({}));
    let is_warned = |job: &serde_json::Value| job["warnings"].to_string().contains("too early");
    until("the warning is there", || is_warned(&bench.show(&job)));
    std::fs::write(bench.out.join("go"), "").unwrap();
    let ended = bench.ended(&job);
    assert!(is_warned(&ended), "{ended:#}");
    server.stop();
}

#[test]
fn a_function_says_whether_a_job_is_repeated() {
    let bench = Bench::new();
    let agent = "n=$(cat \"$OUT/n\" 2>/dev/null || echo 0); n=$((n+1)); echo $n > \"$OUT/n\"\n\
        [ \"$word\" = fine ] && [ $n -ge 3 ]";
    let retry = "retry = function(job)
        wb.log.info(\"attempt %d of %s: %s\", job.attempt, job.kind, job.reason)
        return job.inputs.word == \"fine\" and \"50ms\"
    end";
    bench.word_kind("tries", &format!("{QUICK}, {retry}"), agent);
    bench.word_kind("breaks", &format!("{QUICK}, retry = function() error(\"no\") end"), "exit 1");
    let server = bench.serve();
    let first = bench.job("tries", json!({"word": "fine"}));
    let all = all_ended(&bench, "tries", 3);
    assert_eq!(all[0]["status"], "succeeded", "{all:#?}");
    assert_eq!(all[0]["retry_of"], all[1]["id"]);
    assert_eq!(all[1]["retry_of"].as_str(), Some(&*first));
    assert_eq!(all[1]["requested_by"], "script");
    let log = server.log();
    assert!(log.contains("attempt 1 of tries: exit_status"), "{log}");
    assert!(log.contains("attempt 2 of tries: exit_status"), "{log}");
    // One that says no, and one that fails, repeat nothing.
    bench.ended(&bench.job("tries", json!({"word": "not"})));
    let broken = bench.job("breaks", json!({}));
    wait_for("the failure of `retry` is on the job", || {
        let warnings = bench.show(&broken)["warnings"].to_string();
        warnings.contains("kind.breaks.retry: wiki-browser.lua:").then_some(())
    });
    assert_eq!((jobs(&bench, "tries").len(), jobs(&bench, "breaks").len()), (4, 1));
    server.stop();
}

#[test]
fn a_function_says_what_must_not_be_worked_on_twice() {
    let bench = Bench::new();
    let lane = "lane = function(inputs)
        if inputs.word == \"bad\" then return \"no name\" end
        return inputs.word ~= \"free\" and \"first=\" .. inputs.word:sub(1, 1) or nil
    end";
    let agent =
        "echo ready > \"$OUT/ready.$word\"\nwhile [ ! -e \"$OUT/go\" ]; do sleep 0.05; done";
    bench.word_kind("waits", &format!("{QUICK}, {lane}"), agent);
    let server = bench.serve();
    let one = bench.job("waits", json!({"word": "ab"}));
    bench.wait_left("ready.ab");
    let two = bench.job("waits", json!({"word": "ac"}));
    bench.job("waits", json!({"word": "bc"}));
    bench.wait_left("ready.bc");
    assert_eq!(bench.show(&one)["lane"], "first=a");
    let second = bench.show(&two);
    assert_eq!((&second["status"], &second["lane"]), (&json!("queued"), &json!("first=a")));
    assert!(!bench.out.join("ready.ac").exists());
    let refused = bench.post("/api/agent/jobs", json!({"kind": "waits", "word": "bad"}));
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.to_string().contains("wiki-browser.lua:"), "{}", refused.body);
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.wait_left("ready.ac");
    until("all have ended", || bench.show(&two)["status"] == "succeeded");
    server.stop();
}

#[test]
fn a_secret_reaches_the_agent_and_nothing_else() {
    let bench = Bench::new();
    let agent = "printf '%s\\n' \"${#URL} $URL\"; echo \"err $URL\" >&2; exit 3";
    bench.word_kind("shows", QUICK, agent);
    bench.word_kind("lacks", QUICK, "exit 0");
    bench.edit(|lua| {
        let with = |name: &str, secret: &str, lua: &str| {
            let (before, rest) = lua.split_once(&format!("wb.engine \"{name}\"")).unwrap();
            let rest = rest.replacen("env = {", &format!("env = {{ {secret}, "), 1);
            format!("{before}wb.engine \"{name}\"{rest}")
        };
        let lua = with("shows", "URL = wb.secret.env \"THE_URL\"", lua);
        with("lacks", "KEY = wb.secret.file \"no/such\"", &lua)
    });
    let secret = "postgres://me:hunter2@db/x";
    let server = bench.serve_with(&[("THE_URL", secret)]);
    let job = bench.ended(&bench.job("shows", json!({})));
    let id = job["id"].as_str().unwrap();
    let log = bench.get(&format!("/api/agent/jobs/{id}/log?stream=stdout")).ok();
    assert_eq!(log["text"], format!("{} {}\n", secret.len(), "*".repeat(secret.len())));
    assert_eq!(job["error_tail"], format!("err {}\n", "*".repeat(secret.len())), "{job:#}");
    let job = bench.ended(&bench.job("lacks", json!({})));
    assert_eq!(job["reason"], "spawn_failed", "{job:#}");
    assert!(job["error_tail"].as_str().unwrap().contains("secret file:no/such"), "{job:#}");
    // Neither the effective configuration nor any file of the site has it.
    let (code, out, _) = bench.cli(&["check", "--print"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("secret env:THE_URL") && !out.contains("hunter2"), "{out}");
    let config = bench.get("/api/config").body.to_string();
    assert!(!config.contains("hunter2") && !server.log().contains("hunter2"));
    server.stop();
    let found = crate::support::shell(&format!("grep -rl hunter2 {} || true", bench.data));
    assert_eq!(found.trim(), "");
}

/// Fills a lane with jobs that wait an hour, by copies of one that does.
fn fill_lane(bench: &Bench, kind: &str) {
    let inputs = json!({"word": "x", "not_before": "2999-01-01T00:00:00Z"});
    let first = bench.job(kind, inputs);
    let more = "
        WITH RECURSIVE counted (n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 999)
        INSERT INTO agent_jobs (id, kind, lane_key, status, inputs_json, grants_json,
            requested_by, not_before_ms, ready, created_ms, config_digest)
        SELECT printf('018bcfe5-6800-7000-8000-%012d', n), kind, lane_key, status, inputs_json,
            grants_json, requested_by, not_before_ms, ready, created_ms, config_digest
        FROM counted, agent_jobs WHERE id = ?1";
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    assert_eq!(database.execute(more, [first]).unwrap(), 999);
}

/// A site whose handler asks for a job in a lane that is full.
fn full_lane() -> Bench {
    let bench = Bench::new();
    bench.word_kind("fills", &format!("{QUICK}, lane = \"word\""), "exit 0");
    bench.word_kind("echoes", QUICK, "exit 0");
    bench.lua(
        "wb.on(\"job_finished\", function(event)
           if event.job.requested_by:sub(1, 7) == \"person:\" then
             wb.log.info(\"asking\")
             wb.enqueue { kind = \"echoes\", word = \"first\" }
             wb.enqueue { kind = \"fills\", word = \"x\", not_before = \"1h\" }
           end
         end)\n",
    );
    bench
}

/// Fails with `WB_WITHOUT=handler_again`.
#[test]
fn a_job_that_is_refused_for_a_moment_is_asked_for_again() {
    let bench = full_lane();
    let server = bench.serve();
    fill_lane(&bench, "fills");
    bench.ended(&bench.job("echoes", json!({})));
    wait_for("it is said that the job is asked for again", || {
        server.log().contains("in 500 ms").then_some(())
    });
    // Nothing of the call was written meanwhile, also not what had room.
    assert_eq!(jobs(&bench, "echoes").len(), 1);
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let gone = "DELETE FROM agent_jobs WHERE id LIKE '018bcfe5-6800-7000-8000-%'";
    assert_eq!(database.execute(gone, []).unwrap(), 999);
    let asked = wait_for("the job is accepted", || {
        jobs(&bench, "fills").into_iter().find(|it| it["requested_by"] == "script")
    });
    assert_eq!((&asked["status"], &asked["inputs"]["word"]), (&json!("queued"), &json!("x")));
    // The function was called once for that.
    assert_eq!(server.log().matches("script: asking").count(), 1, "{}", server.log());
    server.stop();
    assert!(events(&bench, "script_failed").is_empty());
}

#[test]
#[ignore = "long: a job is given up after half a minute"]
fn a_job_that_is_refused_again_and_again_is_given_up_and_said() {
    let bench = full_lane();
    let server = bench.serve();
    fill_lane(&bench, "fills");
    let job = bench.job("echoes", json!({}));
    let is_said = || bench.show(&job)["warnings"].to_string().contains("asked for 7 times");
    assert!(within(std::time::Duration::from_secs(60), is_said), "{}", server.log());
    server.stop();
}
