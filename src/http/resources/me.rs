//! The caller.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::people::{Me, ShownPerson};
use crate::base::Result;
use crate::http::{Edge, get, reply};
use crate::people::{Caller, Person};

impl From<Person> for ShownPerson {
    fn from(person: Person) -> ShownPerson {
        let Person { id, name, display_name, role, .. } = person;
        ShownPerson { id, name, display_name, role }
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
