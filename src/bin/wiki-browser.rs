//! The server and the operator's commands.

fn main() {}
