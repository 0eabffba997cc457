//! The description of the HTTP interface, for programs.

use std::io::Read as _;

use flate2::read::GzDecoder;

use crate::base::{Error, Result, digest_hex};

/// `docs/openapi.json` as `build.rs` compressed it.
const COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// Returns what tells one version of the description from another: 64 hexadecimal digits.
pub fn openapi_digest() -> String {
    digest_hex(COMPRESSED)
}

/// Returns the description, OpenAPI 3.1, made of the types and of the table of routes by a test.
///
/// # Errors
/// `internal` if this program is damaged.
pub fn openapi() -> Result<String> {
    let mut text = String::new();
    GzDecoder::new(COMPRESSED)
        .read_to_string(&mut text)
        .map_err(|cause| Error::internal("the description of the API is damaged").source(cause))?;
    Ok(text)
}
