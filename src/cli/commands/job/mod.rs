//! `wiki-browser job`: requesting and following jobs.

pub(in crate::cli::commands) mod changes;
pub(in crate::cli::commands) mod follow;
pub(in crate::cli::commands) mod inputs;
pub(in crate::cli::commands) mod log;
pub(in crate::cli::commands) mod many;
pub(in crate::cli::commands) mod outcome;
pub(in crate::cli::commands) mod transcript;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::instances::MonitorView;
use crate::api::jobs::{AlsoOpen, Prompt};
use crate::base::{Error, JobId, Millis, Page as List, Result, SourcePath};
use crate::cli::commands::job::follow::{Follow, Show};
use crate::cli::commands::job::inputs::{kind_of, split_input, value_of};
use crate::cli::commands::job::many::Many;
use crate::cli::commands::{Desk, Page, plain};
use crate::cli::terminal::screen::typed;
use crate::cli::terminal::short_id::{Noun, shorten};
use crate::cli::terminal::table::Table;
use crate::cli::terminal::{escape, when};
use crate::client::{Client, query};
use crate::flows::jobs::JobView;

/// Commands on jobs.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum JobCommand {
    /// List jobs, newest first
    List(ListArgs),
    /// Show a job
    Show {
        /// Id of the job
        id: String,
    },
    /// Watch a job and what its agent does until it ends; exits 0 if it succeeded, 1 otherwise
    #[command(after_help = "\
The agent's activity goes to standard error, if its engine reports it (`reads` in the script). If
the server goes away, the command waits for it for up to 120s.")]
    Follow {
        /// Id of the job
        id: String,
        /// Print the output of an agent whose engine does not report its activity
        #[arg(long)]
        log: bool,
        /// Print the agent's output as it is
        #[arg(long)]
        raw: bool,
    },
    /// Create a job of a kind
    Create(CreateArgs),
    /// Cancel a job (immediately if waiting, within `grace` if running), or many
    #[command(after_help = "\
Without --status, cancels waiting jobs. Only admins can cancel many. --force also ends a job that is
already stopping, and one whose guard does not respond.")]
    Cancel {
        /// Id of the job
        id: Option<String>,
        #[command(flatten)]
        many: Many,
        /// Kill its processes immediately, without the grace period
        #[arg(long)]
        force: bool,
    },
    /// Retry a finished job: creates a new one with the same inputs
    #[command(after_help = "\
Admins can retry several with --kind, --status [default: failed] and --older-than; jobs that were
retried already are skipped. A retry waits if its lane is busy. --wait follows a single one.")]
    Retry {
        /// Id of the job
        id: Option<String>,
        #[command(flatten)]
        many: Many,
        /// Wait until the provider's rate limit resets, if that is why it failed
        #[arg(long)]
        when_allowed: bool,
        /// Earliest start: a time (2026-01-02T03:04:05Z) or a delay (+10m, 2h)
        #[arg(long, value_name = "WHEN")]
        not_before: Option<String>,
        /// Watch the new job until it ends
        #[arg(long, conflicts_with_all = ["kind", "status", "older_than"])]
        wait: bool,
        /// Also print the agent's activity, on standard error
        #[arg(long, requires = "wait", conflicts_with_all = ["kind", "status", "older_than"])]
        log: bool,
        /// Also print the agent's output as it is
        #[arg(long, requires = "wait", conflicts_with_all = ["kind", "status", "older_than"])]
        raw: bool,
    },
    /// Restore what changed in the repository while a job was running
    #[command(after_help = "\
Without names, restores everything or nothing; later changes are never overwritten. A branch that
gained commits is only moved back if you name it or pass --commits: they may be someone else's work.
The state the job left stays in refs/wiki-browser/jobs/ID/after, for `git restore --source`.

Exits 0 if everything requested is as before the job, 1 if something was not restored.")]
    Restore {
        /// Id of the job
        id: String,
        /// Only these: paths, branches, HEAD or .git/NAME
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Also move back branches that gained commits during the job
        #[arg(long, conflicts_with = "names")]
        commits: bool,
        /// Only list what can be restored
        #[arg(long)]
        dry_run: bool,
    },
    /// Keep what changed in the repository while a job was running
    Keep {
        /// Id of the job
        id: String,
    },
    /// Print the activity of a job's agent
    #[command(after_help = "\
Prints each message, each tool call with a short result, refused requests, and usage. If the engine
does not report activity (`reads` in the script), prints the agent's output instead: standard error,
or standard output if only that has any. With --json, prints one answer per page of steps, or per
256 KiB of output.")]
    Log {
        /// Id of the job
        id: String,
        /// Print this output stream as it is
        #[arg(long, value_name = "STREAM", value_parser = ["stdout", "stderr"])]
        stream: Option<String>,
        /// Print the raw output instead of steps
        #[arg(long)]
        raw: bool,
    },
    /// Print the prompt of a job's agent
    Prompt {
        /// Id of the job
        id: String,
    },
}

/// `job list`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ListArgs {
    /// Only jobs with this status
    #[arg(long, value_name = "STATUS",
          value_parser = ["queued", "waiting", "scheduled", "running", "parked", "succeeded",
                          "failed", "timed_out", "cancelled"])]
    status: Option<String>,
    /// Only jobs of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only jobs on this source
    #[arg(long, value_name = "PATH")]
    source: Option<String>,
    /// Only jobs on this topic
    #[arg(long, value_name = "ID")]
    topic: Option<String>,
    #[command(flatten)]
    page: Page,
}

/// `job create`.
#[derive(Args, Debug)]
#[command(after_help = "\
An input is NAME=VALUE. NAME=@FILE reads the value from a file (@- is standard input), and
NAME:=JSON is passed as it is. Leave out inputs that follow from another one. To list the kinds and
their inputs, run `wiki-browser check --print`. With --wait, if the server goes away, the command
waits for it for up to 120s.

Examples:
  wiki-browser job create incorporate topic_id=7f3a --wait
  wiki-browser job create incorporate topic_ids=7f3a,81bc replace_proposals:=true
  wiki-browser job create summarize source_path=guide.md notes=@notes.txt --not-before 2h")]
pub(in crate::cli) struct CreateArgs {
    /// Kind of the job, as the script declares it
    kind: String,
    /// Inputs of the job
    #[arg(value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    /// Priority from -100 to 100: higher runs first; only admins can exceed the kind's
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Earliest start: a time (2026-01-02T03:04:05Z) or a delay (+10m, 2h)
    #[arg(long, value_name = "WHEN")]
    not_before: Option<String>,
    /// Watch the job until it ends; exits 0 if it succeeded, 1 otherwise
    #[arg(long)]
    pub(in crate::cli) wait: bool,
    /// Also print the agent's activity, on standard error
    #[arg(long, requires = "wait")]
    log: bool,
    /// Also print the agent's output as it is
    #[arg(long, requires = "wait")]
    raw: bool,
    /// Idempotency key: repeating it returns the first answer
    #[arg(long, value_name = "WORD")]
    idempotency_key: Option<String>,
}

/// Runs a command; the code is that of the program.
pub(in crate::cli) fn run(desk: &Desk, command: JobCommand) -> Result<u8> {
    match command {
        JobCommand::List(args) => list(desk, &args),
        JobCommand::Show { id } => show(desk, &id),
        JobCommand::Follow { id, log, raw } => {
            let client = desk.client()?;
            let id = desk.id(&client, Noun::Job, &id)?;
            return follow::run(
                desk,
                &client,
                &Follow { id, show: Show::of(Show::Steps, log, raw) },
            );
        }
        JobCommand::Create(args) => return create(desk, &args),
        JobCommand::Cancel { id, many, force } => {
            if many::is_meant(id.as_deref(), &many)? {
                return many::run(desk, &many, many::CANCEL, json!({"force": force}));
            }
            many::cancel(desk, &id.unwrap_or_default(), force)
        }
        JobCommand::Retry { id, many, when_allowed, not_before, wait, log, raw } => {
            let not_before = not_before.map(|it| when::point(desk.now(), &it)).transpose()?;
            let when = json!({"when_allowed": when_allowed, "not_before": not_before});
            if many::is_meant(id.as_deref(), &many)? {
                return many::run(desk, &many, many::RETRY, when);
            }
            let show = wait.then(|| Show::of(Show::Nothing, log, raw));
            return many::retry(desk, &id.unwrap_or_default(), &when, show);
        }
        JobCommand::Restore { id, names, commits, dry_run } => {
            return changes::restore(desk, &id, &names, (commits, dry_run));
        }
        JobCommand::Keep { id } => changes::keep(desk, &id),
        JobCommand::Log { id, stream, raw } => log::run(desk, &id, stream.as_deref(), raw),
        JobCommand::Prompt { id } => prompt(desk, &id),
    }
    .map(|()| 0)
}

fn list(desk: &Desk, args: &ListArgs) -> Result<()> {
    let source = args.source.as_ref().map(|it| it.parse::<SourcePath>()).transpose()?;
    let client = desk.client()?;
    let topic = args.topic.as_ref().map(|it| desk.id(&client, Noun::Topic, it)).transpose()?;
    let limit = args.page.limit();
    let pairs = [
        ("source_path", source.as_ref().map(SourcePath::as_str)),
        ("status", args.status.as_deref()),
        ("kind", args.kind.as_deref()),
        ("topic_id", topic.as_deref()),
        ("after", args.page.after()),
        ("limit", Some(&*limit)),
    ];
    let answer = client.get(&query("/api/agent/jobs", &pairs))?;
    desk.screen.tell(&answer, |screen, page: List<JobView>| {
        let mut table = Table::new(&["ID", "KIND", "STATUS", "WHEN", "BY", "SOURCE", "MESSAGE"]);
        for it in &page.items {
            table.row([
                shorten(it.job.id.as_str()),
                &it.job.kind,
                it.job.status.as_str(),
                &desk.since(Some(it.job.created_at)),
                &it.requested_by_name,
                it.job.source_path.as_ref().map_or("", |it| it.as_str()),
                message(it),
            ]);
        }
        screen.table(&table, "no jobs")?;
        desk.more(page.next.as_deref());
        Ok(())
    })
}

/// Returns the message about a job: its failure, or why it waits.
fn message(job: &JobView) -> &str {
    let waiting = job.waiting.as_ref().map(|it| it.message.as_str()).filter(|it| !it.is_empty());
    waiting.or(job.message.as_deref()).unwrap_or_default()
}

fn show(desk: &Desk, given: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let job = client.get(&format!("/api/agent/jobs/{id}"))?;
    desk.screen.tell(&job, |_, job: JobView| describe(desk, &job))
}

/// Returns the runs of a job that was parked and went on.
fn runs(view: &JobView) -> Option<String> {
    let runs = view.legs.iter().map(|it| format!("{} ({})", it.id, it.status.as_str()));
    (!view.legs.is_empty()).then(|| runs.collect::<Vec<_>>().join(", "))
}

fn describe(desk: &Desk, view: &JobView) -> Result<()> {
    let job = &view.job;
    desk.detail("job", job.id.as_str())?;
    desk.detail("kind", &escape::line(&job.kind))?;
    desk.detail("status", &desk.screen.state(job.status.as_str()))?;
    for (name, value) in [
        ("reason", job.reason.map(|it| it.as_str().to_owned())),
        ("message", view.message.clone()),
        ("source_path", job.source_path.as_ref().map(ToString::to_string)),
        ("topic_id", job.topic_id.as_ref().map(ToString::to_string)),
        ("message_id", job.message_id.as_ref().map(ToString::to_string)),
        ("instance", job.root_id.as_ref().map(ToString::to_string)),
        ("runs", runs(view)),
        ("monitor", view.monitor.as_ref().map(|it| monitor(desk, it))),
        ("monitor_of", job.monitor_of.as_ref().map(ToString::to_string)),
        ("persona_name", job.persona_name.clone()),
        ("proposal_id", view.proposal_id.as_ref().map(ToString::to_string)),
        ("lane", job.lane.clone()),
        ("waits", view.waiting.as_ref().map(|it| it.message.clone())),
        ("guard", job.unanswered_at.map(|at| silent_guard(desk, at, &job.id))),
    ] {
        desk.detail(name, &plain(value.as_ref()))?;
    }
    if job.priority != 0 {
        desk.detail("priority", &job.priority.to_string())?;
    }
    desk.detail("by", &escape::line(&view.requested_by_name))?;
    for (name, at) in [
        ("asked", Some(job.created_at)),
        ("not before", job.not_before),
        ("started", job.started_at),
        ("ended", job.completed_at),
        ("try again", job.retry_at),
    ] {
        let at = at.map_or_else(String::new, |at| when::exact(desk.now(), &at.rfc3339()));
        desk.detail(name, &escape::line(&at))?;
    }
    desk.detail("exit code", &plain(job.exit_code.as_ref()))?;
    desk.detail("signal", &plain(job.signal.as_ref()))?;
    desk.detail("cost", &job.cost_usd.map_or_else(String::new, |it| json!(it).to_string()))?;
    desk.detail("summary", &plain(job.summary.as_ref()))?;
    if let Some(result) = &job.result {
        desk.detail("result", &escape::line(&scalar(result)))?;
    }
    outcome::describe(desk, view)?;
    desk.detail("environment", &escape::line(&view.environment.join(" ")))?;
    changes::describe(desk, view)?;
    for (name, value) in &job.inputs {
        desk.detail("input", &escape::line(&format!("{name}={}", scalar(value))))?;
    }
    match job.error_tail.as_deref().unwrap_or_default() {
        "" => Ok(()),
        tail => desk.screen.put(&format!("\n{}", escape::block(tail).trim_end())),
    }
}

/// Says since when the guard of a job does not respond, and what a person can do.
fn silent_guard(desk: &Desk, at: Millis, id: &JobId) -> String {
    let since = when::exact(desk.now(), &at.rfc3339());
    format!(
        "does not respond since {since}; the server takes it over as soon as it does, and \
         `wiki-browser job cancel {id} --force` ends the job"
    )
}

/// Returns the job that watches an instance, with its kind and state.
fn monitor(desk: &Desk, it: &MonitorView) -> String {
    format!("{} {} ({})", it.job_id, it.kind, desk.screen.state(it.status.as_str()))
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => crate::base::truncate_chars(text, 200),
        other => other.to_string(),
    }
}

fn create(desk: &Desk, args: &CreateArgs) -> Result<u8> {
    let given = args.inputs.iter().map(|it| split_input(it)).collect::<Result<Vec<_>>>()?;
    let client = desk.client()?;
    let kind = kind_of(&client, &args.kind)?;
    let mut body = Map::new();
    body.insert("kind".to_owned(), json!(args.kind));
    for (name, value) in given {
        let value = value_of(desk, &client, &kind, name, value)?;
        if body.insert(name.to_owned(), value).is_some() {
            return Err(Error::invalid(format!("`{name}` is given twice")).hint("give it once"));
        }
    }
    if let Some(priority) = args.priority {
        body.insert("priority".to_owned(), json!(priority));
    }
    if let Some(when) = &args.not_before {
        if args.idempotency_key.is_some() && when::parse(when).is_none() {
            let message = "a relative time changes when the request is repeated";
            return Err(Error::invalid(message)
                .hint("with --idempotency-key give a time: --not-before 2026-01-02T03:04:05Z"));
        }
        body.insert("not_before".to_owned(), json!(when::point(desk.now(), when)?));
    }
    let body = Value::Object(body);
    let answer = match &args.idempotency_key {
        Some(key) => client.post_once("/api/agent/jobs", &body, key)?,
        None => client.create("/api/agent/jobs", &body)?,
    };
    let show = args.wait.then(|| Show::of(Show::Nothing, args.log, args.raw));
    accepted(desk, &client, &answer, show)
}

/// The common part of responses that start a job.
#[derive(Deserialize)]
struct Started {
    job_id: JobId,
    also_open: Option<AlsoOpen>,
}

/// Prints the id of a new job, or follows it: then the last response is the job itself.
pub(super) fn accepted(
    desk: &Desk,
    client: &Client,
    answer: &Value,
    show: Option<Show>,
) -> Result<u8> {
    let Started { job_id, also_open } = typed(answer)?;
    if let Some(open) = &also_open {
        follow::note_open(desk, open);
    }
    let Some(show) = show else {
        desk.screen.answer(answer, |screen, _| screen.put(job_id.as_str()))?;
        return Ok(0);
    };
    follow::run(desk, client, &Follow { id: job_id.to_string(), show })
}

fn prompt(desk: &Desk, given: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let answer = client.get(&format!("/api/agent/jobs/{id}/prompt"))?;
    desk.screen.tell(&answer, |screen, it: Prompt| screen.raw(&it.prompt))
}
