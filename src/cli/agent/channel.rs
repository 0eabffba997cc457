//! The verbs of an agent that has a seat in a channel; which one that is, the server knows.

use camino::Utf8PathBuf;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::api::channels::{
    AttachmentView, ChangeRequest, CreateRequest, MemberRequest, PostRequest,
};
use crate::base::limit::{CHANNEL_ATTACHMENT_BYTES_MAX, CHANNEL_ATTACHMENTS_MAX};
use crate::base::{Error, Result};
use crate::cli::agent::args::Place;
use crate::cli::agent::{client, print};
use crate::cli::terminal::screen::{Screen, typed};
use crate::cli::terminal::{input, output};
use crate::client::{Client, path_part, query};

/// Longest message that is read from standard input, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// What an agent can do in its channel.
#[derive(Debug, Subcommand)]
pub(super) enum ChannelVerb {
    /// Print the channel: its subject, its members and its goal
    Show,
    /// Print its members
    Members,
    /// Print its messages
    History {
        /// Only after this message
        #[arg(long, value_name = "NUMBER")]
        after: Option<i64>,
        /// Maximum number of messages
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
    },
    /// Print an attached text, or save an attached file
    Attachment {
        /// Number of the attachment
        number: i64,
        /// Save it here instead; the file must not exist
        #[arg(long, value_name = "FILE")]
        out: Option<Utf8PathBuf>,
    },
    /// Create a channel; needs `can_create_channel` in your wb.agent
    Create {
        /// Name of the channel
        name: String,
        /// Type [default: workshop]
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// What it is about
        #[arg(long, value_name = "TEXT")]
        about: Option<String>,
        /// Goal [default: the type's]
        #[arg(long, value_name = "TEXT")]
        intent: Option<String>,
        /// A persona or agent to add; repeatable
        #[arg(long, value_name = "NAME")]
        with: Vec<String>,
        /// A person to add; repeatable
        #[arg(long, value_name = "NAME")]
        person: Vec<String>,
        /// Do not join it: a person is its chair
        #[arg(long, requires = "chair")]
        without_me: bool,
        /// That person
        #[arg(long, value_name = "PERSON", requires = "without_me")]
        chair: Option<String>,
    },
    /// Add a persona, an agent or a person; needs `can_add_members` in your wb.agent
    Add {
        /// Persona or agent
        #[arg(value_name = "NAME", required_unless_present = "person")]
        persona: Option<String>,
        /// A person instead
        #[arg(long, value_name = "NAME", conflicts_with = "persona")]
        person: Option<String>,
    },
    /// Leave the channel
    Leave,
    /// Mute the channel: you get no messages until you unmute it
    Mute,
    /// Unmute the channel; you catch up on what you missed
    Unmute,
    /// Remove a member; chair only
    Remove {
        /// Handle of the member
        handle: String,
    },
    /// Set the goal of the channel; chair only
    Intent {
        /// The goal
        text: String,
    },
    /// Complete the channel; chair only
    Complete,
    /// Post a message while you work, from standard input
    ///
    /// Your final message is posted automatically; use this to pass work on before that, or to
    /// attach files. Works only while you are answering a message of the channel.
    Post {
        /// message, delegation or escalation
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Handle of the member it is addressed to
        #[arg(long, value_name = "HANDLE")]
        to: Option<String>,
        /// Number of the message that it replies to
        #[arg(long, value_name = "NUMBER")]
        reply_to: Option<i64>,
        /// Attach a file of at most 10 MiB, no link; repeatable. The text may then be empty
        #[arg(long, value_name = "FILE")]
        attach: Vec<Utf8PathBuf>,
    },
}

/// Prints what became of a channel.
fn told(screen: &Screen, answer: &Value) -> Result<()> {
    screen.answer(answer, |screen, answer| {
        let status = answer["status"].as_str().unwrap_or_default();
        screen.put(&format!("{} {status}", answer["slug"].as_str().unwrap_or_default()))
    })
}

/// Changes what the agent hears of its channel.
fn of_own(client: &Client, verb: &str) -> Result<Value> {
    let own = client.get("/api/channels/own")?;
    let handle = own["me"].as_str().unwrap_or_default();
    client.post(&format!("/api/channels/own/members/{}/{verb}", path_part(handle)), &json!({}))
}

/// Uploads files and returns their numbers; none if one of them cannot be read.
fn upload(client: &Client, files: &[Utf8PathBuf]) -> Result<Vec<i64>> {
    if files.len() > CHANNEL_ATTACHMENTS_MAX {
        let message = format!("a message has at most {CHANNEL_ATTACHMENTS_MAX} attachments");
        return Err(Error::invalid(message).code("bad_attachments").hint("send several messages"));
    }
    let read = |file: &Utf8PathBuf| {
        let content = input::regular(file, CHANNEL_ATTACHMENT_BYTES_MAX)?;
        Ok((query("/api/channels/own/attachments", &[("name", file.file_name())]), content))
    };
    let read: Vec<(String, Vec<u8>)> = files.iter().map(read).collect::<Result<_>>()?;
    let send = |(path, content): &(String, Vec<u8>)| {
        let uploaded: AttachmentView = typed(&client.post_file(path, content)?)?;
        Ok(uploaded.number)
    };
    read.iter().map(send).collect()
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
        ChannelVerb::Attachment { number, out } => {
            let path = format!("/api/channels/own/attachments/{number}");
            let content = client.get_file(&path)?;
            match out {
                Some(out) => output::save(&out, &content),
                None => output::print_file(screen, content),
            }
        }
        ChannelVerb::Create { name, kind, about, intent, with, person, without_me, chair } => {
            let persona = |it| MemberRequest { persona: Some(it), ..MemberRequest::default() };
            let human = |it| MemberRequest { person: Some(it), ..MemberRequest::default() };
            let members = with.into_iter().map(persona).chain(person.into_iter().map(human));
            let request = CreateRequest {
                kind,
                name,
                about,
                intent,
                members: members.collect(),
                without_me,
                chair,
                ..CreateRequest::default()
            };
            told(screen, &client.create("/api/channels", &json!(request))?)
        }
        ChannelVerb::Add { persona, person } => {
            let request = MemberRequest { persona, person, ..MemberRequest::default() };
            told(screen, &client.post("/api/channels/own/members", &json!(request))?)
        }
        ChannelVerb::Leave => told(screen, &client.post("/api/channels/own/leave", &json!({}))?),
        ChannelVerb::Mute => told(screen, &of_own(&client, "mute")?),
        ChannelVerb::Unmute => told(screen, &of_own(&client, "unmute")?),
        ChannelVerb::Remove { handle } => {
            let path = format!("/api/channels/own/members/{}/remove", path_part(&handle));
            told(screen, &client.post(&path, &json!({}))?)
        }
        ChannelVerb::Intent { text } => {
            let request = ChangeRequest { intent: Some(text), ..ChangeRequest::default() };
            told(screen, &client.post("/api/channels/own/change", &json!(request))?)
        }
        ChannelVerb::Complete => {
            told(screen, &client.post("/api/channels/own/complete", &json!({}))?)
        }
        ChannelVerb::Post { kind, to, reply_to, attach } => {
            let body = match attach.is_empty() {
                true => input::standard("the message", TEXT_BYTES_MAX)?,
                false => input::standard_if_any("the message", TEXT_BYTES_MAX)?,
            };
            let attachments = upload(&client, &attach)?;
            let request = PostRequest { body, kind, to, in_reply_to: reply_to, attachments };
            let answer = client.create("/api/channels/own/messages", &json!(request))?;
            screen.answer(&answer, |screen, answer| screen.put(&answer["sequence"].to_string()))
        }
    }
}
