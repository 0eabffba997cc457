//! Owns the table `topic_messages`: the messages of people and agents in a Topic, in order.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::api::topics::{Message, TopicStatus};
use crate::base::limit::{
    JOB_MESSAGES_MAX, MESSAGE_BYTES_MAX, TOPIC_BYTES_MAX, TOPIC_MESSAGES_MAX,
};
use crate::base::{
    Actor, Error, Event, EventKind, Ids, JobId, ProposalId, Result, SourcePath, TopicId, fault,
};
use crate::documents::search;
use crate::documents::topics::suggestion::{self, Suggestion};
use crate::documents::topics::topic;
use crate::documents::word::check_text;
use crate::store::Tx;

const LAST: &str = "
    SELECT COALESCE(MAX(sequence), 0) FROM topic_messages WHERE topic_id = :topic";
const BYTES: &str = "
    SELECT COALESCE(SUM(OCTET_LENGTH(body)), 0) FROM topic_messages WHERE topic_id = :topic";
const INSERT: &str = "
    INSERT INTO topic_messages (id, topic_id, sequence, author, body, proposal_id, created_ms)
    VALUES (:id, :topic, :sequence, :author, :body, :proposal, :now)";
const LIST: &str = "
    SELECT id, topic_id, sequence, author, body, proposal_id, created_ms
    FROM topic_messages WHERE topic_id = :topic ORDER BY sequence";
const COUNT_OF_AUTHOR: &str = "
    SELECT COUNT(*) FROM topic_messages WHERE topic_id = :topic AND author = :author";
const HAS_AUTHOR: &str = "
    SELECT EXISTS (SELECT 1 FROM topic_messages WHERE topic_id = :topic AND author = :author)";
const LAST_BODY: &str = "
    SELECT body FROM topic_messages WHERE topic_id = :topic AND author = :author
    ORDER BY sequence DESC LIMIT 1";
const SUGGESTING: &str = "
    SELECT message.topic_id, message.body FROM topics
    JOIN topic_messages AS message ON message.topic_id = topics.id
    WHERE topics.source_path = :source AND topics.status = 'open'
          AND INSTR(message.body, 'suggestion') > 0
          AND NOT EXISTS (
              SELECT 1 FROM incorporation_proposals AS proposal
              WHERE proposal.topic_id = topics.id AND proposal.created_ms >= message.created_ms)";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("message::last", LAST),
    ("message::bytes", BYTES),
    ("message::insert", INSERT),
    ("message::list", LIST),
    ("message::has_author", HAS_AUTHOR),
    ("message::last_body", LAST_BODY),
    ("message::count_of_author", COUNT_OF_AUTHOR),
    ("message::suggesting", SUGGESTING),
];

/// Returns whether an actor has written in a Topic.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn has_author(connection: &Connection, topic: &TopicId, author: &Actor) -> Result<bool> {
    let params = named_params! {":topic": topic, ":author": author};
    Ok(connection.prepare_cached(HAS_AUTHOR)?.query_row(params, |row| row.get(0))?)
}

/// Returns the last text that an actor wrote in a Topic.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn last_body(
    connection: &Connection,
    topic: &TopicId,
    author: &Actor,
) -> Result<Option<String>> {
    let params = named_params! {":topic": topic, ":author": author};
    let mut statement = connection.prepare_cached(LAST_BODY)?;
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}

/// Returns the open Topics of a Source with a suggestion that is not followed by a proposal.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn suggesting(connection: &Connection, path: &SourcePath) -> Result<BTreeSet<TopicId>> {
    let mut statement = connection.prepare_cached(SUGGESTING)?;
    let mut found = BTreeSet::new();
    let mut rows = statement.query(named_params! {":source": path})?;
    while let Some(row) = rows.next()? {
        let body: String = row.get(1)?;
        if matches!(suggestion::last(&body), Some(Suggestion::Text(_))) {
            found.insert(row.get(0)?);
        }
    }
    Ok(found)
}

/// Adds a message to an open Topic. Its position is assigned in this transaction.
///
/// # Errors
/// `not_found`; `topic_closed`; `too_many_messages`, `topic_full`; `invalid` or `too_large` for the
/// text; `invalid` for a proposal of another Topic.
pub fn post(
    tx: &Tx<'_>,
    ids: &Ids,
    topic: &TopicId,
    author: &Actor,
    body: &str,
    proposal: Option<&ProposalId>,
) -> Result<Message> {
    check_text("message", body, MESSAGE_BYTES_MAX)?;
    let status = topic::status_of(tx.connection(), topic)?;
    if status != TopicStatus::Open {
        return Err(Error::conflict("topic_closed", format!("topic {topic} is {status}"))
            .hint("reopen the topic first"));
    }
    if let Actor::Job(job) = author {
        refuse_flood(tx, topic, author, job)?;
    }
    if let Some(proposal) = proposal
        && crate::documents::proposals::proposal::find(tx.connection(), proposal)?.topic_id
            != *topic
    {
        let message = format!("proposal {proposal} belongs to another topic than {topic}");
        return Err(Error::invalid(message));
    }
    let message = insert(tx, ids, topic, author, body, proposal)?;
    search::put_message(tx, &message)?;
    tx.emit(Event::new(
        EventKind::MessagePosted,
        format!("topic:{topic}"),
        author.clone(),
        json!({"topic_id": topic, "message_id": message.id, "sequence": message.sequence}),
    ))?;
    Ok(message)
}

/// Limits the messages of a job, which could otherwise use up the room for people and later jobs.
fn refuse_flood(tx: &Tx<'_>, topic: &TopicId, author: &Actor, job: &JobId) -> Result<()> {
    let params = named_params! {":topic": topic, ":author": author};
    let written: i64 = tx.prepare_cached(COUNT_OF_AUTHOR)?.query_row(params, |row| row.get(0))?;
    if written < JOB_MESSAGES_MAX || fault::is_off("job_messages") {
        return Ok(());
    }
    let message = format!("job {job} has written {JOB_MESSAGES_MAX} messages in this topic");
    Err(Error::conflict("too_many_messages", message).hint("stop: put the rest in the proposal"))
}

/// Adds a message without emitting an event, for the first message of a Topic.
pub(in crate::documents) fn insert(
    tx: &Tx<'_>,
    ids: &Ids,
    topic: &TopicId,
    author: &Actor,
    body: &str,
    proposal: Option<&ProposalId>,
) -> Result<Message> {
    let last: i64 =
        tx.prepare_cached(LAST)?.query_row(named_params! {":topic": topic}, |row| row.get(0))?;
    if last >= TOPIC_MESSAGES_MAX {
        let message = format!("topic {topic} has {TOPIC_MESSAGES_MAX} messages");
        return Err(
            Error::conflict("too_many_messages", message).hint("close the topic and open another")
        );
    }
    refuse_full(tx, topic, last, body)?;
    let message = Message {
        id: ids.mint(),
        topic_id: topic.clone(),
        sequence: last + 1,
        author: author.clone(),
        author_name: None,
        body: body.to_owned(),
        proposal_id: proposal.cloned(),
        created_at: tx.now(),
    };
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": message.id, ":topic": topic, ":sequence": message.sequence, ":author": author,
        ":body": body, ":proposal": proposal, ":now": tx.now(),
    })?;
    Ok(message)
}

/// Limits the total size of a Topic's messages, since a Topic is read as a whole.
fn refuse_full(tx: &Tx<'_>, topic: &TopicId, count: i64, body: &str) -> Result<()> {
    let longest = i64::try_from(MESSAGE_BYTES_MAX).unwrap_or(i64::MAX);
    if (count + 1).saturating_mul(longest) <= TOPIC_BYTES_MAX || fault::is_off("topic_bytes") {
        // This few cannot exceed the limit: no need to count bytes.
        return Ok(());
    }
    let bytes: i64 =
        tx.prepare_cached(BYTES)?.query_row(named_params! {":topic": topic}, |row| row.get(0))?;
    if bytes.saturating_add(i64::try_from(body.len()).unwrap_or(i64::MAX)) <= TOPIC_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the messages of topic {topic} have {TOPIC_BYTES_MAX} bytes together");
    Err(Error::conflict("topic_full", message).hint("close the topic and open another"))
}

/// Returns the messages of a Topic in order; empty for a Topic that does not exist.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list_of(connection: &Connection, topic: &TopicId) -> Result<Vec<Message>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map(named_params! {":topic": topic}, from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        id: row.get("id")?,
        topic_id: row.get("topic_id")?,
        sequence: row.get("sequence")?,
        author: row.get("author")?,
        author_name: None,
        body: row.get("body")?,
        proposal_id: row.get("proposal_id")?,
        created_at: row.get("created_ms")?,
    })
}

/// Returns a message with normalized line endings: a file from another system may be piped in.
#[must_use]
pub fn plain_lines(body: &str) -> String {
    body.replace("\r\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ErrorKind;
    use crate::documents::fixture::Fixture;
    use crate::documents::topics::topic::{NewTopic, OPEN_TOPICS_MAX, create, set_status};

    #[test]
    fn messages_are_numbered_per_topic() {
        let mut fixture = Fixture::new();
        let (one, two) = (fixture.topic("a.md", "").id, fixture.topic("a.md", "").id);
        for (topic, expected) in [(&one, 2), (&two, 2), (&one, 3)] {
            let posted = fixture
                .write(|tx, ids| post(tx, ids, topic, &Actor::System, "hello", None))
                .unwrap();
            assert_eq!(posted.sequence, expected);
        }
        let all = list_of(&fixture.connection, &one).unwrap();
        assert_eq!(all.iter().map(|it| it.sequence).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(fixture.kinds(2), ["message_posted"; 3]);
        let shown = serde_json::to_value(&all[1]).unwrap();
        let names: Vec<&String> = shown.as_object().unwrap().keys().collect();
        assert_eq!(
            names,
            [
                "id",
                "topic_id",
                "sequence",
                "author",
                "author_name",
                "body",
                "proposal_id",
                "created_at",
            ]
        );
    }

    #[test]
    fn a_source_has_so_many_open_topics_and_a_closed_one_makes_room() {
        let mut fixture = Fixture::new();
        let new = |path: &str| NewTopic {
            source_path: path.parse().unwrap(),
            is_global: true,
            title: None,
            body: "x".to_owned(),
            author: Actor::System,
            anchor: None,
        };
        let first = fixture.topic("a.md", "").id;
        let filled = fixture.write(|tx, ids| {
            (1..OPEN_TOPICS_MAX).try_for_each(|_| create(tx, ids, new("a.md")).map(|_| ()))
        });
        filled.unwrap();
        let refused = fixture.write(|tx, ids| create(tx, ids, new("a.md"))).unwrap_err();
        assert_eq!((refused.code_str(), refused.hint_str().is_some()), ("too_many_topics", true));
        fixture.write(|tx, ids| create(tx, ids, new("b.md"))).unwrap();
        let (open, discarded) = (TopicStatus::Open, TopicStatus::Discarded);
        let closed = |tx: &Tx<'_>, _: &_| set_status(tx, &first, open, discarded, &Actor::System);
        fixture.write(closed).unwrap();
        fixture.write(|tx, ids| create(tx, ids, new("a.md"))).unwrap();
    }

    /// Fails with `WB_WITHOUT=topic_bytes`.
    #[test]
    fn a_topic_is_full_when_its_messages_together_are() {
        let mut fixture = Fixture::new();
        let topic = fixture.topic("a.md", "").id;
        let first = list_of(&fixture.connection, &topic).unwrap()[0].body.len();
        let whole = TOPIC_BYTES_MAX / i64::try_from(MESSAGE_BYTES_MAX).unwrap();
        let body = "x".repeat(MESSAGE_BYTES_MAX);
        let mut say = |body: &str| {
            let posted = fixture.write(|tx, ids| post(tx, ids, &topic, &Actor::System, body, None));
            posted.err().map(|it| (it.code_str().to_owned(), it.message().to_owned()))
        };
        for _ in 1..whole {
            assert_eq!(say(&body), None);
        }
        let rest = "x".repeat(MESSAGE_BYTES_MAX - first);
        let (code, message) = say(&format!("{rest}x")).unwrap();
        assert_eq!(code, "topic_full");
        assert!(message.contains(&TOPIC_BYTES_MAX.to_string()), "{message}");
        assert_eq!(say(&rest), None, "the last byte has room");
        assert_eq!(say("x").unwrap().0, "topic_full");
    }

    #[test]
    fn what_cannot_be_posted_is_refused() {
        let mut fixture = Fixture::new();
        let topic = fixture.topic("a.md", "").id;
        let unknown: TopicId = fixture.ids.mint();
        let mut refuse = |topic: &TopicId, body: &str| {
            fixture.write(|tx, ids| post(tx, ids, topic, &Actor::System, body, None)).unwrap_err()
        };
        assert_eq!(refuse(&topic, " ").kind(), ErrorKind::Invalid);
        assert_eq!(refuse(&topic, "\u{7}").kind(), ErrorKind::Invalid);
        let long = "x".repeat(MESSAGE_BYTES_MAX + 1);
        assert_eq!(refuse(&topic, &long).kind(), ErrorKind::TooLarge);
        assert_eq!(refuse(&unknown, "x").kind(), ErrorKind::NotFound);
        let close = |tx: &Tx<'_>, _: &Ids| {
            set_status(tx, &topic, TopicStatus::Open, TopicStatus::Discarded, &Actor::System)
        };
        fixture.write(close).unwrap();
        let refused = fixture.write(|tx, ids| post(tx, ids, &topic, &Actor::System, "late", None));
        assert_eq!(refused.unwrap_err().code_str(), "topic_closed");
        assert_eq!(list_of(&fixture.connection, &topic).unwrap().len(), 1);
    }
}
