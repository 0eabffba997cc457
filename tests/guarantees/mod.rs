//! The guarantees by number, on the real server. Each test names the switch that makes it fail.

mod approve;
#[cfg(feature = "faults")]
pub(crate) mod approve_crash;
mod beside_people;
mod canaries;
mod cgroup;
#[cfg(feature = "faults")]
mod clock;
#[cfg(feature = "faults")]
mod crash;
#[cfg(feature = "faults")]
mod damage;
mod decisions;
mod deep_links;
#[cfg(feature = "faults")]
mod disk;
mod escape;
mod flood;
mod git_folder;
mod git_programs;
mod hooks;
mod hostile;
mod idle;
mod inputs;
mod keys;
mod kills;
mod lanes;
mod lifecycle;
mod looks;
mod many;
mod network;
mod paths;
#[cfg(feature = "faults")]
mod power_cut;
mod private_jobs;
mod restored_bytes;
mod restoring;
mod results;
mod reuse;
#[cfg(feature = "faults")]
mod services;
mod special_files;
mod steering;
mod steering_bytes;
mod stream;
mod switches;
mod tokens;
mod user;
mod watch;
mod workspaces;
