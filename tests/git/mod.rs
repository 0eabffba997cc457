//! Documents against real git repositories.

mod approve;
#[cfg(feature = "faults")]
mod crash;
mod forged;
mod hostile;
mod names;
mod opening;
mod races;
mod recovery;
mod refusals;
mod sources;
mod staged;
mod support;
mod table;
mod workspaces;
