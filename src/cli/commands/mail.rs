//! `wiki-browser send`, `mail` and `inbox`: writing to addresses, and waiting for what comes back.

use std::time::{Duration, Instant};

use camino::Utf8Path;
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::mail::{
    AwaitState, Awaited, InboxList, InboxView, MessagePage, MessageView, SendRequest, Sent,
    hint_of_unconfirmed,
};
use crate::base::limit::parse_duration;
use crate::base::{Error, ErrorKind, MailId, Result};
use crate::cli::commands::site::Absence;
use crate::cli::commands::{Desk, Page};
use crate::cli::terminal::short_id::{Noun, shorten};
use crate::cli::terminal::table::Table;
use crate::cli::terminal::{escape, input};
use crate::client::{Client, query};

/// Longest payload that is read from a file, in bytes.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// How long the server is asked to wait at once.
const WAIT_AT_ONCE: Duration = Duration::from_secs(50);
/// Between two looks for a server that is away.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// What is said of an inbox that the script no longer declares.
const REMOVED: &str = "removed from the script; its jobs wait until it is back";
/// The exit code when the time is over and there is no answer yet.
const TIMED_OUT: u8 = 75;

/// `send`.
#[derive(Args, Debug)]
#[command(after_help = "\
An address is topic:TEMPLATE/NAME (an inbox: the message starts an instance), agent:NAME (a
long-running agent), channel:SLUG, person:NAME, or agent:TEMPLATE/ID (a running instance). --payload
is JSON, or @FILE (@- is standard input); anything that is not JSON is sent as text.

With --wait, prints the reply when it arrives: exits 0 with a reply, 1 without one, 75 on timeout.
The command to resume waiting is printed on standard error first; it works after a restart of the
server or the machine, too.

Examples:
  wiki-browser send topic:aws-account-lead/provision --payload '{\"team\":\"billing\"}' --wait
  wiki-browser send person:ada --payload 'The report is ready.'
  wiki-browser send topic:docs/review --payload @request.json --reply-to person:ada")]
pub(in crate::cli) struct SendArgs {
    /// Address of the recipient
    #[arg(value_name = "ADDRESS")]
    to: String,
    /// The message: JSON, @FILE, or text
    #[arg(long, value_name = "JSON")]
    payload: String,
    /// Message this replies to
    #[arg(long, value_name = "ID")]
    in_reply_to: Option<String>,
    /// Address for the reply [default: you]
    #[arg(long, value_name = "ADDRESS")]
    reply_to: Option<String>,
    /// A label of your own; the reply carries it too
    #[arg(long, value_name = "WORD")]
    category: Option<String>,
    /// Idempotency key: repeating it returns the first answer
    #[arg(long, value_name = "WORD")]
    key: Option<String>,
    /// Wait for the reply and print it
    #[arg(long)]
    pub(in crate::cli) wait: bool,
    /// Maximum wait, such as 10m
    #[arg(long, value_name = "DURATION", requires = "wait")]
    timeout: Option<String>,
}

/// What can be done with messages.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum MailCommand {
    /// List messages, newest first: yours, and those between agents and inboxes
    List {
        /// Only messages to this address; `me` is you
        #[arg(long, value_name = "ADDRESS")]
        to: Option<String>,
        /// Only messages from this address; `me` is you
        #[arg(long, value_name = "ADDRESS")]
        from: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Show a message and its delivery; one to you is marked as read
    Show {
        /// Id of the message
        id: String,
    },
    /// Resend a message whose delivery is unconfirmed
    Resend {
        /// Id of the message
        id: String,
    },
    /// Confirm that an unconfirmed message arrived
    Settle {
        /// Id of the message
        id: String,
    },
    /// Wait for the reply to a message; exits 0 with it, 1 without, 75 on timeout
    Wait {
        /// Id of the message
        id: String,
        /// Maximum wait, such as 10m
        #[arg(long, value_name = "DURATION")]
        timeout: Option<String>,
    },
}

/// What can be done with inboxes.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum InboxCommand {
    /// List the inboxes of the script and their waiting messages
    List,
    /// Show an inbox: its schemas and waiting messages
    Show {
        /// TEMPLATE/NAME
        name: String,
    },
}

/// Sends a message.
pub(in crate::cli) fn send(desk: &Desk, args: &SendArgs) -> Result<u8> {
    let request = SendRequest {
        to: args.to.clone(),
        payload: payload(&args.payload)?,
        in_reply_to: None,
        reply_to: args.reply_to.clone(),
        category: args.category.clone(),
    };
    let until = deadline(args.timeout.as_deref())?;
    let client = desk.client()?;
    let answered = args.in_reply_to.as_deref().map(|it| message(desk, &client, it));
    let request = SendRequest { in_reply_to: answered.transpose()?, ..request };
    let body = json!(request);
    let answer = match &args.key {
        Some(key) => client.post_once("/api/messages", &body, key)?,
        None => client.create("/api/messages", &body)?,
    };
    let sent: Sent = typed(answer.clone())?;
    if args.wait {
        desk.screen.note(&format!("wiki-browser mail wait {}", sent.message_id));
        return wait(desk, &client, &sent.message_id, until);
    }
    desk.screen.answer(&answer, |screen, _| {
        if let Some(instance) = &sent.instance {
            screen.note(&format!("started {instance}"));
        }
        if let Some(why) = &sent.waiting {
            screen.note(&escape::line(why));
        }
        screen.put(sent.message_id.as_str())
    })?;
    Ok(0)
}

/// Runs a command on messages; the code is that of the program.
pub(in crate::cli) fn run(desk: &Desk, command: MailCommand) -> Result<u8> {
    match command {
        MailCommand::List { to, from, page } => list(desk, to.as_deref(), from.as_deref(), &page),
        MailCommand::Show { id } => show(desk, &id),
        MailCommand::Resend { id } => decide(desk, &id, "resend"),
        MailCommand::Settle { id } => decide(desk, &id, "settle"),
        MailCommand::Wait { id, timeout } => {
            let (until, client) = (deadline(timeout.as_deref())?, desk.client()?);
            let id = message(desk, &client, &id)?;
            wait(desk, &client, &id, until)
        }
    }
}

/// Decides about a message that never arrived, as far as anybody knows.
fn decide(desk: &Desk, id: &str, verb: &str) -> Result<u8> {
    let client = desk.client()?;
    let id = message(desk, &client, id)?;
    let answer = client.post(&format!("/api/messages/{id}/{verb}"), &json!({}))?;
    let it: MessageView = typed(answer.clone())?;
    let state = it.deliveries.last().map_or("gone", |it| it.state.as_str());
    desk.screen.answer(&answer, |screen, _| screen.put(&format!("message {id} is {state}")))?;
    Ok(0)
}

/// Runs a command on inboxes.
pub(in crate::cli) fn inbox(desk: &Desk, command: InboxCommand) -> Result<()> {
    match command {
        InboxCommand::List => inboxes(desk),
        InboxCommand::Show { name } => inbox_show(desk, &name),
    }
}

/// Returns the whole id of a message; a whole one is not looked up.
fn message(desk: &Desk, client: &Client, given: &str) -> Result<MailId> {
    desk.id(client, Noun::Message, given)?.parse()
}

/// Returns a payload as it was given: JSON, a file with JSON, or a text.
fn payload(given: &str) -> Result<Value> {
    let text = match given.strip_prefix('@') {
        Some(path) => input::file(Utf8Path::new(path), "the payload", PAYLOAD_BYTES_MAX)?,
        None => given.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(value) => Ok(value),
        // What begins like a record or a list was meant as one.
        Err(cause) if text.trim_start().starts_with(['{', '[']) => {
            Err(Error::invalid(format!("the payload is not valid JSON: {cause}"))
                .hint("text that does not start with { or [ is sent as it is"))
        }
        Err(_) => Ok(Value::String(text)),
    }
}

fn deadline(timeout: Option<&str>) -> Result<Option<Instant>> {
    Ok(timeout.map(parse_duration).transpose()?.map(|it| Instant::now() + it))
}

pub(super) fn typed<T: DeserializeOwned>(answer: Value) -> Result<T> {
    crate::cli::terminal::screen::typed(&answer)
}

/// Waits for the reply to a message, also across a restart of the server.
fn wait(desk: &Desk, client: &Client, id: &MailId, until: Option<Instant>) -> Result<u8> {
    let mut absence = Absence::default();
    // The message was accepted: whoever waits for its reply waits for the server as well.
    absence.end(desk);
    // The first look says at once why no answer may come.
    let (mut longest, mut said) = (Duration::ZERO, None);
    loop {
        let left = until.map(|it| it.saturating_duration_since(Instant::now()));
        let seconds = left.unwrap_or(longest).min(longest).as_secs().to_string();
        longest = WAIT_AT_ONCE;
        let pairs = [("timeout", Some(seconds.as_str()))];
        match client.look(&query(&format!("/api/messages/{id}/await"), &pairs)) {
            Ok(answer) => {
                absence.end(desk);
                let found: Awaited = typed(answer.clone())?;
                if found.state != AwaitState::Pending {
                    if let Some(id) = &found.answer_id {
                        // Whoever reads it here has read it.
                        client.post(&format!("/api/messages/{id}/read"), &json!({}))?;
                    }
                    return tell(desk, &answer, &found);
                }
                if let Some(why) = found.waiting.as_ref().filter(|_| found.waiting != said) {
                    desk.screen.note(&escape::line(why));
                }
                said = found.waiting;
            }
            Err(cause) if cause.kind() == ErrorKind::Unavailable => {
                absence.goes_on(desk, cause)?;
                std::thread::sleep(LOOK_INTERVAL);
            }
            Err(cause) => return Err(cause),
        }
        if left.is_some_and(|it| it.is_zero()) {
            desk.screen.note(&format!("no reply yet: wiki-browser mail wait {id}"));
            return Ok(TIMED_OUT);
        }
    }
}

fn tell(desk: &Desk, answer: &Value, found: &Awaited) -> Result<u8> {
    desk.screen.answer(answer, |screen, _| match (&found.reply, &found.failure) {
        (Some(reply), _) => screen.put(&value(reply)),
        (None, failure) => {
            screen.note(&escape::line(failure.as_deref().unwrap_or("no reply")));
            if let Some(hint) = &found.hint {
                screen.note(&escape::line(hint));
            }
            if let Some(job) = &found.job_id {
                screen.note(&format!("wiki-browser job show {job}"));
            }
            Ok(())
        }
    })?;
    Ok(u8::from(found.state != AwaitState::Replied))
}

/// A text is printed as it is, anything else as JSON.
fn value(value: &Value) -> String {
    match value.as_str() {
        Some(text) => escape::block(text),
        None => escape::json(&format!("{value:#}")),
    }
}

fn list(desk: &Desk, to: Option<&str>, from: Option<&str>, page: &Page) -> Result<u8> {
    let limit = page.limit();
    let pairs = [("to", to), ("from", from), ("limit", Some(&*limit)), ("after", page.after())];
    let answer = desk.client()?.get(&query("/api/messages", &pairs))?;
    let found: MessagePage = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| {
        let mut table = Table::new(&["ID", "SORT", "FROM", "TO", "STATE", "WHEN"]);
        for it in &found.items {
            let from = it.from.as_ref().map_or_else(|| it.sender.name.clone(), ToString::to_string);
            let state = it.deliveries.first().map_or("", |it| it.state.as_str());
            table.row([
                shorten(it.id.as_str()),
                it.sort.as_str(),
                &escape::line(&from),
                &it.to.to_string(),
                &screen.state(state),
                &desk.ago(&json!(it.created_at)),
            ]);
        }
        screen.table(&table, "no messages")?;
        if let Some(next) = found.next {
            screen.note(&format!("more: --after {next}"));
        }
        Ok(())
    })?;
    Ok(0)
}

fn show(desk: &Desk, id: &str) -> Result<u8> {
    let client = desk.client()?;
    let id = message(desk, &client, id)?;
    let answer = client.get(&format!("/api/messages/{id}"))?;
    let found: MessageView = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| {
        desk.detail("id", found.id.as_str())?;
        desk.detail("sort", found.sort.as_str())?;
        let from = found.from.as_ref().map(ToString::to_string);
        desk.detail("from", &escape::line(&from.unwrap_or_else(|| found.sender.name.clone())))?;
        desk.detail("to", &found.to.to_string())?;
        desk.detail("category", &escape::line(found.category.as_deref().unwrap_or_default()))?;
        let answered = found.in_reply_to.as_ref().map(MailId::as_str);
        desk.detail("answers", answered.unwrap_or_default())?;
        for delivery in &found.deliveries {
            let why = delivery.reason.as_ref().or(delivery.proof.as_ref());
            let why = why.map(|it| format!(" ({})", escape::line(it))).unwrap_or_default();
            desk.detail("state", &format!("{}{why}", screen.state(&delivery.state)))?;
            let job = delivery.job_id.as_ref().map(|it| it.as_str());
            desk.detail("job", job.unwrap_or_default())?;
        }
        if found.deliveries.last().is_some_and(|it| it.state == "unconfirmed") {
            desk.detail("next", &hint_of_unconfirmed(&found.id, &found.to))?;
        }
        desk.detail("when", &desk.ago(&json!(found.created_at)))?;
        screen.put("")?;
        screen.put(&value(&found.payload))
    })?;
    client.post(&format!("/api/messages/{id}/read"), &json!({}))?;
    Ok(0)
}

fn inboxes(desk: &Desk) -> Result<()> {
    let answer = desk.client()?.get("/api/inboxes")?;
    let found: InboxList = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| {
        let mut table = Table::new(&["INBOX", "WAITING", "RUNNING", "PARKED", "AT ONCE", "ABOUT"]);
        for it in &found.items {
            table.row([
                it.name.clone(),
                it.depth.to_string(),
                it.running.to_string(),
                it.parked.to_string(),
                it.concurrency.to_string(),
                if it.is_gone { REMOVED.to_owned() } else { escape::line(&it.about) },
            ]);
        }
        screen.table(&table, "no inboxes; to declare one, see docs/inboxes.md")
    })
}

fn inbox_show(desk: &Desk, name: &str) -> Result<()> {
    let name = name.strip_prefix("topic:").unwrap_or(name);
    let (template, inbox) = name.split_once('/').ok_or_else(|| {
        Error::invalid(format!("`{}` is not TEMPLATE/NAME", name.escape_debug()))
            .hint("list them: `wiki-browser inbox list`")
    })?;
    let answer = desk.client()?.get(&format!("/api/inboxes/{template}/{inbox}"))?;
    let found: InboxView = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| {
        desk.detail("inbox", &found.name)?;
        desk.detail("address", &found.address.to_string())?;
        desk.detail("state", if found.is_gone { REMOVED } else { "" })?;
        desk.detail("about", &escape::line(&found.about))?;
        desk.detail("engine", &escape::line(&found.engine))?;
        desk.detail("waiting", &found.depth.to_string())?;
        let running = match found.is_gone {
            true => found.running.to_string(),
            false => format!("{} of {}", found.running, found.concurrency),
        };
        desk.detail("running", &running)?;
        desk.detail("parked", &found.parked.to_string())?;
        for job in &found.jobs {
            desk.detail("job", job.as_str())?;
        }
        desk.detail("on_lost", &found.on_lost)?;
        desk.detail("monitor", found.monitor.as_deref().unwrap_or_default())?;
        if !found.is_gone {
            desk.detail("send", &escape::line(&found.send_command()))?;
        }
        for (what, schema) in [("payload", &found.schema), ("reply", &found.reply_schema)] {
            if let Some(schema) = schema {
                screen.put(&format!("\n{what}:"))?;
                screen.put(&escape::json(&format!("{schema:#}")))?;
            }
        }
        Ok(())
    })
}
