//! Automatic work of the script: event handlers, schedules, webhooks, and its reload.

pub(in crate::flows) mod effects;
pub mod handlers;
pub mod origin;
pub mod reload;
pub(in crate::flows) mod retry;
pub mod schedules;
pub mod told;
pub mod webhook_proof;
pub mod webhooks;
