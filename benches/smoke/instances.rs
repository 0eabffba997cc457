//! Messages: to inboxes compared with plain jobs, and to long-running agents.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Asked;
use crate::idle::{wakeups, woken_since};
use crate::jobs::settled;
use crate::report::{Aim, Report};
use crate::site::{Outcome, Server, Site, progress};
use crate::wire::Line;
use crate::{legs, terminals};

/// Agents that are left alone, and agents that are taken over.
const IDLE: usize = 20;
const KEPT: usize = 50;
/// How long agents may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// An agent without a process of its own for what it says.
const ECHO: &str = concat!(
    r#"while read -r l; do id=${l#*'"id":"'}; id=${id%%'"'*}; "#,
    r#"printf '{"turn":"ended","id":"%s","text":"x"}\n' "$id"; done"#
);

/// The parts, in their order.
pub(crate) const PARTS: [&str; 6] =
    ["accepted", "hooks", "worktrees", "resumed", "terminals", "agents"];

/// All of it, or one part.
pub(crate) async fn measure(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    for part in PARTS {
        if asked.part.as_deref().is_some_and(|it| it != part) {
            continue;
        }
        match part {
            "accepted" => accepted(asked, base, report).await?,
            "hooks" => hooked(asked, base, report).await?,
            "worktrees" => legs::worktrees(asked, base, report).await?,
            "resumed" => legs::resumed(asked, base, report).await?,
            "terminals" => terminals::measure(asked, base, report).await?,
            _ => agents(asked, base, report).await?,
        }
    }
    Ok(())
}

/// A site with the declarations of this measurement after its own.
pub(crate) fn site(base: &Path, name: &str, (jobs, more): (u32, &str)) -> Outcome<Site> {
    let site = Site::new(base, name, jobs)?;
    let path = site.top.join("wiki-browser.lua");
    let limits = format!("grace = \"2s\", agents = {KEPT}");
    let text = std::fs::read_to_string(&path)?.replace("grace = \"2s\"", &limits);
    std::fs::write(&path, text + more)?;
    Ok(site)
}

/// How many messages to an inbox are accepted a second, against jobs of a kind: neither starts,
/// because the only place is taken.
async fn accepted(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let more = r#"
wb.engine "long" { type = "process", command = { "/bin/sleep", "600" }, prompt = "stdin" }
wb.kind "long" { about = "Holds the place", engine = "long", timeout = "20m", prompt = "x" }
wb.inbox "t/none" { about = "Waits", engine = "true", timeout = "1m" }
"#;
    let site = site(base, "accepted", (1, more))?;
    let (server, _) = site.serve().await?;
    server.post("/api/agent/jobs", r#"{"kind":"long"}"#).await?;
    let count = (asked.seconds * 200.0) as usize;
    let job = server.request("POST", "/api/agent/jobs", Some(r#"{"kind":"true"}"#));
    let body = r#"{"to":"topic:t/none","payload":{"a":1}}"#;
    let message = server.request("POST", "/api/messages", Some(body));
    let mut pairs = Vec::new();
    for _ in 0..asked.rounds {
        let theirs = rate(&server, &job, count).await?;
        pairs.push((rate(&server, &message, count).await?, theirs));
    }
    let name = "POST a message to an inbox / POST a job";
    report.ratio("instances", name, &pairs, Aim::AtLeast(0.8), |ours, theirs| {
        format!("{ours:.0}/s; jobs {theirs:.0}/s, over 8 connections")
    });
    server.stop()
}

async fn rate(server: &Server, request: &[u8], count: usize) -> Outcome<f64> {
    let request = Arc::new(request.to_vec());
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (request, mut line) = (Arc::clone(&request), Line::connect(&server.socket).await?);
        tasks.spawn(async move {
            for _ in 0..count.div_ceil(8) {
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
    Ok((count.div_ceil(8) * 8) as f64 / begin.elapsed().as_secs_f64())
}

/// An instance with two hooks, against three jobs of the same command.
async fn hooked(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let more = r#"
wb.engine "ok" {
  type = "process", prompt = "stdin",
  command = { "/bin/sh", "-c", "echo ok > ${STATUS_PATH:-/dev/null}" },
}
wb.kind "ok" { about = "As the inbox does", engine = "ok", timeout = "1m", prompt = "x" }
wb.inbox "t/ok" {
  about = "Two hooks", engine = "ok", timeout = "1m", concurrency = 2,
  prepare = "true", cleanup = "true",
}
"#;
    let site = site(base, "hooked", (2, more))?;
    let (server, _) = site.serve().await?;
    let count = (asked.seconds * 40.0).max(8.0) as usize;
    let message = r#"{"to":"topic:t/ok","payload":1}"#;
    let mut pairs = Vec::new();
    for _ in 0..asked.rounds {
        let theirs = all(&server, ("/api/agent/jobs", r#"{"kind":"ok"}"#), 3 * count).await?;
        pairs.push((all(&server, ("/api/messages", message), count).await?, theirs));
    }
    let name = "an instance with two hooks of `true` / three jobs";
    report.ratio("instances", name, &pairs, Aim::AtMost(1.3), |ours, theirs| {
        format!("{:.1} ms each; three jobs {:.1} ms", ours / count as f64, theirs / count as f64)
    });
    server.stop()
}

/// Posts so many, and waits until all is done; returns the milliseconds.
pub(crate) async fn all(
    server: &Server,
    (target, body): (&str, &str),
    count: usize,
) -> Outcome<f64> {
    let begin = Instant::now();
    let request = server.request("POST", target, Some(body));
    rate(server, &request, count).await?;
    settled(server, begin).await?;
    Ok(begin.elapsed().as_secs_f64() * 1_000.0)
}

/// Agents that wait cost nothing, and are taken over at once by the next server.
async fn agents(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    for count in [IDLE, KEPT] {
        let name = format!("agents-{count}");
        let site = site(base, &name, (2, &declared(count)))?;
        let (server, _) = site.serve().await?;
        until_all(&server, count).await?;
        if count == IDLE {
            let seconds = (asked.seconds * 60.0).max(10.0);
            progress(&format!("counting wake-ups for {seconds:.0} s"));
            tokio::time::sleep(Duration::from_secs(3)).await;
            let (before, begin) = (wakeups(server.pid())?, Instant::now());
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            let woken = woken_since(&before, server.pid())?;
            let per_minute = woken / begin.elapsed().as_secs_f64() * 60.0;
            let name = format!("wake-ups with {count} idle agents");
            report.figure("instances", name, per_minute, "a minute", Aim::AtMost(2.0), "");
            end(server).await?;
            continue;
        }
        let mut took = Vec::new();
        let mut server = server;
        for _ in 0..asked.rounds {
            server.kill()?;
            let begin = Instant::now();
            let started;
            (server, started) = site.serve().await?;
            answered(&server, count).await?;
            took.push((begin.elapsed(), started));
        }
        took.sort();
        let (whole, started) = took[took.len() / 2];
        let name = format!("{count} kept agents: from `kill -9` until each has answered again");
        let about = format!("{:.0} ms until it serves", started.as_secs_f64() * 1_000.0);
        let ms = whole.as_secs_f64() * 1_000.0;
        report.figure("instances", name, ms, "ms", Aim::AtMost(1_000.0), about);
        end(server).await?;
    }
    Ok(())
}

fn declared(count: usize) -> String {
    let command = format!("{{ \"/bin/sh\", \"-c\", [[{ECHO}]] }}");
    let fields = format!("type = \"stream\", speaks = \"lines\", command = {command}");
    let mut text = format!("wb.engine \"echo\" {{ {fields} }}\n");
    for number in 0..count {
        let fields = "about = \"Waits\", engine = \"echo\", autostart = \"always\"";
        text += &format!("wb.agent \"a{number}\" {{ {fields} }}\n");
    }
    text
}

pub(crate) async fn until_all(server: &Server, count: usize) -> Outcome<()> {
    let begin = Instant::now();
    loop {
        let all = server.get("/api/agents").await?;
        let items = all["items"].as_array().ok_or("no list of agents")?;
        if items.iter().filter(|it| it["state"] == "idle").count() == count {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err("the agents do not start".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends a message to each agent, and waits for all answers.
async fn answered(server: &Server, count: usize) -> Outcome<()> {
    let mut sent = Vec::new();
    for number in 0..count {
        let body = format!(r#"{{"to":"agent:a{number}","payload":1}}"#);
        let made = server.post("/api/messages", &body).await?;
        sent.push(made["message_id"].as_str().ok_or("no message was made")?.to_owned());
    }
    for id in sent {
        let told = server.get(&format!("/api/messages/{id}/await?timeout=30")).await?;
        if told["state"] != "replied" {
            return Err(format!("no answer: {told}").into());
        }
    }
    Ok(())
}

/// Ends the agents, which would outlive their server, and then the server.
pub(crate) async fn end(server: Server) -> Outcome<()> {
    let all = server.get("/api/agents").await?;
    for agent in all["items"].as_array().ok_or("no list of agents")? {
        let name = agent["name"].as_str().unwrap_or_default();
        server.post(&format!("/api/agents/{name}/stop"), "{}").await?;
    }
    settled(&server, Instant::now()).await?;
    server.stop()
}
