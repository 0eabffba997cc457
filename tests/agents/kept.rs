//! Agents that outlive the server: taken over, never doubled, nothing lost.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::agents::terminal::{self, Tmux};
use crate::agents::{ECHO, answer, ask, control, declare, delivery, send, show, wait_state};
use crate::support::{Bench, marked, shell, until};

/// Rounds of kills at random moments.
const ROUNDS: usize = 12;

pub(super) fn job_of(bench: &Bench, name: &str) -> String {
    show(bench, name)["job_id"].as_str().unwrap().to_owned()
}

/// The guards of a job: there is one, or none.
pub(super) fn guards(job: &str) -> usize {
    marked(job).iter().filter(|pid| is_guard(pid)).count()
}

pub(super) fn is_guard(pid: &i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("__guard")
}

#[test]
fn g37_a_turn_goes_on_without_the_server_and_its_answer_arrives() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("wait"));
    bench.wait_left("waits");
    // The agent may be quicker than what is written of it.
    until("its turn is written down", || show(&bench, "robbo")["state"] == "busy");
    let job = job_of(&bench, "robbo");
    server.kill();
    assert_eq!(guards(&job), 1);
    let server = bench.serve();
    assert_eq!(show(&bench, "robbo")["state"], "busy");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, &message)["reply"], "waited");
    // The same again, but the turn ends while no server is there to hear it.
    std::fs::remove_file(bench.out.join("go")).unwrap();
    let message = send(&bench, "robbo", json!("wait"));
    until("it waits again", || bench.left("waits").lines().count() == 2);
    server.kill();
    std::fs::write(bench.out.join("go"), "").unwrap();
    let output = bench.data.join("jobs").join(&job).join("stdout.log");
    until("the turn has ended", || {
        std::fs::read_to_string(&output).unwrap().matches("\"waited\"").count() == 2
    });
    let server = bench.serve();
    assert_eq!(answer(&bench, &message)["reply"], "waited");
    assert_eq!(ask(&bench, "robbo", json!("after"))["reply"], "again after");
    assert_eq!((job_of(&bench, "robbo"), guards(&job)), (job.clone(), 1));
    // Each answer once.
    let replies = bench.get("/api/messages?from=agent:robbo").ok();
    assert_eq!(replies["items"].as_array().unwrap().len(), 3, "{replies:#}");
    server.stop();
}

/// Edits the script so that an agent that is in a turn has another engine, and kills the server
/// after a reload; returns the message of that turn and the agent's job.
fn change_engine(bench: &Bench, other: &str, edit: (&str, &str)) -> (String, String) {
    declare(bench, "robbo", "autostart = \"on_message\"", ECHO);
    bench.lua(&format!("wb.engine \"other\" {{ command = {{ \"/bin/cat\" }}, {other} }}\n"));
    let server = bench.serve();
    let message = send(bench, "robbo", json!("wait"));
    bench.wait_left("waits");
    wait_state(bench, "robbo", "busy");
    let job = job_of(bench, "robbo");
    bench.edit(|lua| lua.replace(edit.0, edit.1));
    bench.write_script();
    assert_eq!(bench.json(&["reload"])["ok"], true);
    server.kill();
    (message, job)
}

const OTHER: (&str, &str) = ("A test\", engine = \"robbo\"", "A test\", engine = \"other\"");
const PI: &str = "type = \"stream\", speaks = \"pi-rpc\"";

/// Whatever its declaration says meanwhile, its program is the one that it began as. Fails with
/// `WB_WITHOUT=earlier_script`.
#[test]
fn g37_an_agent_is_heard_and_spoken_to_as_it_began() {
    let claude = "type = \"stream\", speaks = \"claude-stream-json\"";
    let terminal = "type = \"terminal\", proof = \"screen\", input = \"$\"";
    let same = ("speaks = \"lines\"", "speaks = \"pi-rpc\"");
    for (other, edit) in [(claude, OTHER), (PI, OTHER), (terminal, OTHER), (PI, same)] {
        let bench = Bench::new();
        let (message, job) = change_engine(&bench, other, edit);
        let server = bench.serve();
        std::fs::write(bench.out.join("go"), "").unwrap();
        assert_eq!(answer(&bench, &message)["reply"], "waited", "{other}, {edit:?}");
        assert_eq!(ask(&bench, "robbo", json!("after"))["reply"], "again after");
        assert_eq!((job_of(&bench, "robbo"), guards(&job)), (job.clone(), 1));
        server.stop();
    }
}

/// Nobody knows any more how to hear it.
#[test]
fn g37_an_agent_whose_engine_is_forgotten_is_ended_and_its_sender_told() {
    let bench = Bench::new();
    let (message, job) = change_engine(&bench, PI, OTHER);
    std::fs::remove_dir_all(bench.data.join("script")).unwrap();
    let server = bench.serve();
    assert_eq!(answer(&bench, &message)["failure"], "agent:robbo ended before it had answered");
    until("the agent is ended", || marked(&job).is_empty());
    server.stop();
}

/// An agent whose output is gone would never be heard again: it is ended, and started anew.
#[test]
fn an_agent_whose_output_is_gone_is_not_busy_for_ever() {
    for what in ["gone", "link", "fifo"] {
        let bench = Bench::new();
        declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
        let server = bench.serve();
        let message = send(&bench, "robbo", json!("wait"));
        bench.wait_left("waits");
        // What nobody has heard yet could be missed by nobody.
        wait_state(&bench, "robbo", "busy");
        let job = job_of(&bench, "robbo");
        server.kill();
        let output = bench.data.join("jobs").join(&job).join("stdout.log");
        std::fs::remove_file(&output).unwrap();
        match what {
            "link" => std::os::unix::fs::symlink("/dev/zero", &output).unwrap(),
            "fifo" => {
                nix::unistd::mkfifo(output.as_std_path(), nix::sys::stat::Mode::S_IRUSR).unwrap()
            }
            _ => {}
        }
        let server = bench.serve();
        until("the agent is ended", || marked(&job).is_empty());
        let answered = answer(&bench, &message);
        assert_ne!(answered["state"], "pending", "{what}: {answered:#}");
        assert_eq!(ask(&bench, "robbo", json!("after"))["reply"], "again after", "{what}");
        server.stop();
    }
}

/// What is written down for an agent is read by it once, wherever the server ends. Fails with
/// `WB_WITHOUT=sent_first`.
#[test]
fn g33_a_kill_between_the_note_and_the_first_byte_loses_and_doubles_nothing() {
    for point in ["block_claimed", "block_said"] {
        let bench = Bench::new();
        declare(&bench, "robbo", "autostart = \"always\"", ECHO);
        let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
        wait_state(&bench, "robbo", "idle");
        bench.send_into_crash("agent:robbo", json!("once"));
        server.wait();
        let server = bench.serve();
        let message = bench.newest_message("agent:robbo");
        assert_eq!(answer(&bench, &message)["reply"], "again once", "{point}");
        assert_eq!(delivery(&bench, &message), (json!("confirmed"), json!("turn")));
        assert_eq!(bench.left("heard").trim(), "once", "{point}");
        server.stop();
    }
}

#[test]
fn g33_kills_at_random_moments_lose_and_double_nothing() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"always\"", ECHO);
    let mut server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let job = job_of(&bench, "robbo");
    let mut messages = Vec::new();
    for round in 0..ROUNDS {
        for number in 0..3 {
            messages.push(send(&bench, "robbo", json!(format!("m{round}x{number}"))));
        }
        let moment = std::time::Duration::from_millis(u64::from(random() % 60));
        let began = std::time::Instant::now();
        until("the moment is there", || began.elapsed() >= moment);
        server.kill();
        server = bench.serve();
    }
    for message in &messages {
        assert_eq!(answer(&bench, message)["state"], "replied");
    }
    let heard = bench.left("heard");
    let wanted: Vec<String> =
        (0..ROUNDS).flat_map(|round| (0..3).map(move |it| format!("m{round}x{it}"))).collect();
    assert_eq!(heard.lines().collect::<Vec<_>>(), wanted);
    assert_eq!((job_of(&bench, "robbo"), guards(&job)), (job.clone(), 1));
    server.stop();
}

#[test]
fn a_server_that_stops_leaves_its_agents_and_they_are_stopped_by_the_next() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"always\"", ECHO);
    declare(&bench, "shy", "autostart = \"always\", on_server_loss = \"kill\"", ECHO);
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    wait_state(&bench, "shy", "idle");
    let (kept, shy) = (job_of(&bench, "robbo"), job_of(&bench, "shy"));
    server.stop();
    assert_eq!((guards(&kept), guards(&shy)), (1, 0));
    let server = bench.serve();
    assert_eq!(job_of(&bench, "robbo"), kept);
    assert_ne!(wait_state(&bench, "shy", "idle")["job_id"], shy);
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    assert!(marked(&kept).is_empty());
    server.stop();
}

/// Its guard is killed while no server runs: the agent is ended, not doubled.
#[test]
fn g37_an_agent_whose_guard_is_gone_is_ended_and_started_anew() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"always\"", ECHO);
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let job = job_of(&bench, "robbo");
    let message = send(&bench, "robbo", json!("wait"));
    bench.wait_left("waits");
    wait_state(&bench, "robbo", "busy");
    server.kill();
    let guard = marked(&job).into_iter().find(is_guard).unwrap();
    shell(&format!("kill -KILL {guard}"));
    let server = bench.serve();
    assert_eq!(answer(&bench, &message)["failure"], "agent:robbo ended before it had answered");
    until("another start", || {
        let now = show(&bench, "robbo");
        now["job_id"] != job.as_str() && now["state"] == "idle"
    });
    assert!(marked(&job).is_empty());
    server.stop();
}

/// No server was there when its guard ended, and none starts it again.
#[test]
fn a_terminal_whose_guard_ended_without_a_server_is_gone_after_the_next_start() {
    let bench = Bench::new();
    let Some(tmux) = Tmux::of(&bench) else { return };
    terminal::declare(&bench, "robbo", ("autostart = \"always\"", ""));
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let job = job_of(&bench, "robbo");
    assert_eq!(tmux.sessions().len(), 1);
    server.kill();
    terminal::kill_process(&tmux, &job, "__guard");
    bench.edit(|lua| lua[..lua.find("wb.engine \"robbo\"").unwrap()].to_owned());
    let server = bench.serve();
    bench.ended(&job);
    until("its terminal is gone", || tmux.sessions().is_empty());
    assert!(marked(&job).is_empty());
    server.stop();
}

/// Neither a process of the job nor one without the key is let in.
#[test]
fn a_guard_opens_to_nobody_but_a_server() {
    let bench = Bench::new();
    let script = "while :; do hear; began
WB_SOCKET=\"$DOOR\" wb-agent list-sources > \"$OUT/knocked\" 2>&1; say knocked; done";
    declare(&bench, "robbo", "autostart = \"always\"", script);
    let door = bench.base.join("door");
    bench.edit(|text| text.replace("env = {", &format!("env = {{ DOOR = \"{door}\",")));
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    let job = job_of(&bench, "robbo");
    let folder = bench.data.join("jobs").join(&job);
    std::os::unix::fs::symlink(folder.join("guard.sock"), &door).unwrap();
    assert_eq!(ask(&bench, "robbo", json!("knock"))["reply"], "knocked");
    let log = || std::fs::read_to_string(folder.join("guard.log")).unwrap();
    until("it was refused", || log().contains("is of the job"));
    // One of the same user that is no server has no key, and the server keeps its guard.
    let mut knock = std::os::unix::net::UnixStream::connect(&door).unwrap();
    knock.write_all(b"{\"type\":\"adopt\",\"key\":\"x\"}\n").unwrap();
    let mut said = Vec::new();
    knock.read_to_end(&mut said).unwrap();
    assert!(said.is_empty());
    assert!(log().contains("without the key"), "{}", log());
    assert_eq!(ask(&bench, "robbo", json!("again"))["reply"], "knocked");
    let key = std::fs::metadata(bench.data.join("guard.key")).unwrap().permissions().mode();
    assert_eq!(key & 0o777, 0o600);
    let launch = std::fs::read_to_string(folder.join("launch.json")).unwrap();
    let launch: Value = serde_json::from_str(&launch).unwrap();
    assert_eq!(launch["on_server_loss"]["keep"]["keep_ms"], 24 * 3_600_000, "{launch:#}");
    server.stop();
}

fn random() -> u8 {
    let mut byte = [0];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut byte).unwrap();
    byte[0]
}

/// A database that was restored may not know that they run: nobody would ever speak to them.
#[test]
fn g37_a_guard_whose_job_the_database_does_not_know_as_running_is_ended() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"never\"", ECHO);
    let server = bench.serve();
    control(&bench, "robbo", "start").ok();
    wait_state(&bench, "robbo", "idle");
    let job = job_of(&bench, "robbo");
    server.kill();
    assert_eq!(guards(&job), 1);
    bench.sql("UPDATE agents SET state = 'stopped', wanted = 'stopped'");
    let ended = "status = 'cancelled', completed_ms = started_ms";
    bench.sql(&format!("UPDATE agent_jobs SET {ended} WHERE id = '{job}'"));
    let server = bench.serve();
    until("nothing of it is left", || marked(&job).is_empty());
    assert_eq!(show(&bench, "robbo")["state"], "stopped");
    server.stop();
}
