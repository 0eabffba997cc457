//! Responses: JSON, pages, redirects, and the error envelope.

use std::sync::Arc;

use askama::Template;
use bytes::Bytes;
use futures_util::Stream;
use hyper::StatusCode;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, LOCATION, REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use serde::Serialize;
use serde_json::json;
use tracing::{debug, error};
use warp::Reply as _;
use warp::reply::Response;

use crate::base::{Error, ErrorKind, Result, TokenId, fault};
use crate::http::assets;
use crate::http::pages::parts::message::{self, ErrorPage, SignInPage};
use crate::http::pages::{Frame, Look, Reader};
use crate::http::server::body::ANSWERS_FULL;
use crate::http::server::streams::TOO_MANY_STREAMS;
use crate::people::BAD_CODE;

/// What a page may load: its own files. Scripts may create HTML only through the policy `wb`.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types wb";
/// The policy for everything else, in case a browser displays it: nothing.
const OTHER_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// The policy for the service worker: as for a page.
const WORKER_POLICY: &str = "default-src 'none'; connect-src 'self'; frame-ancestors 'none'";

/// `Retry-After` of a busy or unavailable server, in seconds.
const RETRY_AFTER_S: &str = "2";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// The version of the program; an older page notices the difference.
const PROGRAM_VERSION: HeaderName = HeaderName::from_static("wb-version");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// An error on its way to [`finish_error`], which knows the client's format.
#[derive(Clone)]
pub(super) struct Failed(pub(super) Arc<Error>, pub(super) Option<Arc<Aside>>);

/// What an error page after a form has besides the error.
#[derive(Debug)]
pub(super) struct Aside {
    /// Other links, with their labels.
    pub(super) more: Vec<(String, &'static str)>,
    /// The old and the new name of a document; the typed text goes along.
    pub(super) moved: Option<(String, String)>,
    /// The link back: to the form, or to what replaced a missing page.
    pub(super) back: String,
    /// The label of that link.
    pub(super) way: &'static str,
    /// The typed text, which must not be lost.
    pub(super) typed: Option<String>,
    /// The subject by which the page notices that what is missing is there again.
    pub(super) live: Option<String>,
}

impl Default for Aside {
    fn default() -> Aside {
        let way = "Go to the first page";
        let back = "/".to_owned();
        Aside { more: Vec::new(), moved: None, back, way, typed: None, live: None }
    }
}

/// Marks responses of leaves, as opposed to warp's own when nothing matched.
#[derive(Clone)]
pub(super) struct Ours;

/// Marks the service worker's script, which may fetch from this site.
#[derive(Clone)]
pub(super) struct Worker;

/// How an error is shown.
pub(super) struct Shown<'a> {
    /// The id of the request in the log.
    pub(super) request_id: TokenId,
    pub(super) site_name: &'a str,
    pub(super) is_page: bool,
    /// The preferences of the browser.
    pub(super) look: Look,
    /// The caller, if known.
    pub(super) reader: Option<Reader>,
    /// What a form leaves for its error page.
    pub(super) aside: Option<Arc<Aside>>,
}

/// Returns a response that carries an error.
pub(super) fn failed(error: Error) -> Response {
    failed_with(error, None)
}

/// Returns a response that carries the error of a form.
pub(super) fn failed_form(error: Error, aside: Aside) -> Response {
    failed_with(error, Some(Arc::new(aside)))
}

fn failed_with(error: Error, aside: Option<Arc<Aside>>) -> Response {
    let mut response = empty(StatusCode::INTERNAL_SERVER_ERROR);
    response.extensions_mut().insert(Failed(Arc::new(error), aside));
    response
}

/// Returns JSON with a status.
///
/// # Errors
/// `internal` if the value cannot be written as JSON.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response> {
    let text = serde_json::to_vec(value)
        .map_err(|cause| Error::internal("an answer is not JSON").source(cause))?;
    Ok(typed(status, "application/json", text))
}

/// Returns JSON with 200.
///
/// # Errors
/// As [`json()`].
pub fn ok<T: Serialize>(value: &T) -> Result<Response> {
    json(StatusCode::OK, value)
}

/// Returns a page.
///
/// # Errors
/// `internal` if the template fails.
pub fn page<T: Template>(template: &T) -> Result<Response> {
    Ok(html(template.render().map_err(unwritten)?))
}

/// Returns a page that shows a refusal, with its status.
///
/// # Errors
/// As [`page()`].
pub(super) fn refused<T: Template>(template: &T, cause: &Error) -> Result<Response> {
    let mut response = page(template)?;
    *response.status_mut() =
        StatusCode::from_u16(cause.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok(response)
}

/// Returns a page, or parts of one, from rendered templates.
pub(super) fn html(text: String) -> Response {
    typed(StatusCode::OK, "text/html; charset=utf-8", text.into_bytes())
}

/// Returns the error of a template.
pub(super) fn unwritten(cause: askama::Error) -> Error {
    Error::internal("a page cannot be written").source(cause)
}

/// Returns a redirect that makes the browser GET another path of the site.
///
/// # Errors
/// `internal` if the path is not one that a header can carry.
pub(super) fn see_other(path: &str) -> Result<Response> {
    let location = HeaderValue::from_str(path)
        .map_err(|cause| Error::internal("an address cannot be written").source(cause))?;
    let mut response = empty(StatusCode::SEE_OTHER);
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// Returns a response without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = "".into_response();
    *response.status_mut() = status;
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

/// Returns bytes of a type.
pub(super) fn typed(status: StatusCode, kind: &'static str, mut bytes: Vec<u8>) -> Response {
    // Bytes collected while growing would be held until the slowest client has read them.
    bytes.shrink_to_fit();
    let mut response = bytes.into_response();
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Returns an endless response.
pub(super) fn stream<S>(kind: &'static str, parts: S) -> Response
where
    S: Stream<Item = Result<Bytes>> + Send + Sync + 'static,
{
    let mut response = warp::reply::stream(parts).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Writes an error in the client's format. A 5xx gets an id, under which the log has the causes;
/// the causes never leave the program.
pub(super) fn finish_error(error: &Error, shown: &Shown<'_>) -> Response {
    let status =
        StatusCode::from_u16(error.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let id = status.is_server_error().then(|| {
        let id = shown.request_id.as_str();
        // Limits are reported to the client; a log line for each would be another way to fill the
        // disk.
        if matches!(error.code_str(), ANSWERS_FULL | TOO_MANY_STREAMS) {
            debug!(request_id = %id, "request {id} was refused: {}", error.chain());
        } else {
            error!(request_id = %id, "request {id} failed: {}", error.chain());
        }
        id
    });
    let mut response = envelope(error, status, id, shown);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
    }
    response
}

/// Writes an error found in the head, with a status of its own. The connection closes, because the
/// start of the next request is uncertain.
pub(super) fn finish_status(status: StatusCode, error: &Error, shown: &Shown<'_>) -> Response {
    let mut response = envelope(error, status, None, shown);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Writes the 405 for a path that exists with other methods.
pub(super) fn other_verbs(verbs: &[&'static str], shown: &Shown<'_>) -> Response {
    let error = Error::invalid("this path does not support this method")
        .code("method_not_allowed")
        .hint(format!("it takes {}", verbs.join(", ")));
    let mut response = envelope(&error, StatusCode::METHOD_NOT_ALLOWED, None, shown);
    if let Ok(value) = HeaderValue::from_str(&verbs.join(", ")) {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}

fn envelope(
    error: &Error,
    status: StatusCode,
    request_id: Option<&str>,
    shown: &Shown<'_>,
) -> Response {
    if shown.is_page {
        let frame = Frame::outside(shown.site_name, shown.look).read_by(shown.reader.clone());
        // A link that no longer works is no page that somebody wanted.
        let wants_sign_in = status == StatusCode::UNAUTHORIZED && error.code_str() != BAD_CODE;
        let written = if wants_sign_in {
            self::page(&SignInPage { frame })
        } else {
            let none = Aside::default();
            let aside = shown.aside.as_deref().unwrap_or(&none);
            self::page(&ErrorPage {
                frame,
                status: status.as_u16(),
                code: error.code_str(),
                heading: ErrorPage::heading_of(error.code_str(), status),
                message: error.message(),
                hint: message::hint_of(error.code_str(), error.hint_str()),
                request_id,
                aside,
            })
        };
        if let Ok(mut response) = written {
            *response.status_mut() = status;
            return response;
        }
    }
    let mut body = json!({"error": {
        "code": error.code_str(), "message": error.message(), "hint": error.hint_str(),
    }});
    if let Some(input) = error.input_str() {
        body["error"]["input"] = json!(input);
    }
    if let Some(id) = request_id {
        body["error"]["request_id"] = json!(id);
    }
    typed(status, "application/json", body.to_string().into_bytes())
}

/// Adds the headers of every response.
pub(super) fn finish_headers(response: &mut Response) {
    let is_html = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|it| it.as_bytes().starts_with(b"text/html"));
    let policy = match response.extensions().get::<Worker>() {
        Some(Worker) => WORKER_POLICY,
        None if is_html => PAGE_POLICY,
        None => OTHER_POLICY,
    };
    let headers = response.headers_mut();
    if !fault::is_off("page_policy") {
        put(headers, CONTENT_SECURITY_POLICY, policy);
    }
    put(headers, X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(headers, X_FRAME_OPTIONS, "DENY");
    put(headers, REFERRER_POLICY, "same-origin");
    put(headers, OPENER_POLICY, "same-origin");
    put(headers, RESOURCE_POLICY, "same-origin");
    put(headers, PROGRAM_VERSION, assets::VERSION);
    put(headers, PERMISSIONS_POLICY, "camera=(), geolocation=(), microphone=()");
    if !headers.contains_key(CACHE_CONTROL) {
        put(headers, CACHE_CONTROL, "no-store");
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}
