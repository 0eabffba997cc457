//! A person's sign-in to the gateway, which keeps it, and ends one that takes too long
//! (`scripts/pi-gateway/main.mjs`).

use serde_json::{Value, json};

use crate::api::chat_settings::{GatewayAnswer, GatewayLogin};
use crate::base::{Error, Result, truncate_chars};
use crate::chat::is_signed_in;
use crate::flows::assistant::{Seat, seat};
use crate::flows::{Site, Works};
use crate::people::Caller;
use crate::script::{Mode, Subscribed};

/// Longest URL of a provider, in bytes.
const URL_BYTES_MAX: usize = 8 * 1024;
/// Longest id of a sign-in, in bytes.
const ID_BYTES_MAX: usize = 64;

/// Returns the model that the caller's subscription is for.
fn model<'a>(works: &'a Works, seat: &Seat<'_>) -> Result<&'a Subscribed> {
    let engine = seat.assistant.runtimes.get(&Mode::GatewaySubscription);
    let engine = engine.and_then(|it| works.config.engines.get(it));
    engine.and_then(|it| it.subscribed()).ok_or_else(|| {
        Error::not_found("this site has no gateway")
            .code("no_gateway")
            .hint("an admin declares it: runtimes = { gateway_subscription = … }")
    })
}

/// Returns whose subscription the caller can use, and whether they are signed in.
///
/// # Errors
/// As the seat; `not_found` with code `no_gateway`.
pub fn state(works: &Works, caller: &Caller) -> Result<(&'static str, bool)> {
    let seat = seat(works, caller)?;
    let provider = model(works, &seat)?.provider;
    Ok((provider, is_signed_in(&works.config.site.data, &seat.person.id, provider)?))
}

/// Starts a sign-in for the caller, and ends an earlier open one.
///
/// # Errors
/// As the seat; `forbidden` with code `token_forbidden`; `not_found` with code `no_gateway`;
/// `unavailable` with codes `gateway_down` and `login_failed`.
pub async fn begin(site: &Site, caller: &Caller) -> Result<GatewayLogin> {
    caller.in_person()?;
    let seat = seat(site, caller)?;
    let provider = model(site, &seat)?.provider;
    let body = json!({"person": seat.person.id, "provider": provider});
    read(&site.gateway.ask("POST", "/v1/login", &body).await?)
}

/// Returns the state of the caller's sign-in.
///
/// # Errors
/// As [`begin`]; `not_found` with code `no_login`.
pub async fn look(site: &Site, caller: &Caller, id: &str) -> Result<GatewayLogin> {
    caller.in_person()?;
    let seat = seat(site, caller)?;
    model(site, &seat)?;
    let path = format!("/v1/login/{}?person={}", checked(id)?, seat.person.id);
    read(&site.gateway.ask("GET", &path, &json!({})).await?)
}

/// Passes the text that the provider gave the caller to the sign-in.
///
/// # Errors
/// As [`look`]; `conflict` with code `login_ended`; `invalid` with code `bad_parameter`.
pub async fn answer(
    site: &Site,
    caller: &Caller,
    (id, given): (&str, GatewayAnswer),
) -> Result<GatewayLogin> {
    caller.in_person()?;
    let seat = seat(site, caller)?;
    model(site, &seat)?;
    let body = json!({"person": seat.person.id, "text": given.text});
    read(&site.gateway.ask("POST", &format!("/v1/login/{}", checked(id)?), &body).await?)
}

/// Removes the caller's sign-ins. Returns whether there was one.
///
/// # Errors
/// As [`begin`].
pub async fn sign_out(site: &Site, caller: &Caller) -> Result<bool> {
    caller.in_person()?;
    let seat = seat(site, caller)?;
    let provider = model(site, &seat)?.provider;
    let was_there = is_signed_in(&site.config.site.data, &seat.person.id, provider)?;
    let path = format!("/v1/login/{}", seat.person.id);
    site.gateway.ask("DELETE", &path, &json!({})).await?;
    Ok(was_there)
}

fn checked(id: &str) -> Result<&str> {
    let is_word = id.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
    if is_word && (1..=ID_BYTES_MAX).contains(&id.len()) {
        return Ok(id);
    }
    Err(Error::not_found("unknown sign-in; start again").code("no_login"))
}

/// Parses the gateway's response about a sign-in, which is not trusted.
fn read(told: &Value) -> Result<GatewayLogin> {
    let text = |name: &str| told[name].as_str().map(|it| truncate_chars(it, 400));
    let bad = || Error::unavailable("the gateway answers wrongly").code("gateway_down");
    let state =
        text("state").filter(|it| matches!(it.as_str(), "waiting" | "done" | "failed" | "ended"));
    // It becomes a link on a page.
    let url = told["url"].as_str().filter(|it| {
        it.starts_with("https://")
            && it.len() <= URL_BYTES_MAX
            && it.bytes().all(|byte| byte.is_ascii_graphic())
    });
    Ok(GatewayLogin {
        login_id: checked(told["login_id"].as_str().unwrap_or_default()).map_err(|_| bad())?.into(),
        provider: text("provider").ok_or_else(bad)?,
        state: state.ok_or_else(bad)?,
        url: url.map(str::to_owned),
        instructions: text("instructions"),
        problem: text("problem"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_the_gateway_leads_to_the_web_or_nowhere() {
        let read = |url: &str| {
            let told = json!({"login_id": "a-1", "provider": "p", "state": "waiting", "url": url});
            super::read(&told).unwrap().url
        };
        assert_eq!(read("https://auth.example/x?y").as_deref(), Some("https://auth.example/x?y"));
        for url in ["javascript:alert(1)", "http://x", "https://x y", ""] {
            assert_eq!(read(url), None, "{url}");
        }
        for told in [json!({}), json!({"login_id": "../x", "provider": "p", "state": "done"})] {
            assert_eq!(super::read(&told).unwrap_err().code_str(), "gateway_down");
        }
        for id in ["", "../x", "a b", "a?person=x"] {
            assert_eq!(checked(id).unwrap_err().code_str(), "no_login");
        }
    }
}
