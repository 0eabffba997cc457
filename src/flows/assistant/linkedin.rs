//! A person's sign-in at LinkedIn, with the site's app.
//!
//! **Invariant:** a sign-in is finished by the person who began it, once, within ten minutes.

use crate::api::chat_settings::{LinkedinAnswer, LinkedinLogin, LinkedinView};
use crate::base::{Error, Millis, Result};
use crate::flows::assistant::account::{app_of, home};
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::{Seat, seat};
use crate::flows::check::external;
use crate::flows::{Site, Works};
use crate::linkedin::{Account, Api, App, Pending, authorize_url, exchange};
use crate::people::Caller;
use crate::script::{Config, SECRET_MISSING};

/// How long before its end a sign-in is reported.
const SOON_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// Longest code and state, in bytes.
const ANSWER_BYTES_MAX: usize = 4 * 1024;

/// Returns whether people can connect LinkedIn here.
pub fn is_offered(works: &Works) -> bool {
    app_of(&works.config).is_ok()
}

/// Reads the secrets of the app, which may have changed.
fn read(config: &Config) -> Result<App> {
    let (app, env) = (app_of(config)?, external::environment());
    Ok(App {
        id: app.client_id.read(&config.folder, &env)?,
        secret: app.client_secret.read(&config.folder, &env)?,
        redirect: app.redirect.clone(),
        reads_comments: app.reads_comments,
    })
}

fn seat_in_person<'a>(site: &'a Site, caller: &Caller) -> Result<Seat<'a>> {
    caller.in_person()?;
    let seat = seat(site, caller)?;
    app_of(&site.config)?;
    Ok(seat)
}

/// Returns the caller's sign-in.
///
/// # Errors
/// As the seat; `not_found` with code `no_linkedin`; `unavailable`.
pub fn state(works: &Works, caller: &Caller) -> Result<LinkedinView> {
    let seat = seat(works, caller)?;
    app_of(&works.config)?;
    let (home, now) = (home(&works.config, &seat.person), works.store.clock().now());
    let url = match Pending::load(home.path(), now)? {
        Some(pending) => match read(&works.config) {
            Ok(app) => Some(authorize_url(&app, &pending.state)?),
            // Health and *Connect* say so; the rest of the page does without.
            Err(cause) if cause.code_str() == SECRET_MISSING => None,
            Err(cause) => return Err(cause),
        },
        None => None,
    };
    Ok(view(Account::load(home.path())?, url, now))
}

fn view(account: Option<Account>, url: Option<String>, now: Millis) -> LinkedinView {
    let Some(account) = account else {
        let state = "not_connected".to_owned();
        return LinkedinView { state, name: None, expires_at: None, scopes: Vec::new(), url };
    };
    let state = match account.expires_at {
        _ if account.is_refused => "refused",
        at if at <= now => "expired",
        at if at <= now.plus(SOON_MS) => "expires_soon",
        _ => "connected",
    };
    LinkedinView {
        state: state.to_owned(),
        name: Some(account.name),
        expires_at: Some(account.expires_at),
        scopes: account.scopes,
        url,
    }
}

/// Begins a sign-in for the caller; an earlier one in progress can no longer be finished.
///
/// # Errors
/// As [`state`]; `forbidden` with code `token_forbidden`; `unavailable` with code `secret_missing`.
pub async fn begin(site: &Site, caller: &Caller) -> Result<LinkedinLogin> {
    let seat = seat_in_person(site, caller)?;
    let app = read(&site.config)?;
    let (home, now) = (home(&site.config, &seat.person), site.store.clock().now());
    let pending = on_disk(move || Pending::begin(home.path(), now)).await?;
    Ok(LinkedinLogin { url: authorize_url(&app, &pending.state)?, expires_at: pending.until })
}

/// Finishes the caller's sign-in with what LinkedIn answered.
///
/// # Errors
/// As [`begin`]; `conflict` with codes `login_ended` and `linkedin_code`; `unavailable` with codes
/// `linkedin_app` and `linkedin_unreachable`; `invalid` with code `bad_parameter`.
pub async fn finish(site: &Site, caller: &Caller, given: LinkedinAnswer) -> Result<LinkedinView> {
    let seat = seat_in_person(site, caller)?;
    let is_fine = |it: &str| {
        (1..=ANSWER_BYTES_MAX).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_graphic())
    };
    if !is_fine(&given.code) || !is_fine(&given.state) {
        return Err(Error::invalid("this is not LinkedIn's answer").code("bad_parameter"));
    }
    let (version, app) = (app_of(&site.config)?.version.clone(), read(&site.config)?);
    let (own, now) = (home(&site.config, &seat.person), site.store.clock().now());
    on_disk(move || Pending::finish(own.path(), &given.state, now)).await?;
    let api = Api { client: &site.outbound, version: &version, now };
    let account = exchange(&api, &app, &given.code).await?;
    let own = home(&site.config, &seat.person);
    let kept = account.clone();
    on_disk(move || kept.keep(own.path())).await?;
    Ok(view(Some(account), None, now))
}

/// Removes the caller's sign-in. Returns whether there was one.
///
/// # Errors
/// As [`state`]; `forbidden` with code `token_forbidden`.
pub async fn sign_out(site: &Site, caller: &Caller) -> Result<bool> {
    let seat = seat_in_person(site, caller)?;
    let home = home(&site.config, &seat.person);
    on_disk(move || Account::forget(home.path())).await
}
