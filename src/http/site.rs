//! One request from its head to its answer: checks, routes, headers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use hyper::body::Body;
use hyper::service::Service as _;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::service::TowerToHyperService;
use tracing::debug;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Actor, Error, TokenId};
use crate::http::body::{FORM, Room, is_of_type};
use crate::http::gate::{self, Refused};
use crate::http::listen::Peer;
use crate::http::metrics::{Class, Door};
use crate::http::origin::is_page;
use crate::http::reply::{self, Failed, Shown};
use crate::http::table::Route;
use crate::http::{Edge, any_of};

/// The routes behind their checks; answers requests with or without a socket.
#[derive(Clone)]
pub struct Site {
    edge: Edge,
    routes: BoxedFilter<(Response,)>,
    room: Room,
}

impl Site {
    /// Returns the site that `routes` make.
    pub fn new(routes: BoxedFilter<(Response,)>, edge: Edge) -> Site {
        Site { edge, routes: any_of([routes]), room: Room::new() }
    }

    /// Returns whether a process belongs to a job.
    pub(super) fn is_agent_peer(&self, pid: i32) -> bool {
        (self.edge.is_agent_peer)(pid)
    }

    /// Counts a connection for which there was no room.
    pub(super) fn note_turned_away(&self, door: Door) {
        self.edge.traffic.note_turned_away(door);
    }

    /// Answers a request of a peer.
    pub async fn answer<B>(&self, peer: Peer, request: Request<B>) -> Response
    where
        B: Body + Send + Sync + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let start = Instant::now();
        let path = request.uri().path();
        let mut shown = Shown {
            request_id: self.edge.ids.mint(),
            site_name: &self.edge.gate.site_name,
            // A form is sent by a page, and its answer is read by a person.
            is_page: is_page(path) || is_of_type(request.headers(), FORM),
            aside: None,
        };
        let path = path.to_owned();
        let mut seen = Seen { method: request.method().clone(), route: None, actor: None };
        let run = AssertUnwindSafe(self.run(peer, request, &mut seen)).catch_unwind();
        let mut response = match run.await {
            Ok(Ok(response)) => match response.extensions().get::<Failed>() {
                Some(Failed(error, aside)) => {
                    shown.aside.clone_from(aside);
                    self.refuse(&Arc::clone(error), &shown)
                }
                None => self.or_no_route(response, &path, &shown),
            },
            Ok(Err(Refused::Error(error))) => self.refuse(&error, &shown),
            Ok(Err(Refused::OtherVerbs(verbs))) => reply::other_verbs(&verbs, &shown),
            Err(_) => {
                let error = Error::internal("a request ended in a fault of the program");
                self.refuse(&error.code("panic"), &shown)
            }
        };
        reply::finish_headers(&mut response);
        self.note(&seen, &shown.request_id, response.status(), start.elapsed());
        response
    }

    fn refuse(&self, error: &Error, shown: &Shown<'_>) -> Response {
        self.edge.traffic.note_refusal(error.code_str());
        reply::finish_error(error, shown)
    }

    /// Counts an answer, and writes it down for who wants to see each.
    fn note(&self, seen: &Seen, id: &TokenId, status: StatusCode, time: Duration) {
        let class = seen.route.map_or(Class::Unknown, Class::of);
        self.edge.traffic.note(class, status, time);
        // The line of the table and not the path: a path can hold a login code.
        let route = seen.route.map_or("none", |it| it.path);
        let duration_ms = time.as_secs_f64() * 1_000.0;
        let actor = seen.actor.as_ref().map_or_else(|| "nobody".to_owned(), ToString::to_string);
        debug!(
            request_id = %id,
            method = %seen.method,
            route,
            status = status.as_u16(),
            duration_ms,
            actor,
            "{} {route} {}",
            seen.method,
            status.as_u16()
        );
    }

    async fn run<B>(
        &self,
        peer: Peer,
        request: Request<B>,
        seen: &mut Seen,
    ) -> std::result::Result<Response, Refused>
    where
        B: Body + Send + Sync + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut head, body) = request.into_parts();
        let passed = gate::check(&self.edge, peer, &head).await?;
        seen.route = Some(passed.route);
        seen.actor = passed.who.as_ref().map(|it| it.caller.actor());
        if head.method == Method::HEAD {
            head.method = Method::GET;
        }
        head.uri = origin_form(&head.uri);
        head.extensions.insert(Arc::new(passed));
        head.extensions.insert(self.room.clone());
        let routes = TowerToHyperService::new(warp::service(self.routes.clone()));
        match routes.call(Request::from_parts(head, body)).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }

    /// What warp itself answers (nothing matched) has no body of ours.
    fn or_no_route(&self, response: Response, path: &str, shown: &Shown<'_>) -> Response {
        let is_warps = response.extensions().get::<reply::Ours>().is_none();
        if is_warps {
            return self.refuse(&gate::no_route(path), shown);
        }
        response
    }
}

/// What is known of a request when it is answered.
struct Seen {
    method: Method,
    route: Option<&'static Route>,
    actor: Option<Actor>,
}

/// `GET http://host/path` and `GET /path` are the same request; the host has been checked.
fn origin_form(uri: &Uri) -> Uri {
    let target = uri.path_and_query().map_or("/", |it| it.as_str());
    target.parse().unwrap_or_else(|_| Uri::from_static("/"))
}
