//! The texts of a generation that the data folder keeps, to load it again after its server, and
//! which of them was active last.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::limit::{INBOX_FILES_MAX, TEMPLATES_MAX};
use crate::base::{Context, Error, ErrorKind, Result};
use crate::script::load::agent_template::{self, is_template};
use crate::script::vm::require::{FILE_BYTES_MAX, FILES_MAX, read_below};

/// Most files of a generation.
const KEPT_MAX: usize = FILES_MAX + INBOX_FILES_MAX + TEMPLATES_MAX;

/// Name of the file that names the generation that was active last.
const LAST: &str = "last";
/// Largest such file, in bytes: a digest.
const LAST_BYTES_MAX: u64 = 128;

/// Returns the folder in which a site keeps the texts of a generation.
pub fn kept_folder(data: &Utf8Path, digest: &str) -> Utf8PathBuf {
    data.join("script").join(digest)
}

/// Returns the file that names the generation that was active last.
pub fn last_file(data: &Utf8Path) -> Utf8PathBuf {
    data.join("script").join(LAST)
}

/// Reads the templates of the generation that was active last, by their paths relative to the
/// script's folder; none if no generation is kept.
///
/// # Errors
/// As reading its texts.
pub fn last_templates(data: &Utf8Path) -> Result<BTreeMap<Utf8PathBuf, String>> {
    let none_if_missing = |cause: Error| match cause.kind() {
        ErrorKind::NotFound => Ok(BTreeMap::new()),
        _ => Err(cause),
    };
    let Ok(folder) = data.join("script").canonicalize_utf8() else { return Ok(BTreeMap::new()) };
    let digest = match read_below(&folder, Utf8Path::new(LAST), LAST_BYTES_MAX) {
        Ok(text) => text.trim().to_owned(),
        Err(cause) => return none_if_missing(cause),
    };
    if digest.is_empty() || !digest.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Err(Error::invalid(format!("{} names no generation", last_file(data))));
    }
    let texts = match texts(data, &digest) {
        Ok(texts) => texts.into_iter(),
        Err(cause) => return none_if_missing(cause),
    };
    let templates =
        texts.filter(|(path, text)| agent_template::is_beside(path) && is_template(text));
    Ok(templates.map(|(path, text)| (path, text.to_string())).collect())
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
