//! Opens a person's vault, and refuses one that overlaps with anything else.

use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Context, Error, ErrorKind, PersonId, Result, fault};
use crate::process::{JobFolder, Root};

/// A folder that a vault must not equal, contain or be in: its path, and a name for people.
pub type Apart = (Utf8PathBuf, &'static str);

/// A person's open vault.
#[derive(Clone, Debug)]
pub struct Vault {
    pub(super) root: Root,
}

impl Vault {
    /// Opens a person's default vault in the folder of all vaults, and creates it if necessary.
    ///
    /// # Errors
    /// `conflict` with code `vault_overlap`; `unavailable` if it cannot be made.
    pub fn of(vaults: &Utf8Path, person: &PersonId, apart: &[Apart]) -> Result<Vault> {
        if !vaults.exists() {
            let made = std::fs::create_dir_all(vaults.parent().unwrap_or(vaults));
            made.context(ErrorKind::Unavailable, || format!("cannot make {vaults}"))?;
        }
        JobFolder::make(vaults)?;
        let path = vaults.join(person.as_str());
        JobFolder::make(&path)?;
        Vault::open(&path, apart)
    }

    /// Opens a folder as a vault.
    ///
    /// # Errors
    /// `conflict` with code `vault_overlap`; `unavailable` with code `no_vault` if it is not there.
    pub fn open(path: &Utf8Path, apart: &[Apart]) -> Result<Vault> {
        let missing = |cause: std::io::Error| {
            Error::unavailable(format!("there is no folder {path} for the vault"))
                .code("no_vault")
                .hint("make the folder, or name another one in `vault_of` of wb.assistant")
                .source(cause)
        };
        let own = path.canonicalize_utf8().map_err(missing)?;
        for (other, what) in apart {
            // A missing folder overlaps with nothing.
            let Ok(other) = other.canonicalize_utf8() else { continue };
            let overlaps = lies_in(&own, &other)? || lies_in(&other, &own)?;
            if overlaps && !fault::is_off("vault_apart") {
                return Err(Error::conflict(
                    "vault_overlap",
                    format!("the vault {path} overlaps with {what} ({other})"),
                )
                .hint("an admin gives it a folder of its own"));
            }
        }
        Ok(Vault { root: Root::open(&own)? })
    }
}

/// Returns whether a folder equals another or is in it, by device and inode, so that a bind mount
/// cannot hide it.
fn lies_in(inner: &Utf8Path, outer: &Utf8Path) -> Result<bool> {
    let identity = |path: &Utf8Path| {
        let meta = std::fs::metadata(path);
        let meta = meta.context(ErrorKind::Unavailable, || format!("cannot look at {path}"))?;
        Ok::<_, Error>((meta.dev(), meta.ino()))
    };
    let wanted = identity(outer)?;
    for folder in inner.ancestors().filter(|it| !it.as_str().is_empty()) {
        if identity(folder)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vault_overlaps_with_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(folder.path()).unwrap();
        for path in ["a/in", "b", "site/data"] {
            std::fs::create_dir_all(base.join(path)).unwrap();
        }
        std::os::unix::fs::symlink(base.join("a"), base.join("other-name")).unwrap();
        let apart: Vec<Apart> =
            ["a/in", "site", "gone"].map(|it| (base.join(it), "something")).into();
        for (path, code) in [
            ("a", "vault_overlap"),
            ("a/in", "vault_overlap"),
            ("other-name", "vault_overlap"),
            ("site/data", "vault_overlap"),
            ("nothing", "no_vault"),
        ] {
            let refused = Vault::open(&base.join(path), &apart).unwrap_err();
            assert_eq!(refused.code_str(), code, "{path}");
        }
        Vault::open(&base.join("b"), &apart).unwrap();
        let person = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
        Vault::of(&base.join("new/vaults"), &person, &apart).unwrap();
        assert!(base.join("new/vaults").join("018bcfe5-6800-7000-8000-000000000001").is_dir());
    }
}
