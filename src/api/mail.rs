//! Messages between addresses, and inboxes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{Actor, Address, ApprovalId, JobId, MailId, Millis};

/// The body of `POST /api/messages`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// Whom it is for.
    pub to: String,
    /// Any JSON; an inbox with a schema refuses what does not fit.
    pub payload: Value,
    /// The message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MailId>,
    /// Where the reply goes; to the sender if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// A word of the sender's own, one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
}

/// The answer to a message that was accepted.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sent {
    /// The message.
    pub message_id: MailId,
    /// The job that it started, if it went to an inbox.
    pub job_id: Option<JobId>,
    /// The address of the instance that it started.
    pub instance: Option<Address>,
    /// What became of it for its recipient so far.
    pub state: String,
    /// Why nothing becomes of it by itself, in a sentence, if that is so.
    #[serde(default)]
    pub waiting: Option<String>,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "MessageSort"))]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Someone sent it.
    Message,
    /// The reply of an instance that did what it was asked for.
    Reply,
    /// The answer in place of a reply that never comes, with the reason.
    Failure,
    /// A decision on an approval.
    Notice,
}

impl Sort {
    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Sort::Message => "message",
            Sort::Reply => "reply",
            Sort::Failure => "failure",
            Sort::Notice => "notice",
        }
    }

    /// Returns the sort with this word.
    pub fn parse(word: &str) -> Option<Sort> {
        let all = [Sort::Message, Sort::Reply, Sort::Failure, Sort::Notice];
        all.into_iter().find(|it| it.as_str() == word)
    }
}

/// A message as it is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MessageView {
    /// Its id.
    pub id: MailId,
    /// Its kind.
    pub sort: Sort,
    /// Who sent it.
    pub sender: Sender,
    /// The address that it came from; none of a handler of the script, or of a job without one.
    pub from: Option<Address>,
    /// The recipient.
    pub to: Address,
    /// Its content: any JSON.
    pub payload: Value,
    /// The sender's word.
    pub category: Option<String>,
    /// The message that it answers.
    pub in_reply_to: Option<MailId>,
    /// Where to send the reply, if not to the sender.
    pub reply_to: Option<Address>,
    /// The first message of its thread.
    pub thread: MailId,
    /// The job that sent it.
    pub job_id: Option<JobId>,
    /// When it was accepted.
    pub created_at: Millis,
    /// When what it said was given up; `payload` is null since.
    #[serde(default)]
    pub forgotten_at: Option<Millis>,
    /// What became of it, by recipient.
    pub deliveries: Vec<DeliveryView>,
}

/// Who sent a message.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sender {
    /// `person:ID`, `job:ID`, `script` or `system`.
    pub actor: Actor,
    /// For people to read.
    pub name: String,
}

/// What became of a message for one recipient.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeliveryView {
    /// The recipient.
    pub to: Address,
    /// `queued claimed sent confirmed unconfirmed expired dropped`.
    pub state: String,
    /// What proves that it arrived: `job pulled read …`.
    pub proof: Option<String>,
    /// Why it did not arrive.
    pub reason: Option<String>,
    /// The job that received it, or was started by it.
    pub job_id: Option<JobId>,
}

/// The query of `GET /api/messages`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MessageQuery {
    /// Only to this address; `me` is whoever asks.
    pub to: Option<String>,
    /// Only from this address; `me` is whoever asks.
    pub from: Option<String>,
    /// Only of this thread, oldest first.
    pub thread: Option<MailId>,
    /// Only with a delivery in this state.
    pub state: Option<String>,
    /// The `next` of the page before.
    pub after: Option<i64>,
    /// Rows of a page.
    pub limit: Option<u32>,
}

/// A page of messages.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MessagePage {
    /// Newest first; of a thread the oldest.
    pub items: Vec<MessageView>,
    /// What to ask for the next page with.
    pub next: Option<i64>,
}

/// What a message led to: the answer of `GET /api/messages/{id}/await`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Awaited {
    /// The message.
    pub message_id: MailId,
    /// Whether its answer is there.
    pub state: AwaitState,
    /// The payload of the reply.
    pub reply: Option<Value>,
    /// Why there is none, in a sentence.
    pub failure: Option<String>,
    /// What a person can do about it, in a sentence.
    #[serde(default)]
    pub hint: Option<String>,
    /// The message that is the answer, if it is to whoever asks.
    pub answer_id: Option<MailId>,
    /// The job that it started; the last repetition of it.
    pub job_id: Option<JobId>,
    /// Where that job is.
    pub job_status: Option<String>,
    /// The approval that it is parked for.
    #[serde(default)]
    pub approval_id: Option<ApprovalId>,
    /// Why no answer comes by itself, in a sentence, if that is so.
    #[serde(default)]
    pub waiting: Option<String>,
}

/// Returns what a person can do about a message to this address whose arrival nothing proves.
pub fn hint_of_unconfirmed(id: &MailId, to: &Address) -> String {
    if let Address::Channel(slug) = to {
        return format!(
            "if it did not arrive: `wiki-browser msg resend {slug} NUMBER --to AGENT`; if it did: \
             `wiki-browser msg settle {slug} NUMBER --to AGENT`; `wiki-browser msg history {slug}` \
             names both"
        );
    }
    format!(
        "if it did not arrive: `wiki-browser mail resend {id}`; if it did: \
         `wiki-browser mail settle {id}`"
    )
}

/// Whether the answer of a message is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AwaitState {
    /// Not yet.
    Pending,
    /// It is.
    Replied,
    /// There is none, and never will be.
    Failed,
}

/// The query of a route that waits.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AwaitQuery {
    /// How long, in seconds; 55 at most.
    pub timeout: Option<u64>,
}

/// The query of `GET /api/agent/inbox`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PullQuery {
    /// The highest `seq` that arrived before.
    pub after: Option<i64>,
    /// How long to wait for a message, in seconds; 55 at most.
    pub wait: Option<u64>,
}

/// A message that an instance pulls.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pulled {
    /// Its place: what `after` takes.
    pub seq: i64,
    /// The message.
    pub id: MailId,
    /// Its kind.
    pub sort: Sort,
    /// The sender's address.
    pub from: Option<Address>,
    /// Its content: any JSON.
    pub payload: Value,
    /// The sender's word.
    pub category: Option<String>,
    /// The message that it answers.
    pub in_reply_to: Option<MailId>,
    /// When it was accepted.
    pub created_at: Millis,
}

/// What is in an inbox, for its page and `wiki-browser inbox`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InboxView {
    /// `TEMPLATE/NAME`.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// Its purpose, for people; empty if it is gone.
    pub about: String,
    /// Name of the engine; empty if it is gone.
    pub engine: String,
    /// Messages whose instance has not started.
    pub depth: u64,
    /// Instances that run.
    pub running: u64,
    /// Instances that wait for a decision.
    pub parked: u64,
    /// Most instances that run at once; 0 if it is gone.
    pub concurrency: u32,
    /// What happens to an instance that a crash ended; empty if it is gone.
    pub on_lost: String,
    /// The kind of the jobs that watch its instances.
    pub monitor: Option<String>,
    /// What a payload must be.
    pub schema: Option<Value>,
    /// What a reply must be.
    pub reply_schema: Option<Value>,
    /// A payload that fits the schema, if one can be derived from it.
    #[serde(default)]
    pub example: Option<Value>,
    /// The jobs of its instances that have not ended: those that run, then parked ones, then those
    /// that wait, in their order. At most 50 of each.
    pub jobs: Vec<JobId>,
    /// Whether the script no longer declares it. It accepts no messages; its waiting jobs start
    /// when it is back.
    pub is_gone: bool,
}

impl InboxView {
    /// Returns the command that sends it a message and waits for the reply. Its payload is one that
    /// the inbox accepts, or a file to be written.
    pub fn send_command(&self) -> String {
        let payload = match (&self.example, &self.schema) {
            (Some(example), _) => example.to_string(),
            (None, None) => "{}".to_owned(),
            (None, Some(_)) => "@message.json".to_owned(),
        };
        let quoted = payload.replace('\'', "'\\''");
        format!("wiki-browser send {} --payload '{quoted}' --wait", self.address)
    }
}

/// The answer of `GET /api/inboxes`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InboxList {
    /// By name.
    pub items: Vec<InboxView>,
}

/// The body of `POST /api/agent/jobs/{id}/verdict`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VerdictRequest {
    /// `ok` or `error`.
    pub verdict: String,
    /// With `ok`: what the sender is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Value>,
    /// With `error`: why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer of `POST /api/messages/{id}/read`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MessageRead {
    /// Whether it was unread until now.
    pub was_unread: bool,
}
