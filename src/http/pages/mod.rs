//! The pages for people: rendered here, working as links and forms, without a script.
//!
//! **Invariant:** a page asks the same flows as the JSON routes, and decides nothing itself.
//! **Invariant:** what others wrote reaches HTML through the templates' escaping alone.

mod changes;
mod documents;
mod form;
mod frame;
mod history;
mod holder;
mod home;
mod icon;
mod jobs;
mod look;
mod passages;
mod perspectives;
mod proposals;
mod search;
mod settings;
mod time;
mod topics;
mod trouble;
mod view;
mod visible;
mod words;

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::Site;
use crate::http::any_of;

pub(super) use frame::Frame;
pub(super) use icon::Icon;
pub(super) use look::Look;

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        home::routes(site),
        documents::routes(site),
        perspectives::routes(site),
        search::routes(site),
        settings::routes(site),
        topics::routes(site),
        proposals::routes(site),
        jobs::routes(site),
    ])
}
