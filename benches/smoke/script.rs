//! A script of 300 kinds: load time, the cost of a function call, and the effect of a reload on
//! requests.

use std::path::Path;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wiki_browser::script::{self, Lane, Loaded};

use crate::Asked;
use crate::report::{Aim, Report, median, percentile};
use crate::site::{Outcome, Server, Site, progress};
use crate::wire::Line;

const KINDS: usize = 300;
/// How long a client rests between two requests: what is measured is a delay, not a queue.
const PACE: Duration = Duration::from_millis(2);
/// How long the operator rests between two reloads.
const RELOADS_PAUSE: Duration = Duration::from_millis(100);
const ASKS: usize = 2_000;

/// Loads, calls and reloads, the last beside the same requests without a reload.
pub(crate) async fn measure(asked: &Asked, base: &Path, report: &mut Report) -> Outcome<()> {
    let site = Site::new(base, "script", 2)?;
    let file = site.top.join("wiki-browser.lua");
    let base = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("{base}{}", plain_kinds()))?;
    loading(asked, &file, "loading 300 plain kinds", report)?;
    std::fs::write(&file, base + &kinds())?;
    let loaded = loading(asked, &file, "loading 300 kinds", report)?;
    calling(asked, &loaded, report).await?;
    drop(loaded);
    reloading(asked, &site, report).await
}

/// Kinds as an operator writes them: a lane, inputs, and a template of some lines.
fn kinds() -> String {
    let one = |number: usize| {
        let lane = if number == 0 {
            "function(job) return job.inputs.source_path:lower() .. \":a\" end"
        } else {
            "\"source_path\""
        };
        format!(
            r#"wb.kind "kind_{number}" {{
  about = "Rewrites a document, way {number}", engine = "true",
  timeout = "10m", lane = {lane}, produces = "proposal",
  inputs = {{
    source_path = wb.input.source(),
    sha = wb.input.blob {{ from = "source_path" }},
    tone = wb.input.choice {{ choices = {{ "dry", "warm" }}, default = "dry" }},
  }},
  prompt = [[
Path: {{{{source_path}}}} at {{{{sha}}}}
Tone: {{{{tone}}}}
Use {{{{wb_agent}}}} in {{{{root}}}}.
]],
}}
"#
        )
    };
    (0..KINDS).map(one).collect()
}

/// Kinds with one input and a prompt of one line.
fn plain_kinds() -> String {
    let one = |number: usize| {
        format!(
            r#"wb.kind "kind_{number}" {{
  about = "Looks at a document, way {number}",
  engine = "true",
  timeout = "10m",
  inputs = {{ source_path = wb.input.source() }},
  prompt = "Look at {{{{source_path}}}}.",
}}
"#
        )
    };
    (0..KINDS).map(one).collect()
}

fn loading(
    asked: &Asked,
    file: &Utf8Path,
    title: &'static str,
    report: &mut Report,
) -> Outcome<Loaded> {
    let mut took = Vec::new();
    let mut last = None;
    for _ in 0..asked.rounds * 20 {
        let begin = Instant::now();
        let loaded = script::load(file).map_err(|it| format!("{it:?}"))?;
        took.push(begin.elapsed().as_secs_f64() * 1_000.0);
        last = Some(loaded);
    }
    let bytes = std::fs::metadata(file)?.len();
    let about = format!("{} KB; p99 {:.1} ms", bytes / 1_000, percentile(&took, 99));
    report.figure("script", title, median(&took), "ms", Aim::AtMost(5.0), about);
    last.ok_or_else(|| "no round".into())
}

async fn calling(asked: &Asked, loaded: &Loaded, report: &mut Report) -> Outcome<()> {
    let kind = loaded.config.kinds.get("kind_0").ok_or("the kind is there")?;
    let Some(Lane::Function(slot)) = &kind.lane else { return Err("it has a function".into()) };
    let arg = json!({"kind": "kind_0", "inputs": {"source_path": "docs/page-01.md"}});
    let mut took = Vec::new();
    for _ in 0..asked.rounds * ASKS {
        let begin = Instant::now();
        loaded.vm.ask("lane of kind_0", slot, arg.clone()).await?;
        took.push(begin.elapsed().as_secs_f64() * 1_000_000.0);
    }
    let about = format!("p99 {:.0} µs of {} calls", percentile(&took, 99), took.len());
    report.figure("script", "a function's answer", median(&took), "µs", Aim::AtMost(50.0), about);
    Ok(())
}

async fn reloading(asked: &Asked, site: &Site, report: &mut Report) -> Outcome<()> {
    let (server, _) = site.serve().await?;
    let (mut with, mut without, mut reloads) = (Vec::new(), Vec::new(), 0);
    for round in 0..asked.rounds {
        progress(&format!("reloading, round {}", round + 1));
        without.extend(paced(&server, asked.seconds).await?);
        let end = CancellationToken::new();
        let asking = async {
            let took = paced(&server, asked.seconds).await;
            end.cancel();
            took
        };
        let (took, count) = tokio::join!(asking, reload_until(&server, &end));
        with.extend(took?);
        reloads += count?;
    }
    let (of_reload, of_none) = (percentile(&with, 99), percentile(&without, 99));
    let about = format!(
        "p99 {of_reload:.2} ms beside {of_none:.2} ms; {reloads} reloads, {} requests",
        with.len()
    );
    let delay = of_reload - of_none;
    report.figure("script", "a reload delays others by", delay, "ms", Aim::AtMost(5.0), about);
    server.stop()
}

/// Asks for a list again and again with a rest between; returns the milliseconds of each answer.
async fn paced(server: &Server, seconds: f64) -> Outcome<Vec<f64>> {
    let request = server.request("GET", "/api/agent/jobs?limit=20", None);
    let mut line = Line::connect(&server.socket).await?;
    let (mut took, end) = (Vec::new(), Instant::now() + Duration::from_secs_f64(seconds * 3.0));
    while Instant::now() < end {
        let begin = Instant::now();
        let (status, _) = line.ask(&request).await?;
        took.push(begin.elapsed().as_secs_f64() * 1_000.0);
        if status != 200 {
            return Err(format!("a list: {status}").into());
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(took)
}

/// Reloads the script, which has not changed, until it is told to stop; returns how often.
async fn reload_until(server: &Server, end: &CancellationToken) -> Outcome<usize> {
    let mut count = 0;
    while !end.is_cancelled() {
        let answer = server.post("/api/config/reload", "{}").await?;
        if answer["ok"] != true {
            return Err(format!("a reload: {answer}").into());
        }
        count += 1;
        tokio::time::sleep(RELOADS_PAUSE).await;
    }
    Ok(count)
}
