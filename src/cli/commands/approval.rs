//! `wiki-browser approval` and `decisions`: requests awaiting a decision, and deciding them.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::approvals::{Approval, Decision};
use crate::base::limit::APPROVAL_PAYLOAD_BYTES_MAX;
use crate::base::{Page as List, Result};
use crate::cli::commands::{Desk, Page, plain};
use crate::cli::terminal::screen::typed;
use crate::cli::terminal::short_id::{Noun, shorten};
use crate::cli::terminal::table::Table;
use crate::cli::terminal::{escape, input};
use crate::client::query;
use crate::flows::approvals::show::Shown;

/// States of an approval.
const STATES: [&str; 6] = ["pending", "approved", "amended", "rejected", "withdrawn", "expired"];

/// Commands on approvals.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ApprovalCommand {
    /// List approvals, newest first
    List {
        /// Only approvals in this state
        #[arg(long, value_name = "STATE", value_parser = STATES)]
        state: Option<String>,
        /// Only approvals filed under this channel
        #[arg(long, value_name = "WORD")]
        channel: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Show an approval: the request, its payload and its history
    Show {
        /// Id of the approval
        id: String,
    },
    /// Approve a request, as it is or with a changed payload
    #[command(after_help = "Examples:
  wiki-browser approval approve 81bc --note 'Only this once'
  wiki-browser approval show 81bc --field payload > plan.json
  wiki-browser approval approve 81bc --with @plan.json")]
    Approve {
        /// Id of the approval
        id: String,
        /// Approve this payload instead, as JSON; @FILE reads a file, @- standard input
        #[arg(long, value_name = "JSON|@FILE")]
        with: Option<String>,
        /// Note for the agent
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Reject a request
    #[command(after_help = "Example:\n  wiki-browser approval reject 81bc --note 'Too expensive'")]
    Reject {
        /// Id of the approval
        id: String,
        /// Note for the agent
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: ApprovalCommand) -> Result<()> {
    match command {
        ApprovalCommand::List { state, channel, page } => {
            list(desk, state.as_deref(), channel.as_deref(), &page)
        }
        ApprovalCommand::Show { id } => show(desk, &id),
        ApprovalCommand::Approve { id, with, note } => {
            let changes =
                with.map(|it| input::json(&it, "the payload", APPROVAL_PAYLOAD_BYTES_MAX));
            let changes = changes.transpose()?;
            decide(desk, &id, "approve", json!({"changes": changes, "note": note}))
        }
        ApprovalCommand::Reject { id, note } => decide(desk, &id, "reject", json!({"note": note})),
    }
}

fn list(desk: &Desk, state: Option<&str>, channel: Option<&str>, page: &Page) -> Result<()> {
    let limit = page.limit();
    let pairs =
        [("state", state), ("channel", channel), ("after", page.after()), ("limit", Some(&*limit))];
    let answer = desk.client()?.get(&query("/api/approvals", &pairs))?;
    desk.screen.tell(&answer, |screen, page: List<Approval>| {
        let mut table = Table::new(&["ID", "STATE", "WHEN", "CHANNEL", "FROM", "TITLE"]);
        for it in &page.items {
            table.row([
                shorten(it.id.as_str()),
                it.state.as_str(),
                &desk.since(Some(it.created_at)),
                &it.channel,
                it.requester_name.as_deref().unwrap_or_default(),
                &it.title,
            ]);
        }
        screen.table(&table, "no approvals")?;
        desk.more(page.next.as_deref());
        Ok(())
    })
}

fn show(desk: &Desk, given: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Approval, given)?;
    let shown = client.get(&format!("/api/approvals/{id}"))?;
    desk.screen.tell(&shown, |screen, Shown { approval: it, texts, .. }: Shown| {
        screen.put(&escape::line(&it.title))?;
        desk.detail("approval", it.id.as_str())?;
        desk.detail("state", &screen.state(it.state.as_str()))?;
        desk.detail("version", &it.version.to_string())?;
        desk.detail("channel", &escape::line(&it.channel))?;
        desk.detail("asked by", &plain(it.requester_name.as_ref()))?;
        desk.detail("from", &plain(it.from.as_ref()))?;
        desk.detail("job", &plain(it.job_id.as_ref()))?;
        desk.detail("when", &desk.since(Some(it.created_at)))?;
        desk.detail("expires", &it.expires_at.map_or_else(String::new, |at| at.rfc3339()))?;
        let waits = it.waiting.as_ref().map(|it| &it.message);
        desk.detail("goes on", &waits.map_or_else(String::new, |it| later(it)))?;
        desk.detail("decided by", &plain(it.decided_by_name.as_ref()))?;
        desk.detail("note", &plain(it.note.as_ref()))?;
        put_json(desk, "payload", &texts.payload)?;
        if let Some(changes) = &texts.changes {
            put_json(desk, "approved as", changes)?;
        }
        Ok(())
    })
}

fn put_json(desk: &Desk, name: &str, value: &Value) -> Result<()> {
    desk.screen.put(&format!("\n{name}"))?;
    // Anything read as JSON can be written as JSON.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    desk.screen.put(&escape::json(&text))
}

/// Decides the current version.
fn decide(desk: &Desk, given: &str, verb: &str, mut body: Value) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Approval, given)?;
    let shown = client.get(&format!("/api/approvals/{id}"))?;
    body["version"] = json!(typed::<Shown>(&shown)?.approval.version);
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let decided = client.post(&format!("/api/approvals/{id}/{verb}"), &body)?;
    desk.screen.tell(&decided, |screen, decided: Approval| {
        let state = screen.state(decided.state.as_str());
        screen.put(&format!("approval {id} is {state}"))?;
        match &decided.waiting {
            Some(waiting) => screen.put(&format!("its job goes on {}", later(&waiting.message))),
            None => Ok(()),
        }
    })
}

/// Says why a parked job goes on later than its decision.
fn later(why: &str) -> String {
    format!("later: {}", escape::line(why))
}

/// Lists everything awaiting a decision, oldest first.
pub(in crate::cli) fn decisions(desk: &Desk) -> Result<()> {
    let answer = desk.client()?.get("/api/decisions")?;
    desk.screen.tell(&answer, |screen, page: List<Decision>| {
        let mut table = Table::new(&["WHAT", "ID", "SINCE", "FROM", "PLACE", "TITLE"]);
        for it in &page.items {
            table.row([
                &*it.what,
                shorten(&it.id),
                &desk.since(Some(it.since)),
                &it.from,
                &it.place,
                &it.title,
            ]);
        }
        screen.table(&table, "nothing to review")?;
        for it in &page.items {
            if let Some(waiting) = &it.waiting {
                let id = shorten(&it.id);
                screen.note(&format!("the job of {id} goes on {}", later(&waiting.message)));
            }
        }
        Ok(())
    })
}
