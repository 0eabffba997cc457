//! Handoffs: what an agent writes for its successor, and reads from its predecessor.

use clap::Subcommand;
use serde_json::json;

use crate::api::handoffs::WriteHandoff;
use crate::base::Result;
use crate::cli::agent::args::Place;
use crate::cli::agent::client;
use crate::cli::terminal::input;
use crate::cli::terminal::screen::Screen;
use crate::client::path_part;

/// Longest handoff on standard input, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// What an agent that hands over does, and the one that follows.
#[derive(Debug, Subcommand)]
pub(super) enum HandoffVerb {
    /// Write the handoff for your successor, from standard input; only when asked to
    Write {
        /// Subject: lowercase letters, digits and `-`
        #[arg(long, value_name = "SLUG")]
        summary: String,
    },
    /// Print a handoff that a message told you to read
    Read {
        /// File name, as given in the message
        file: String,
    },
}

/// Runs a verb.
pub(super) fn run(screen: &Screen, place: &Place, verb: HandoffVerb) -> Result<()> {
    let client = client(place)?;
    match verb {
        HandoffVerb::Write { summary } => {
            let text = input::standard("the handoff", TEXT_BYTES_MAX)?;
            let answer = client.post("/api/handoffs", &json!(WriteHandoff { summary, text }))?;
            let file = answer["file"].as_str().unwrap_or_default().to_owned();
            screen.answer(&answer, |screen, _| screen.put(&file))
        }
        HandoffVerb::Read { file } => {
            let answer = client.get(&format!("/api/handoffs/{}", path_part(&file)))?;
            let text = answer["text"].as_str().unwrap_or_default().to_owned();
            screen.answer(&answer, |screen, _| screen.raw(&text))
        }
    }
}
