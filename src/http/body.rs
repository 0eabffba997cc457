//! Bodies and queries of requests, read with limits on size and time.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use crate::base::{Error, ErrorKind, Result, truncate_chars};

/// A body that nobody has read yet.
pub(super) type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Longest pause within a body.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Longest time for a whole body (16 MiB from a slow phone).
const BODY_TIME_MAX: Duration = Duration::from_secs(120);

/// The type of a form.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

/// Reads a whole body.
pub(super) async fn read(mut body: BodyStream, bytes_max: usize) -> Result<Vec<u8>> {
    let deadline = Instant::now() + BODY_TIME_MAX;
    let mut bytes = Vec::new();
    loop {
        let next = timeout(PAUSE_MAX, timeout_at(deadline, body.next())).await;
        let Ok(Ok(next)) = next else {
            return Err(Error::invalid("the body did not arrive in time").code("body_timeout"));
        };
        let Some(part) = next else { return Ok(bytes) };
        let part = part?;
        if bytes.len() + part.len() > bytes_max {
            let message = format!("the body is longer than {bytes_max} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        bytes.extend_from_slice(&part);
    }
}

/// Returns whether the body says that it is of this type and not packed.
pub(super) fn is_of_type(headers: &HeaderMap, wanted: &str) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(first), None) = (types.next(), types.next()) else { return false };
    let Ok(first) = first.to_str() else { return false };
    let mut parts = first.split(';');
    let is_wanted = parts.next().is_some_and(|it| it.trim().eq_ignore_ascii_case(wanted));
    let is_utf8 = parts.all(|it| {
        let it = it.trim().to_ascii_lowercase();
        it.is_empty() || it == "charset=utf-8" || it == "charset=\"utf-8\""
    });
    is_wanted && is_utf8 && !headers.contains_key(CONTENT_ENCODING)
}

/// Reads JSON; unknown fields are refused by types that say `deny_unknown_fields`.
pub(super) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|cause| {
        let why = truncate_chars(&cause.to_string(), 200);
        let code = if why.starts_with("unknown field") { "unknown_field" } else { "bad_json" };
        Error::invalid(format!("the body is not what this route takes: {why}")).code(code)
    })
}

/// Reads a form.
pub(super) fn parse_form<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_urlencoded::from_bytes(bytes).map_err(|cause| {
        let why = truncate_chars(&cause.to_string(), 200);
        Error::invalid(format!("the form is not what this route takes: {why}")).code("bad_form")
    })
}

/// Reads a query; a parameter that is unknown or there twice is refused.
pub(super) fn parse_query<T: DeserializeOwned>(query: &str) -> Result<T> {
    serde_urlencoded::from_str(query).map_err(|cause| {
        let why = truncate_chars(&cause.to_string(), 200).replace("field", "parameter");
        let code = if why.starts_with("unknown parameter") {
            "unknown_parameter"
        } else {
            "bad_parameter"
        };
        Error::invalid(format!("the query is not what this route takes: {why}")).code(code)
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        path: String,
        limit: Option<u32>,
    }

    #[test]
    fn a_query_is_exact() {
        let fine = parse_query::<Asked>("path=a%20b%2Fc&limit=5").unwrap();
        assert_eq!(fine, Asked { path: "a b/c".to_owned(), limit: Some(5) });
        for (query, code) in [
            ("path=a&pathh=b", "unknown_parameter"),
            ("path=a&path=b", "bad_parameter"),
            ("limit=5", "bad_parameter"),
            ("path=a&limit=-1", "bad_parameter"),
            ("", "bad_parameter"),
        ] {
            assert_eq!(parse_query::<Asked>(query).unwrap_err().code_str(), code, "{query}");
        }
    }

    #[test]
    fn json_is_exact() {
        for (body, code) in [
            (r#"{"path":"a","x":1}"#, "unknown_field"),
            (r#"{"path":"a","path":"b"}"#, "bad_json"),
            (r#"{"path":"a"} {}"#, "bad_json"),
            ("[", "bad_json"),
            ("", "bad_json"),
        ] {
            assert_eq!(parse_json::<Asked>(body.as_bytes()).unwrap_err().code_str(), code);
        }
        let deep = "[".repeat(100_000);
        assert!(parse_json::<serde_json::Value>(deep.as_bytes()).is_err());
    }

    #[test]
    fn a_type_is_said_once_and_plainly() {
        let is_json = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_TYPE, value.parse().unwrap());
            }
            is_of_type(&headers, "application/json")
        };
        assert!(is_json(&["application/json"]) && is_json(&["Application/JSON; charset=utf-8"]));
        for bad in [&[][..], &["text/plain"], &["application/json; charset=latin1"]] {
            assert!(!is_json(bad), "{bad:?}");
        }
        assert!(!is_json(&["application/json", "text/plain"]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_given_up() {
        let body: BodyStream = Box::pin(futures_util::stream::pending());
        assert_eq!(read(body, 10).await.unwrap_err().code_str(), "body_timeout");
        let long = futures_util::stream::iter([Ok(Bytes::from_static(&[0; 8])), Ok(Bytes::new())]);
        assert_eq!(read(Box::pin(long), 7).await.unwrap_err().kind(), ErrorKind::TooLarge);
    }
}
