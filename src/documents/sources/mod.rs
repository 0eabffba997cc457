//! Documents and their texts: names, outline, plain text, and stored versions.

pub(in crate::documents) mod creation;
pub mod headings;
pub mod html;
pub mod order;
pub mod pending;
pub mod plain;
pub mod rename;
pub mod source;
pub mod text;
pub mod title;
pub(in crate::documents) mod writable;
