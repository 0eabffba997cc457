//! `wiki-browser claude`: a person's own sign-in for the mode `claude_code`.

use clap::Subcommand;
use serde_json::json;

use crate::api::chat_settings::SignedOut;
use crate::base::Result;
use crate::cli::commands::Desk;
use crate::cli::commands::mail::typed;
use crate::cli::terminal::input;

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: u64 = 4 * 1024;

/// Commands on the sign-in to Claude.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ClaudeCommand {
    /// Store the token that `claude setup-token` prints, read from standard input; it replaces an
    /// earlier one
    #[command(after_help = "\
Examples:
  claude setup-token                    on your own machine
  wiki-browser claude login             and paste what it printed
  wiki-browser claude login < token")]
    Login,
    /// Forget your token
    Logout,
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: &ClaudeCommand) -> Result<()> {
    let client = desk.client()?;
    match command {
        ClaudeCommand::Login => {
            desk.screen.note("Paste the token that `claude setup-token` prints:");
            let token = input::line("the token", TOKEN_BYTES_MAX)?;
            client.post("/api/agent/claude/login", &json!({"token": token}))?;
            desk.screen.answer(&json!({"is_signed_in": true}), |screen, _| screen.put("signed in"))
        }
        ClaudeCommand::Logout => {
            let it: SignedOut = typed(client.delete("/api/agent/claude/login")?)?;
            let words = if it.was_signed_in { "signed out" } else { "you were not signed in" };
            desk.screen.answer(&json!(it), |screen, _| screen.put(words))
        }
    }
}
