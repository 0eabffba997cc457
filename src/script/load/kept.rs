//! The texts of a generation that the data folder keeps, to load it again after its server.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::limit::{INBOX_FILES_MAX, TEMPLATES_MAX};
use crate::base::{Context, Error, ErrorKind, Result};
use crate::script::vm::require::{FILE_BYTES_MAX, FILES_MAX, read_below};

/// Most files of a generation.
const KEPT_MAX: usize = FILES_MAX + INBOX_FILES_MAX + TEMPLATES_MAX;

/// Returns the folder in which a site keeps the texts of a generation.
pub fn kept_folder(data: &Utf8Path, digest: &str) -> Utf8PathBuf {
    data.join("script").join(digest)
}

/// Reads the texts of a generation, by their paths relative to the script's folder.
///
/// # Errors
/// `not_found` if it is not kept; `invalid` for what no generation consists of.
pub(crate) fn texts(data: &Utf8Path, digest: &str) -> Result<BTreeMap<Utf8PathBuf, Arc<str>>> {
    let folder = kept_folder(data, digest);
    let cannot = || format!("cannot read {folder}");
    let folder = folder.canonicalize_utf8().context(ErrorKind::NotFound, cannot)?;
    let mut found = BTreeMap::new();
    let mut waiting = vec![Utf8PathBuf::new()];
    while let Some(below) = waiting.pop() {
        let entries = folder.join(&below).read_dir_utf8().context(ErrorKind::NotFound, cannot)?;
        for entry in entries {
            let entry = entry.context(ErrorKind::NotFound, cannot)?;
            let path = below.join(entry.file_name());
            if found.len() + waiting.len() >= KEPT_MAX {
                return Err(Error::invalid(format!("{folder} has too many files")));
            }
            match entry.file_type().context(ErrorKind::NotFound, cannot)?.is_dir() {
                true => waiting.push(path),
                false => {
                    let text = read_below(&folder, &path, FILE_BYTES_MAX)?;
                    found.insert(path, Arc::from(text));
                }
            }
        }
    }
    Ok(found)
}
