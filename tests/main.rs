//! The integration tests, in one binary because it links once.

mod process;
mod store;
