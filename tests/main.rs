//! The one integration binary.

mod http;
