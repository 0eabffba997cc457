//! Files of the pages, embedded in the program: one stylesheet, ES modules, icons.
//!
//! **Invariant:** an address names a version of all files together, so a browser keeps what it has
//! for ever, and modules that import each other are of one version.

use std::io::Read as _;
use std::sync::Arc;

use flate2::read::GzDecoder;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderValue, IF_NONE_MATCH, VARY,
};
use serde_json::json;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Error, Result};
use crate::http::server::compress::takes_gzip;
use crate::http::{Call, Edge, any_of, get, reply};

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The address of the files of this version of the program.
pub(super) const ADDRESS: &str = concat!("/assets/", env!("WB_ASSETS_VERSION"));
/// Changes with any of the files, and so with the program.
pub(super) const VERSION: &str = env!("WB_ASSETS_VERSION");

/// One file as it is sent.
struct Asset {
    name: &'static str,
    kind: &'static str,
    plain: Vec<u8>,
    gzip: &'static [u8],
}

pub(super) fn routes(edge: &Edge) -> BoxedFilter<(Response,)> {
    let assets: Arc<[Asset]> = assets().into();
    any_of([
        get("/assets/{version}/{name}", &assets, async |assets: Arc<[Asset]>, call| {
            asset(&assets, &call)
        }),
        get("/site.webmanifest", edge, async |edge: Edge, _| manifest(&edge.gate.site_name)),
        get("/offline.js", &assets, async |assets: Arc<[Asset]>, _| worker(&assets)),
    ])
}

/// Lets a phone install the site as an app.
fn manifest(name: &str) -> Result<Response> {
    let icon = |file: &str, sizes: &str, kind: &str, purpose: &str| {
        json!({
            "src": format!("{ADDRESS}/{file}"), "sizes": sizes, "type": kind, "purpose": purpose,
        })
    };
    let manifest = json!({
        "id": "/", "name": name, "short_name": name, "start_url": "/", "scope": "/",
        "display": "standalone", "background_color": "#fbf8f2", "theme_color": "#fbf8f2",
        "icons": [
            icon("icon.svg", "any", "image/svg+xml", "any"),
            icon("icon-192.png", "192x192", "image/png", "any maskable"),
            icon("icon-512.png", "512x512", "image/png", "any maskable"),
        ],
    });
    let bytes = serde_json::to_vec(&manifest)
        .map_err(|cause| Error::internal("the manifest is not JSON").source(cause))?;
    Ok(reply::typed(StatusCode::OK, "application/manifest+json", bytes))
}

/// The service worker that shows a page while the site cannot be reached. Its address is at the top
/// because a worker controls only addresses below its own.
fn worker(assets: &[Asset]) -> Result<Response> {
    let found = assets.iter().find(|it| it.name == "offline.js");
    let found = found.ok_or_else(|| Error::internal("there is no worker"))?;
    let script = [format!("const ASSETS = \"{ADDRESS}\";\n").as_bytes(), &found.plain].concat();
    let mut response = reply::typed(StatusCode::OK, found.kind, script);
    response.extensions_mut().insert(reply::Worker);
    Ok(response)
}

/// Returns a module and everything it imports, so that a browser can load them in parallel.
pub(super) fn modules(name: &str) -> &'static [&'static str] {
    MODULES.iter().find(|it| it.0 == name).map_or(&[], |it| it.1)
}

fn assets() -> Vec<Asset> {
    FILES.iter().map(|(name, bytes)| Asset::new(name, bytes)).collect()
}

impl Asset {
    fn new(name: &'static str, gzip: &'static [u8]) -> Asset {
        let mut plain = Vec::new();
        if let Err(cause) = GzDecoder::new(gzip).read_to_end(&mut plain) {
            tracing::error!("this program is damaged: {name} of its pages cannot be read: {cause}");
        }
        Asset { name, kind: kind_of(name), plain, gzip }
    }

    /// Returns whether it is worth sending compressed: pictures are not.
    fn is_smaller(&self) -> bool {
        self.gzip.len() < self.plain.len()
    }
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "html" => "text/html; charset=utf-8",
        "png" => "image/png",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

/// An address of another version gets this version's file, uncached, so that a page opened before
/// an upgrade keeps working.
fn asset(assets: &[Asset], call: &Call) -> Result<Response> {
    let name = call.text_param("name")?;
    let Some(found) = assets.iter().find(|it| it.name == name) else {
        return Err(Error::not_found("no such file"));
    };
    let is_current = call.text_param("version")? == VERSION;
    let tag = format!("\"{VERSION}\"");
    let mut response = if call.header(IF_NONE_MATCH.as_str()) == Some(tag.as_str()) {
        reply::empty(StatusCode::NOT_MODIFIED)
    } else if takes_gzip(call.header(ACCEPT_ENCODING.as_str())) && found.is_smaller() {
        let mut response = reply::typed(StatusCode::OK, found.kind, found.gzip.to_vec());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_needs_is_known_beforehand() {
        let of_reader = modules("reader");
        assert!(["reader", "compose", "margin", "swap"].iter().all(|it| of_reader.contains(it)));
        assert!(!of_reader.contains(&"review") && modules("main").contains(&"live"));
        for (_, all) in MODULES {
            let is_file = |it: &&str| FILES.iter().any(|(name, _)| *name == format!("{it}.js"));
            assert!(all.iter().all(is_file), "{all:?}");
        }
    }

    #[test]
    fn the_sheets_are_one_and_the_tokens_come_first() {
        let assets = assets();
        let sheet = assets.iter().find(|it| it.name == "wb.css").unwrap();
        assert!(sheet.plain.starts_with(b"/*") && sheet.is_smaller());
        assert_eq!(assets.iter().filter(|it| it.name.ends_with(".css")).count(), 1);
        assert!(assets.iter().all(|it| it.kind != "application/octet-stream"));
    }
}
