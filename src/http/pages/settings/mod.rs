//! The settings: the active script, errors of the file on disk, people, tokens, and display
//! preferences.

pub(in crate::http::pages) mod people;

use askama::Template;
use hyper::header::SET_COOKIE;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::config::ConfigView;
use crate::api::people::{TokenMade, TokenView};
use crate::api::usage::EngineRow;
use crate::base::{Error, Result, TokenId};
use crate::flows::people::tokens::{self, TokenRequest};
use crate::flows::search::Progress;
use crate::flows::{self, Site};
use crate::http::pages::parts::form;
use crate::http::pages::parts::labels::{State, Tone};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::{Frame, Look};
use crate::http::resources::people::works;
use crate::http::{Call, any_of, get, post, reply};
use crate::people::{Caller, Person, Token, TokenScope};

const BODY_BYTES_MAX: usize = crate::base::limit::LOGIN_BODY_BYTES_MAX;
const DAY_MS: u64 = 24 * 3_600_000;

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    frame: Frame,
    config: ConfigView,
    disk: Option<OnDisk>,
    engines: Vec<EngineRow>,
    index: Progress,
    trouble: Option<String>,
    persons: Option<Vec<Person>>,
    /// The reader: nobody can disable themselves.
    own_name: String,
    /// The reader in a browser, who may change their own name.
    own: Option<Person>,
    tokens: Option<Vec<TokenView>>,
    /// Whether the reader sees the server's file paths.
    is_admin: bool,
}

#[derive(Template)]
#[template(path = "token.html")]
struct TokenPage {
    frame: Frame,
    made: TokenMade,
}

/// The result of loading the script on disk.
struct OnDisk {
    /// Its errors, with positions.
    report: Option<String>,
    is_in_force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LookForm {
    theme: String,
    /// Present if it is ticked.
    keys: Option<String>,
    /// Present if it is ticked.
    documents: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenForm {
    name: String,
    /// The highest scope: `read`, `write` or `decide`.
    may: String,
    /// Days until it expires; empty for never.
    days: String,
}

impl SettingsPage {
    fn state(&self, token: &Token) -> State {
        match (&token.revoked_at, self.works(token)) {
            (Some(_), _) => State(Tone::Quiet, "Revoked"),
            (None, false) => State(Tone::Quiet, "Expired"),
            (None, true) => State(Tone::Good, "Active"),
        }
    }

    fn works(&self, token: &Token) -> bool {
        let is_over = token.expires_at.is_some_and(|at| at <= self.frame.now());
        token.revoked_at.is_none() && !is_over
    }

    fn scopes(&self, token: &Token) -> String {
        words(&token.scopes)
    }
}

impl TokenPage {
    fn scopes(&self) -> String {
        words(&self.made.scopes)
    }
}

fn words(scopes: &[TokenScope]) -> String {
    let words: Vec<&str> = scopes.iter().map(|it| it.as_str()).collect();
    words.join(", ")
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/settings", site, show),
        post("/settings/look", site, look),
        post("/settings/tokens", site, create_token),
        post("/settings/tokens/{id}/revoke", site, revoke_token),
    ])
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/settings")?;
    let works = works(&site);
    let is_admin = caller.may_administer().is_ok();
    let persons = match is_admin {
        true => Some(flows::people::list(&works, &caller).await?.items),
        false => None,
    };
    let tokens = match caller.in_person() {
        Ok(_) => Some(tokens::list(&works, &caller, None).await?.items),
        Err(_) => None,
    };
    let engines = flows::jobs::usage::engines(&site, &caller).await?;
    let trouble = site.store.trouble().or_else(|| site.queue.no_room());
    let trouble = trouble.map(|it| match &it.hint {
        Some(hint) => format!("{}: {hint}", it.message),
        None => it.message,
    });
    reply::page(&SettingsPage {
        config: flows::site::config::show(&site, None).await?,
        disk: if is_admin { Some(on_disk(&site).await?) } else { None },
        engines: engines.items,
        index: flows::search::progress(&site, &caller)?,
        trouble,
        persons,
        own_name: caller.person()?.name.clone(),
        own: caller.in_person().ok().cloned(),
        tokens,
        is_admin,
        frame,
    })
}

/// Checks the script as a reload would, for an admin, who may also run it.
async fn on_disk(site: &Site) -> Result<OnDisk> {
    let judged = flows::automation::reload::judge(site, &site.scripts.current()).await?;
    Ok(match judged {
        Ok(it) => OnDisk { report: None, is_in_force: it.config.digest == site.config.digest },
        Err(report) => OnDisk { report: Some(report.to_string()), is_in_force: false },
    })
}

async fn look(_site: Site, mut call: Call) -> Result<Response> {
    call.caller()?.person()?;
    let LookForm { theme, keys, documents } = call.form(BODY_BYTES_MAX).await?;
    let look = Look::new(&theme, keys.is_some(), documents.is_some())?;
    let mut response = reply::see_other("/settings#look")?;
    response.headers_mut().insert(SET_COOKIE, look.cookie()?);
    Ok(response)
}

async fn create_token(site: Site, mut call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/settings")?;
    let asked: TokenForm = call.form(BODY_BYTES_MAX).await?;
    let typed = Some(asked.name.clone());
    match make_token(&site, &caller, asked).await {
        Ok(made) => reply::page(&TokenPage { frame, made }),
        Err(error) => form::answer(Err::<(), _>(error), |()| String::new(), back(), typed),
    }
}

fn back() -> String {
    "/settings#tokens".to_owned()
}

async fn make_token(site: &Site, caller: &Caller, asked: TokenForm) -> Result<TokenMade> {
    let most = TokenScope::ALL.iter().position(|it| it.as_str() == asked.may);
    let scopes = most
        .and_then(|it| TokenScope::ALL.get(..=it))
        .ok_or_else(|| Error::invalid("unknown access level").hint("use read, write or decide"))?;
    let days = asked.days.trim();
    let days: Option<u64> = match days.is_empty() {
        true => None,
        false => Some(days.parse().map_err(|_| {
            Error::invalid("the number of days is not a number")
                .hint("enter a number such as 90, or leave it empty for never")
        })?),
    };
    let request = TokenRequest {
        name: asked.name.trim().to_owned(),
        scopes: scopes.to_vec(),
        person: None,
        expires_in_ms: days.map(|it| it.saturating_mul(DAY_MS)),
    };
    tokens::create(&works(site), caller, request).await
}

async fn revoke_token(site: Site, mut call: Call) -> Result<Response> {
    call.nothing().await?;
    let (caller, id) = (call.caller()?, call.param::<TokenId>("id")?);
    let outcome = tokens::revoke(&works(&site), &caller, &id).await;
    form::answer(outcome, |_| back(), back(), None)
}
