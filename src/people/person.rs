//! The table `persons`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, named_params};

use crate::api::people::{Person, Role};
use crate::base::{Actor, Error, Ids, JobId, PersonId, Result, drawn_name};
use crate::store::Tx;

/// Longest name, display name or address, in bytes.
const NAME_BYTES_MAX: usize = crate::base::limit::NAME_BYTES_MAX;

impl Role {
    /// Returns the word of this role.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Member => "member",
            Role::Viewer => "viewer",
        }
    }

    /// Returns whether this role may do less than the other.
    pub fn is_below(self, other: Role) -> bool {
        let rank = |role: Role| match role {
            Role::Admin => 2,
            Role::Member => 1,
            Role::Viewer => 0,
        };
        rank(self) < rank(other)
    }
}

impl FromStr for Role {
    type Err = Error;
    fn from_str(word: &str) -> Result<Role> {
        let all = [Role::Admin, Role::Member, Role::Viewer];
        all.into_iter().find(|role| role.as_str() == word).ok_or_else(|| {
            Error::invalid(format!("`{}` is not a role", word.escape_debug()))
                .hint("a role must be admin, member or viewer")
        })
    }
}

impl FromSql for Role {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Role> {
        value.as_str()?.parse().map_err(|cause: Error| FromSqlError::Other(Box::new(cause)))
    }
}

impl ToSql for Role {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.as_str()))
    }
}

/// The data of a new person.
#[derive(Clone, Debug)]
pub struct NewPerson {
    /// A short name, unique in the site.
    pub name: String,
    /// The name shown to others.
    pub display_name: String,
    /// Their mail address, if known.
    pub email: Option<String>,
    /// Their role.
    pub role: Role,
}

const INSERT: &str = "
    INSERT INTO persons (id, name, display_name, email, role, created_ms)
    VALUES (:id, :name, :display_name, :email, :role, :now)";
const FIND: &str = "
    SELECT id, name, display_name, email, role, is_external, created_ms, disabled_ms
    FROM persons WHERE id = :id";
const FIND_BY_NAME: &str = "
    SELECT id, name, display_name, email, role, is_external, created_ms, disabled_ms
    FROM persons WHERE name = :name";
const LIST: &str = "
    SELECT id, name, display_name, email, role, is_external, created_ms, disabled_ms
    FROM persons ORDER BY id LIMIT :limit";
const FIRST_ADMIN: &str = "
    SELECT id, name, display_name, email, role, is_external, created_ms, disabled_ms
    FROM persons WHERE role = 'admin' AND disabled_ms IS NULL ORDER BY id LIMIT 1";
const DISABLE: &str = "
    UPDATE persons SET disabled_ms = :now WHERE id = :id AND disabled_ms IS NULL";
const ENABLE: &str = "
    UPDATE persons SET disabled_ms = NULL WHERE id = :id AND disabled_ms IS NOT NULL";
const SET_EXTERNAL: &str = "UPDATE persons SET is_external = 1 WHERE id = :id";
const SET_ROLE: &str = "UPDATE persons SET role = :role WHERE id = :id";
const SET_PROFILE: &str = "
    UPDATE persons SET display_name = :display_name, email = :email WHERE id = :id";
const OTHER_ADMIN: &str = "
    SELECT EXISTS (SELECT 1 FROM persons
                   WHERE role = 'admin' AND disabled_ms IS NULL AND id <> :id)";

/// The statements of this file, for the schema test.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("person::insert", INSERT),
    ("person::find", FIND),
    ("person::find_by_name", FIND_BY_NAME),
    ("person::list", LIST),
    ("person::first_admin", FIRST_ADMIN),
    ("person::disable", DISABLE),
    ("person::enable", ENABLE),
    ("person::set_external", SET_EXTERNAL),
    ("person::set_role", SET_ROLE),
    ("person::set_profile", SET_PROFILE),
    ("person::other_admin", OTHER_ADMIN),
];

/// Most people in the list.
const PERSONS_MAX: u32 = 10_000;

/// Returns the operator: the person with the operating system's user name, else the first admin,
/// else a new admin with that name.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn ensure_operator(tx: &Tx<'_>, ids: &Ids, os_user: &str) -> Result<Person> {
    let name = plain_name(os_user);
    let same = find_by_name(tx.connection(), &name)?;
    if let Some(person) = same.filter(|it| it.role == Role::Admin && it.disabled_at.is_none()) {
        return Ok(person);
    }
    let first = tx.prepare_cached(FIRST_ADMIN)?.query_row([], from_row).optional()?;
    if let Some(person) = first {
        return Ok(person);
    }
    let taken = find_by_name(tx.connection(), &name)?.is_some();
    let name = if taken { format!("{name}-operator") } else { name };
    let display_name = name.clone();
    create_person(tx, ids, &NewPerson { name, display_name, email: None, role: Role::Admin })
}

/// Creates a person.
///
/// # Errors
/// `invalid` for a name that is empty, too long or has other characters than allowed; `conflict`
/// with code `name_taken`.
pub fn create_person(tx: &Tx<'_>, ids: &Ids, new: &NewPerson) -> Result<Person> {
    // It becomes part of an API path and a command line argument, so it begins with a letter or
    // digit.
    let begins_well = new.name.starts_with(char::is_alphanumeric);
    if new.name != plain_name(&new.name) || !begins_well {
        let shown = crate::base::truncate_chars(&new.name, 80);
        return Err(Error::invalid(format!("`{}` is not a valid user name", shown.escape_debug()))
            .code("bad_name")
            .hint("use letters, digits, `.`, `_`, `-` and `@`, at most 100 bytes"));
    }
    check_line("display name", &new.display_name)?;
    if let Some(email) = &new.email {
        check_address(email)?;
    }
    if find_by_name(tx.connection(), &new.name)?.is_some() {
        let message = format!("there is a person `{}` already", new.name);
        return Err(Error::conflict("name_taken", message)
            .hint("choose another name; list them: wiki-browser person list"));
    }
    let id: PersonId = ids.mint();
    refuse_alike(tx.connection(), &id, &new.display_name)?;
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":name": new.name, ":display_name": new.display_name, ":email": new.email,
        ":role": new.role, ":now": tx.now(),
    })?;
    find(tx.connection(), &id)?.ok_or_else(|| Error::internal("a new person is not there"))
}

/// Disables a person and all their credentials.
///
/// # Errors
/// `conflict` if the person is already disabled or does not exist.
pub fn disable(tx: &Tx<'_>, id: &PersonId) -> Result<()> {
    let changed =
        tx.prepare_cached(DISABLE)?.execute(named_params! {":id": id, ":now": tx.now()})?;
    match changed {
        1 => Ok(()),
        _ => Err(Error::conflict("not_active", format!("person {id} is not active"))),
    }
}

/// Enables a person's credentials again.
///
/// # Errors
/// `conflict` with code `not_disabled`.
pub fn enable(tx: &Tx<'_>, id: &PersonId) -> Result<()> {
    match tx.prepare_cached(ENABLE)?.execute(named_params! {":id": id})? {
        1 => Ok(()),
        _ => Err(Error::conflict("not_disabled", format!("person {id} is not disabled"))),
    }
}

/// Makes a new person somebody from outside, who takes part in channels by token and does nothing
/// else. There is no way back: what they may read was decided for an outsider.
///
/// # Errors
/// As any write.
pub fn set_external(tx: &Tx<'_>, id: &PersonId) -> Result<()> {
    tx.prepare_cached(SET_EXTERNAL)?.execute(named_params! {":id": id})?;
    Ok(())
}

/// Gives a person another role.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn set_role(tx: &Tx<'_>, id: &PersonId, role: Role) -> Result<()> {
    tx.prepare_cached(SET_ROLE)?.execute(named_params! {":id": id, ":role": role})?;
    Ok(())
}

/// Sets a person's display name and mail address.
///
/// # Errors
/// `invalid` for a name that is not a single line; with code `bad_address` for an invalid address;
/// `conflict` with code `name_taken` for a display name that is drawn like the name of another.
pub fn set_profile(
    tx: &Tx<'_>,
    id: &PersonId,
    display_name: &str,
    email: Option<&str>,
) -> Result<()> {
    check_line("display name", display_name)?;
    email.map(check_address).transpose()?;
    let before = find(tx.connection(), id)?;
    if before.is_none_or(|it| it.display_name != display_name) {
        refuse_alike(tx.connection(), id, display_name)?;
    }
    tx.prepare_cached(SET_PROFILE)?
        .execute(named_params! {":id": id, ":display_name": display_name, ":email": email})?;
    Ok(())
}

/// Refuses a display name by which somebody would be taken for another person: it stands at what
/// they write.
fn refuse_alike(connection: &Connection, id: &PersonId, display_name: &str) -> Result<()> {
    let drawn = drawn_name(display_name);
    let is_alike = |it: &Person| {
        it.id != *id && [&it.name, &it.display_name].into_iter().any(|it| drawn_name(it) == drawn)
    };
    let Some(other) = list(connection)?.into_iter().find(is_alike) else { return Ok(()) };
    let message = format!("the display name reads like that of `{}`", other.name);
    Err(Error::conflict("name_taken", message).hint("add something that tells the two apart"))
}

/// Returns whether there is another active admin.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn has_other_admin(connection: &Connection, id: &PersonId) -> Result<bool> {
    let mut statement = connection.prepare_cached(OTHER_ADMIN)?;
    Ok(statement.query_row(named_params! {":id": id}, |row| row.get(0))?)
}

/// Returns a person by id.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find(connection: &Connection, id: &PersonId) -> Result<Option<Person>> {
    let mut statement = connection.prepare_cached(FIND)?;
    Ok(statement.query_row(named_params! {":id": id}, from_row).optional()?)
}

/// Returns a person by name.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find_by_name(connection: &Connection, name: &str) -> Result<Option<Person>> {
    let mut statement = connection.prepare_cached(FIND_BY_NAME)?;
    Ok(statement.query_row(named_params! {":name": name}, from_row).optional()?)
}

/// Returns all people, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list(connection: &Connection) -> Result<Vec<Person>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map(named_params! {":limit": PERSONS_MAX}, from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the display names of some people by id, without ids that have no row.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn names(
    connection: &Connection,
    ids: impl IntoIterator<Item = PersonId>,
) -> Result<BTreeMap<PersonId, String>> {
    let mut names = BTreeMap::new();
    for id in ids {
        if names.contains_key(&id) {
            continue;
        }
        if let Some(person) = find(connection, &id)? {
            names.insert(id, person.display_name);
        }
    }
    Ok(names)
}

/// Returns an actor's display name for a page or message.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn display_name(connection: &Connection, actor: &Actor) -> Result<String> {
    let person = match actor.person() {
        Some(id) => find(connection, id)?,
        None => None,
    };
    Ok(actor_name(actor, person.as_ref()))
}

/// Returns an actor's display name, given the person's row.
pub fn actor_name(actor: &Actor, person: Option<&Person>) -> String {
    match actor {
        Actor::Person(_) => {
            person.map_or_else(|| "a person who is gone".to_owned(), |it| it.display_name.clone())
        }
        Actor::Persona(name) => name.clone(),
        Actor::Job(id) => format!("Agent (job {})", Short(id)),
        Actor::Host(name) => format!("host {name}"),
        Actor::Schedule(name) => format!("schedule {name}"),
        Actor::Webhook(name) => format!("webhook {name}"),
        Actor::Script => "the script".to_owned(),
        Actor::System => "system".to_owned(),
    }
}

/// The last eight digits of a job's id: the first ones are the time, equal for a whole minute.
struct Short<'a>(&'a JobId);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.as_str();
        f.write_str(text.get(text.len().saturating_sub(8)..).unwrap_or(text))
    }
}

/// Drops characters not allowed in a name; the result is never empty.
fn plain_name(text: &str) -> String {
    let is_plain = |c: &char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    let mut name: String = text.chars().filter(is_plain).collect();
    while name.len() > NAME_BYTES_MAX {
        name.pop();
    }
    if name.is_empty() { "operator".to_owned() } else { name }
}

fn check_line(what: &str, text: &str) -> Result<()> {
    let is_line = !text.trim().is_empty() && !text.chars().any(char::is_control);
    if is_line && text.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!("the {what} is not one line of 1 to {NAME_BYTES_MAX} bytes"))
        .hint("shorten it, and leave line breaks out"))
}

/// Returns whether a text is a mail address that is safe in a commit trailer.
pub fn is_address(text: &str) -> bool {
    let is_plain =
        |it: char| !it.is_whitespace() && !it.is_control() && !"<>,;:\"()[]\\".contains(it);
    let parts = text.split_once('@');
    let is_whole = parts.is_some_and(|(local, domain)| {
        !local.is_empty() && !domain.is_empty() && !domain.contains('@')
    });
    is_whole && text.chars().all(is_plain) && text.len() <= NAME_BYTES_MAX
}

fn check_address(text: &str) -> Result<()> {
    if is_address(text) {
        return Ok(());
    }
    let shown = crate::base::truncate_chars(text, 80);
    Err(Error::invalid(format!("`{}` is not an email address", shown.escape_debug()))
        .code("bad_address")
        .hint("use NAME@HOST, without spaces or brackets"))
}

/// Reads a row with the columns of `persons`, possibly from a join.
pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Person> {
    Ok(Person {
        id: row.get("id")?,
        name: row.get("name")?,
        display_name: row.get("display_name")?,
        email: row.get("email")?,
        role: row.get("role")?,
        is_external: row.get("is_external")?,
        created_at: row.get("created_ms")?,
        disabled_at: row.get("disabled_ms")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Clock;
    use crate::people::for_test::START;
    use crate::store::in_memory;

    #[test]
    fn the_operator_is_made_once_and_found_again() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let tx = Tx::for_test(&transaction, START);
        let ids = Ids::new(Clock::fixed(START));
        let first = ensure_operator(&tx, &ids, "ada").unwrap();
        assert_eq!((first.name.as_str(), first.role), ("ada", Role::Admin));
        assert_eq!(ensure_operator(&tx, &ids, "ada").unwrap().id, first.id);
        // Another user of the machine (such as root) gets the same operator.
        assert_eq!(ensure_operator(&tx, &ids, "root").unwrap().id, first.id);
        assert_eq!(list(tx.connection()).unwrap().len(), 1);
    }

    #[test]
    fn a_strange_user_name_becomes_a_plain_one() {
        for (os_user, name) in [("", "operator"), ("a b\n<x>", "abx"), ("jo.doe", "jo.doe")] {
            assert_eq!(plain_name(os_user), name);
        }
        assert!(plain_name(&"ä".repeat(200)).len() <= NAME_BYTES_MAX);
    }

    #[test]
    fn names_are_for_reading() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let tx = Tx::for_test(&transaction, START);
        let ids = Ids::new(Clock::fixed(START));
        let ada = ensure_operator(&tx, &ids, "ada").unwrap();
        let c = tx.connection();
        assert_eq!(display_name(c, &Actor::Person(ada.id.clone())).unwrap(), "ada");
        let job = "018bcfe5-6800-7000-8000-00001a2b3c4d".parse().unwrap();
        assert_eq!(display_name(c, &Actor::Job(job)).unwrap(), "Agent (job 1a2b3c4d)");
        assert_eq!(display_name(c, &Actor::System).unwrap(), "system");
        let stranger: PersonId = ids.mint();
        let found = names(c, [ada.id.clone(), stranger, ada.id.clone()]).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(ada.id, "ada".to_owned())]);
    }

    #[test]
    fn an_address_fits_into_a_trailer() {
        for good in ["a@b", "ada.l+x@example.org", "ü@exämple.org"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["", "a", "@b", "a@", "a@b@c", "a b@c", "a@b>", "<a@b", "a@b\n", "a,b@c"] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn a_name_is_taken_once() {
        let mut connection = in_memory();
        let transaction = connection.transaction().unwrap();
        let tx = Tx::for_test(&transaction, START);
        let ids = Ids::new(Clock::fixed(START));
        let new = |name: &str| NewPerson {
            name: name.to_owned(),
            display_name: "Bo".to_owned(),
            email: None,
            role: Role::Viewer,
        };
        let bo = create_person(&tx, &ids, &new("bo")).unwrap();
        assert_eq!(create_person(&tx, &ids, &new("bo")).unwrap_err().code_str(), "name_taken");
        assert_eq!(create_person(&tx, &ids, &new("b o")).unwrap_err().code_str(), "bad_name");
        // Nobody is taken for another.
        assert_eq!(create_person(&tx, &ids, &new("bob")).unwrap_err().code_str(), "name_taken");
        let ada = ensure_operator(&tx, &ids, "ada").unwrap();
        for alike in ["bo", "BO", "в\u{200b}о"] {
            let refused = set_profile(&tx, &ada.id, alike, None).unwrap_err();
            assert_eq!(refused.code_str(), "name_taken", "{alike}");
        }
        set_profile(&tx, &bo.id, "Bo", Some("b@e.org")).unwrap();
        set_profile(&tx, &ada.id, "Bo Berg", None).unwrap();
        disable(&tx, &bo.id).unwrap();
        assert!(disable(&tx, &bo.id).is_err());
    }
}
