//! The server's requests to services and web pages: HTTP/1.1, with TLS.
//!
//! **Invariant:** requests to services use TLS, except on this machine, and follow no redirects.
//! Pages are fetched only from the public internet (`fetch.rs`). Nothing is retried here.
//! **Invariant:** secret header values are in no message and no log.

mod address;
mod client;
mod fetch;
mod local;
mod net;
mod tls;
mod web_url;

pub use client::{Answer, Body, Client, Failure, Request};
pub use fetch::{Fetched, PAGE_BYTES_MAX, Page};
pub use local::{Local, call};
pub use web_url::WebUrl;
