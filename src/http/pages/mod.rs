//! The pages for people: rendered on the server, and usable without a script.
//!
//! **Invariant:** a page asks the same flows as the JSON routes, and decides nothing itself.
//! **Invariant:** what others wrote reaches HTML through the templates' escaping and through
//! `markdown` alone.

mod agents;
mod approvals;
mod assistant;
mod channels;
mod documents;
mod home;
mod jobs;
mod mail;
pub(in crate::http) mod parts;
mod proposals;
mod search;
mod settings;
mod topics;

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::Site;
use crate::http::any_of;
use crate::http::markdown::Renderer;

pub(super) use parts::form::document_at;
pub use parts::frame::Has;
pub(super) use parts::frame::{Frame, Reader};
pub(super) use parts::icon::Icon;
pub(super) use parts::preferences::Look;
pub(super) use parts::visible::{Name, Plain, Visible, invisible_name, told};

pub(super) fn routes(site: &Site, renderer: &Renderer) -> BoxedFilter<(Response,)> {
    any_of([
        home::routes(site),
        documents::routes(site, renderer),
        documents::perspectives::routes(site),
        search::routes(site),
        settings::routes(site),
        settings::people::routes(site),
        topics::routes(site),
        approvals::list::routes(site),
        approvals::routes(site),
        proposals::list::routes(site),
        jobs::board::routes(site),
        jobs::new_job::routes(site),
        proposals::review::routes(site),
        proposals::edit::routes(site),
        topics::thread::routes(site),
        jobs::routes(site),
        mail::routes(site),
        assistant::routes(site),
        channels::routes(site),
        channels::channel::routes(site),
        agents::routes(site),
    ])
}
