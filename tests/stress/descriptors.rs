//! Running out of descriptors: nothing spins, running work continues, and the server recovers.

use serde_json::json;

use super::{first_line, open, ticks};
use crate::support::{Bench, Call, Server, shell, until, wait_for};

const IDLE: &str = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n";

fn idle(server: &Server) -> String {
    IDLE.replace("PORT", &server.address().port().to_string())
}

fn descriptors_below(pid: u32, limit: usize) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let numbers = entries.map(|it| it.file_name().to_str().unwrap().parse::<usize>().unwrap());
    numbers.filter(|it| *it < limit).count()
}

/// Waits until a server has done what it does after its start, and what that needed is closed.
fn settle(bench: &Bench, pid: u32) {
    bench.wait_indexed();
    let mut same = (0, 0);
    until("no descriptor comes or goes", || {
        let now = descriptors_below(pid, usize::MAX);
        same = if same.0 == now { (now, same.1 + 1) } else { (now, 0) };
        same.1 == 40
    });
}

/// Takes the limit of a server down, so that at least `free` descriptors are left to it; returns
/// the limit. It is on the numbers of descriptors: what was inherited with a high one stays open.
fn tighten(pid: u32, free: usize) -> usize {
    let children = format!("/proc/{pid}/task");
    until("no command of the server runs", || {
        std::fs::read_dir(&children).unwrap().flatten().all(|task| {
            std::fs::read_to_string(task.path().join("children")).is_ok_and(|it| it.is_empty())
        })
    });
    let limit = (1..).find(|it| it - descriptors_below(pid, *it) >= free).unwrap();
    shell(&format!("prlimit --pid {pid} --nofile={limit}"));
    limit
}

/// Connections leave descriptors to everything else.
/// Fails with `WB_WITHOUT=descriptor_reserve`.
#[test]
fn connections_take_no_descriptor_that_a_job_needs() {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "ulimit -n > \"$OUT/soft\"");
    bench.write_script();
    let server = Server::spawn_within(&bench, 256, 256).ready();
    let head = idle(&server);
    let mut held: Vec<_> = (0..300).map(|_| open(server.address(), &head)).collect();
    let answers: Vec<String> = held.iter_mut().map(first_line).collect();
    let of = |it: &str| answers.iter().filter(|line| *line == it).count();
    let (served, away) = (of("HTTP/1.1 200"), of("HTTP/1.1 503"));
    println!("of 300 connections within 256 descriptors {served} were served, {away} turned away");
    assert!(served > 50 && away > 100, "{served} served, {away} turned away");
    // Connections of commands and agents have room of their own, and so has a job.
    let job = bench.job("quick", json!({"word": "w"}));
    let job = bench.ended(&job);
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(bench.left("soft"), "256");
    assert_eq!(bench.get("/api/source?path=guide.md").status, 200, "git can be called");
    drop(held);
    until("a browser is served again", || {
        first_line(&mut open(server.address(), &head)) == "HTTP/1.1 200"
    });
    server.stop();
}

/// Fails with `WB_WITHOUT=raise_descriptors`.
#[test]
fn the_server_raises_its_limit_and_its_agents_do_not_inherit_that() {
    let bench = Bench::new();
    bench.word_kind(
        "quick",
        "timeout = \"20s\"",
        "echo \"$(ulimit -Sn) $(ulimit -Hn)\" > \"$OUT/it\"",
    );
    bench.write_script();
    let server = Server::spawn_within(&bench, 200, 4_096).ready();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find_map(|it| it.strip_prefix("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["4096", "4096", "files"]);
    assert_eq!(bench.ended(&bench.job("quick", json!({"word": "w"})))["status"], "succeeded");
    assert_eq!(bench.left("it"), "1024 4096");
    server.stop();
}

/// Even if all are gone, because somebody took the limit away: those who come are told, the
/// processor is not burnt, and nothing has to be restarted.
/// Fails with `WB_WITHOUT=spare_descriptor`.
#[test]
fn without_descriptors_clients_are_told_and_the_server_heals() {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    bench.ended(&bench.job("quick", json!({})));
    let (address, head, pid) = (server.address(), idle(&server), server.pid());
    settle(&bench, pid);
    let limit = tighten(pid, 20);
    let mut held: Vec<_> = (0..60).map(|_| open(address, &head)).collect();
    let answers: Vec<String> = held.iter_mut().map(first_line).collect();
    let told = answers.iter().filter(|it| *it == "HTTP/1.1 503").count();
    assert!((35..60).contains(&told), "{answers:?}");
    // The spare one is given up and taken back until nobody waits any more.
    until("all are taken", || descriptors_below(pid, limit) == limit);
    // While nothing can be accepted nothing is done: a hundred are told in little time.
    let before = ticks(pid);
    for _ in 0..100 {
        let answer = Call::get("/healthz").tcp(address);
        assert_eq!(answer.refusal(), (503, "too_many_connections"));
    }
    let used = ticks(pid) - before;
    println!("turning 100 connections away took {} ms of the processor", used * 10);
    assert!(used < 100, "{used} ticks");
    // A job that cannot be started ends with a reason and never hangs.
    assert_eq!(server.log().matches("a connection could not be accepted").count(), 1);
    drop(held);
    // One answer says nothing of the next: those who held the connections leave one by one.
    until("nobody holds a connection any more", || descriptors_below(pid, limit) + 20 <= limit);
    until("the socket answers", || {
        Call::get("/readyz").try_socket(&bench.socket()).is_some_and(|it| it.status == 200)
    });
    let failed = bench.job("quick", json!({}));
    assert_eq!(bench.ended(&failed)["status"], "succeeded");
    server.stop();
}

#[test]
fn a_job_that_finds_no_descriptor_fails_with_the_reason() {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    bench.ended(&bench.job("quick", json!({})));
    let pid = server.pid();
    settle(&bench, pid);
    // Enough for a request, and too few for a job.
    tighten(pid, 4);
    let operator = bench.operator();
    let ask = |call: Call, status: u16| {
        let call = call.token(&operator);
        move |socket: &camino::Utf8Path| call.try_socket(socket).filter(|it| it.status == status)
    };
    let start = ask(Call::post("/api/agent/jobs", json!({"kind": "quick"})), 202);
    let accepted = wait_for("a job is accepted", || start(&bench.socket()));
    let id = accepted.body["job_id"].as_str().unwrap().to_owned();
    let show = ask(Call::get(&format!("/api/agent/jobs/{id}")), 200);
    let job = wait_for("it has ended, and somebody is told", || {
        show(&bench.socket()).filter(|it| !it.body["completed_at"].is_null())
    });
    // Either it found one after all, or it says what was missing.
    let tail = job.body["error_tail"].as_str().unwrap_or_default();
    assert!(job.body["status"] == "succeeded" || tail.contains("open files"), "{:#}", job.body);
    server.stop();
}
