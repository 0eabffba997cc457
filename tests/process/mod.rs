//! Processes: the guard, its sweep, output, identity and confined files (G8 to G14, G22).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod clocks;
mod commands;
mod escape;
mod identity;
mod input;
mod output;
mod place;
mod replace;
mod rig;
mod root;
mod start;
mod terminal;
