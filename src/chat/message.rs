//! Messages of a conversation: a tree, of which one branch is shown.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::base::{ChatId, ChatMessageId, Error, Ids, JobId, Millis, Result};
use crate::chat::search;
use crate::chat::upload::Attachment;
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO chat_messages (id, session_id, parent_id, role, run_id, step, state, body,
        native_json, provider, model, attachments_json, created_ms)
    VALUES (:id, :session, :parent, :role, :run, :step, :state, :body, :native, :provider, :model,
        :attachments, :now)";
const OF_RUN: &str = "
    SELECT step, id FROM chat_messages WHERE run_id = :run AND role = 'assistant' ORDER BY step";
const FIND: &str = "SELECT * FROM chat_messages WHERE id = :id AND session_id = :session";
const CHILDREN: &str = "
    SELECT id FROM chat_messages WHERE parent_id = :parent AND session_id = :session ORDER BY seq
    LIMIT :limit";
const FIRST: &str = "
    SELECT id FROM chat_messages WHERE session_id = :session AND parent_id IS NULL ORDER BY seq
    LIMIT :limit";
const NEWEST_CHILD: &str = "
    SELECT id FROM chat_messages WHERE parent_id = :parent ORDER BY seq DESC LIMIT 1";

const IS_ABOVE: &str = along_branch!("SELECT 1 FROM branch WHERE id = :id LIMIT 1");
const HAS_IMAGES: &str = along_branch!(
    "SELECT EXISTS (SELECT 1 FROM branch JOIN chat_messages USING (id), json_each(attachments_json)
        WHERE json_extract(value, '$.kind') <> 'text')"
);

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("chat::message_insert", INSERT),
    ("chat::message_find", FIND),
    ("chat::messages_of_run", OF_RUN),
    ("chat::message_children", CHILDREN),
    ("chat::message_first", FIRST),
    ("chat::message_newest_child", NEWEST_CHILD),
    ("chat::message_is_above", IS_ABOVE),
    ("chat::message_has_images", HAS_IMAGES),
];

/// Most siblings returned.
const SIBLINGS_MAX: u32 = 200;
/// Most messages from one to the end of its branch.
const DEPTH_MAX: usize = 100_000;

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person.
    User,
    /// The assistant.
    Assistant,
}

impl Role {
    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// Whether a message is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Complete.
    Whole,
    /// Stopped by the person.
    Stopped,
    /// Interrupted by the server's end.
    Interrupted,
    /// Failed.
    Failed,
}

impl State {
    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Whole => "whole",
            State::Stopped => "stopped",
            State::Interrupted => "interrupted",
            State::Failed => "failed",
        }
    }

    fn parse(word: &str) -> State {
        match word {
            "whole" => State::Whole,
            "stopped" => State::Stopped,
            "interrupted" => State::Interrupted,
            _ => State::Failed,
        }
    }
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its position among all messages.
    pub seq: i64,
    /// Its id.
    pub id: ChatMessageId,
    /// The message that it follows.
    pub parent_id: Option<ChatMessageId>,
    /// Its author.
    pub role: Role,
    /// The run that wrote it.
    pub run_id: Option<JobId>,
    /// Whether it is complete.
    pub state: State,
    /// Markdown.
    pub body: String,
    /// The provider's own form of it.
    pub native: Option<String>,
    /// The provider.
    pub provider: Option<String>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// Attached files.
    pub attachments: Vec<Attachment>,
    /// When it was stored.
    pub created_at: Millis,
}

impl Message {
    /// Returns the text for a model, including the list of attached files.
    pub fn told(&self) -> String {
        let mut told = self.body.trim().to_owned();
        if !self.attachments.is_empty() {
            told += "\n\nAttached files, which are in the vault:";
        }
        for file in &self.attachments {
            told += &format!("\n- {} ({}, {} bytes)", file.path, file.kind, file.bytes);
        }
        told
    }

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Message> {
        let role: String = row.get("role")?;
        let state: String = row.get("state")?;
        Ok(Message {
            seq: row.get("seq")?,
            id: row.get("id")?,
            parent_id: row.get("parent_id")?,
            role: if role == "user" { Role::User } else { Role::Assistant },
            run_id: row.get("run_id")?,
            state: State::parse(&state),
            body: row.get("body")?,
            native: row.get("native_json")?,
            provider: row.get("provider")?,
            model: row.get("model")?,
            attachments: serde_json::from_str(&row.get::<_, String>("attachments_json")?).map_err(
                |it| {
                    let sort = rusqlite::types::Type::Text;
                    rusqlite::Error::FromSqlConversionFailure(0, sort, it.into())
                },
            )?,
            created_at: row.get("created_ms")?,
        })
    }
}

/// A new message.
#[derive(Clone, Debug)]
pub struct NewMessage<'a> {
    /// The conversation.
    pub session: &'a ChatId,
    /// The message that it follows.
    pub parent: Option<&'a ChatMessageId>,
    /// Its author.
    pub role: Role,
    /// The run that wrote it, and its step.
    pub run: Option<(&'a JobId, u32)>,
    /// Whether it is complete.
    pub state: State,
    /// Markdown.
    pub body: &'a str,
    /// The provider, and its own form of the message.
    pub native: Option<(&'a str, Option<&'a str>)>,
    /// The model that wrote it.
    pub model: Option<&'a str>,
    /// Attached files.
    pub attachments: &'a [Attachment],
}

/// Inserts a message.
///
/// # Errors
/// As any write.
pub fn insert(tx: &Tx<'_>, ids: &Ids, new: &NewMessage<'_>) -> Result<ChatMessageId> {
    let id: ChatMessageId = ids.mint();
    let attachments = serde_json::to_string(new.attachments)
        .map_err(|cause| Error::internal("attachments are no JSON").source(cause))?;
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":session": new.session, ":parent": new.parent, ":role": new.role.as_str(),
        ":run": new.run.map(|it| it.0), ":step": new.run.map(|it| it.1),
        ":state": new.state.as_str(), ":body": new.body,
        ":native": new.native.and_then(|it| it.1), ":provider": new.native.map(|it| it.0),
        ":model": new.model, ":attachments": attachments, ":now": tx.now(),
    })?;
    search::put(tx, tx.connection().last_insert_rowid())?;
    Ok(id)
}

/// Returns the messages of a run with their steps.
///
/// # Errors
/// As any read.
pub fn of_run(connection: &Connection, run: &JobId) -> Result<Vec<(u32, ChatMessageId)>> {
    let mut statement = connection.prepare_cached(OF_RUN)?;
    let rows = statement
        .query_map(named_params! {":run": run}, |row| Ok((row.get("step")?, row.get("id")?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns a message of a conversation. The caller has checked who owns the conversation.
///
/// # Errors
/// `not_found` with code `no_message`.
pub fn find(connection: &Connection, session: &ChatId, id: &ChatMessageId) -> Result<Message> {
    let params = named_params! {":id": id, ":session": session};
    let found = connection.prepare_cached(FIND)?.query_row(params, Message::from_row).optional()?;
    found.ok_or_else(|| {
        Error::not_found(format!("no message {id} in this conversation")).code("no_message")
    })
}

/// Returns the branch that ends with a message, oldest first: at most `limit` messages, and whether
/// there are earlier ones.
///
/// # Errors
/// As [`find`].
pub fn branch(
    connection: &Connection,
    session: &ChatId,
    head: &ChatMessageId,
    limit: usize,
) -> Result<(Vec<Message>, bool)> {
    let mut found = Vec::new();
    let mut next = Some(head.clone());
    while let Some(id) = next.take() {
        if found.len() == limit {
            found.reverse();
            return Ok((found, true));
        }
        let message = find(connection, session, &id)?;
        next.clone_from(&message.parent_id);
        found.push(message);
    }
    found.reverse();
    Ok((found, false))
}

/// Returns the messages with the same parent, oldest first.
///
/// # Errors
/// As any read.
pub fn siblings(
    connection: &Connection,
    session: &ChatId,
    parent: Option<&ChatMessageId>,
) -> Result<Vec<ChatMessageId>> {
    let ids: rusqlite::Result<Vec<ChatMessageId>> = match parent {
        Some(parent) => {
            let params =
                named_params! {":parent": parent, ":session": session, ":limit": SIBLINGS_MAX};
            connection.prepare_cached(CHILDREN)?.query_map(params, |row| row.get(0))?.collect()
        }
        None => {
            let params = named_params! {":session": session, ":limit": SIBLINGS_MAX};
            connection.prepare_cached(FIRST)?.query_map(params, |row| row.get(0))?.collect()
        }
    };
    Ok(ids?)
}

/// Returns whether a message is in the branch that ends with another.
///
/// # Errors
/// As any read.
pub fn is_above(connection: &Connection, id: &ChatMessageId, end: &ChatMessageId) -> Result<bool> {
    let params = named_params! {":id": id, ":end": end};
    let found = connection.prepare_cached(IS_ABOVE)?.query_row(params, |_| Ok(()));
    Ok(found.optional()?.is_some())
}

/// Returns whether an image goes with a message of the branch that ends with one.
///
/// # Errors
/// As any read.
pub fn has_images(connection: &Connection, end: &ChatMessageId) -> Result<bool> {
    let params = named_params! {":end": end};
    Ok(connection.prepare_cached(HAS_IMAGES)?.query_row(params, |row| row.get(0))?)
}

/// Returns the end of the newest branch below a message.
///
/// # Errors
/// As any read.
pub fn tip(connection: &Connection, id: &ChatMessageId) -> Result<ChatMessageId> {
    below(connection, id, DEPTH_MAX)
}

/// Returns the message that many messages below another in the newest branch, or that branch's end.
///
/// # Errors
/// As any read.
pub fn below(connection: &Connection, id: &ChatMessageId, most: usize) -> Result<ChatMessageId> {
    let mut tip = id.clone();
    for _ in 0..most {
        let child: Option<ChatMessageId> = connection
            .prepare_cached(NEWEST_CHILD)?
            .query_row(named_params! {":parent": tip}, |row| row.get(0))
            .optional()?;
        match child {
            Some(child) => tip = child,
            None => break,
        }
    }
    Ok(tip)
}
