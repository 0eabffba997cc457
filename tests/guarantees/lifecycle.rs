//! The server's own life: G10, G16, G17.

use std::process::{Child, Command};
use std::time::Duration;

use rusqlite::named_params;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wiki_browser::base::Clock;
use wiki_browser::process::{MARK, boot_id, start_time};
use wiki_browser::store::{MIGRATIONS, Store};

use crate::support::{Bench, Server, until};

const GRACE: Duration = Duration::from_secs(1);
const DEAF: &str = "trap '' INT TERM HUP; echo ready > \"$OUT/ready\"; while :; do sleep 0.1; done";

/// A site with one job that runs and one that waits behind it.
fn busy() -> (Bench, Server, String, String) {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"1s\"");
    bench.word_kind("deaf", "timeout = \"60s\"", DEAF);
    bench.word_kind("quick", "timeout = \"20s\"", "echo \"$job\" >> \"$OUT/ran\"");
    let server = bench.serve();
    let running = bench.job("deaf", json!({}));
    bench.wait_left("ready");
    let waiting = bench.job("quick", json!({}));
    bench.wait_status(&waiting, "queued");
    (bench, server, running, waiting)
}

fn assert_settled(bench: &Bench, running: &str, waiting: &str) {
    let server = bench.serve();
    let row = bench.ended(running);
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("server_restarted")));
    assert_eq!(row["message"], "Agent failed: server restarted.");
    assert_eq!(bench.ended(waiting)["status"], "succeeded");
    assert_eq!(bench.left("ran"), waiting);
    server.stop();
}

#[test]
fn g16_a_signal_ends_the_server_within_its_grace_and_leaves_no_agent() {
    for name in ["TERM", "INT", "QUIT"] {
        let (bench, mut server, running, waiting) = busy();
        server.signal(name);
        let (status, took) = server.wait();
        assert!(status.success(), "{name}: {status:?}");
        // And what a busy machine adds; the agent would run for a minute.
        assert!(took < GRACE + Duration::from_secs(10), "{name}: {took:?}");
        assert_eq!(bench.alive(), [], "{name}");
        assert!(!bench.data.join("server.json").exists());
        assert!(server.log().contains(&format!("job {running} ended failed")), "{}", server.log());
        assert_settled(&bench, &running, &waiting);
    }
}

/// The whole budget: INT at once, TERM at 40 %, KILL at the end.
#[test]
fn g16_a_job_gets_its_whole_grace_and_no_more() {
    const WHOLE_MS: i64 = 2_500;
    const MUCH_LATER_MS: i64 = 15_000;
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"2500ms\"");
    // Without a process of its own for the time, which the signal would end too.
    let agent = "now() { read -r up idle < /proc/uptime; echo \"$up\"; }
trap 'now > \"$OUT/INT\"' INT; trap 'now > \"$OUT/TERM\"' TERM
echo ready > \"$OUT/ready\"; while :; do now > \"$OUT/last.new\"; mv \"$OUT/last.new\" \"$OUT/last\"
sleep 0.02; done";
    bench.word_kind("deaf", "timeout = \"60s\"", agent);
    let mut server = bench.serve();
    bench.job("deaf", json!({}));
    bench.wait_left("ready");
    let uptime = |text: &str| {
        let seconds: f64 = text.split(' ').next().unwrap().trim().parse().unwrap();
        (seconds * 1_000.0) as i64
    };
    let told = uptime(&std::fs::read_to_string("/proc/uptime").unwrap());
    server.signal("TERM");
    let (status, took) = server.wait();
    assert!(status.success(), "{status:?}: {}", server.log());
    let after = |name: &str| uptime(&bench.left(name)) - told;
    let [int, term, last] = ["INT", "TERM", "last"].map(after);
    // A busy machine makes each of them later, never earlier, and the agent would live a minute.
    assert!(int >= -10, "INT after {int} ms");
    assert!(
        term >= WHOLE_MS * 4 / 10 - 20 && int < term,
        "INT after {int} ms, TERM after {term} ms"
    );
    assert!(last >= term, "alive for {last} ms, TERM after {term} ms");
    let took = took.as_millis() as i64;
    assert!((WHOLE_MS - 20..MUCH_LATER_MS).contains(&took), "ended after {took} ms");
    assert_eq!(bench.alive(), []);
}

#[test]
fn g16_a_second_signal_ends_it_at_once() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"20s\"");
    bench.word_kind("deaf", "timeout = \"60s\"", DEAF);
    let mut server = bench.serve();
    bench.job("deaf", json!({}));
    bench.wait_left("ready");
    server.signal("TERM");
    until("it stops", || server.log().contains("stopping"));
    server.signal("TERM");
    let (status, took) = server.wait();
    assert_eq!(status.code(), Some(1));
    assert!(took < Duration::from_secs(10), "half of the grace is not over: {took:?}");
    // The guard lost its server and has the whole grace for its agent: it is ended by hand here.
    for (pid, _) in bench.alive() {
        crate::support::shell(&format!("kill -KILL {pid} 2>/dev/null || true"));
    }
}

/// Fails with `WB_WITHOUT=site_lock`.
#[test]
fn g17_a_second_server_is_refused_and_touches_nothing() {
    let (bench, server, running, waiting) = busy();
    let facts = server.facts();
    let token = bench.operator();
    // What a commit writes stands in the log; the second one writes none, not even of a migration.
    let file = |name: &str| std::fs::read(bench.data.join(name)).unwrap();
    let rows =
        || ([bench.show(&running), bench.show(&waiting)], [file("wiki.db"), file("wiki.db-wal")]);
    // What a start does by itself is over once nothing was written for a while.
    bench.wait_indexed();
    let (mut last, mut quiet) = (Vec::new(), 0);
    until("the first server rests", || {
        let now = file("wiki.db-wal");
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
        quiet == 30
    });
    let before = rows();
    let mut second = bench.start(&[]);
    let (status, took) = second.wait();
    assert_eq!(status.code(), Some(5), "{}", second.log());
    assert!(took < Duration::from_secs(6), "{took:?}");
    let said = second.log();
    let pid = server.pid().to_string();
    assert!(said.contains("another server") && said.contains(&pid), "{said}");
    assert!(said.contains("hint: stop it first"), "{said}");
    assert!(before == rows());
    assert_eq!((facts, token), (server.facts(), bench.operator()));
    assert_eq!(bench.get("/readyz").status, 200);
}

/// A process of somebody else, which must live through everything.
struct Innocent(Child);

impl Innocent {
    #[allow(clippy::disallowed_methods, reason = "a test plays somebody else")]
    fn new(mark: &str) -> Innocent {
        Innocent(Command::new("/bin/sleep").arg("60").env(MARK, mark).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Innocent {
    fn drop(&mut self) {
        // It is ours; nothing else is to be said if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The row of a job names a process that is not its guard, with all that the row can prove: only
/// the mark is another job's. (What `WB_WITHOUT=identity` leaves out is tested where no row can
/// lead a signal astray any more, on the function itself.)
#[test]
fn g10_a_restarted_server_signals_nobody_elses_process() {
    let (bench, server, running, waiting) = busy();
    server.kill();
    bench.quiet();
    let mut innocents = [Innocent::new("018bcfe5-6800-7000-8000-000000000000"), Innocent::new("")];
    for innocent in &mut innocents {
        let pid = innocent.pid();
        forge(&bench, &running, pid);
        let server = bench.serve();
        let row = bench.ended(&running);
        assert_eq!(row["reason"], "server_restarted");
        server.kill();
        bench.quiet();
        assert!(innocent.is_alive());
    }
    assert!(innocents.iter_mut().all(Innocent::is_alive));
    let server = bench.serve();
    // The one that waited ran on one of these servers, and was not taken for the other's.
    bench.ended(&waiting);
    server.stop();
}

/// Writes into a job's row, while no server runs, that it runs and that its guard is `pid`.
fn forge(bench: &Bench, job: &str, pid: i32) {
    let (job, start) = (job.to_owned(), start_time(pid).unwrap());
    let (start, boot) = (i64::try_from(start).unwrap(), boot_id().unwrap());
    let file = bench.data.join("wiki.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (store, writer) = Store::open(&file, MIGRATIONS, Clock::system()).unwrap();
        let stop = CancellationToken::new();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(writer.serve(stop.clone()));
        let forged = store.write(move |tx| {
            let sql = "UPDATE agent_jobs SET status = 'running', reason = NULL, lane_slot = NULL,
                    completed_ms = NULL, ending_ms = NULL, error_tail = NULL,
                    guard_pid = :pid, guard_start = :start, boot_id = :boot WHERE id = :id";
            let params = named_params! {":pid": pid, ":start": start, ":boot": boot, ":id": job};
            Ok(tx.prepare_cached(sql)?.execute(params)?)
        });
        assert_eq!(forged.await.unwrap(), 1);
        stop.cancel();
        tasks.join_all().await;
    });
}
