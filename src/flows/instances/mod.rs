//! Instances: the jobs that messages to an inbox start.

mod environment;
pub(in crate::flows) mod monitor;
mod show;
mod turns;
mod verdict;

use rusqlite::Connection;

use crate::base::{Actor, Address, JobId, Result, is_person_name};
use crate::jobs;
use crate::people;

pub use environment::banner;
pub(in crate::flows) use environment::prepare;
pub use show::{Contact, OfInbox, contact, list, of_inbox, peek, show};
pub(in crate::flows) use turns::heard;
pub use turns::serve;
pub use verdict::give;

/// Returns the address of an instance of a kind; `kind` is `TEMPLATE/NAME`.
pub(in crate::flows) fn address(kind: &str, root: &JobId) -> Address {
    let template = kind.split_once('/').map_or(kind, |(template, _)| template);
    Address::Instance { template: template.to_owned(), job: root.to_string() }
}

/// Returns the address of a job: its long-running agent's, or its instance's; `None` for a job that
/// no message started.
pub(in crate::flows) fn address_of_job(job: &jobs::Job) -> Option<Address> {
    match &job.agent {
        Some(agent) => Some(Address::Agent(agent.clone())),
        None => job.message_id.is_some().then(|| address(&job.kind, job.root())),
    }
}

/// Returns the address that an actor writes from; `None` for the script, and for a job that no
/// message started.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn address_of(c: &Connection, actor: &Actor) -> Result<Option<Address>> {
    match actor {
        Actor::Person(id) => {
            // The operator's name may not be a valid address; then nobody can reply.
            let name = people::find(c, id)?.map(|person| person.name);
            Ok(name.filter(|it| is_person_name(it)).map(Address::Person))
        }
        Actor::Job(id) => {
            let job = jobs::find_brief(c, &jobs::Viewer::Program, id)?;
            Ok(address_of_job(&job))
        }
        _ => Ok(None),
    }
}
