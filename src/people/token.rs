//! The table `tokens`: personal tokens, with which a program acts as a person.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::api::people::{Person, Token, TokenScope};
use crate::base::{Error, Ids, Millis, PersonId, Result, TokenId, digest_hex, random_token};
use crate::people::person;
use crate::store::Tx;

/// The name of the token in `data/operator.token`.
pub const OPERATOR_TOKEN_NAME: &str = "operator";
/// Longest name of a token, in bytes.
const NAME_BYTES_MAX: usize = crate::base::limit::NAME_BYTES_MAX;
/// Most unrevoked tokens per person.
const TOKENS_MAX: usize = crate::base::limit::TOKENS_MAX;
/// Longest secret that is examined, in bytes.
const SECRET_BYTES_MAX: usize = crate::base::limit::CREDENTIAL_BYTES_MAX;
/// Precision of `last_used_ms`.
const TOUCH_EVERY_MS: i64 = 60 * 60 * 1000;

impl TokenScope {
    /// The scopes of browser sessions and of the operator's token.
    pub const ALL: [TokenScope; 3] = [TokenScope::Read, TokenScope::Write, TokenScope::Decide];

    /// Returns the word of this scope.
    pub fn as_str(self) -> &'static str {
        match self {
            TokenScope::Read => "read",
            TokenScope::Write => "write",
            TokenScope::Decide => "decide",
            TokenScope::Metrics => "metrics",
            TokenScope::Channel => "channel",
        }
    }

    /// Returns whether this scope includes reading the site.
    pub fn includes_reading(self) -> bool {
        !matches!(self, TokenScope::Metrics | TokenScope::Channel)
    }
}

/// The owner of a secret.
#[derive(Clone, Debug)]
pub struct TokenOwner {
    /// The token's row.
    pub token_id: TokenId,
    /// The token's name.
    pub name: String,
    /// The person.
    pub person: Person,
    /// Its scopes.
    pub scopes: Vec<TokenScope>,
    /// Whether it is the token in `data/operator.token`.
    pub is_operator: bool,
    /// Whether [`touch_token`] is due.
    pub is_touch_due: bool,
}

const INSERT: &str = "
    INSERT INTO tokens (id, person_id, name, hash, scopes_json, created_ms, expires_ms)
    VALUES (:id, :person, :name, :hash, :scopes, :now, :expires)";
const FIND_BY_HASH: &str = "
    SELECT tokens.id AS token_id, tokens.name AS token_name, tokens.scopes_json,
           tokens.last_used_ms, persons.id, persons.name, persons.display_name, persons.email,
           persons.role, persons.is_external, persons.created_ms, persons.disabled_ms
    FROM tokens JOIN persons ON persons.id = tokens.person_id
    WHERE tokens.hash = :hash AND tokens.revoked_ms IS NULL
      AND (tokens.expires_ms IS NULL OR tokens.expires_ms > :now)
      AND persons.disabled_ms IS NULL
      AND NOT EXISTS (SELECT 1 FROM persons AS makers
                      WHERE makers.id = tokens.made_by AND makers.disabled_ms IS NOT NULL)";
const LIST: &str = "
    SELECT id, person_id, name, scopes_json, created_ms, last_used_ms, expires_ms, revoked_ms
    FROM tokens WHERE person_id = :person ORDER BY id";
const SET_MAKER: &str = "UPDATE tokens SET made_by = :maker WHERE id = :id";
const REVOKE: &str = "
    UPDATE tokens SET revoked_ms = :now
    WHERE id = :id AND person_id = :person AND revoked_ms IS NULL";
const REVOKE_FORMER: &str = "
    UPDATE tokens SET revoked_ms = :now
    WHERE name = :name AND hash <> :hash AND revoked_ms IS NULL";
const NAME_OF_HASH: &str = "SELECT name FROM tokens WHERE hash = :hash";
const GIVE: &str = "
    UPDATE tokens SET person_id = :person, revoked_ms = NULL WHERE hash = :hash";
const REVOKED: &str = "SELECT id FROM tokens WHERE revoked_ms IS NOT NULL";
const REVOKE_BY_ID: &str = "
    UPDATE tokens SET revoked_ms = :now WHERE id = :id AND revoked_ms IS NULL";
const REVOKE_ALL: &str = "
    UPDATE tokens SET revoked_ms = :now WHERE name <> :operator AND revoked_ms IS NULL";
const TOUCH: &str = "UPDATE tokens SET last_used_ms = :now WHERE id = :id";

/// The statements of this file, for the schema test.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("token::insert", INSERT),
    ("token::find_by_hash", FIND_BY_HASH),
    ("token::list", LIST),
    ("token::set_maker", SET_MAKER),
    ("token::revoke", REVOKE),
    ("token::revoke_former", REVOKE_FORMER),
    ("token::name_of_hash", NAME_OF_HASH),
    ("token::give", GIVE),
    ("token::revoked", REVOKED),
    ("token::revoke_by_id", REVOKE_BY_ID),
    ("token::revoke_all", REVOKE_ALL),
    ("token::touch", TOUCH),
];

/// Creates a token; the secret is only returned here.
///
/// # Errors
/// `invalid` for a bad name or no scope; `conflict` with code `too_many_tokens` or `name_taken`.
pub fn create_token(
    tx: &Tx<'_>,
    ids: &Ids,
    person: &PersonId,
    name: &str,
    scopes: &[TokenScope],
    expires: Option<Millis>,
) -> Result<(TokenId, String)> {
    let is_line = !name.trim().is_empty() && !name.chars().any(char::is_control);
    if !is_line || name.len() > NAME_BYTES_MAX || name == OPERATOR_TOKEN_NAME {
        return Err(Error::invalid("a token name must be one line of 1 to 100 bytes")
            .code("bad_name")
            .hint(format!("`{OPERATOR_TOKEN_NAME}` is reserved for the operator's token")));
    }
    if scopes.is_empty() {
        return Err(
            Error::invalid("a token needs a scope").hint("read, write, decide, metrics or channel")
        );
    }
    let mut alive = list_tokens(tx.connection(), person)?;
    alive.retain(|it| it.revoked_at.is_none() && it.expires_at.is_none_or(|at| at > tx.now()));
    if let Some(same) = alive.iter().find(|it| it.name == name) {
        let message = format!("this person has a token `{name}` already: {}", same.id);
        return Err(Error::conflict("name_taken", message)
            .hint("choose another name, or revoke that one first: wiki-browser token revoke"));
    }
    if alive.len() >= TOKENS_MAX {
        let message = format!("there are {TOKENS_MAX} tokens of this person already");
        return Err(Error::conflict("too_many_tokens", message).hint("revoke one first"));
    }
    let secret = random_token("wb_")?;
    let id = insert(tx, ids, (person, name), &secret, scopes, expires)?;
    Ok((id, secret))
}

/// Makes the secret in `data/operator.token` the only operator token, and assigns it to this
/// person: its previous owner may no longer be an admin.
///
/// # Errors
/// `conflict` with code `token_taken` if another token has this secret.
pub fn ensure_operator_token(
    tx: &Tx<'_>,
    ids: &Ids,
    person: &PersonId,
    secret: &str,
) -> Result<()> {
    let hash = digest_hex(secret);
    tx.prepare_cached(REVOKE_FORMER)?.execute(named_params! {
        ":name": OPERATOR_TOKEN_NAME, ":hash": hash, ":now": tx.now(),
    })?;
    let name: Option<String> = tx
        .prepare_cached(NAME_OF_HASH)?
        .query_row(named_params! {":hash": hash}, |row| row.get(0))
        .optional()?;
    match name.as_deref() {
        Some(OPERATOR_TOKEN_NAME) => {
            tx.prepare_cached(GIVE)?.execute(named_params! {":hash": hash, ":person": person})?;
            Ok(())
        }
        Some(_) => Err(Error::conflict("token_taken", "the operator's token is another's token")
            .hint("remove data/operator.token and restart the server")),
        None => {
            let owner = (person, OPERATOR_TOKEN_NAME);
            insert(tx, ids, owner, secret, &TokenScope::ALL, None).map(|_| ())
        }
    }
}

/// Returns the owner of a secret; `None` if the token is revoked or expired, or the person
/// disabled.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find_by_secret(
    connection: &Connection,
    secret: &str,
    now: Millis,
) -> Result<Option<TokenOwner>> {
    if secret.len() > SECRET_BYTES_MAX {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(FIND_BY_HASH)?;
    let hash = digest_hex(secret);
    let found = statement.query_row(named_params! {":hash": hash, ":now": now}, |row| {
        let name: String = row.get("token_name")?;
        let last_used: Option<Millis> = row.get("last_used_ms")?;
        Ok(TokenOwner {
            token_id: row.get("token_id")?,
            is_operator: name == OPERATOR_TOKEN_NAME,
            name,
            person: person::from_row(row)?,
            scopes: scopes_of(row)?,
            is_touch_due: last_used.is_none_or(|at| at.plus(TOUCH_EVERY_MS) <= now),
        })
    });
    Ok(found.optional()?)
}

/// Returns whether a secret is that of the operator's token, even if it is not active.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_operator_secret(connection: &Connection, secret: &str) -> Result<bool> {
    if secret.len() > SECRET_BYTES_MAX {
        return Ok(false);
    }
    let mut statement = connection.prepare_cached(NAME_OF_HASH)?;
    let hash = digest_hex(secret);
    let name = statement.query_row(named_params! {":hash": hash}, |row| row.get(0)).optional()?;
    Ok(name.is_some_and(|it: String| it == OPERATOR_TOKEN_NAME))
}

/// Has a token end with the account of whoever made it.
///
/// # Errors
/// As any write.
pub fn set_token_maker(tx: &Tx<'_>, id: &TokenId, maker: &PersonId) -> Result<()> {
    tx.prepare_cached(SET_MAKER)?.execute(named_params! {":id": id, ":maker": maker})?;
    Ok(())
}

/// Records that a token was used.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn touch_token(tx: &Tx<'_>, id: &TokenId) -> Result<()> {
    tx.prepare_cached(TOUCH)?.execute(named_params! {":id": id, ":now": tx.now()})?;
    Ok(())
}

/// Returns the tokens of a person, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list_tokens(connection: &Connection, person: &PersonId) -> Result<Vec<Token>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map(named_params! {":person": person}, |row| {
        Ok(Token {
            id: row.get("id")?,
            person_id: row.get("person_id")?,
            name: row.get("name")?,
            scopes: scopes_of(row)?,
            created_at: row.get("created_ms")?,
            last_used_at: row.get("last_used_ms")?,
            expires_at: row.get("expires_ms")?,
            revoked_at: row.get("revoked_ms")?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Revokes a person's token.
///
/// # Errors
/// `not_found` if this person has no such active token.
pub fn revoke_token(tx: &Tx<'_>, person: &PersonId, id: &TokenId) -> Result<()> {
    let changed = tx.prepare_cached(REVOKE)?.execute(named_params! {
        ":id": id, ":person": person, ":now": tx.now(),
    })?;
    match changed {
        1 => Ok(()),
        _ => Err(Error::not_found(format!("no token {id}"))),
    }
}

/// Returns the revoked tokens.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn revoked_tokens(connection: &Connection) -> Result<Vec<TokenId>> {
    let mut statement = connection.prepare_cached(REVOKED)?;
    let ids = statement.query_map([], |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Revokes tokens of any person; returns how many were active.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn revoke_tokens(tx: &Tx<'_>, ids: &[TokenId]) -> Result<usize> {
    let mut ended = 0;
    for id in ids {
        let params = named_params! {":id": id, ":now": tx.now()};
        ended += tx.prepare_cached(REVOKE_BY_ID)?.execute(params)?;
    }
    Ok(ended)
}

/// Revokes all tokens except the operator's, which is in its file; returns how many were active.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn revoke_all_tokens(tx: &Tx<'_>) -> Result<usize> {
    let params = named_params! {":now": tx.now(), ":operator": OPERATOR_TOKEN_NAME};
    Ok(tx.prepare_cached(REVOKE_ALL)?.execute(params)?)
}

fn insert(
    tx: &Tx<'_>,
    ids: &Ids,
    (person, name): (&PersonId, &str),
    secret: &str,
    scopes: &[TokenScope],
    expires: Option<Millis>,
) -> Result<TokenId> {
    let id: TokenId = ids.mint();
    let scopes = serde_json::to_string(scopes)
        .map_err(|cause| Error::internal("scopes are not JSON").source(cause))?;
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":person": person, ":name": name, ":hash": digest_hex(secret),
        ":scopes": scopes, ":now": tx.now(), ":expires": expires,
    })?;
    Ok(id)
}

/// Parses the scopes; unknown ones grant nothing.
fn scopes_of(row: &Row<'_>) -> rusqlite::Result<Vec<TokenScope>> {
    let text: String = row.get("scopes_json")?;
    let words: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    Ok(words.into_iter().filter_map(|word| serde_json::from_value(word).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Clock;
    use crate::people::for_test::START;
    use crate::people::{NewPerson, Role, create_person, disable, ensure_operator};
    use crate::store::in_memory;

    #[test]
    fn a_secret_leads_to_its_person_until_it_is_revoked() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let tx = Tx::for_test(&transaction, START);
        let ids = Ids::new(Clock::fixed(START));
        let ada = ensure_operator(&tx, &ids, "ada").unwrap();
        let scopes = [TokenScope::Write];
        let (id, secret) = create_token(&tx, &ids, &ada.id, "laptop", &scopes, None).unwrap();
        assert!(secret.starts_with("wb_"));
        let owner = find_by_secret(tx.connection(), &secret, START).unwrap().unwrap();
        assert_eq!((owner.person.id, owner.is_operator), (ada.id.clone(), false));
        assert_eq!(owner.scopes, scopes);
        let dump: String = transaction
            .query_row("SELECT group_concat(hash || name || scopes_json) FROM tokens", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert!(!dump.contains(&secret), "the secret is not kept");
        revoke_token(&tx, &ada.id, &id).unwrap();
        assert!(revoke_token(&tx, &ada.id, &id).is_err());
        assert!(find_by_secret(tx.connection(), &secret, START).unwrap().is_none());
    }

    #[test]
    fn a_person_has_so_many_tokens_and_each_name_once_while_it_is_alive() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let tx = Tx::for_test(&transaction, START);
        let ids = Ids::new(Clock::fixed(START));
        let ada = ensure_operator(&tx, &ids, "ada").unwrap();
        let make = |name: &str, expires| {
            create_token(&tx, &ids, &ada.id, name, &[TokenScope::Read], expires)
        };
        // An expired token no longer counts, and its name is free.
        make("0", Some(START)).unwrap();
        let made: Vec<_> = (0..TOKENS_MAX).map(|n| make(&n.to_string(), None).unwrap()).collect();
        let refused = make("another", None).unwrap_err();
        assert_eq!((refused.code_str(), refused.hint_str().is_some()), ("too_many_tokens", true));
        let (first, _) = &made[0];
        let taken = make("0", None).unwrap_err();
        assert_eq!(taken.code_str(), "name_taken");
        assert!(taken.message().contains(first.as_str()), "{taken}");
        revoke_token(&tx, &ada.id, first).unwrap();
        make("0", None).unwrap();
        assert_eq!(make("another", None).unwrap_err().code_str(), "too_many_tokens");
    }

    #[test]
    fn a_disabled_person_has_no_tokens() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let tx = Tx::for_test(&transaction, START);
        let ids = Ids::new(Clock::fixed(START));
        let ada = ensure_operator(&tx, &ids, "ada").unwrap();
        let (_, secret) = create_token(&tx, &ids, &ada.id, "x", &[TokenScope::Read], None).unwrap();
        ensure_operator_token(&tx, &ids, &ada.id, "wb_operator").unwrap();
        disable(&tx, &ada.id).unwrap();
        assert!(find_by_secret(tx.connection(), "wb_operator", START).unwrap().is_none());
        assert!(is_operator_secret(tx.connection(), "wb_operator").unwrap());
        assert!(!is_operator_secret(tx.connection(), &secret).unwrap());
        assert!(find_by_secret(tx.connection(), &secret, START).unwrap().is_none());
    }

    #[test]
    fn a_new_operators_token_ends_the_old_one() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let tx = Tx::for_test(&transaction, START);
        let ids = Ids::new(Clock::fixed(START));
        let ada = ensure_operator(&tx, &ids, "ada").unwrap();
        for secret in ["wb_one", "wb_one", "wb_two"] {
            ensure_operator_token(&tx, &ids, &ada.id, secret).unwrap();
        }
        assert!(find_by_secret(tx.connection(), "wb_one", START).unwrap().is_none());
        assert!(find_by_secret(tx.connection(), "wb_two", START).unwrap().unwrap().is_operator);
        // It follows the operator, even if its previous owner no longer exists.
        let new = |name: &str| NewPerson {
            name: name.to_owned(),
            display_name: name.to_owned(),
            email: None,
            role: Role::Admin,
        };
        let bo = create_person(&tx, &ids, &new("bo")).unwrap();
        disable(&tx, &ada.id).unwrap();
        ensure_operator_token(&tx, &ids, &bo.id, "wb_two").unwrap();
        let owner = find_by_secret(tx.connection(), "wb_two", START).unwrap().unwrap();
        assert_eq!((owner.person.id, owner.is_operator), (bo.id.clone(), true));
        let made = create_token(&tx, &ids, &bo.id, "ci", &TokenScope::ALL, None).unwrap().1;
        let taken = ensure_operator_token(&tx, &ids, &bo.id, &made);
        assert_eq!(taken.unwrap_err().code_str(), "token_taken");
        let taken = create_token(&tx, &ids, &ada.id, "operator", &TokenScope::ALL, None);
        assert_eq!(taken.unwrap_err().code_str(), "bad_name");
    }
}
