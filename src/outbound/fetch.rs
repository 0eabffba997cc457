//! Fetches pages whose URL somebody else chose: a model, or a text that it has read.
//!
//! **Invariant:** connections go to checked addresses, never to names. Every redirect is checked
//! like the first URL, and no proxy is used, because it would resolve names itself.
//! **Invariant:** no cookie, referrer or credential is sent.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::base::{Error, ErrorKind, Result, fault, truncate_chars};
use crate::outbound::WebUrl;
use crate::outbound::address::is_public;
use crate::outbound::net::Net;

/// Longest time for a page, including redirects.
const TIME_MAX: Duration = Duration::from_secs(15);
/// Longest time for one connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Most addresses tried per name.
const TRIED_MAX: usize = 4;
/// Most redirects.
const REDIRECTS_MAX: usize = 5;
/// Most bytes read of a page.
pub const PAGE_BYTES_MAX: usize = 256 * 1024;
/// Largest head of a response.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most headers of a response.
const HEADERS_MAX: usize = 128;
/// Longest foreign error text that is repeated, in characters.
const REASON_CHARS_MAX: usize = 200;
/// Media types that are text although their names do not begin with `text/`.
const TEXTS: [&str; 8] = [
    "application/json",
    "application/xml",
    "application/xhtml+xml",
    "application/javascript",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/x-ndjson",
];

/// The result of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// A page.
    Page(Page),
    /// A redirect to a host that needs confirmation; with its URL.
    Elsewhere(WebUrl),
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its URL, after all redirects.
    pub url: WebUrl,
    /// Its media type, such as `text/html`, in lowercase and without parameters.
    pub media_type: String,
    /// Its text.
    pub text: String,
    /// Whether it was cut.
    pub is_cut: bool,
}

/// Fetches a page. Redirects are followed on the same host and to hosts that `is_open` accepts, but
/// never from `https` to `http`.
///
/// # Errors
/// `forbidden` with code `address_refused`; `unavailable` with codes `unreachable` and
/// `page_status`; `invalid` with codes `not_text` and `bad_redirect`.
pub(super) async fn fetch(
    net: &dyn Net,
    tls: Arc<ClientConfig>,
    url: &WebUrl,
    is_open: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Fetched> {
    let fetched = tokio::time::timeout(TIME_MAX, follow(net, &tls, url, is_open)).await;
    fetched.map_err(|_| unreachable(url, "it takes longer than 15 seconds"))?
}

fn unreachable(url: &WebUrl, why: &str) -> Error {
    let why = truncate_chars(why, REASON_CHARS_MAX);
    Error::unavailable(format!("{} cannot be reached: {why}", url.host())).code("unreachable")
}

async fn follow(
    net: &dyn Net,
    tls: &Arc<ClientConfig>,
    url: &WebUrl,
    is_open: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Fetched> {
    let mut at = url.clone();
    for _ in 0..=REDIRECTS_MAX {
        // The connection's task ends with it.
        let mut speaking = JoinSet::new();
        let answer = ask(net, tls, &at, &mut speaking).await?;
        let status = answer.status();
        if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            let to = answer.headers().get("location").and_then(|it| it.to_str().ok());
            let bad = || {
                let message = format!("{} leads to an address that cannot be fetched", at.host());
                Error::invalid(message).code("bad_redirect")
            };
            let next = at.join(to.ok_or_else(bad)?).map_err(|cause| bad().source(cause))?;
            let is_same = next.host() == at.host() || is_open(next.host());
            if !is_same || (at.is_tls() && !next.is_tls()) {
                return Ok(Fetched::Elsewhere(next));
            }
            at = next;
            continue;
        }
        if !status.is_success() {
            let message = format!("{} answered with status {}", at.host(), status.as_u16());
            return Err(Error::unavailable(message).code("page_status"));
        }
        return read(at, answer).await.map(Fetched::Page);
    }
    let message = format!("{} leads on more than {REDIRECTS_MAX} times", url.host());
    Err(Error::invalid(message).code("bad_redirect"))
}

/// Sends the request to a checked address; returns when the response's head has arrived.
async fn ask(
    net: &dyn Net,
    tls: &Arc<ClientConfig>,
    url: &WebUrl,
    speaking: &mut JoinSet<()>,
) -> Result<hyper::Response<Incoming>> {
    let stream = connect(net, url).await?;
    if !url.is_tls() {
        return speak(stream, url, speaking).await;
    }
    let name = ServerName::try_from(url.host().to_owned())
        .map_err(|_| unreachable(url, "its name cannot be checked by TLS"))?;
    let secure = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
    speak(secure.map_err(|cause| unreachable(url, &cause.to_string()))?, url, speaking).await
}

/// Connects to the first address that responds, after checking all of them.
async fn connect(net: &dyn Net, url: &WebUrl) -> Result<TcpStream> {
    let literal: Option<IpAddr> = url.host().parse().ok();
    let found = match literal {
        Some(ip) => vec![ip],
        None => {
            let found = net.addresses(url.host()).await;
            found.map_err(|cause| unreachable(url, &cause.to_string()))?
        }
    };
    if found.is_empty() {
        return Err(unreachable(url, "it has no address"));
    }
    // A single private address among public ones is enough to lead inside.
    if !found.iter().all(|it| is_public(*it)) && !fault::is_off("public_address") {
        return Err(refused(url));
    }
    let mut why = String::new();
    for ip in found.into_iter().take(TRIED_MAX) {
        let to = SocketAddr::new(ip, url.port());
        match tokio::time::timeout(CONNECT_MAX, net.connect(to)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(cause)) if cause.kind() == io::ErrorKind::PermissionDenied => {
                return Err(refused(url));
            }
            Ok(Err(cause)) => why = cause.to_string(),
            Err(_) => "it does not answer".clone_into(&mut why),
        }
    }
    Err(unreachable(url, &why))
}

fn refused(url: &WebUrl) -> Error {
    let message = format!("{} is not on the public internet", url.host());
    Error::new(ErrorKind::Forbidden, message).code("address_refused")
}

async fn speak<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    url: &WebUrl,
    speaking: &mut JoinSet<()>,
) -> Result<hyper::Response<Incoming>> {
    let lost = |cause: hyper::Error| unreachable(url, &cause.to_string());
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(lost)?;
    speaking.spawn(async move {
        if let Err(cause) = connection.await {
            tracing::debug!("a page's connection ended: {cause}");
        }
    });
    let request = hyper::Request::builder()
        .uri(url.target())
        .header("host", url.authority())
        .header("user-agent", concat!("wiki-browser/", env!("CARGO_PKG_VERSION")))
        .header("accept", "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1")
        .header("accept-encoding", "identity")
        .header("connection", "close")
        .body(Empty::<Bytes>::new())
        .map_err(|cause| Error::internal("a request cannot be made").source(cause))?;
    sender.send_request(request).await.map_err(lost)
}

async fn read(url: WebUrl, answer: hyper::Response<Incoming>) -> Result<Page> {
    let header = |name: &str| answer.headers().get(name).and_then(|it| it.to_str().ok());
    let no_text = |what: &str| {
        Error::invalid(format!("{} sends no text but {what}", url.host())).code("not_text")
    };
    let told = header("content-type").unwrap_or_default().to_ascii_lowercase();
    let mut parts = told.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default().to_owned();
    let is_named = |it: &str| it.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_named(&media_type) || media_type.len() > 100 || !is_text(&media_type) {
        let shown = truncate_chars(&media_type, 60);
        return Err(no_text(&shown.escape_debug().to_string()));
    }
    if header("content-encoding").is_some_and(|it| !it.eq_ignore_ascii_case("identity")) {
        return Err(no_text("something compressed, which was not asked for"));
    }
    let charset = parts.find_map(|it| it.strip_prefix("charset="));
    let charset = charset.map(|it| it.trim_matches('"').to_owned());
    let (bytes, is_cut) = body(&url, answer).await?;
    let text = decode(bytes, charset.as_deref(), is_cut);
    let text = text.ok_or_else(|| no_text("bytes"))?;
    Ok(Page { url, media_type, text, is_cut })
}

fn is_text(media_type: &str) -> bool {
    media_type.is_empty()
        || media_type.starts_with("text/")
        || TEXTS.contains(&media_type)
        || (media_type.starts_with("application/")
            && (media_type.ends_with("+json") || media_type.ends_with("+xml")))
}

/// Reads the body up to its limit; returns whether there is more.
async fn body(url: &WebUrl, answer: hyper::Response<Incoming>) -> Result<(Vec<u8>, bool)> {
    let (mut body, mut bytes) = (answer.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|cause| unreachable(url, &cause.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        let room = PAGE_BYTES_MAX - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

/// Returns bytes as text; `None` if they are not.
fn decode(bytes: Vec<u8>, charset: Option<&str>, is_cut: bool) -> Option<String> {
    if bytes.contains(&0) {
        return None;
    }
    if matches!(charset, Some("iso-8859-1" | "latin1" | "windows-1252" | "us-ascii")) {
        return Some(bytes.iter().map(|it| char::from(*it)).collect());
    }
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(wrong) => {
            let whole = wrong.utf8_error().valid_up_to();
            let bytes = wrong.into_bytes();
            // The last character may be cut.
            match is_cut && bytes.len() - whole < 4 {
                true => Some(String::from_utf8_lossy(&bytes[..whole]).into_owned()),
                false => Some(String::from_utf8_lossy(&bytes).into_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
