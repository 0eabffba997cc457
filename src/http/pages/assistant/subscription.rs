//! The sign-in of a person with their own subscription.

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::chat_settings::{GatewayAnswer, GatewayLogin};
use crate::base::Result;
use crate::flows::Site;
use crate::flows::assistant::gateway;
use crate::http::pages::Frame;
use crate::http::pages::parts::form;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// Longest body of a form, in bytes: each may be escaped by three.
const FORM_BYTES_MAX: usize = 32 * 1024;
/// Its state.
const AT: &str = "/subscription";

#[derive(Template)]
#[template(path = "subscription.html")]
struct SubscriptionPage {
    frame: Frame,
    provider: &'static str,
    is_signed_in: bool,
    login: Option<GatewayLogin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerForm {
    text: String,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/subscription", site, async |site: Site, call: Call| {
            page(&site, Frame::of(&site, &call, "/assistant")?, None)
        }),
        post("/subscription", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let outcome = gateway::begin(&site, &call.caller()?).await;
            form::answer(outcome, |it| at(&it), AT.to_owned(), None)
        }),
        post("/subscription/sign-out", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let outcome = gateway::sign_out(&site, &call.caller()?).await;
            form::answer(outcome, |_| AT.to_owned(), AT.to_owned(), None)
        }),
        get("/subscription/{login}", site, async |site: Site, call: Call| {
            let (caller, id) = (call.caller()?, call.text_param("login")?.to_owned());
            let framed = Frame::of(&site, &call, "/assistant")?;
            let login = gateway::look(&site, &caller, &id).await?;
            page(&site, framed, Some(login))
        }),
        post("/subscription/{login}", site, async |site: Site, mut call: Call| {
            let sent: AnswerForm = call.form(FORM_BYTES_MAX).await?;
            let (caller, id) = (call.caller()?, call.text_param("login")?.to_owned());
            let given = GatewayAnswer { text: sent.text };
            let outcome = gateway::answer(&site, &caller, (&id, given)).await;
            form::answer(outcome, |it| at(&it), AT.to_owned(), None)
        }),
    ])
}

fn at(login: &GatewayLogin) -> String {
    format!("{AT}/{}", login.login_id)
}

fn page(
    site: &Site,
    (frame, caller): (Frame, Caller),
    login: Option<GatewayLogin>,
) -> Result<Response> {
    let (provider, is_signed_in) = gateway::state(site, &caller)?;
    reply::page(&SubscriptionPage { frame, provider, is_signed_in, login })
}
