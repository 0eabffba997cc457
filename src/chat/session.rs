//! Conversations: their owner, the branch that is shown, and their cost.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::base::{
    Actor, ChatId, ChatMessageId, Error, ErrorKind, Event, EventKind, Ids, Millis, PersonId,
    Result, Scope, fault,
};
use crate::chat::search;
use crate::store::Tx;

/// The code of a conversation that does not exist.
pub const NO_SESSION: &str = "no_session";

const INSERT: &str = "
    INSERT INTO chat_sessions (id, person_id, title, created_ms, touched_ms)
    VALUES (:id, :person, :title, :now, :now)";
const COUNT: &str = "SELECT COUNT(*) FROM chat_sessions WHERE person_id = :person";
const FIND: &str = "SELECT * FROM chat_sessions WHERE id = :id AND person_id = :person";
const LIST: &str = "
    SELECT * FROM chat_sessions
    WHERE person_id = :person AND (archived_ms IS NOT NULL) = :archived
        AND (is_pinned, touched_ms, id) < (:pinned, :touched, :before)
    ORDER BY is_pinned DESC, touched_ms DESC, id DESC LIMIT :limit";
const NOTE_QUESTION: &str = "
    UPDATE chat_sessions SET head_id = :message, messages = messages + :more, touched_ms = :now,
        archived_ms = NULL
    WHERE id = :id";
const NOTE_ANSWER: &str = "
    UPDATE chat_sessions SET messages = messages + :more, touched_ms = MAX(touched_ms, :now),
        tokens_in = tokens_in + :tokens_in, tokens_out = tokens_out + :tokens_out,
        cost_micros = cost_micros + :cost
    WHERE id = :id";
const MOVE_HEAD: &str = "
    UPDATE chat_sessions SET head_id = :message
    WHERE id = :id AND (head_id = :parent OR :anyway)";
const CHANGE: &str = "
    UPDATE chat_sessions SET title = COALESCE(:title, title),
        title_by = IIF(:title IS NULL, title_by, 'person'),
        is_pinned = COALESCE(:pinned, is_pinned),
        archived_ms = CASE :archived WHEN 1 THEN COALESCE(archived_ms, :now) WHEN 0 THEN NULL
            ELSE archived_ms END,
        head_id = COALESCE(:head, head_id)
    WHERE id = :id AND person_id = :person";
const CLEAR: &str = "
    UPDATE chat_sessions SET head_id = NULL, messages = 0, tokens_in = 0, tokens_out = 0,
        cost_micros = 0, touched_ms = :now
    WHERE id = :id AND person_id = :person";
const FORGET_MESSAGES: &str = "DELETE FROM chat_messages WHERE session_id = :id";
const FORGET_RUNS: &str = "DELETE FROM chat_runs WHERE session_id = :id";
const FORGET_REFS: &str = "DELETE FROM chat_refs WHERE session_id = :id";
const REMOVE: &str = "DELETE FROM chat_sessions WHERE id = :id AND person_id = :person";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("chat::session_insert", INSERT),
    ("chat::session_count", COUNT),
    ("chat::session_find", FIND),
    ("chat::session_list", LIST),
    ("chat::session_question", NOTE_QUESTION),
    ("chat::session_answer", NOTE_ANSWER),
    ("chat::session_head", MOVE_HEAD),
    ("chat::session_change", CHANGE),
    ("chat::session_clear", CLEAR),
    ("chat::session_forget_messages", FORGET_MESSAGES),
    ("chat::session_forget_runs", FORGET_RUNS),
    ("chat::session_forget_refs", FORGET_REFS),
    ("chat::session_remove", REMOVE),
];

/// Most conversations per person.
const SESSIONS_MAX: i64 = 2_000;
/// Longest title, in characters.
const TITLE_CHARS_MAX: usize = 200;
/// Longest title derived from a question, in characters.
const AUTO_TITLE_CHARS_MAX: usize = 60;

/// A conversation.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id.
    pub id: ChatId,
    /// Its owner.
    pub person_id: PersonId,
    /// Its title.
    pub title: String,
    /// The end of the branch that is shown.
    pub head_id: Option<ChatMessageId>,
    /// Whether it is pinned to the top.
    pub is_pinned: bool,
    /// Number of messages.
    pub messages: i64,
    /// Input tokens.
    pub tokens_in: i64,
    /// Tokens written.
    pub tokens_out: i64,
    /// Its cost in millionths of a US dollar.
    pub cost_micros: i64,
    /// When it started.
    pub created_at: Millis,
    /// When the last message was added.
    pub touched_at: Millis,
    /// When it was archived.
    pub archived_at: Option<Millis>,
}

impl Session {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Session> {
        Ok(Session {
            id: row.get("id")?,
            person_id: row.get("person_id")?,
            title: row.get("title")?,
            head_id: row.get("head_id")?,
            is_pinned: row.get("is_pinned")?,
            messages: row.get("messages")?,
            tokens_in: row.get("tokens_in")?,
            tokens_out: row.get("tokens_out")?,
            cost_micros: row.get("cost_micros")?,
            created_at: row.get("created_ms")?,
            touched_at: row.get("touched_ms")?,
            archived_at: row.get("archived_ms")?,
        })
    }
}

/// Tokens and cost of one answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Input tokens, including those from a cache.
    pub tokens_in: i64,
    /// Tokens written.
    pub tokens_out: i64,
    /// Millionths of a US dollar.
    pub cost_micros: i64,
}

/// A person's changes of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The new title.
    pub title: Option<String>,
    /// Whether it is pinned to the top.
    pub is_pinned: Option<bool>,
    /// Whether it is archived.
    pub is_archived: Option<bool>,
    /// The end of the branch to show.
    pub head: Option<ChatMessageId>,
}

/// Creates a conversation, with a title from its first question.
///
/// # Errors
/// `conflict` with code `too_many_conversations`.
pub fn begin(tx: &Tx<'_>, ids: &Ids, person: &PersonId, question: &str) -> Result<Session> {
    let count: i64 =
        tx.prepare_cached(COUNT)?.query_row(named_params! {":person": person}, |row| row.get(0))?;
    if count >= SESSIONS_MAX {
        let message = format!("you have {count} conversations, as many as one person may have");
        return Err(Error::new(ErrorKind::Conflict, message)
            .code("too_many_conversations")
            .hint("delete some of them"));
    }
    let id: ChatId = ids.mint();
    let title = auto_title(question);
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":person": person, ":title": title, ":now": tx.now(),
    })?;
    tell(tx, person, &id, "added")?;
    find(tx.connection(), person, &id)
}

/// Returns a title made of a question's first words.
fn auto_title(question: &str) -> String {
    let line = question.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default();
    let line = line.trim_start_matches(['#', '>', '-', '*', ' ']);
    let plain: String = line.chars().filter(|it| !it.is_control()).collect();
    if plain.chars().count() <= AUTO_TITLE_CHARS_MAX {
        let is_empty = plain.is_empty();
        return if is_empty { "Conversation".to_owned() } else { plain };
    }
    let cut: String = plain.chars().take(AUTO_TITLE_CHARS_MAX).collect();
    let cut = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    format!("{cut}…")
}

/// Returns a person's conversation.
///
/// # Errors
/// `not_found` with code `no_session`, also for another person's.
pub fn find(connection: &Connection, person: &PersonId, id: &ChatId) -> Result<Session> {
    let params = named_params! {":id": id, ":person": person};
    let found = connection.prepare_cached(FIND)?.query_row(params, Session::from_row).optional()?;
    found.ok_or_else(|| {
        Error::not_found(format!("no conversation {id}"))
            .code(NO_SESSION)
            .hint("`wiki-browser chat list` lists yours")
    })
}

/// Returns a person's conversations, newest first, after a given one.
///
/// # Errors
/// As [`find`].
pub fn list(
    connection: &Connection,
    person: &PersonId,
    (after, is_archived): (Option<&ChatId>, bool),
    limit: u32,
) -> Result<Vec<Session>> {
    let after = after.map(|it| find(connection, person, it)).transpose()?;
    let (pinned, touched, before) = match &after {
        Some(it) => (i64::from(it.is_pinned), it.touched_at.0, it.id.as_str()),
        None => (2, i64::MAX, ""),
    };
    let params = named_params! {
        ":person": person, ":archived": is_archived, ":pinned": pinned,
        ":touched": touched, ":before": before, ":limit": limit,
    };
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map(params, Session::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Shows a question's branch; `is_new` if the question was just added.
///
/// # Errors
/// As any write.
pub fn note_question(
    tx: &Tx<'_>,
    session: &Session,
    message: &ChatMessageId,
    is_new: bool,
) -> Result<()> {
    tx.prepare_cached(NOTE_QUESTION)?.execute(named_params! {
        ":id": session.id, ":message": message, ":more": i64::from(is_new), ":now": tx.now(),
    })?;
    tell(tx, &session.person_id, &session.id, "message")
}

/// Adds an answer's messages and cost. The answer is shown unless the person has switched to
/// another branch.
///
/// # Errors
/// As any write.
pub fn note_answer(
    tx: &Tx<'_>,
    (person, session): (&PersonId, &ChatId),
    (question, answers): (&ChatMessageId, &[ChatMessageId]),
    spent: Spent,
) -> Result<()> {
    tx.prepare_cached(NOTE_ANSWER)?.execute(named_params! {
        ":id": session, ":more": answers.len() as i64, ":now": tx.now(),
        ":tokens_in": spent.tokens_in, ":tokens_out": spent.tokens_out,
        ":cost": spent.cost_micros,
    })?;
    if let Some(last) = answers.last() {
        // The branch that is shown may end at a step of this answer.
        for parent in std::iter::once(question).chain(answers) {
            let anyway = fault::is_off("head_parent");
            let params = named_params! {
                ":id": session, ":message": last, ":parent": parent, ":anyway": anyway,
            };
            if tx.prepare_cached(MOVE_HEAD)?.execute(params)? == 1 {
                break;
            }
        }
    }
    tell(tx, person, session, "run")
}

/// Notifies the owner of a conversation that one of its calls has changed.
///
/// # Errors
/// As any write.
pub fn note_call(tx: &Tx<'_>, person: &PersonId, session: &ChatId) -> Result<()> {
    tell(tx, person, session, "call")
}

/// Applies a person's changes.
///
/// # Errors
/// `invalid` for a title that is not one line; `not_found` with code `no_session`.
pub fn change(tx: &Tx<'_>, person: &PersonId, id: &ChatId, change: &Change) -> Result<Session> {
    let title = change.title.as_deref().map(str::trim);
    let is_line = |it: &str| {
        !it.is_empty() && it.chars().count() <= TITLE_CHARS_MAX && !it.chars().any(char::is_control)
    };
    if !title.is_none_or(is_line) {
        let message = format!("a title is one line of 1 to {TITLE_CHARS_MAX} characters");
        return Err(Error::invalid(message).code("bad_title").of_input("title"));
    }
    let params = named_params! {
        ":id": id, ":person": person, ":title": title, ":pinned": change.is_pinned,
        ":archived": change.is_archived.map(i64::from), ":head": change.head, ":now": tx.now(),
    };
    tx.prepare_cached(CHANGE)?.execute(params)?;
    if change.title.is_some() {
        search::rename(tx, id)?;
    }
    let session = find(tx.connection(), person, id)?;
    tell(tx, person, id, "changed")?;
    Ok(session)
}

/// Deletes a conversation's messages, and keeps its id.
///
/// # Errors
/// As any write.
pub fn forget(tx: &Tx<'_>, person: &PersonId, id: &ChatId) -> Result<()> {
    find(tx.connection(), person, id)?;
    forget_rows(tx, id)?;
    tx.prepare_cached(CLEAR)?.execute(named_params! {
        ":id": id, ":person": person, ":now": tx.now(),
    })?;
    tell(tx, person, id, "cleared")
}

/// Deletes a conversation with its messages.
///
/// # Errors
/// As any write.
pub fn remove(tx: &Tx<'_>, person: &PersonId, id: &ChatId) -> Result<()> {
    find(tx.connection(), person, id)?;
    forget_rows(tx, id)?;
    tx.prepare_cached(REMOVE)?.execute(named_params! {":id": id, ":person": person})?;
    tell(tx, person, id, "removed")
}

fn forget_rows(tx: &Tx<'_>, id: &ChatId) -> Result<()> {
    let params = named_params! {":id": id};
    search::forget(tx, id)?;
    tx.prepare_cached(FORGET_REFS)?.execute(params)?;
    tx.prepare_cached(FORGET_RUNS)?.execute(params)?;
    tx.prepare_cached(FORGET_MESSAGES)?.execute(params)?;
    Ok(())
}

/// Notifies only the owner.
fn tell(tx: &Tx<'_>, person: &PersonId, id: &ChatId, change: &str) -> Result<()> {
    let actor = Actor::Person(person.clone());
    let data = json!({"session_id": id, "change": change});
    let mut event = Event::new(EventKind::ChatChanged, format!("chat:{id}"), actor, data);
    event.scope = Scope::Person(person.clone());
    tx.emit(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_beginning_of_the_question() {
        let long = "word ".repeat(30);
        for (question, title) in [
            ("\n  # Why so?\nBecause.", "Why so?"),
            ("   ", "Conversation"),
            (long.as_str(), "word word word word word word word word word word word word…"),
        ] {
            assert_eq!(auto_title(question), title);
        }
    }
}
