//! Signing in by a one-time link, and signing out.
//!
//! **Invariant:** a GET never uses a code up: mail scanners and previews follow links.

use hyper::StatusCode;
use hyper::header::{COOKIE, HeaderValue, SET_COOKIE};
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::Done;
use crate::api::people::{LoggedIn, LoginLink};
use crate::base::{Error, ErrorKind, PersonId, Result};
use crate::flows;
use crate::http::pages::parts::message::LoginPage;
use crate::http::pages::{Frame, Look};
use crate::http::{Edge, any_of, get, post, reply};
use crate::people::{self, BAD_CODE, Caller, LOGIN_TTL_MS, Person};

/// Largest body of these routes, in bytes.
const BODY_BYTES_MAX: usize = crate::base::limit::LOGIN_BODY_BYTES_MAX;

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Code {
    code: String,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct LinkRequest {
    person: Option<String>,
}

pub(in crate::http) fn routes(edge: &Edge) -> BoxedFilter<(Response,)> {
    any_of([
        get("/login/{code}", edge, async |edge, call| {
            let look = Look::of(call.header(COOKIE.as_str()));
            show(&edge, call.text_param("code")?, look)
        }),
        post("/api/login", edge, async |edge, mut call| {
            let is_form = call.is_form();
            let Code { code } = if is_form {
                call.form(BODY_BYTES_MAX).await?
            } else {
                call.json(BODY_BYTES_MAX).await?
            };
            let (person, secret) = login(&edge, code).await?;
            let response = if is_form {
                reply::see_other("/")?
            } else {
                reply::ok(&LoggedIn { person: person.into() })?
            };
            with_cookie(response, &edge.gate.cookie_name, &secret, LOGIN_TTL_MS / 1000)
        }),
        post("/api/logout", edge, async |edge, mut call| {
            call.nothing().await?;
            logout(&edge, call.login_hash()).await?;
            let response = if call.is_form() {
                reply::see_other("/")?
            } else {
                reply::json(StatusCode::OK, &Done {})?
            };
            with_cookie(response, &edge.gate.cookie_name, "", 0)
        }),
        post("/api/login-links", edge, async |edge, mut call| {
            let person = match call.is_json() {
                true => call.json::<LinkRequest>(BODY_BYTES_MAX).await?.person,
                false => call.nothing().await.map(|()| None)?,
            };
            reply::ok(&new_link(&edge, &call.caller()?, person).await?)
        }),
    ])
}

/// Returns a new login link for a person.
///
/// # Errors
/// `unavailable` with code `no_address` if the site has no TCP address.
pub fn login_link(edge: &Edge, person: &PersonId) -> Result<LoginLink> {
    let Some(base) = &edge.gate.login_base else {
        return Err(Error::unavailable("the site has no address for browsers")
            .code("no_address")
            .hint("set `listen` in the script"));
    };
    let (code, expires_at) = edge.codes.issue(person, edge.store.clock().now())?;
    Ok(LoginLink { url: format!("{base}/login/{code}"), expires_at })
}

fn show(edge: &Edge, code: &str, look: Look) -> Result<Response> {
    if !edge.codes.is_alive(code, edge.store.clock().now()) {
        return Err(Error::not_found("this link was already used or has expired")
            .code(BAD_CODE)
            .hint("links work once and expire after ten minutes; request a new one"));
    }
    reply::page(&LoginPage { frame: Frame::outside(&edge.gate.site_name, look), code })
}

async fn login(edge: &Edge, code: String) -> Result<(Person, String)> {
    let person = edge.codes.redeem(&code, edge.store.clock().now())?;
    let made = move |tx: &crate::store::Tx<'_>| {
        let found = people::find(tx.connection(), &person)?;
        let found = found.filter(|it| it.disabled_at.is_none()).ok_or_else(|| {
            Error::new(ErrorKind::Unauthenticated, "this person is not active").code(BAD_CODE)
        })?;
        Ok((found, people::create_login(tx, &person)?))
    };
    edge.store.write(made).await
}

async fn logout(edge: &Edge, hash: Option<String>) -> Result<()> {
    let Some(hash) = hash else { return Ok(()) };
    edge.store.write(move |tx| people::end_login(tx, &hash)).await
}

/// A link for the caller, or, for an admin, for a person by name.
async fn new_link(edge: &Edge, caller: &Caller, person: Option<String>) -> Result<LoginLink> {
    let own = caller.in_person()?;
    let Some(name) = person.filter(|it| *it != own.name) else {
        return login_link(edge, &own.id);
    };
    caller.may_administer()?;
    let person = edge.store.read(move |c| flows::people::named(c, &name)).await?;
    if person.disabled_at.is_some() {
        return Err(Error::conflict("not_active", format!("{} is disabled", person.name))
            .hint("enable the person first: wiki-browser person enable"));
    }
    if person.is_external {
        let message = format!("{} is from outside and does not sign in", person.name);
        return Err(Error::conflict("outside_person", message).hint(format!(
            "wiki-browser token create NAME --scope channel --person {}",
            person.name
        )));
    }
    login_link(edge, &person.id)
}

/// Not `Secure`: the site uses plain HTTP on loopback, and Safari would drop such a cookie.
fn with_cookie(
    mut response: Response,
    name: &str,
    secret: &str,
    max_age_s: i64,
) -> Result<Response> {
    let text = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age_s}");
    let value = HeaderValue::from_str(&text)
        .map_err(|cause| Error::internal("a cookie cannot be written").source(cause))?;
    response.headers_mut().insert(SET_COOKIE, value);
    Ok(response)
}
