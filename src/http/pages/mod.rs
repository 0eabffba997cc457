//! The pages for people: rendered here, working as links and forms, without a script.
//!
//! **Invariant:** a page asks the same flows as the JSON routes, and decides nothing itself.
//! **Invariant:** what others wrote reaches HTML through the templates' escaping and through
//! `markdown` alone.

mod agents;
mod amend;
pub(super) mod ansi;
mod approval;
mod assistant;
mod begin;
mod board;
mod channel;
mod channels;
mod decisions;
mod difference;
mod documents;
mod edit;
mod fields;
mod form;
mod frame;
mod history;
mod holder;
mod home;
mod icon;
mod jobs;
mod look;
mod mail;
mod passages;
mod people;
mod perspectives;
mod pictures;
mod proposals;
mod reader;
mod review;
mod said;
mod search;
mod settings;
mod starts;
mod suggestion;
mod thread;
mod time;
mod topics;
mod tree;
mod trouble;
mod turn;
mod view;
mod visible;
mod waiting;
mod words;

use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::flows::Site;
use crate::http::any_of;
use crate::http::markdown::Renderer;

pub(super) use form::document_at;
pub(super) use frame::Frame;
pub(super) use icon::Icon;
pub(super) use look::Look;
pub(super) use visible::{Name, Plain, Visible, odd, told};

pub(super) fn routes(site: &Site, renderer: &Renderer) -> BoxedFilter<(Response,)> {
    any_of([
        home::routes(site),
        documents::routes(site, renderer),
        perspectives::routes(site),
        search::routes(site),
        settings::routes(site),
        people::routes(site),
        topics::routes(site),
        decisions::routes(site),
        approval::routes(site),
        proposals::routes(site),
        board::routes(site),
        begin::routes(site),
        review::routes(site),
        edit::routes(site),
        thread::routes(site),
        jobs::routes(site),
        mail::routes(site),
        assistant::routes(site),
        channels::routes(site),
        channel::routes(site),
        agents::routes(site),
    ])
}
