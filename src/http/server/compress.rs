//! gzip for clients that accept it.
//!
//! **Invariant:** a stream is never held back to be compressed, and what is compressed already is
//! left alone.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use warp::reply::Response;

use crate::base::{Error, Result, fault};
use crate::http::server::body::Room;

/// Shorter responses fit into one packet anyway.
const BYTES_MIN: u64 = 1024;
/// Longer ones (a large document as JSON) would take longer than they save.
const BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Shorter ones are compressed in place, on the async thread.
const AT_ONCE_BYTES_MAX: usize = 64 * 1024;

/// Returns whether a client accepts gzip.
pub(in crate::http) fn takes_gzip(header: Option<&str>) -> bool {
    header.unwrap_or_default().split(',').any(|part| {
        let (name, weight) = part.split_once(';').unwrap_or((part, ""));
        let weight = weight.trim().strip_prefix("q=").map(|it| it.trim().parse::<f32>());
        let is_refused = matches!(weight, Some(Ok(it)) if it <= 0.0);
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Returns compressed bytes; writing to memory does not fail.
pub(in crate::http) fn gzip(plain: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(plain).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// Compresses a response if that is worthwhile. In the meantime the uncompressed one holds room.
///
/// # Errors
/// `unavailable` with code `answers_full` if there is no room.
pub(in crate::http) async fn squeeze(response: Response, room: &Room) -> Result<Response> {
    let length = response.body().size_hint().exact();
    let is_worth_it = length.is_some_and(|it| (BYTES_MIN..=BYTES_MAX).contains(&it));
    if !is_worth_it || !is_text(response.headers()) || fault::is_off("gzip") {
        return Ok(response);
    }
    let (mut head, body) = response.into_parts();
    let plain = body.collect().await;
    let plain = plain.map_err(|cause| Error::internal("an answer cannot be read").source(cause))?;
    let plain = room.hold(plain.to_bytes())?;
    let kept = plain.clone();
    let squeezed = if plain.len() <= AT_ONCE_BYTES_MAX {
        gzip(&plain, Compression::fast())
    } else {
        let done = tokio::task::spawn_blocking(move || gzip(&plain, Compression::fast()));
        done.await.map_err(|cause| Error::internal("compressing panicked").source(cause))?
    };
    if squeezed.is_empty() || squeezed.len() >= kept.len() {
        return Ok(Response::from_parts(head, kept.into()));
    }
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    head.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(head, Bytes::from(squeezed).into()))
}

fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_text = kind.starts_with("text/html") || kind.starts_with("application/json");
    is_text && !headers.contains_key(CONTENT_ENCODING)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use hyper::StatusCode;

    use super::*;
    use crate::http::reply;

    #[test]
    fn a_client_gets_gzip_only_if_it_says_so() {
        for yes in ["gzip", "deflate, GZIP;q=0.5", "br, gzip"] {
            assert!(takes_gzip(Some(yes)), "{yes}");
        }
        for no in [None, Some(""), Some("br"), Some("gzip;q=0"), Some("gzip; q=0.0"), Some("xgzip")]
        {
            assert!(!takes_gzip(no), "{no:?}");
        }
    }

    async fn squeezed(kind: &'static str, text: &str) -> Response {
        let plain = reply::typed(StatusCode::OK, kind, text.as_bytes().to_vec());
        squeeze(plain, &Room::new(1 << 20)).await.unwrap()
    }

    /// Fails with `WB_WITHOUT=gzip`.
    #[tokio::test]
    async fn a_long_text_becomes_short_and_comes_back_whole() {
        for length in [2_000, 200_000] {
            let text = "all work and no play ".repeat(length / 21);
            let response = squeezed("text/html; charset=utf-8", &text).await;
            assert_eq!(response.headers()[CONTENT_ENCODING], "gzip");
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            assert!(bytes.len() < length / 10);
            let mut back = String::new();
            GzDecoder::new(&bytes[..]).read_to_string(&mut back).unwrap();
            assert_eq!(back, text);
        }
    }

    #[tokio::test]
    async fn what_is_short_or_no_text_stays_as_it_is() {
        for (kind, length) in
            [("text/html", 500), ("text/event-stream", 9_000), ("image/png", 9_000)]
        {
            let response = squeezed(kind, &"x".repeat(length)).await;
            assert!(!response.headers().contains_key(CONTENT_ENCODING), "{kind}");
        }
    }
}
