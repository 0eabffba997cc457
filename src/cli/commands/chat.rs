//! `wiki-browser chat`: conversations with the assistant.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::chat::{ChatMessageView, FoundPiece, History, SessionPage, SessionView};
use crate::api::chat_settings::{ActionPage, ScratchCleared, ScratchView};
use crate::base::{Error, Result, from_json};
use crate::cli::commands::mail::typed;
use crate::cli::commands::search::highlighted;
use crate::cli::commands::{Desk, Page};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::Style;
use crate::cli::terminal::short_id::{Noun, resolve, shorten};
use crate::cli::terminal::table::Table;
use crate::client::{Client, path_part, query};
use crate::flows::assistant::{NO_SESSION, RUN_ENDED};

/// Commands on conversations.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ChatCommand {
    /// List your conversations, pinned ones first, then the newest
    List {
        /// List those in the archive instead
        #[arg(long)]
        archived: bool,
        #[command(flatten)]
        page: Page,
    },
    /// Find the conversations that hold some words, best first
    #[command(after_help = "\
Words are found whatever their case and accents. All of them must occur in one message;
\"several words\" in quotation marks must stand together, wor* is the beginning of a word, and
after -- a -word must not occur.

Examples:
  wiki-browser chat search retry budget
  wiki-browser chat search '\"exponential backoff\"' --limit 5")]
    Search {
        /// What to look for
        #[arg(required = true)]
        words: Vec<String>,
        #[command(flatten)]
        page: Page,
    },
    /// List your actions, the Markdown files of `agent/actions` in your vault
    Actions,
    /// Print a conversation
    Show {
        /// Id of the conversation
        id: String,
    },
    /// Print the branch of a conversation that is shown, as Markdown
    Export {
        /// Id of the conversation
        id: String,
        /// Print one message per line, as JSON
        #[arg(long)]
        jsonl: bool,
    },
    /// Rename a conversation
    Rename {
        /// Id of the conversation
        id: String,
        /// Its new title
        title: String,
    },
    /// Pin a conversation: pinned ones stand first in the list
    Pin {
        /// Id of the conversation
        id: String,
    },
    /// Unpin a conversation
    Unpin {
        /// Id of the conversation
        id: String,
    },
    /// Archive a conversation: `list --archived` shows it, and a new question brings it back
    Archive {
        /// Id of the conversation
        id: String,
    },
    /// Bring a conversation back from the archive
    Unarchive {
        /// Id of the conversation
        id: String,
    },
    /// Stop the answer that is being written in a conversation, or a run by its id
    Stop {
        /// Id of the conversation or of the run
        id: String,
    },
    /// List files in `agent/scratch` of your vault that have not changed for 30 days
    Scratch {
        /// Delete them
        #[arg(long)]
        delete: bool,
    },
    /// Make a call that was not made because nobody answered in time; `show` names such calls
    Do {
        /// Id of the call
        id: String,
    },
    /// Delete a conversation with all its messages; backups keep what they have
    Delete {
        /// Id of the conversation
        id: String,
    },
}

/// Runs a command on conversations.
pub(super) fn chat(desk: &Desk, command: ChatCommand) -> Result<u8> {
    let client = desk.client()?;
    match command {
        ChatCommand::List { archived, page } => list(desk, &client, (archived, &page)),
        ChatCommand::Search { words, page } => search(desk, &client, &words.join(" "), &page),
        ChatCommand::Actions => actions(desk, &client),
        ChatCommand::Show { id } => show(desk, &client, &id),
        ChatCommand::Export { id, jsonl } => export(desk, &client, (&id, jsonl)),
        ChatCommand::Rename { id, title } => change(desk, &client, &id, &json!({"title": title})),
        ChatCommand::Pin { id } => change(desk, &client, &id, &json!({"is_pinned": true})),
        ChatCommand::Unpin { id } => change(desk, &client, &id, &json!({"is_pinned": false})),
        ChatCommand::Archive { id } => change(desk, &client, &id, &json!({"is_archived": true})),
        ChatCommand::Unarchive { id } => change(desk, &client, &id, &json!({"is_archived": false})),
        ChatCommand::Stop { id } => stop(desk, &client, &id),
        ChatCommand::Scratch { delete } => scratch(desk, &client, delete),
        ChatCommand::Do { id } => {
            let path = format!("/api/agent/calls/{}/do", path_part(&id));
            let made = client.post(&path, &json!({}))?;
            let of = |name: &str| made[name].as_str().unwrap_or_default();
            let words = format!("{} {}: {}", of("tool"), of("state"), of("summary"));
            desk.screen.answer(&made, |screen, _| screen.put(&escape::line(&words)))?;
            Ok(u8::from(made["ok"] != true))
        }
        ChatCommand::Delete { id } => {
            let id = resolve(&client, Noun::Chat, &id)?;
            let gone = client.delete(&format!("/api/agent/sessions/{id}"))?;
            let words = format!("deleted conversation {}", shorten(&id));
            desk.screen.answer(&gone, |screen, _| screen.put(&words))?;
            Ok(0)
        }
    }
}

fn scratch(desk: &Desk, client: &Client, is_deleting: bool) -> Result<u8> {
    let answer = client.get("/api/agent/scratch")?;
    if !is_deleting {
        desk.screen.tell(&answer, |screen, old: ScratchView| {
            let mut table = Table::new(&["BYTES", "CHANGED", "PATH"]);
            for it in old.items {
                let changed = desk.since(Some(it.modified_at));
                table.row([it.bytes.to_string(), changed, escape::line(&it.path)]);
            }
            screen.table(&table, "no old files in agent/scratch")
        })?;
        return Ok(0);
    }
    let old = from_json::<ScratchView>(&answer)
        .map_err(|cause| Error::internal("the server's list is invalid").source(cause))?;
    let before = old.before.rfc3339();
    let gone = client.delete(&query("/api/agent/scratch", &[("before", Some(&before))]))?;
    desk.screen.tell(&gone, |screen, gone: ScratchCleared| {
        let ScratchCleared { deleted, bytes, kept } = gone;
        screen.put(&format!("deleted {deleted} files ({bytes} bytes), kept {kept}"))
    })?;
    Ok(0)
}

/// Parses the list of actions.
pub(super) fn read_actions(answer: &Value) -> Result<ActionPage> {
    from_json::<ActionPage>(answer)
        .map_err(|cause| Error::internal("the server answered no list of actions").source(cause))
}

fn actions(desk: &Desk, client: &Client) -> Result<u8> {
    let answer = client.get("/api/agent/actions")?;
    desk.screen.answer(&answer, |screen, answer| {
        let page = read_actions(answer)?;
        let mut table = Table::new(&["ID", "ASKS", "LABEL", "ABOUT"]);
        for it in page.items {
            let about = it.error.map(|why| format!("cannot be run: {why}")).or(it.about);
            let asks = if it.requires_confirmation { "yes" } else { "" };
            let about = escape::line(&about.unwrap_or_default());
            table.row([it.id, asks.to_owned(), escape::line(&it.label), about]);
        }
        screen.table(&table, &format!("no actions yet: write a Markdown file in {}", page.folder))
    })?;
    Ok(0)
}

fn list(desk: &Desk, client: &Client, (archived, page): (bool, &Page)) -> Result<u8> {
    let limit = page.limit();
    let archived = archived.then_some("true");
    let pairs = [("limit", Some(&*limit)), ("after", page.after()), ("archived", archived)];
    let answer = client.get(&query("/api/agent/sessions", &pairs))?;
    desk.screen.tell(&answer, |screen, page: SessionPage| {
        let mut table = Table::new(&["ID", "STATE", "MESSAGES", "WHEN", "TITLE"]);
        for it in &page.items {
            let state = match (&it.active_run, it.questions) {
                (None, _) if it.is_pinned => "pinned",
                (None, _) => "",
                (Some(_), 0) => "answering",
                (Some(_), _) => "asks you",
            };
            table.row([
                shorten(it.session_id.as_str()).to_owned(),
                state.to_owned(),
                it.messages.to_string(),
                desk.since(Some(it.touched_at)),
                escape::line(&it.title),
            ]);
        }
        screen.table(&table, "no conversations yet: wiki-browser ask TEXT")
    })?;
    Ok(0)
}

fn pieces(desk: &Desk, pieces: &[FoundPiece]) -> String {
    pieces.iter().map(|piece| highlighted(desk, &piece.text, piece.hit)).collect()
}

fn search(desk: &Desk, client: &Client, words: &str, page: &Page) -> Result<u8> {
    let limit = page.limit();
    let pairs = [("query", Some(words)), ("limit", Some(&*limit)), ("after", page.after())];
    let answer = client.get(&query("/api/agent/sessions", &pairs))?;
    desk.screen.tell(&answer, |screen, page: SessionPage| {
        for (view, found) in page.items.iter().filter_map(|it| Some((it, it.found.as_ref()?))) {
            let id = shorten(view.session_id.as_str());
            let when = screen.paint(Style::Dim, &escape::line(&desk.since(Some(found.at))));
            screen.put(&format!("{id} {} {when}", pieces(desk, &found.title)))?;
            screen.put(&format!("    {}", pieces(desk, &found.snippet)))?;
        }
        if page.items.is_empty() {
            screen.note("no results");
        }
        if page.is_building {
            screen.note("indexing is in progress; results may be incomplete");
        }
        desk.more(page.next.as_deref());
        if page.next.is_none() && page.is_cut {
            screen.note("only the newest results were ranked; add a word to narrow them down");
        }
        Ok(())
    })?;
    Ok(0)
}

fn show(desk: &Desk, client: &Client, id: &str) -> Result<u8> {
    let id = resolve(client, Noun::Chat, id)?;
    let pairs = [("session_id", Some(id.as_str())), ("limit", Some("200"))];
    let answer = client.get(&query("/api/agent/session/history", &pairs))?;
    desk.screen.tell(&answer, |screen, history: History| {
        for message in &history.messages {
            let who = if message.role == "user" { "You" } else { "Assistant" };
            let state = match message.state.as_str() {
                "whole" => String::new(),
                state => format!(" ({})", escape::line(state)),
            };
            screen.put(&format!("{who}{state}:"))?;
            screen.put(&escape::block(&message.body))?;
            if let Some(path) = &message.artefact {
                screen.note(&escape::line(&format!("recorded in {path}")));
            }
            screen.put("")?;
        }
        for call in history.calls.iter().filter(|call| call.can_do) {
            let (tool, subject, id) = (&call.tool, &call.subject, &call.id);
            let words = format!("{tool} {subject} expired: wiki-browser chat do {id}");
            screen.note(&escape::line(&words));
        }
        if let Some(error) = &history.error {
            screen.note(&escape::line(&error.message));
        }
        Ok(())
    })?;
    Ok(0)
}

/// Changes a conversation.
fn change(desk: &Desk, client: &Client, id: &str, request: &Value) -> Result<u8> {
    let id = resolve(client, Noun::Chat, id)?;
    let changed = client.post(&format!("/api/agent/sessions/{id}"), request)?;
    desk.screen.tell(&changed, |screen, it: SessionView| {
        let pinned = if it.is_pinned { ", pinned" } else { "" };
        let archived = if it.is_archived { ", archived" } else { "" };
        let words = format!("{} {}{pinned}{archived}", shorten(&id), it.title);
        screen.put(&escape::line(&words))
    })?;
    Ok(0)
}

/// Prints all messages of the branch that is shown, oldest first.
fn export(desk: &Desk, client: &Client, (id, jsonl): (&str, bool)) -> Result<u8> {
    let id = resolve(client, Noun::Chat, id)?;
    let session: SessionView = typed(client.get(&format!("/api/agent/sessions/{id}"))?)?;
    let mut before: Option<String> = None;
    let mut pages: Vec<Vec<ChatMessageView>> = Vec::new();
    loop {
        let pairs = [
            ("session_id", Some(id.as_str())),
            ("limit", Some("200")),
            ("before", before.as_deref()),
        ];
        let answer = client.get(&query("/api/agent/session/history", &pairs))?;
        let page: History = typed(answer)?;
        pages.push(page.messages);
        match page.next {
            Some(next) => before = Some(next.to_string()),
            None => break,
        }
    }
    let messages: Vec<ChatMessageView> = pages.into_iter().rev().flatten().collect();
    if jsonl {
        for message in &messages {
            desk.screen.raw(&format!("{}\n", json!(message)))?;
        }
        return Ok(0);
    }
    let title: Vec<&str> = session.title.split_whitespace().collect();
    let mut text = format!("# {}\n", title.join(" "));
    for message in &messages {
        text += &entry(message);
    }
    let answer = json!({"session_id": id, "markdown": text});
    desk.screen.answer(&answer, |screen, _| screen.raw(&text))?;
    Ok(0)
}

/// Returns a message as Markdown: quoted, so that no line of it passes for a heading of ours.
fn entry(message: &ChatMessageView) -> String {
    let who = if message.role == "user" { "You" } else { "Assistant" };
    let state = match message.state.as_str() {
        "whole" => String::new(),
        state => format!(", {state}"),
    };
    let mut text = format!("\n## {who}{state}, {}\n\n", message.created_at.rfc3339());
    for line in message.body.trim_end().lines() {
        text += format!("> {line}").trim_end();
        text.push('\n');
    }
    for file in &message.attachments {
        text += &format!("\nAttached: `{}`\n", file.path);
    }
    if let Some(path) = &message.artefact {
        text += &format!("\nRecorded in `{path}`\n");
    }
    text
}

fn stop(desk: &Desk, client: &Client, id: &str) -> Result<u8> {
    let run = match resolve(client, Noun::Chat, id) {
        Ok(session) => match client.get(&format!("/api/agent/sessions/{session}")) {
            Ok(session) => session["active_run"].as_str().map(str::to_owned).ok_or_else(|| {
                Error::conflict(RUN_ENDED, "nothing is being answered in this conversation")
            })?,
            // It may be a run.
            Err(cause) if cause.code_str() == NO_SESSION => session,
            Err(cause) => return Err(cause),
        },
        Err(cause) => return Err(cause),
    };
    let answer = client.post("/api/agent/stop", &json!({"run_id": run}))?;
    let text = format!("run {}: {}", shorten(&run), answer["state"].as_str().unwrap_or_default());
    desk.screen.answer(&answer, |screen, _| screen.put(&text))?;
    Ok(0)
}
