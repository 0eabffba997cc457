//! What people may do: their roles, who is disabled, and the last admin.

use crate::base::{Actor, Error, Ids, PersonId, Result, TokenId, fault};
use crate::flows::jobs::cancel::cancel_waiting;
use crate::flows::people::{People, change, changed, leaving};
use crate::jobs::{self, Capacities};
use crate::people::{self, Caller, Person, Role};
use crate::store::Tx;

/// Ends a person's access at once: sessions, tokens and open streams; and cancels their waiting
/// jobs. Their past work and running jobs remain, but for private ones, such as answers of their
/// assistant: these end.
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
        leaving::end_sign_ins(tx, &person.id)?;
        people::end_logins(tx, &person.id)
    })
    .await
}

/// Cancels the waiting jobs of a person.
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

/// Enables a person: their tokens work again, and they must sign in again.
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

/// Changes a person's role. People who may no longer write lose their private jobs.
///
/// # Errors
/// `not_found`; `invalid` for a word that is no role; `conflict` with code `last_admin`.
pub async fn set_role(site: &People, caller: &Caller, name: &str, role: &str) -> Result<Person> {
    let role: Role = role.parse()?;
    let (by, lanes, ids) = (caller.actor(), site.lanes.clone(), site.ids.clone());
    change(site, caller, name, "role", move |tx, person| {
        if person.is_external {
            let message = format!("{} is from outside and has no other role", person.name);
            return Err(Error::conflict("outside_person", message)
                .hint("add them under another name, with that role"));
        }
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

/// The result of carrying later decisions over to a restored database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many were disabled again.
    pub disabled: usize,
    /// How many got their lower role again.
    pub lowered: usize,
    /// The name of the person who stays an admin nevertheless.
    pub kept: Option<String>,
    /// How many tokens of that person ended.
    pub tokens: usize,
}

/// Carries over to a restored database what was taken from its people since; nothing is granted.
/// One active admin is kept, without tokens: what happens next must be the operator's decision.
///
/// # Errors
/// As any write.
pub fn take_again(
    tx: &Tx<'_>,
    later: &[Person],
    (ids, lanes): (&Ids, &Capacities),
) -> Result<Taken> {
    let mut taken = Taken::default();
    // The disabled first: if somebody must stay, then rather one who only had a lower role.
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
            leaving::end_sign_ins(tx, &then.id)?;
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

/// A site without an admin could only be fixed with a database tool.
fn keep_an_admin(tx: &Tx<'_>, person: &Person) -> Result<()> {
    if is_last_admin(tx, person)? {
        let message = format!("{} is the last admin of this site", person.name);
        return Err(Error::conflict("last_admin", message).hint(
            "make another person an admin first: wiki-browser person role NAME admin, or \
             wiki-browser person add NAME --role admin",
        ));
    }
    Ok(())
}
