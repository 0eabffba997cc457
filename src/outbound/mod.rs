//! Requests of this server to services and pages on the web: HTTP/1.1, with TLS.
//!
//! **Invariant:** to a service nothing is sent without TLS but on this machine, and no redirect is
//! followed; a page is fetched from the public internet only (`fetch.rs`). No request is repeated
//! here.
//! **Invariant:** the value of a header that is a secret is in no message and no log.

mod address;
mod client;
mod fetch;
mod local;
mod net;
mod tls;
mod web_url;

pub use client::{Answer, Client, Failure, Request};
pub use fetch::{Fetched, PAGE_BYTES_MAX, Page};
pub use local::{Local, call};
pub use web_url::WebUrl;
