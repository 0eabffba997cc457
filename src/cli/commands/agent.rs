//! `wiki-browser agent`: agents that live on.

use std::time::{Duration, Instant};

use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::agents::{AgentList, AgentView, Peek, Problem, StartRequest, TurnList, TurnView};
use crate::api::channels::{ChannelView, MemberRequest};
use crate::api::handoffs::{HandoverRequest, RehydrateRequest, Rehydrated};
use crate::api::promotion::{PromoteRequest, Promotion};
use crate::base::{Error, Result, TurnId};
use crate::cli::commands::mail::typed;
use crate::cli::commands::{Desk, line};
use crate::cli::terminal::short_id::shorten;
use crate::cli::terminal::table::Table;
use crate::cli::terminal::{escape, when};
use crate::client::{Events, Next, query};
use crate::flows::agents::AGENT_STATE;
use crate::jobs::become_program;

/// Longest wait for an agent that starts; one that asks something is known to after 20 s.
const START_MAX: Duration = Duration::from_secs(25);
/// Longest time between two looks at it: events alone are not relied upon.
const FALLBACK_INTERVAL: Duration = Duration::from_secs(5);

/// What can be done with agents.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AgentCommand {
    /// List agents and their states
    List,
    /// Show an agent
    Show {
        /// Name of the agent
        name: String,
    },
    /// Start an agent and keep it running
    #[command(after_help = "\
Waits up to 25s until it can receive messages. If its program does not start, exits 6 and prints
what to do; an agent that asks something in its terminal is started, and waits for your answer.")]
    Start {
        /// Name of the agent
        name: String,
        /// Also if it has handed over: it gets its own messages again
        #[arg(long)]
        clear_heir: bool,
        /// In a new session, without what it remembers of its last one
        #[arg(long)]
        fresh: bool,
        /// Don't wait until it can receive messages
        #[arg(long)]
        no_wait: bool,
    },
    /// Hand an agent over: it writes notes, and a fresh agent takes over from them
    #[command(after_help = "\
The agent writes with `wb-agent handoff write`. Its successor (NAME-2) reads that and takes over its
channel seats and waiting messages. If it writes nothing, it keeps its seats; `channel seat`
replaces it with a fresh agent.")]
    Handover {
        /// Name of the agent
        name: String,
        /// Instructions for the agent
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Keep it running afterwards
        #[arg(long)]
        keep: bool,
    },
    /// Tell an agent to read handoffs of its persona [default: the newest]
    Rehydrate {
        /// Name of the agent
        name: String,
        /// File names, as `persona handoffs` lists them
        #[arg(value_name = "FILE")]
        files: Vec<String>,
        /// Instructions for the agent
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Go on with an agent in a channel: what you said to each other is told there
    #[command(after_help = "\
The agent keeps its session and takes a seat in the channel. Everybody who joins is told your last
turns with it, twenty at most; --show prints what that would be, --turn chooses among them.")]
    Promote {
        /// Its name
        name: String,
        /// The name of the channel; the agent's without it
        #[arg(long, value_name = "NAME")]
        channel: Option<String>,
        /// The type of the channel
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// A further persona or agent that takes part; may be given several times
        #[arg(long = "with", value_name = "NAME")]
        with: Vec<String>,
        /// A person who takes part; may be given several times
        #[arg(long, value_name = "NAME")]
        person: Vec<String>,
        /// A turn that is told, by its id; may be given several times
        #[arg(long = "turn", value_name = "ID", conflicts_with = "no_turns")]
        turns: Vec<TurnId>,
        /// Tell none of them
        #[arg(long)]
        no_turns: bool,
        /// Print what would be told, and change nothing
        #[arg(
            long,
            conflicts_with_all = ["channel", "kind", "with", "person", "turns", "no_turns"]
        )]
        show: bool,
    },
    /// Stop an agent until you start it again
    Stop {
        /// Name of the agent
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        name: Option<String>,
        /// Stop all agents, including those that a message would start
        #[arg(long)]
        all: bool,
    },
    /// Restart an agent in the same session
    Restart {
        /// Name of the agent
        name: String,
    },
    /// Interrupt an agent's turn
    #[command(after_help = "\
Its turn ends without an answer. Its waiting messages are delivered next.")]
    Interrupt {
        /// Name of the agent
        name: String,
    },
    /// Print an agent's terminal, or its latest output
    Peek {
        /// Name of the agent
        name: String,
        /// Number of lines, 1 to 1000
        #[arg(long, default_value_t = 50)]
        lines: u32,
    },
    /// List an agent's turns, newest first, or print one turn's answer
    Turns {
        /// Name of the agent
        name: String,
        /// Maximum number of turns
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
        /// Print the answer of this turn
        #[arg(long, value_name = "ID")]
        turn: Option<TurnId>,
    },
    /// Attach to an agent's terminal
    #[command(after_help = "\
This is the agent's own terminal: it reads what you type. Press Ctrl-B, then D, to detach. No
messages are delivered while you type or while unsent text is in its input line.")]
    Attach {
        /// Name of the agent
        name: String,
    },
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: AgentCommand) -> Result<()> {
    match command {
        AgentCommand::List => list(desk),
        AgentCommand::Show { name } => {
            told(desk, &desk.client()?.get(&format!("/api/agents/{}", part(&name)))?)
        }
        AgentCommand::Start { name, clear_heir, fresh, no_wait } => {
            start(desk, &name, &json!(StartRequest { clear_heir, fresh }), no_wait)
        }
        AgentCommand::Handover { name, note, keep } => {
            let request = HandoverRequest { note, keep };
            let path = format!("/api/agents/{}/handover", part(&name));
            let answer = desk.client()?.post(&path, &json!(request))?;
            desk.screen.answer(&answer, |screen, _| {
                screen.put(&format!("agent:{} is asked to hand over", escape::line(&name)))
            })
        }
        AgentCommand::Rehydrate { name, files, note } => {
            let request = RehydrateRequest { files, note };
            let path = format!("/api/agents/{}/rehydrate", part(&name));
            let answer = desk.client()?.post(&path, &json!(request))?;
            let told: Rehydrated = typed(answer.clone())?;
            desk.screen.answer(&answer, |screen, _| {
                screen.put(&format!("told to read {}", told.files.join(", ")))
            })
        }
        AgentCommand::Promote { name, show: true, .. } => promotion(desk, &name),
        AgentCommand::Promote { name, channel, kind, with, person, turns, no_turns, .. } => {
            let persona = |it| MemberRequest { persona: Some(it), ..MemberRequest::default() };
            let person_of = |it| MemberRequest { person: Some(it), ..MemberRequest::default() };
            let people = person.into_iter().map(person_of);
            let request = PromoteRequest {
                kind,
                name: channel,
                members: with.into_iter().map(persona).chain(people).collect(),
                turns: (no_turns || !turns.is_empty()).then_some(turns),
            };
            let path = format!("/api/agents/{}/promote", part(&name));
            let answer = desk.client()?.create(&path, &json!(request))?;
            let made: ChannelView = typed(answer.clone())?;
            desk.screen.answer(&answer, |screen, _| screen.put(&made.slug))
        }
        AgentCommand::Stop { name: Some(name), .. } => ask(desk, &name, "stop"),
        AgentCommand::Stop { name: None, .. } => stop_all(desk),
        AgentCommand::Restart { name } => ask(desk, &name, "restart"),
        AgentCommand::Interrupt { name } => ask(desk, &name, "interrupt"),
        AgentCommand::Peek { name, lines } => peek(desk, &name, lines),
        AgentCommand::Turns { name: _, limit: _, turn: Some(id) } => turn(desk, &id),
        AgentCommand::Turns { name, limit, turn: None } => turns(desk, &name, limit),
        AgentCommand::Attach { name } => attach(desk, &name),
    }
}

/// A name as a part of a path; `agent:NAME` is the same agent.
fn part(name: &str) -> String {
    let name = name.strip_prefix("agent:").unwrap_or(name);
    crate::client::path_part(name)
}

/// Starts an agent, and waits until it can receive messages or something keeps it from that.
fn start(desk: &Desk, name: &str, body: &Value, no_wait: bool) -> Result<()> {
    let (client, path) = (desk.client()?, format!("/api/agents/{}", part(name)));
    let until = Instant::now() + START_MAX;
    let mut events = client.events(None);
    if !no_wait {
        // The stream is connected before it starts, so that no change is missed.
        events.next(FALLBACK_INTERVAL)?;
    }
    let mut answer = client.post(&format!("{path}/start"), body)?;
    loop {
        let it: AgentView = typed(answer.clone())?;
        let is_waiting = it.state == "starting" && it.problem.is_none() && it.waits.is_none();
        if !is_waiting || no_wait || Instant::now() >= until {
            told(desk, &answer)?;
            return match it.problem {
                Some(Problem { fix, .. })
                    if ["starting", "failed"].contains(&it.state.as_str()) =>
                {
                    let message = format!("agent:{} did not start", it.name);
                    Err(Error::unavailable(message).code("agent_failed").hint(fix))
                }
                _ => Ok(()),
            };
        }
        until_change(&mut events, &it.address.to_string(), until)?;
        answer = client.get(&path)?;
    }
}

/// Waits for a change of an agent, not for long.
fn until_change(events: &mut Events<'_>, agent: &str, until: Instant) -> Result<()> {
    let deadline = until.min(Instant::now() + FALLBACK_INTERVAL);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match events.next(left)? {
            Next::Event(event) if !event.is_about(agent) && !left.is_zero() => {}
            _ => return Ok(()),
        }
    }
}

fn ask(desk: &Desk, name: &str, verb: &str) -> Result<()> {
    let path = format!("/api/agents/{}/{verb}", part(name));
    let answer = desk.client()?.post(&path, &json!({}))?;
    told(desk, &answer)?;
    if verb == "stop" && answer["state"] != "stopped" {
        desk.screen.note("stopping");
    }
    Ok(())
}

/// Prints what a channel of a conversation would begin with.
fn promotion(desk: &Desk, name: &str) -> Result<()> {
    let answer = desk.client()?.get(&format!("/api/agents/{}/promote", part(name)))?;
    let found: Promotion = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| {
        found.turns.iter().try_for_each(|it| {
            screen.put(&format!("{}  {}", it.turn_id, desk.ago(&json!(it.at))))?;
            screen.put(&format!("  you: {}", escape::line(&it.asked)))?;
            screen.put(&format!("  {}: {}", found.agent, escape::line(&it.answered)))
        })
    })
}

fn peek(desk: &Desk, name: &str, lines: u32) -> Result<()> {
    let path = format!("/api/agents/{}/peek", part(name));
    let answer = desk.client()?.get(&query(&path, &[("lines", Some(&lines.to_string()))]))?;
    let found: Peek = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| match found.output.trim_end() {
        "" => {
            screen.note("no output");
            Ok(())
        }
        text => screen.put(&escape::block(text)),
    })
}

fn turns(desk: &Desk, name: &str, limit: u32) -> Result<()> {
    let path = format!("/api/agents/{}/turns", part(name));
    let limit = limit.to_string();
    let answer = desk.client()?.get(&query(&path, &[("limit", Some(&limit))]))?;
    let found: TurnList = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| {
        let mut table = Table::new(&["TURN", "STATE", "STARTED", "TOOK", "TOKENS", "CAUSE"]);
        for turn in &found.items {
            let took = turn.ended_at.map(|end| when::span(end.0 - turn.started_at.0));
            table.row([
                turn.id.as_str(),
                &screen.state(match turn.held.as_deref() {
                    Some("waiting") => "held",
                    _ => &turn.state,
                }),
                &desk.ago(&json!(turn.started_at)),
                &took.unwrap_or_default(),
                &turn.tokens.map(|tokens| tokens.to_string()).unwrap_or_default(),
                &cause_of(turn),
            ]);
        }
        screen.table(&table, "no turns")
    })
}

fn cause_of(turn: &TurnView) -> String {
    match (&turn.channel, turn.sequence) {
        (Some(channel), Some(sequence)) => format!("{channel} {sequence}"),
        (Some(channel), None) => channel.clone(),
        (None, _) if turn.cause == "message" => "a direct message".to_owned(),
        (None, _) => "no message".to_owned(),
    }
}

fn turn(desk: &Desk, id: &TurnId) -> Result<()> {
    let answer = desk.client()?.get(&format!("/api/turns/{id}"))?;
    let found: TurnView = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| match &found.answer {
        Some(text) => screen.put(&escape::block(text.trim_end())),
        None => {
            screen.note(&format!("no answer to show ({})", found.state));
            Ok(())
        }
    })
}

fn attach(desk: &Desk, name: &str) -> Result<()> {
    let answer = desk.client()?.get(&format!("/api/agents/{}", part(name)))?;
    let it: AgentView = typed(answer)?;
    match it.attach {
        Some(words) => Err(become_program(&words)),
        None => {
            let message = format!("agent:{} is not running in a terminal", it.name);
            let hint = format!("to see its output: `wiki-browser agent peek {}`", it.name);
            Err(Error::conflict("no_terminal", message).hint(hint))
        }
    }
}

/// Ends each agent that runs or that something would start.
fn stop_all(desk: &Desk) -> Result<()> {
    let client = desk.client()?;
    let found: AgentList = typed(client.get("/api/agents")?)?;
    let mut stopped = Vec::new();
    for it in found.items.iter().filter(|it| it.wanted == "running" || is_live(it)) {
        let path = format!("/api/agents/{}/stop", part(&it.name));
        match client.post(&path, &json!({})) {
            Ok(shown) => stopped.push(shown),
            // It has ended by itself meanwhile.
            Err(cause) if cause.code_str() == AGENT_STATE => {}
            Err(cause) => return Err(cause),
        }
    }
    desk.screen.answer(&json!({"items": stopped}), |screen, answer| {
        let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        if items.is_empty() {
            screen.note("no agents are running");
        }
        items.iter().try_for_each(|it| screen.put(&format!("stopping agent:{}", line(it, "name"))))
    })
}

fn is_live(it: &AgentView) -> bool {
    !["stopped", "failed"].contains(&it.state.as_str())
}

fn list(desk: &Desk) -> Result<()> {
    let answer = desk.client()?.get("/api/agents")?;
    let found: AgentList = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| {
        let mut table = Table::new(&["NAME", "STATE", "SINCE", "WAITING", "JOB", "ABOUT"]);
        for it in &found.items {
            table.row([
                it.name.as_str(),
                &state(it),
                &desk.ago(&json!(it.fact_at)),
                &it.waiting.to_string(),
                it.job_id.as_ref().map_or("", |id| shorten(id.as_str())),
                it.about.as_deref().unwrap_or("no longer declared"),
            ]);
        }
        screen.table(&table, "no agents; declare one with wb.agent in the script")
    })
}

fn state(it: &AgentView) -> String {
    match &it.reason {
        // Its problem says why.
        Some(_) if it.state == "unknown" => it.state.clone(),
        Some(reason) if reason != "asked" => format!("{} ({reason})", it.state),
        _ => it.state.clone(),
    }
}

fn told(desk: &Desk, answer: &Value) -> Result<()> {
    let it: AgentView = typed(answer.clone())?;
    desk.screen.answer(answer, |screen, answer| {
        screen.put(&format!("agent:{} is {}", it.name, state(&it)))?;
        desk.detail("about", &line(answer, "about"))?;
        desk.detail("engine", &line(answer, "engine"))?;
        desk.detail("job", &line(answer, "job_id"))?;
        desk.detail("seen", &line(answer, "fact"))?;
        desk.detail("start waits", &line(answer, "waits"))?;
        match &it.problem {
            Some(Problem { what, fix }) => {
                desk.detail("problem", &escape::line(what))?;
                desk.detail("fix", &escape::line(fix))?;
            }
            None => desk.detail("last start", &line(answer, "ended"))?,
        }
        desk.detail("asks", &line(answer, "approval_id"))?;
        if let Some(seat) = &it.seat {
            let muted = if seat.is_muted { " (muted)" } else { "" };
            desk.detail("channel", &format!("{}{muted}", seat.channel))?;
        }
        if let Some(handover) = &it.handover {
            let why = handover.reason.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
            desk.detail("handover", &format!("{}{why}", handover.state))?;
            desk.detail("successor", handover.successor.as_deref().unwrap_or_default())?;
        }
        if it.waiting > 0 {
            desk.detail("waiting", &it.waiting.to_string())?;
        }
        if it.unconfirmed > 0 {
            desk.detail("unconfirmed", &it.unconfirmed.to_string())?;
        }
        if it.is_older {
            desk.detail("note", "running an older declaration; restart it to update")?;
        }
        Ok(())
    })
}
