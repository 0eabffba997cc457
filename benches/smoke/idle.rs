//! A server with a million jobs: time until it serves, memory, wake-ups, and the time of its lists.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Asked;
use crate::million::Large;
use crate::report::{Aim, Report, median, percentile};
use crate::site::{Outcome, Server, Site, progress};
use crate::wire::Line;

/// How long a server is left alone before it is looked at.
const REST: Duration = Duration::from_secs(3);
/// Longest answer of a list, in milliseconds, as the issue of this benchmark has it.
const LIST_MS_MAX: f64 = 5.0;

/// The filters of `GET /api/agent/jobs`. Those that find little or nothing are the hard ones.
const FILTERS: [(&str, &str); 16] = [
    ("none", ""),
    ("status", "status=failed"),
    ("status, rare", "status=cancelled"),
    ("status, nothing", "status=running"),
    ("kind", "kind=audit"),
    ("kind, rare and old", "kind=once"),
    ("kind + status", "kind=incorporate&status=succeeded"),
    ("kind + status, rare and old", "kind=once&status=succeeded"),
    ("kind + status, nothing", "kind=audit&status=failed"),
    ("source", "source_path=docs/page-0014.md"),
    ("source + status, nothing", "source_path=docs/page-0014.md&status=running"),
    ("source of a tenth of all + kind, nothing", "source_path=docs/page-0000.md&kind=once2"),
    (
        "source of a tenth + kind + status, nothing",
        "source_path=docs/page-0000.md&kind=audit&status=timed_out",
    ),
    ("topic", "topic_id=018bcfe5-6800-7000-9000-000000000007"),
    (
        "topic + kind + status, nothing",
        "topic_id=018bcfe5-6800-7000-9000-000000000007&kind=once&status=failed",
    ),
    ("a page in the middle", "after=018bcfe5-6800-7000-8000-000000007a12&status=failed"),
];

/// Start-up, memory, wake-ups, each beside a server with an empty database.
pub(crate) async fn measure(
    asked: &Asked,
    base: &Path,
    large: &Large,
    report: &mut Report,
) -> Outcome<()> {
    let empty = Site::new(base, "empty", 2)?;
    empty.serve().await?.0.stop()?;
    let mut pairs = Vec::new();
    for _ in 0..asked.rounds {
        let (server, of_empty) = empty.serve().await?;
        server.stop()?;
        let (server, of_large) = large.site.serve().await?;
        server.stop()?;
        pairs.push((of_large.as_secs_f64() * 1_000.0, of_empty.as_secs_f64() * 1_000.0));
    }
    let ours = median(&pairs.iter().map(|it| it.0).collect::<Vec<_>>());
    let theirs = median(&pairs.iter().map(|it| it.1).collect::<Vec<_>>());
    let about = format!("to the first answer; with an empty database {theirs:.0} ms");
    report.figure("idle", "start-up", ours, "ms", Aim::AtMost(150.0), about);
    let (server, _) = large.site.serve().await?;
    tokio::time::sleep(REST).await;
    let fresh = Memory::of(server.pid())?;
    let seconds = (asked.seconds * 15.0).max(5.0);
    progress(&format!("counting wake-ups for {seconds:.0} s"));
    let (before, begin) = (wakeups(server.pid())?, Instant::now());
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let count = woken_since(&before, server.pid())?;
    let per_minute = count / begin.elapsed().as_secs_f64() * 60.0;
    report.figure(
        "idle",
        "resident memory",
        fresh.resident_mb,
        "MB",
        Aim::AtMost(20.0),
        fresh.about(),
    );
    report.figure("idle", "wake-ups of all threads", per_minute, "a minute", Aim::None, "");
    // What a site holds after some use: all filters, many times.
    for _ in 0..100 {
        sample(&server).await?;
    }
    tokio::time::sleep(REST).await;
    let used = Memory::of(server.pid())?;
    let name = "resident memory after 1,600 lists";
    report.figure("idle", name, used.resident_mb, "MB", Aim::None, used.about());
    server.stop()
}

/// The newest 20 under each filter; the slowest filter decides.
pub(crate) async fn lists(asked: &Asked, large: &Large, report: &mut Report) -> Outcome<()> {
    let (server, _) = large.site.serve().await?;
    let cold = sample(&server).await?;
    let mut all: Vec<Vec<f64>> = vec![Vec::new(); FILTERS.len()];
    for _ in 0..asked.rounds * 20 {
        for (place, ms) in sample(&server).await?.into_iter().enumerate() {
            all[place].push(ms);
        }
    }
    for (((name, _), samples), cold) in FILTERS.iter().zip(&all).zip(cold) {
        let about = format!("p99 {:.2} ms; the very first {cold:.1} ms", percentile(samples, 99));
        let (name, aim) = (format!("newest 20, filter: {name}"), Aim::AtMost(LIST_MS_MAX));
        report.figure("lists", name, median(samples), "ms", aim, about);
    }
    server.stop()
}

/// Asks for each list once; returns the milliseconds of each.
async fn sample(server: &Server) -> Outcome<Vec<f64>> {
    let mut line = Line::connect(&server.socket).await?;
    let mut took = Vec::new();
    for (name, query) in FILTERS {
        let target = format!("/api/agent/jobs?limit=20&{query}");
        let request = server.request("GET", target.trim_end_matches('&'), None);
        let begin = Instant::now();
        let (status, body) = line.ask(&request).await?;
        took.push(begin.elapsed().as_secs_f64() * 1_000.0);
        if status != 200 {
            let said = String::from_utf8_lossy(body);
            return Err(format!("filter {name}: {status}: {said}").into());
        }
    }
    Ok(took)
}

/// What `/proc/PID/status` says.
struct Memory {
    resident_mb: f64,
    own_mb: f64,
    threads: f64,
}

impl Memory {
    fn of(pid: u32) -> Outcome<Memory> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| field(&text, name).unwrap_or(f64::NAN);
        Ok(Memory {
            resident_mb: field("VmRSS") / 1024.0,
            own_mb: field("RssAnon") / 1024.0,
            threads: field("Threads"),
        })
    }

    fn about(&self) -> String {
        format!("{:.1} MB of it its own, not of files; {:.0} threads", self.own_mb, self.threads)
    }
}

fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|it| it.split(':').next() == Some(name))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// How often each thread of a process was given a processor, by its own will or not.
pub(crate) fn wakeups(pid: u32) -> Outcome<BTreeMap<OsString, f64>> {
    let mut all = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        // One that ends meanwhile is none that counts.
        let Ok(text) = std::fs::read_to_string(task.path().join("status")) else { continue };
        let count = |name: &str| field(&text, name).unwrap_or(0.0);
        let both = count("voluntary_ctxt_switches") + count("nonvoluntary_ctxt_switches");
        all.insert(task.file_name(), both);
    }
    Ok(all)
}

/// Returns how often the threads that are there were woken since; what ended ones did is not known.
pub(crate) fn woken_since(before: &BTreeMap<OsString, f64>, pid: u32) -> Outcome<f64> {
    let now = wakeups(pid)?;
    Ok(now.iter().map(|(task, it)| it - before.get(task).unwrap_or(&0.0)).sum())
}
