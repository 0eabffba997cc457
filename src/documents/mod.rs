//! Documents: what git holds, and what people and agents say and propose about it.
//!
//! **Invariant:** every call of git goes through `git::call`, and only `commit` writes to the
//! user's index, working tree and branch.

pub mod attempt;
pub mod commit;
pub mod git;
pub mod source;
