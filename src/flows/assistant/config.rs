//! A person's settings, their sign-in, and whether they can ask.

use crate::api::chat_settings::{ConfigRequest, ConfigView, HealthView, ModeView, RuntimeHealth};
use crate::base::{Error, Result};
use crate::chat::{self, Home, Setting};
use crate::flows::Site;
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::run::unread;
use crate::flows::assistant::start::parse_mode;
use crate::flows::assistant::{closed, fallback, seat};
use crate::people::Caller;
use crate::script::Mode;

/// Returns the caller's settings and choices.
///
/// # Errors
/// As the seat.
pub async fn show(site: &Site, caller: &Caller) -> Result<ConfigView> {
    let seat = seat(site, caller)?;
    let chosen = site.store.look(|c| chat::setting_of(c, &seat.person.id))?.mode;
    let chosen = chosen.as_deref().and_then(Mode::parse);
    let mut modes = Vec::new();
    for mode in seat.assistant.runtimes.keys() {
        let closed = closed(site, &seat, *mode)?;
        let instead = match &closed {
            Some(closed) => fallback::instead_of(site, &seat, (*mode, closed.state))?,
            None => None,
        };
        let (why, hint) = closed.map(|it| (it.why, it.hint)).unzip();
        modes.push(ModeView {
            mode: mode.to_string(),
            available: why.is_none() || instead.is_some(),
            instead: instead.map(|it| it.to_string()),
            why,
            hint,
        });
    }
    Ok(ConfigView {
        mode: chosen.unwrap_or(seat.assistant.mode).to_string(),
        modes,
        prompt_bytes_max: seat.assistant.limits.prompt_bytes,
        running_person: seat.assistant.limits.running_person,
    })
}

/// Stores the caller's settings.
///
/// # Errors
/// As the seat; `invalid` with code `unknown_mode`.
pub async fn set(site: &Site, caller: &Caller, request: ConfigRequest) -> Result<ConfigView> {
    let person = seat(site, caller)?.person.id;
    let mode = request.mode.as_deref().map(parse_mode).transpose()?;
    if let Some(mode) = mode
        && !site.config.assistant.as_ref().is_some_and(|it| it.runtimes.contains_key(&mode))
    {
        let message = format!("this site does not have the mode {mode}");
        return Err(Error::invalid(message).code("unknown_mode").of_input("mode"));
    }
    let setting = Setting { mode: mode.map(|it| it.to_string()) };
    site.store.write(move |tx| chat::keep_setting(tx, &person, &setting)).await?;
    show(site, caller).await
}

/// Returns the state of each runtime for the caller.
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
    Ok(HealthView { runtimes, vault_problem: unread(site, caller).await? })
}

/// Stores the token of the caller's Claude subscription, for the caller's runs only.
///
/// # Errors
/// As the seat; `forbidden` with code `token_forbidden`; `invalid` with code `bad_token`.
pub async fn sign_in(site: &Site, caller: &Caller, token: String) -> Result<()> {
    caller.in_person()?;
    let seat = seat(site, caller)?;
    let home = Home::of(&site.config.site.data, &seat.person.id);
    on_disk(move || home.keep_claude_token(&token)).await
}

/// Returns whether the caller has stored such a token. Whether it still works is seen when it is
/// used.
///
/// # Errors
/// As the seat; `unavailable` if the file cannot be read.
pub async fn is_signed_in(site: &Site, caller: &Caller) -> Result<bool> {
    let home = Home::of(&site.config.site.data, &seat(site, caller)?.person.id);
    on_disk(move || Ok(home.claude_token()?.is_some())).await
}

/// Removes that token. Returns whether there was one.
///
/// # Errors
/// As [`sign_in`].
pub async fn sign_out(site: &Site, caller: &Caller) -> Result<bool> {
    caller.in_person()?;
    let seat = seat(site, caller)?;
    let home = Home::of(&site.config.site.data, &seat.person.id);
    on_disk(move || home.forget_claude_token()).await
}
