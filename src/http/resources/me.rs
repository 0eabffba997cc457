//! Who the caller is.

use serde::Serialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Actor, JobId, PersonId, Result};
use crate::http::{Edge, get, reply};
use crate::people::{Caller, Person, Role};

/// The caller as the site knows it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::http) struct Me {
    actor: Actor,
    person: Option<Shown>,
    job_id: Option<JobId>,
}

/// A person as others see them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ShownPerson"))]
pub(in crate::http) struct Shown {
    id: PersonId,
    name: String,
    display_name: String,
    role: Role,
}

impl From<Person> for Shown {
    fn from(person: Person) -> Shown {
        let Person { id, name, display_name, role, .. } = person;
        Shown { id, name, display_name, role }
    }
}

pub(in crate::http) fn routes(_edge: &Edge) -> BoxedFilter<(Response,)> {
    get("/api/me", &(), async |(), call| reply::ok(&me(call.caller()?).await?))
}

async fn me(caller: Caller) -> Result<Me> {
    let actor = caller.actor();
    Ok(match caller {
        Caller::Person { person, .. } => Me { actor, person: Some(person.into()), job_id: None },
        Caller::Job { id, .. } => Me { actor, person: None, job_id: Some(id) },
    })
}
