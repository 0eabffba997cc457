//! The arguments of `wb-agent`.

use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand};

use crate::cli::agent::approval::ApprovalVerb;
use crate::cli::agent::channel::ChannelVerb;
use crate::cli::agent::handoff::HandoffVerb;
use crate::cli::agent::mail::Send;
use crate::cli::agent::mcp::Offer;

/// Heading of the common options.
const HEADING: &str = "Site and answer";
/// The agent's command line: read topics, submit a proposal, post a message, finish.
#[derive(Debug, Parser)]
#[command(name = "wb-agent", version, disable_help_subcommand = true)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) place: Place,
    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// The site, and the output format.
#[derive(Args, Debug)]
pub(super) struct Place {
    /// Script of the site; its server is found in data/server.json next to it
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    pub(super) config: Option<Utf8PathBuf>,
    /// Data folder of the site
    #[arg(long, global = true, help_heading = HEADING, value_name = "DIR")]
    pub(super) data: Option<Utf8PathBuf>,
    /// Print the server's JSON, including errors
    #[arg(long, global = true, help_heading = HEADING)]
    pub(super) json: bool,
}

/// The agent's commands.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Print a topic with its anchor, its messages and the state of earlier proposals
    GetTopic {
        /// Id of the topic
        #[arg(long, value_name = "ID")]
        id: String,
    },
    /// Print a proposal with its text, its diff, and the comment that requested changes
    GetProposal {
        /// Id of the proposal
        #[arg(long, value_name = "ID")]
        id: String,
        /// Print only its text, byte for byte
        #[arg(long)]
        text: bool,
    },
    /// Print every open topic of a source, with anchors and placements
    ListOpenTopics {
        /// Path of the source, relative to the repo root
        #[arg(long, value_name = "PATH")]
        source_path: String,
    },
    /// Print every source that git tracks; only for kinds that see the whole site
    ListSources,
    /// Print the topics of the site, newest first; only for kinds that see the whole site
    ListTopics {
        /// Only topics in this state: open, incorporated or discarded
        #[arg(long, value_name = "STATE")]
        status: Option<String>,
        /// Only topics on this source
        #[arg(long, value_name = "PATH")]
        source_path: Option<String>,
        /// Only topics opened or closed since this time (RFC 3339)
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
    },
    /// Open a topic on a source, with its first message from standard input
    OpenTopic(OpenTopic),
    /// Submit the whole new text of a source, from standard input
    InsertProposal(InsertProposal),
    /// Add a message to a topic, from standard input
    PostMessage {
        /// Id of the topic
        #[arg(long, value_name = "ID")]
        topic_id: String,
    },
    /// Submit the result of this job
    Finish {
        /// File with the result, as JSON, or the JSON itself; `-` is standard input
        #[arg(long, value_name = "FILE|JSON")]
        result: Utf8PathBuf,
        /// One-line summary of the result
        #[arg(long, value_name = "TEXT")]
        summary: Option<String>,
    },
    /// Print a persona of this job
    GetPersona {
        /// Path of the source, relative to the repo root
        #[arg(long, value_name = "PATH")]
        source_path: String,
        /// Name of the persona
        #[arg(long, value_name = "NAME")]
        name: String,
    },
    /// Store the view of a source for a persona, from standard input; once per job
    PutPerspective(PutPerspective),
    /// Ask a person to approve something, and wait for the decision
    #[command(subcommand)]
    Approval(ApprovalVerb),
    /// Apply the last suggestion block of this job's topic as a proposal; needs no model
    ///
    /// The content of the block replaces exactly the anchored passage, byte for byte; an empty
    /// block deletes it but keeps the line break after it. Exits 1 if there is no suggestion, if
    /// the anchor is not exact, or if nothing changes.
    ApplySuggestions,
    /// Report success, with the reply for the sender
    ///
    /// This ends the instance, so call it last.
    Complete {
        /// JSON, @FILE with JSON (@- is standard input), or text
        #[arg(long, value_name = "JSON")]
        reply: Option<String>,
    },
    /// Report failure; the sender gets the reason
    ///
    /// This ends the instance, so call it last.
    Fail {
        /// The reason, in one sentence
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Print messages sent to this instance since it started
    Inbox {
        /// Only messages after this `seq`; confirms earlier ones
        #[arg(long, value_name = "SEQ")]
        after: Option<i64>,
        /// Wait this long for a message, at most 55s
        #[arg(long, value_name = "DURATION")]
        wait: Option<String>,
    },
    /// Print what the instance watched by this monitor printed last
    Peek {
        /// Id of the instance: WORKER_ID
        #[arg(long, value_name = "ID")]
        worker: String,
        /// Most lines to print, 1 to 1000
        #[arg(long, value_name = "N", default_value_t = 50)]
        lines: u32,
    },
    /// Send a message to an agent, an inbox or a person
    Send(Send),
    /// Read this agent's channel, post to it, and manage it where allowed
    #[command(subcommand)]
    Channel(ChannelVerb),
    /// Hand over to a successor, or read a predecessor's handoff
    #[command(subcommand)]
    Handoff(HandoffVerb),
    /// Offer tools to the agent that started this, in words of the Model Context Protocol
    #[command(hide = true)]
    Mcp {
        /// Which tools
        #[arg(value_name = "TOOLS")]
        offer: Offer,
    },
    /// Tell of an event of the program in whose terminal this is called
    #[command(hide = true)]
    Hook {
        /// The event, as the program names it
        event: String,
    },
    /// Print this help, or the table of its verbs with --json
    Help {
        /// Verb to explain
        verb: Option<String>,
        /// Print what a prompt should tell this agent of its commands
        #[arg(long, conflicts_with = "verb")]
        prompt: bool,
    },
}

/// `open-topic`.
#[derive(Args, Debug)]
pub(super) struct OpenTopic {
    /// Path of the source, relative to the repo root
    #[arg(long, value_name = "PATH")]
    pub(super) source_path: String,
    /// File with the passage, byte for byte, which occurs once in the source [default: the whole
    /// source]
    #[arg(long, value_name = "FILE")]
    pub(super) quote: Option<Utf8PathBuf>,
    /// Title [default: the first line of the message]
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
}

/// `insert-proposal`.
#[derive(Args, Debug)]
pub(super) struct InsertProposal {
    /// Id of the topic
    #[arg(long, value_name = "ID", required_unless_present = "source_path")]
    pub(super) topic_id: Option<String>,
    /// Path of the source, for a job without a topic: the proposal opens one
    #[arg(long, value_name = "PATH", conflicts_with = "topic_id")]
    pub(super) source_path: Option<String>,
    /// Title of the new topic
    #[arg(long, value_name = "TEXT", requires = "source_path")]
    pub(super) title: Option<String>,
    /// Git blob id of the source the text is based on, as given in the prompt
    #[arg(long, value_name = "SHA")]
    pub(super) base_sha: String,
    /// File with a JSON array of {"topic_id","start","end","quote"}: the byte positions of other
    /// topics' passages in the new text
    #[arg(long, value_name = "FILE")]
    pub(super) anchors: Option<Utf8PathBuf>,
    /// One-line summary of the change
    #[arg(long, value_name = "TEXT")]
    pub(super) summary: Option<String>,
}

/// `put-perspective`.
#[derive(Args, Debug)]
pub(super) struct PutPerspective {
    /// Path of the source
    #[arg(long, value_name = "PATH")]
    pub(super) source_path: String,
    /// Name of the persona
    #[arg(long, value_name = "NAME")]
    pub(super) persona: String,
    /// Git blob id of the source, as given to the job
    #[arg(long, value_name = "SHA")]
    pub(super) source_sha: String,
    /// Hash of the persona, as given to the job
    #[arg(long, value_name = "SHA")]
    pub(super) persona_sha: String,
}
