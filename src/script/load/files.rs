//! Files that declarations name: schemas, hooks, templates.
//!
//! **Invariant:** each is read once, and its text belongs to the generation: a job runs with what
//! was loaded, whatever happens to the file.

use std::cell::RefCell;
use std::sync::Arc;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::base::limit::INBOX_FILES_MAX;
use crate::base::{Error, ErrorKind, Result};
use crate::script::source::location::ScriptFile;
use crate::script::vm::builtins::beside;
use crate::script::vm::require::Origin;

/// Reads the files next to one script.
pub(crate) struct Beside<'a> {
    /// The script's folder.
    pub(crate) folder: &'a Utf8Path,
    /// Where its files are read.
    pub(crate) origin: &'a Origin,
    files: RefCell<Vec<ScriptFile>>,
}

impl<'a> Beside<'a> {
    /// Creates the reader; no file is read yet.
    pub(crate) fn new(folder: &'a Utf8Path, origin: &'a Origin) -> Beside<'a> {
        Beside { folder, origin, files: RefCell::default() }
    }

    /// Reads a file by its path relative to the script's folder.
    ///
    /// # Errors
    /// Same as `Origin::read`; `invalid` beyond `INBOX_FILES_MAX` files.
    pub(crate) fn read(&self, path: &Utf8Path, bytes_max: u64) -> Result<Arc<str>> {
        let mut files = self.files.borrow_mut();
        if let Some(known) = files.iter().find(|file| file.path == path) {
            let is_fine = known.text.len() as u64 <= bytes_max;
            let too_large = || Error::invalid(format!("{path} is larger than {bytes_max} bytes"));
            return is_fine.then(|| Arc::clone(&known.text)).ok_or_else(too_large);
        }
        if files.len() >= INBOX_FILES_MAX {
            return Err(Error::invalid(format!(
                "declarations name more than {INBOX_FILES_MAX} files: share schemas and hooks"
            )));
        }
        let read = self.origin.read_at_most(self.folder, path, bytes_max);
        let text: Arc<str> = Arc::from(read.map_err(|cause| self.with_near_name(path, cause))?);
        files.push(ScriptFile { path: path.to_owned(), text: Arc::clone(&text) });
        Ok(text)
    }

    /// Adds to the error of a missing file the name of a similar file next to it.
    fn with_near_name(&self, path: &Utf8Path, cause: Error) -> Error {
        let is_missing = cause.kind() == ErrorKind::NotFound;
        match beside(self.folder, path).filter(|_| is_missing) {
            Some(near) => cause.hint(format!("did you mean `{near}`?")),
            None => cause,
        }
    }

    /// Returns the files that were read, and clears the list.
    pub(crate) fn take(&self) -> Vec<ScriptFile> {
        self.files.take()
    }
}

/// Returns the path relative to the script's folder of a name in `file`: `./X` and `../X` are
/// relative to that file's folder, anything else to the script's. `None` if it leads outside.
pub(crate) fn below(written: &str, file: &Utf8Path) -> Option<Utf8PathBuf> {
    let is_relative = written.starts_with("./") || written.starts_with("../");
    let from = if is_relative { file.parent().unwrap_or(Utf8Path::new("")) } else { "".into() };
    let mut path = Utf8PathBuf::new();
    for part in from.join(written).components() {
        match part {
            Utf8Component::Normal(name) => path.push(name),
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir if path.pop() => {}
            _ => return None,
        }
    }
    (!path.as_str().is_empty()).then_some(path)
}

/// Returns the absolute path, without `.` and `..`, of a name in `file`.
pub(crate) fn absolute(folder: &Utf8Path, written: &str, file: &Utf8Path) -> Utf8PathBuf {
    let is_relative = written.starts_with("./") || written.starts_with("../");
    let from = if is_relative { file.parent().unwrap_or(Utf8Path::new("")) } else { "".into() };
    let mut path = Utf8PathBuf::new();
    for part in folder.join(from).join(written).components() {
        match part {
            Utf8Component::ParentDir => drop(path.pop()),
            Utf8Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_at_its_file_or_at_the_script() {
        let file = Utf8Path::new("agents/lead.md");
        for (written, expected) in [
            ("schemas/a.json", Some("schemas/a.json")),
            ("./schemas/a.json", Some("agents/schemas/a.json")),
            ("../hooks/a.sh", Some("hooks/a.sh")),
            ("hooks//a.sh", Some("hooks/a.sh")),
            ("../../a", None),
            ("a/../../b", None),
            ("/etc/passwd", None),
            ("..", None),
            (".", None),
        ] {
            assert_eq!(below(written, file).as_deref(), expected.map(Utf8Path::new), "{written}");
        }
        let folder = Utf8Path::new("/srv/site");
        for (written, expected) in [
            ("work", "/srv/site/work"),
            ("./work", "/srv/site/agents/work"),
            ("../work", "/srv/site/work"),
            ("/var/work/../x", "/var/x"),
        ] {
            assert_eq!(absolute(folder, written, file), expected, "{written}");
        }
    }
}
