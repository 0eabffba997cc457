//! Terminals in which agents live: one private tmux a site, one pane an agent.
//!
//! **Invariant:** the process of an agent's pane is its guard: tmux starts nothing else for it, and
//! is told no secret.
//! **Invariant:** nothing is written to a pane but in one list of commands that first looks whether
//! the pane is still the one that was meant and takes input.

mod hooks;
mod pane;
mod server;
mod spawn;
mod text;

pub use hooks::{bytes_from, last_bytes, tell_hooks};
pub use pane::{Pane, PaneState, Pasted};
pub use server::Terminals;
pub use spawn::InPane;
pub(in crate::process) use spawn::spawn_in_pane;
pub use text::{
    draft, has_line, has_other_words, is_ours, plain, sanitised, token_names, typed_names,
    with_token,
};
