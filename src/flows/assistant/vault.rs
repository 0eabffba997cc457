//! Finds and opens a person's vault.

use std::sync::Arc;

use crate::base::{Error, Result};
use crate::flows::Works;
use crate::flows::assistant::disk::on_disk;
use crate::people::Person;
use crate::script::{Assistant, Config};
use crate::vault::{Apart, Vault};

/// Works in a person's vault, on a thread that may wait for the disk.
///
/// # Errors
/// As opening it, and as the work.
pub(super) async fn within<T: Send + 'static>(
    works: &Works,
    person: Person,
    work: impl FnOnce(&Vault) -> Result<T> + Send + 'static,
) -> Result<T> {
    let config = Arc::clone(&works.config);
    on_disk(move || {
        let gone = || Error::unavailable("the site no longer has an assistant");
        work(&open(&config, config.assistant.as_ref().ok_or_else(gone)?, &person)?)
    })
    .await
}

/// Opens a person's vault.
///
/// # Errors
/// `conflict` with code `vault_overlap`; `unavailable` with code `no_vault`.
pub(super) fn open(config: &Config, assistant: &Assistant, person: &Person) -> Result<Vault> {
    let vaults = &assistant.vaults;
    let others = vaults.of.iter().filter(|(name, _)| **name != person.name);
    let mut apart: Vec<Apart> =
        others.map(|(_, path)| (path.clone(), "the vault of another person")).collect();
    let of_site: [Apart; 3] = [
        (config.site.data.clone(), "the site's data"),
        (config.folder.clone(), "the folder of the script"),
        (config.site.root.clone(), "the repository"),
    ];
    let own = config.site.data.join("vaults");
    let base = vaults.base.as_ref().unwrap_or(&own);
    match vaults.of.get(&person.name) {
        Some(path) => {
            apart.extend(of_site);
            apart.push((base.clone(), "the vaults of the others"));
            Vault::open(path, &apart)
        }
        None => {
            // Only vaults that the program creates may be in the data folder.
            if *base != own {
                apart.extend(of_site);
            }
            Vault::of(base, &person.id, &apart)
        }
    }
}
