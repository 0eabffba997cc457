//! A folder with a root in it, for tests of confined files.

use std::fs;

use camino::Utf8PathBuf;
use wiki_browser::process::Root;

pub(super) struct Place {
    _folder: tempfile::TempDir,
    /// The folder around the root.
    pub(super) outside: Utf8PathBuf,
    /// The root.
    pub(super) path: Utf8PathBuf,
    pub(super) root: Root,
}

impl Place {
    /// Creates a root whose only file, `docs/a.md`, has this text.
    pub(super) fn new(text: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let outside = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let path = outside.join("root");
        fs::create_dir_all(path.join("docs")).unwrap();
        fs::write(path.join("docs/a.md"), text).unwrap();
        let root = Root::open(&path).unwrap();
        Place { _folder: folder, outside, path, root }
    }
}
