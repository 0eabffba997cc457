//! Whom an address means now.

use rusqlite::Connection;

use crate::base::{Address, Error, JobId, PersonId, Result};
use crate::flows::{Works, agents};
use crate::jobs;
use crate::people;
use crate::script::{Inbox, Kind, nearest};

/// Whom an address means.
#[derive(Clone, Debug)]
pub(super) enum Recipient {
    /// The kind whose jobs are instances of this inbox.
    Inbox(String),
    /// An agent that lives on, or the one that has taken its place.
    Agent(String),
    /// A running instance.
    Instance,
    /// A person.
    Person(PersonId),
}

/// Returns whom an address means.
///
/// # Errors
/// `invalid` with code `approval_is_no_target`; `not_found` with code `no_recipient`, with a near
/// name; `conflict` with code `recipient_ended` or `not_deliverable`.
pub(super) fn resolve(works: &Works, c: &Connection, to: &Address) -> Result<Recipient> {
    match to {
        Address::Approval(_) => Err(no_target(to)),
        Address::Inbox { .. } => {
            inbox(works, &to.name()).map(|it| Recipient::Inbox(it.name.clone()))
        }
        Address::Instance { template, job } => {
            require_instance(c, template, job).map(|()| Recipient::Instance)
        }
        Address::Person(name) => match people::find_by_name(c, name)? {
            Some(person) if person.disabled_at.is_some() => Err(gone(to, "is disabled")),
            Some(person) if person.is_external => {
                Err(not_deliverable(format!("{to} is from outside and cannot read messages"))
                    .hint("write to them in a channel in which they take part"))
            }
            Some(person) => Ok(Recipient::Person(person.id)),
            None => Err(nobody(to, None)),
        },
        Address::Agent(name) => agents::resolve(works, c, name).map(|it| Recipient::Agent(it.name)),
        // What is sent to a channel is said there (`send.rs`), before anybody is resolved.
        Address::Channel(_) => Err(not_deliverable(format!("{to} cannot receive replies"))
            .hint("let the reply go to a person, an inbox or an agent, which can post it there")),
    }
}

/// Returns that a label of approvals receives nothing.
pub(super) fn no_target(label: &Address) -> Error {
    Error::invalid(format!("{label} is a label, not a recipient"))
        .code("approval_is_no_target")
        .hint("ask with `wb-agent approval create --channel …`")
}

/// Returns an inbox of the script in force.
///
/// # Errors
/// `not_found` with code `no_recipient`.
pub(in crate::flows) fn inbox<'w>(works: &'w Works, name: &str) -> Result<&'w Kind> {
    let found = works.config.kinds.get(name).filter(|it| it.inbox.is_some());
    found.ok_or_else(|| {
        let kinds = works.config.kinds.values().filter(|it| it.inbox.is_some());
        let near = nearest(name, kinds.map(|it| it.name.as_str()));
        let error = Error::not_found(format!("no inbox {name}")).code("no_recipient");
        match near {
            Some(near) => error.hint(format!("did you mean topic:{near}?")),
            None => error.hint("list inboxes: `wiki-browser inbox list`"),
        }
    })
}

/// Returns what an inbox is, of a kind that is one.
///
/// # Errors
/// `internal` for any other kind.
pub(super) fn of_kind(kind: &Kind) -> Result<&Inbox> {
    kind.inbox.as_ref().ok_or_else(|| Error::internal(format!("{} is no inbox", kind.name)))
}

/// Refuses what is no instance, and one that has ended.
fn require_instance(c: &Connection, template: &str, job: &str) -> Result<()> {
    let to = Address::Instance { template: template.to_owned(), job: job.to_owned() };
    let id: JobId = job.parse().map_err(|_| {
        nobody(&to, None).hint(format!("the address of an inbox is topic:{template}/{job}"))
    })?;
    let found = jobs::find_brief(c, &jobs::Viewer::Site, &id).map_err(|_| nobody(&to, None))?;
    let is_of_template = found.kind.split_once('/').is_some_and(|(it, _)| it == template);
    if !is_of_template || found.message_id.is_none() || found.root_id.is_some() {
        return Err(nobody(&to, None));
    }
    let root = found.root().clone();
    let last = jobs::last_leg(c, &root)?;
    match last.status.is_final() {
        true => Err(gone(&to, "has ended")),
        false => Ok(()),
    }
}

fn not_deliverable(why: String) -> Error {
    Error::conflict("not_deliverable", why)
}

fn nobody(to: &Address, hint: Option<&str>) -> Error {
    let what = match to {
        Address::Person(name) => format!("there is nobody called {name}"),
        _ => format!("there is no {to}"),
    };
    Error::not_found(what).code("no_recipient").hint(hint.unwrap_or(match to {
        Address::Person(_) => "list people: `wiki-browser person list`",
        _ => "list its instances: `wiki-browser inbox show TEMPLATE/NAME`",
    }))
}

fn gone(to: &Address, how: &str) -> Error {
    Error::conflict("recipient_ended", format!("{to} {how}")).hint("nothing was sent")
}
