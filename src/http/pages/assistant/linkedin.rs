//! The page on which a person connects LinkedIn.

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::chat_settings::{LinkedinAnswer, LinkedinView};
use crate::base::{Error, ErrorKind, Millis, Result, truncate_chars};
use crate::flows::Site;
use crate::flows::assistant::linkedin;
use crate::http::pages::Frame;
use crate::http::pages::parts::form;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::{Call, any_of, get, post, reply};

/// Longest body of a form, in bytes: each may be escaped by three.
const FORM_BYTES_MAX: usize = 32 * 1024;
/// Most characters shown of a refusal.
const REFUSAL_CHARS_MAX: usize = 300;
/// The page.
const AT: &str = "/linkedin";

#[derive(Template)]
#[template(path = "linkedin.html")]
struct LinkedinPage {
    frame: Frame,
    view: LinkedinView,
    came: Option<Came>,
}

/// With what LinkedIn led a person back.
enum Came {
    /// The answer, which the person still confirms.
    Answer(LinkedinAnswer),
    /// The refusal, and what to do, if that is known.
    Refused(String, Option<String>),
}

/// The query of LinkedIn's redirect. LinkedIn may add to it.
#[derive(Deserialize)]
struct CallbackQuery {
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    error_description: Option<String>,
}

impl LinkedinPage {
    /// Returns when the sign-in expires.
    fn expires(&self) -> Option<Millis> {
        self.view.expires_at
    }

    /// Returns whether the account can be used.
    fn is_connected(&self) -> bool {
        matches!(self.view.state.as_str(), "connected" | "expires_soon")
    }
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/linkedin", site, async |site: Site, call: Call| page(&site, &call, None)),
        post("/linkedin", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let outcome = linkedin::begin(&site, &call.caller()?).await;
            form::answer(outcome, |_| AT.to_owned(), AT.to_owned(), None)
        }),
        get("/linkedin/callback", site, async |site: Site, call: Call| {
            let query: CallbackQuery = call.query()?;
            let came = match (query.state, query.code) {
                (Some(state), Some(code)) => Came::Answer(LinkedinAnswer { state, code }),
                _ => {
                    let why = query.error_description.or(query.error).unwrap_or_default();
                    Came::Refused(truncate_chars(&why, REFUSAL_CHARS_MAX), None)
                }
            };
            page(&site, &call, Some(came))
        }),
        post("/linkedin/finish", site, async |site: Site, mut call: Call| {
            let given: LinkedinAnswer = call.form(FORM_BYTES_MAX).await?;
            match linkedin::finish(&site, &call.caller()?, given).await {
                Ok(_) => reply::see_other(AT),
                // Without a seat there is no page that could say so.
                Err(cause) if cause.kind() == ErrorKind::Forbidden => Err(cause),
                Err(cause) => refused(&site, &call, &cause),
            }
        }),
        post("/linkedin/sign-out", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let outcome = linkedin::sign_out(&site, &call.caller()?).await;
            form::answer(outcome, |_| AT.to_owned(), AT.to_owned(), None)
        }),
    ])
}

fn page(site: &Site, call: &Call, came: Option<Came>) -> Result<Response> {
    reply::page(&shown(site, call, came)?)
}

/// Returns the page that says why an account was not connected.
fn refused(site: &Site, call: &Call, cause: &Error) -> Result<Response> {
    let hint = cause.hint_str().map(str::to_owned);
    let came = Came::Refused(cause.message().to_owned(), hint);
    reply::refused(&shown(site, call, Some(came))?, cause)
}

fn shown(site: &Site, call: &Call, came: Option<Came>) -> Result<LinkedinPage> {
    let (frame, caller) = Frame::of(site, call, "/assistant")?;
    let view = linkedin::state(site, &caller)?;
    Ok(LinkedinPage { frame, view, came })
}
