//! `wiki-browser channel`: conversations of people and agents.

pub(in crate::cli::commands) mod follow;
mod message;
pub(in crate::cli) mod msg;
mod table;

use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::channels::{
    Budget, ChairRequest, ChangeRequest, ChannelView, CreateRequest, MemberRequest, ResumeRequest,
    SeatRequest,
};
use crate::base::{Context, ErrorKind, Result, from_json};
use crate::cli::commands::Desk;
use crate::cli::commands::channel::table::{describe, list, members, show};
use crate::cli::terminal::escape;

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
    List(ListArgs),
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
        /// Persona: one of its agents takes the seat, or a fresh one
        #[arg(value_name = "NAME", required_unless_present_any = ["person", "agent"])]
        persona: Option<String>,
        /// This agent
        #[arg(long, value_name = "NAME", conflicts_with = "persona")]
        agent: Option<String>,
        /// Start a fresh agent of the persona
        #[arg(long, requires = "persona")]
        fresh: bool,
        /// A person
        #[arg(long, value_name = "NAME", conflicts_with_all = ["persona", "agent"])]
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
    /// Set the budget of a channel: limits that are not given end
    Budget {
        /// Slug (or its beginning), number or name
        channel: String,
        #[command(flatten)]
        budget: BudgetArgs,
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
    /// Resume a paused channel; limits that are given are set, the others stay
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
        /// Print a line of JSON for each message instead
        #[arg(long)]
        jsonl: bool,
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
    /// A persona to add; repeatable. One of its agents takes the seat, or a fresh one
    #[arg(long = "with", value_name = "NAME")]
    with: Vec<String>,
    /// Start a fresh agent for each persona
    #[arg(long, requires = "with")]
    fresh: bool,
    /// This agent; repeatable
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
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
    /// Handle of the member that is its chair [default: you]
    #[arg(long, value_name = "HANDLE")]
    chair: Option<String>,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Idempotency key: repeating it returns the first answer
    #[arg(long, value_name = "WORD")]
    key: Option<String>,
}

/// `channel list`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ListArgs {
    /// Only channels you are a member of
    #[arg(long)]
    mine: bool,
    /// Only channels in this state: open, pending, active, complete or archived
    #[arg(long, value_name = "STATE")]
    status: Option<String>,
    /// Only channels of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only those after this one, by number: the next page
    #[arg(long, value_name = "NUMBER")]
    after: Option<i64>,
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

/// Runs a command on channels.
pub(in crate::cli) fn run(desk: &Desk, command: ChannelCommand) -> Result<()> {
    let nothing = json!({});
    match command {
        ChannelCommand::Create(args) => create(desk, args),
        ChannelCommand::List(args) => list(desk, &args),
        ChannelCommand::Show { channel } => show(desk, &channel),
        ChannelCommand::Members { channel } => members(desk, &channel),
        ChannelCommand::Add { channel, persona, agent, fresh, person } => {
            let request = MemberRequest { persona, fresh, agent, person };
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
        ChannelCommand::Budget { channel, budget } => {
            let budget = Some(budget.budget().unwrap_or_default());
            let request = ChangeRequest { budget, ..ChangeRequest::default() };
            change(desk, &channel, "change", &json!(request))
        }
        ChannelCommand::OutsideWakes { channel, value } => {
            let outside_wakes = Some(value == "on");
            let request = ChangeRequest { outside_wakes, ..ChangeRequest::default() };
            change(desk, &channel, "change", &json!(request))
        }
        ChannelCommand::Pause { channel } => change(desk, &channel, "pause", &nothing),
        ChannelCommand::Resume { channel, budget } => {
            let budget = budget.budget().map(|it| raised(desk, &channel, &it)).transpose()?;
            let request = ResumeRequest { budget };
            change(desk, &channel, "resume", &json!(request))
        }
        ChannelCommand::Complete { channel } => change(desk, &channel, "complete", &nothing),
        ChannelCommand::Archive { channel } => change(desk, &channel, "archive", &nothing),
        ChannelCommand::Export { channel, jsonl: true } => {
            let client = desk.client()?;
            let mut lines = client.get_lines(&route(&channel, "/export?form=jsonl"))?;
            while let Some(line) = lines.next_line()? {
                desk.screen.raw(&format!("{line}\n"))?;
            }
            Ok(())
        }
        ChannelCommand::Export { channel, jsonl: false } => {
            let answer = desk.client()?.get(&route(&channel, "/export"))?;
            let text = answer["markdown"].as_str().unwrap_or_default().to_owned();
            let shown = escape::block(text.trim_end());
            desk.screen.answer(&answer, |screen, _| screen.put(&shown))
        }
        ChannelCommand::Follow { channel, last } => follow::follow(desk, &channel, last),
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
    from_json(&answer)
        .context(ErrorKind::Internal, || "the server has a different version".to_owned())
}

fn create(desk: &Desk, args: CreateArgs) -> Result<()> {
    let fresh = args.fresh;
    let persona = |it| MemberRequest { persona: Some(it), fresh, ..MemberRequest::default() };
    let agent = |it| MemberRequest { agent: Some(it), ..MemberRequest::default() };
    let person = |name: String| MemberRequest { person: Some(name), ..MemberRequest::default() };
    let members = args.with.into_iter().map(persona).chain(args.agent.into_iter().map(agent));
    let request = CreateRequest {
        kind: args.kind,
        name: args.name,
        about: args.about,
        intent: args.intent,
        members: members.chain(args.person.into_iter().map(person)).collect(),
        budget: args.budget.budget(),
        message: args.message,
        chair: args.chair.map(|it| it.trim_start_matches('@').to_owned()),
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

fn change(desk: &Desk, channel: &str, verb: &str, body: &Value) -> Result<()> {
    let answer = desk.client()?.post(&route(channel, &format!("/{verb}")), body)?;
    let changed: ChannelView = typed(answer.clone())?;
    desk.screen.answer(&answer, |_, _| describe(desk, &changed))
}

/// Returns the budget of a channel with other limits; those that are not given stay.
fn raised(desk: &Desk, channel: &str, limits: &Budget) -> Result<Budget> {
    let shown: ChannelView = typed(desk.client()?.get(&route(channel, ""))?)?;
    Ok(Budget {
        turns: limits.turns.or(shown.budget.turns),
        tokens: limits.tokens.or(shown.budget.tokens),
        cost_usd: limits.cost_usd.or(shown.budget.cost_usd),
    })
}

fn member(desk: &Desk, args: &MemberArgs, verb: &str) -> Result<()> {
    change(desk, &args.channel, &format!("{}/{verb}", of_member(&args.member)), &json!({}))
}

/// Returns the part of a route that means a member.
fn of_member(handle: &str) -> String {
    route(handle.trim_start_matches('@'), "").replace("/api/channels/", "members/")
}
