//! Calls of other programs for webhooks of the script.

use hyper::StatusCode;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::Result;
use crate::base::limit::WEBHOOK_BODY_BYTES_MAX;
use crate::flows::Site;
use crate::flows::automation::webhook_proof::Proof;
use crate::flows::automation::webhooks::{self, Incoming};
use crate::http::{Call, any_of, post, reply};

/// The header in which senders name the event.
const EVENTS: [&str; 3] = ["x-github-event", "x-gitea-event", "x-gitlab-event"];

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([post("/hooks/{name}", site, take)])
}

async fn take(site: Site, mut call: Call) -> Result<Response> {
    let (proof, event) = {
        let text = |name: &str| call.header(name).map(str::to_owned);
        let proof = Proof::of(text("x-hub-signature-256"), text("x-gitlab-token"))?;
        (proof, EVENTS.into_iter().find_map(text))
    };
    let name = call.text_param("name")?.to_owned();
    let body = call.json_bytes(WEBHOOK_BODY_BYTES_MAX).await?;
    let taken = webhooks::take(&site, Incoming { name, proof, event, body }).await?;
    reply::json(StatusCode::ACCEPTED, &taken)
}
