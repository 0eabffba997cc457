//! One request from its head to its response: checks, routes, headers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, COOKIE, EXPECT};
use hyper::http::HeaderMap;
use hyper::http::request::Parts;
use hyper::service::Service as _;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::service::TowerToHyperService;
use tracing::debug;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::limit::{AGENT_BODIES_BYTES_MAX, ANSWERS_BYTES_MAX, BODIES_BYTES_MAX};
use crate::base::{Actor, Error, TokenId};
use crate::http::access::gate::{self, Refused};
use crate::http::access::origin::is_page;
use crate::http::access::table::{Found, Route, find};
use crate::http::access::who::Identified;
use crate::http::pages::{Look, Reader};
use crate::http::reply::{self, Failed, Shown};
use crate::http::resources::metrics::{Class, Door};
use crate::http::server::body::{self, FORM, Room, is_of_type};
use crate::http::server::compress::{self, squeeze};
use crate::http::server::listen::Peer;
use crate::http::{Edge, any_of};
use crate::people::Person;

/// Responses up to this length need no room.
const SMALL_ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// The routes behind their checks; handles requests with or without a socket.
#[derive(Clone)]
pub struct Site {
    edge: Edge,
    routes: BoxedFilter<(Response,)>,
    bodies: Room,
    agent_bodies: Room,
    answers: Room,
}

impl Site {
    /// Returns the site with these routes.
    pub fn new(routes: BoxedFilter<(Response,)>, edge: Edge) -> Site {
        Site {
            edge,
            routes: any_of([routes]),
            bodies: Room::new(BODIES_BYTES_MAX),
            agent_bodies: Room::new(AGENT_BODIES_BYTES_MAX),
            answers: Room::new(ANSWERS_BYTES_MAX),
        }
    }

    /// Returns whether a process belongs to a job.
    pub(super) fn is_agent_peer(&self, pid: i32) -> bool {
        (self.edge.is_agent_peer)(pid)
    }

    /// Counts a connection refused for lack of room.
    pub(super) fn note_turned_away(&self, door: Door) {
        self.edge.traffic.note_turned_away(door);
    }

    /// Handles a request of a peer.
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
            is_page: is_page(path) || is_form_of_page(request.headers()),
            look: Look::of(request.headers().get(COOKIE).and_then(|it| it.to_str().ok())),
            reader: None,
            aside: None,
        };
        let path = path.to_owned();
        let encodings = request.headers().get(ACCEPT_ENCODING).and_then(|it| it.to_str().ok());
        let takes_gzip = compress::takes_gzip(encodings);
        let mut seen =
            Seen { method: request.method().clone(), route: None, actor: None, person: None };
        let run = AssertUnwindSafe(self.run(peer, request, &mut seen)).catch_unwind();
        let outcome = run.await;
        // Only pages have a navigation.
        let reader = seen.person.take().filter(|_| shown.is_page);
        shown.reader = reader.map(|it| Reader {
            has: (self.edge.has_for)(&it),
            id: it.id,
            name: it.display_name,
        });
        let response = match outcome {
            Ok(Ok(response)) => match response.extensions().get::<Failed>() {
                Some(Failed(error, aside)) => {
                    shown.aside.clone_from(aside);
                    self.refuse(&Arc::clone(error), &seen, &shown)
                }
                None => self.or_no_route(response, &path, &seen, &shown),
            },
            Ok(Err(Refused::Error(error))) => self.refuse(&error, &seen, &shown),
            Ok(Err(Refused::Status(status, error))) => {
                self.edge.traffic.note_refusal(error.code_str());
                reply::finish_status(status, &error, &shown)
            }
            Ok(Err(Refused::OtherVerbs(verbs))) => {
                // Somebody reads the address of a form again, such as after signing in.
                let is_read = shown.is_page && seen.method == Method::GET;
                let above = is_read.then(|| page_above(&path)).flatten();
                above
                    .map_or_else(
                        || Ok(reply::other_verbs(&verbs, &shown)),
                        |it| reply::see_other(&it),
                    )
                    .unwrap_or_else(|error| reply::finish_error(&error, &shown))
            }
            Err(_) => {
                let error = Error::internal("a request ended in a fault of the program");
                self.refuse(&error.code("panic"), &seen, &shown)
            }
        };
        let response = match takes_gzip {
            true => squeeze(response, &self.answers).await,
            false => Ok(response),
        };
        let response = response.unwrap_or_else(|error| reply::finish_error(&error, &shown));
        let mut response = self.with_room(response, &shown).await;
        reply::finish_headers(&mut response);
        self.note(&seen, &shown.request_id, response.status(), start.elapsed());
        response
    }

    /// Large responses hold room until they are sent, so that clients that do not read cannot fill
    /// the memory.
    async fn with_room(&self, response: Response, shown: &Shown<'_>) -> Response {
        if response.body().size_hint().exact().is_none_or(|it| it <= SMALL_ANSWER_BYTES_MAX) {
            return response;
        }
        let (head, body) = response.into_parts();
        let held = match body.collect().await {
            Ok(whole) => self.answers.hold(whole.to_bytes()),
            Err(cause) => Err(Error::internal("an answer cannot be read").source(cause)),
        };
        match held {
            Ok(bytes) => Response::from_parts(head, bytes.into()),
            Err(error) => reply::finish_error(&error, shown),
        }
    }

    fn refuse(&self, error: &Error, seen: &Seen, shown: &Shown<'_>) -> Response {
        self.edge.traffic.note_refusal(error.code_str());
        if let Some(Actor::Job(id)) = &seen.actor {
            (self.edge.note_refusal)(id, error);
        }
        reply::finish_error(error, shown)
    }

    /// Counts a response, and logs it at debug level.
    fn note(&self, seen: &Seen, id: &TokenId, status: StatusCode, time: Duration) {
        let class = seen.route.map_or(Class::Unknown, Class::of);
        self.edge.traffic.note(class, status, time);
        // The route and not the path, because a path can contain a login code.
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
        let mut asks_as = None;
        let checked = gate::check(&self.edge, peer, &head, &mut asks_as).await;
        seen.note_who(asks_as.as_ref());
        let passed = match checked {
            Ok(passed) => passed,
            Err(refused) => {
                // If the framing is ambiguous, the end of the body is not searched for.
                if !matches!(refused, Refused::Status(..)) && !body.is_end_stream() && !asks(&head)
                {
                    body::drain(Box::pin(http_body_util::BodyStream::new(body))).await;
                }
                return Err(refused);
            }
        };
        seen.route = Some(passed.route);
        if head.method == Method::HEAD {
            head.method = Method::GET;
        }
        head.uri = origin_form(&head.uri);
        let is_job = passed.who.as_ref().is_some_and(|it| it.caller.is_job());
        let room = if is_job { &self.agent_bodies } else { &self.bodies };
        head.extensions.insert(room.clone());
        head.extensions.insert(Arc::new(passed));
        let routes = TowerToHyperService::new(warp::service(self.routes.clone()));
        match routes.call(Request::from_parts(head, body)).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }

    /// warp's own responses (nothing matched) have no body of ours.
    fn or_no_route(
        &self,
        response: Response,
        path: &str,
        seen: &Seen,
        shown: &Shown<'_>,
    ) -> Response {
        let is_warps = response.extensions().get::<reply::Ours>().is_none();
        if is_warps {
            return self.refuse(&gate::no_route(path), seen, shown);
        }
        response
    }
}

/// Returns whether a client waits for `100 Continue` before it sends its body, which then need not
/// be read.
fn asks(head: &Parts) -> bool {
    head.headers.contains_key(EXPECT)
}

/// What is known of a request when its response is sent.
struct Seen {
    method: Method,
    route: Option<&'static Route>,
    actor: Option<Actor>,
    /// The person behind the request.
    person: Option<Person>,
}

impl Seen {
    fn note_who(&mut self, who: Option<&Identified>) {
        let Some(who) = who else { return };
        self.actor = Some(who.caller.actor());
        self.person = who.caller.person().ok().cloned();
    }
}

/// `GET http://host/path` and `GET /path` are the same request; the host has been checked.
fn origin_form(uri: &Uri) -> Uri {
    let target = uri.path_and_query().map_or("/", |it| it.as_str());
    target.parse().unwrap_or_else(|_| Uri::from_static("/"))
}

/// Returns whether a request is a form that a page sent: a person reads its answer. `curl -d` and
/// some trackers use the same type, and read JSON.
fn is_form_of_page(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    is_of_type(headers, FORM) && accepts.contains("text/html")
}

/// Returns the nearest page above a path, but for the first page of all.
fn page_above(path: &str) -> Option<String> {
    let above = |it: &str| it.rsplit_once('/').map_or("", |it| it.0).to_owned();
    let mut place = above(path);
    while !place.is_empty() && !matches!(find("GET", &place), Found::Route(..)) {
        place = above(&place);
    }
    (!place.is_empty()).then_some(place)
}
