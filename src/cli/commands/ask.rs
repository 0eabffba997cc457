//! `wiki-browser ask`: asks the assistant, and streams its answer.

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::{Value, json};

use crate::base::{Error, ErrorKind, Result, random_token};
use crate::cli::commands::Desk;
use crate::cli::commands::chat::read_actions;
use crate::cli::commands::site::Absence;
use crate::cli::terminal::screen::Form;
use crate::cli::terminal::short_id::{Noun, resolve, shorten};
use crate::cli::terminal::{escape, input, question};
use crate::client::{Client, Lines, query};

/// Largest file that is sent, in bytes; the server has the exact limits.
const ATTACHMENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest question, in bytes.
const QUESTION_BYTES_MAX: usize = 1024 * 1024;
/// The exit code of an answer that was stopped.
const STOPPED: u8 = 7;
/// The pause between attempts to reach the server.
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
  wiki-browser ask --action weekly-digest --dry-run
  wiki-browser ask --attach notes.txt --attach plan.png 'Do these agree?'")]
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
    /// Send a file with the question: a text of at most 1 MiB, or a PNG, JPEG or WebP; repeatable
    #[arg(long, value_name = "FILE")]
    attach: Vec<Utf8PathBuf>,
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

/// Asks, and prints the answer while it streams.
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
    if !args.attach.is_empty() {
        body["attachments"] = json!(attach(&client, &args.attach)?);
    }
    let key = random_token("cli-")?;
    let lines = client.post_lines("/api/agent/chat-stream", &body, &key)?;
    let mut answer = Answer::new(desk);
    answer.follow(&client, lines)?;
    answer.end()
}

/// Uploads files, and returns their paths in the vault.
fn attach(client: &Client, files: &[Utf8PathBuf]) -> Result<Vec<Value>> {
    let send = |file: &Utf8PathBuf| {
        let bytes = input::bytes(file, ATTACHMENT_BYTES_MAX)?;
        let path = query("/api/agent/attachments", &[("name", file.file_name())]);
        Ok(client.post_file(&path, &bytes)?["path"].clone())
    };
    files.iter().map(send).collect()
}

/// Shows an action that requires confirmation; returns the digest of the confirmed content.
fn confirm(desk: &Desk, client: &Client, (id, is_agreed): (&str, bool)) -> Result<Option<String>> {
    let page = read_actions(&client.get("/api/agent/actions")?)?;
    // The server reports unknown and invalid actions.
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

/// An answer in progress.
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
    artefact: Value,
    absence: Absence,
}

impl<'d> Answer<'d> {
    fn new(desk: &'d Desk) -> Answer<'d> {
        let [session, run, message, ended, error, artefact] = [const { Value::Null }; 6];
        let (text, absence) = (String::new(), Absence::default());
        let (seq, step) = (0, 0);
        Answer { desk, seq, step, text, session, run, message, ended, error, artefact, absence }
    }

    /// Reads the answer to its end, even across a restart of the server.
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
        let names = ["path", "from", "source_path", "pattern", "url", "query"];
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

    /// Notes a status of an answer that continues.
    fn note_status(&self, item: &Value) {
        let of = |name: &str| item[name].as_str().unwrap_or_default();
        if matches!(of("code"), "fell_back" | "context_cut") {
            self.desk.screen.note(&escape::line(of("message")));
        }
    }

    /// Asks for a confirmation in the terminal; without one, prints how to decide.
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
            // Somebody decided on the page in the meantime.
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
            // The status of a failure is repeated as an error.
            "status" if is_words => self.note_status(item),
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
                self.artefact = item["artefact"].clone();
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
                    "artefact": self.artefact,
                });
                screen.field(&value, path)?;
            }
            Form::Words => {
                if !self.text.is_empty() && !self.text.ends_with('\n') {
                    screen.prompt("\n")?;
                }
                let session = self.session.as_str().unwrap_or_default();
                screen.note(&format!("conversation {}", shorten(session)));
                if let Some(path) = self.artefact.as_str() {
                    screen.note(&escape::line(&format!("recorded in {path}")));
                }
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
