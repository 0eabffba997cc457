//! Tokens of people: listed, created and revoked.

use rusqlite::Connection;
use serde::Deserialize;

use crate::api::people::{TokenMade, TokenRevoked, TokenView};
use crate::base::{Error, Millis, Page, Result, TokenId};
use crate::flows::people::{People, changed, named};
use crate::people::{self, Caller, Person, Role, TokenScope};

/// Longest life of an expiring token: ten years.
const EXPIRES_MS_MAX: u64 = 10 * 366 * 86_400_000;

/// The body of `POST /api/tokens`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// The token's name.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<TokenScope>,
    /// The owner's name; by default the caller.
    #[serde(default)]
    pub person: Option<String>,
    /// Time until it expires, in milliseconds.
    #[serde(default)]
    pub expires_in_ms: Option<u64>,
}

/// The owner of the tokens that a caller manages: the caller, or, for an admin, a person by name.
fn owner(connection: &Connection, caller: &Caller, name: Option<&str>) -> Result<Person> {
    let own = caller.in_person()?;
    match name {
        None => Ok(own.clone()),
        Some(name) if name == own.name => Ok(own.clone()),
        Some(name) => {
            caller.may_administer()?;
            named(connection, name)
        }
    }
}

/// Returns the tokens of a person, oldest first; for an admin who names nobody, those of everybody.
///
/// # Errors
/// `forbidden` for other people's tokens; `not_found` with code `no_person`.
pub async fn list(
    site: &People,
    caller: &Caller,
    person: Option<String>,
) -> Result<Page<TokenView>> {
    let caller = caller.clone();
    site.store
        .read(move |c| {
            let of_all = person.is_none() && caller.may_administer().is_ok();
            let owners =
                if of_all { people::list(c)? } else { vec![owner(c, &caller, person.as_deref())?] };
            let mut items = Vec::new();
            for owner in owners {
                for token in people::list_tokens(c, &owner.id)? {
                    let person_disabled = owner.disabled_at.is_some();
                    items.push(TokenView { token, person: owner.name.clone(), person_disabled });
                }
            }
            Ok(Page { items, next: None })
        })
        .await
}

/// Creates a token; its secret is only in this response.
///
/// # Errors
/// `forbidden` for another's token, and for `metrics` unless an admin asks; `invalid` with code
/// `bad_name`, or `scope_of_role` for what the person's role cannot do; `conflict` with code
/// `too_many_tokens`, `name_taken` or `not_active`.
pub async fn create(site: &People, caller: &Caller, request: TokenRequest) -> Result<TokenMade> {
    if request.scopes.contains(&TokenScope::Metrics) {
        caller.may_administer()?;
    }
    if request.expires_in_ms.is_some_and(|it| !(1..=EXPIRES_MS_MAX).contains(&it)) {
        return Err(Error::invalid("the lifetime of a token must be 1ms to 10 years")
            .code("bad_expiry")
            .hint("for example 90d"));
    }
    let by = caller.actor();
    let (caller, ids) = (caller.clone(), site.ids.clone());
    site.store
        .write(move |tx| {
            let owner = owner(tx.connection(), &caller, request.person.as_deref())?;
            if owner.disabled_at.is_some() {
                let message = format!("{} is disabled", owner.name);
                return Err(Error::conflict("not_active", message)
                    .hint("enable the person first: wiki-browser person enable"));
            }
            refuse_beyond_role(&owner, &request.scopes)?;
            refuse_beyond_channels(&owner, &request.scopes)?;
            let expires_at = request.expires_in_ms.map(|ms| in_future(tx.now(), ms));
            let (name, scopes) = (request.name.as_str(), request.scopes.as_slice());
            let made = people::create_token(tx, &ids, &owner.id, name, scopes, expires_at)?;
            if owner.is_external {
                people::set_token_maker(tx, &made.0, &caller.in_person()?.id)?;
            }
            changed(tx, &owner.id, &by, "token_created")?;
            let (id, token) = made;
            let (name, scopes, person) = (name.to_owned(), scopes.to_vec(), owner.name);
            Ok(TokenMade { id, name, person, scopes, expires_at, token })
        })
        .await
}

/// Refuses a token whose every use would be refused.
fn refuse_beyond_role(owner: &Person, scopes: &[TokenScope]) -> Result<()> {
    let is_beyond = |it: &&TokenScope| matches!(it, TokenScope::Write | TokenScope::Decide);
    match scopes.iter().find(is_beyond) {
        Some(scope) if owner.role == Role::Viewer => {
            let (name, scope) = (&owner.name, scope.as_str());
            let message = format!("{name} is a viewer and cannot use the scope `{scope}`");
            Err(Error::invalid(message)
                .code("scope_of_role")
                .hint("use the scope `read`, or ask an admin for the role `member`"))
        }
        _ => Ok(()),
    }
}

/// People from outside have tokens only for channels, and nobody else has those.
fn refuse_beyond_channels(owner: &Person, scopes: &[TokenScope]) -> Result<()> {
    let is_right = match owner.is_external {
        true => scopes == [TokenScope::Channel],
        false => !scopes.contains(&TokenScope::Channel),
    };
    if is_right {
        return Ok(());
    }
    let message = match owner.is_external {
        true => format!("a token of {}, who is from outside, has the scope `channel`", owner.name),
        false => format!("{} is not from outside: `channel` is no scope of theirs", owner.name),
    };
    Err(Error::invalid(message)
        .code("scope_of_role")
        .hint("wiki-browser person add NAME --outside adds somebody from outside"))
}

fn in_future(now: Millis, ms: u64) -> Millis {
    now.plus(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Revokes a token: the caller's own, or, for an admin, anybody's.
///
/// # Errors
/// `not_found`; `conflict` with code `operator_token` for the one of `data/operator.token`.
pub async fn revoke(site: &People, caller: &Caller, id: &TokenId) -> Result<TokenRevoked> {
    let by = caller.actor();
    let own = caller.in_person()?.id.clone();
    let (of_all, id) = (caller.may_administer().is_ok(), id.clone());
    site.store
        .write(move |tx| {
            let owners = if of_all {
                people::list(tx.connection())?.into_iter().map(|it| it.id).collect()
            } else {
                vec![own.clone()]
            };
            for owner in owners {
                let tokens = people::list_tokens(tx.connection(), &owner)?;
                let Some(token) = tokens.into_iter().find(|it| it.id == id) else { continue };
                if token.name == people::OPERATOR_TOKEN_NAME {
                    return Err(Error::conflict("operator_token", "this is the operator's token")
                        .hint(
                            "remove data/operator.token and restart the server to create a new one",
                        ));
                }
                people::revoke_token(tx, &owner, &id)?;
                changed(tx, &owner, &by, "token_revoked")?;
                return Ok(TokenRevoked { id: id.clone(), name: token.name });
            }
            Err(Error::not_found(format!("no token {id}"))
                .hint("list them: wiki-browser token list"))
        })
        .await
}
