//! Whether a person's assistant can work: what answers, their vault, the gateway and LinkedIn.

use crate::api::chat_settings::{HealthView, LinkedinView, PartHealth, RuntimeHealth};
use crate::base::{Error, Result};
use crate::chat::Standing;
use crate::flows::Site;
use crate::flows::assistant::gateway::service;
use crate::flows::assistant::run::unread;
use crate::flows::assistant::{Seat, closed, linkedin, seat, vault};
use crate::people::Caller;
use crate::script::{Mode, SECRET_MISSING};

/// Returns the state of all that the caller's assistant needs.
///
/// # Errors
/// As the seat.
pub async fn health(site: &Site, caller: &Caller) -> Result<HealthView> {
    let seat = seat(site, caller)?;
    let mut runtimes = Vec::new();
    for mode in seat.assistant.runtimes.keys() {
        runtimes.push(match closed(site, &seat, *mode)? {
            None => RuntimeHealth {
                mode: mode.to_string(),
                state: "ready".to_owned(),
                problem: None,
                hint: None,
            },
            Some(closed) => RuntimeHealth {
                mode: mode.to_string(),
                state: closed.state.to_owned(),
                problem: Some(closed.why),
                hint: Some(closed.hint),
            },
        });
    }
    let (vault, vault_problem) = vault_health(site, caller, &seat).await?;
    let (gateway, linkedin) = (gateway_health(site, &seat), linkedin_health(site, caller)?);
    Ok(HealthView { runtimes, vault_problem, vault, gateway, linkedin })
}

fn broken(state: &str, cause: &Error) -> PartHealth {
    PartHealth {
        state: state.to_owned(),
        problem: Some(cause.message().to_owned()),
        hint: cause.hint_str().map(str::to_owned),
    }
}

/// Returns the state of the vault, and what of the texts in it cannot be read.
async fn vault_health(
    site: &Site,
    caller: &Caller,
    seat: &Seat<'_>,
) -> Result<(PartHealth, Option<String>)> {
    if seat.assistant.tools.is_empty() {
        return Ok((PartHealth::well("unused"), None));
    }
    let opened = vault::within(site, seat.person.clone(), |vault| vault.list(None).map(|_| ()));
    let vault = match opened.await {
        Ok(()) => PartHealth::well("ready"),
        Err(cause) => broken(cause.code_str(), &cause),
    };
    Ok((vault, unread(site, caller).await?))
}

fn gateway_health(site: &Site, seat: &Seat<'_>) -> Option<PartHealth> {
    if !seat.assistant.runtimes.contains_key(&Mode::GatewaySubscription) {
        return None;
    }
    if let Some(cause) = service::missing(&site.config) {
        return Some(broken("not_installed", &cause));
    }
    Some(match site.gateway.standing() {
        Standing::Asleep => PartHealth::well("asleep"),
        Standing::Starting => PartHealth::well("starting"),
        Standing::Ready(_) => PartHealth::well("ready"),
        Standing::Broken(_, problem, hint) => PartHealth {
            state: "broken".to_owned(),
            problem: Some(problem),
            hint: Some(hint).filter(|it| !it.is_empty()),
        },
    })
}

fn linkedin_health(site: &Site, caller: &Caller) -> Result<Option<PartHealth>> {
    if !linkedin::is_offered(site) {
        return Ok(None);
    }
    Ok(Some(match linkedin::state(site, caller) {
        Ok(view) => account(view),
        // A sign-in in progress cannot go on without the app's secrets.
        Err(cause) if cause.code_str() == SECRET_MISSING => broken(SECRET_MISSING, &cause),
        Err(cause) => return Err(cause),
    }))
}

fn account(view: LinkedinView) -> PartHealth {
    let problem = match view.state.as_str() {
        "expires_soon" => Some("the sign-in at LinkedIn expires soon"),
        "expired" => Some("the sign-in at LinkedIn has expired"),
        "refused" => Some("LinkedIn no longer accepts the sign-in"),
        _ => None,
    };
    let hint = problem.map(|_| "connect LinkedIn again on the page /linkedin".to_owned());
    PartHealth { state: view.state, problem: problem.map(str::to_owned), hint }
}
