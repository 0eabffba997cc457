//! A transaction as domain functions see it: read, write and emit, but not commit.

use std::cell::RefCell;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, Transaction, named_params};

use crate::base::{Event, Millis, Result};
use crate::store::StoredEvent;

/// A transaction without `commit` and `rollback`.
pub struct Tx<'a> {
    connection: &'a Connection,
    now: Millis,
    effects: RefCell<Effects>,
}

/// What runs after COMMIT.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) events: Vec<Arc<StoredEvent>>,
    pub(super) bells: Vec<&'static str>,
}

pub(super) const INSERT_EVENT: &str = "
    INSERT INTO events (at_ms, kind, subject, actor, scope, audit, data_json)
    VALUES (:at, :kind, :subject, :actor, :scope, :audit, :data)";

impl<'a> Tx<'a> {
    pub(super) fn new(connection: &'a Connection, now: Millis) -> Tx<'a> {
        Tx { connection, now, effects: RefCell::default() }
    }

    /// Returns a transaction on a plain connection, for tests of one table. Its effects are
    /// dropped.
    pub fn for_test(transaction: &'a Transaction<'_>, now: Millis) -> Tx<'a> {
        Tx::new(transaction, now)
    }

    /// Returns the time of this transaction, constant throughout.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Returns the connection for functions that only read.
    pub fn connection(&self) -> &Connection {
        self.connection
    }

    /// Prepares a statement through the cache.
    ///
    /// # Errors
    /// `internal` if it is not valid SQL for this schema.
    pub fn prepare_cached(&self, sql: &'static str) -> Result<CachedStatement<'_>> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// Writes an event in this transaction; it is published after COMMIT.
    ///
    /// # Errors
    /// Fails if the database cannot be written.
    pub fn emit(&self, event: Event) -> Result<()> {
        let scope = event.scope.to_text();
        let data = event.data.to_string();
        self.prepare_cached(INSERT_EVENT)?.execute(named_params! {
            ":at": self.now, ":kind": event.kind.as_str(), ":subject": event.subject,
            ":actor": event.actor, ":scope": scope, ":audit": event.audit, ":data": data,
        })?;
        let stored = StoredEvent {
            id: self.connection.last_insert_rowid(),
            at: self.now,
            kind: event.kind,
            subject: event.subject,
            actor: event.actor.to_string(),
            scope,
            data: event.data,
        };
        self.effects.borrow_mut().events.push(Arc::new(stored));
        Ok(())
    }

    /// Rings a bell after COMMIT.
    pub fn ring(&self, bell: &'static str) {
        self.effects.borrow_mut().bells.push(bell);
    }

    pub(super) fn mark(&self) -> (usize, usize) {
        let effects = self.effects.borrow();
        (effects.events.len(), effects.bells.len())
    }

    pub(super) fn forget_since(&self, mark: (usize, usize)) {
        let mut effects = self.effects.borrow_mut();
        effects.events.truncate(mark.0);
        effects.bells.truncate(mark.1);
    }

    pub(super) fn into_effects(self) -> Effects {
        self.effects.into_inner()
    }
}
