//! Starts and ends of agents.

use serde_json::{Value, json};

use crate::agents::{
    ECHO, answer, ask, control, declare, delivery, is_unproven, send, show, wait_state,
};
use crate::support::{Bench, Call, until};

#[test]
fn an_agent_that_ends_unasked_is_started_again_and_in_the_end_is_not() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"always\"", ECHO);
    let server = bench.serve();
    let first = wait_state(&bench, "robbo", "idle")["job_id"].clone();
    let told = ask(&bench, "robbo", json!("fall"));
    assert_eq!(told["failure"], "agent:robbo ended before it had answered", "{told:#}");
    until("another start", || {
        let now = show(&bench, "robbo");
        now["job_id"] != first && now["state"] == "idle"
    });
    assert_eq!(ask(&bench, "robbo", json!("back"))["reply"], "again back");
    let ended = bench.show(first.as_str().unwrap());
    assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("failed"), &json!(3)));
    // Every end within ten minutes doubles the pause; the fifth is the last.
    let now = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    let ends = [now; 4].join(", ");
    bench.sql(&format!("UPDATE agents SET ends_json = json_array({ends})"));
    ask(&bench, "robbo", json!("fall"));
    let failed = wait_state(&bench, "robbo", "failed");
    assert_eq!(failed["reason"], "exit_status");
    let ended = failed["ended"].as_str().unwrap();
    assert!(ended.contains("wiki-browser job show "), "{ended}");
    let (_, shown, _) = bench.cli(&["agent", "show", "robbo"]);
    assert!(shown.contains("/bin/sh exited with status 3"), "{shown}");
    let message = send(&bench, "robbo", json!("when you are back"));
    assert_eq!(delivery(&bench, &message).0, "queued");
    let found = bench.get(&format!("/api/messages/{message}/await")).ok();
    let why = found["waiting"].as_str().unwrap();
    assert!(why.contains("has failed") && why.contains("agent start robbo"), "{why}");
    control(&bench, "robbo", "start").ok();
    assert_eq!(answer(&bench, &message)["reply"], "again when you are back");
    server.stop();
}

#[test]
fn an_agent_is_of_an_older_declaration_only_if_its_own_or_its_engines_has_changed() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"always\"", ECHO);
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let after = |change: &dyn Fn(&str) -> String| {
        bench.edit(|lua| change(lua));
        bench.write_script();
        assert_eq!(bench.cli(&["reload"]).0, 0);
        show(&bench, "robbo")["is_older"].clone()
    };
    let (other, script) = (bench.base.join("agents/other.sh"), bench.base.join("agents/robbo.sh"));
    std::fs::copy(&script, &other).unwrap();
    assert_eq!(after(&|lua| format!("-- A comment.\n{lua}")), false);
    assert_eq!(after(&|lua| lua.replace("A test", "Another")), true);
    assert_eq!(after(&|lua| lua.replace("Another", "A test")), false);
    assert_eq!(after(&|lua| lua.replace(script.as_str(), other.as_str())), true);
    server.stop();
}

#[test]
fn an_agent_that_is_stopped_stays_so_and_keeps_its_mail() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
    let server = bench.serve();
    ask(&bench, "robbo", json!("one"));
    let job = show(&bench, "robbo")["job_id"].as_str().unwrap().to_owned();
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    assert_eq!(bench.ended(&job)["status"], "cancelled");
    assert!(crate::support::marked(&job).is_empty());
    let message = send(&bench, "robbo", json!("two"));
    let server = {
        server.stop();
        bench.serve()
    };
    assert_eq!(show(&bench, "robbo")["state"], "stopped");
    assert_eq!(delivery(&bench, &message).0, "queued");
    // Clients name the type of a body that they leave out.
    let start = Call::new("POST", "/api/agents/robbo/start");
    bench.send(&start.header("Content-Type", "application/json").token(&bench.operator())).ok();
    assert_eq!(answer(&bench, &message)["reply"], "again two");
    // Whoever cancels its job does not want the next one either.
    let job = show(&bench, "robbo")["job_id"].as_str().unwrap().to_owned();
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    let stopped = wait_state(&bench, "robbo", "stopped");
    assert_eq!(stopped["wanted"], "stopped");
    control(&bench, "robbo", "restart").ok();
    let again = wait_state(&bench, "robbo", "idle")["job_id"].clone();
    control(&bench, "robbo", "restart").ok();
    until("another start", || {
        let now = show(&bench, "robbo");
        now["job_id"] != again && now["state"] == "idle"
    });
    server.stop();
}

#[test]
fn an_agent_that_has_ended_well_is_started_by_the_next_message() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
    let server = bench.serve();
    let told = ask(&bench, "robbo", json!("end"));
    assert_eq!(told["failure"], "agent:robbo ended before it had answered", "{told:#}");
    let stopped = wait_state(&bench, "robbo", "stopped");
    assert_eq!((&stopped["reason"], &stopped["wanted"]), (&json!("ended"), &json!("running")));
    assert_eq!(ask(&bench, "robbo", json!("again"))["reply"], "again again");
    server.stop();
}

#[test]
fn no_more_agents_run_than_the_limit_says() {
    let bench = Bench::new();
    bench.limits("jobs = 1, agents = 1, grace = \"1s\"");
    for name in ["one", "two"] {
        declare(&bench, name, "autostart = \"on_message\"", ECHO);
    }
    bench.word_kind("work", "timeout = \"20s\"", "true");
    let server = bench.serve();
    ask(&bench, "one", json!("x"));
    let message = send(&bench, "two", json!("y"));
    wait_state(&bench, "two", "starting");
    // Work has places of its own.
    let work = bench.job("work", json!({}));
    assert_eq!(bench.ended(&work)["status"], "succeeded");
    assert_eq!(show(&bench, "two")["state"], "starting");
    control(&bench, "one", "stop").ok();
    assert_eq!(answer(&bench, &message)["reply"], "again y");
    server.stop();
}

/// What an agent was given and never showed that it has is not given again by itself.
#[test]
fn what_shows_no_sign_of_arrival_is_unconfirmed() {
    let bench = Bench::new();
    declare(&bench, "deaf", "autostart = \"on_message\"", "while read -r line; do :; done");
    bench
        .edit(|text| text.replace("speaks = \"lines\"", "speaks = \"lines\", proof_wait = \"1s\""));
    let server = bench.serve();
    let (first, second) = (send(&bench, "deaf", json!(1)), send(&bench, "deaf", json!(2)));
    for message in [&first, &second] {
        until("it is unconfirmed", || delivery(&bench, message).0 == "unconfirmed");
    }
    let shown = bench.get(&format!("/api/messages/{first}")).ok();
    assert_eq!(shown["deliveries"][0]["reason"], "no_proof");
    // Whoever waits, and whoever looks, is told what to type.
    for verb in ["wait", "show"] {
        let (_, out, err) = bench.cli(&["mail", verb, &first]);
        let next = format!("wiki-browser mail resend {first}");
        assert!(format!("{out}{err}").contains(&next), "{verb}: {out}{err}");
    }
    let agent = show(&bench, "deaf");
    assert_eq!((&agent["waiting"], &agent["unconfirmed"]), (&json!(0), &json!(2)));
    server.stop();
}

#[test]
fn what_is_declared_wrongly_is_said_with_its_line() {
    let bench = Bench::new();
    bench.lua(
        "wb.engine \"p\" { type = \"process\", command = { \"cat\" }, prompt = \"stdin\" }\n\
         wb.engine \"s\" { type = \"stream\", command = { \"cat\" }, speaks = \"lines\" }\n\
         wb.engine \"t\" { type = \"stream\", command = { \"cat\" } }\n\
         wb.engine \"u\" { type = \"process\", command = { \"cat\" }, prompt = \"stdin\",\n\
         speaks = \"lines\" }\n\
         wb.agent \"one\" { about = \"x\", engine = \"p\" }\n\
         wb.kind \"a\" { about = \"x\", engine = \"s\", timeout = \"1m\", prompt = \"x\" }\n\
         wb.agent \"two\" { about = \"x\", engine = \"s\", autostart = \"soon\" }\n",
    );
    bench.write_script();
    let (code, out, err) = bench.cli(&["check"]);
    let said = format!("{out}{err}");
    assert_ne!(code, 0, "{said}");
    for words in [
        "the engine of agent \"one\" does not live on",
        "kind \"a\" names an engine that lives on",
        "has no `speaks`",
        "has `speaks`, but does not live on",
        "autostart",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.matches("error").count() > 4, "{said}");
}

/// Declares an agent whose program is told its session.
fn declare_with_sessions(bench: &Bench) {
    declare(bench, "robbo", "autostart = \"always\"", ECHO);
    bench.edit(|text| {
        let speaks = "speaks = \"lines\", session = { \"new\", \"{{session}}\" }, \
                      resume = { \"old\", \"{{session}}\" }";
        text.replace("speaks = \"lines\"", speaks)
    });
}

/// What the program of a start was told about its session.
fn told_session(bench: &Bench, job: &Value) -> Vec<Value> {
    let file = bench.data.join("jobs").join(job.as_str().unwrap()).join("launch.json");
    let launch: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    launch["argv"].as_array().unwrap()[2..].to_vec()
}

/// Waits until an agent runs in another start; returns its job.
#[track_caller]
fn another_start(bench: &Bench, before: &Value) -> Value {
    until("another start", || {
        let now = show(bench, "robbo");
        now["job_id"] != *before && now["state"] == "idle"
    });
    show(bench, "robbo")["job_id"].clone()
}

/// Fails if the session of one engine is given to another one.
#[test]
fn another_engine_begins_a_session_of_its_own() {
    let bench = Bench::new();
    declare_with_sessions(&bench);
    bench.edit(|text| {
        let start = text.find("wb.engine \"robbo\"").unwrap();
        let end = text.find("wb.agent \"robbo\"").unwrap();
        let other = text[start..end].replace("\"robbo\"", "\"other\"");
        format!("{text}{}", other.replace("new", "its new").replace("old", "its old"))
    });
    let server = bench.serve();
    let first = wait_state(&bench, "robbo", "idle")["job_id"].clone();
    ask(&bench, "robbo", json!("x"));
    let good = bench.declared();
    let (from, to) = ("A test\", engine = \"robbo\"", "A test\", engine = \"other\"");
    bench.edit(|text| text.replace(from, to));
    bench.write_script();
    assert_eq!(bench.json(&["reload"])["ok"], true);
    control(&bench, "robbo", "restart").ok();
    let second = another_start(&bench, &first);
    let (before, after) = (told_session(&bench, &first), told_session(&bench, &second));
    assert_eq!(after[0], "its new", "{after:?}");
    assert_ne!(after[1], before[1]);
    // It has had no turn there: its session is still that of the first engine.
    bench.edit(|_| good.clone());
    bench.write_script();
    assert_eq!(bench.json(&["reload"])["ok"], true);
    control(&bench, "robbo", "restart").ok();
    let third = another_start(&bench, &second);
    assert_eq!(told_session(&bench, &third), [json!("old"), before[1].clone()]);
    server.stop();
}

/// Its arguments and its environment may change.
#[test]
fn another_program_of_the_same_engine_begins_a_session_of_its_own() {
    let bench = Bench::new();
    declare_with_sessions(&bench);
    let folder = bench.base.join("agents");
    std::fs::copy(folder.join("robbo.sh"), folder.join("second.sh")).unwrap();
    let server = bench.serve();
    let mut job = wait_state(&bench, "robbo", "idle")["job_id"].clone();
    for (from, to, expected) in [
        ("env = { OUT", "env = { MORE = \"1\", OUT", "old"),
        ("agents/robbo.sh", "agents/second.sh", "new"),
    ] {
        ask(&bench, "robbo", json!("x"));
        bench.edit(|text| text.replace(from, to));
        bench.write_script();
        assert_eq!(bench.json(&["reload"])["ok"], true);
        control(&bench, "robbo", "restart").ok();
        let next = another_start(&bench, &job);
        let (before, after) = (told_session(&bench, &job), told_session(&bench, &next));
        assert_eq!((&after[0], after[1] == before[1]), (&json!(expected), expected == "old"));
        job = next;
    }
    server.stop();
}

#[test]
fn an_agent_that_is_started_fresh_begins_a_new_session() {
    let bench = Bench::new();
    declare_with_sessions(&bench);
    let server = bench.serve();
    let first = wait_state(&bench, "robbo", "idle")["job_id"].clone();
    ask(&bench, "robbo", json!("x"));
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    bench.json(&["agent", "start", "robbo", "--fresh"]);
    let second = another_start(&bench, &first);
    let (before, after) = (told_session(&bench, &first), told_session(&bench, &second));
    assert_eq!((&after[0], after[1] == before[1]), (&json!("new"), false), "{after:?}");
    server.stop();
}

/// Fails if a session that was begun is not gone on with.
#[test]
fn the_next_start_goes_on_with_the_session() {
    let bench = Bench::new();
    declare_with_sessions(&bench);
    let server = bench.serve();
    let argv = |job: &Value| told_session(&bench, job);
    let first = wait_state(&bench, "robbo", "idle")["job_id"].clone();
    control(&bench, "robbo", "restart").ok();
    let another = |before: &Value| another_start(&bench, before);
    // Without a turn there is no session to go on with.
    let second = another(&first);
    assert_eq!((&argv(&first)[0], &argv(&second)[0]), (&json!("new"), &json!("new")));
    ask(&bench, "robbo", json!("x"));
    control(&bench, "robbo", "restart").ok();
    let third = another(&second);
    assert_eq!(argv(&third), [json!("old"), argv(&second)[1].clone()]);
    server.stop();
}

/// A person asks for the next start while the agent works, or while its last one still ends.
#[test]
fn an_agent_that_works_can_be_started_again() {
    let bench = Bench::new();
    // It says what it did when it is told to end, as engines do.
    let script = "trap 'say \"left off\"; exit 0' INT TERM\n".to_owned() + ECHO;
    declare(&bench, "robbo", "autostart = \"always\"", &script);
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let first = send(&bench, "robbo", json!("wait"));
    bench.wait_left("waits");
    let waiting = send(&bench, "robbo", json!("after"));
    let job = show(&bench, "robbo")["job_id"].clone();
    control(&bench, "robbo", "restart").ok();
    // What waited is heard by the next start, not by the one that ends.
    assert_eq!(answer(&bench, &waiting)["reply"], "again after");
    assert_ne!(show(&bench, "robbo")["job_id"], job);
    assert_ne!(answer(&bench, &first)["state"], "pending");
    let job = show(&bench, "robbo")["job_id"].clone();
    control(&bench, "robbo", "stop").ok();
    control(&bench, "robbo", "start").ok();
    until("another start", || {
        let now = show(&bench, "robbo");
        now["job_id"] != job && now["state"] == "idle"
    });
    assert_eq!(ask(&bench, "robbo", json!("there"))["reply"], "again there");
    // Whoever says so last is heard.
    control(&bench, "robbo", "restart").ok();
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    let kept = send(&bench, "robbo", json!("kept"));
    assert_eq!(delivery(&bench, &kept).0, "queued");
    server.stop();
}

/// An answer that comes after its message was given up is an answer all the same.
#[test]
fn a_late_answer_counts() {
    let bench = Bench::new();
    let script = "hear; while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done; say late; hear";
    declare(&bench, "robbo", "autostart = \"always\"", script);
    bench
        .edit(|text| text.replace("speaks = \"lines\"", "speaks = \"lines\", proof_wait = \"1s\""));
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("x"));
    until("it is given up", || delivery(&bench, &message).0 == "unconfirmed");
    let told = bench.get(&format!("/api/messages/{message}/await")).ok();
    assert!(told["state"] == "failed" && is_unproven(&told), "{told:#}");
    std::fs::write(bench.out.join("go"), "").unwrap();
    until("it is answered", || delivery(&bench, &message) == (json!("confirmed"), json!("turn")));
    assert_eq!(answer(&bench, &message)["reply"], "late");
    server.stop();
}

/// What an agent says of its turns is hostile: it ends no other turn, and hangs nobody.
#[test]
fn what_an_agent_says_of_turns_is_taken_with_care() {
    let bench = Bench::new();
    let script = "end() { printf '{\"turn\":\"ended\",\"id\":\"%s\",%s}\\n' \"$id\" \"$1\"; }
while :; do hear; began
case $text in
  zero) end '\"text\":\"a\\u0000b\",\"tokens\":9223372036854775807' ;;
  why) end '\"failed\":\"c\\u0000d\"' ;;
  long) end \"\\\"text\\\":\\\"$(head -c 3000000 /dev/zero | tr '\\0' x)\\\"\" ;;
  other) printf '{\"turn\":\"ended\",\"id\":\"%s\",\"text\":\"old\"}\\n' \"$before\"; say new ;;
  *) say fine; say twice; printf 'no json at all\\n{\"turn\":3}\\n' ;;
esac
before=$id
done";
    declare(&bench, "robbo", "autostart = \"always\"", script);
    let server = bench.serve();
    assert_eq!(ask(&bench, "robbo", json!("zero"))["reply"], "ab");
    assert_eq!(ask(&bench, "robbo", json!("zero"))["reply"], "ab");
    assert_eq!(ask(&bench, "robbo", json!("why"))["failure"], "agent:robbo: cd");
    let long = ask(&bench, "robbo", json!("long"));
    assert_eq!(long["failure"], "agent:robbo: a part of its output is lost");
    assert_eq!(ask(&bench, "robbo", json!("other"))["reply"], "new");
    assert_eq!(ask(&bench, "robbo", json!("else"))["reply"], "fine");
    assert_eq!(ask(&bench, "robbo", json!("else"))["reply"], "fine");
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    server.stop();
}

/// An agent can be written to as soon as the reload that declares it has been answered.
#[test]
fn an_agent_that_a_reload_adds_is_there_at_once() {
    let bench = Bench::new();
    let server = bench.serve();
    declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
    bench.write_script();
    assert_eq!(bench.post("/api/config/reload", json!({})).ok()["ok"], true);
    assert_eq!(ask(&bench, "robbo", json!("new"))["reply"], "again new");
    server.stop();
}

#[test]
fn a_start_that_waits_says_why_and_all_agents_are_ended_at_once() {
    let bench = Bench::new();
    bench.limits("jobs = 1, agents = 1, grace = \"1s\"");
    declare(&bench, "one", "autostart = \"always\"", ECHO);
    declare(&bench, "two", "autostart = \"always\"", ECHO);
    let server = bench.serve();
    until("one waits for the other", || {
        let waits = |name| show(&bench, name)["waits"].as_str().map(str::to_owned);
        [waits("one"), waits("two")].iter().flatten().eq(["1 of at most 1 agents live"])
    });
    let (code, out, _) = bench.cli(&["agent", "stop", "--all"]);
    assert_eq!((code, out.as_str()), (0, "stopping agent:one\nstopping agent:two\n"));
    for name in ["one", "two"] {
        assert_eq!(wait_state(&bench, name, "stopped")["wanted"], "stopped");
    }
    let (code, out, said) = bench.cli(&["agent", "stop", "--all"]);
    assert_eq!((code, out.as_str()), (0, ""), "{said}");
    server.stop();
}

/// An inbox may be called like an agent: the end of its instances is none of the agent's. Fails
/// with `WB_WITHOUT=pool_filter`.
#[test]
fn an_instance_is_no_start_of_the_agent_whose_name_its_template_has() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"always\"", ECHO);
    bench.inbox("robbo/ask", "timeout = \"20s\"", "exit 3");
    let server = bench.serve();
    let before = wait_state(&bench, "robbo", "idle");
    let body = json!({"to": "topic:robbo/ask", "payload": 1});
    let sent = bench.post("/api/messages", body).ok();
    assert_eq!(bench.ended(sent["job_id"].as_str().unwrap())["status"], "failed");
    let after = show(&bench, "robbo");
    assert_eq!((&after["state"], &after["job_id"]), (&json!("idle"), &before["job_id"]));
    assert_eq!(ask(&bench, "robbo", json!("there"))["reply"], "again there");
    assert_eq!(show(&bench, "robbo")["job_id"], before["job_id"]);
    server.stop();
}

/// Nobody looks at the guard of an agent that waits: the kernel tells that it was stopped. Fails
/// with `WB_WITHOUT=standstill`.
#[test]
fn a_guard_that_somebody_stops_goes_on() {
    let bench = Bench::new();
    let script = "while :; do hear; began
case $text in
  stop) kill -STOP $PPID
    until [ \"$(cut -d' ' -f3 /proc/$PPID/stat)\" != T ]; do sleep 0.02; done; say 'went on' ;;
  *) say \"again $text\" ;;
esac
done";
    declare(&bench, "robbo", "autostart = \"always\"", script);
    let server = bench.serve();
    assert_eq!(ask(&bench, "robbo", json!("hello"))["reply"], "again hello");
    assert_eq!(ask(&bench, "robbo", json!("stop"))["reply"], "went on");
    assert_eq!(ask(&bench, "robbo", json!("more"))["reply"], "again more");
    server.stop();
}
