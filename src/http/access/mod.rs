//! Access control: the table of routes, and the checks on every request.

pub(in crate::http) mod audience;
pub(in crate::http) mod gate;
pub(in crate::http) mod origin;
mod route;
pub(in crate::http) mod table;
pub(in crate::http) mod who;
