//! The table `logins`: browser sessions, found by the digest of their cookie.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::api::people::Person;
use crate::base::limit::SESSIONS_MAX;
use crate::base::{Millis, PersonId, Result, digest_hex, fault, random_token};
use crate::people::person;
use crate::store::Tx;

/// Maximum lifetime of a session.
pub const LOGIN_TTL_MS: i64 = 90 * 24 * 60 * 60 * 1000;
/// Lifetime of a session without requests.
const LOGIN_IDLE_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// Precision of `last_seen_ms`.
const TOUCH_EVERY_MS: i64 = 60 * 60 * 1000;
/// Longest cookie that is examined, in bytes.
const SECRET_BYTES_MAX: usize = crate::base::limit::CREDENTIAL_BYTES_MAX;

/// An active session.
#[derive(Clone, Debug)]
pub struct Login {
    /// The digest of its cookie.
    pub hash: String,
    /// The person.
    pub person: Person,
    /// Whether [`touch_login`] is due.
    pub is_touch_due: bool,
}

const INSERT: &str = "
    INSERT INTO logins (hash, person_id, created_ms, last_seen_ms, expires_ms)
    VALUES (:hash, :person, :now, :now, :expires)";
const FIND: &str = "
    SELECT logins.last_seen_ms, persons.id, persons.name, persons.display_name, persons.email,
           persons.role, persons.is_external, persons.created_ms, persons.disabled_ms
    FROM logins JOIN persons ON persons.id = logins.person_id
    WHERE logins.hash = :hash AND logins.expires_ms > :now AND logins.last_seen_ms > :idle
      AND persons.disabled_ms IS NULL AND persons.is_external = 0";
const TOUCH: &str = "UPDATE logins SET last_seen_ms = :now WHERE hash = :hash";
const END: &str = "DELETE FROM logins WHERE hash = :hash";
const END_ALL: &str = "DELETE FROM logins WHERE person_id = :person";
const END_BEYOND: &str = "
    DELETE FROM logins WHERE hash IN (
        SELECT hash FROM logins WHERE person_id = :person
        ORDER BY last_seen_ms DESC, created_ms DESC LIMIT -1 OFFSET :kept)";
const PRUNABLE: &str = "SELECT COUNT(*) FROM logins WHERE expires_ms <= :now";
const PRUNE: &str = "DELETE FROM logins WHERE expires_ms <= :now";

/// The statements of this file, for the schema test.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("login::insert", INSERT),
    ("login::find", FIND),
    ("login::touch", TOUCH),
    ("login::end", END),
    ("login::end_all", END_ALL),
    ("login::end_beyond", END_BEYOND),
    ("login::prunable", PRUNABLE),
    ("login::prune", PRUNE),
];

/// Creates a session; returns the secret for the cookie, which is not stored. Above the maximum per
/// person, the least recently used session ends.
///
/// # Errors
/// Fails if the database cannot be written; `unavailable` without randomness.
pub fn create_login(tx: &Tx<'_>, person: &PersonId) -> Result<String> {
    tx.prepare_cached(PRUNE)?.execute(named_params! {":now": tx.now()})?;
    if !fault::is_off("session_limit") {
        let params = named_params! {":person": person, ":kept": SESSIONS_MAX - 1};
        tx.prepare_cached(END_BEYOND)?.execute(params)?;
    }
    let secret = random_token("")?;
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":hash": digest_hex(&secret), ":person": person, ":now": tx.now(),
        ":expires": tx.now().plus(LOGIN_TTL_MS),
    })?;
    Ok(secret)
}

/// Returns the session of a cookie; `None` if it has ended or its person is disabled.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find_login(connection: &Connection, secret: &str, now: Millis) -> Result<Option<Login>> {
    if secret.len() > SECRET_BYTES_MAX {
        return Ok(None);
    }
    let hash = digest_hex(secret);
    let mut statement = connection.prepare_cached(FIND)?;
    let params = named_params! {":hash": hash, ":now": now, ":idle": now.plus(-LOGIN_IDLE_MS)};
    let found = statement.query_row(params, |row| {
        let last_seen: Millis = row.get("last_seen_ms")?;
        let is_touch_due = last_seen.plus(TOUCH_EVERY_MS) <= now;
        Ok(Login { hash: hash.clone(), person: person::from_row(row)?, is_touch_due })
    });
    Ok(found.optional()?)
}

/// Records that a session was used.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn touch_login(tx: &Tx<'_>, hash: &str) -> Result<()> {
    tx.prepare_cached(TOUCH)?.execute(named_params! {":hash": hash, ":now": tx.now()})?;
    Ok(())
}

/// Deletes expired sessions.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn prune_logins(tx: &Tx<'_>) -> Result<()> {
    tx.prepare_cached(PRUNE)?.execute(named_params! {":now": tx.now()})?;
    Ok(())
}

/// Ends a session, if it has not ended yet.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn end_login(tx: &Tx<'_>, hash: &str) -> Result<()> {
    tx.prepare_cached(END)?.execute(named_params! {":hash": hash})?;
    Ok(())
}

/// Returns how many expired sessions still have a row.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn prunable_logins(connection: &Connection, now: Millis) -> Result<u64> {
    let params = named_params! {":now": now};
    let count: i64 = connection.prepare_cached(PRUNABLE)?.query_row(params, |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Ends all sessions of a person.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn end_logins(tx: &Tx<'_>, person: &PersonId) -> Result<()> {
    tx.prepare_cached(END_ALL)?.execute(named_params! {":person": person})?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Clock, Ids};
    use crate::people::ensure_operator;
    use crate::people::for_test::START;
    use crate::store::in_memory;

    #[test]
    fn a_session_ends_when_idle_and_at_its_end() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let tx = Tx::for_test(&transaction, START);
        let ada = ensure_operator(&tx, &Ids::new(Clock::fixed(START)), "ada").unwrap();
        let secret = create_login(&tx, &ada.id).unwrap();
        let at = |ms: i64| find_login(tx.connection(), &secret, START.plus(ms)).unwrap();
        let found = at(1).unwrap();
        assert!(!found.is_touch_due && at(TOUCH_EVERY_MS).unwrap().is_touch_due);
        assert!(at(LOGIN_IDLE_MS - 1).is_some());
        assert!(at(LOGIN_IDLE_MS).is_none(), "idle");
        for day in (0..LOGIN_TTL_MS).step_by(24 * 60 * 60 * 1000) {
            touch_login(&Tx::for_test(&transaction, START.plus(day)), &found.hash).unwrap();
        }
        assert!(at(LOGIN_TTL_MS - 1).is_some());
        assert!(at(LOGIN_TTL_MS).is_none(), "absolute");
        assert!(find_login(tx.connection(), &"x".repeat(10_000), START).unwrap().is_none());
    }

    /// Fails with `WB_WITHOUT=session_limit`.
    #[test]
    fn the_session_that_was_used_longest_ago_makes_room() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let at = |ms: i64| Tx::for_test(&transaction, START.plus(ms));
        let ids = Ids::new(Clock::fixed(START));
        let ada = ensure_operator(&at(0), &ids, "ada").unwrap();
        let all: Vec<String> =
            (0..SESSIONS_MAX).map(|it| create_login(&at(it), &ada.id).unwrap()).collect();
        let tx = at(1_000);
        let is_alive = |secret: &str| find_login(tx.connection(), secret, START).unwrap().is_some();
        assert!(all.iter().all(|it| is_alive(it)), "as many as the limit");
        // The first one was used after all others.
        touch_login(&tx, &digest_hex(&all[0])).unwrap();
        let more = create_login(&tx, &ada.id).unwrap();
        assert!(is_alive(&all[0]) && is_alive(&more) && !is_alive(&all[1]));
        assert_eq!(all.iter().filter(|it| is_alive(it)).count(), all.len() - 1);
    }

    #[test]
    fn a_session_that_was_ended_is_gone() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let tx = Tx::for_test(&transaction, START);
        let ada = ensure_operator(&tx, &Ids::new(Clock::fixed(START)), "ada").unwrap();
        let (one, two) = (create_login(&tx, &ada.id).unwrap(), create_login(&tx, &ada.id).unwrap());
        end_login(&tx, &digest_hex(&one)).unwrap();
        assert!(find_login(tx.connection(), &one, START).unwrap().is_none());
        assert!(find_login(tx.connection(), &two, START).unwrap().is_some());
        end_logins(&tx, &ada.id).unwrap();
        assert!(find_login(tx.connection(), &two, START).unwrap().is_none());
    }
}
