//! Forms that manage a channel: its goal, its budget, its chair, and going on after a pause.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::channels::{Budget, ChangeRequest, ResumeRequest};
use crate::base::{Error, Result};
use crate::flows::Site;
use crate::flows::channels;
use crate::http::pages::channels::Sent;
use crate::http::pages::channels::channel::back;
use crate::http::pages::parts::form;
use crate::http::{Call, any_of, post};

/// A goal as a form: every byte may be escaped by three.
const FORM_BYTES_MAX: usize = 64 * 1024;

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/channels/{slug}/goal", site, async |site: Site, mut call: Call| {
            let intent = form::optional(sent(&mut call).await?.field("intent"));
            change(site, call, ChangeRequest { intent, ..ChangeRequest::default() }).await
        }),
        post("/channels/{slug}/budget", site, async |site: Site, mut call: Call| {
            let budget = Some(budget(&sent(&mut call).await?)?);
            change(site, call, ChangeRequest { budget, ..ChangeRequest::default() }).await
        }),
        post("/channels/{slug}/outside", site, async |site: Site, mut call: Call| {
            let outside_wakes = Some(sent(&mut call).await?.field("wakes") == "on");
            change(site, call, ChangeRequest { outside_wakes, ..ChangeRequest::default() }).await
        }),
        post(
            "/channels/{slug}/members/{handle}/chair",
            site,
            async |site: Site, mut call: Call| {
                call.nothing().await?;
                let (slug, to) = (call.text_param("slug")?, call.text_param("handle")?.to_owned());
                back(channels::chair(&site, &call.caller()?, slug, to).await, &call)
            },
        ),
        post("/channels/{slug}/resume", site, async |site: Site, mut call: Call| {
            let sent = sent(&mut call).await?;
            // Fields that are there and empty set no limit; Home's button has none.
            let budget = sent.0.iter().any(|it| it.0 == "turns").then(|| budget(&sent));
            let request = ResumeRequest { budget: budget.transpose()? };
            let slug = call.text_param("slug")?;
            back(channels::resume(&site, &call.caller()?, slug, request).await, &call)
        }),
    ])
}

async fn sent(call: &mut Call) -> Result<Sent> {
    call.form(FORM_BYTES_MAX).await.map(Sent)
}

async fn change(site: Site, call: Call, request: ChangeRequest) -> Result<Response> {
    let slug = call.text_param("slug")?;
    back(channels::change(&site, &call.caller()?, slug, request).await, &call)
}

/// Reads the fields of a budget; an empty one sets no limit.
fn budget(sent: &Sent) -> Result<Budget> {
    fn number<T: std::str::FromStr>(sent: &Sent, name: &str) -> Result<Option<T>> {
        let text = sent.field(name).trim();
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            Error::invalid("a budget is of numbers above 0")
                .code("bad_parameter")
                .of_input("budget")
        })
    }
    Ok(Budget {
        turns: number(sent, "turns")?,
        tokens: number(sent, "tokens")?,
        cost_usd: number(sent, "cost_usd")?,
    })
}
