//! `wb-agent approval`: requesting approvals and waiting for decisions.

use std::time::Duration;

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::approvals::{Approval, ApprovalOutcome, State};
use crate::base::limit::{
    APPROVAL_PAYLOAD_BYTES_MAX, APPROVAL_SCHEMA_BYTES_MAX, APPROVAL_WAIT_MS_MAX, parse_duration,
};
use crate::base::{ApprovalId, Result};
use crate::cli::terminal::input;
use crate::cli::terminal::screen::{Screen, typed};
use crate::client::{Client, query};

/// Exit codes of `await`; 0 means approved.
const REJECTED: u8 = 10;
const ENDED: u8 = 11;
const PENDING: u8 = 75;

/// What stands at the end of `approval await --help`.
const AWAIT_HELP: &str = "\
Exit codes: 0 approved (the payload printed is the one that was approved), 10 rejected,
11 withdrawn or expired, 75 still pending. A job that holds the last place of `limits.jobs` and can
be parked exits 75 at once: use `approval create --and-exit` instead.

Example:
  wb-agent approval await ID --timeout none";

/// What an agent does with approvals.
#[derive(Debug, Subcommand)]
pub(super) enum ApprovalVerb {
    /// Ask a person to approve something
    Create(Create),
    /// Print an approval with its payload, its decision and its history
    Get {
        /// Id of the approval
        id: String,
    },
    /// List the approvals requested by this job, newest first
    List {
        /// Only approvals in this state: pending, approved, amended, rejected, withdrawn or expired
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
    },
    /// Withdraw a pending approval
    Withdraw {
        /// Id of the approval
        id: String,
        /// Reason
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Wait for the decision on an approval
    #[command(after_help = AWAIT_HELP)]
    Await {
        /// Id of the approval
        id: String,
        /// Maximum wait, such as 90s, or none
        #[arg(long, value_name = "TIME", default_value = "90s")]
        timeout: String,
    },
}

/// `approval create`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wb-agent approval create --channel aws --title 'Create billing-prod?' --payload @plan.json
  wb-agent approval create --channel aws --title 'Create billing-prod?' --and-exit")]
pub(super) struct Create {
    /// Label to file the approval under: one word
    #[arg(long, value_name = "WORD")]
    channel: String,
    /// The request, in one line
    #[arg(long, value_name = "TEXT")]
    title: String,
    /// What needs approval, as JSON; @FILE reads a file, @- standard input
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// File with a JSON schema for the payload; a changed payload must match it too
    #[arg(long, value_name = "FILE")]
    schema: Option<Utf8PathBuf>,
    /// Expire after this time, such as 7d [default: never]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// Park: end your turn now; the session resumes with the decision
    #[arg(long)]
    and_exit: bool,
}

/// Runs a verb; returns the exit code.
pub(super) fn run(
    screen: &Screen,
    client: impl FnOnce() -> Result<Client>,
    verb: &ApprovalVerb,
) -> Result<u8> {
    match verb {
        ApprovalVerb::Create(args) => {
            let body = question(args)?;
            let made = client()?.create("/api/approvals", &body)?;
            screen.tell(&made, |screen, made: Approval| screen.put(made.id.as_str()))?;
        }
        ApprovalVerb::Get { id } => {
            let id: ApprovalId = id.parse()?;
            super::print(screen, &client()?.get(&format!("/api/approvals/{id}"))?)?;
        }
        ApprovalVerb::List { state } => {
            let pairs = [("state", state.as_deref())];
            let all: Vec<Approval> = super::all(&client()?, "/api/approvals", &pairs)?;
            super::print(screen, &json!(all))?;
        }
        ApprovalVerb::Withdraw { id, note } => {
            let id: ApprovalId = id.parse()?;
            let body = note.as_ref().map_or_else(|| json!({}), |note| json!({"note": note}));
            let withdrawn = client()?.post(&format!("/api/approvals/{id}/withdraw"), &body)?;
            screen.answer(&withdrawn, |_, _| Ok(()))?;
        }
        ApprovalVerb::Await { id, timeout } => {
            let id: ApprovalId = id.parse()?;
            let limit = match timeout.as_str() {
                "none" => None,
                text => Some(parse_duration(text)?),
            };
            return wait(screen, &client()?, &id, limit);
        }
    }
    Ok(0)
}

fn question(args: &Create) -> Result<Value> {
    let mut body = json!({"channel": args.channel, "title": args.title});
    if let Some(payload) = &args.payload {
        body["payload"] = input::json(payload, "the payload", APPROVAL_PAYLOAD_BYTES_MAX)?;
    }
    if let Some(path) = &args.schema {
        let from = format!("@{path}");
        body["schema"] = input::json(&from, "the schema", APPROVAL_SCHEMA_BYTES_MAX)?;
    }
    if let Some(expires) = &args.expires {
        parse_duration(expires)?;
        body["expires"] = json!(expires);
    }
    if args.and_exit {
        body["and_exit"] = json!(true);
    }
    Ok(body)
}

/// Waits with one long request after the other, prints the outcome, and returns the exit code.
fn wait(screen: &Screen, client: &Client, id: &ApprovalId, limit: Option<Duration>) -> Result<u8> {
    let (start, longest) = (Instant::now(), Duration::from_millis(APPROVAL_WAIT_MS_MAX));
    loop {
        let left = limit.map_or(longest, |it| it.saturating_sub(start.elapsed()).min(longest));
        let seconds = left.as_millis().div_ceil(1_000).to_string();
        let path = format!("/api/approvals/{id}/await");
        let pairs = [("timeout", Some(&*seconds)), ("yields", Some("true"))];
        let found = client.get(&query(&path, &pairs))?;
        let found: ApprovalOutcome = typed(&found)?;
        let is_over = limit.is_some_and(|it| start.elapsed() >= it);
        let code = match found.state {
            State::Approved | State::Amended => 0,
            State::Rejected => REJECTED,
            State::Withdrawn | State::Expired => ENDED,
            State::Pending if !is_over && found.advice.is_none() => continue,
            State::Pending => PENDING,
        };
        if let Some(advice) = &found.advice {
            screen.note(advice);
        }
        let outcome = json!({"state": found.state, "payload": found.payload, "note": found.note});
        super::print(screen, &outcome)?;
        return Ok(code);
    }
}
