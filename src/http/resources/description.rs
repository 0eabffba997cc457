//! The description of this interface, for programs.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::description::{openapi, openapi_digest};
use crate::base::{Error, Result};
use crate::http::{Call, any_of, get, reply};

pub(in crate::http) fn routes() -> BoxedFilter<(Response,)> {
    let tag: Arc<str> = format!("\"{}\"", &openapi_digest()[..32]).into();
    any_of([get("/api/openapi.json", &tag, async |tag: Arc<str>, call| show(&tag, &call))])
}

fn show(tag: &str, call: &Call) -> Result<Response> {
    let mut response = match call.header(IF_NONE_MATCH.as_str()) == Some(tag) {
        true => reply::empty(StatusCode::NOT_MODIFIED),
        false => reply::typed(StatusCode::OK, "application/json", openapi()?.into_bytes()),
    };
    let value = HeaderValue::from_str(tag)
        .map_err(|cause| Error::internal("a tag is no header").source(cause))?;
    response.headers_mut().insert(ETAG, value);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}
