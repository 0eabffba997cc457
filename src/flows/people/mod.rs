//! The people of a site and their tokens: who is added, disabled, or given another role, and what
//! programs may do in a person's name.
//!
//! **Invariant:** there is always an active admin.
//! **Invariant:** every change is an event of its own, which also ends the open streams of whoever
//! has lost the right to them.

pub(in crate::flows) mod leaving;
pub mod names;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::{
    Actor, Error, ErrorKind, Event, EventKind, Ids, Millis, PersonId, Result, TokenId, fault,
};
use crate::flows::jobs::cancel::cancel_waiting;
use crate::jobs::{self, Capacities};
use crate::people::{self, Caller, NewPerson, Person, Role, Token, TokenScope};
use crate::store::{Store, Tx};

/// Longest life of a token that ends by itself: ten years.
const EXPIRES_MS_MAX: u64 = 10 * 366 * 86_400_000;

/// The handles of these stories.
#[derive(Clone)]
pub struct People {
    /// The database.
    pub store: Store,
    /// The source of ids.
    pub ids: Ids,
    /// The lanes of the jobs that are cancelled with a person.
    pub lanes: Capacities,
}

/// The body of `POST /api/persons`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonRequest {
    /// A short word, unique in the site.
    pub name: String,
    /// What others see; the name by default.
    #[serde(default)]
    pub display_name: Option<String>,
    /// An address.
    #[serde(default)]
    pub email: Option<String>,
    /// `admin`, `member` or `viewer`.
    pub role: String,
}

/// The body of `POST /api/tokens`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What its owner calls it.
    pub name: String,
    /// What it may be used for.
    pub scopes: Vec<TokenScope>,
    /// Whose it is, by name; the caller's by default.
    #[serde(default)]
    pub person: Option<String>,
    /// After how long it ends by itself, in milliseconds.
    #[serde(default)]
    pub expires_in_ms: Option<u64>,
}

/// A token with the name of its owner.
#[derive(Serialize)]
struct Owned {
    #[serde(flatten)]
    token: Token,
    person: String,
    /// Whether it does not count because its owner is disabled.
    person_disabled: bool,
}

/// Returns all people, oldest first, as `{items, next}`.
///
/// # Errors
/// `forbidden` for all but admins.
pub async fn list(site: &People, caller: &Caller) -> Result<Value> {
    caller.may_administer()?;
    let persons = site.store.read(people::list).await?;
    Ok(json!({"items": persons, "next": null}))
}

/// Adds a person.
///
/// # Errors
/// `forbidden` for all but admins; `invalid` with code `bad_name`; `conflict` with code
/// `name_taken`.
pub async fn add(site: &People, caller: &Caller, request: PersonRequest) -> Result<Person> {
    let by = Actor::Person(caller.may_administer()?.id.clone());
    let display_name = request.display_name.unwrap_or_else(|| request.name.clone());
    let role: Role = request.role.parse()?;
    let new = NewPerson { name: request.name, display_name, email: request.email, role };
    let ids = site.ids.clone();
    site.store
        .write(move |tx| {
            let person = people::create_person(tx, &ids, &new)?;
            changed(tx, &person.id, &by, "added")?;
            Ok(person)
        })
        .await
}

/// Ends all that a person's credentials can do, at once: sessions, tokens, open streams; and takes
/// back what they asked for and has not begun. What they did stays theirs, also the jobs that run.
///
/// # Errors
/// `not_found`; `conflict` with code `not_active` or `last_admin`.
pub async fn disable(site: &People, caller: &Caller, name: &str) -> Result<Person> {
    let (by, lanes, ids) = (caller.actor(), site.lanes.clone(), site.ids.clone());
    change(site, caller, name, "disabled", move |tx, person| {
        if person.disabled_at.is_some() {
            let message = format!("{} is disabled already", person.name);
            let hint = format!("wiki-browser person enable {} takes it back", person.name);
            return Err(Error::conflict("not_active", message).hint(hint));
        }
        keep_an_admin(tx, person)?;
        people::disable(tx, &person.id)?;
        cancel_jobs_of(tx, &person.id, &by, (&ids, &lanes))?;
        leaving::end_private(tx, &person.id, &by, (&ids, &lanes))?;
        people::end_logins(tx, &person.id)
    })
    .await
}

/// Cancels the jobs of a person that wait.
fn cancel_jobs_of(
    tx: &Tx<'_>,
    person: &PersonId,
    by: &Actor,
    (ids, lanes): (&Ids, &Capacities),
) -> Result<()> {
    if fault::is_off("disabled_jobs") {
        return Ok(());
    }
    for id in jobs::queued_of(tx.connection(), &Actor::Person(person.clone()))? {
        cancel_waiting(tx, ids, &id, by, lanes)?;
    }
    Ok(())
}

/// Refuses what a person asks for who was disabled since the request was let in.
pub(super) fn refuse_disabled(connection: &Connection, actor: &Actor) -> Result<()> {
    let Some(id) = actor.person() else { return Ok(()) };
    match people::find(connection, id)? {
        Some(person) if person.disabled_at.is_some() => {
            let message = format!("{} is disabled", person.name);
            let error = Error::new(ErrorKind::Unauthenticated, message);
            Err(error.hint("an admin can enable the person again"))
        }
        _ => Ok(()),
    }
}

/// Lets a person's tokens count again; sessions begin anew.
///
/// # Errors
/// `not_found`; `conflict` with code `not_disabled`.
pub async fn enable(site: &People, caller: &Caller, name: &str) -> Result<Person> {
    change(site, caller, name, "enabled", |tx, person| {
        if person.disabled_at.is_none() {
            let message = format!("{} is not disabled", person.name);
            let hint = "wiki-browser person list says who is";
            return Err(Error::conflict("not_disabled", message).hint(hint));
        }
        people::enable(tx, &person.id)
    })
    .await
}

/// Gives a person another role. Whoever may not write any more has no private jobs either.
///
/// # Errors
/// `not_found`; `invalid` for a word that is no role; `conflict` with code `last_admin`.
pub async fn set_role(site: &People, caller: &Caller, name: &str, role: &str) -> Result<Person> {
    let role: Role = role.parse()?;
    let (by, lanes, ids) = (caller.actor(), site.lanes.clone(), site.ids.clone());
    change(site, caller, name, "role", move |tx, person| {
        if role != Role::Admin {
            keep_an_admin(tx, person)?;
        }
        if role == Role::Viewer {
            leaving::end_private(tx, &person.id, &by, (&ids, &lanes))?;
        }
        people::set_role(tx, &person.id, role)
    })
    .await
}

/// The body of `POST /api/persons/{name}/profile`; what is left out stays as it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileRequest {
    /// What others see, and commits say.
    #[serde(default)]
    pub display_name: Option<String>,
    /// A mail address; an empty one takes the present one away.
    #[serde(default)]
    pub email: Option<String>,
}

/// Says how a person is called and where mail reaches them: everybody for themselves, an admin for
/// all.
///
/// # Errors
/// `forbidden` for another's profile unless an admin asks; `not_found`; `invalid` with code
/// `bad_address`.
pub async fn set_profile(
    site: &People,
    caller: &Caller,
    name: &str,
    request: ProfileRequest,
) -> Result<Person> {
    let own = caller.in_person()?;
    if own.name != name {
        caller.may_administer()?;
    }
    let (by, name) = (caller.actor(), name.to_owned());
    site.store
        .write(move |tx| {
            let person = named(tx.connection(), &name)?;
            let shown = request.display_name.as_deref().unwrap_or(&person.display_name).trim();
            let email = match request.email.as_deref().map(str::trim) {
                None => person.email.as_deref(),
                Some("") => None,
                given => given,
            };
            people::set_profile(tx, &person.id, shown, email)?;
            changed(tx, &person.id, &by, "profile")?;
            named(tx.connection(), &name)
        })
        .await
}

async fn change<F>(
    site: &People,
    caller: &Caller,
    name: &str,
    word: &'static str,
    mut work: F,
) -> Result<Person>
where
    F: FnMut(&Tx<'_>, &Person) -> Result<()> + Send + 'static,
{
    let by = Actor::Person(caller.may_administer()?.id.clone());
    let name = name.to_owned();
    site.store
        .write(move |tx| {
            let person = named(tx.connection(), &name)?;
            work(tx, &person)?;
            changed(tx, &person.id, &by, word)?;
            named(tx.connection(), &name)
        })
        .await
}

/// What a restored database was told of its people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many are disabled again.
    pub disabled: usize,
    /// How many have their lower role again.
    pub lowered: usize,
    /// The name of the one who stays an admin all the same.
    pub kept: Option<String>,
    /// How many tokens of that one ended.
    pub tokens: usize,
}

/// Takes from the people of a restored database what was taken from them since, as their later rows
/// say; nothing is given. One active admin is kept, without tokens: what happens next must be the
/// operator's decision.
///
/// # Errors
/// As any write.
pub fn take_again(
    tx: &Tx<'_>,
    later: &[Person],
    (ids, lanes): (&Ids, &Capacities),
) -> Result<Taken> {
    let mut taken = Taken::default();
    // The disabled first: if somebody must stay, then rather one who had only a lower role.
    let (ended, active): (Vec<_>, Vec<_>) = later.iter().partition(|it| it.disabled_at.is_some());
    for newer in ended.into_iter().chain(active) {
        let Some(then) = people::find(tx.connection(), &newer.id)? else { continue };
        let ends = newer.disabled_at.is_some() && then.disabled_at.is_none();
        let falls = newer.role.is_below(then.role);
        if (ends || falls) && is_last_admin(tx, &then)? {
            let tokens = people::list_tokens(tx.connection(), &then.id)?.into_iter();
            let tokens = tokens.filter(|it| it.name != people::OPERATOR_TOKEN_NAME);
            let tokens: Vec<TokenId> = tokens.map(|it| it.id).collect();
            taken.tokens += people::revoke_tokens(tx, &tokens)?;
            taken.kept = Some(then.name);
            continue;
        }
        if ends {
            people::disable(tx, &then.id)?;
            cancel_jobs_of(tx, &then.id, &Actor::System, (ids, lanes))?;
            leaving::end_private(tx, &then.id, &Actor::System, (ids, lanes))?;
            changed(tx, &then.id, &Actor::System, "disabled")?;
            taken.disabled += 1;
        }
        if falls {
            if newer.role == Role::Viewer {
                leaving::end_private(tx, &then.id, &Actor::System, (ids, lanes))?;
            }
            people::set_role(tx, &then.id, newer.role)?;
            changed(tx, &then.id, &Actor::System, "role")?;
            taken.lowered += 1;
        }
    }
    Ok(taken)
}

fn is_last_admin(tx: &Tx<'_>, person: &Person) -> Result<bool> {
    let is_admin = person.role == Role::Admin && person.disabled_at.is_none();
    Ok(is_admin && !people::has_other_admin(tx.connection(), &person.id)?)
}

/// A site that nobody may administer could not be mended without a database tool.
fn keep_an_admin(tx: &Tx<'_>, person: &Person) -> Result<()> {
    if is_last_admin(tx, person)? {
        let message = format!("{} is the last admin of this site", person.name);
        return Err(Error::conflict("last_admin", message).hint(
            "make another person an admin first: wiki-browser person add NAME --role admin",
        ));
    }
    Ok(())
}

fn changed(tx: &Tx<'_>, id: &PersonId, by: &Actor, word: &str) -> Result<()> {
    let data = json!({"id": id, "change": word});
    let event = Event::new(EventKind::PersonChanged, format!("person:{id}"), by.clone(), data);
    tx.emit(event.audited())
}

/// Returns a person by name.
///
/// # Errors
/// `not_found` with code `no_person`.
pub fn named(connection: &Connection, name: &str) -> Result<Person> {
    people::find_by_name(connection, name)?.ok_or_else(|| {
        let shown = crate::base::truncate_chars(name, 80);
        Error::not_found(format!("there is no person `{}`", shown.escape_debug()))
            .code("no_person")
            .hint("wiki-browser person list names them")
    })
}

/// Whose tokens a caller works with: their own, or, for an admin, those of a person by name.
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

/// Returns the tokens of a person, oldest first, as `{items, next}`; for an admin who names nobody,
/// those of all.
///
/// # Errors
/// `forbidden` for other people's tokens; `not_found` with code `no_person`.
pub async fn list_tokens(site: &People, caller: &Caller, person: Option<String>) -> Result<Value> {
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
                    items.push(Owned { token, person: owner.name.clone(), person_disabled });
                }
            }
            Ok(json!({"items": items, "next": null}))
        })
        .await
}

/// Makes a token; its secret is in this answer and nowhere else.
///
/// # Errors
/// `forbidden` for another's token, and for `metrics` unless an admin asks; `invalid` with code
/// `bad_name`, or `scope_of_role` for what the person's role cannot do; `conflict` with code
/// `too_many_tokens`, `name_taken` or `not_active`.
pub async fn create_token(site: &People, caller: &Caller, request: TokenRequest) -> Result<Value> {
    if request.scopes.contains(&TokenScope::Metrics) {
        caller.may_administer()?;
    }
    if request.expires_in_ms.is_some_and(|it| !(1..=EXPIRES_MS_MAX).contains(&it)) {
        return Err(Error::invalid("a token ends after 1ms to 10 years")
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
                    .hint("wiki-browser person enable comes first"));
            }
            refuse_beyond_role(&owner, &request.scopes)?;
            let expires = request.expires_in_ms.map(|ms| in_future(tx.now(), ms));
            let (name, scopes) = (request.name.as_str(), request.scopes.as_slice());
            let made = people::create_token(tx, &ids, &owner.id, name, scopes, expires)?;
            changed(tx, &owner.id, &by, "token_created")?;
            let (id, secret) = made;
            Ok(json!({
                "id": id, "name": name, "person": owner.name, "scopes": scopes,
                "expires_at": expires, "token": secret,
            }))
        })
        .await
}

/// Refuses a token of which every use would be refused.
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

fn in_future(now: Millis, ms: u64) -> Millis {
    now.plus(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Ends a token: the caller's own, or, for an admin, anybody's.
///
/// # Errors
/// `not_found`; `conflict` with code `operator_token` for the one of `data/operator.token`.
pub async fn revoke_token(site: &People, caller: &Caller, id: &TokenId) -> Result<Value> {
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
                        .hint("remove data/operator.token and start again: that makes another"));
                }
                people::revoke_token(tx, &owner, &id)?;
                changed(tx, &owner, &by, "token_revoked")?;
                return Ok(json!({"id": id, "name": token.name}));
            }
            Err(Error::not_found(format!("no token {id}"))
                .hint("wiki-browser token list names them"))
        })
        .await
}
