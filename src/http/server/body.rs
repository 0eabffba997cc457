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

use crate::base::limit::{ANSWERS_BYTES_MAX, BODY_PAUSE_MS_MAX, BODY_TIME_MS_MAX, format_duration};
use crate::base::{Error, ErrorKind, Result, fault, truncate_chars};

/// The code of a query parameter that a route does not have.
pub(in crate::http) const UNKNOWN_PARAMETER: &str = "unknown_parameter";

/// The code of a large response for which there is no room.
pub(in crate::http) const ANSWERS_FULL: &str = "answers_full";

/// A body that has not been read.
pub(in crate::http) type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Longest pause while a body arrives.
const PAUSE_MAX: Duration = Duration::from_millis(BODY_PAUSE_MS_MAX);
/// Longest time for a whole body.
const BODY_TIME_MAX: Duration = Duration::from_millis(BODY_TIME_MS_MAX);
/// How long the rest of a refused body is read.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);
/// Longest wait for room.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(5);

/// The first bytes of each body and short responses need no room.
const SMALL_BYTES_MAX: usize = 64 * 1024;
/// Room is reserved in units of this size.
const PIECE_KIB: u32 = 1024;

/// Memory shared by large requests or large responses.
#[derive(Clone)]
pub(in crate::http) struct Room {
    free: Arc<Semaphore>,
    bytes_max: usize,
}

impl Room {
    pub(in crate::http) fn new(bytes_max: usize) -> Room {
        Room { free: Arc::new(Semaphore::new(bytes_max / 1024)), bytes_max }
    }

    async fn take(&self, kib: u32) -> Result<OwnedSemaphorePermit> {
        match timeout(ROOM_WAIT_MAX, Arc::clone(&self.free).acquire_many_owned(kib)).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Error::new(
                ErrorKind::Busy,
                format!("request bodies of {} bytes are already being processed", self.bytes_max),
            )
            .code("bodies_full")
            .hint("try again in a moment")),
        }
    }

    /// Returns bytes that hold their room until the last of them is written or dropped. A few bytes
    /// need none.
    ///
    /// # Errors
    /// `unavailable` with code `answers_full` if there is none: nobody waits with one in hand.
    pub(in crate::http) fn hold(&self, bytes: Bytes) -> Result<Bytes> {
        if bytes.len() <= SMALL_BYTES_MAX || fault::is_off("answer_room") {
            return Ok(bytes);
        }
        let kib = u32::try_from(bytes.len().div_ceil(1024)).unwrap_or(u32::MAX);
        match Arc::clone(&self.free).try_acquire_many_owned(kib) {
            Ok(permit) => Ok(Bytes::from_owner(Held { bytes, _permit: permit })),
            Err(_) => Err(Error::unavailable(format!(
                "responses of {ANSWERS_BYTES_MAX} bytes are already being sent"
            ))
            .code(ANSWERS_FULL)
            .hint("try again in a moment")),
        }
    }
}

struct Held {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A whole body, with its room.
pub(in crate::http) struct Arrived {
    pub(in crate::http) bytes: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

impl Arrived {
    /// Reserves room for received bytes; announced bytes need none.
    async fn make_room(&mut self, room: &Room) -> Result<()> {
        let held = self.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) * 1024;
        if self.bytes.len() <= SMALL_BYTES_MAX + held {
            return Ok(());
        }
        let more = room.take(PIECE_KIB).await?;
        match &mut self.room {
            Some(permit) => permit.merge(more),
            None => self.room = Some(more),
        }
        Ok(())
    }

    /// Returns the bytes and the room separately.
    pub(in crate::http) fn split(self) -> (Vec<u8>, Option<OwnedSemaphorePermit>) {
        (self.bytes, self.room)
    }
}

fn too_large(bytes_max: usize) -> Error {
    let most = match bytes_max % (1024 * 1024) {
        0 => format!("{} MiB", bytes_max / (1024 * 1024)),
        _ => format!("{bytes_max} bytes"),
    };
    Error::new(ErrorKind::TooLarge, format!("the body is larger than {most}"))
        .hint("see docs/limits.md for request limits")
}

/// The type of a form.
pub(in crate::http) const FORM: &str = "application/x-www-form-urlencoded";
/// The type of a file; its bytes determine what it really is.
pub(in crate::http) const FILE: &str = "application/octet-stream";

/// Returns the announced length.
fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok())
}

/// Reads an unwanted body for a short while: many clients read the response only after sending
/// everything, and an early close looks like a failure to them.
pub(in crate::http) async fn drain<T, E>(
    mut body: impl Stream<Item = std::result::Result<T, E>> + Unpin,
) {
    if fault::is_off("body_drain") {
        return;
    }
    let all = async { while let Some(Ok(_)) = body.next().await {} };
    // After that, the connection is cut.
    let _ = timeout(DRAIN_TIME_MAX, all).await;
}

/// Reads a whole body.
pub(in crate::http) async fn read(
    mut body: BodyStream,
    headers: &HeaderMap,
    bytes_max: usize,
    room: &Room,
) -> Result<Arrived> {
    if announced(headers).is_some_and(|it| it > bytes_max) {
        drain(body).await;
        return Err(too_large(bytes_max));
    }
    let deadline = Instant::now() + BODY_TIME_MAX;
    let mut arrived = Arrived { bytes: Vec::new(), room: None };
    if fault::is_off("body_arrival") {
        let kib = u32::try_from(announced(headers).unwrap_or(0) / 1024).unwrap_or(u32::MAX);
        arrived.room = Some(room.take(kib).await?);
    }
    loop {
        let next = timeout(PAUSE_MAX, timeout_at(deadline, body.next())).await;
        let Ok(Ok(next)) = next else {
            let message = format!(
                "the body did not arrive in time: at most {} of silence, {} in all",
                format_duration(PAUSE_MAX),
                format_duration(BODY_TIME_MAX)
            );
            return Err(Error::invalid(message)
                .code("body_timeout")
                .hint("send it in one request"));
        };
        let Some(part) = next else { return Ok(arrived) };
        let part = part?;
        if arrived.bytes.len() + part.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        arrived.bytes.extend_from_slice(&part);
        arrived.make_room(room).await?;
    }
}

/// Returns whether the body has this type and is not compressed.
pub(in crate::http) fn is_of_type(headers: &HeaderMap, wanted: &str) -> bool {
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

/// Where the input of routes is documented.
const ROUTES: &str = "docs/http.md says what each route takes";

/// How serde's refusal of null begins.
const NULL_REFUSED: &str = "invalid type: null";

/// Reads JSON; types with `deny_unknown_fields` refuse unknown fields. A null in an optional field
/// counts as absent.
pub(in crate::http) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let read = serde_json::from_slice(bytes);
    let is_of_null = |cause: &serde_json::Error| cause.to_string().starts_with(NULL_REFUSED);
    let read = read.or_else(|cause| match is_of_null(&cause) {
        true => without_nulls(bytes).ok_or(cause),
        false => Err(cause),
    });
    read.map_err(|cause| {
        let why = truncate_chars(&cause.to_string(), 200);
        let code = if why.starts_with("unknown field") { "unknown_field" } else { "bad_json" };
        Error::invalid(format!("invalid body: {why}")).code(code).hint(ROUTES)
    })
}

/// Reads an object without its null fields; `None` if it has none, or is refused without them as
/// well.
fn without_nulls<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(bytes).ok()?;
    let count = fields.len();
    fields.retain(|_, value| !value.is_null());
    if fields.len() == count {
        return None;
    }
    serde_json::from_slice(&serde_json::to_vec(&fields).ok()?).ok()
}

/// Reads a form.
pub(in crate::http) fn parse_form<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_urlencoded::from_bytes(bytes).map_err(|cause| {
        let why = truncate_chars(&cause.to_string(), 200);
        Error::invalid(format!("invalid form: {why}")).code("bad_form").hint(ROUTES)
    })
}

/// Reads a query; unknown and repeated parameters are refused.
pub(in crate::http) fn parse_query<T: DeserializeOwned>(query: &str) -> Result<T> {
    serde_urlencoded::from_str(query).map_err(|cause| {
        let why = truncate_chars(&cause.to_string(), 200).replace("field", "parameter");
        let code =
            if why.starts_with("unknown parameter") { UNKNOWN_PARAMETER } else { "bad_parameter" };
        // `unknown parameter `q`, expected one of …`: the list is in the documentation.
        let message = match code {
            UNKNOWN_PARAMETER => why.split(", expected").next().unwrap_or(&why).to_owned(),
            _ => format!("the query is wrong: {why}"),
        };
        Error::invalid(message).code(code).hint(ROUTES)
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::base::limit::BODIES_BYTES_MAX;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        path: String,
        limit: Option<u32>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    struct Optional {
        is_global: bool,
        names: Vec<String>,
        limit: Option<u32>,
    }

    #[test]
    fn a_limit_is_named_as_people_name_it() {
        for (most, want) in [(10 * 1024 * 1024, "10 MiB"), (1_000, "1000 bytes")] {
            assert_eq!(too_large(most).message(), format!("the body is larger than {want}"));
        }
    }

    #[test]
    fn null_is_as_good_as_nothing_for_what_may_be_left_out() {
        let body = br#"{"is_global":null,"names":null,"limit":null}"#;
        assert_eq!(parse_json::<Optional>(body).unwrap(), Optional::default());
        for body in [r#"{"path":null}"#, r#"{"is_global":null,"x":1}"#, r#"{"names":[null]}"#] {
            assert!(parse_json::<Asked>(body.as_bytes()).is_err(), "{body}");
            assert!(parse_json::<Optional>(body.as_bytes()).is_err(), "{body}");
        }
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

    fn of(length: usize) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, length.into());
        headers
    }

    fn body(parts: Vec<usize>) -> BodyStream {
        let parts = parts.into_iter().map(|it| Ok(Bytes::from(vec![b'x'; it])));
        Box::pin(futures_util::stream::iter(parts))
    }

    /// Fails with `WB_WITHOUT=body_arrival`.
    #[tokio::test(start_paused = true)]
    async fn room_is_taken_by_what_arrives_and_not_by_what_is_announced() {
        let mib = 1024 * 1024;
        let room = Room::new(4 * mib);
        let silent = || Box::pin(futures_util::stream::pending()) as BodyStream;
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let (room, body) = (room.clone(), silent());
            waiting.spawn(async move { read(body, &of(4 * mib), 4 * mib, &room).await.err() });
        }
        tokio::task::yield_now().await;
        let fine = read(body(vec![mib; 3]), &of(3 * mib), 3 * mib, &room).await.unwrap();
        assert_eq!(fine.bytes.len(), 3 * mib);
        // A body that is held takes room from others until it is dropped.
        let full = read(body(vec![mib; 3]), &of(3 * mib), 3 * mib, &room).await;
        let full = full.err().unwrap();
        assert_eq!((full.kind(), full.code_str()), (ErrorKind::Busy, "bodies_full"));
        assert!(full.message().contains(&(4 * mib).to_string()));
        let small = read(body(vec![100]), &of(100), mib, &room).await.unwrap();
        assert!(small.room.is_none(), "small ones need none");
        drop(fine);
        assert!(read(body(vec![mib; 3]), &of(3 * mib), 3 * mib, &room).await.is_ok());
        while let Some(ended) = waiting.join_next().await {
            assert_eq!(ended.unwrap().unwrap().code_str(), "body_timeout");
        }
    }

    /// Fails with `WB_WITHOUT=answer_room`.
    #[test]
    fn an_answer_holds_room_until_it_is_dropped() {
        let room = Room::new(1024 * 1024);
        let large = || Bytes::from(vec![b'x'; 700 * 1024]);
        let held = room.hold(large()).unwrap();
        let part = held.slice(10..20);
        let refused = room.hold(large()).unwrap_err();
        assert_eq!(refused.code_str(), "answers_full");
        assert!(room.hold(Bytes::from_static(b"short")).is_ok());
        drop(held);
        assert!(room.hold(large()).is_err(), "a part of it is still on its way");
        drop(part);
        assert!(room.hold(large()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_given_up() {
        let room = Room::new(BODIES_BYTES_MAX);
        let silent: BodyStream = Box::pin(futures_util::stream::pending());
        let cause = read(silent, &of(9), 10, &room).await.err().unwrap();
        assert_eq!(cause.code_str(), "body_timeout");
        assert!(cause.message().contains("15s") && cause.message().contains("2m"), "{cause}");
        for (announced, parts, max) in [(8, vec![8], 8), (8, vec![4, 4], 8), (0, vec![], 0)] {
            assert!(read(body(parts), &of(announced), max, &room).await.is_ok());
        }
        for (announced, parts) in [(8, vec![8]), (7, vec![7, 1]), (0, vec![8])] {
            let cause = read(body(parts), &of(announced), 7, &room).await.err().unwrap();
            assert_eq!(cause.kind(), ErrorKind::TooLarge);
        }
    }
}
