//! The integration tests, in one binary because it links once.

mod http;
mod process;
mod store;
