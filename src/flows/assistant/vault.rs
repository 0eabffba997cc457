//! Finds and opens a person's vault.

use crate::base::Result;
use crate::people::Person;
use crate::script::{Assistant, Config};
use crate::vault::{Apart, Vault};

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
