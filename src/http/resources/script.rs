//! The script of a running server: reloading, and its automatic work.

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::Actor;
use crate::flows::Site;
use crate::flows::automation::reload::{self, ReloadRequest};
use crate::flows::automation::schedules;
use crate::http::{any_of, get, post, reply};

/// Largest body of these routes, in bytes.
const BODY_BYTES_MAX: usize = 4 * 1024;

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/api/config/reload", site, async |site: Site, mut call| {
            let by = call.caller()?.may_administer()?.id.clone();
            let asked = call.json_or_nothing_with_key::<ReloadRequest>(BODY_BYTES_MAX).await?.0;
            reply::ok(&reload::ask(&site, Actor::Person(by), asked).await?)
        }),
        get("/api/schedules", site, async |site: Site, call| {
            call.caller()?.person()?;
            reply::ok(&schedules::list(&site)?)
        }),
    ])
}
