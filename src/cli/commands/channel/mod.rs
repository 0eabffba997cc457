//! `wiki-browser channel` and `msg`: conversations of people and agents.

pub(in crate::cli::commands) mod follow;
mod message;
mod table;

use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::channels::{
    Budget, ChairRequest, ChangeRequest, ChannelView, CreateRequest, HeldAnswer, HeldDecision,
    HeldRequest, History, MemberRequest, MessageView, PostRequest, Posted, ResumeRequest,
    SeatRequest,
};
use crate::base::{Context, Error, ErrorKind, Result};
use crate::cli::commands::Desk;
use crate::cli::commands::channel::message::print;
use crate::cli::commands::channel::table::{describe, list, members, show};
use crate::cli::terminal::{escape, input};
use crate::client::query;

/// Longest message that is read from standard input, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// What can be done with channels.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ChannelCommand {
    /// Create a channel; you become its chair
    #[command(after_help = "Examples:
  wiki-browser channel create persona-alignment --with robbo --with paula \\
    --message 'Where should a persona keep its skills?'
  wiki-browser channel create release --type review --with robbo --turns 30")]
    Create(CreateArgs),
    /// List channels, most recently active first
    List {
        /// Only channels you are a member of
        #[arg(long)]
        mine: bool,
        /// Only channels in this state: open, pending, active, complete or archived
        #[arg(long, value_name = "STATE")]
        status: Option<String>,
    },
    /// Show a channel: its members, what it has spent, and why it is paused
    Show {
        /// Slug (or its beginning), number or name
        channel: String,
    },
    /// List the members of a channel
    Members {
        /// Slug (or its beginning), number or name
        channel: String,
    },
    /// Add an agent or a person
    Add {
        /// Slug (or its beginning), number or name
        channel: String,
        /// Persona or agent
        #[arg(value_name = "NAME", required_unless_present = "person")]
        persona: Option<String>,
        /// A person instead
        #[arg(long, value_name = "NAME", conflicts_with = "persona")]
        person: Option<String>,
    },
    /// Remove a member
    Remove(MemberArgs),
    /// Mute a member: it gets no messages until unmuted
    Mute(MemberArgs),
    /// Unmute a member; it catches up on what it missed
    Unmute(MemberArgs),
    /// Join a channel
    Join {
        /// Slug (or its beginning), number or name
        channel: String,
    },
    /// Leave a channel
    Leave {
        /// Slug (or its beginning), number or name
        channel: String,
    },
    /// Replace the agent behind a member with another or a fresh one
    Seat {
        /// Slug (or its beginning), number or name
        channel: String,
        /// Handle of the member
        handle: String,
        /// The agent [default: start a fresh one]
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Make another member the chair
    Chair(MemberArgs),
    /// Set the goal of a channel; its agents are notified
    Intent {
        /// Slug (or its beginning), number or name
        channel: String,
        /// Two or three sentences
        text: String,
    },
    /// Say whether what members from outside write wakes agents; at first it does not
    OutsideWakes {
        /// Slug, its beginning, number or name
        channel: String,
        /// Whether it does
        #[arg(value_parser = ["on", "off"])]
        value: String,
    },
    /// Pause a channel: no agent is woken until it resumes
    Pause {
        /// Slug (or its beginning), number or name
        channel: String,
    },
    /// Resume a paused channel
    Resume {
        /// Slug (or its beginning), number or name
        channel: String,
        #[command(flatten)]
        budget: BudgetArgs,
    },
    /// Complete a channel: it becomes read-only, and its agents are free
    Complete {
        /// Slug (or its beginning), number or name
        channel: String,
    },
    /// Archive a completed channel, so lists omit it
    Archive {
        /// Slug (or its beginning), number or name
        channel: String,
    },
    /// Export a channel as Markdown, decisions first
    Export {
        /// Slug (or its beginning), number or name
        channel: String,
    },
    /// Chat: print new messages and send what you type, until interrupted
    #[command(after_help = "\
Each line you type is a message; end a line with \\ to continue on the next one. Without standard
input it only prints.")]
    Follow {
        /// Slug (or its beginning), number or name
        channel: String,
        /// Number of recent messages to start with
        #[arg(long, value_name = "N", default_value_t = 20)]
        last: u32,
    },
}

/// `channel create`.
#[derive(Args, Debug)]
pub(in crate::cli) struct CreateArgs {
    /// Name of the channel
    name: String,
    /// Type: workshop, delegation, review, standup, broadcast, or one from the script
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// A persona or agent to add; repeatable
    #[arg(long = "with", value_name = "NAME")]
    with: Vec<String>,
    /// A person to add; repeatable
    #[arg(long, value_name = "NAME")]
    person: Vec<String>,
    /// What the channel is about
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Goal of the channel [default: its type's]
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,
    /// First message
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Idempotency key: repeating it returns the first answer
    #[arg(long, value_name = "WORD")]
    key: Option<String>,
}

/// What the agents of a channel may spend.
#[derive(Args, Debug)]
pub(in crate::cli) struct BudgetArgs {
    /// Maximum turns of its agents
    #[arg(long, value_name = "N")]
    turns: Option<i64>,
    /// Maximum tokens of its agents
    #[arg(long, value_name = "N")]
    tokens: Option<i64>,
    /// Maximum US dollars of its agents
    #[arg(long = "cost-usd", value_name = "USD")]
    cost_usd: Option<f64>,
}

impl BudgetArgs {
    fn budget(&self) -> Option<Budget> {
        let budget = Budget { turns: self.turns, tokens: self.tokens, cost_usd: self.cost_usd };
        (budget != Budget::default()).then_some(budget)
    }
}

/// A channel and one of its members.
#[derive(Args, Debug)]
pub(in crate::cli) struct MemberArgs {
    /// Slug (or its beginning), number or name
    channel: String,
    /// Handle of the member
    member: String,
}

/// What can be done with messages of channels.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum MsgCommand {
    /// Send a message to a channel
    #[command(after_help = "Examples:
  wiki-browser msg send 7 '@paula do you agree with robbo?'
  wiki-browser msg send workshop-names-7 - < plan.md")]
    Send(SendArgs),
    /// Retry an agent's turn that failed
    Again {
        /// Slug (or its beginning), number or name
        channel: String,
        /// Number of the message that reports it [default: the last one]
        number: Option<i64>,
    },
    /// Read a held answer, post it, or keep it private
    #[command(after_help = "\
An answer is held if somebody may have typed in the agent's terminal while it worked: nobody but who
reads it can tell what of it is for the channel.")]
    Held(HeldArgs),
    /// Print the messages of a channel
    History {
        /// Slug (or its beginning), number or name
        channel: String,
        /// Maximum number of messages
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
        /// Only after this message
        #[arg(long, value_name = "NUMBER")]
        after: Option<i64>,
        /// Only before this message
        #[arg(long, value_name = "NUMBER")]
        before: Option<i64>,
    },
}

/// `msg held`.
#[derive(Args, Debug)]
pub(in crate::cli) struct HeldArgs {
    /// Slug (or its beginning), number or name
    channel: String,
    /// Number of the message that reports it [default: the last one waiting]
    number: Option<i64>,
    /// Post it
    #[arg(long, conflicts_with = "private")]
    post: bool,
    /// Keep it out of the channel
    #[arg(long)]
    private: bool,
}

impl HeldArgs {
    /// Returns whether it only prints.
    pub(in crate::cli) fn reads(&self) -> bool {
        !self.post && !self.private
    }
}

/// `msg send`.
#[derive(Args, Debug)]
pub(in crate::cli) struct SendArgs {
    /// Slug (or its beginning), number or name
    channel: String,
    /// The message; `-` reads standard input
    text: String,
    /// message, delegation or escalation
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Handle of the member it is addressed to
    #[arg(long, value_name = "HANDLE")]
    to: Option<String>,
    /// Idempotency key: repeating it returns the first answer
    #[arg(long, value_name = "WORD")]
    key: Option<String>,
}

/// Runs a command on channels.
pub(in crate::cli) fn run(desk: &Desk, command: ChannelCommand) -> Result<()> {
    let nothing = json!({});
    match command {
        ChannelCommand::Create(args) => create(desk, args),
        ChannelCommand::List { mine, status } => list(desk, mine, status.as_deref()),
        ChannelCommand::Show { channel } => show(desk, &channel),
        ChannelCommand::Members { channel } => members(desk, &channel),
        ChannelCommand::Add { channel, persona, person } => {
            let request = MemberRequest { persona, agent: None, person };
            change(desk, &channel, "members", &json!(request))
        }
        ChannelCommand::Remove(args) => member(desk, &args, "remove"),
        ChannelCommand::Mute(args) => member(desk, &args, "mute"),
        ChannelCommand::Unmute(args) => member(desk, &args, "unmute"),
        ChannelCommand::Seat { channel, handle, agent } => {
            let request = SeatRequest { agent };
            change(desk, &channel, &format!("{}/seat", of_member(&handle)), &json!(request))
        }
        ChannelCommand::Join { channel } => change(desk, &channel, "join", &nothing),
        ChannelCommand::Leave { channel } => change(desk, &channel, "leave", &nothing),
        ChannelCommand::Chair(args) => {
            let request = ChairRequest { to: args.member };
            change(desk, &args.channel, "chair", &json!(request))
        }
        ChannelCommand::Intent { channel, text } => {
            let request = ChangeRequest { intent: Some(text), ..ChangeRequest::default() };
            change(desk, &channel, "change", &json!(request))
        }
        ChannelCommand::OutsideWakes { channel, value } => {
            let outside_wakes = Some(value == "on");
            let request = ChangeRequest { outside_wakes, ..ChangeRequest::default() };
            change(desk, &channel, "change", &json!(request))
        }
        ChannelCommand::Pause { channel } => change(desk, &channel, "pause", &nothing),
        ChannelCommand::Resume { channel, budget } => {
            let request = ResumeRequest { budget: budget.budget() };
            change(desk, &channel, "resume", &json!(request))
        }
        ChannelCommand::Complete { channel } => change(desk, &channel, "complete", &nothing),
        ChannelCommand::Archive { channel } => change(desk, &channel, "archive", &nothing),
        ChannelCommand::Export { channel } => {
            let answer = desk.client()?.get(&route(&channel, "/export"))?;
            let text = answer["markdown"].as_str().unwrap_or_default().to_owned();
            let shown = escape::block(text.trim_end());
            desk.screen.answer(&answer, |screen, _| screen.put(&shown))
        }
        ChannelCommand::Follow { channel, last } => follow::follow(desk, &channel, last),
    }
}

/// Runs a command on messages of channels.
pub(in crate::cli) fn msg(desk: &Desk, command: MsgCommand) -> Result<()> {
    match command {
        MsgCommand::Send(args) => send(desk, args),
        MsgCommand::Again { channel, number } => again(desk, &channel, number),
        MsgCommand::Held(args) => held(desk, &args),
        MsgCommand::History { channel, limit, after, before } => {
            let (limit, after, before) = (
                limit.to_string(),
                after.map(|it| it.to_string()),
                before.map(|it| it.to_string()),
            );
            let pairs = [
                ("limit", Some(limit.as_str())),
                ("after", after.as_deref()),
                ("before", before.as_deref()),
            ];
            let answer = desk.client()?.get(&query(&route(&channel, "/messages"), &pairs))?;
            let found: History = typed(answer.clone())?;
            desk.screen.answer(&answer, |_, _| {
                found.items.iter().try_for_each(|message| print(desk, message))
            })
        }
    }
}

/// Returns the route of a channel; what a person typed may hold anything.
pub(in crate::cli) fn route(channel: &str, rest: &str) -> String {
    let bare = channel.strip_prefix('#').unwrap_or(channel);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte);
    let escaped: String = bare
        .bytes()
        .map(|byte| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    format!("/api/channels/{escaped}{rest}")
}

pub(in crate::cli) fn typed<T: DeserializeOwned>(answer: Value) -> Result<T> {
    serde_json::from_value(answer)
        .context(ErrorKind::Internal, || "the server has a different version".to_owned())
}

fn create(desk: &Desk, args: CreateArgs) -> Result<()> {
    let persona = |name: String| MemberRequest { persona: Some(name), ..MemberRequest::default() };
    let person = |name: String| MemberRequest { person: Some(name), ..MemberRequest::default() };
    let members = args.with.into_iter().map(persona);
    let request = CreateRequest {
        kind: args.kind,
        name: args.name,
        about: args.about,
        intent: args.intent,
        members: members.chain(args.person.into_iter().map(person)).collect(),
        budget: args.budget.budget(),
        message: args.message,
        ..CreateRequest::default()
    };
    let (client, body) = (desk.client()?, json!(request));
    let answer = match &args.key {
        Some(key) => client.post_once("/api/channels", &body, key)?,
        None => client.create("/api/channels", &body)?,
    };
    let made: ChannelView = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| screen.put(&made.slug))
}

fn send(desk: &Desk, args: SendArgs) -> Result<()> {
    let body = match args.text.as_str() {
        "-" => input::standard("the message", TEXT_BYTES_MAX)?,
        text => text.to_owned(),
    };
    let request = PostRequest { body, kind: args.kind, to: args.to };
    let (client, body) = (desk.client()?, json!(request));
    let path = route(&args.channel, "/messages");
    let answer = match &args.key {
        Some(key) => client.post_once(&path, &body, key)?,
        None => client.create(&path, &body)?,
    };
    let posted: Posted = typed(answer.clone())?;
    desk.screen
        .answer(&answer, |screen, _| screen.put(&format!("{} {}", posted.channel, posted.sequence)))
}

/// Returns the last line of a channel that is of a sort.
fn last_line(
    desk: &Desk,
    channel: &str,
    is_meant: impl Fn(&MessageView) -> bool,
) -> Result<Option<i64>> {
    let found: History = typed(desk.client()?.get(&route(channel, "/messages"))?)?;
    Ok(found.items.iter().rev().find(|it| is_meant(it)).map(|it| it.sequence))
}

fn held(desk: &Desk, args: &HeldArgs) -> Result<()> {
    let channel = &args.channel;
    let waits = |it: &MessageView| it.held.as_deref() == Some("waiting");
    let number = match args.number {
        Some(number) => number,
        None => last_line(desk, channel, waits)?
            .ok_or_else(|| Error::not_found("no held answer there").code("not_held"))?,
    };
    let verb = format!("messages/{number}/held");
    if args.reads() {
        let answer = desk.client()?.get(&route(channel, &format!("/{verb}")))?;
        let held: HeldAnswer = typed(answer.clone())?;
        let text = escape::block(held.text.trim_end());
        return desk.screen.answer(&answer, |screen, _| screen.put(&text));
    }
    let decision = if args.post { HeldDecision::Post } else { HeldDecision::Private };
    change(desk, channel, &verb, &json!(HeldRequest { decision }))
}

fn again(desk: &Desk, channel: &str, number: Option<i64>) -> Result<()> {
    let number = match number {
        Some(number) => number,
        None => last_line(desk, channel, |it| it.may_ask_again)?.ok_or_else(|| {
            Error::conflict("turn_answered", "no failed turn there")
                .hint("send it again: `wiki-browser msg send`")
        })?,
    };
    change(desk, channel, &format!("messages/{number}/again"), &json!({}))
}

fn change(desk: &Desk, channel: &str, verb: &str, body: &Value) -> Result<()> {
    let answer = desk.client()?.post(&route(channel, &format!("/{verb}")), body)?;
    let changed: ChannelView = typed(answer.clone())?;
    desk.screen.answer(&answer, |_, _| describe(desk, &changed))
}

fn member(desk: &Desk, args: &MemberArgs, verb: &str) -> Result<()> {
    change(desk, &args.channel, &format!("{}/{verb}", of_member(&args.member)), &json!({}))
}

/// Returns the part of a route that means a member.
fn of_member(handle: &str) -> String {
    route(handle.trim_start_matches('@'), "").replace("/api/channels/", "members/")
}
