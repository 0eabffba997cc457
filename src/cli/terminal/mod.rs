//! Terminal input and output: screens, tables, times, questions, short ids.

pub(in crate::cli) mod escape;
pub(in crate::cli) mod input;
pub(in crate::cli) mod output;
pub(in crate::cli) mod question;
pub(in crate::cli) mod screen;
pub(in crate::cli) mod short_id;
pub(in crate::cli) mod table;
pub(in crate::cli) mod usage;
pub(in crate::cli) mod when;
