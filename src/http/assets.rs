//! Files of the pages, embedded in the program.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Error, Result, digest_hex};
use crate::http::{get, reply};

/// Name, type and bytes.
type Asset = (&'static str, &'static str, &'static [u8]);

const ASSETS: &[Asset] = &[
    ("wb.css", "text/css; charset=utf-8", include_bytes!("assets/wb.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
];

pub(super) fn routes() -> BoxedFilter<(Response,)> {
    get("/assets/{name}", &(), async |(), call| {
        asset(call.text_param("name")?, call.header(IF_NONE_MATCH.as_str()))
    })
}

/// A browser asks each time whether its copy is good: another version of the program may be here.
fn asset(name: &str, seen: Option<&str>) -> Result<Response> {
    let found = ASSETS.iter().find(|(it, ..)| *it == name);
    let Some((_, kind, bytes)) = found else {
        return Err(Error::not_found("there is no such file"));
    };
    let tag = format!("\"{}\"", &digest_hex(bytes)[..32]);
    let mut response = if seen == Some(tag.as_str()) {
        reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        reply::typed(StatusCode::OK, kind, bytes.to_vec())
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    Ok(response)
}
