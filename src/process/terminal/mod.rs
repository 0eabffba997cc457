//! Terminals for agents: one private tmux per site, one pane per agent.
//!
//! **Invariant:** the process in an agent's pane is its guard: tmux starts nothing else for it, and
//! is told no secret.
//! **Invariant:** every write to a pane is one tmux command list that first checks that the pane is
//! still the intended one and accepts input.

mod hooks;
mod pane;
mod screen;
mod server;
mod spawn;
mod text;

pub use hooks::{bytes_from, last_bytes, tell_hooks};
pub use pane::{Pane, PaneState, Pasted};
pub use screen::{Screen, plain};
pub use server::Terminals;
pub use spawn::InPane;
pub(in crate::process) use spawn::spawn_in_pane;
pub use text::{has_other_words, is_ours, sanitized, token_names, with_token};
