//! Connecting to a Unix socket, however deep its folder is.

use std::io::ErrorKind as IoKind;
use std::os::fd::AsRawFd;

use camino::Utf8Path;
use tokio::net::UnixStream;

use crate::base::{Error, Result};
use crate::client::CONNECT_WAIT_MAX;

/// The code of a missing server.
pub const NO_SERVER: &str = "no_server";

/// Connects to the socket of a server.
///
/// # Errors
/// `no_server` if there is no socket or nobody listens on it.
pub(super) async fn connect(path: &Utf8Path) -> Result<UnixStream> {
    let stream = tokio::time::timeout(CONNECT_WAIT_MAX, open(path)).await;
    match stream {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(cause)) => Err(explain(path, cause)),
        Err(_) => Err(Error::unavailable(format!("the server at {path} accepts no connection"))
            .code("timeout")
            .hint("it is overloaded or stopped; check its log")),
    }
}

/// The hint for a server of another user.
pub(super) const ITS_USER: &str = "use the server as the user who started it";

/// Returns the error for a missing server. An agent must not start one: its server was stopped, or
/// is being started again.
pub(super) fn no_server(message: String) -> Error {
    let is_agent = std::env::var_os("WB_JOB_ID").is_some();
    Error::unavailable(message).code(NO_SERVER).hint(match is_agent {
        true => "try again later; `wb-agent complete` and `wb-agent fail` work without it",
        false => "start it with: wiki-browser serve",
    })
}

async fn open(path: &Utf8Path) -> std::io::Result<UnixStream> {
    let name = path.file_name().ok_or(IoKind::InvalidInput)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_str().is_empty() => parent,
        _ => Utf8Path::new("."),
    };
    // Linux limits the path of a socket to 107 bytes; a path through an open folder is short. The
    // folder must stay open until the connection is established.
    let folder = std::fs::File::open(folder)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd())).await
}

fn explain(path: &Utf8Path, cause: std::io::Error) -> Error {
    match cause.kind() {
        IoKind::NotFound | IoKind::NotADirectory => {
            no_server(format!("no server is running: no socket {path}"))
        }
        IoKind::ConnectionRefused => no_server(format!("no server listens on {path}")),
        IoKind::PermissionDenied => {
            Error::new(crate::base::ErrorKind::Forbidden, format!("{path} may not be opened"))
                .hint(ITS_USER)
        }
        _ => Error::unavailable(format!("cannot connect to {path}")),
    }
    .source(cause)
}
