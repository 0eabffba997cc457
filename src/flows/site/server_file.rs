//! `data/server.json`: where a running server is, and which run a killed one was.

use std::error::Error as StdError;
use std::io;

use camino::Utf8Path;
use serde::Deserialize;

use crate::base::Result;
use crate::process;

/// The name of the file.
pub const SERVER_FILE: &str = "server.json";
/// Largest such file.
const BYTES_MAX: u64 = 64 * 1024;

/// What this program reads of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServerFile {
    /// The process id of the server.
    pub pid: Option<u64>,
    /// Its TCP address.
    pub address: Option<String>,
    /// The epoch of its database.
    pub epoch: Option<String>,
    /// Its run, as in `site.life`.
    pub life: Option<String>,
}

/// Reads the file; `None` if it is missing or is not JSON.
///
/// # Errors
/// If something other than a small file is in its place: an agent may have put it there.
pub fn read(data: &Utf8Path) -> Result<Option<ServerFile>> {
    let bytes = process::read_small(&data.join(SERVER_FILE), BYTES_MAX).map_err(|cause| {
        let source = StdError::source(&cause).and_then(|it| it.downcast_ref::<io::Error>());
        let is_closed = source.is_some_and(|it| it.kind() == io::ErrorKind::PermissionDenied);
        cause.hint(match is_closed {
            true => "only the user of the server may read it: be that user",
            false => "remove it; the server creates a new one",
        })
    })?;
    Ok(bytes.and_then(|it| serde_json::from_slice(&it).ok()))
}
