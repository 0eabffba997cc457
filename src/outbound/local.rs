//! Requests to our own services on this machine, over a Unix socket.
//!
//! **Invariant:** each request has its own connection, which closes when its response is dropped.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use camino::Utf8Path;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::HeaderValue;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::outbound::client::{Answer, Failure};

/// A service on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    /// Its socket.
    pub socket: &'a Utf8Path,
    /// The secret that identifies us; in no message.
    pub token: &'a str,
}

/// Sends a request with a JSON body; returns when the response's head has arrived.
///
/// # Errors
/// [`Failure::Unconnected`], [`Failure::Lost`], and [`Failure::Silent`] if no head comes in time.
pub async fn call(
    to: Local<'_>,
    (method, path): (&str, &str),
    json: Bytes,
    wait: Duration,
) -> Result<Answer, Failure> {
    let asked = tokio::time::timeout(wait, ask(to, (method, path), json)).await;
    asked.map_err(|_| Failure::Silent)?
}

async fn ask(to: Local<'_>, (method, path): (&str, &str), json: Bytes) -> Result<Answer, Failure> {
    let stream = UnixStream::connect(to.socket.as_std_path()).await;
    let stream = stream.map_err(|cause| Failure::Unconnected(cause.to_string()))?;
    let lost = |cause: hyper::Error| {
        let why = cause.source().map(ToString::to_string);
        Failure::Lost(why.unwrap_or_else(|| cause.to_string()))
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let mut speaking = JoinSet::new();
    speaking.spawn(async move {
        if let Err(cause) = connection.await {
            tracing::debug!("the connection to a service of ours ended: {cause}");
        }
    });
    let unmade = |why: String| Failure::Unmade(why);
    let mut token = HeaderValue::from_str(&format!("Bearer {}", to.token))
        .map_err(|cause| unmade(cause.to_string()))?;
    token.set_sensitive(true);
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", token)
        .body(Full::new(json))
        .map_err(|cause| unmade(cause.to_string()))?;
    let answer = sender.send_request(request).await.map_err(lost)?;
    Ok(Answer::of(answer, speaking))
}
