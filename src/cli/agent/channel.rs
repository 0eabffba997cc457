//! The verbs of an agent that has a seat in a channel; which one that is, the server knows.

use clap::Subcommand;
use serde_json::json;

use crate::api::channels::PostRequest;
use crate::base::Result;
use crate::cli::agent::args::Place;
use crate::cli::agent::{client, print};
use crate::cli::terminal::input;
use crate::cli::terminal::screen::Screen;
use crate::client::query;

/// Longest message that is read from standard input, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// What an agent can do in its channel.
#[derive(Debug, Subcommand)]
pub(super) enum ChannelVerb {
    /// Print the channel: what it is about, its members, and what it is to come to
    Show,
    /// Print its members
    Members,
    /// Print what was said in it
    History {
        /// Only behind this message
        #[arg(long, value_name = "NUMBER")]
        after: Option<i64>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
    },
    /// Say something while you work, from standard input
    ///
    /// Your last words are posted for you: this is for handing work on before them. It works only
    /// while you answer a message of the channel.
    Post {
        /// message, delegation or escalation
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Handle of the member that it is for
        #[arg(long, value_name = "HANDLE")]
        to: Option<String>,
    },
}

/// Runs a verb.
pub(super) fn run(screen: &Screen, place: &Place, verb: ChannelVerb) -> Result<()> {
    let client = client(place)?;
    match verb {
        ChannelVerb::Show => print(screen, &client.get("/api/channels/own")?),
        ChannelVerb::Members => print(screen, &client.get("/api/channels/own")?["members"]),
        ChannelVerb::History { after, limit } => {
            let (after, limit) = (after.map(|it| it.to_string()), limit.to_string());
            let pairs = [("after", after.as_deref()), ("limit", Some(limit.as_str()))];
            let answer = client.get(&query("/api/channels/own/messages", &pairs))?;
            print(screen, &answer["items"])
        }
        ChannelVerb::Post { kind, to } => {
            let body = input::standard("the message", TEXT_BYTES_MAX)?;
            let request = PostRequest { body, kind, to };
            let answer = client.create("/api/channels/own/messages", &json!(request))?;
            screen.answer(&answer, |screen, answer| screen.put(&answer["sequence"].to_string()))
        }
    }
}
