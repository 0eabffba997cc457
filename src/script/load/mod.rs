//! From the declarations of a script to a `Config`, with a finding for each fault.

pub(in crate::script) mod agent;
pub(in crate::script) mod anthropic;
pub(in crate::script) mod assistant;
pub(in crate::script) mod assistant_tools;
pub(in crate::script) mod build;
pub(in crate::script) mod daily;
pub(in crate::script) mod duration;
pub(in crate::script) mod engine;
pub(in crate::script) mod external;
pub(in crate::script) mod extract;
pub(in crate::script) mod files;
pub(in crate::script) mod hook;
pub(in crate::script) mod inbox;
pub(in crate::script) mod input;
pub(in crate::script) mod kind;
pub(in crate::script) mod kinds;
pub(in crate::script) mod live;
pub(in crate::script) mod node;
pub(in crate::script) mod persona_file;
pub(in crate::script) mod raw;
pub(in crate::script) mod request;
pub(in crate::script) mod resolve;
pub(in crate::script) mod schedule;
pub(in crate::script) mod skill;
pub(in crate::script) mod webhook;
pub(in crate::script) mod yaml;
