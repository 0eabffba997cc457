//! The agent's client and the guard of a job.

fn main() {}
