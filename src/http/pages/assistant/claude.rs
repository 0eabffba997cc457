//! A person's sign-in to Claude: a first one, another one after it has expired, and its end.

use askama::Template;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::Site;
use crate::flows::assistant;
use crate::http::pages::Frame;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::{Call, any_of, get, reply};

#[derive(Template)]
#[template(path = "claude.html")]
struct ClaudePage {
    frame: Frame,
    is_signed_in: bool,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([get("/claude", site, async |site: Site, call: Call| {
        let (frame, caller) = Frame::of(&site, &call, "/assistant")?;
        let is_signed_in = assistant::is_signed_in(&site, &caller).await?;
        reply::page(&ClaudePage { frame, is_signed_in })
    })])
}
