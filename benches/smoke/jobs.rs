//! Jobs of `true`: through the whole server, through a bare guard, and as a bare process.

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use tokio::task::JoinSet;
use wiki_browser::process::{Cgroups, Children, GuardEnd, GuardSpec, Launch, spawn_guard};

use crate::Asked;
use crate::report::{Aim, Report, median, percentile};
use crate::site::{Outcome, Server, Site};
use crate::wire::Line;

/// Longest time for one batch of jobs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Connections that enqueue.
const CONNECTIONS: usize = 8;
/// Slots of both sides in the comparisons.
pub(crate) const SLOTS: [usize; 2] = [2, 16];

/// Is the agent that says when it began: nanoseconds since 1970.
pub(crate) fn stamp() -> ExitCode {
    println!("{}", now_ns());
    ExitCode::SUCCESS
}

pub(crate) fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Starts guards as the server does, with the same launch file, and nothing around them.
pub(crate) struct BareGuards {
    launch: Launch,
    prompt: Vec<u8>,
    folder: Utf8PathBuf,
    next: AtomicU64,
    children: Children,
    cgroups: Cgroups,
}

impl BareGuards {
    /// Takes the launch file of a job that the server ran.
    pub(crate) async fn like(server: &Server, site: &Site, kind: &str) -> Outcome<BareGuards> {
        let id = run_one(server, kind).await?;
        let dir = site.data.join("jobs").join(&id);
        let launch: Launch = serde_json::from_slice(&std::fs::read(dir.join("launch.json"))?)?;
        let folder = site.data.join("bare");
        std::fs::create_dir_all(&folder)?;
        let (next, children) = (AtomicU64::new(0), Children::new());
        // Where there can be none, the server has none either.
        let cgroups = Cgroups::open(&folder).unwrap_or_default();
        Ok(BareGuards {
            launch,
            prompt: std::fs::read(dir.join("prompt"))?,
            folder,
            next,
            children,
            cgroups,
        })
    }

    /// Runs one to its end; returns its folder.
    async fn one(&self) -> Outcome<Utf8PathBuf> {
        let job =
            format!("bare-{}-{}", std::process::id(), self.next.fetch_add(1, Ordering::Relaxed));
        let job_dir = self.folder.join(&job);
        let spec = GuardSpec {
            program: env!("CARGO_BIN_EXE_wb-agent").into(),
            job_dir: job_dir.clone(),
            launch: Launch { job: job.clone(), ..self.launch.clone() },
            prompt: Some(self.prompt.clone()),
            secrets: vec![("WB_TOKEN".to_owned(), "wbj_0123456789".to_owned())],
            masked: Vec::new(),
            cgroups: self.cgroups.clone(),
            pane: None,
        };
        let end = spawn_guard(&self.children, spec).await?.wait().await;
        // As after every job: else the machine fills with empty cgroups.
        self.cgroups.end(&job, &self.folder, &job_dir).await?;
        match end {
            GuardEnd::Recorded(record) if record.code == Some(0) => Ok(job_dir),
            other => Err(format!("a bare guard ended so: {other:?}").into()),
        }
    }

    /// Runs some, so many at a time; returns how many a second.
    pub(crate) async fn rate(self: &Arc<Self>, count: usize, slots: usize) -> Outcome<f64> {
        let guards = Arc::clone(self);
        in_slots(count, slots, move || {
            let guards = Arc::clone(&guards);
            async move { guards.one().await.map(|_| ()) }
        })
        .await
    }
}

/// Does something `count` times, `slots` at a time; returns how often a second.
async fn in_slots<F, Fut>(count: usize, slots: usize, one: F) -> Outcome<f64>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Outcome<()>> + Send,
{
    let left = Arc::new(AtomicU64::new(count as u64));
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..slots {
        let (left, one) = (Arc::clone(&left), one.clone());
        tasks.spawn(async move {
            let take = |it: u64| it.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                one().await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

/// A process as the guard's parent would start it, and nothing else.
async fn bare_process() -> Outcome<()> {
    let mut command = tokio::process::Command::new("/bin/true");
    command.env_clear().process_group(0).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().await?.success() { Ok(()) } else { Err("true is false".into()) }
}

/// What a guard costs: a bare process against the same under a guard, two at a time.
pub(crate) async fn guard_overhead(asked: &Asked, site: &Site, report: &mut Report) -> Outcome<()> {
    let (server, _) = site.serve().await?;
    let guards = Arc::new(BareGuards::like(&server, site, "true").await?);
    server.stop()?;
    for slots in [1, 2] {
        let sample = guards.rate(20, slots).await?;
        let count = (sample * asked.seconds).clamp(20.0, 3_000.0) as usize;
        let mut pairs = Vec::new();
        for _ in 0..asked.rounds {
            let theirs = in_slots(count, slots, bare_process).await?;
            pairs.push((guards.rate(count, slots).await?, theirs));
        }
        let name = format!("guarded / bare `true`, {slots} at a time");
        report.ratio("guard", name, &pairs, Aim::None, |ours, theirs| {
            let costs = (1.0 / ours - 1.0 / theirs) * 1_000.0 * slots as f64;
            format!("{ours:.0}/s; bare {theirs:.0}/s; a guard costs {costs:.2} ms")
        });
    }
    Ok(())
}

/// The rate of durable jobs, from the first request to the last settled row.
pub(crate) async fn rate(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    for slots in SLOTS {
        let site = Site::new(base, &format!("jobs-{slots}"), u32::try_from(slots)?)?;
        let (server, _) = site.serve().await?;
        let guards = Arc::new(BareGuards::like(&server, &site, "true").await?);
        let warm = batch(&server, 60).await?;
        let count = (warm * asked.seconds * 1.5).clamp(60.0, 5_000.0) as usize;
        let mut pairs = Vec::new();
        for _ in 0..asked.rounds {
            let theirs = guards.rate(count, slots).await?;
            pairs.push((batch(&server, count).await?, theirs));
        }
        let aim = Aim::AtLeast(0.6);
        let name = format!("durable over HTTP / bare guards, {slots} slots");
        report.ratio("jobs", name, &pairs, aim, |ours, theirs| {
            format!("{ours:.0}/s; bare guards {theirs:.0}/s")
        });
        server.stop()?;
    }
    Ok(())
}

/// Enqueues so many jobs of `true` and waits until all are settled; returns how many a second.
pub(crate) async fn batch(server: &Server, count: usize) -> Outcome<f64> {
    let request = server.request("POST", "/api/agent/jobs", Some(r#"{"kind":"true"}"#));
    let (request, left) = (Arc::new(request), Arc::new(AtomicU64::new(count as u64)));
    let before = succeeded(server)?;
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (request, left) = (Arc::clone(&request), Arc::clone(&left));
        let mut line = Line::connect(&server.socket).await?;
        tasks.spawn(async move {
            let take = |it: u64| it.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                let (status, body) = line.ask(&request).await?;
                if status != 202 {
                    let said = String::from_utf8_lossy(body);
                    return Outcome::Err(format!("{status}: {said}").into());
                }
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    settled(server, begin).await?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let ended = succeeded(server)? - before;
    if ended != count as u64 {
        return Err(format!("{ended} of {count} jobs succeeded").into());
    }
    Ok(rate)
}

/// Waits until nothing waits and nothing runs.
pub(crate) async fn settled(server: &Server, begin: Instant) -> Outcome<()> {
    let mut line = Line::connect(&server.socket).await?;
    for status in ["queued", "running"] {
        let target = format!("/api/agent/jobs?status={status}&limit=1");
        let request = server.request("GET", &target, None);
        loop {
            let (_, body) = line.ask(&request).await?;
            let page: Value = serde_json::from_slice(body)?;
            if page["items"].as_array().is_some_and(Vec::is_empty) {
                break;
            }
            if begin.elapsed() > PATIENCE {
                return Err("the jobs do not end".into());
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
    Ok(())
}

/// Counts in the database itself, aside of what is measured.
fn succeeded(server: &Server) -> Outcome<u64> {
    let path = server.socket.with_file_name("wiki.db");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(path, flags)?;
    let count: i64 = connection.query_row(
        "SELECT COUNT(*) FROM agent_jobs WHERE status = 'succeeded'",
        [],
        |row| row.get(0),
    )?;
    Ok(count.unsigned_abs())
}

async fn run_one(server: &Server, kind: &str) -> Outcome<String> {
    let made = server.post("/api/agent/jobs", &format!(r#"{{"kind":"{kind}"}}"#)).await?;
    settled(server, Instant::now()).await?;
    Ok(made["job_id"].as_str().ok_or("no job was made")?.to_owned())
}

/// From the answer that accepts a job to the first instruction of its agent, with free slots.
pub(crate) async fn start_latency(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let site = Site::new(base, "start", 2)?;
    let (server, _) = site.serve().await?;
    let guards = BareGuards::like(&server, &site, "stamp").await?;
    let count = (asked.seconds * 60.0) as usize;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let mut pairs = Vec::new();
    for _ in 0..asked.rounds {
        let (mut of_ours, mut of_bare) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let at = now_ns();
            let folder = guards.one().await?;
            of_bare.push(stamped(&folder, at)?);
            of_ours.push(accepted_to_started(&server, &site).await?);
        }
        pairs.push((median(&of_ours), median(&of_bare)));
        ours.extend(of_ours);
        bare.extend(of_bare);
    }
    server.stop()?;
    let (p50, p99) = (percentile(&ours, 50), percentile(&ours, 99));
    let of_bare = (percentile(&bare, 50), percentile(&bare, 99));
    let about = format!(
        "p50 {p50:.1} ms of {} jobs; a bare guard from its spawn: p50 {:.1}, p99 {:.1} ms",
        ours.len(),
        of_bare.0,
        of_bare.1
    );
    report.figure("start", "accepted → agent runs, p99", p99, "ms", Aim::AtMost(10.0), about);
    report.ratio("start", "the same / bare guard, p50", &pairs, Aim::None, |ours, theirs| {
        format!("{ours:.2} ms; bare {theirs:.2} ms")
    });
    Ok(())
}

async fn accepted_to_started(server: &Server, site: &Site) -> Outcome<f64> {
    let made = server.post("/api/agent/jobs", r#"{"kind":"stamp"}"#).await?;
    let accepted = now_ns();
    let id = made["job_id"].as_str().ok_or("no job was made")?;
    settled(server, Instant::now()).await?;
    stamped(&site.data.join("jobs").join(id), accepted)
}

/// Returns the milliseconds from a time to the one that the agent in a job's folder printed.
fn stamped(dir: &Utf8Path, since_ns: u128) -> Outcome<f64> {
    let printed = std::fs::read_to_string(dir.join("stdout.log"))?;
    let at: u128 = printed.trim().parse()?;
    Ok((at as f64 - since_ns as f64) / 1_000_000.0)
}
