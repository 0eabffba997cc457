//! The only user of warp: checks, routes, pages and the event stream, over TCP and the Unix socket.
//!
//! **Invariant:** no request reaches a handler before `gate` has let it pass; what is not in
//! [`ROUTES`] is served to nobody.
//! **Invariant:** no static state; what handlers need is in [`Edge`].

mod access;
mod assets;
mod call;
#[cfg(test)]
mod description;
mod live;
mod markdown;
mod pages;
pub mod reply;
mod resources;
mod route;
mod server;
mod site;

use std::net::SocketAddr;
use std::sync::Arc;

use camino::Utf8Path;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::limit::STREAMS_MAX;
use crate::base::{Error, Ids, JobId, Result, digest_hex, fault};
use crate::flows;
use crate::people::{LoginCodes, Person};
use crate::store::Store;

use server::streams::Streams;

pub use access::table::{ROUTES, Route, Verb, Who};
pub use call::{Call, Page};
pub use pages::Has;
pub use resources::login::login_link;
pub use resources::metrics::Traffic;
pub use route::{any_of, delete, get, post};
pub use server::listen::{Peer, bind_unix};
pub use server::serve::{Listeners, ServeLimits, serve};
pub use site::Site;

/// The state of a job's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobTokenState {
    /// The job is running, and its end has not begun.
    Running,
    /// The job has ended; its token is known but refused.
    Ended,
}

/// The job that a token belongs to.
#[derive(Clone, Debug)]
pub struct JobToken {
    /// The job's id.
    pub job: JobId,
    /// Whether it is still running.
    pub state: JobTokenState,
    /// Whether it is private.
    pub is_private: bool,
}

impl From<crate::jobs::JobToken> for JobToken {
    fn from(found: crate::jobs::JobToken) -> JobToken {
        let state = match found.state {
            crate::jobs::TokenState::Running => JobTokenState::Running,
            crate::jobs::TokenState::Ended => JobTokenState::Ended,
        };
        JobToken { job: found.job, state, is_private: found.is_private }
    }
}

/// Finds the job of a token by the token's SHA-256.
pub type IdentifyJob =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<Option<JobToken>>> + Send + Sync>;
/// Records that a job's agent was refused.
pub type NoteRefusal = Arc<dyn Fn(&JobId, &Error) + Send + Sync>;
/// Returns what the script now declares for a person.
pub type HasFor = Arc<dyn Fn(&Person) -> Has + Send + Sync>;
/// Returns whether a process belongs to a job.
pub type IsAgentPeer = Arc<dyn Fn(i32) -> bool + Send + Sync>;
/// Returns whether the site is ready, or what is missing.
pub type IsReady = Arc<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// The values that the checks compare requests with.
#[derive(Clone, Debug)]
pub struct GateConfig {
    /// The port of the TCP listener, if there is one.
    pub tcp_port: Option<u16>,
    /// Hosts under which a proxy reaches the site: `wiki.example.org` or `wiki.example.org:8443`.
    pub public_hosts: Vec<String>,
    /// The name of the site.
    pub site_name: String,
    /// The name of the session cookie. Cookies ignore ports: two sites need two names.
    pub cookie_name: String,
    /// The base URL of login links, for example `http://127.0.0.1:8080`.
    pub login_base: Option<String>,
    /// Most event streams; some connections must remain for requests.
    pub streams_max: usize,
}

impl GateConfig {
    /// Returns the configuration of a site that listens at `address`, with its data in `data`.
    pub fn new(
        address: Option<SocketAddr>,
        public_hosts: Vec<String>,
        site_name: String,
        data: &Utf8Path,
    ) -> GateConfig {
        let digest = digest_hex(data.as_str());
        GateConfig {
            tcp_port: address.map(|it| it.port()),
            public_hosts: public_hosts.iter().map(|it| it.to_ascii_lowercase()).collect(),
            site_name,
            cookie_name: match fault::is_off("cookie_name") {
                true => "wb_session".to_owned(),
                false => format!("wb_{}", &digest[..8]),
            },
            login_base: address.map(|it| {
                let host = if it.is_ipv6() { "[::1]" } else { "127.0.0.1" };
                format!("http://{host}:{}", it.port())
            }),
            streams_max: STREAMS_MAX,
        }
    }

    /// Sets the limit of event streams from the limit of connections.
    #[must_use]
    pub fn with_connections(mut self, connections: usize) -> GateConfig {
        self.streams_max = STREAMS_MAX.min(connections / 4 * 3);
        self
    }
}

/// Handles for the checks and the server; cheap to clone.
#[derive(Clone)]
pub struct Edge {
    /// The database.
    pub store: Store,
    /// The source of ids.
    pub ids: Ids,
    /// The codes of login links.
    pub codes: LoginCodes,
    /// What requests are compared with.
    pub gate: Arc<GateConfig>,
    /// Finds the job of a token.
    pub identify_job: IdentifyJob,
    /// Records refusals of jobs' agents.
    pub note_refusal: NoteRefusal,
    /// Looks up what the site has for a person.
    pub has_for: HasFor,
    /// Tells whether a process belongs to a job.
    pub is_agent_peer: IsAgentPeer,
    /// Tells whether the site is ready.
    pub is_ready: IsReady,
    /// Counts requests.
    pub traffic: Traffic,
    /// Ends every endless response.
    pub stop: CancellationToken,
}

/// Returns the routes that need only the edge: health, login, `me`, events, assets.
pub fn routes(edge: &Edge) -> BoxedFilter<(Response,)> {
    routes_with(edge, &Streams::new(edge.gate.streams_max))
}

fn routes_with(edge: &Edge, streams: &Streams) -> BoxedFilter<(Response,)> {
    any_of([
        resources::health::routes(edge),
        resources::login::routes(edge),
        resources::me::routes(edge),
        live::events::routes(edge, streams),
        assets::routes(edge),
        resources::description::routes(),
    ])
}

/// Returns the routes of the whole site.
pub fn site_routes(edge: &Edge, site: &flows::Site) -> BoxedFilter<(Response,)> {
    let renderer = markdown::Renderer::load();
    let streams = Streams::new(edge.gate.streams_max);
    any_of([
        routes_with(edge, &streams),
        resources::assistant::routes(edge, site, &streams),
        resources::claude_api::routes(edge, site, &streams),
        resources::health::site_routes(site),
        resources::people::routes(site),
        resources::rendered::routes(site, &renderer),
        resources::images::routes(site),
        resources::sources::routes(site),
        resources::search::routes(site),
        resources::topics::routes(site),
        resources::proposals::routes(site),
        resources::approvals::routes(edge, site),
        resources::workspaces::routes(site),
        resources::jobs::routes(site),
        resources::instances::routes(site),
        resources::mail::routes(edge, site),
        resources::agents::routes(site),
        resources::channels::routes(site),
        resources::usage::routes(site),
        resources::config::routes(edge, site),
        resources::script::routes(site),
        resources::webhooks::routes(site),
        resources::operations::routes(site),
        resources::perspectives::routes(site),
        resources::metrics::routes(edge, site),
        pages::routes(site, &renderer),
    ])
}
