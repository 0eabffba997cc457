//! The form that makes a channel of a person's conversation with an agent.

use askama::Template;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::promotion::{PromoteRequest, PromotedTurn};
use crate::base::{Error, Result};
use crate::channels::ChannelType;
use crate::flows::Site;
use crate::flows::channels::{self, Candidates};
use crate::http::pages::Frame;
use crate::http::pages::channels::{Sent, candidates_beside};
use crate::http::pages::parts::form;
use crate::http::pages::parts::time::When;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// The form: names, and the ids of some turns.
const FORM_BYTES_MAX: usize = 64 * 1024;

#[derive(Template)]
#[template(path = "promote.html")]
struct PromotePage {
    frame: Frame,
    agent: String,
    turns: Vec<PromotedTurn>,
    kinds: Vec<ChannelType>,
    candidates: Candidates,
    /// What was typed and chosen.
    sent: Sent,
    /// Whether the form was sent, so that it says which turns to include.
    is_sent: bool,
    refusal: Option<String>,
}

impl PromotePage {
    fn when(&self, turn: &PromotedTurn) -> When {
        self.frame.when(&turn.at)
    }

    /// Returns whether a turn is included: all are, until somebody deselects one.
    fn is_told(&self, turn: &PromotedTurn) -> bool {
        !self.is_sent || self.sent.has("turn", turn.turn_id.as_str())
    }
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/agents/{name}/promote", site, async |site: Site, call: Call| {
            let framed = Frame::of(&site, &call, "/agents")?;
            reply::page(&page(&site, framed, call.text_param("name")?, (None, None)).await?)
        }),
        post("/agents/{name}/promote", site, promote),
    ])
}

async fn page(
    site: &Site,
    (frame, caller): (Frame, Caller),
    name: &str,
    (sent, refusal): (Option<Sent>, Option<&Error>),
) -> Result<PromotePage> {
    let promotion = channels::promotion(site, &caller, name).await?;
    let mut candidates = candidates_beside(site, &caller).await?;
    candidates.personas.retain(|it| !it.agents.contains(&promotion.agent));
    Ok(PromotePage {
        frame,
        agent: promotion.agent,
        turns: promotion.turns,
        kinds: channels::Ground::of(site).kinds,
        candidates,
        is_sent: sent.is_some(),
        sent: sent.unwrap_or_default(),
        refusal: refusal.map(|it| it.message().to_owned()),
    })
}

async fn promote(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Vec<(String, String)>, _) = call.form_with_digest(FORM_BYTES_MAX).await?;
    let sent = Sent(sent);
    let key = call.key_of_form(sent.field("key").to_owned(), digest)?;
    let turns = sent.0.iter().filter(|it| it.0 == "turn").map(|it| it.1.parse());
    let request = PromoteRequest {
        kind: form::optional(sent.field("type")),
        name: form::optional(sent.field("name").trim()),
        members: sent.members(),
        turns: Some(turns.collect::<Result<_>>()?),
    };
    let (framed, name) = (Frame::of(&site, &call, "/agents")?, call.text_param("name")?);
    match channels::promote(&site, &call.caller()?, name, request, Some(key)).await {
        Ok(made) => reply::see_other(&format!("/channels/{}", made.slug)),
        Err(cause) => {
            let page = page(&site, framed, name, (Some(sent), Some(&cause))).await?;
            reply::refused(&page, &cause)
        }
    }
}
