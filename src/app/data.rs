//! The data folder: private, with the loaded script and the server file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

use camino::Utf8Path;
use serde_json::Value;
use tracing::warn;

use crate::base::{Context, Error, ErrorKind, Result, fault};
use crate::documents::Repo;
use crate::flows::site::server_file::{self, SERVER_FILE};
use crate::process;
use crate::script::{Config, kept_folder, last_file};

/// Creates the folder with mode 0700. An existing one that others can enter, or that its group can
/// change, gets that mode; a group that can only read it was let in by somebody.
pub(super) fn make_private(data: &Utf8Path) -> Result<()> {
    let cannot = || format!("cannot create the data folder {data}");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(|cause| Error::of_disk(cannot(), cause))?;
    close(data)?;
    // A durable database needs a durable folder.
    if let Some(parent) = data.parent().filter(|it| !it.as_str().is_empty()) {
        File::open(parent).and_then(|it| it.sync_all()).context(ErrorKind::Unavailable, cannot)?;
    }
    ignore_all(data)
}

fn close(data: &Utf8Path) -> Result<()> {
    /// What the others may do, and what the group may change.
    const OPEN: u32 = 0o027;
    let cannot = || format!("cannot close the data folder {data} to other users");
    let mode = fs::metadata(data).context(ErrorKind::Unavailable, cannot)?.mode() & 0o7777;
    if mode & OPEN == 0 {
        return Ok(());
    }
    let closed = mode & !0o077;
    fs::set_permissions(data, fs::Permissions::from_mode(closed))
        .context(ErrorKind::Unavailable, cannot)
        .map_err(|cause| cause.hint(format!("as its owner: chmod 0700 {data}")))?;
    warn!("the data folder {data} was open to other users (mode {mode:o}); it is {closed:o} now");
    Ok(())
}

/// Returns a repository that keeps its own files in the data folder. A data folder with tracked
/// files is refused: anyone who can commit could plant files there that agents and the server obey.
pub(super) async fn beside(repo: Repo, data: &Utf8Path) -> Result<Repo> {
    let tracked = repo.tracked_below(data).await?.filter(|_| !fault::is_off("data_tracked"));
    let Some(file) = tracked else { return Ok(repo.beside(data)) };
    let message = format!("git tracks {file}, which is in the data folder {data}");
    Err(Error::conflict("data_tracked", message).hint(
        "choose another `data` in wb.site, or take the file out of the repository and remove it: \
         git rm -r --cached",
    ))
}

/// Makes git ignore the folder, whatever the repository's own `.gitignore` says: `git add -A` must
/// not commit the operator's token.
fn ignore_all(data: &Utf8Path) -> Result<()> {
    let path = data.join(".gitignore");
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match made.and_then(|mut file| file.write_all(b"*\n")) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Error::of_disk(format!("cannot write {path}"), cause))
        }
        _ => Ok(()),
    }
}

/// Stores the text of the loaded script under its digest, which each job's row names, and that it
/// is the last one.
pub(super) fn keep_script(config: &Config) -> Result<()> {
    keep_texts(config)?;
    let path = last_file(&config.site.data);
    let aside = path.with_extension("new");
    write_private(&aside, format!("{}\n", config.digest).as_bytes())?;
    // A power cut must not leave an empty file under the name.
    let renamed = fs::File::open(&aside)
        .and_then(|it| it.sync_all())
        .and_then(|()| fs::rename(&aside, &path));
    renamed.map_err(|cause| Error::of_disk(format!("cannot write {path}"), cause))
}

fn keep_texts(config: &Config) -> Result<()> {
    let folder = kept_folder(&config.site.data, &config.digest);
    if folder.is_dir() {
        return Ok(());
    }
    // Written under another name and renamed, so that a folder of this name is always complete.
    let aside = config.site.data.join("script").join(format!("{}.new", config.digest));
    let cannot = || format!("cannot keep the script in {folder}");
    let own = process::own_folder(&config.site.data.join("script"));
    own.map_err(|cause| Error::of_disk(cannot(), cause))?;
    for file in &config.files {
        let path = aside.join(&file.path);
        let parent = path.parent().unwrap_or(&aside);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|cause| Error::of_disk(cannot(), cause))?;
        write_private(&path, file.text.as_bytes())?;
    }
    fs::rename(&aside, &folder).map_err(|cause| Error::of_disk(cannot(), cause))
}

/// Writes the file that tells commands where the server is.
pub(super) fn write_server_file(data: &Utf8Path, facts: &Value) -> Result<()> {
    let (path, aside) = (data.join(SERVER_FILE), data.join(format!("{SERVER_FILE}.new")));
    write_private(&aside, format!("{facts:#}\n").as_bytes())?;
    fs::rename(&aside, &path).map_err(|cause| Error::of_disk(format!("cannot write {path}"), cause))
}

/// Removes that file.
pub(super) fn remove_server_file(data: &Utf8Path) {
    let path = data.join(SERVER_FILE);
    match fs::remove_file(&path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            warn!("cannot remove {path}: {cause}");
        }
        _ => {}
    }
}

/// Returns the pid that the server file names, for a message.
pub(super) fn running_server(data: &Utf8Path) -> Option<u64> {
    server_file::read(data).ok()??.pid
}

fn write_private(path: &Utf8Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {path}");
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::of_disk(cannot(), cause));
        }
        _ => {}
    }
    let mut options = OpenOptions::new();
    // Created anew: a file or link that an agent put there is neither followed nor waited for.
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|cause| Error::of_disk(cannot(), cause))
}
