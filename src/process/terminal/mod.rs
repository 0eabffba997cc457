//! Terminals for agents: one private tmux per site, one pane per agent.
//!
//! **Invariant:** the process in an agent's pane is its guard: tmux starts nothing else for it, and
//! is told no secret.
//! **Invariant:** every write to a pane is one tmux command list that first checks that the pane is
//! still the intended one and accepts input.
//! **Invariant:** nothing that could press a key is pasted into a program that does not take pastes
//! in brackets.

mod brackets;
mod hooks;
mod pane;
mod screen;
mod server;
mod spawn;
mod text;

pub use brackets::brackets_main;
pub use hooks::{bytes_from, last_bytes, tell_hooks};
pub use pane::{Pane, PaneState, Pasted};
pub use screen::{Screen, plain};
pub use server::Terminals;
pub use spawn::InPane;
pub(in crate::process) use spawn::spawn_in_pane;
pub use text::{has_other_words, is_ours, presses_keys, sanitized, token_names, with_token};
