//! `wiki-browser ask`: asks the assistant, and streams its answer.

use camino::Utf8PathBuf;
use clap::Args;
use serde_json::{Value, json};

use crate::api::approvals::{ApprovalOutcome, State};
use crate::api::chat::{AskRequest, AttachmentView, RunError};
use crate::api::chat_stream::{CallPayload, StreamItem, StreamLine};
use crate::base::{
    ApprovalId, ChatId, ChatMessageId, Error, ErrorKind, JobId, Result, random_token,
};
use crate::cli::commands::Desk;
use crate::cli::commands::chat::read_actions;
use crate::cli::commands::site::Absence;
use crate::cli::terminal::question::Keyboard;
use crate::cli::terminal::screen::{Form, typed};
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
    let confirm = match &args.action {
        Some(id) => confirm(desk, &client, (id, args.yes))?,
        None => None,
    };
    let session_id = match &args.session {
        Some(given) => Some(resolve(&client, Noun::Chat, given)?.parse()?),
        None => None,
    };
    let request = AskRequest {
        session_id,
        message: text,
        parent_id: None,
        mode: args.mode.clone(),
        action_id: args.action.clone(),
        confirm,
        dry_run: args.dry_run,
        piped: args.text.as_deref() == Some("-"),
        attachments: attach(&client, &args.attach)?,
    };
    let key = random_token("cli-")?;
    let lines = client.post_lines("/api/agent/chat-stream", &json!(request), &key)?;
    let mut answer = Answer::new(desk);
    answer.follow(&client, lines)?;
    answer.end()
}

/// Uploads files, and returns their paths in the vault.
fn attach(client: &Client, files: &[Utf8PathBuf]) -> Result<Vec<String>> {
    let send = |file: &Utf8PathBuf| {
        let bytes = input::bytes(file, ATTACHMENT_BYTES_MAX)?;
        let path = query("/api/agent/attachments", &[("name", file.file_name())]);
        Ok(typed::<AttachmentView>(&client.post_file(&path, &bytes)?)?.path)
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
    /// The text of each step, in order.
    steps: Vec<(u32, String)>,
    /// Whether the last line that was printed of it is unfinished.
    is_in_line: bool,
    keyboard: Option<Keyboard>,
    session: Option<ChatId>,
    run: Option<JobId>,
    message: Option<ChatMessageId>,
    ended: Option<String>,
    error: Option<RunError>,
    artefact: Option<String>,
    absence: Absence,
}

impl<'d> Answer<'d> {
    fn new(desk: &'d Desk) -> Answer<'d> {
        Answer {
            desk,
            seq: 0,
            steps: Vec::new(),
            is_in_line: false,
            keyboard: None,
            session: None,
            run: None,
            message: None,
            ended: None,
            error: None,
            artefact: None,
            absence: Absence::default(),
        }
    }

    /// Reads the answer to its end, even across a restart of the server.
    fn follow<'c>(&mut self, client: &'c Client, lines: Lines<'c>) -> Result<()> {
        let mut lines = Some(lines);
        while self.ended.is_none() {
            let next = match (&mut lines, &self.run) {
                (None, Some(run)) => self.reopen(client, run).map(|it| {
                    lines = Some(it);
                    None
                }),
                (Some(lines), _) => lines.next_line().map(Some),
                (None, None) => Err(Error::unavailable("the server sent no answer")),
            };
            match next {
                Ok(Some(Some(line))) => {
                    self.absence.end(self.desk);
                    self.take(client, &line)?;
                }
                Ok(Some(None)) => lines = None,
                Ok(None) => self.absence.end(self.desk),
                Err(cause) if cause.kind() == ErrorKind::Unavailable && self.run.is_some() => {
                    lines = None;
                    self.absence.goes_on(self.desk, cause)?;
                    std::thread::sleep(LOOK_INTERVAL);
                }
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    }

    fn reopen<'c>(&self, client: &'c Client, run: &JobId) -> Result<Lines<'c>> {
        let after = self.seq.to_string();
        client
            .get_lines(&query(&format!("/api/agent/runs/{run}/events"), &[("after", Some(&after))]))
    }

    fn note_call(&mut self, tool: &str, args: &Value) -> Result<()> {
        let names =
            ["path", "from", "source_path", "pattern", "url", "query", "post_urn", "comment_urn"];
        let about = names.iter().find_map(|it| args[*it].as_str()).unwrap_or_default();
        if self.is_in_line {
            self.print("\n")?;
        }
        self.desk.screen.note(&escape::line(&format!("{tool} {about}")));
        Ok(())
    }

    /// Asks for a confirmation in the terminal; without one, prints how to decide.
    fn confirm(&mut self, client: &Client, id: &ApprovalId, about: &str) -> Result<()> {
        let path = format!("/api/approvals/{id}");
        let approval: ApprovalOutcome = typed(&client.get(&path)?)?;
        if approval.state != State::Pending {
            return Ok(());
        }
        let screen = &self.desk.screen;
        screen.note(&escape::block(&typed::<CallPayload>(&approval.payload)?.preview));
        screen.note(&escape::line(about));
        if !question::can(screen) {
            screen.note(&format!(
                "it waits for you: wiki-browser approval approve {id}, or reject {id}, or on the \
                 page of the assistant"
            ));
            return Ok(());
        }
        let is_open = || {
            let approval: ApprovalOutcome = typed(&client.get(&path)?)?;
            Ok(approval.state == State::Pending)
        };
        let keyboard = self.keyboard.get_or_insert_with(Keyboard::listen);
        let Some(is_allowed) = keyboard.yes(screen, "Allow it once?", is_open)? else {
            screen.note(
                "it is no longer asked: it was decided elsewhere, or nobody answered in time",
            );
            return Ok(());
        };
        let answer = if is_allowed { "approve" } else { "reject" };
        let body = json!({"version": approval.version});
        match client.post(&format!("{path}/{answer}"), &body) {
            // Somebody decided on the page in the meantime.
            Err(cause) if cause.kind() == ErrorKind::Conflict => {
                screen.note(cause.message());
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    fn take(&mut self, client: &Client, told: &Value) -> Result<()> {
        let line: StreamLine = typed(told)?;
        let Some(seq) = line.seq else { return Ok(()) };
        self.seq = seq;
        let screen = &self.desk.screen;
        if screen.form() == &Form::Json {
            screen.put(&escape::json(&told.to_string()))?;
        }
        let is_words = screen.form() == &Form::Words;
        match line.item {
            StreamItem::Start { session_id } => {
                (self.session, self.run) = (Some(session_id), line.run_id);
            }
            StreamItem::Text { step, delta } => {
                let is_new = self.steps.last().is_none_or(|it| it.0 != step);
                if is_words {
                    let gap = if is_new && !self.steps.is_empty() { "\n\n" } else { "" };
                    self.print(&format!("{gap}{delta}"))?;
                }
                if is_new {
                    self.steps.push((step, String::new()));
                }
                if let Some((_, text)) = self.steps.last_mut() {
                    text.push_str(&delta);
                }
            }
            StreamItem::ToolCall { tool, args } if is_words => self.note_call(&tool, &args)?,
            StreamItem::ToolResult { tool, ok, summary } if is_words => {
                let word = if ok { "done" } else { "not done" };
                screen.note(&escape::line(&format!("{tool} {word}: {summary}")));
            }
            StreamItem::ConfirmRequired { tool, approval_id, reason } => {
                self.confirm(client, &approval_id, &format!("{tool}: {reason}"))?;
            }
            // The status of a failure is repeated as an error.
            StreamItem::Status { code, message }
                if is_words
                    && matches!(code.as_str(), "fell_back" | "context_cut" | "vault_unread") =>
            {
                screen.note(&escape::line(&message));
            }
            StreamItem::Reset { step } => {
                self.steps.retain(|it| it.0 != step);
                if is_words {
                    self.print("\n\n")?;
                    screen.note("the answer starts over");
                }
            }
            StreamItem::Error(error) => self.error = Some(error),
            StreamItem::Done { message_id, reason, artefact } => {
                (self.ended, self.message, self.artefact) = (Some(reason), message_id, artefact);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the text of all steps, as the history has it.
    fn text(&self) -> String {
        let texts: Vec<&str> = self.steps.iter().map(|it| it.1.as_str()).collect();
        texts.join("\n\n")
    }

    fn print(&mut self, text: &str) -> Result<()> {
        self.is_in_line = !text.ends_with('\n');
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
                    "text": self.text(), "ended": self.ended, "error": self.error,
                    "artefact": self.artefact,
                });
                screen.field(&value, path)?;
            }
            Form::Words => {
                if self.is_in_line {
                    screen.prompt("\n")?;
                }
                if let Some(session) = &self.session {
                    screen.note(&format!("conversation {}", shorten(session.as_str())));
                }
                if let Some(path) = &self.artefact {
                    screen.note(&escape::line(&format!("recorded in {path}")));
                }
            }
        }
        if let Some(RunError { message, hint, .. }) = &self.error {
            screen.note(&escape::line(&format!("{message}: {hint}")));
        }
        Ok(match self.ended.as_deref() {
            Some("ok") => 0,
            Some("stopped") => STOPPED,
            _ => 1,
        })
    }
}
