//! Creates a private folder where an agent could have planted a link.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use camino::Utf8Path;
use nix::fcntl::OFlag;

/// Creates a folder of ours and opens it; anything else in its place, such as a link, is removed.
///
/// # Errors
/// The error of the file system.
pub fn own_folder(path: &Utf8Path) -> io::Result<File> {
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    if path.symlink_metadata().is_ok_and(|it| !it.is_dir()) {
        std::fs::remove_file(path)?;
    }
    match std::fs::create_dir(path) {
        // It existed already, or another call created it at the same time.
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    File::options().read(true).custom_flags(flags.bits()).open(path)
}
