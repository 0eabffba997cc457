//! Requests of this server to services on the web: HTTP/1.1, with TLS.
//!
//! **Invariant:** nothing is sent without TLS but to this machine, no redirect is followed, and no
//! request is repeated here.
//! **Invariant:** the value of a header that is a secret is in no message and no log.

mod client;
mod tls;

pub use client::{Answer, Client, Failure, Request};
