//! The file `data/operator.token`, with which the command line acts as the operator.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use camino::Utf8Path;

use crate::base::{Context, Error, ErrorKind, Result, random_token};

/// Linux's flag for non-blocking opens.
const O_NONBLOCK: i32 = 0o4000;
/// The name of the file in the data folder.
const FILE: &str = "operator.token";
/// Length of a token: `wb_` and 64 hexadecimal digits.
const TOKEN_BYTES: u64 = 67;

/// Returns the operator's token from its file, creating it (mode 0600) if necessary.
///
/// # Errors
/// `conflict` with code `operator_token_open` if others can read or write the file; `unavailable`
/// if it cannot be read or written.
pub fn keep_operator_token(data: &Utf8Path) -> Result<String> {
    let path = data.join(FILE);
    // A fifo in its place must not block the start.
    let opened = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&path);
    match opened {
        Ok(file) => read(&path, file),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => write_new(data, &path),
        Err(cause) => Err(Error::unavailable(format!("cannot read {path}")).source(cause)),
    }
}

fn read(path: &Utf8Path, file: File) -> Result<String> {
    let cannot = || format!("cannot read {path}");
    let facts = file.metadata().context(ErrorKind::Unavailable, cannot)?;
    if !facts.is_file() || facts.mode() & 0o077 != 0 {
        return Err(Error::conflict(
            "operator_token_open",
            format!("{path} is readable by others"),
        )
        .hint(format!("remove {path}; the server creates a new one when it starts")));
    }
    let mut text = String::new();
    file.take(TOKEN_BYTES + 1).read_to_string(&mut text).context(ErrorKind::Unavailable, cannot)?;
    let text = text.trim_end();
    let is_token = text.len() as u64 == TOKEN_BYTES
        && text.strip_prefix("wb_").is_some_and(|it| it.bytes().all(|b| b.is_ascii_hexdigit()));
    if !is_token {
        return Err(Error::conflict("operator_token_bad", format!("{path} has no token"))
            .hint(format!("remove {path}; the server creates a new one when it starts")));
    }
    Ok(text.to_owned())
}

/// Writes a new token aside and renames it: a crash leaves no partial token, which would be refused
/// at the next start.
fn write_new(data: &Utf8Path, path: &Utf8Path) -> Result<String> {
    let cannot = || format!("cannot write {path}");
    let token = random_token("wb_")?;
    let aside = data.join(format!("{FILE}.new"));
    match std::fs::remove_file(&aside) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::unavailable(cannot()).source(cause));
        }
        _ => {}
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside);
    let written = opened.and_then(|mut file| {
        file.write_all(format!("{token}\n").as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&aside, path)?;
        File::open(data)?.sync_all()
    });
    written.map_err(|cause| Error::of_disk(cannot(), cause))?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_token_is_made_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let data = Utf8Path::from_path(folder.path()).unwrap();
        let token = keep_operator_token(data).unwrap();
        assert_eq!(keep_operator_token(data).unwrap(), token);
        let file = data.join(FILE);
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(keep_operator_token(data).unwrap_err().code_str(), "operator_token_open");
    }
}
