//! `scripts/bench smoke`: both sides of every comparison interleaved in one run, medians of rounds.
//!
//! **Invariant:** nothing leaves the machine, and every process that is started here is ended here.
#![allow(clippy::disallowed_methods, reason = "a benchmark plays clients, peers and the operator")]

mod channels;
mod chat;
mod claim;
mod idle;
mod instances;
mod jobs;
mod legs;
mod million;
mod model;
mod peers;
mod reads;
mod report;
mod script;
mod search;
mod site;
mod terminals;
mod wire;

use std::process::ExitCode;

use report::Report;

/// What a person asked for on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Rounds of which the median counts.
    pub(crate) rounds: usize,
    /// Jobs of the large database.
    pub(crate) rows: u32,
    /// Seconds of one sample of load.
    pub(crate) seconds: f64,
    /// The only measurement that is wanted.
    pub(crate) only: Option<String>,
    /// The only part of it that is wanted; only `instances` has parts.
    pub(crate) part: Option<String>,
    /// JSON instead of a table.
    pub(crate) is_json: bool,
}

/// The measurements, in their order: name, what it is.
const ALL: [(&str, &str); 12] = [
    ("reads", "single reads and durable enqueueing against an empty reply"),
    ("guard", "a bare process, and the same under a guard"),
    ("jobs", "durable jobs over HTTP against bare guards, and against other queues"),
    ("start", "from the acceptance of a job to the first instruction of its agent"),
    ("idle", "start-up, memory and wake-ups with a million jobs"),
    ("lists", "the newest 20 of a million jobs under each filter"),
    ("claim", "a claim among a million ended and ten thousand waiting jobs"),
    ("script", "a script of 300 kinds: loading, a function's answer, reloads"),
    ("instances", "messages to inboxes and agents: rates, hooks, worktrees, decisions, wake-ups"),
    ("channels", "posts, woken agents, turns and long conversations"),
    ("chat", "the assistant: latency of tokens, questions, memory, pages, searches; only if named"),
    ("search", "10,000 documents and 50,000 Topics: start-up, indexing, searches; only if named"),
];

const USAGE: &str =
    "usage: scripts/bench smoke [--only NAME] [--json] [--part NAME] [--quick] [--rounds N]

  --only NAME  one of the measurements below
  --part NAME  of instances: accepted hooks worktrees resumed terminals agents
  --json       one JSON object on standard output instead of the table
  --quick      three short rounds and 100,000 jobs: to see that it works, not to quote
  --rounds N   rounds of which the median counts (5)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|it| it == "__stamp") {
        return jobs::stamp();
    }
    if let [word, hooks_file] = &args[..]
        && word == "__terminal"
    {
        return terminals::program(hooks_file);
    }
    let asked = match parse(&args) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            for (name, what) in ALL {
                eprintln!("  {name:9} {what}");
            }
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let report = match runtime {
        Ok(runtime) => runtime.block_on(run(&asked)),
        Err(cause) => Err(cause.into()),
    };
    match report {
        Ok(report) if asked.is_json => println!("{}", report.json()),
        Ok(report) => println!("{}", report.table()),
        Err(cause) => {
            eprintln!("bench: {cause:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn parse(args: &[String]) -> Result<Asked, String> {
    let (rounds, rows, seconds) = (5, 1_000_000, 1.0);
    let mut asked = Asked { rounds, rows, seconds, only: None, part: None, is_json: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Cargo says this to every benchmark.
            "--bench" | "smoke" => {}
            word @ ("search" | "instances" | "channels" | "chat") => {
                asked.only = Some(word.to_owned())
            }
            "--json" => asked.is_json = true,
            "--quick" => (asked.rounds, asked.rows, asked.seconds) = (3, 100_000, 0.3),
            "--only" => {
                let name = args.next().ok_or("--only needs a name")?;
                if !ALL.iter().any(|(known, _)| known == name) {
                    return Err(format!("there is no measurement `{name}`"));
                }
                asked.only = Some(name.clone());
            }
            "--part" => {
                let name = args.next().filter(|it| instances::PARTS.contains(&it.as_str()));
                asked.part = Some(name.ok_or("--part needs the name of a part")?.clone());
            }
            "--rounds" => {
                let number = args.next().and_then(|it| it.parse().ok());
                asked.rounds = number.filter(|it| (1..=99).contains(it)).ok_or("1 to 99 rounds")?;
            }
            other => return Err(format!("`{other}` is not known")),
        }
    }
    Ok(asked)
}

async fn run(asked: &Asked) -> site::Outcome<Report> {
    let mut report = Report::new(asked);
    let wants = |name: &str| asked.only.as_deref().is_none_or(|it| it == name);
    let folder = site::folder()?;
    if wants("reads") || wants("guard") || wants("jobs") || wants("start") {
        let bench = site::Site::new(folder.path(), "small", 2)?;
        if wants("reads") {
            reads::measure(asked, &bench, &mut report).await?;
        }
        if wants("guard") {
            jobs::guard_overhead(asked, &bench, &mut report).await?;
        }
        if wants("jobs") {
            jobs::rate(asked, folder.path(), &mut report).await?;
            peers::measure(asked, folder.path(), &mut report).await?;
        }
        if wants("start") {
            jobs::start_latency(asked, folder.path(), &mut report).await?;
        }
    }
    if wants("idle") || wants("lists") || wants("claim") {
        let large = million::build(asked, folder.path()).await?;
        if wants("idle") {
            idle::measure(asked, folder.path(), &large, &mut report).await?;
        }
        if wants("lists") {
            idle::lists(asked, &large, &mut report).await?;
        }
        if wants("claim") {
            claim::measure(asked, folder.path(), &large, &mut report).await?;
        }
    }
    if wants("script") {
        script::measure(asked, folder.path(), &mut report).await?;
    }
    if wants("instances") {
        instances::measure(asked, folder.path(), &mut report).await?;
    }
    if wants("channels") {
        channels::measure(asked, folder.path(), &mut report).await?;
    }
    // Only by their names: they take some minutes.
    if asked.only.as_deref() == Some("chat") {
        chat::measure(asked, folder.path(), &mut report).await?;
    }
    if asked.only.as_deref() == Some("search") {
        search::measure(asked, folder.path(), &mut report).await?;
    }
    Ok(report)
}
