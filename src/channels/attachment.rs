//! Files that members attach to messages: uploaded first, then sent with a message.
//!
//! **Invariant:** a file that was sent belongs to one message and never changes.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::base::limit::{
    CHANNEL_ATTACHMENT_BYTES_MAX as ATTACHMENT_BYTES_MAX,
    CHANNEL_ATTACHMENTS_MAX as ATTACHMENTS_MAX, CHANNEL_UPLOADS_BYTES_MAX as UPLOADS_BYTES_MAX,
};
use crate::base::{
    Error, ErrorKind, MailId, Millis, PersonId, Result, digest_hex, image_type, is_text,
    shown_file_name,
};
use crate::store::Tx;

/// Uploads of one member that have not been sent.
const UNSENT_MAX: i64 = 20;
/// The time in which uploads of agents and of members from outside are counted, in milliseconds.
const DAY_MS: i64 = 24 * 3_600_000;
/// How long an upload can wait to be sent, in milliseconds.
const UNSENT_MS: i64 = 24 * 3_600_000;

const INSERT: &str = "
    INSERT INTO channel_attachments (channel, person_id, agent, name, kind, bytes, digest,
        created_ms)
    VALUES (:channel, :person, :agent, :name, :kind, :bytes, :digest, :now)
    RETURNING number";
const INSERT_CONTENT: &str = "
    INSERT INTO channel_attachment_contents (number, content) VALUES (:number, :content)";
const UNSENT: &str = "
    SELECT COUNT(*) FROM channel_attachments
    WHERE person_id IS :person AND agent IS :agent AND message_id IS NULL";
const UPLOADED: &str = "
    SELECT COALESCE(SUM(bytes), 0)
    FROM channel_attachments INDEXED BY channel_attachments_by_uploader
    WHERE person_id IS :person AND agent IS :agent AND created_ms > :since";
const SEND: &str = "
    UPDATE channel_attachments SET message_id = :message
    WHERE number = :number AND channel = :channel AND person_id IS :person AND agent IS :agent
        AND message_id IS NULL";
const OF_MESSAGE: &str = "
    SELECT number, message_id, name, kind, bytes FROM channel_attachments
    WHERE message_id = :message ORDER BY number";
const FIND: &str = "
    SELECT number, message_id, name, kind, bytes FROM channel_attachments
    WHERE number = :number AND channel = :channel AND message_id IS NOT NULL";
const CONTENT: &str = "SELECT content FROM channel_attachment_contents WHERE number = :number";
const OLD: &str = "
    SELECT COUNT(*) FROM channel_attachments WHERE message_id IS NULL AND created_ms < :before";
const DROP_OLD: &str = "
    DELETE FROM channel_attachments WHERE message_id IS NULL AND created_ms < :before";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("channel_attachment::insert", INSERT),
    ("channel_attachment::insert_content", INSERT_CONTENT),
    ("channel_attachment::unsent", UNSENT),
    ("channel_attachment::uploaded", UPLOADED),
    ("channel_attachment::send", SEND),
    ("channel_attachment::of_message", OF_MESSAGE),
    ("channel_attachment::find", FIND),
    ("channel_attachment::content", CONTENT),
    ("channel_attachment::old", OLD),
    ("channel_attachment::drop_old", DROP_OLD),
];

/// Who uploads a file, and alone can send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uploader {
    /// A person of the site.
    Person(PersonId),
    /// A person from outside.
    Outsider(PersonId),
    /// An agent, by its name.
    Agent(String),
}

impl Uploader {
    fn person(&self) -> Option<&PersonId> {
        match self {
            Uploader::Person(id) | Uploader::Outsider(id) => Some(id),
            Uploader::Agent(_) => None,
        }
    }

    fn agent(&self) -> Option<&str> {
        match self {
            Uploader::Agent(name) => Some(name),
            Uploader::Person(_) | Uploader::Outsider(_) => None,
        }
    }

    /// Returns whether what it uploads in a day is limited.
    fn is_guarded(&self) -> bool {
        !matches!(self, Uploader::Person(_))
    }
}

/// An attached file, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its number, unique on the site.
    pub number: i64,
    /// The message that it was sent with.
    pub message_id: Option<MailId>,
    /// Its name for display; never a path.
    pub name: String,
    /// `text`, `binary` or the media type of an image.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
}

impl Attachment {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Attachment> {
        let bytes: i64 = row.get("bytes")?;
        Ok(Attachment {
            number: row.get("number")?,
            message_id: row.get("message_id")?,
            name: row.get("name")?,
            kind: row.get("kind")?,
            bytes: bytes.unsigned_abs(),
        })
    }
}

/// Returns the kind of a file, judged by its bytes alone: names and headers lie.
fn kind_of(bytes: &[u8]) -> &'static str {
    match image_type(bytes) {
        Some(kind) => kind,
        None if is_text(bytes) => "text",
        None => "binary",
    }
}

/// Stores an upload.
///
/// # Errors
/// `invalid`: `empty_file`; `too_large`; `busy`: `too_many_uploads`.
pub fn upload(
    tx: &Tx<'_>,
    (channel, by): (i64, &Uploader),
    name: &str,
    content: &[u8],
) -> Result<Attachment> {
    if content.is_empty() {
        return Err(
            Error::invalid(format!("`{}` is empty", name.escape_debug())).code("empty_file")
        );
    }
    if content.len() > ATTACHMENT_BYTES_MAX {
        let mib = ATTACHMENT_BYTES_MAX / (1024 * 1024);
        let message = format!("the file has {} bytes; at most {mib} MiB", content.len());
        return Err(Error::new(ErrorKind::TooLarge, message).hint("attach a smaller file"));
    }
    require_room(tx, by, content.len())?;
    let (name, kind) = (shown_file_name(name), kind_of(content));
    let params = named_params! {
        ":channel": channel, ":person": by.person(), ":agent": by.agent(), ":name": name,
        ":kind": kind, ":bytes": content.len() as i64, ":digest": digest_hex(content),
        ":now": tx.now(),
    };
    let number: i64 = tx.prepare_cached(INSERT)?.query_row(params, |row| row.get(0))?;
    let params = named_params! {":number": number, ":content": content};
    tx.prepare_cached(INSERT_CONTENT)?.execute(params)?;
    let (kind, bytes) = (kind.to_owned(), content.len() as u64);
    Ok(Attachment { number, message_id: None, name, kind, bytes })
}

/// Refuses an upload beyond what its member may still upload.
fn require_room(tx: &Tx<'_>, by: &Uploader, bytes: usize) -> Result<()> {
    let own = named_params! {":person": by.person(), ":agent": by.agent()};
    let unsent: i64 = tx.prepare_cached(UNSENT)?.query_row(own, |row| row.get(0))?;
    let full = |message: String, hint: &'static str| {
        Err(Error::new(ErrorKind::Busy, message).code("too_many_uploads").hint(hint))
    };
    if unsent >= UNSENT_MAX {
        let message = format!("{unsent} of your uploads have not been sent");
        return full(message, "send them with a message; unsent uploads are removed after a day");
    }
    if !by.is_guarded() {
        return Ok(());
    }
    let own = named_params! {
        ":person": by.person(), ":agent": by.agent(), ":since": tx.now().plus(-DAY_MS),
    };
    let uploaded: i64 = tx.prepare_cached(UPLOADED)?.query_row(own, |row| row.get(0))?;
    if uploaded + bytes as i64 > UPLOADS_BYTES_MAX as i64 {
        let mib = UPLOADS_BYTES_MAX / (1024 * 1024);
        let message = format!("you can upload at most {mib} MiB within a day");
        return full(message, "attach less, or wait; a person has no such limit");
    }
    Ok(())
}

/// Sends uploads of a member with a message.
///
/// # Errors
/// `invalid`: `bad_attachments` for too many; `not_found`: `no_attachment` for one that is not an
/// unsent upload of this member in this channel.
pub(super) fn send(
    tx: &Tx<'_>,
    (channel, message): (i64, &MailId),
    by: &Uploader,
    numbers: &[i64],
) -> Result<()> {
    if numbers.len() > ATTACHMENTS_MAX {
        let message = format!("a message has at most {ATTACHMENTS_MAX} attachments");
        return Err(Error::invalid(message).code("bad_attachments").of_input("attachments"));
    }
    for number in numbers {
        let params = named_params! {
            ":message": message, ":number": number, ":channel": channel,
            ":person": by.person(), ":agent": by.agent(),
        };
        if tx.prepare_cached(SEND)?.execute(params)? != 1 {
            return Err(no_attachment(*number).of_input("attachments"));
        }
    }
    Ok(())
}

/// Returns the error for an attachment that does not exist, or not for this caller.
pub fn no_attachment(number: i64) -> Error {
    Error::not_found(format!("no attachment {number}"))
        .code("no_attachment")
        .hint("uploads can be sent once, within a day, in the channel they were made for")
}

/// Returns the files of a message.
///
/// # Errors
/// As any read.
pub fn of_message(connection: &Connection, message: &MailId) -> Result<Vec<Attachment>> {
    let mut statement = connection.prepare_cached(OF_MESSAGE)?;
    let rows = statement.query_map(named_params! {":message": message}, Attachment::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns a file that was sent in a channel.
///
/// # Errors
/// As any read.
pub fn find(connection: &Connection, channel: i64, number: i64) -> Result<Option<Attachment>> {
    let params = named_params! {":number": number, ":channel": channel};
    let mut statement = connection.prepare_cached(FIND)?;
    Ok(statement.query_row(params, Attachment::from_row).optional()?)
}

/// Returns the content of a file.
///
/// # Errors
/// As any read.
pub fn content(connection: &Connection, number: i64) -> Result<Vec<u8>> {
    let mut statement = connection.prepare_cached(CONTENT)?;
    Ok(statement.query_row(named_params! {":number": number}, |row| row.get(0))?)
}

/// Returns how many uploads were not sent within a day.
///
/// # Errors
/// As any read.
pub fn droppable(connection: &Connection, now: Millis) -> Result<u64> {
    let params = named_params! {":before": now.plus(-UNSENT_MS)};
    let count: i64 = connection.prepare_cached(OLD)?.query_row(params, |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Removes uploads that were not sent within a day; returns how many.
///
/// # Errors
/// As any write.
pub fn drop_unsent(tx: &Tx<'_>) -> Result<u64> {
    let params = named_params! {":before": tx.now().plus(-UNSENT_MS)};
    let dropped = tx.prepare_cached(DROP_OLD)?.execute(params)?;
    Ok(dropped as u64)
}
