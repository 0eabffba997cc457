//! Bodies and queries of requests, read with limits on size and time.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::base::{Error, ErrorKind, Result, truncate_chars};

/// A body that nobody has read yet.
pub(super) type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Longest pause within a body.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Longest time for a whole body (16 MiB from a slow phone).
const BODY_TIME_MAX: Duration = Duration::from_secs(120);

/// Bodies up to this long are read without asking for room.
const SMALL_BYTES_MAX: usize = 64 * 1024;
/// Room for all larger bodies that are held at one time, in KiB.
const ROOM_KIB: usize = 256 * 1024;

/// The memory that bodies may take: many clients that send much at once wait for each other.
#[derive(Clone)]
pub(super) struct Room(Arc<Semaphore>);

impl Room {
    pub(super) fn new() -> Room {
        Room(Arc::new(Semaphore::new(ROOM_KIB)))
    }

    /// Takes the room that a body may need; it is given back when the permit is dropped.
    pub(super) async fn take(
        &self,
        headers: &HeaderMap,
        bytes_max: usize,
    ) -> Result<Option<OwnedSemaphorePermit>> {
        let length = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok());
        let bytes: usize = length.unwrap_or(bytes_max);
        if bytes > bytes_max {
            return Err(too_large(bytes_max));
        }
        if bytes <= SMALL_BYTES_MAX {
            return Ok(None);
        }
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        match timeout(PAUSE_MAX, Arc::clone(&self.0).acquire_many_owned(kib)).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            _ => Err(Error::new(ErrorKind::Busy, "too many large bodies arrive at once")
                .hint("try again in a moment")),
        }
    }
}

fn too_large(bytes_max: usize) -> Error {
    Error::new(ErrorKind::TooLarge, format!("the body is longer than {bytes_max} bytes"))
}

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
            return Err(too_large(bytes_max));
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
    async fn large_bodies_wait_for_room() {
        let room = Room::new();
        let of = |length: usize| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_LENGTH, length.into());
            headers
        };
        let mib = 1024 * 1024;
        let whole = room.take(&of(ROOM_KIB * 1024), ROOM_KIB * 1024).await.unwrap();
        assert_eq!(room.take(&of(mib), mib).await.unwrap_err().kind(), ErrorKind::Busy);
        assert!(room.take(&of(100), mib).await.unwrap().is_none(), "small ones do not wait");
        let unsaid = room.take(&HeaderMap::new(), mib).await;
        assert_eq!(unsaid.unwrap_err().kind(), ErrorKind::Busy);
        drop(whole);
        assert!(room.take(&of(mib), mib).await.unwrap().is_some());
        let long = room.take(&of(mib + 1), mib).await;
        assert_eq!(long.unwrap_err().kind(), ErrorKind::TooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_given_up() {
        let body: BodyStream = Box::pin(futures_util::stream::pending());
        assert_eq!(read(body, 10).await.unwrap_err().code_str(), "body_timeout");
        let long = futures_util::stream::iter([Ok(Bytes::from_static(&[0; 8])), Ok(Bytes::new())]);
        assert_eq!(read(Box::pin(long), 7).await.unwrap_err().kind(), ErrorKind::TooLarge);
    }
}
