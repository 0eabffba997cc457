//! The one integration binary: it links once.

mod git;
