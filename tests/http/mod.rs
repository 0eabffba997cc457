//! The HTTP edge over real sockets: a site on port 0 and on a Unix socket, with raw bytes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

mod connections;
mod credentials;
mod description;
mod events;
mod guard;
mod limits;
mod signing_in;
mod strange;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use wiki_browser::base::{Clock, Error, Ids, JobId, digest_hex};
use wiki_browser::http::serve;
use wiki_browser::http::{
    Edge, GateConfig, Has, IsReady, JobToken, JobTokenState, Listeners, ServeLimits, bind_unix,
    routes,
};
use wiki_browser::people::{self, LoginCodes, Person, TokenScope};
use wiki_browser::store::{MIGRATIONS, Store};

/// How long any test waits for anything.
const DEADLINE: Duration = Duration::from_secs(20);
const OPERATOR_SECRET: &str = "wb_0000000000000000000000000000000000000000000000000000000000000001";
const RUNNING_JOB: &str = "018bcfe5-6800-7000-8000-000000000001";

/// A site that serves until it is dropped.
struct Fixture {
    folder: TempDir,
    edge: Edge,
    address: SocketAddr,
    person: Person,
    token: String,
    is_agent: Arc<AtomicBool>,
    ready: Arc<AtomicU8>,
    stop: CancellationToken,
    serving: JoinSet<()>,
    _end: DropGuard,
}

async fn site() -> Fixture {
    site_with(ServeLimits::default(), Duration::from_secs(5)).await
}

async fn site_with(limits: ServeLimits, grace: Duration) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let data = utf8(&folder);
    let clock = Clock::system();
    let (store, writer) = Store::open(&data.join("wiki.db"), MIGRATIONS, clock.clone()).unwrap();
    let (stop, writer_stop) = (CancellationToken::new(), CancellationToken::new());
    let mut serving = JoinSet::new();
    serving.spawn(writer.serve(writer_stop.clone()));
    let ids = Ids::new(clock);
    let (person, token) = people_of(&store, &ids).await;
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let unix = bind_unix(&data, "wb.sock").unwrap();
    let hosts = vec!["wiki.example.org".to_owned()];
    let is_agent = Arc::new(AtomicBool::new(false));
    let agent = Arc::clone(&is_agent);
    let ready = Arc::new(AtomicU8::new(0));
    let edge = Edge {
        store,
        ids,
        codes: LoginCodes::default(),
        gate: Arc::new(GateConfig::new(Some(address), hosts, "Test".to_owned(), &data)),
        identify_job: Arc::new(|hash| Box::pin(async move { Ok(job_of(&hash)) })),
        note_refusal: Arc::new(|_, _| ()),
        has_for: Arc::new(|_| Has::default()),
        is_agent_peer: Arc::new(move |_| agent.load(Ordering::SeqCst)),
        is_ready: readiness(&ready),
        traffic: Default::default(),
        stop: stop.clone(),
    };
    let listeners = Listeners { tcp: Some(tcp), unix };
    let all = routes(&edge);
    serving.spawn(serve(listeners, all, edge.clone(), limits, stop.clone(), grace));
    let end = stop.clone().drop_guard();
    Fixture { folder, edge, address, person, token, is_agent, ready, stop, serving, _end: end }
}

/// 0: ready, 1: not ready, 2: a fault of the program.
fn readiness(state: &Arc<AtomicU8>) -> IsReady {
    let state = Arc::clone(state);
    Arc::new(move || {
        let state = state.load(Ordering::SeqCst);
        Box::pin(async move {
            assert_ne!(state, 2, "a panic in a handler");
            let cause = std::io::Error::other("hidden detail");
            let error = Error::unavailable("the disk is away").source(cause);
            if state == 0 { Ok(()) } else { Err(error) }
        })
    })
}

async fn people_of(store: &Store, ids: &Ids) -> (Person, String) {
    let ids = ids.clone();
    let made = store.write(move |tx| {
        let person = people::ensure_operator(tx, &ids, "ada")?;
        people::ensure_operator_token(tx, &ids, &person.id, OPERATOR_SECRET)?;
        let (_, token) =
            people::create_token(tx, &ids, &person.id, "laptop", &TokenScope::ALL, None)?;
        Ok((person, token))
    });
    made.await.unwrap()
}

/// The jobs of the site: the token `running` runs, `ended` has ended.
fn job_of(hash: &str) -> Option<JobToken> {
    let job: JobId = RUNNING_JOB.parse().unwrap();
    if hash == digest_hex("running") {
        return Some(JobToken { job, state: JobTokenState::Running, is_private: false });
    }
    (hash == digest_hex("ended")).then_some(JobToken {
        job,
        state: JobTokenState::Ended,
        is_private: false,
    })
}

fn utf8(folder: &TempDir) -> Utf8PathBuf {
    Utf8Path::from_path(folder.path()).unwrap().to_owned()
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The `code` of an error.
    fn code(&self) -> String {
        let json: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        json["error"]["code"].as_str().unwrap_or("").to_owned()
    }
}

impl Fixture {
    fn host(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    fn socket(&self) -> Utf8PathBuf {
        utf8(&self.folder).join("wb.sock")
    }

    /// Sends these bytes over TCP and reads to the end.
    async fn tcp(&self, request: &str) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        exchange(stream, request).await
    }

    /// Sends these bytes over the socket and reads to the end.
    async fn unix(&self, request: &str) -> Answer {
        let stream = UnixStream::connect(self.socket()).await.unwrap();
        exchange(stream, request).await
    }

    /// GET over TCP with these header lines besides the right Host.
    async fn get(&self, path: &str, headers: &str) -> Answer {
        self.tcp(&request("GET", path, &self.host(), headers, "")).await
    }

    /// POST of JSON over TCP with these header lines besides the right Host.
    async fn post(&self, path: &str, headers: &str, body: &str) -> Answer {
        let headers = format!("{headers}Content-Type: application/json\r\n");
        self.tcp(&request("POST", path, &self.host(), &headers, body)).await
    }

    fn bearer(&self) -> String {
        bearer(&self.token)
    }

    /// Ends the site and waits until all its tasks have ended.
    async fn end(mut self) {
        self.stop.cancel();
        // The writer is not told to stop: its queue lives as long as the edge.
        timeout(DEADLINE, self.serving.join_next()).await.unwrap().unwrap().unwrap();
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn request(method: &str, path: &str, host: &str, headers: &str, body: &str) -> String {
    let length = if body.is_empty() && method == "GET" {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         {headers}{length}\r\n{body}"
    )
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, request: &str) -> Answer {
    // A connection that is refused may be reset before the request is written.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut bytes = Vec::new();
    // A connection that is refused may be reset after its answer; what was read counts.
    let _ = timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("an answer in time");
    answer_of(&bytes)
}

fn answer_of(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
