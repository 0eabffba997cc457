//! Stores content that only existed in the working tree while a job ran, so that it can be
//! restored: one file per content in the data folder, named by its blob id.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};

use tracing::warn;

use crate::base::{BlobId, Context, ErrorKind, Result, random_token};
use crate::documents::snapshot::{Snapshot, Work};
use crate::process::{Entry, EntryKind, Root, own_folder};

/// The index used to compare files.
pub(super) const INDEX: &str = "look.index";
/// How long content is kept that no running job needs.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Most names searched for old content.
const NAMES_MAX: usize = 1_000_000;
/// How old a file may be before it is written again.
const FRESH: Duration = Duration::from_secs(24 * 3_600);

/// The folder of stored content; cheap to clone.
#[derive(Clone, Debug)]
pub struct Kept {
    data: Utf8PathBuf,
    root: Root,
}

impl Kept {
    /// Opens the folder inside of the data folder, creating it if needed.
    ///
    /// # Errors
    /// `unavailable` if it cannot be created.
    pub fn open(data: &Utf8Path) -> Result<Kept> {
        let folder = data.join("kept");
        let opened = own_folder(&folder).and_then(|it| {
            it.set_permissions(std::fs::Permissions::from_mode(0o700))?;
            Ok(it)
        });
        let opened =
            opened.context(ErrorKind::Unavailable, || format!("cannot create {folder}"))?;
        Ok(Kept { data: data.to_owned(), root: Root::of(opened, &folder) })
    }

    /// Returns the path of a content's file.
    pub(in crate::documents) fn file(&self, blob: &BlobId) -> Utf8PathBuf {
        self.root.path().join(blob.as_str())
    }

    /// Returns the path of the index used to compare files.
    pub(super) fn index(&self) -> Utf8PathBuf {
        self.root.path().join(INDEX)
    }

    /// Returns the data folder relative to the working tree, with a trailing `/`, if it is inside.
    pub(super) fn folder_below(&self, top: &Utf8Path) -> Option<String> {
        self.data.strip_prefix(top).ok().map(|it| format!("{it}/"))
    }

    /// Stores a content.
    ///
    /// # Errors
    /// `unavailable` if the disk cannot be written.
    pub(super) fn put(&self, blob: &BlobId, bytes: &[u8]) -> Result<()> {
        // Rewritten when it is a day old, so that needed content is never old enough to be pruned.
        let is_there = |it: std::fs::Metadata| {
            let is_new = it.modified().is_ok_and(|it| age(it) < FRESH);
            it.is_file() && it.len() == bytes.len() as u64 && is_new
        };
        if self.file(blob).symlink_metadata().is_ok_and(is_there) {
            return Ok(());
        }
        self.make_room(blob.as_str())?;
        self.root.put(Utf8Path::new(blob.as_str()), bytes)
    }

    /// Returns whether all content that may have to be restored is stored.
    pub fn has_all(&self, seen: &Snapshot) -> bool {
        let paths = seen.paths.values().filter(|it| !it.is_ignored);
        let works = paths.map(|it| &it.state.work).chain(seen.private.values());
        works.filter_map(Work::blob).all(|it| self.file(it).is_file())
    }

    /// Moves a folder away that is in place of one of our files.
    pub(super) fn make_room(&self, name: &str) -> Result<()> {
        let path = Utf8Path::new(name);
        match self.root.entry(path)? {
            Some(found) if found.kind == EntryKind::Folder => {
                let aside = random_token("foreign-")?;
                warn!("a folder is in the place of {}/{name}", self.root.path());
                self.root.rename(path, Utf8Path::new(&aside)).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Deletes content that is older than a week and not needed.
    ///
    /// # Errors
    /// `unavailable` if the folder cannot be listed.
    pub fn prune(&self, needed: &BTreeSet<BlobId>) -> Result<()> {
        for name in self.root.names(Utf8Path::new("."), NAMES_MAX)? {
            let is_needed = name.parse().is_ok_and(|it: BlobId| needed.contains(&it));
            let path = Utf8Path::new(&name);
            // A folder is not ours, and stays.
            let is_old = |it: &Entry| it.kind != EntryKind::Folder && age(modified(it)) > KEPT;
            if is_needed || !self.root.entry(path)?.is_some_and(|it| is_old(&it)) {
                continue;
            }
            if let Err(cause) = self.root.remove(path) {
                warn!("{}", cause.chain());
            }
        }
        Ok(())
    }
}

fn modified(entry: &Entry) -> SystemTime {
    let since = u64::try_from(entry.modified_ms).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_millis(since)
}

#[allow(clippy::disallowed_methods, reason = "it is compared with times of the file system")]
fn age(modified: SystemTime) -> Duration {
    SystemTime::now().duration_since(modified).unwrap_or_default()
}
