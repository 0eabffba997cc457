//! One client for all services: a connection pool, and limits on time and size.

use std::error::Error as _;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::task::JoinSet;

use crate::base::{BaseUrl, Error, Result};
use crate::outbound::{Fetched, WebUrl, fetch, net, tls};

/// Longest wait for a connection, without TLS.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long an unused connection stays open.
const POOL_IDLE: Duration = Duration::from_secs(60);
/// Most unused connections kept per service.
const POOL_MAX: usize = 8;
/// Largest head of a response.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most headers of a response.
const HEADERS_MAX: usize = 128;

type Hyper = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A handle to the client; clones share its connections. The first request sets it up.
#[derive(Clone, Default)]
pub struct Client(Arc<Inner>);

#[derive(Default)]
struct Inner {
    tls: OnceLock<Arc<ClientConfig>>,
    hyper: OnceLock<Hyper>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

/// A request.
#[derive(Clone)]
pub struct Request<'a> {
    /// The service.
    pub base: &'a BaseUrl,
    /// The path, with a leading slash.
    pub path: &'a str,
    /// Headers without secrets.
    pub headers: &'a [(&'static str, &'a str)],
    /// A header whose value is a secret.
    pub secret: Option<(&'static str, &'a str)>,
    /// The body.
    pub body: Body,
}

/// The body of a request, which decides the method.
#[derive(Clone)]
pub enum Body {
    /// None: a GET.
    Nothing,
    /// A POST of JSON.
    Json(Bytes),
    /// A POST of a form, which may contain secrets.
    Form(Bytes),
}

/// Why a request got no response, or a response broke off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection, so nothing was sent; with the reason.
    Unconnected(String),
    /// The connection was lost; with the reason.
    Lost(String),
    /// The service was silent for too long.
    Silent,
    /// The response is too large.
    TooLarge,
    /// The request is invalid; with the reason.
    Unmade(String),
}

/// A response whose body is read in pieces. Dropping it closes the connection.
pub struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Incoming,
    /// The task that drives a connection outside of the pool.
    _speaking: JoinSet<()>,
}

impl Client {
    /// Sends a request; returns when the response's head has arrived.
    ///
    /// # Errors
    /// [`Failure::Unconnected`], [`Failure::Lost`], and [`Failure::Silent`] if no head comes in
    /// time.
    pub async fn send(
        &self,
        request: &Request<'_>,
        wait: Duration,
    ) -> std::result::Result<Answer, Failure> {
        let hyper = self.hyper().await.map_err(|cause| Failure::Unmade(cause.chain()))?;
        let made = build(request).map_err(|cause| Failure::Unmade(cause.chain()))?;
        let sent = tokio::time::timeout(wait, hyper.request(made)).await;
        let answer = sent.map_err(|_| Failure::Silent)?.map_err(|cause| {
            // The innermost cause is the one that people understand.
            let mut innermost: &dyn std::error::Error = &cause;
            while let Some(source) = innermost.source() {
                innermost = source;
            }
            match cause.is_connect() {
                true => Failure::Unconnected(innermost.to_string()),
                false => Failure::Lost(innermost.to_string()),
            }
        })?;
        Ok(Answer::of(answer, JoinSet::new()))
    }

    /// Fetches a page from the public internet, as `fetch.rs` says.
    ///
    /// # Errors
    /// `forbidden` with code `address_refused`; `unavailable` with codes `unreachable` and
    /// `page_status`; `invalid` with codes `not_text` and `bad_redirect`.
    pub async fn fetch(
        &self,
        url: &WebUrl,
        is_open: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Fetched> {
        fetch::fetch(net::net().as_ref(), self.tls().await?, url, is_open).await
    }

    async fn tls(&self) -> Result<Arc<ClientConfig>> {
        if let Some(tls) = self.0.tls.get() {
            return Ok(Arc::clone(tls));
        }
        let config = tokio::task::spawn_blocking(tls::config).await;
        let config = config.map_err(|cause| Error::internal("TLS: a panic").source(cause))??;
        Ok(Arc::clone(self.0.tls.get_or_init(|| Arc::new(config))))
    }

    async fn hyper(&self) -> Result<Hyper> {
        if let Some(hyper) = self.0.hyper.get() {
            return Ok(hyper.clone());
        }
        let config = ClientConfig::clone(self.tls().await?.as_ref());
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT_MAX));
        connector.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let hyper = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .http1_max_headers(HEADERS_MAX)
            .build(connector);
        Ok(self.0.hyper.get_or_init(|| hyper).clone())
    }
}

fn build(request: &Request<'_>) -> Result<hyper::Request<Full<Bytes>>> {
    let (method, media_type, body) = match &request.body {
        Body::Nothing => (Method::GET, None, Bytes::new()),
        Body::Json(body) => (Method::POST, Some("application/json"), body.clone()),
        Body::Form(body) => (Method::POST, Some("application/x-www-form-urlencoded"), body.clone()),
    };
    let mut made = hyper::Request::builder()
        .method(method)
        .uri(request.base.join(request.path))
        .header("user-agent", concat!("wiki-browser/", env!("CARGO_PKG_VERSION")));
    if let Some(media_type) = media_type {
        made = made.header("content-type", media_type);
    }
    for (name, value) in request.headers {
        made = made.header(*name, *value);
    }
    if let Some((name, secret)) = request.secret {
        let mut value = HeaderValue::from_str(secret)
            .map_err(|_| Error::invalid(format!("the secret of {name} is no line of text")))?;
        value.set_sensitive(true);
        made = made.header(HeaderName::from_static(name), value);
    }
    made.body(Full::new(body))
        .map_err(|cause| Error::invalid("a request cannot be made").source(cause))
}

impl Answer {
    pub(super) fn of(answer: hyper::Response<Incoming>, speaking: JoinSet<()>) -> Answer {
        let (head, body) = answer.into_parts();
        let (status, headers) = (head.status.as_u16(), head.headers);
        Answer { status, headers, body, _speaking: speaking }
    }

    /// Returns its status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// [`Failure::Silent`] if none comes in time, [`Failure::Lost`] if the connection is.
    pub async fn chunk(&mut self, wait: Duration) -> std::result::Result<Option<Bytes>, Failure> {
        loop {
            let next = tokio::time::timeout(wait, self.body.frame()).await;
            match next.map_err(|_| Failure::Silent)? {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(cause)) => {
                    let why = cause.source().map(ToString::to_string);
                    return Err(Failure::Lost(why.unwrap_or_else(|| cause.to_string())));
                }
            }
        }
    }

    /// Returns the rest of the body as text, with a limit.
    ///
    /// # Errors
    /// As [`Answer::chunk`]; [`Failure::TooLarge`].
    pub async fn text(
        mut self,
        bytes_max: usize,
        wait: Duration,
    ) -> std::result::Result<String, Failure> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.chunk(wait).await? {
            if whole.len() + bytes.len() > bytes_max {
                return Err(Failure::TooLarge);
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(String::from_utf8_lossy(&whole).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const WAIT: Duration = Duration::from_secs(20);

    /// Sends one request to a service that responds with these bytes; returns what it received.
    async fn sent(
        answer: &'static [u8],
    ) -> (std::result::Result<Answer, Failure>, JoinSet<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut served = JoinSet::new();
        served.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = vec![0; 4096];
            let count = stream.read(&mut read).await.unwrap();
            stream.write_all(answer).await.unwrap();
            String::from_utf8_lossy(&read[..count]).into_owned()
        });
        let base: BaseUrl = format!("http://{address}/base").parse().unwrap();
        let request = Request {
            base: &base,
            path: "/v1",
            headers: &[("x-version", "1")],
            secret: Some(("x-key", "s3cret")),
            body: Body::Json(Bytes::from_static(b"{}")),
        };
        (Client::default().send(&request, WAIT).await, served)
    }

    #[tokio::test]
    async fn an_answer_comes_piece_by_piece() {
        let (answer, mut served) = sent(
            b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\ntransfer-encoding: chunked\r\n\r\n\
              3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        )
        .await;
        let answer = answer.unwrap();
        assert_eq!((answer.status(), answer.header("retry-after")), (429, Some("7")));
        assert_eq!(answer.text(5, WAIT).await.unwrap(), "abcde");
        let asked = served.join_next().await.unwrap().unwrap();
        assert!(asked.starts_with("POST /base/v1 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("x-key: s3cret") && asked.contains("x-version: 1"), "{asked}");
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_like_any_other() {
        let (answer, _served) =
            sent(b"HTTP/1.1 302 Found\r\nlocation: http://x/\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(answer.unwrap().status(), 302);
    }

    #[tokio::test]
    async fn what_is_lost_or_too_large_is_said() {
        let (answer, _served) =
            sent(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
        let mut answer = answer.unwrap();
        assert_eq!(answer.chunk(WAIT).await.unwrap().unwrap(), "abc");
        assert!(matches!(answer.chunk(WAIT).await, Err(Failure::Lost(_))));
        let (answer, _served) = sent(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").await;
        assert_eq!(answer.unwrap().text(2, WAIT).await, Err(Failure::TooLarge));
        let base: BaseUrl = "http://127.0.0.1:1".parse().unwrap();
        let body = Body::Nothing;
        let request = Request { base: &base, path: "/", headers: &[], secret: None, body };
        let unsent = Client::default().send(&request, WAIT).await;
        assert!(matches!(unsent, Err(Failure::Unconnected(_))));
    }
}
