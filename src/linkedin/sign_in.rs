//! The sign-in with a site's LinkedIn app.

use bytes::Bytes;
use serde::Deserialize;

use crate::base::{Error, Result};
use crate::linkedin::account::Account;
use crate::linkedin::api::{ANSWER_BYTES_MAX, Api, WAIT, parsed};
use crate::linkedin::base;
use crate::outbound::{Body, Request};

/// The host where people sign in.
const WWW: &str = "www.linkedin.com";
/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 4 * 1024;
/// The permissions of every sign-in: who it is, and publishing.
const SCOPES: &str = "openid profile w_member_social";
/// Longest believable sign-in, in seconds.
const LIFE_S_MAX: i64 = 10 * 365 * 24 * 3_600;

/// A site's app.
#[derive(Clone)]
pub struct App {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: String,
    /// Where LinkedIn leads people back to.
    pub redirect: String,
    /// Whether it may read comments.
    pub reads_comments: bool,
}

/// Returns where a person signs in.
///
/// # Errors
/// `internal` if the address cannot be written.
pub fn authorize_url(app: &App, state: &str) -> Result<String> {
    let scope = if app.reads_comments { " r_member_social" } else { "" };
    let query = form(&[
        ("response_type", "code"),
        ("client_id", &app.id),
        ("redirect_uri", &app.redirect),
        ("state", state),
        ("scope", &format!("{SCOPES}{scope}")),
    ])?;
    Ok(base(WWW)?.join(&format!("/oauth/v2/authorization?{query}")))
}

/// Exchanges the code that LinkedIn gave a person for their account.
///
/// # Errors
/// `conflict` with code `linkedin_code` if LinkedIn refuses the code; `unavailable` with codes
/// `linkedin_app` and `linkedin_unreachable`.
pub async fn exchange(api: &Api<'_>, app: &App, code: &str) -> Result<Account> {
    let body = form(&[
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", &app.redirect),
        ("client_id", &app.id),
        ("client_secret", &app.secret),
    ])?;
    let base = base(WWW)?;
    let request = Request {
        base: &base,
        path: "/oauth/v2/accessToken",
        headers: &[("accept", "application/json")],
        secret: None,
        body: Body::Form(Bytes::from(body)),
    };
    let lost = |what: &str| {
        Error::unavailable(format!("LinkedIn cannot be reached: {what}"))
            .code("linkedin_unreachable")
            .hint("connect LinkedIn again in a minute")
    };
    let answer = api.client.send(&request, WAIT).await;
    let answer = answer.map_err(|_| lost("no answer to the sign-in"))?;
    let status = answer.status();
    let body = answer.text(ANSWER_BYTES_MAX, WAIT).await;
    let body = body.map_err(|_| lost("the answer was cut off"))?;
    if status != 200 {
        // A proxy's page about an error is no JSON; the status says enough.
        let told: Refusal = serde_json::from_str(&body).unwrap_or_default();
        return Err(refused(status, told.error.as_deref().unwrap_or_default()));
    }
    let told: Granted = parsed(&body)?;
    let is_token = |it: &String| {
        (1..=TOKEN_BYTES_MAX).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_graphic())
    };
    let token = told.access_token.filter(is_token).ok_or_else(|| refused(status, ""))?;
    let life_s = told.expires_in.clamp(0, LIFE_S_MAX);
    let words = told.scope.split([',', ' ']).filter(|it| !it.is_empty() && it.len() < 100);
    let (urn, name) = api.whoami(&token).await?;
    Ok(Account {
        token,
        urn,
        name,
        scopes: words.take(20).map(str::to_owned).collect(),
        expires_at: api.now.plus(life_s * 1_000),
        is_refused: false,
    })
}

/// The answer to a code.
#[derive(Deserialize)]
struct Granted {
    access_token: Option<String>,
    #[serde(default)]
    expires_in: i64,
    #[serde(default)]
    scope: String,
}

/// The answer to a code that is refused.
#[derive(Default, Deserialize)]
struct Refusal {
    error: Option<String>,
}

fn refused(status: u16, word: &str) -> Error {
    match (status, word) {
        (_, "invalid_client" | "unauthorized_client") | (401, _) => {
            Error::unavailable("LinkedIn does not accept the site's app")
                .code("linkedin_app")
                .hint("an admin checks client_id and client_secret in `linkedin` of wb.assistant")
        }
        (500.., _) => Error::unavailable(format!("LinkedIn cannot be reached: status {status}"))
            .code("linkedin_unreachable")
            .hint("connect LinkedIn again in a minute"),
        _ => Error::conflict("linkedin_code", "LinkedIn refused the sign-in")
            .hint("connect LinkedIn again; an admin checks `redirect` if this repeats"),
    }
}

fn form(fields: &[(&str, &str)]) -> Result<String> {
    serde_urlencoded::to_string(fields)
        .map_err(|cause| Error::internal("a form cannot be written").source(cause))
}
