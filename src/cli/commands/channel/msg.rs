//! `wiki-browser msg`: messages of channels.

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use crate::api::arrival::ArrivalRequest;
use crate::api::channels::{
    AttachmentView, ChannelView, HeldAnswer, HeldDecision, HeldRequest, History, MessageView,
    PostRequest, Posted,
};
use crate::base::limit::CHANNEL_ATTACHMENT_BYTES_MAX;
use crate::base::{Error, Result};
use crate::cli::commands::Desk;
use crate::cli::commands::channel::message::print;
use crate::cli::commands::channel::{change, route, typed};
use crate::cli::terminal::{escape, input, output, when};
use crate::client::{Client, query};
use crate::flows;

/// Longest message that is read from standard input, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// What can be done with messages of channels.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum MsgCommand {
    /// Send a message to a channel
    #[command(after_help = "Examples:
  wiki-browser msg send 7 '@paula do you agree with robbo?'
  wiki-browser msg send workshop-names-7 - < plan.md
  wiki-browser msg send 7 'Is this the layout, @paula?' --attach layout.png")]
    Send(SendArgs),
    /// Print an attached text, or save an attached file
    Attachment {
        /// Slug (or its beginning), number or name
        channel: String,
        /// Number of the attachment
        number: i64,
        /// Save it here instead; the file must not exist
        #[arg(long, value_name = "FILE")]
        out: Option<Utf8PathBuf>,
    },
    /// Retry an agent's turn that failed
    Again {
        /// Slug (or its beginning), number or name
        channel: String,
        /// Number of the message that reports it [default: the last one]
        number: Option<i64>,
    },
    /// Send a message again that an agent may not have received, with what it was given together
    Resend(ArrivalArgs),
    /// Confirm that an unconfirmed message arrived
    Settle(ArrivalArgs),
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
        /// Only since a time (RFC 3339), or this long ago (2h, 3d); the oldest first
        #[arg(long, value_name = "TIME", conflicts_with = "before")]
        since: Option<String>,
        /// How: for people, or as agents read it; with --json, as the server sends it
        #[arg(long, value_enum, default_value_t = HistoryFormat::Text)]
        format: HistoryFormat,
    },
}

/// How messages are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum HistoryFormat {
    /// For people.
    Text,
    /// As agents read it.
    Envelope,
    /// A line of JSON for each message.
    Json,
}

/// `msg resend` and `msg settle`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ArrivalArgs {
    /// Slug (or its beginning), number or name
    channel: String,
    /// Number of the message
    number: i64,
    /// The agent
    #[arg(long, value_name = "AGENT")]
    to: String,
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
    #[arg(required_unless_present = "attach")]
    text: Option<String>,
    /// message, delegation or escalation
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Handle of the member it is addressed to
    #[arg(long, value_name = "HANDLE")]
    to: Option<String>,
    /// Number of the message that it replies to
    #[arg(long, value_name = "NUMBER")]
    reply_to: Option<i64>,
    /// Attach a file of at most 10 MiB; repeatable
    #[arg(long, value_name = "FILE")]
    attach: Vec<Utf8PathBuf>,
    /// Idempotency key: repeating it returns the first answer
    #[arg(long, value_name = "WORD")]
    key: Option<String>,
}

/// Runs a command on messages of channels.
pub(in crate::cli) fn run(desk: &Desk, command: MsgCommand) -> Result<()> {
    match command {
        MsgCommand::Send(args) => send(desk, args),
        MsgCommand::Attachment { channel, number, out } => {
            let path = route(&channel, &format!("/attachments/{number}"));
            let content = desk.client()?.get_file(&path)?;
            match out {
                Some(out) => output::save(&out, &content),
                None => output::print_file(&desk.screen, content),
            }
        }
        MsgCommand::Again { channel, number } => again(desk, &channel, number),
        MsgCommand::Resend(args) => arrival(desk, &args, "resend"),
        MsgCommand::Settle(args) => arrival(desk, &args, "settle"),
        MsgCommand::Held(args) => held(desk, &args),
        MsgCommand::History { channel, limit, after, before, since, format } => {
            let (limit, after, before) = (
                limit.to_string(),
                after.map(|it| it.to_string()),
                before.map(|it| it.to_string()),
            );
            let since = since.map(|it| when::past(desk.now(), &it)).transpose()?;
            let pairs = [
                ("since", since.as_deref()),
                ("limit", Some(limit.as_str())),
                ("after", after.as_deref()),
                ("before", before.as_deref()),
            ];
            let answer = desk.client()?.get(&query(&route(&channel, "/messages"), &pairs))?;
            let found: History = typed(answer.clone())?;
            desk.screen.answer(&answer, |_, _| match format {
                HistoryFormat::Text => found.items.iter().try_for_each(|it| print(desk, it)),
                HistoryFormat::Envelope => envelopes(desk, &channel, &found.items),
                HistoryFormat::Json => {
                    found.items.iter().try_for_each(|it| desk.screen.put(&json!(it).to_string()))
                }
            })
        }
    }
}

/// Prints messages as agents read them.
fn envelopes(desk: &Desk, channel: &str, messages: &[MessageView]) -> Result<()> {
    let shown: ChannelView = typed(desk.client()?.get(&route(channel, ""))?)?;
    let text = flows::channels::as_told(&shown, messages);
    desk.screen.put(&escape::block(text.trim_end()))
}

fn arrival(desk: &Desk, args: &ArrivalArgs, verb: &str) -> Result<()> {
    let verb = format!("messages/{}/{verb}", args.number);
    change(desk, &args.channel, &verb, &json!(ArrivalRequest { to: args.to.clone() }))
}

fn send(desk: &Desk, args: SendArgs) -> Result<()> {
    let body = match args.text.as_deref() {
        Some("-") => input::standard("the message", TEXT_BYTES_MAX)?,
        Some(text) => text.to_owned(),
        None => String::new(),
    };
    let client = desk.client()?;
    let attachments = args.attach.iter().map(|file| attach(&client, &args.channel, file));
    let attachments = attachments.collect::<Result<_>>()?;
    let in_reply_to = args.reply_to;
    let request = PostRequest { body, kind: args.kind, to: args.to, in_reply_to, attachments };
    let (body, path) = (json!(request), route(&args.channel, "/messages"));
    let answer = match &args.key {
        Some(key) => client.post_once(&path, &body, key)?,
        None => client.create(&path, &body)?,
    };
    let posted: Posted = typed(answer.clone())?;
    for why in &posted.waiting {
        desk.screen.note(&escape::line(why));
    }
    desk.screen
        .answer(&answer, |screen, _| screen.put(&format!("{} {}", posted.channel, posted.sequence)))
}

/// Uploads a file and returns its number.
fn attach(client: &Client, channel: &str, file: &Utf8Path) -> Result<i64> {
    let content = input::bytes(file, CHANNEL_ATTACHMENT_BYTES_MAX)?;
    let path = query(&route(channel, "/attachments"), &[("name", file.file_name())]);
    let uploaded: AttachmentView = typed(client.post_file(&path, &content)?)?;
    Ok(uploaded.number)
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
