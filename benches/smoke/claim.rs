//! The claim itself, in the real store: a million ended and ten thousand waiting jobs in one lane,
//! against tables that hold nothing but the job that is claimed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use wiki_browser::base::{Clock, Error, Result};
use wiki_browser::jobs::{Capacities, Caps, claim};
use wiki_browser::store::{MIGRATIONS, Store, Tx};

use crate::Asked;
use crate::million::Large;
use crate::report::{Aim, Report, median};
use crate::site::{Outcome, progress};

/// Claims of one sample.
const CLAIMS: usize = 200;

/// The lane is held by a running job; what is claimed is another job beside it.
const BESIDE: &str = "
    UPDATE agent_jobs SET status = 'running', started_ms = created_ms, ready = 0, lane_slot = 0
    WHERE seq = (SELECT MIN(seq) FROM agent_jobs WHERE lane_key = 'word=busy');
    INSERT INTO agent_jobs (id, kind, status, inputs_json, grants_json, requested_by, ready,
        created_ms, config_digest)
    VALUES ('018bcfe5-6800-7000-b000-000000000001', 'true', 'queued', '{}', '[]', 'system', 1,
        1800000000000, 'x')";
/// The lane is free again: what is claimed is its own next job.
const WITHIN: &str = "
    DELETE FROM agent_jobs WHERE lane_key IS NULL AND status = 'queued';
    UPDATE agent_jobs SET status = 'queued', started_ms = NULL, lane_slot = NULL, ready = 1
    WHERE status = 'running'";
/// What happens after each claim, aside of it: the job ends, another one waits at the lane's end,
/// and of the lane the first one is ready again. So the claims go through the lane as in life.
const AFTER_BESIDE: [&str; 2] = [
    "UPDATE agent_jobs SET status = 'succeeded', completed_ms = created_ms, token_hash = NULL
     WHERE seq = :seq",
    "INSERT INTO agent_jobs (id, kind, status, inputs_json, grants_json, requested_by, ready,
        created_ms, config_digest)
     SELECT printf('018bcfe5-6800-7000-b000-%012x', :seq), 'true', 'queued', '{}', '[]', 'system',
        1, 1800000000000, 'x'",
];
const AFTER_WITHIN: [&str; 3] = [
    "UPDATE agent_jobs SET status = 'succeeded', completed_ms = created_ms, lane_slot = NULL,
        token_hash = NULL
     WHERE seq = :seq",
    "INSERT INTO agent_jobs (id, kind, lane_key, status, inputs_json, grants_json, requested_by,
        ready, created_ms, config_digest)
     SELECT printf('018bcfe5-6800-7000-c000-%012x', :seq), 'later', 'word=busy', 'queued',
        '{\"word\":\"busy\"}', '[]', 'system', 0, 1790000000000 + :seq, 'x'",
    "UPDATE agent_jobs SET ready = 1 WHERE :seq > 0 AND seq = (
        SELECT seq FROM agent_jobs INDEXED BY jobs_waiting
        WHERE lane_key = 'word=busy' AND status = 'queued' AND ready >= 0
        ORDER BY priority DESC, seq LIMIT 1)",
];
const WAITING: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
    INSERT INTO agent_jobs (id, kind, lane_key, status, inputs_json, grants_json, requested_by,
        ready, created_ms, config_digest)
    SELECT printf('018bcfe5-6800-7000-a000-%012x', i), 'later', 'word=busy', 'queued',
        '{\"word\":\"busy\"}', '[]', 'system', 0, 1790000000000 + i, 'x' FROM n";

pub(crate) async fn measure(
    asked: &Asked,
    base: &Path,
    large: &Large,
    report: &mut Report,
) -> Outcome<()> {
    let base = Utf8Path::from_path(base).ok_or("the temporary folder is not UTF-8")?;
    let small = Side::open(base.join("claim.db"), 1)?;
    let large = Side::open(large.database.clone(), 10_000)?;
    progress("claiming");
    let stories: [(&str, &str, &'static [&'static str]); 2] = [
        ("beside a busy lane", BESIDE, &AFTER_BESIDE),
        ("the lane's next job", WITHIN, &AFTER_WITHIN),
    ];
    for (name, ground, after) in stories {
        small.prepare(ground)?;
        large.prepare(ground)?;
        small.sample(after).await?;
        large.sample(after).await?;
        let (mut claims, mut commits) = (Vec::new(), Vec::new());
        for _ in 0..asked.rounds {
            let (small, large) = (small.sample(after).await?, large.sample(after).await?);
            claims.push((large.claim_us, small.claim_us));
            commits.push((large.commit_us, small.commit_us));
        }
        let aim = Aim::AtMost(1.3);
        report.ratio(
            "claim",
            format!("{name}: full / empty tables"),
            &claims,
            aim,
            |full, empty| {
                let with_commit = median(&commits.iter().map(|it| it.0).collect::<Vec<_>>());
                let of_empty = median(&commits.iter().map(|it| it.1).collect::<Vec<_>>());
                format!(
                    "{full:.0} µs; empty {empty:.0} µs; with its commit {with_commit:.0} and \
                 {of_empty:.0} µs"
                )
            },
        );
    }
    large.close().await;
    small.close().await;
    Ok(())
}

struct Side {
    path: Utf8PathBuf,
    store: Store,
    stop: CancellationToken,
    writer: tokio::task::JoinHandle<()>,
}

/// Medians of one sample.
struct Sample {
    claim_us: f64,
    commit_us: f64,
}

impl Side {
    fn open(path: Utf8PathBuf, waiting: u32) -> Outcome<Side> {
        let (store, writer) = Store::open(&path, MIGRATIONS, Clock::system())?;
        let stop = CancellationToken::new();
        let writer = tokio::spawn(writer.serve(stop.clone()));
        let connection = Connection::open(&path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.execute(WAITING, [waiting])?;
        Ok(Side { path, store, stop, writer })
    }

    fn prepare(&self, ground: &str) -> Outcome<()> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(connection.execute_batch(ground)?)
    }

    async fn sample(&self, after: &'static [&'static str]) -> Outcome<Sample> {
        let (mut claims, mut commits) = (Vec::new(), Vec::new());
        for number in 0..CLAIMS {
            let begin = Instant::now();
            let token = format!("claim-{number}");
            let took = self.store.write(move |tx| one(tx, &token, after)).await?;
            commits.push(begin.elapsed().as_secs_f64() * 1e6);
            claims.push(took.as_secs_f64() * 1e6);
        }
        Ok(Sample { claim_us: median(&claims), commit_us: median(&commits) })
    }

    async fn close(self) {
        self.stop.cancel();
        // A writer that panicked has said so already.
        let _ = self.writer.await;
    }
}

/// Claims, and does the rest in the same transaction; returns how long the claim took.
fn one(tx: &Tx<'_>, token: &str, after: &[&'static str]) -> Result<Duration> {
    let caps = Caps::new(4, BTreeMap::new(), Capacities::default());
    let begin = Instant::now();
    let claimed = claim(tx, &caps, token, "x")?;
    let took = begin.elapsed();
    let job = claimed.ok_or_else(|| Error::internal("nothing could be claimed"))?;
    for sql in after {
        tx.prepare_cached(sql)?.execute([job.seq])?;
    }
    Ok(took)
}
