//! The people of a site: who is added, how they are called, what they may do (`roles`), and what
//! programs may do in their name (`tokens`).
//!
//! **Invariant:** there is always an active admin.
//! **Invariant:** every change is an event of its own, which also ends the open streams of whoever
//! has lost the right to them.

pub(in crate::flows) mod leaving;
pub mod roles;
pub mod shown_names;
pub mod tokens;

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::json;

use crate::base::{Actor, Error, ErrorKind, Event, EventKind, Ids, Page, PersonId, Result};
use crate::jobs::Capacities;
use crate::people::{self, Caller, NewPerson, Person, Role};
use crate::store::{Store, Tx};

/// The handles of these operations.
#[derive(Clone)]
pub struct People {
    /// The database.
    pub store: Store,
    /// The source of ids.
    pub ids: Ids,
    /// The lanes of jobs that are cancelled with a person.
    pub lanes: Capacities,
}

/// The body of `POST /api/persons`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PersonRequest {
    /// A short name, unique on the site.
    pub name: String,
    /// The display name; by default the name.
    #[serde(default)]
    pub display_name: Option<String>,
    /// A mail address.
    #[serde(default)]
    pub email: Option<String>,
    /// `admin`, `member` or `viewer`.
    pub role: String,
    /// Whether the person is from outside: takes part in channels by token and does nothing else; a
    /// `viewer`.
    #[serde(default)]
    pub is_external: bool,
}

/// Returns all people, oldest first.
///
/// # Errors
/// `forbidden` for all but admins.
pub async fn list(site: &People, caller: &Caller) -> Result<Page<Person>> {
    caller.may_administer()?;
    let items = site.store.read(people::list).await?;
    Ok(Page { items, next: None })
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
    let is_external = request.is_external;
    if is_external && role != Role::Viewer {
        let message = "somebody from outside is a viewer, who takes part in channels";
        return Err(Error::invalid(message).code("bad_role").of_input("role"));
    }
    let new = NewPerson { name: request.name, display_name, email: request.email, role };
    let ids = site.ids.clone();
    site.store
        .write(move |tx| {
            let person = people::create_person(tx, &ids, &new)?;
            if is_external {
                people::set_external(tx, &person.id)?;
            }
            changed(tx, &person.id, &by, "added")?;
            Ok(Person { is_external, ..person })
        })
        .await
}

/// Refuses a request of a person who was disabled since it was admitted.
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

/// Refuses a decision of a person who was disabled, or became a viewer, since it was admitted.
pub(super) fn refuse_demoted(connection: &Connection, actor: &Actor) -> Result<()> {
    refuse_disabled(connection, actor)?;
    let Some(id) = actor.person() else { return Ok(()) };
    match people::find(connection, id)? {
        Some(person) if person.role == Role::Viewer => {
            let message = format!("{} may only read", person.name);
            Err(Error::new(ErrorKind::Forbidden, message)
                .code("viewer")
                .hint("ask an admin for the role `member`"))
        }
        _ => Ok(()),
    }
}

/// The body of `POST /api/persons/{name}/profile`; missing fields stay as they are.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfileRequest {
    /// The display name, also used in commits.
    #[serde(default)]
    pub display_name: Option<String>,
    /// A mail address; an empty one removes it.
    #[serde(default)]
    pub email: Option<String>,
}

/// Sets a person's display name and mail address: people for themselves, an admin for everybody.
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
        Error::not_found(format!("no person `{}`", shown.escape_debug()))
            .code("no_person")
            .hint("list them: wiki-browser person list")
    })
}
