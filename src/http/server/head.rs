//! Limits on the head of a request, and one way only to say how long its body is.
//!
//! **Invariant:** a body's length is said once, by `Content-Length`: two readers of a connection (a
//! proxy and this server) can then never disagree about where a request ends.

use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use hyper::http::request::Parts;

use crate::base::limit::{
    HEAD_BYTES_MAX, HEADER_LINE_BYTES_MAX, HEADERS_MAX, PATH_BYTES_MAX, QUERY_BYTES_MAX,
    QUERY_PARAMETERS_MAX,
};
use crate::base::{Error, ErrorKind, fault, truncate_chars};

/// Overhead per header: `: ` and the line end.
const HEADER_FRAME_BYTES: usize = 4;

/// Refuses a head that is too large, with the matching status of HTTP.
pub(in crate::http) fn check_size(head: &Parts) -> Result<(), (StatusCode, Error)> {
    if fault::is_off("head_limits") {
        return Ok(());
    }
    let too_long = (StatusCode::URI_TOO_LONG, "ask for less at a time");
    let path = head.uri.path().len();
    if path > PATH_BYTES_MAX {
        let message = format!("the path has more than {PATH_BYTES_MAX} bytes");
        let too_long = (too_long.0, "no address of a site is as long: is a part of it repeated?");
        return refuse(too_long, "path_too_long", message);
    }
    let query = head.uri.query().unwrap_or_default();
    if query.len() > QUERY_BYTES_MAX {
        let message = format!("the query has more than {QUERY_BYTES_MAX} bytes");
        return refuse(too_long, "query_too_long", message);
    }
    if query.split('&').count() > QUERY_PARAMETERS_MAX {
        let message = format!("the query has more than {QUERY_PARAMETERS_MAX} parameters");
        return refuse((StatusCode::BAD_REQUEST, too_long.1), "too_many_parameters", message);
    }
    check_headers(&head.headers, head.method.as_str().len() + path + query.len())
}

fn check_headers(headers: &HeaderMap, line: usize) -> Result<(), (StatusCode, Error)> {
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    if headers.len() > HEADERS_MAX {
        let message = format!("the request has more than {HEADERS_MAX} headers");
        return refuse((status, "send fewer headers"), "too_many_headers", message);
    }
    let mut bytes = line;
    for (name, value) in headers {
        if value.len() > HEADER_LINE_BYTES_MAX {
            let name = truncate_chars(name.as_str(), 80);
            let message = format!("the header {name} has more than {HEADER_LINE_BYTES_MAX} bytes");
            let hint = "shorten it; a cookie can be cleared in the browser";
            return refuse((status, hint), "header_too_long", message);
        }
        bytes += name.as_str().len() + value.len() + HEADER_FRAME_BYTES;
    }
    if bytes > HEAD_BYTES_MAX {
        let message = format!("the head of the request has more than {HEAD_BYTES_MAX} bytes");
        let hint = "send fewer or shorter headers; cookies can be cleared in the browser";
        return refuse((status, hint), "head_too_long", message);
    }
    Ok(())
}

/// Refuses a body whose length is not given by exactly one `Content-Length`.
pub(in crate::http) fn check_framing(headers: &HeaderMap) -> Result<(), (StatusCode, Error)> {
    if !headers.contains_key(TRANSFER_ENCODING) || fault::is_off("framing") {
        // hyper accepts several equal lengths and drops all but one.
        return match headers.get_all(CONTENT_LENGTH).iter().nth(1) {
            Some(_) => refuse(
                (StatusCode::BAD_REQUEST, "send one Content-Length"),
                "bad_framing",
                "the request says its length more than once".to_owned(),
            ),
            None => Ok(()),
        };
    }
    refuse(
        (StatusCode::LENGTH_REQUIRED, "send the whole body with a Content-Length"),
        "length_required",
        "a body with a Transfer-Encoding is not taken".to_owned(),
    )
}

fn refuse(
    (status, hint): (StatusCode, &str),
    code: &'static str,
    message: String,
) -> Result<(), (StatusCode, Error)> {
    Err((status, Error::new(ErrorKind::Invalid, message).code(code).hint(hint)))
}
