//! The people of the site and their tokens.

use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::people::{self, People, PersonRequest, TokenRequest};
use crate::http::{Edge, any_of, delete, get, post, reply};
use crate::jobs::Capacities;
use hyper::StatusCode;

/// Largest body of these routes, in bytes.
const BODY_BYTES_MAX: usize = 4 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleRequest {
    role: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenQuery {
    person: Option<String>,
}

pub(super) fn routes(edge: &Edge, lanes: &Capacities) -> BoxedFilter<(Response,)> {
    let site = People { store: edge.store.clone(), ids: edge.ids.clone(), lanes: lanes.clone() };
    any_of([
        get("/api/persons", &site, async |site: People, call| {
            reply::ok(&people::list(&site, &call.caller()?).await?)
        }),
        post("/api/persons", &site, async |site: People, mut call| {
            let request: PersonRequest = call.json(BODY_BYTES_MAX).await?;
            let person = people::add(&site, &call.caller()?, request).await?;
            reply::json(StatusCode::CREATED, &person)
        }),
        post("/api/persons/{name}/disable", &site, async |site: People, mut call| {
            call.nothing().await?;
            reply::ok(&people::disable(&site, &call.caller()?, call.text_param("name")?).await?)
        }),
        post("/api/persons/{name}/enable", &site, async |site: People, mut call| {
            call.nothing().await?;
            reply::ok(&people::enable(&site, &call.caller()?, call.text_param("name")?).await?)
        }),
        post("/api/persons/{name}/role", &site, async |site: People, mut call| {
            let RoleRequest { role } = call.json(BODY_BYTES_MAX).await?;
            let name = call.text_param("name")?;
            reply::ok(&people::set_role(&site, &call.caller()?, name, &role).await?)
        }),
        get("/api/tokens", &site, async |site: People, call| {
            let TokenQuery { person } = call.query()?;
            reply::ok(&people::list_tokens(&site, &call.caller()?, person).await?)
        }),
        post("/api/tokens", &site, async |site: People, mut call| {
            let request: TokenRequest = call.json(BODY_BYTES_MAX).await?;
            let made = people::create_token(&site, &call.caller()?, request).await?;
            reply::json(StatusCode::CREATED, &made)
        }),
        delete("/api/tokens/{id}", &site, async |site: People, mut call| {
            call.nothing().await?;
            let id = call.param("id")?;
            reply::ok(&people::revoke_token(&site, &call.caller()?, &id).await?)
        }),
    ])
}
