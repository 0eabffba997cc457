//! Connections: sockets, the accept loop, heads, bodies, compression, streams.

pub(in crate::http) mod body;
pub(in crate::http) mod compress;
pub(in crate::http) mod head;
pub(in crate::http) mod listen;
pub(in crate::http) mod overload;
pub(in crate::http) mod serve;
pub(in crate::http) mod streams;
