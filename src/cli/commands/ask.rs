//! `wiki-browser ask` and `chat`: talking with the assistant.

use clap::{Args, Subcommand};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::api::chat::ActionPage;
use crate::base::{Error, ErrorKind, Result, random_token};
use crate::cli::commands::site::Absence;
use crate::cli::commands::{Desk, Page};
use crate::cli::terminal::screen::Form;
use crate::cli::terminal::short_id::{Noun, items, resolve, shorten};
use crate::cli::terminal::table::Table;
use crate::cli::terminal::{escape, input, question};
use crate::client::{Client, Lines, query};

/// Longest question, in bytes.
const QUESTION_BYTES_MAX: usize = 1024 * 1024;
/// The exit code of an answer that was stopped.
const STOPPED: u8 = 7;
/// Between two looks for a server that is away.
const LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(300);

/// `ask`.
#[derive(Args, Debug)]
#[command(after_help = "\
The answer continues if you interrupt this command; print it later with `wiki-browser chat show`.
With --json, prints the items of the answer, one per line.

Exit codes: 0 answered, 1 failed, 5 the conversation is already answering, 7 stopped.

Examples:
  wiki-browser ask 'Which of our guides mention retries?'
  git diff | wiki-browser ask -
  wiki-browser ask --session 7f3a 'And shorter?'
  wiki-browser ask --action weekly-digest --dry-run")]
pub(in crate::cli) struct AskArgs {
    /// The question, or extra instructions for an action; `-` reads standard input
    #[arg(value_name = "TEXT", required_unless_present = "action")]
    text: Option<String>,
    /// Run an action: a Markdown file of `agent/actions` in your vault
    #[arg(long, value_name = "ID")]
    action: Option<String>,
    /// Dry run: report what each call would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Skip the confirmation of an action
    #[arg(long, requires = "action")]
    yes: bool,
    /// Continue this conversation
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Mode to answer with, such as claude_code
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
}

/// What can be done with conversations.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ChatCommand {
    /// List your conversations, newest first
    List {
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
    /// Stop the answer in progress in a conversation, or a run by its id
    Stop {
        /// Id of the conversation or of the run
        id: String,
    },
    /// Delete a conversation and its messages; backups keep their copies
    Delete {
        /// Id of the conversation
        id: String,
    },
}

/// Asks, and prints the answer as it comes.
pub(super) fn ask(desk: &Desk, args: &AskArgs) -> Result<u8> {
    let text = match args.text.as_deref() {
        Some("-") => Some(input::standard("the question", QUESTION_BYTES_MAX)?),
        text => text.map(str::to_owned),
    };
    let client = desk.client()?;
    let mut body = json!({"dry_run": args.dry_run});
    if let Some(text) = text {
        body["message"] = json!(text);
    }
    if let Some(id) = &args.action {
        body["action_id"] = json!(id);
        if let Some(digest) = confirm(desk, &client, (id, args.yes))? {
            body["confirm"] = json!(digest);
        }
    }
    if let Some(given) = &args.session {
        body["session_id"] = json!(resolve(&client, Noun::Chat, given)?);
    }
    if let Some(mode) = &args.mode {
        body["mode"] = json!(mode);
    }
    let key = random_token("cli-")?;
    let lines = client.post_lines("/api/agent/chat-stream", &body, &key)?;
    let mut answer = Answer::new(desk);
    answer.follow(&client, lines)?;
    answer.end()
}

/// Shows an action that wants to be looked at, and returns the digest of what was agreed to.
fn confirm(desk: &Desk, client: &Client, (id, is_agreed): (&str, bool)) -> Result<Option<String>> {
    let page = read_actions(&client.get("/api/agent/actions")?)?;
    // Which actions there are, and what is wrong with one, the server says.
    let Some(action) = page.items.into_iter().find(|it| it.id == id) else { return Ok(None) };
    if !action.requires_confirmation || is_agreed {
        return Ok(action.digest);
    }
    let screen = &desk.screen;
    screen.note(&escape::block(action.prompt.as_deref().unwrap_or_default()));
    let refused = |why: &str| Error::invalid(format!("the action {id} was not run: {why}"));
    if !question::can(screen) {
        return Err(refused("it requires confirmation").hint("give --yes to skip the confirmation"));
    }
    match question::yes(screen, &format!("Run {}?", escape::line(&action.label)))? {
        true => Ok(action.digest),
        false => Err(refused("you said no")),
    }
}

/// An answer as it comes.
struct Answer<'d> {
    desk: &'d Desk,
    seq: u64,
    step: u64,
    text: String,
    session: Value,
    run: Value,
    message: Value,
    ended: Value,
    error: Value,
    absence: Absence,
}

impl<'d> Answer<'d> {
    fn new(desk: &'d Desk) -> Answer<'d> {
        let [session, run, message, ended, error] = [const { Value::Null }; 5];
        let (text, absence) = (String::new(), Absence::default());
        Answer { desk, seq: 0, step: 0, text, session, run, message, ended, error, absence }
    }

    /// Reads to the end of the answer, also across a restart of the server.
    fn follow<'c>(&mut self, client: &'c Client, lines: Lines<'c>) -> Result<()> {
        let mut lines = Some(lines);
        while self.ended.is_null() {
            let next = match &mut lines {
                Some(lines) => lines.next_line(),
                None => self.reopen(client).map(|it| {
                    lines = Some(it);
                    Some(Value::Null)
                }),
            };
            match next {
                Ok(Some(item)) => {
                    self.absence.end(self.desk);
                    self.take(client, &item)?;
                }
                Ok(None) => lines = None,
                Err(cause) if cause.kind() == ErrorKind::Unavailable && !self.run.is_null() => {
                    lines = None;
                    self.absence.goes_on(self.desk, cause)?;
                    std::thread::sleep(LOOK_INTERVAL);
                }
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    }

    fn reopen<'c>(&self, client: &'c Client) -> Result<Lines<'c>> {
        let (run, after) = (self.run.as_str().unwrap_or_default(), self.seq.to_string());
        client
            .get_lines(&query(&format!("/api/agent/runs/{run}/events"), &[("after", Some(&after))]))
    }

    fn note_call(&self, item: &Value) -> Result<()> {
        let args = &item["args"];
        let names = ["path", "from", "source_path", "pattern"];
        let about = names.iter().find_map(|it| args[*it].as_str()).unwrap_or_default();
        let tool = item["tool"].as_str().unwrap_or_default();
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.print("\n")?;
        }
        self.desk.screen.note(&escape::line(&format!("{tool} {about}")));
        Ok(())
    }

    fn note_result(&self, item: &Value) {
        let of = |name: &str| item[name].as_str().unwrap_or_default();
        let word = if item["ok"] == true { "done" } else { "not done" };
        let line = format!("{} {word}: {}", of("tool"), of("summary"));
        self.desk.screen.note(&escape::line(&line));
    }

    /// Asks whether a call may be made; where nobody can be asked, says how to answer.
    fn confirm(&mut self, client: &Client, item: &Value) -> Result<()> {
        let of = |name: &str| item[name].as_str().unwrap_or_default();
        let id = of("approval_id");
        let path = format!("/api/approvals/{id}");
        let approval = client.get(&path)?;
        if approval["state"] != "pending" {
            return Ok(());
        }
        let screen = &self.desk.screen;
        let preview = approval["payload"]["preview"].as_str().unwrap_or_default();
        screen.note(&escape::block(preview));
        screen.note(&escape::line(&format!("{}: {}", of("tool"), of("reason"))));
        if !question::can(screen) {
            screen.note(&format!(
                "it waits for you: wiki-browser approval approve {id}, or reject {id}, or on the \
                 page of the assistant"
            ));
            return Ok(());
        }
        let is_allowed = question::yes(screen, "Allow it once?")?;
        let answer = if is_allowed { "approve" } else { "reject" };
        let body = json!({"version": approval["version"]});
        match client.post(&format!("{path}/{answer}"), &body) {
            // Somebody answered on the page meanwhile.
            Err(cause) if cause.kind() == ErrorKind::Conflict => {
                screen.note(cause.message());
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    fn take(&mut self, client: &Client, item: &Value) -> Result<()> {
        let Some(seq) = item["seq"].as_u64() else { return Ok(()) };
        self.seq = seq;
        if self.desk.screen.form() == &Form::Json {
            self.desk.screen.put(&escape::json(&item.to_string()))?;
        }
        let is_words = self.desk.screen.form() == &Form::Words;
        match item["type"].as_str().unwrap_or_default() {
            "start" => {
                self.session = item["session_id"].clone();
                self.run = item["run_id"].clone();
            }
            "text" => {
                let delta = item["delta"].as_str().unwrap_or_default();
                let step = item["step"].as_u64().unwrap_or(0);
                let gap = if self.step != 0 && step != self.step { "\n\n" } else { "" };
                self.step = step;
                if is_words {
                    self.print(&format!("{gap}{delta}"))?;
                }
                self.text.push_str(gap);
                self.text.push_str(delta);
            }
            "tool_call" if is_words => self.note_call(item)?,
            "tool_result" if is_words => self.note_result(item),
            "confirm_required" => self.confirm(client, item)?,
            "reset" => {
                self.text.clear();
                if is_words {
                    self.print("\n\n")?;
                    self.desk.screen.note("the answer starts over");
                }
            }
            "error" => {
                self.error = json!({
                    "code": item["code"], "message": item["message"], "hint": item["hint"],
                });
            }
            "done" => {
                self.ended = item["reason"].clone();
                self.message = item["message_id"].clone();
            }
            _ => {}
        }
        Ok(())
    }

    fn print(&self, text: &str) -> Result<()> {
        match self.desk.screen.is_terminal() {
            true => self.desk.screen.prompt(&escape::block(text)),
            false => self.desk.screen.prompt(text),
        }
    }

    fn end(self) -> Result<u8> {
        let screen = &self.desk.screen;
        match screen.form() {
            Form::Json => {}
            Form::Field(path) => {
                let value = json!({
                    "session_id": self.session, "run_id": self.run, "message_id": self.message,
                    "text": self.text, "ended": self.ended, "error": self.error,
                });
                screen.field(&value, path)?;
            }
            Form::Words => {
                if !self.text.is_empty() && !self.text.ends_with('\n') {
                    screen.prompt("\n")?;
                }
                let session = self.session.as_str().unwrap_or_default();
                screen.note(&format!("conversation {}", shorten(session)));
            }
        }
        if let Some(message) = self.error["message"].as_str() {
            let hint = self.error["hint"].as_str().unwrap_or_default();
            screen.note(&escape::line(&format!("{message}: {hint}")));
        }
        Ok(match self.ended.as_str() {
            Some("ok") => 0,
            Some("stopped") => STOPPED,
            _ => 1,
        })
    }
}

/// Does what is to be done with conversations.
pub(super) fn chat(desk: &Desk, command: ChatCommand) -> Result<u8> {
    let client = desk.client()?;
    match command {
        ChatCommand::List { page } => list(desk, &client, &page),
        ChatCommand::Actions => actions(desk, &client),
        ChatCommand::Show { id } => show(desk, &client, &id),
        ChatCommand::Stop { id } => stop(desk, &client, &id),
        ChatCommand::Delete { id } => {
            let id = resolve(&client, Noun::Chat, &id)?;
            let gone = client.delete(&format!("/api/agent/sessions/{id}"))?;
            let words = format!("deleted conversation {}", shorten(&id));
            desk.screen.answer(&gone, |screen, _| screen.put(&words))?;
            Ok(0)
        }
    }
}

fn read_actions(answer: &Value) -> Result<ActionPage> {
    ActionPage::deserialize(answer)
        .map_err(|cause| Error::internal("the server sent a bad list of actions").source(cause))
}

fn actions(desk: &Desk, client: &Client) -> Result<u8> {
    let answer = client.get("/api/agent/actions")?;
    desk.screen.answer(&answer, |screen, answer| {
        let page = read_actions(answer)?;
        let mut table = Table::new(&["ID", "ASKS", "LABEL", "ABOUT"]);
        for it in page.items {
            let about = it.error.map(|why| format!("unavailable: {why}")).or(it.about);
            let asks = if it.requires_confirmation { "yes" } else { "" };
            let about = escape::line(&about.unwrap_or_default());
            table.row([it.id, asks.to_owned(), escape::line(&it.label), about]);
        }
        screen.table(&table, &format!("no actions yet: write a Markdown file in {}", page.folder))
    })?;
    Ok(0)
}

fn list(desk: &Desk, client: &Client, page: &Page) -> Result<u8> {
    let limit = page.limit();
    let pairs = [("limit", Some(&*limit)), ("after", page.after())];
    let answer = client.get(&query("/api/agent/sessions", &pairs))?;
    desk.screen.answer(&answer, |screen, answer| {
        let mut table = Table::new(&["ID", "STATE", "MESSAGES", "WHEN", "TITLE"]);
        for it in items(answer) {
            let state = if it["active_run"].is_null() { "" } else { "answering" };
            let text = |name: &str| it[name].as_str().unwrap_or_default();
            table.row([
                shorten(text("session_id")).to_owned(),
                state.to_owned(),
                it["messages"].to_string(),
                desk.ago(&it["touched_at"]),
                escape::line(text("title")),
            ]);
        }
        screen.table(&table, "no conversations yet: wiki-browser ask TEXT")
    })?;
    Ok(0)
}

fn show(desk: &Desk, client: &Client, id: &str) -> Result<u8> {
    let id = resolve(client, Noun::Chat, id)?;
    let pairs = [("session_id", Some(id.as_str())), ("limit", Some("200"))];
    let answer = client.get(&query("/api/agent/session/history", &pairs))?;
    desk.screen.answer(&answer, |screen, answer| {
        for it in answer["messages"].as_array().into_iter().flatten() {
            let (role, state) = (it["role"].as_str(), it["state"].as_str());
            let who = if role == Some("user") { "You" } else { "Assistant" };
            let state = state.filter(|it| *it != "whole");
            let state = state.map(|it| format!(" ({it})")).unwrap_or_default();
            screen.put(&format!("{who}{state}:"))?;
            screen.put(&escape::block(it["body"].as_str().unwrap_or_default()))?;
            screen.put("")?;
        }
        if let Some(message) = answer["error"]["message"].as_str() {
            screen.note(&escape::line(message));
        }
        Ok(())
    })?;
    Ok(0)
}

fn stop(desk: &Desk, client: &Client, id: &str) -> Result<u8> {
    let run = match resolve(client, Noun::Chat, id) {
        Ok(session) => match client.get(&format!("/api/agent/sessions/{session}")) {
            Ok(session) => session["active_run"].as_str().map(str::to_owned).ok_or_else(|| {
                Error::conflict("run_ended", "no answer is in progress in this conversation")
            })?,
            // It may be a run.
            Err(cause) if cause.code_str() == "no_session" => session,
            Err(cause) => return Err(cause),
        },
        Err(cause) => return Err(cause),
    };
    let answer = client.post("/api/agent/stop", &json!({"run_id": run}))?;
    let text = format!("run {}: {}", shorten(&run), answer["state"].as_str().unwrap_or_default());
    desk.screen.answer(&answer, |screen, _| screen.put(&text))?;
    Ok(0)
}
