//! The data folder: private, with the loaded script and where the server is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use tracing::warn;

use crate::base::{Clock, Context, Error, ErrorKind, Result, fault};
use crate::documents::Repo;
use crate::flows::site::backup;
use crate::process;
use crate::script::Config;
use crate::store::{self, CORRUPT};

const SERVER_FILE: &str = "server.json";
/// Longest such file.
const SERVER_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Makes the folder, mode 0700.
pub(super) fn make_private(data: &Utf8Path) -> Result<()> {
    let cannot = || format!("cannot create the data folder {data}");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(|cause| Error::of_disk(cannot(), cause))?;
    // A database that lasts is of no use in a folder that does not.
    if let Some(parent) = data.parent().filter(|it| !it.as_str().is_empty()) {
        File::open(parent).and_then(|it| it.sync_all()).context(ErrorKind::Unavailable, cannot)?;
    }
    ignore_all(data)
}

/// Returns a repository with what it needs beside it kept in the data folder. A data folder with
/// tracked files is refused: whoever can commit could put there what agents and the server obey.
pub(super) async fn beside(repo: Repo, data: &Utf8Path) -> Result<Repo> {
    let tracked = repo.tracked_below(data).await?.filter(|_| !fault::is_off("data_tracked"));
    let Some(file) = tracked else { return Ok(repo.beside(data)) };
    let message = format!("git tracks {file}, which is in the data folder {data}");
    Err(Error::conflict("data_tracked", message).hint(
        "choose another `data` in wb.site, or take the file out of the repository and remove it: \
         git rm -r --cached",
    ))
}

/// Lets git pass the folder over, whatever the repository's own `.gitignore` says: `git add -A`
/// must not commit the operator's token.
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

/// Keeps the text of the loaded script under its digest: a job's row names the digest.
pub(super) fn keep_script(config: &Config) -> Result<()> {
    let folder = config.site.data.join("script").join(&config.digest);
    if folder.is_dir() {
        return Ok(());
    }
    // Written aside and renamed, so that a folder of this name is always complete.
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

/// Tells the commands where the server is.
pub(super) fn write_server_file(data: &Utf8Path, facts: &Value) -> Result<()> {
    let (path, aside) = (data.join(SERVER_FILE), data.join(format!("{SERVER_FILE}.new")));
    write_private(&aside, format!("{facts:#}\n").as_bytes())?;
    fs::rename(&aside, &path).map_err(|cause| Error::of_disk(format!("cannot write {path}"), cause))
}

/// Takes that back.
pub(super) fn remove_server_file(data: &Utf8Path) {
    let path = data.join(SERVER_FILE);
    match fs::remove_file(&path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            warn!("cannot remove {path}: {cause}");
        }
        _ => {}
    }
}

/// Refuses to begin a new site where one was: its database is gone, and nobody said that it may be.
///
/// # Errors
/// `not_found` with code `no_database`.
pub(super) fn refuse_lost_database(data: &Utf8Path, database: &Utf8Path) -> Result<()> {
    // An empty file is what some tools leave of one, and what SQLite takes for a new one.
    if database.metadata().is_ok_and(|it| it.len() > 0) || fault::is_off("lost_database") {
        return Ok(());
    }
    let is_filled = |name: &str| {
        data.join(name).read_dir_utf8().is_ok_and(|mut entries| entries.next().is_some())
    };
    let left: Vec<&str> = ["operator.token", "jobs", "backups"]
        .into_iter()
        .filter(|name| data.join(name).is_file() || is_filled(name))
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let left = left.join(", ");
    let message = format!("no database at {database}, but {data} has {left}");
    let anew = format!("to start over, move {data} away");
    Err(Error::not_found(message).code("no_database").hint(
        match backup::newest(data, Clock::system().now()) {
            Some(it) => {
                format!("restore the newest backup: wiki-browser restore {}; {anew}", it.path)
            }
            None => format!("put it back, or restore a backup: wiki-browser restore FILE; {anew}"),
        },
    ))
}

/// Refuses to serve a database whose log is gone although its last server did not end well: what
/// was acknowledged last stood in the log only. Whoever looks at the database with another program
/// works the log in, which is no loss; and one that was restored needs none.
pub(super) fn refuse_lost_log(data: &Utf8Path, database: &Utf8Path) -> Result<()> {
    let facts = server_facts(data)?;
    let log = Utf8PathBuf::from(format!("{database}-wal"));
    let (Some(epoch), Some(life)) = (facts["epoch"].as_str(), facts["life"].as_str()) else {
        return Ok(());
    };
    // An empty one is left by whoever looked.
    let has_log = log.metadata().is_ok_and(|it| it.len() > 0);
    if has_log || !database.exists() || fault::is_off("lost_log") {
        return Ok(());
    }
    if !store::has_lost(database, epoch, life)? {
        return Ok(());
    }
    Err(Error::unavailable(format!("{log} is missing, and the data it held is lost"))
        .code(CORRUPT)
        .hint(
            "put it back, or restore a backup (wiki-browser restore); to go on without it: \
             wiki-browser recover",
        ))
}

/// Returns the pid that the server file names, for a message.
pub(super) fn running_server(data: &Utf8Path) -> Option<u64> {
    server_facts(data).ok()?["pid"].as_u64()
}

/// Returns what the last server has left of itself; null if that is nothing, or no JSON.
///
/// # Errors
/// If something else than a small file has its place, which an agent may have put there.
fn server_facts(data: &Utf8Path) -> Result<Value> {
    let path = data.join(SERVER_FILE);
    let bytes = process::read_small(&path, SERVER_FILE_BYTES_MAX)
        .map_err(|cause| cause.hint("remove it; the server creates a new one"))?;
    Ok(serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default())
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
    // Made anew: what an agent has put there is neither followed nor waited for.
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|cause| Error::of_disk(cannot(), cause))
}
