//! The gateway to a person's subscription: the service, and signing in to it.

pub(super) mod service;
mod sign_in;

pub use sign_in::*;
