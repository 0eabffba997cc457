//! One request and its response: headers, limits, and the error envelope.

use bytes::Bytes;
use camino::Utf8Path;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::base::{Context, Error, ErrorKind, Result, truncate_chars};
use crate::client::{ANSWER_BYTES_MAX, socket};

/// The code of a broken connection.
pub const CONNECTION_LOST: &str = "connection_lost";

/// The body of a request.
#[derive(Clone, Copy)]
enum Body<'a> {
    Nothing,
    Json(&'a Value),
    File(&'a [u8]),
}

/// A request.
pub(super) struct Request<'a> {
    method: Method,
    path_and_query: &'a str,
    body: Body<'a>,
    key: Option<&'a str>,
    last_event_id: Option<&'a str>,
    accept: &'static str,
}

impl<'a> Request<'a> {
    /// GETs JSON.
    pub(super) fn get(path_and_query: &'a str) -> Request<'a> {
        Request {
            method: Method::GET,
            path_and_query,
            body: Body::Nothing,
            key: None,
            last_event_id: None,
            accept: "application/json",
        }
    }

    /// Posts JSON.
    pub(super) fn post(path: &'a str, body: &'a Value, key: Option<&'a str>) -> Request<'a> {
        Request { method: Method::POST, body: Body::Json(body), key, ..Request::get(path) }
    }

    /// Posts the bytes of a file.
    pub(super) fn post_file(path_and_query: &'a str, bytes: &'a [u8]) -> Request<'a> {
        Request { method: Method::POST, body: Body::File(bytes), ..Request::get(path_and_query) }
    }

    /// Sends a DELETE.
    pub(super) fn delete(path: &'a str) -> Request<'a> {
        Request { method: Method::DELETE, ..Request::get(path) }
    }

    /// Requests the event stream after an id.
    pub(super) fn events(path: &'a str, last_event_id: Option<&'a str>) -> Request<'a> {
        Request { last_event_id, accept: "text/event-stream", ..Request::get(path) }
    }

    /// Returns whether the request can be repeated safely: it only reads, or has a key.
    pub(super) fn is_repeatable(&self) -> bool {
        self.method == Method::GET || self.key.is_some()
    }

    fn build(&self, token: Option<&str>) -> Result<hyper::Request<Full<Bytes>>> {
        let mut request = hyper::Request::builder()
            .method(self.method.clone())
            .uri(self.path_and_query)
            .header(HOST, "localhost")
            .header(ACCEPT, self.accept);
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.context(ErrorKind::Unauthenticated, || {
                "the token holds a character that no token has".to_owned()
            })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        for (name, value) in [("idempotency-key", self.key), ("last-event-id", self.last_event_id)]
        {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let body = match self.body {
            Body::Nothing => Bytes::new(),
            Body::Json(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Bytes::from(body.to_string())
            }
            Body::File(bytes) => {
                request = request.header(CONTENT_TYPE, "application/octet-stream");
                Bytes::copy_from_slice(bytes)
            }
        };
        let shown = truncate_chars(self.path_and_query, 200);
        request
            .body(Full::new(body))
            .context(ErrorKind::Invalid, || format!("invalid address `{}`", shown.escape_debug()))
    }
}

/// A response whose body has not been read. Dropping it closes the connection.
pub(super) struct Answer {
    pub(super) body: Incoming,
    _connection: JoinSet<()>,
}

/// Sends a request and returns the JSON of a successful response.
pub(super) async fn send(
    socket: &Utf8Path,
    token: Option<&str>,
    request: &Request<'_>,
) -> Result<Bytes> {
    let answer = open(socket, token, request).await?;
    read(answer.body).await
}

/// Reads a body as JSON; an empty one is null.
pub(super) fn json(bytes: &[u8]) -> Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(bytes)
        .context(ErrorKind::Internal, || "the server's answer is not JSON".to_owned())
}

/// Sends a request and returns the head of a successful response; an error is read completely.
pub(super) async fn open(
    socket: &Utf8Path,
    token: Option<&str>,
    request: &Request<'_>,
) -> Result<Answer> {
    let request = request.build(token)?;
    let stream = socket::connect(socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(512 * 1024)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(lost)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        // Errors of the connection are seen by the reader of the response.
        let _ = connection.await;
    });
    let response: Response<Incoming> = sender.send_request(request).await.map_err(lost)?;
    let status = response.status();
    let answer = Answer { body: response.into_body(), _connection: tasks };
    if status.is_success() {
        return Ok(answer);
    }
    let bytes = read(answer.body).await?;
    Err(refusal(status.as_u16(), &bytes))
}

async fn read(body: Incoming) -> Result<Bytes> {
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(cause) if cause.is::<http_body_util::LengthLimitError>() => {
            let mib = ANSWER_BYTES_MAX / (1024 * 1024);
            Err(Error::new(ErrorKind::TooLarge, format!("the answer is longer than {mib} MiB")))
        }
        Err(cause) => Err(broken().source(cause)),
    }
}

/// Returns the error of a connection that ended before the response did.
pub(super) fn lost(cause: hyper::Error) -> Error {
    broken().source(cause)
}

fn broken() -> Error {
    Error::unavailable("the connection to the server ended before its answer")
        .code(CONNECTION_LOST)
        .hint("the server may have stopped; look before you ask again")
}

/// Returns the error of an unsuccessful response.
fn refusal(status: u16, bytes: &[u8]) -> Error {
    let kind = ErrorKind::from_status(status);
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let envelope = &value["error"];
    let word = |name: &str| envelope[name].as_str().map(str::to_owned);
    let Some(mut message) = word("message") else {
        return Error::new(kind, format!("the server answered {status} and does not say why"));
    };
    let request_id = word("request_id").or_else(|| value["request_id"].as_str().map(str::to_owned));
    if let Some(id) = request_id {
        message.push_str(" (request ");
        message.push_str(&id);
        message.push(')');
    }
    let mut error = Error::new(kind, message);
    if let Some(code) = word("code") {
        error = error.code(code);
    }
    match word("hint") {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_becomes_the_same_error() {
        let body = br#"{"error":{"code":"lane_busy","message":"job 7f3a runs","hint":"wait"}}"#;
        let error = refusal(409, body);
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(
            (error.code_str(), error.message(), error.hint_str()),
            ("lane_busy", "job 7f3a runs", Some("wait"))
        );
        let body = br#"{"error":{"code":"internal","message":"a fault","request_id":"9"}}"#;
        assert_eq!(refusal(500, body).message(), "a fault (request 9)");
        let body = br#"{"error":{"code":"internal","message":"a fault"},"request_id":"8"}"#;
        assert_eq!(refusal(500, body).message(), "a fault (request 8)");
    }

    #[test]
    fn an_answer_without_envelope_is_still_an_error_of_its_status() {
        for body in [&b""[..], b"<html>", b"[]", b"{\"error\":7}", b"\xff"] {
            let error = refusal(503, body);
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().contains("503"));
        }
        assert_eq!(refusal(302, b"").kind(), ErrorKind::Internal);
    }
}
