//! The accept loop: connections with limits on number, time and size, ended in order.
//!
//! **Invariant:** every connection is a task of one `JoinSet`; none outlives [`serve`].
//! **Invariant:** on the Unix socket only our own user and root are heard.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
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

use crate::http::listen::{Backoff, Peer, Watched, own_uid};
use crate::http::metrics::Door;
use crate::http::{Edge, Site};

/// Where clients come in.
pub struct Listeners {
    /// For browsers, if the site has an address.
    pub tcp: Option<TcpListener>,
    /// For the command line and for agents.
    pub unix: UnixListener,
}

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct ServeLimits {
    /// Most TCP connections; one more is closed at once.
    pub tcp_connections_max: usize,
    /// Most connections on the socket, of agents and of all others each: a job that opens many
    /// takes none from browsers and none from the operator.
    pub unix_connections_max: usize,
    /// Longest time for the head of a request, and between two requests.
    pub header_read: Duration,
    /// Largest head of a request.
    pub header_bytes_max: usize,
    /// Most headers of a request.
    pub headers_max: usize,
    /// Longest time in which a client takes nothing of its answer.
    pub write_stall: Duration,
}

impl Default for ServeLimits {
    fn default() -> ServeLimits {
        ServeLimits {
            tcp_connections_max: 512,
            unix_connections_max: 256,
            header_read: Duration::from_secs(10),
            header_bytes_max: 16 * 1024,
            headers_max: 100,
            write_stall: Duration::from_secs(30),
        }
    }
}

/// Serves until `stop`; then lets open requests end within `grace`, and cuts the rest off.
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
    let mut doors = Doors {
        site: Site::new(routes, edge),
        limits,
        own_uid,
        stop: stop.clone(),
        tcp: Arc::new(Semaphore::new(limits.tcp_connections_max)),
        unix: Arc::new(Semaphore::new(limits.unix_connections_max)),
        agents: Arc::new(Semaphore::new(limits.unix_connections_max)),
        connections: JoinSet::new(),
    };
    let mut backoff = Backoff::default();
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
            Ok(arrived) => doors.admit(arrived),
            Err(cause) => {
                let (pause, is_news) = backoff.failed();
                if is_news {
                    warn!("a connection could not be accepted: {cause}");
                }
                tokio::select! {
                    () = sleep(pause) => {}
                    () = stop.cancelled() => break,
                }
            }
        }
    }
    drop(listeners);
    doors.close(grace).await;
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

/// What admits connections and keeps count of them.
struct Doors {
    site: Site,
    limits: ServeLimits,
    own_uid: u32,
    stop: CancellationToken,
    tcp: Arc<Semaphore>,
    unix: Arc<Semaphore>,
    agents: Arc<Semaphore>,
    connections: JoinSet<()>,
}

impl Doors {
    /// Starts a connection, or closes it at once by dropping it.
    fn admit(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Tcp(stream, address) => {
                let Ok(permit) = Arc::clone(&self.tcp).try_acquire_owned() else {
                    self.site.note_turned_away(Door::Tcp);
                    debug!("too many connections: {address} was closed");
                    return;
                };
                if let Err(cause) = stream.set_nodelay(true) {
                    debug!("{address} was gone before it was served: {cause}");
                    return;
                }
                self.start(stream, Peer::Tcp(address), permit);
            }
            Arrived::Unix(stream) => {
                let peer = match stream.peer_cred() {
                    Ok(it) if it.uid() == self.own_uid || it.uid() == 0 => {
                        // A process of another PID namespace, or one that has ended, is not seen.
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
                // Agents that hold many connections take none from the operator.
                let is_agent = matches!(peer, Peer::Unix { is_agent: true, .. });
                let pool = if is_agent { &self.agents } else { &self.unix };
                let Ok(permit) = Arc::clone(pool).try_acquire_owned() else {
                    let door = if is_agent { Door::Agents } else { Door::Socket };
                    self.site.note_turned_away(door);
                    debug!("too many connections on the socket: one was closed");
                    return;
                };
                self.start(stream, peer, permit);
            }
        }
    }

    fn start<S>(&mut self, stream: S, peer: Peer, permit: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (site, limits, stop) = (self.site.clone(), self.limits, self.stop.clone());
        self.connections.spawn(async move {
            let _permit = permit;
            serve_connection(stream, peer, site, limits, stop).await;
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
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let answer = service_fn(move |request| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(site.answer(peer, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read)
        .max_header_size(limits.header_bytes_max)
        .max_headers(limits.headers_max)
        .max_buf_size(limits.header_bytes_max.saturating_mul(4).max(64 * 1024))
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
        // A client that leaves, stalls or speaks no HTTP is its own affair.
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
