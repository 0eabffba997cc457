//! The script engine: its thread, its limits, its sandbox, and calls into it.

pub(in crate::script) mod advice;
pub(in crate::script) mod budget;
pub(in crate::script) mod builtins;
pub(in crate::script) mod calls;
pub(in crate::script) mod convert;
pub(in crate::script) mod dates;
pub(in crate::script) mod declare;
pub(in crate::script) mod effect;
pub(in crate::script) mod handle;
pub(in crate::script) mod outside;
pub(in crate::script) mod pattern;
pub(in crate::script) mod require;
pub(in crate::script) mod sandbox;
pub(in crate::script) mod session;
pub(in crate::script) mod strings;
pub(in crate::script) mod template;
pub(in crate::script) mod thread;
pub(in crate::script) mod value;
pub(in crate::script) mod wear;

/// The code of an error in a function of the script.
pub const SCRIPT_FAILED: &str = "script_failed";
