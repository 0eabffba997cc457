//! Instances with a worktree, and instances that are resumed after a decision.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Asked;
use crate::instances::{all, site};
use crate::jobs::now_ns;
use crate::report::{Aim, Report, percentile};
use crate::site::{Outcome, Server, Site, progress};

/// Worktrees that are made at once, and the files of each.
const WORKTREES: usize = 16;
const FILES: usize = 2_000;
/// How long a step of an instance may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks and ends; goes on by saying when.
const ASKS: &str = concat!(
    r#"if [ "$1" = new ]; then "#,
    r#"exec wb-agent approval create --channel bench --title "Go on?" --and-exit; fi; "#,
    r#""$STAMP" __stamp > "$STAMPS/$INSTANCE_ID.part"; "#,
    r#"mv "$STAMPS/$INSTANCE_ID.part" "$STAMPS/$INSTANCE_ID"; echo ok > "$STATUS_PATH""#,
);

/// Sixteen instances with a worktree each at once, against one by one.
pub(crate) async fn worktrees(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let fields = "engine = \"ok\", timeout = \"1m\", workspace = \"worktree\", repo = \".\"";
    let more = format!(
        r#"
wb.engine "ok" {{
  type = "process", prompt = "stdin", command = {{ "/bin/sh", "-c", "echo ok > $STATUS_PATH" }},
}}
wb.inbox "t/many" {{ about = "At once", concurrency = {WORKTREES}, {fields} }}
wb.inbox "t/one" {{ about = "One by one", concurrency = 1, {fields} }}
"#
    );
    let site = site(base, "worktrees", (16, &more))?;
    fill(&site)?;
    let (server, _) = site.serve().await?;
    let mut pairs = Vec::new();
    for round in 0..asked.rounds {
        progress(&format!("worktrees: round {}", round + 1));
        let one = all(&server, ("/api/messages", &to("t/one")), WORKTREES).await?;
        pairs.push((all(&server, ("/api/messages", &to("t/many")), WORKTREES).await?, one));
    }
    let name =
        format!("{WORKTREES} instances with a worktree of {FILES} files: at once / one by one");
    report.ratio("instances", name, &pairs, Aim::AtMost(0.35), |ours, theirs| {
        format!("{:.2} s; one by one {:.2} s", ours / 1_000.0, theirs / 1_000.0)
    });
    server.stop()
}

fn to(inbox: &str) -> String {
    format!(r#"{{"to":"topic:{inbox}","payload":1}}"#)
}

/// Commits the files of a larger repository.
fn fill(site: &Site) -> Outcome<()> {
    for number in 0..FILES {
        let folder = site.top.join(format!("src/part-{:02}", number % 40));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("file-{number:04}.txt")), format!("{number}\n").repeat(200))?;
    }
    for args in [
        &["add", "-A"][..],
        &["-c", "user.name=B", "-c", "user.email=b@example.org", "commit", "-q", "-m", "more"],
    ] {
        let done = Command::new("git").args(args).current_dir(&site.top).status()?;
        if !done.success() {
            return Err(format!("git {args:?} failed").into());
        }
    }
    Ok(())
}

/// From a decision to the first instruction of the process that goes on.
pub(crate) async fn resumed(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let this = std::env::current_exe()?;
    let stamps = base.join("stamps");
    fs::create_dir_all(&stamps)?;
    let more = format!(
        r#"
wb.engine "asks" {{
  type = "process", prompt = "stdin", env = {{ STAMPS = "{}", STAMP = "{}" }},
  command = {{ "/bin/sh", "-c", [[{ASKS}]], "sh" }},
  session = {{ "new", "{{{{session}}}}" }}, resume = {{ "old", "{{{{session}}}}" }},
}}
wb.inbox "t/asks" {{ about = "Asks", engine = "asks", timeout = "1m" }}
"#,
        stamps.display(),
        this.display()
    );
    let site = site(base, "resumed", (2, &more))?;
    let (server, _) = site.serve().await?;
    let mut took = Vec::new();
    for _ in 0..asked.rounds * 8 {
        took.push(decided_to_resumed(&server, &stamps).await?);
    }
    let about = format!("p50 {:.0} ms of {}", percentile(&took, 50), took.len());
    let name = "decision → the resumed process runs, p95";
    report.figure("instances", name, percentile(&took, 95), "ms", Aim::AtMost(250.0), about);
    server.stop()
}

async fn decided_to_resumed(server: &Server, stamps: &Path) -> Outcome<f64> {
    let made = server.post("/api/messages", &to("t/asks")).await?;
    let job = made["job_id"].as_str().ok_or("no job was made")?.to_owned();
    let begin = Instant::now();
    while server.get(&format!("/api/agent/jobs/{job}")).await?["status"] != "parked" {
        pause(begin, "a job is not parked").await?;
    }
    let pending = server.get("/api/approvals?state=pending").await?;
    let approval = &pending["items"][0];
    let id = approval["id"].as_str().ok_or("no approval waits")?;
    let body = format!(r#"{{"version":{}}}"#, approval["version"]);
    let decided = now_ns();
    server.post(&format!("/api/approvals/{id}/approve"), &body).await?;
    let (stamp, begin) = (stamps.join(&job), Instant::now());
    while !stamp.exists() {
        pause(begin, "a job does not go on").await?;
    }
    let at: u128 = fs::read_to_string(stamp)?.trim().parse()?;
    crate::jobs::settled(server, begin).await?;
    Ok((at as f64 - decided as f64) / 1_000_000.0)
}

async fn pause(begin: Instant, why: &str) -> Outcome<()> {
    if begin.elapsed() > PATIENCE {
        return Err(why.to_owned().into());
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    Ok(())
}
