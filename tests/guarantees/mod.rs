//! The guarantees by their numbers, on the real server. Each test says which switch makes it fail.

mod approve;
#[cfg(feature = "faults")]
mod approve_crash;
mod cgroup;
#[cfg(feature = "faults")]
mod crash;
mod decisions;
mod escape;
mod flood;
mod hostile;
mod kills;
mod lanes;
mod lifecycle;
mod many;
mod network;
mod paths;
mod results;
mod reuse;
mod switches;
mod tokens;
mod watch;
