//! Approvals as rows: finding and listing them, and their history.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::{Value, json};

use crate::api::approvals::State;
use crate::api::approvals::{Approval, Past, Texts};
use crate::base::{
    Actor, Address, ApprovalId, Error, Event, EventKind, JobId, Page, PersonId, Result, Scope,
};
use crate::store::Tx;

/// The columns of [`Approval::from_row`].
macro_rules! facts {
    ($rest:literal) => {
        concat!(
            "SELECT id, channel, sort, private_to, title, requester, from_class, from_name, job_id,
                root_id, state, version, note, decided_by, decided_ms, expires_ms, used_ms,
                left_ms, created_ms FROM approvals ",
            $rest
        )
    };
}
pub(super) use facts;

const FIND: &str = facts!("WHERE id = :id");
const LIST: &str = facts!(
    "WHERE id < :after AND (private_to IS NULL OR private_to = :person)
        AND (:channel IS NULL OR channel = :channel)
    ORDER BY id DESC LIMIT :limit"
);
const LIST_BY_STATE: &str = facts!(
    "WHERE state = :state AND id < :after AND (private_to IS NULL OR private_to = :person)
        AND (:channel IS NULL OR channel = :channel)
    ORDER BY id DESC LIMIT :limit"
);
const LIST_BY_ROOT: &str = facts!(
    "WHERE root_id = :root AND id < :after AND private_to IS NULL
        AND (:state IS NULL OR state = :state) AND (:channel IS NULL OR channel = :channel)
    ORDER BY id DESC LIMIT :limit"
);
const OLDEST_PENDING: &str = facts!(
    "WHERE state = 'pending' AND (private_to IS NULL OR private_to = :person)
    ORDER BY id LIMIT :limit"
);
const PENDING_OF_ROOT: &str =
    "SELECT id FROM approvals WHERE root_id = :root AND state = 'pending' ORDER BY id";
const AWAITED: &str = "
    SELECT EXISTS (SELECT 1 FROM approvals
        WHERE root_id = :root AND state = 'pending' AND sort = 'permission' AND left_ms IS NULL)";
const PENDING_OF_PERSON: &str = "
    SELECT id FROM approvals WHERE state = 'pending' AND private_to = :person ORDER BY id";
const PENDING_COUNT: &str = "
    SELECT COUNT(*) FROM approvals
    WHERE state = 'pending' AND (private_to IS NULL OR private_to = :person)";
const TEXTS: &str = "SELECT payload_json, schema_json, changed_json FROM approvals WHERE id = :id";
const NOTE_EVENT: &str = "
    INSERT INTO approval_events (approval_id, version, event, actor, at_ms, data_json)
    VALUES (:id, :version, :event, :actor, :now, :data)";
const HISTORY: &str = "
    SELECT version, event, actor, at_ms, data_json FROM approval_events
    WHERE approval_id = :id ORDER BY version";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("approval::find", FIND),
    ("approval::list", LIST),
    ("approval::list_by_state", LIST_BY_STATE),
    ("approval::list_by_root", LIST_BY_ROOT),
    ("approval::oldest_pending", OLDEST_PENDING),
    ("approval::pending_of_root", PENDING_OF_ROOT),
    ("approval::awaited", AWAITED),
    ("approval::pending_of_person", PENDING_OF_PERSON),
    ("approval::pending_count", PENDING_COUNT),
    ("approval::texts", TEXTS),
    ("approval::note_event", NOTE_EVENT),
    ("approval::history", HISTORY),
];

/// Greater than every id.
const PAST_EVERY_ID: &str = "~";

/// Who is asking to see approvals.
#[derive(Clone, Debug)]
pub enum Viewer {
    /// The program itself: sees everything.
    Program,
    /// A person: sees everything that is not private to somebody else.
    Person(PersonId),
    /// The jobs of one root: see what one of them requested.
    Root(JobId),
}

/// Which approvals to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only in this state.
    pub state: Option<State>,
    /// Only in this channel.
    pub channel: Option<String>,
    /// Only those before this one.
    pub after: Option<ApprovalId>,
    /// At most this many.
    pub limit: u32,
}

impl Approval {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Approval> {
        let (class, name): (Option<String>, Option<String>) =
            (row.get("from_class")?, row.get("from_name")?);
        let from = match (class, name) {
            (Some(class), Some(name)) => {
                Some(Address::from_row(&class, &name).map_err(|cause| {
                    let kind = rusqlite::types::Type::Text;
                    rusqlite::Error::FromSqlConversionFailure(0, kind, Box::new(cause))
                })?)
            }
            _ => None,
        };
        Ok(Approval {
            id: row.get("id")?,
            channel: row.get("channel")?,
            sort: row.get("sort")?,
            title: row.get("title")?,
            state: row.get("state")?,
            version: row.get("version")?,
            requester: row.get("requester")?,
            requester_name: None,
            from,
            job_id: row.get("job_id")?,
            root_id: row.get("root_id")?,
            note: row.get("note")?,
            decided_by: row.get("decided_by")?,
            decided_by_name: None,
            waiting: None,
            decided_at: row.get("decided_ms")?,
            expires_at: row.get("expires_ms")?,
            used_at: row.get("used_ms")?,
            left_at: row.get("left_ms")?,
            created_at: row.get("created_ms")?,
            private_to: row.get("private_to")?,
        })
    }

    fn is_seen_by(&self, viewer: &Viewer) -> bool {
        match viewer {
            Viewer::Program => true,
            Viewer::Person(id) => self.private_to.as_ref().is_none_or(|it| it == id),
            Viewer::Root(id) => self.private_to.is_none() && self.root_id.as_ref() == Some(id),
        }
    }

    /// Records a change in the history and emits its event.
    pub(super) fn record(&self, tx: &Tx<'_>, by: &Actor, data: &Value) -> Result<()> {
        let is_new = self.version == 1;
        let event = if is_new { "created" } else { self.state.as_str() };
        tx.prepare_cached(NOTE_EVENT)?.execute(named_params! {
            ":id": self.id, ":version": self.version, ":event": event, ":actor": by,
            ":now": tx.now(), ":data": data.to_string(),
        })?;
        let mut ids = json!({
            "id": self.id, "channel": self.channel, "sort": self.sort, "job_id": self.job_id,
        });
        let kind = match is_new {
            true => EventKind::ApprovalCreated,
            false => {
                ids["state"] = json!(self.state);
                EventKind::ApprovalDecided
            }
        };
        let mut event =
            Event::new(kind, format!("approval:{}", self.id), by.clone(), ids).audited();
        if let Some(person) = &self.private_to {
            event.scope = Scope::Person(person.clone());
        }
        tx.emit(event)
    }
}

/// Returns an approval that the viewer may see.
///
/// # Errors
/// `not_found`, also if it is private to another person or was requested by another job.
pub fn find(connection: &Connection, id: &ApprovalId, viewer: &Viewer) -> Result<Approval> {
    let mut statement = connection.prepare_cached(FIND)?;
    let found = statement.query_row(named_params! {":id": id}, Approval::from_row).optional()?;
    found.filter(|it| it.is_seen_by(viewer)).ok_or_else(|| {
        Error::not_found(format!("no approval {id}"))
            .hint("`wiki-browser approval list` names those that exist")
    })
}

/// Returns the payload of an approval.
///
/// # Errors
/// `internal` if it is missing or not JSON.
pub fn texts(connection: &Connection, id: &ApprovalId) -> Result<Texts> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let mut statement = connection.prepare_cached(TEXTS)?;
    let (payload, schema, changes): (String, Option<String>, Option<String>) =
        statement.query_row(named_params! {":id": id}, read)?;
    let parsed = |text: String| {
        serde_json::from_str(&text)
            .map_err(|cause| Error::internal("a text of an approval is not JSON").source(cause))
    };
    Ok(Texts {
        payload: parsed(payload)?,
        schema: schema.map(parsed).transpose()?,
        changes: changes.map(parsed).transpose()?,
    })
}

/// Returns the changes of an approval, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn history(connection: &Connection, id: &ApprovalId) -> Result<Vec<Past>> {
    let mut statement = connection.prepare_cached(HISTORY)?;
    let rows = statement.query_map(named_params! {":id": id}, |row| {
        let data: String = row.get("data_json")?;
        Ok(Past {
            version: row.get("version")?,
            event: row.get("event")?,
            actor: row.get("actor")?,
            actor_name: None,
            at: row.get("at_ms")?,
            data: serde_json::from_str(&data).unwrap_or_default(),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the approvals that a viewer may see, newest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list(connection: &Connection, viewer: &Viewer, filter: &Filter) -> Result<Page<Approval>> {
    let after = filter.after.as_ref().map_or(PAST_EVERY_ID, ApprovalId::as_str);
    let (channel, limit) = (&filter.channel, Page::<Approval>::rows_to_read(filter.limit));
    let rows: Vec<Approval> = match (viewer, filter.state) {
        (Viewer::Root(root), state) => {
            let mut statement = connection.prepare_cached(LIST_BY_ROOT)?;
            let params = named_params! {
                ":root": root, ":state": state, ":after": after, ":channel": channel,
                ":limit": limit,
            };
            statement.query_map(params, Approval::from_row)?.collect::<rusqlite::Result<_>>()?
        }
        (viewer, Some(state)) => {
            let mut statement = connection.prepare_cached(LIST_BY_STATE)?;
            let params = named_params! {
                ":person": viewer.person(), ":state": state, ":after": after,
                ":channel": channel, ":limit": limit,
            };
            statement.query_map(params, Approval::from_row)?.collect::<rusqlite::Result<_>>()?
        }
        (viewer, None) => {
            let mut statement = connection.prepare_cached(LIST)?;
            let params = named_params! {
                ":person": viewer.person(), ":after": after, ":channel": channel,
                ":limit": limit,
            };
            statement.query_map(params, Approval::from_row)?.collect::<rusqlite::Result<_>>()?
        }
    };
    Ok(Page::of(rows, filter.limit, |it| it.id.to_string()))
}

impl Viewer {
    fn person(&self) -> Option<&PersonId> {
        match self {
            Viewer::Person(id) => Some(id),
            _ => None,
        }
    }
}

/// Returns the approvals awaiting a person's decision, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn oldest_pending(c: &Connection, person: &PersonId, limit: u32) -> Result<Vec<Approval>> {
    let mut statement = c.prepare_cached(OLDEST_PENDING)?;
    let params = named_params! {":person": person, ":limit": limit};
    let rows = statement.query_map(params, Approval::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns how many approvals await a person's decision.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn pending_count(c: &Connection, person: &PersonId) -> Result<i64> {
    let params = named_params! {":person": person};
    Ok(c.prepare_cached(PENDING_COUNT)?.query_row(params, |row| row.get(0))?)
}

/// Returns the pending approvals requested by the jobs of a root.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn pending_of_root(connection: &Connection, root: &JobId) -> Result<Vec<ApprovalId>> {
    let mut statement = connection.prepare_cached(PENDING_OF_ROOT)?;
    let ids = statement.query_map(named_params! {":root": root}, |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Returns whether the agent of a job is waiting for a permission right now.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_awaited(connection: &Connection, root: &JobId) -> Result<bool> {
    let mut statement = connection.prepare_cached(AWAITED)?;
    Ok(statement.query_row(named_params! {":root": root}, |row| row.get(0))?)
}

/// Returns the pending approvals that only one person can decide.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn pending_of_person(connection: &Connection, person: &PersonId) -> Result<Vec<ApprovalId>> {
    let mut statement = connection.prepare_cached(PENDING_OF_PERSON)?;
    let ids = statement.query_map(named_params! {":person": person}, |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}
