//! Files that a command fetches: printed, or saved where nothing is yet.

use std::io::Write as _;

use camino::Utf8Path;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::cli::terminal::screen::Screen;

/// Saves a file; never replaces one.
///
/// # Errors
/// `conflict` with code `file_exists`; `invalid` if it cannot be written.
pub(in crate::cli) fn save(path: &Utf8Path, content: &[u8]) -> Result<()> {
    let open = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    if open.as_ref().is_err_and(|cause| cause.kind() == std::io::ErrorKind::AlreadyExists) {
        return Err(Error::conflict("file_exists", format!("{path} already exists"))
            .hint("choose another name; files are not replaced"));
    }
    let failed = || format!("cannot write {path}");
    open.context(ErrorKind::Invalid, failed)?.write_all(content).context(ErrorKind::Invalid, failed)
}

/// Prints a file that is text.
///
/// # Errors
/// `invalid` with code `not_text`.
pub(in crate::cli) fn print_file(screen: &Screen, content: Vec<u8>) -> Result<()> {
    let text = String::from_utf8(content).map_err(|_| {
        Error::invalid("the file is not text").code("not_text").hint("save it: --out FILE")
    })?;
    screen.raw(&text)
}
