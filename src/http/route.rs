//! Leaves: from a line of the table to a boxed filter.
//!
//! A resource is one file: `routes(&App)` on top, which names each path and unpacks the call into
//! values; plain `async fn` handlers below, which take values and return a `Result`.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use warp::filters::BoxedFilter;
use warp::reply::Response;
use warp::{Filter, Rejection};

use crate::base::{Error, Result};
use crate::flows::Site;
use crate::flows::site::metrics::Meter;
use crate::http::access::gate::Passed;
use crate::http::access::table::{ROUTES, Verb};
use crate::http::call::Call;
use crate::http::markdown::Renderer;
use crate::http::reply::{self, Ours};
use crate::http::server::body::{BodyStream, Room};
use crate::http::server::streams::Streams;
use crate::http::{Edge, Traffic};

/// The state of a leaf; each request gets it as it is when the request arrives.
pub trait Fresh {
    /// Returns the same with the active script.
    #[must_use]
    fn fresh(&self) -> Self;
}

impl Fresh for Site {
    fn fresh(&self) -> Site {
        self.now()
    }
}

impl<A: Fresh, B: Fresh> Fresh for (A, B) {
    fn fresh(&self) -> (A, B) {
        (self.0.fresh(), self.1.fresh())
    }
}

impl<T: ?Sized> Fresh for Arc<T> {
    fn fresh(&self) -> Arc<T> {
        Arc::clone(self)
    }
}

/// Values that do not depend on the script are the same for all requests.
macro_rules! always {
    ($($of:ty),*) => {$(
        impl Fresh for $of {
            fn fresh(&self) -> $of {
                self.clone()
            }
        }
    )*};
}

always!((), Edge, Streams, Traffic, Meter, Renderer);

/// Returns the leaf of a GET (and HEAD) route of the table.
pub fn get<S, F, Fut>(path: &'static str, state: &S, handle: F) -> BoxedFilter<(Response,)>
where
    S: Fresh + Clone + Send + Sync + 'static,
    F: Fn(S, Call) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Response>> + Send + 'static,
{
    leaf(Verb::Get, path, state, handle)
}

/// Returns the leaf of a POST route of the table.
pub fn post<S, F, Fut>(path: &'static str, state: &S, handle: F) -> BoxedFilter<(Response,)>
where
    S: Fresh + Clone + Send + Sync + 'static,
    F: Fn(S, Call) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Response>> + Send + 'static,
{
    leaf(Verb::Post, path, state, handle)
}

/// Returns the leaf of a DELETE route of the table.
pub fn delete<S, F, Fut>(path: &'static str, state: &S, handle: F) -> BoxedFilter<(Response,)>
where
    S: Fresh + Clone + Send + Sync + 'static,
    F: Fn(S, Call) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Response>> + Send + 'static,
{
    leaf(Verb::Delete, path, state, handle)
}

/// Returns a filter that tries others in order.
pub fn any_of(
    routes: impl IntoIterator<Item = BoxedFilter<(Response,)>>,
) -> BoxedFilter<(Response,)> {
    let nothing = warp::any().and_then(nothing_here).boxed();
    let mut all: Vec<_> = routes.into_iter().collect();
    let Some(last) = all.pop() else { return nothing };
    all.into_iter().rev().fold(last, |rest, route| route.or(rest).unify().boxed())
}

async fn nothing_here() -> std::result::Result<Response, warp::Rejection> {
    Err(warp::reject::not_found())
}

fn leaf<S, F, Fut>(verb: Verb, path: &'static str, state: &S, handle: F) -> BoxedFilter<(Response,)>
where
    S: Fresh + Clone + Send + Sync + 'static,
    F: Fn(S, Call) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Response>> + Send + 'static,
{
    debug_assert!(
        ROUTES.iter().any(|it| it.verb == verb && it.path == path),
        "{path} is not in the table of routes"
    );
    let state = state.clone();
    handled(verb, path, Arc::new(move |call| handle(state.fresh(), call).boxed()))
}

/// A handler with its types erased: the filter around it is compiled once.
type Handle = Arc<dyn Fn(Call) -> BoxFuture<'static, Result<Response>> + Send + Sync>;

fn handled(verb: Verb, path: &'static str, handle: Handle) -> BoxedFilter<(Response,)> {
    on(verb, path)
        .and(warp::ext::get::<Room>())
        .and(warp::body::stream())
        .then(move |passed, room, body| {
            let call = Call::new(passed, room, warp_body(body));
            let body = call.body_on_its_way();
            let handling = handle(call);
            async move {
                let handled = handling.await;
                if let (Err(_), Some(body)) = (&handled, body) {
                    body.drain().await;
                }
                let mut response = handled.unwrap_or_else(reply::failed);
                response.extensions_mut().insert(Ours);
                response
            }
        })
        .boxed()
}

fn warp_body<B: bytes::Buf>(
    body: impl futures_util::Stream<Item = std::result::Result<B, warp::Error>> + Send + 'static,
) -> BodyStream {
    let lost = |cause: warp::Error| {
        Error::invalid("the body ended too early").code("body_lost").source(cause)
    };
    body.map_ok(|mut part| part.copy_to_bytes(part.remaining())).map_err(lost).boxed()
}

/// The gate has already looked up the route and decoded the path. Its result is used, because
/// matching all paths again would cost more than most responses.
fn on(
    verb: Verb,
    path: &'static str,
) -> impl Filter<Extract = (Arc<Passed>,), Error = Rejection> + Clone {
    warp::ext::get::<Arc<Passed>>().and_then(move |passed: Arc<Passed>| {
        let is_ours = passed.route.verb == verb && passed.route.path == path;
        ready(if is_ours { Ok(passed) } else { Err(warp::reject::not_found()) })
    })
}
