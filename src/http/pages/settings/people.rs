//! People in the settings, as an admin edits them.

use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::Result;
use crate::flows::Site;
use crate::flows::people::{self, PersonRequest, ProfileRequest, roles};
use crate::http::pages::parts::form;
use crate::http::resources::people::works;
use crate::http::{Call, any_of, post};
use crate::people::Person;

const BODY_BYTES_MAX: usize = crate::base::limit::LOGIN_BODY_BYTES_MAX;

/// Replaces the role of a member from outside.
const OUTSIDE: &str = "outside";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPerson {
    name: String,
    /// The display name; the name if empty.
    #[serde(default)]
    display_name: String,
    /// The mail address, if known.
    #[serde(default)]
    email: String,
    role: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    display_name: String,
    email: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRole {
    role: String,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/settings/profile", site, set_profile),
        post("/settings/people", site, add),
        post("/settings/people/{name}/disable", site, disable),
        post("/settings/people/{name}/enable", site, enable),
        post("/settings/people/{name}/role", site, set_role),
    ])
}

async fn add(site: Site, mut call: Call) -> Result<Response> {
    let caller = call.caller()?;
    let NewPerson { name, display_name, email, role } = call.form(BODY_BYTES_MAX).await?;
    let name = name.trim().to_owned();
    let typed = [name.as_str(), display_name.trim(), email.trim()];
    let typed = Some(typed.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n"));
    let display_name = form::optional(&display_name);
    let is_external = role == OUTSIDE;
    let role = if is_external { "viewer".to_owned() } else { role };
    let email = form::optional(&email);
    let request = PersonRequest { name, display_name, email, role, is_external };
    answer(people::add(&works(&site), &caller, request).await, typed)
}

async fn set_profile(site: Site, mut call: Call) -> Result<Response> {
    let caller = call.caller()?;
    let Profile { display_name, email } = call.form(BODY_BYTES_MAX).await?;
    let name = caller.person()?.name.clone();
    let typed = Some(format!("{display_name}\n{email}"));
    let request = ProfileRequest { display_name: Some(display_name), email: Some(email) };
    let done = people::set_profile(&works(&site), &caller, &name, request).await;
    let at = || "/settings#you".to_owned();
    form::answer(done, |_| at(), at(), typed)
}

async fn disable(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (caller, name) = (call.caller()?, call.text_param("name")?);
    answer(roles::disable(&works(&site), &caller, name).await, None)
}

async fn enable(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (caller, name) = (call.caller()?, call.text_param("name")?);
    answer(roles::enable(&works(&site), &caller, name).await, None)
}

async fn set_role(site: Site, mut call: Call) -> Result<Response> {
    let NewRole { role } = call.form(BODY_BYTES_MAX).await?;
    let (caller, name) = (call.caller()?, call.text_param("name")?);
    answer(roles::set_role(&works(&site), &caller, name, &role).await, None)
}

fn answer(done: Result<Person>, typed: Option<String>) -> Result<Response> {
    let at = || "/settings#people".to_owned();
    form::answer(done, |_| at(), at(), typed)
}
