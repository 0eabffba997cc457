//! The accept loop: connections with limits on number, time and size, and an orderly shutdown.
//!
//! **Invariant:** every connection is a task of one `JoinSet`; none outlives [`serve`].
//! **Invariant:** on the Unix socket only our own user and root are heard.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::fault;
use crate::base::limit::{
    AGENT_CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_READ_MS_MAX, HEADERS_MAX, SOCKET_CONNECTIONS_MAX,
    TCP_CONNECTIONS_MAX, WRITE_STALL_MS_MAX,
};
use crate::http::resources::metrics::Door;
use crate::http::server::listen::{Backoff, Peer, Watched, own_uid};
use crate::http::server::overload::{Spare, turn_away_tcp, turn_away_unix};
use crate::http::{Edge, Site};

/// The listeners.
pub struct Listeners {
    /// For browsers, if the site has an address.
    pub tcp: Option<TcpListener>,
    /// For the command line and for agents.
    pub unix: UnixListener,
}

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct ServeLimits {
    /// Most TCP connections; further ones are refused at once.
    pub tcp_connections_max: usize,
    /// Most connections to the socket, not counting agents.
    pub unix_connections_max: usize,
    /// Most connections of agents to the socket, so that a job that opens many takes none from
    /// browsers and the operator.
    pub agent_connections_max: usize,
    /// Longest time for the head of a request, and between two requests.
    pub header_read: Duration,
    /// Longest time in which a client reads less than 64 KiB of its response.
    pub write_stall: Duration,
}

/// How long a connection may take to close.
const LEAVE_MAX: Duration = Duration::from_millis(100);
/// Descriptors reserved for jobs, git, the database and the log: a quarter of all, and at least
/// this many.
const RESERVED_MIN: u64 = 128;
/// Fewest connections of each type, however few descriptors there are.
const CONNECTIONS_MIN: u64 = 8;
/// The parser's limit on a head: above our own, so that an oversized head gets a message and not
/// only a status.
const PARSED_BYTES_MAX: usize = 4 * HEAD_BYTES_MAX;
const PARSED_HEADERS_MAX: usize = 4 * HEADERS_MAX;
/// Buffers of a connection, besides one chunk of a response.
const BUFFER_BYTES_MAX: usize = 2 * PARSED_BYTES_MAX;
/// How long the refusal of a client may take when the descriptors have run out.
const TURN_AWAY_MAX: Duration = Duration::from_millis(50);

impl ServeLimits {
    /// Returns the limits for a number of descriptors.
    pub fn within(descriptors: u64) -> ServeLimits {
        if fault::is_off("descriptor_reserve") {
            return ServeLimits::default();
        }
        let free = descriptors.saturating_sub((descriptors / 4).max(RESERVED_MIN));
        let part = |eighths: u64, most: usize| {
            let count = (free / 8 * eighths).max(CONNECTIONS_MIN);
            usize::try_from(count).unwrap_or(usize::MAX).min(most)
        };
        ServeLimits {
            tcp_connections_max: part(6, TCP_CONNECTIONS_MAX),
            unix_connections_max: part(1, SOCKET_CONNECTIONS_MAX),
            agent_connections_max: part(1, AGENT_CONNECTIONS_MAX),
            ..ServeLimits::default()
        }
    }
}

impl Default for ServeLimits {
    fn default() -> ServeLimits {
        ServeLimits {
            tcp_connections_max: TCP_CONNECTIONS_MAX,
            unix_connections_max: SOCKET_CONNECTIONS_MAX,
            agent_connections_max: AGENT_CONNECTIONS_MAX,
            header_read: Duration::from_millis(HEAD_READ_MS_MAX),
            write_stall: Duration::from_millis(WRITE_STALL_MS_MAX),
        }
    }
}

/// Serves until `stop`; then waits up to `grace` for open requests, and cuts off the rest.
///
/// Endless replies end on the `stop` of the edge, which should be the same or earlier.
pub async fn serve(
    listeners: Listeners,
    routes: BoxedFilter<(Response,)>,
    edge: Edge,
    limits: ServeLimits,
    stop: CancellationToken,
    grace: Duration,
) {
    let own_uid = match own_uid() {
        Ok(uid) => uid,
        Err(cause) => {
            error!("nothing is served: the kernel does not tell our user: {cause}");
            return;
        }
    };
    let mut doors = Doors::new(Site::new(routes, edge), limits, own_uid, stop.clone());
    let (mut backoff, mut spare) = (Backoff::default(), Spare::new());
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = doors.connections.join_next() => {
                note_end(ended);
                continue;
            }
            accepted = accept(&listeners) => accepted,
        };
        match accepted {
            // Another task has used the spare descriptor in the meantime, so this connection is
            // closed.
            Ok(arrived) if !spare.restore() && !fault::is_off("spare_descriptor") => {
                turn_away(arrived);
            }
            Ok(arrived) => doors.admit(arrived).await,
            Err(cause) => {
                let (pause, is_news) = backoff.failed();
                if is_news {
                    warn!("a connection could not be accepted: {cause}");
                }
                if spare.release()
                    && !fault::is_off("spare_descriptor")
                    && let Some(arrived) = next_one(&listeners).await
                {
                    // Others may have left in the meantime.
                    match spare.restore() {
                        true => doors.admit(arrived).await,
                        false => turn_away(arrived),
                    }
                }
                if spare.restore() && !fault::is_off("spare_descriptor") {
                    // A client was refused: the next one is accepted in the same way.
                    continue;
                }
                // Until a connection closes, or for a moment.
                tokio::select! {
                    () = sleep(pause) => {}
                    Some(ended) = doors.connections.join_next() => note_end(ended),
                    () = stop.cancelled() => break,
                }
            }
        }
    }
    drop(listeners);
    doors.close(grace).await;
}

/// Accepts one waiting client with the spare descriptor. If another task takes it first, nobody is
/// told.
async fn next_one(listeners: &Listeners) -> Option<Arrived> {
    timeout(TURN_AWAY_MAX, accept(listeners)).await.ok()?.ok()
}

/// Tells a client that there is no room.
fn turn_away(arrived: Arrived) {
    match arrived {
        Arrived::Tcp(stream, _) => turn_away_tcp(stream),
        Arrived::Unix(stream) => turn_away_unix(stream),
    }
}

enum Arrived {
    Tcp(TcpStream, std::net::SocketAddr),
    Unix(UnixStream),
}

async fn accept(listeners: &Listeners) -> io::Result<Arrived> {
    let tcp = async {
        match &listeners.tcp {
            Some(listener) => listener.accept().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        accepted = tcp => accepted.map(|(stream, address)| Arrived::Tcp(stream, address)),
        accepted = listeners.unix.accept() => accepted.map(|(stream, _)| Arrived::Unix(stream)),
    }
}

/// Admits connections and counts them.
struct Doors {
    site: Site,
    limits: ServeLimits,
    own_uid: u32,
    stop: CancellationToken,
    tcp: Arc<Semaphore>,
    unix: Arc<Semaphore>,
    agents: Arc<Semaphore>,
    connections: JoinSet<()>,
    full: Backoff,
    /// TCP connections without a request so far, oldest first.
    silent: VecDeque<Silent>,
}

/// A connection without a request: closed when room is needed.
struct Silent {
    has_asked: Arc<AtomicBool>,
    leave: CancellationToken,
}

impl Doors {
    fn new(site: Site, limits: ServeLimits, own_uid: u32, stop: CancellationToken) -> Doors {
        Doors {
            site,
            limits,
            own_uid,
            stop,
            tcp: Arc::new(Semaphore::new(limits.tcp_connections_max)),
            unix: Arc::new(Semaphore::new(limits.unix_connections_max)),
            agents: Arc::new(Semaphore::new(limits.agent_connections_max)),
            connections: JoinSet::new(),
            full: Backoff::default(),
            silent: VecDeque::new(),
        }
    }

    /// Returns room for one more TCP connection. An idle connection is closed for a new one, so
    /// nobody can block others by opening many.
    async fn tcp_room(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.tcp).try_acquire_owned() {
            return Some(permit);
        }
        while let Some(oldest) = self.silent.pop_front() {
            if !oldest.has_asked.load(Ordering::Acquire) && !fault::is_off("silent_leave") {
                oldest.leave.cancel();
                let room = Arc::clone(&self.tcp).acquire_owned();
                return timeout(LEAVE_MAX, room).await.ok()?.ok();
            }
        }
        None
    }

    /// Records a new connection over TCP; returns how it reports its first request, and how it is
    /// told to close.
    fn note_silent(&mut self) -> (Arc<AtomicBool>, CancellationToken) {
        // Those with a request, and closed ones, are dropped from the list.
        let is_of_use = |it: &Silent| {
            !it.has_asked.load(Ordering::Acquire) && Arc::strong_count(&it.has_asked) > 1
        };
        while self.silent.front().is_some_and(|it| !is_of_use(it)) {
            self.silent.pop_front();
        }
        if self.silent.len() >= 2 * self.limits.tcp_connections_max {
            self.silent.retain(is_of_use);
        }
        let noted = Silent { has_asked: Arc::default(), leave: self.stop.child_token() };
        let told = (Arc::clone(&noted.has_asked), noted.leave.clone());
        self.silent.push_back(noted);
        told
    }

    /// Logs once a minute that there is no room.
    fn note_full(&mut self, whose: &str, most: usize) {
        if self.full.failed().1 {
            warn!("more than {most} connections {whose}: some are turned away");
        }
    }

    /// Starts a connection, or refuses it at once.
    async fn admit(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Tcp(stream, address) => {
                let Some(permit) = self.tcp_room().await else {
                    self.site.note_turned_away(Door::Tcp);
                    self.note_full("over TCP", self.limits.tcp_connections_max);
                    return turn_away_tcp(stream);
                };
                if let Err(cause) = stream.set_nodelay(true) {
                    debug!("{address} was gone before it was served: {cause}");
                    return;
                }
                let silent = self.note_silent();
                self.start(stream, Peer::Tcp(address), permit, Some(silent));
            }
            Arrived::Unix(stream) => {
                let peer = match stream.peer_cred() {
                    Ok(it) if it.uid() == self.own_uid || it.uid() == 0 => {
                        // A process in another PID namespace, or one that has ended, is not
                        // visible.
                        let is_agent =
                            it.pid().is_none_or(|pid| pid <= 0 || self.site.is_agent_peer(pid));
                        Peer::Unix { uid: it.uid(), pid: it.pid(), is_agent }
                    }
                    Ok(it) => {
                        warn!("a process of user {} was closed on the socket", it.uid());
                        return;
                    }
                    Err(cause) => {
                        debug!("a client of the socket cannot be seen: {cause}");
                        return;
                    }
                };
                // Agents with many connections take none from the operator.
                let is_agent = matches!(peer, Peer::Unix { is_agent: true, .. });
                let (pool, most, whose) = match is_agent {
                    true => (&self.agents, self.limits.agent_connections_max, "of agents"),
                    false => (&self.unix, self.limits.unix_connections_max, "on the socket"),
                };
                let Ok(permit) = Arc::clone(pool).try_acquire_owned() else {
                    let door = if is_agent { Door::Agents } else { Door::Socket };
                    self.site.note_turned_away(door);
                    self.note_full(whose, most);
                    return turn_away_unix(stream);
                };
                self.start(stream, peer, permit, None);
            }
        }
    }

    fn start<S>(
        &mut self,
        stream: S,
        peer: Peer,
        permit: OwnedSemaphorePermit,
        silent: Option<(Arc<AtomicBool>, CancellationToken)>,
    ) where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (site, limits, stop) = (self.site.clone(), self.limits, self.stop.clone());
        self.connections.spawn(async move {
            let _permit = permit;
            let Some((has_asked, leave)) = silent else {
                return serve_connection(stream, peer, site, limits, stop, || {}).await;
            };
            let asks = {
                let has_asked = Arc::clone(&has_asked);
                move || has_asked.store(true, Ordering::Release)
            };
            let serving = serve_connection(stream, peer, site, limits, stop.clone(), asks);
            tokio::pin!(serving);
            tokio::select! {
                () = &mut serving => {}
                () = leave.cancelled() => {
                    // At shutdown all are told in another way, and a request in progress gets its
                    // response.
                    if stop.is_cancelled() || has_asked.load(Ordering::Acquire) {
                        serving.await;
                    }
                }
            }
        });
    }

    async fn close(mut self, grace: Duration) {
        let all_ended = async {
            while let Some(ended) = self.connections.join_next().await {
                note_end(ended);
            }
        };
        if timeout(grace, all_ended).await.is_err() {
            warn!("{} connections were cut off at the end of grace", self.connections.len());
            self.connections.shutdown().await;
        }
    }
}

async fn serve_connection<S>(
    stream: S,
    peer: Peer,
    site: Site,
    limits: ServeLimits,
    stop: CancellationToken,
    asks: impl Fn(),
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let answer = service_fn(move |request| {
        asks();
        let site = site.clone();
        async move { Ok::<_, Infallible>(site.answer(peer, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read)
        .max_header_size(PARSED_BYTES_MAX)
        .max_headers(PARSED_HEADERS_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(Watched::new(stream, limits.write_stall)), answer);
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(cause) = outcome {
        // A client that leaves, stalls or does not speak HTTP is not our error.
        debug!("a connection ended: {cause}");
    }
}

fn note_end(ended: Result<(), JoinError>) {
    if let Err(cause) = ended
        && cause.is_panic()
    {
        error!("a connection ended in a fault of the program: {cause}");
    }
}
