//! `wiki-browser topic`.

use std::io::IsTerminal;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;

use crate::api::topics::{Message, Topic};
use crate::base::limit::MESSAGE_BYTES_MAX;
use crate::base::{Context, Error, ErrorKind, Page as List, Result, SourcePath, truncate_chars};
use crate::cli::commands::{Desk, Page, plain};
use crate::cli::terminal::screen::{Screen, Style};
use crate::cli::terminal::short_id::{Noun, shorten};
use crate::cli::terminal::table::Table;
use crate::cli::terminal::{escape, input};
use crate::client::query;
use crate::flows::jobs::JobView;
use crate::flows::topics::TopicPage;

/// Commands on topics.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TopicCommand {
    /// List topics, newest first
    List {
        /// Only topics on this source
        #[arg(long, value_name = "PATH")]
        source: Option<String>,
        /// Only topics with this status
        #[arg(long, value_parser = ["open", "incorporated", "discarded"])]
        status: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Show a topic with its messages, proposals and jobs
    Show {
        /// Id of the topic
        id: String,
    },
    /// Open a topic about a passage of a source, or about all of it
    Create(CreateArgs),
    /// Add a message to a topic
    #[command(
        after_help = "Example:\n  wiki-browser topic message 7f3a --body 'The second one, please'"
    )]
    Message {
        /// Id of the topic
        id: String,
        /// The message [default: standard input]
        #[arg(long, value_name = "TEXT")]
        body: Option<String>,
    },
    /// Move a topic to another passage, for example after a rewrite
    Reattach(ReattachArgs),
    /// Print topics as W3C Web Annotations (JSON-LD)
    #[command(after_help = "Examples:
  wiki-browser topic export 7f3a > annotation.json
  wiki-browser topic export --source guide.md > annotations.json")]
    Export {
        /// Id of the topic
        #[arg(required_unless_present = "source")]
        id: Option<String>,
        /// All open topics of this source
        #[arg(long, value_name = "PATH", conflicts_with = "id")]
        source: Option<String>,
    },
    /// Close a topic without changing its source
    Discard(CloseArgs),
    /// Reopen a closed topic
    Reopen(CloseArgs),
}

/// `topic create`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("place").required(true).args(["quote", "global"]))]
#[command(after_help = "Examples:
  wiki-browser topic create --source guide.md --quote 'old words' --body 'Say it simpler'
  wiki-browser topic create --source guide.md --global < thoughts.txt")]
pub(in crate::cli) struct CreateArgs {
    /// Path of the source, relative to the root
    #[arg(long, value_name = "PATH")]
    source: String,
    /// The passage, exactly as it is in the source
    #[arg(long, value_name = "TEXT")]
    quote: Option<String>,
    /// Text right before the quote, if it occurs twice
    #[arg(long, value_name = "TEXT", requires = "quote")]
    prefix: Option<String>,
    /// Text right after the quote, if it occurs twice
    #[arg(long, value_name = "TEXT", requires = "quote")]
    suffix: Option<String>,
    /// Open the topic about the whole source
    #[arg(long)]
    global: bool,
    /// Title [default: the first line of the message]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// First message [default: standard input]
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// Idempotency key: repeating it returns the first answer
    #[arg(long, value_name = "WORD")]
    idempotency_key: Option<String>,
}

/// `topic reattach`.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  wiki-browser topic reattach 7f3a --quote 'the new words' --reason 'the paragraph was rewritten'
  wiki-browser topic reattach 7f3a --source docs/other.md --quote 'the words there'")]
pub(in crate::cli) struct ReattachArgs {
    /// Id of the topic
    id: String,
    /// Move the topic to this source, if the passage is there
    #[arg(long, value_name = "PATH")]
    source: Option<String>,
    /// The passage, exactly as it is in the current text
    #[arg(long, value_name = "TEXT", required_unless_present = "bytes")]
    quote: Option<String>,
    /// Text right before the quote, if it occurs twice
    #[arg(long, value_name = "TEXT", requires = "quote")]
    prefix: Option<String>,
    /// Text right after the quote, if it occurs twice
    #[arg(long, value_name = "TEXT", requires = "quote")]
    suffix: Option<String>,
    /// Refuse if the source no longer has this version
    #[arg(long, value_name = "SHA", required_unless_present = "quote")]
    blob: Option<String>,
    /// Byte range in that version, instead of a quote
    #[arg(long, value_name = "START..END", conflicts_with = "quote", requires = "blob")]
    bytes: Option<String>,
    /// Reason; added to the topic as a message
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// `topic discard` and `topic reopen`.
#[derive(Args, Debug)]
pub(in crate::cli) struct CloseArgs {
    /// Id of the topic
    id: String,
    /// Reason; added to the topic as a message
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: TopicCommand) -> Result<()> {
    match command {
        TopicCommand::List { source, status, page } => {
            let source = source.map(|it| it.parse::<SourcePath>()).transpose()?;
            list(desk, source.as_ref(), status.as_deref(), &page)
        }
        TopicCommand::Show { id } => show(desk, &id),
        TopicCommand::Create(args) => create(desk, &args),
        TopicCommand::Message { id, body } => message(desk, &id, body),
        TopicCommand::Reattach(args) => reattach(desk, &args),
        TopicCommand::Export { id, source } => export(desk, id.as_deref(), source),
        TopicCommand::Discard(args) => close(desk, &args, "discard"),
        TopicCommand::Reopen(args) => close(desk, &args, "reopen"),
    }
}

fn list(desk: &Desk, source: Option<&SourcePath>, status: Option<&str>, page: &Page) -> Result<()> {
    let limit = page.limit();
    let pairs = [
        ("source_path", source.map(SourcePath::as_str)),
        ("status", status),
        ("after", page.after()),
        ("limit", Some(&*limit)),
    ];
    let answer = desk.client()?.get(&query("/api/topics", &pairs))?;
    desk.screen.tell(&answer, |screen, page: List<Topic>| {
        let mut table =
            Table::new(&["ID", "STATUS", "PLACE", "MSGS", "WHEN", "BY", "SOURCE", "TITLE"]);
        for it in &page.items {
            table.row([
                shorten(it.id.as_str()),
                it.status.as_str(),
                place(it),
                &it.message_count.to_string(),
                &desk.since(Some(it.created_at)),
                it.created_by_name.as_deref().unwrap_or_default(),
                it.source_path.as_str(),
                &it.title,
            ]);
        }
        screen.table(&table, "no topics")?;
        desk.more(page.next.as_deref());
        Ok(())
    })
}

/// Returns the state of a Topic's placement in the current text, in one word.
fn place(topic: &Topic) -> &'static str {
    if topic.source_deleted.is_some() {
        "orphaned"
    } else if topic.is_global {
        "global"
    } else {
        topic.placement.as_ref().map_or("", |it| it.state.as_str())
    }
}

/// Returns how the document of a Topic was deleted, if it was.
fn deletion(topic: &Topic) -> Option<String> {
    let deletion = topic.source_deleted.as_ref()?;
    Some(match &deletion.commit {
        Some(commit) => format!("deleted in commit {commit}"),
        None if deletion.is_committed => "deleted".to_owned(),
        None => "deleted, but not committed".to_owned(),
    })
}

fn show(desk: &Desk, given: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Topic, given)?;
    let answer = client.get(&format!("/api/topics/{id}"))?;
    desk.screen.tell(&answer, |screen, page: TopicPage| {
        head(desk, screen, &page.topic)?;
        for message in &page.messages {
            let who = plain(message.author_name.as_ref());
            let when = desk.since(Some(message.created_at));
            let title = screen.paint(Style::Bold, &format!("#{} {who}", message.sequence));
            screen.put(&format!("\n{title} {}", screen.paint(Style::Dim, &when)))?;
            screen.put(escape::block(&message.body).trim_end())?;
        }
        attached(desk, screen, &page)
    })
}

fn head(desk: &Desk, screen: &Screen, topic: &Topic) -> Result<()> {
    screen.put(&screen.paint(Style::Bold, &escape::line(&topic.title)))?;
    desk.detail("topic", topic.id.as_str())?;
    desk.detail("status", &screen.state(topic.status.as_str()))?;
    desk.detail("source", &escape::line(topic.source_path.as_str()))?;
    if let Some(how) = deletion(topic) {
        desk.detail("source is", &how)?;
    }
    desk.detail("place", &screen.state(place(topic)))?;
    desk.detail("quote", &escape::line(&truncate_chars(quote(topic), 200)))
}

fn quote(topic: &Topic) -> &str {
    topic.anchor.as_ref().map_or("", |it| it.quote.as_str())
}

fn attached(desk: &Desk, screen: &Screen, page: &TopicPage) -> Result<()> {
    let mut table = Table::new(&["", "ID", "STATUS", "WHEN", "WHAT"]);
    for it in &page.proposals {
        let (id, when) = (shorten(it.id.as_str()), desk.since(Some(it.created_at)));
        // Its first line says what it changes; the table has one for each.
        let summary = it.summary.as_deref().unwrap_or_default();
        let summary = summary.lines().find(|it| !it.trim().is_empty()).unwrap_or_default();
        table.row(["proposal", id, it.status.as_str(), &when, summary]);
    }
    for JobView { job: it, .. } in &page.jobs {
        let (id, when) = (shorten(it.id.as_str()), desk.since(Some(it.created_at)));
        table.row(["job", id, it.status.as_str(), &when, &it.kind]);
    }
    if table.is_empty() {
        return Ok(());
    }
    screen.put("")?;
    screen.table(&table, "")
}

fn create(desk: &Desk, args: &CreateArgs) -> Result<()> {
    let path: SourcePath = args.source.parse()?;
    let client = desk.client()?;
    let mut body = json!({"source_path": path.as_str(), "body": body_of(desk, args.body.clone())?});
    match &args.quote {
        Some(quote) => {
            let mut selection = json!({"quote": quote});
            for (name, words) in [("prefix", &args.prefix), ("suffix", &args.suffix)] {
                if let Some(words) = words {
                    selection[name] = json!(words);
                }
            }
            body["selection"] = selection;
        }
        None => body["global"] = json!(true),
    }
    if let Some(title) = &args.title {
        body["title"] = json!(title);
    }
    let answer = match &args.idempotency_key {
        Some(key) => client.post_once("/api/topics", &body, key)?,
        None => client.create("/api/topics", &body)?,
    };
    desk.screen.tell(&answer, |screen, topic: Topic| screen.put(topic.id.as_str()))
}

fn message(desk: &Desk, given: &str, body: Option<String>) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Topic, given)?;
    let body = json!({"body": body_of(desk, body)?});
    let answer = client.create(&format!("/api/topics/{id}/messages"), &body)?;
    desk.screen.tell(&answer, |screen, message: Message| {
        screen.put(&format!("message {} of topic {id}", message.sequence))
    })
}

fn reattach(desk: &Desk, args: &ReattachArgs) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Topic, &args.id)?;
    let mut selection = json!({});
    let words = [
        ("quote", &args.quote),
        ("prefix", &args.prefix),
        ("suffix", &args.suffix),
        ("blob", &args.blob),
    ];
    for (name, value) in words.into_iter().filter_map(|(name, it)| Some((name, it.as_ref()?))) {
        selection[name] = json!(value);
    }
    if let Some(bytes) = &args.bytes {
        let parsed = bytes.split_once("..").and_then(|(start, end)| {
            Some((start.parse::<usize>().ok()?, end.parse::<usize>().ok()?))
        });
        let (start, end) = parsed.ok_or_else(|| {
            Error::invalid(format!("`{bytes}` is not a byte range")).hint("write it as 120..134")
        })?;
        (selection["start"], selection["end"]) = (json!(start), json!(end));
    }
    let mut body = json!({"selection": selection});
    if let Some(source) = &args.source {
        let path: SourcePath = source.parse()?;
        body["source_path"] = json!(path.as_str());
    }
    if let Some(reason) = &args.reason {
        body["reason"] = json!(reason);
    }
    let answer = client.post(&format!("/api/topics/{id}/anchor"), &body)?;
    desk.screen.tell(&answer, |screen, topic: Topic| {
        let quote = escape::line(&truncate_chars(quote(&topic), 80));
        let source = escape::line(topic.source_path.as_str());
        screen.put(&format!("topic {id} is now on {source}: {quote}"))
    })
}

fn export(desk: &Desk, id: Option<&str>, source: Option<String>) -> Result<()> {
    let client = desk.client()?;
    let route = match (id, source) {
        (Some(given), _) => {
            format!("/api/topics/{}/annotation", desk.id(&client, Noun::Topic, given)?)
        }
        (None, source) => {
            let path: SourcePath = source.unwrap_or_default().parse()?;
            query("/api/source/annotations", &[("path", Some(path.as_str()))])
        }
    };
    let answer = client.get(&route)?;
    desk.screen.answer(&answer, |screen, answer| {
        let text = serde_json::to_string_pretty(answer);
        let text = text.context(ErrorKind::Internal, || "cannot write JSON".to_owned())?;
        screen.put(&escape::json(&text))
    })
}

fn close(desk: &Desk, args: &CloseArgs, verb: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Topic, &args.id)?;
    let body = args.reason.as_ref().map_or_else(|| json!({}), |it| json!({"reason": it}));
    let answer = client.post(&format!("/api/topics/{id}/{verb}"), &body)?;
    desk.screen.tell(&answer, |screen, topic: Topic| {
        screen.put(&format!("topic {id} is {}", screen.state(topic.status.as_str())))
    })
}

fn body_of(desk: &Desk, given: Option<String>) -> Result<String> {
    match given {
        Some(body) => Ok(body),
        None if std::io::stdin().is_terminal() => {
            desk.screen.note("type the message, then press Ctrl-D on an empty line");
            input::typed("the message", MESSAGE_BYTES_MAX)
        }
        None => input::standard("the message", MESSAGE_BYTES_MAX),
    }
}
