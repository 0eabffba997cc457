//! Files of the pages, embedded in the program: one stylesheet, ES modules, icons.
//!
//! **Invariant:** an address names a version of all files together, so a browser keeps what it has
//! for ever, and modules that import each other are of one version.

use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderValue, IF_NONE_MATCH, VARY,
};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Error, Result};
use crate::http::{Call, get, reply};

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Where the files of this version of the program are.
pub(super) const ADDRESS: &str = concat!("/assets/", env!("WB_ASSETS_VERSION"));
const VERSION: &str = env!("WB_ASSETS_VERSION");
/// The name under which all sheets are one.
const SHEET: &str = "wb.css";

/// One file as it is sent.
struct Asset {
    name: String,
    kind: &'static str,
    plain: Vec<u8>,
    gzip: Vec<u8>,
}

pub(super) fn routes() -> BoxedFilter<(Response,)> {
    let assets: Arc<[Asset]> = assets().into();
    get("/assets/{version}/{name}", &assets, async |assets: Arc<[Asset]>, call| {
        asset(&assets, &call)
    })
}

/// Returns all files, the sheets as one.
fn assets() -> Vec<Asset> {
    let mut sheet = Vec::new();
    let mut assets = Vec::new();
    for (name, bytes) in FILES {
        if name.ends_with(".css") {
            sheet.extend_from_slice(bytes);
            sheet.push(b'\n');
        } else {
            assets.push(Asset::new(name, bytes.to_vec()));
        }
    }
    assets.push(Asset::new(SHEET, sheet));
    assets
}

impl Asset {
    fn new(name: &str, plain: Vec<u8>) -> Asset {
        Asset { name: name.to_owned(), kind: kind_of(name), gzip: gzip(&plain), plain }
    }
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

/// Returns bytes compressed; writing to memory does not fail.
fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    match encoder.write_all(plain).and_then(|()| encoder.finish()) {
        Ok(bytes) => bytes,
        Err(_) => Vec::new(),
    }
}

/// An address of another version has this version's file, to be asked for again: a page that was
/// open before the program was replaced still gets what it names.
fn asset(assets: &[Asset], call: &Call) -> Result<Response> {
    let name = call.text_param("name")?;
    let Some(found) = assets.iter().find(|it| it.name == name) else {
        return Err(Error::not_found("there is no such file"));
    };
    let is_current = call.text_param("version")? == VERSION;
    let tag = format!("\"{VERSION}\"");
    let mut response = if call.header(IF_NONE_MATCH.as_str()) == Some(tag.as_str()) {
        reply::empty(StatusCode::NOT_MODIFIED)
    } else if takes_gzip(call.header(ACCEPT_ENCODING.as_str())) && !found.gzip.is_empty() {
        let mut response = reply::typed(StatusCode::OK, found.kind, found.gzip.clone());
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        reply::typed(StatusCode::OK, found.kind, found.plain.clone())
    };
    let headers = response.headers_mut();
    let caching = if is_current { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    Ok(response)
}

/// Whether a client says that it reads gzip.
fn takes_gzip(header: Option<&str>) -> bool {
    header.unwrap_or_default().split(',').any(|part| {
        let (name, weight) = part.split_once(';').unwrap_or((part, ""));
        let is_refused = weight.trim().strip_prefix("q=").is_some_and(|it| it.trim() == "0");
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_gzip_only_if_it_says_so() {
        for yes in ["gzip", "deflate, GZIP;q=0.5", "br, gzip"] {
            assert!(takes_gzip(Some(yes)), "{yes}");
        }
        for no in [None, Some(""), Some("br"), Some("gzip;q=0"), Some("xgzip")] {
            assert!(!takes_gzip(no), "{no:?}");
        }
    }

    #[test]
    fn the_sheets_are_one_and_the_tokens_come_first() {
        let assets = assets();
        let sheet = assets.iter().find(|it| it.name == SHEET).unwrap();
        assert!(sheet.plain.starts_with(b"/*") && !sheet.gzip.is_empty());
        assert_eq!(assets.iter().filter(|it| it.name.ends_with(".css")).count(), 1);
        assert!(assets.iter().all(|it| it.kind != "application/octet-stream"));
    }
}
