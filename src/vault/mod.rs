//! A person's vault: a folder of files that their assistant reads and writes.
//!
//! **Invariant:** nothing outside the folder is reached: every path is a [`VaultPath`], opened
//! beneath the folder without following links.
//! **Invariant:** two vaults never overlap, and none overlaps what belongs to the site.

mod files;
mod find;
mod open;
mod path;

pub use files::{DIGEST_OF_NOTHING, FILE_BYTES_MAX, Image, Listed};
pub use find::{Found, Hit, Skipped};
pub use open::{Apart, Vault};
pub use path::VaultPath;
