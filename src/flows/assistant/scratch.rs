//! Old files in `agent/scratch` of a vault, which their person may delete together.
//!
//! **Invariant:** a file is deleted only if it was listed: not if it was changed after the moment
//! that the list was made for.

use crate::api::chat_settings::{ScratchCleared, ScratchFile, ScratchView};
use crate::base::{Error, Millis, Result};
use crate::flows::Site;
use crate::flows::assistant::{seat, vault};
use crate::people::{Caller, Person};
use crate::vault::{Vault, VaultPath};

/// The folder.
const FOLDER: &str = "agent/scratch";
/// A file that was not changed for so long is old: 30 days.
const OLD_MS: i64 = 30 * 24 * 3_600_000;
/// Most files that are listed and deleted at once.
const FILES_MAX: usize = 1_000;

/// Lists the caller's old files.
///
/// # Errors
/// As the seat, and as opening the vault.
pub async fn scratch(site: &Site, caller: &Caller) -> Result<ScratchView> {
    let person = seat(site, caller)?.person;
    let before = site.store.clock().now().plus(-OLD_MS);
    in_vault(site, person, move |vault, folder| {
        let found = vault.files_before(folder, before.0, FILES_MAX)?;
        let of = |(path, bytes, modified_ms): (String, u64, i64)| ScratchFile {
            path,
            bytes,
            modified_at: Millis(modified_ms),
        };
        let items: Vec<ScratchFile> = found.items.into_iter().map(of).collect();
        let bytes = items.iter().map(|it| it.bytes).sum();
        Ok(ScratchView { items, bytes, before, is_cut: found.cut.is_some() })
    })
    .await
}

/// Deletes the caller's old files: those that were not changed since `before`, which a list named.
///
/// # Errors
/// As [`scratch`]; `forbidden` without the right to decide; `invalid` for a moment that is not 30
/// days ago.
pub async fn clear_scratch(site: &Site, caller: &Caller, before: Millis) -> Result<ScratchCleared> {
    caller.may_decide()?;
    let person = seat(site, caller)?.person;
    if before > site.store.clock().now().plus(-OLD_MS) {
        return Err(Error::invalid("only files that are 30 days old are deleted together")
            .code("bad_parameter")
            .of_input("before")
            .hint("send the `before` of the list"));
    }
    in_vault(site, person, move |vault, folder| {
        let found = vault.files_before(folder, before.0, FILES_MAX)?;
        let mut cleared = ScratchCleared::default();
        for (path, bytes, _) in found.items {
            match delete(vault, &path.parse()?, before)? {
                true => {
                    cleared.deleted += 1;
                    cleared.bytes += bytes;
                }
                false => cleared.kept += 1,
            }
        }
        Ok(cleared)
    })
    .await
}

/// Deletes a file, unless it has changed since, or is larger than what an assistant writes.
fn delete(vault: &Vault, path: &VaultPath, before: Millis) -> Result<bool> {
    let Ok(image) = vault.image(path) else { return Ok(false) };
    // After reading: a file that was written in between has another time or another content.
    if !vault.is_before(path, before.0)? {
        return Ok(false);
    }
    vault.swap(path, &image, &crate::vault::Image::nothing())
}

async fn in_vault<T: Send + 'static>(
    site: &Site,
    person: Person,
    work: impl FnOnce(&Vault, &VaultPath) -> Result<T> + Send + 'static,
) -> Result<T> {
    vault::within(site, person, move |vault| work(vault, &FOLDER.parse()?)).await
}
