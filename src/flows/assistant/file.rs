//! A file of the caller's vault, as its person reads it on a page.

use crate::base::{Error, Result};
use crate::chat::{self, IMAGE_BYTES_MAX};
use crate::flows::Site;
use crate::flows::assistant::{seat, vault};
use crate::people::Caller;
use crate::vault::VaultPath;

/// A file that a browser may show.
pub struct VaultFile {
    /// `text`, `image/png`, `image/jpeg` or `image/webp`, according to its content.
    pub kind: &'static str,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Returns a text or an image of the caller's vault.
///
/// # Errors
/// As the seat; `invalid`: `bad_path`, `not_a_file`, `path_is_link`, `file_type`; `not_found` with
/// code `no_file`; `too_large`; as opening the vault.
pub async fn file(site: &Site, caller: &Caller, path: &str) -> Result<VaultFile> {
    let person = seat(site, caller)?.person;
    let path: VaultPath = path.parse().map_err(|cause: Error| cause.of_input("path"))?;
    vault::within(site, person, move |vault| {
        let image = vault.image_within(&path, IMAGE_BYTES_MAX)?;
        let Some(bytes) = image.into_bytes() else {
            return Err(Error::not_found(format!("no file {path} in your vault")).code("no_file"));
        };
        let Some(kind) = chat::type_of(&bytes) else {
            let message = format!("{path} is neither a text (UTF-8) nor a PNG, JPEG or WebP");
            return Err(Error::invalid(message).code("file_type"));
        };
        Ok(VaultFile { kind, bytes })
    })
    .await
}
