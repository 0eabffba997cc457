//! Single reads and durable enqueueing over kept connections, against an empty reply.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::Asked;
use crate::jobs::settled;
use crate::report::{Aim, Report};
use crate::site::{Outcome, Server, Site};
use crate::wire::{Load, load};

/// Connections of a sample.
const CONNECTIONS: usize = 32;
/// Jobs that are read in turns.
const JOBS_READ: usize = 50;

pub(crate) async fn measure(asked: &Asked, site: &Site, report: &mut Report) -> Outcome<()> {
    let (server, _) = site.serve().await?;
    let jobs = fill(&server).await?;
    let topic = server
        .post(
            "/api/topics",
            &json!({
                "source_path": "docs/page-00.md", "body": "Is this so?",
                "selection": {"quote": "A sentence that somebody may mark."},
            })
            .to_string(),
        )
        .await?;
    let topic = topic["id"].as_str().unwrap_or_default().to_owned();
    let get = |targets: Vec<String>| {
        Arc::new(targets.iter().map(|it| server.request("GET", it, None)).collect::<Vec<_>>())
    };
    let empty = Arc::new(vec![server.request("GET", "/healthz", None)]);
    let job = get(jobs.iter().map(|it| format!("/api/agent/jobs/{it}")).collect());
    let topic = get(vec![format!("/api/topics/{topic}")]);
    let me = get(vec!["/api/me".to_owned()]);
    // Far in the future: accepted, durable, and never started.
    let body = json!({"kind": "true", "not_before": "2100-01-01T00:00:00Z"}).to_string();
    let enqueue = Arc::new(vec![server.request("POST", "/api/agent/jobs", Some(&body))]);
    let mut all: [Vec<(Load, Load)>; 4] = Default::default();
    for _ in 0..asked.rounds {
        for (place, requests) in [&job, &topic, &me, &enqueue].into_iter().enumerate() {
            let theirs = load(&server, &empty, CONNECTIONS, asked.seconds).await?;
            // 10,000 jobs may wait in all.
            let seconds = if place == 3 { asked.seconds.min(0.2) } else { asked.seconds };
            all[place].push((load(&server, requests, CONNECTIONS, seconds).await?, theirs));
            if place == 3 {
                cancel_waiting(&server)?;
            }
        }
    }
    let names = [
        ("GET one job", Aim::AtLeast(0.45)),
        ("GET one Topic", Aim::AtLeast(0.45)),
        ("GET who am I (the credential alone)", Aim::None),
        ("POST a job, durable", Aim::None),
    ];
    for ((name, aim), samples) in names.into_iter().zip(all) {
        let pairs: Vec<(f64, f64)> =
            samples.iter().map(|(ours, empty)| (ours.rate, empty.rate)).collect();
        let of = |value: fn(&(Load, Load)) -> f64| {
            crate::report::median(&samples.iter().map(value).collect::<Vec<_>>())
        };
        let (p99, cpu, cpu_empty) =
            (of(|it| it.0.p99_ms), of(|it| it.0.cpu_us), of(|it| it.1.cpu_us));
        report.ratio("read", name, &pairs, aim, |ours, theirs| {
            format!(
                "{ours:.0}/s (p99 {p99:.1} ms, {cpu:.0} µs of the server's processor each); \
                 empty {theirs:.0}/s ({cpu_empty:.0} µs)"
            )
        });
    }
    server.stop()
}

/// Makes some jobs to be read, and lets them end.
async fn fill(server: &Server) -> Outcome<Vec<String>> {
    let mut ids = Vec::new();
    for _ in 0..JOBS_READ {
        let made: Value = server.post("/api/agent/jobs", r#"{"kind":"true"}"#).await?;
        ids.push(made["job_id"].as_str().unwrap_or_default().to_owned());
    }
    settled(server, Instant::now()).await?;
    Ok(ids)
}

/// Takes the enqueued jobs back, aside of all measuring: the next sample begins with few again.
fn cancel_waiting(server: &Server) -> Outcome<()> {
    let path = server.socket.with_file_name("wiki.db");
    let connection = rusqlite::Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.execute(
        "UPDATE agent_jobs SET status = 'cancelled', completed_ms = created_ms, ready = 0
         WHERE status = 'queued'",
        [],
    )?;
    Ok(())
}
