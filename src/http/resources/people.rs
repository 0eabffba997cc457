//! People and their tokens.

use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::Site;
use crate::flows::people::tokens::TokenRequest;
use crate::flows::people::{self, People, PersonRequest, ProfileRequest, roles, tokens};
use crate::http::{any_of, delete, get, post, reply};
use hyper::StatusCode;

/// Largest body of these routes, in bytes.
const BODY_BYTES_MAX: usize = 4 * 1024;

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RoleRequest {
    role: String,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct TokenQuery {
    person: Option<String>,
}

/// Returns the handles of these stories, with the lanes of the script in force.
pub(in crate::http) fn works(site: &Site) -> People {
    let lanes = site.queue.capacities();
    People { store: site.store.clone(), ids: site.ids.clone(), lanes }
}

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/persons", site, async |site: Site, call| {
            reply::ok(&people::list(&works(&site), &call.caller()?).await?)
        }),
        post("/api/persons", site, async |site: Site, mut call| {
            let request: PersonRequest = call.json(BODY_BYTES_MAX).await?;
            let person = people::add(&works(&site), &call.caller()?, request).await?;
            reply::json(StatusCode::CREATED, &person)
        }),
        post("/api/persons/{name}/disable", site, async |site: Site, mut call| {
            call.nothing().await?;
            reply::ok(
                &roles::disable(&works(&site), &call.caller()?, call.text_param("name")?).await?,
            )
        }),
        post("/api/persons/{name}/enable", site, async |site: Site, mut call| {
            call.nothing().await?;
            reply::ok(
                &roles::enable(&works(&site), &call.caller()?, call.text_param("name")?).await?,
            )
        }),
        post("/api/persons/{name}/role", site, async |site: Site, mut call| {
            let RoleRequest { role } = call.json(BODY_BYTES_MAX).await?;
            let name = call.text_param("name")?;
            reply::ok(&roles::set_role(&works(&site), &call.caller()?, name, &role).await?)
        }),
        post("/api/persons/{name}/profile", site, async |site: Site, mut call| {
            let request: ProfileRequest = call.json(BODY_BYTES_MAX).await?;
            let name = call.text_param("name")?;
            reply::ok(&people::set_profile(&works(&site), &call.caller()?, name, request).await?)
        }),
        get("/api/tokens", site, async |site: Site, call| {
            let TokenQuery { person } = call.query()?;
            reply::ok(&tokens::list(&works(&site), &call.caller()?, person).await?)
        }),
        post("/api/tokens", site, async |site: Site, mut call| {
            let request: TokenRequest = call.json(BODY_BYTES_MAX).await?;
            let made = tokens::create(&works(&site), &call.caller()?, request).await?;
            reply::json(StatusCode::CREATED, &made)
        }),
        delete("/api/tokens/{id}", site, async |site: Site, mut call| {
            call.nothing().await?;
            let id = call.param("id")?;
            reply::ok(&tokens::revoke(&works(&site), &call.caller()?, &id).await?)
        }),
    ])
}
