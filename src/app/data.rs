//! The data folder: private, with the loaded script and where the server is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use tracing::warn;

use crate::base::{Context, Error, ErrorKind, Result, fault};
use crate::script::Config;
use crate::store::{CORRUPT, Store};

const SERVER_FILE: &str = "server.json";

/// Makes the folder, mode 0700.
pub(super) fn make_private(data: &Utf8Path) -> Result<()> {
    let cannot = || format!("cannot create the data folder {data}");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .context(ErrorKind::Unavailable, cannot)?;
    // A database that lasts is of no use in a folder that does not.
    if let Some(parent) = data.parent().filter(|it| !it.as_str().is_empty()) {
        File::open(parent).and_then(|it| it.sync_all()).context(ErrorKind::Unavailable, cannot)?;
    }
    ignore_all(data)
}

/// Lets git pass the folder over, whatever the repository's own `.gitignore` says: `git add -A`
/// must not commit the operator's token.
fn ignore_all(data: &Utf8Path) -> Result<()> {
    let path = data.join(".gitignore");
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match made.and_then(|mut file| file.write_all(b"*\n")) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(cause).context(ErrorKind::Unavailable, || format!("cannot write {path}"))
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
    for file in &config.files {
        let path = aside.join(&file.path);
        let parent = path.parent().unwrap_or(&aside);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .context(ErrorKind::Unavailable, cannot)?;
        write_private(&path, file.text.as_bytes())?;
    }
    fs::rename(&aside, &folder).context(ErrorKind::Unavailable, cannot)
}

/// Tells the commands where the server is.
pub(super) fn write_server_file(data: &Utf8Path, facts: &Value) -> Result<()> {
    let (path, aside) = (data.join(SERVER_FILE), data.join(format!("{SERVER_FILE}.new")));
    write_private(&aside, format!("{facts:#}\n").as_bytes())?;
    fs::rename(&aside, &path).context(ErrorKind::Unavailable, || format!("cannot write {path}"))
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

/// Returns the epoch of a database whose log is gone although its last server did not end well.
pub(super) fn lost_log(data: &Utf8Path, database: &Utf8Path) -> Option<String> {
    let text = fs::read_to_string(data.join(SERVER_FILE)).ok()?;
    let facts: Value = serde_json::from_str(&text).ok()?;
    let is_lost = database.exists() && !Utf8PathBuf::from(format!("{database}-wal")).exists();
    is_lost.then(|| facts["epoch"].as_str().map(str::to_owned))?
}

/// Refuses to serve without it; a database that was restored has another epoch and needs no log.
pub(super) fn refuse_lost_log(lost: Option<String>, store: &Store) -> Result<()> {
    if lost.is_none_or(|epoch| epoch != store.epoch()) || fault::is_off("lost_log") {
        return Ok(());
    }
    let path = store.path();
    Err(Error::unavailable(format!("{path}-wal is gone, and what it held of the database with it"))
        .code(CORRUPT)
        .hint(format!(
            "put it back, or restore a backup (wiki-browser restore); to go on without it, remove \
             {SERVER_FILE} from the data folder"
        )))
}

/// Returns the pid that the server file names, for a message.
pub(super) fn running_server(data: &Utf8Path) -> Option<u64> {
    let text = fs::read_to_string(data.join(SERVER_FILE)).ok()?;
    serde_json::from_str::<Value>(&text).ok()?["pid"].as_u64()
}

fn write_private(path: &Utf8Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {path}");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).context(ErrorKind::Unavailable, cannot)?;
    file.write_all(bytes).context(ErrorKind::Unavailable, cannot)
}
