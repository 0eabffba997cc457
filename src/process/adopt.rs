//! Takes over a guard that has outlived its server.
//!
//! **Invariant:** before a byte is sent, the process behind the socket is proven to be the guard on
//! record.

use std::os::fd::AsFd as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::process::cgroup::Cgroup;
use crate::process::identity::ProcessIdentity;
use crate::process::job_folder::JobFolder;
use crate::process::launch::{
    GUARD_SOCKET, GuardEvent, GuardOrder, LINE_BYTES_MAX, MARK, VERSION, read_launch,
};
use crate::process::lifeline::Lifeline;
use crate::process::running_guard::{FAR, Guard, Held, Started};
use crate::process::tree::Children;

/// The code of a guard that does not answer: it may be stopped, or its machine be busy.
pub const GUARD_SILENT: &str = "guard_silent";

/// A guard taken over from an earlier server.
#[derive(Debug)]
pub struct Adopted {
    /// The guard.
    pub guard: Guard,
    /// The name of the last input that was queued for the agent or read by it.
    pub last_input: Option<String>,
}

/// Takes over the guard of a job, which has this long to answer; `None` if no guard is waiting.
///
/// # Errors
/// `unavailable` with code `guard_silent` if a guard does not answer, or without it if it is not
/// the one on record; `conflict` with code `guard_version` if it belongs to another version of this
/// program.
pub async fn adopt(
    children: &Children,
    (job_dir, job): (&Utf8Path, &str),
    (identity, key): (&ProcessIdentity, &str),
    wait: Duration,
) -> Result<Option<Adopted>> {
    let Some(folder) = JobFolder::open(job_dir)? else { return Ok(None) };
    if !identity.is_proven(Some((MARK, job))) {
        return Ok(None);
    }
    let cannot = || format!("the guard of job {job} cannot be taken over");
    let silent =
        || Error::unavailable(format!("{}: it does not answer", cannot())).code(GUARD_SILENT);
    let socket = match folder.connect(GUARD_SOCKET) {
        Ok(socket) => socket,
        // It has no socket: it ends with its server.
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // As many servers wait for it as may.
        Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => return Err(silent()),
        Err(cause) => return Err(cause).context(ErrorKind::Unavailable, cannot),
    };
    let peer =
        getsockopt(&socket.as_fd(), PeerCredentials).context(ErrorKind::Unavailable, cannot)?;
    if peer.pid() != identity.pid || !identity.is_proven(Some((MARK, job))) {
        return Err(Error::unavailable(format!("{}: somebody else is at its door", cannot())));
    }
    socket.set_nonblocking(true).context(ErrorKind::Unavailable, cannot)?;
    let mut socket = UnixStream::from_std(socket).context(ErrorKind::Internal, cannot)?;
    let mut line = serde_json::to_vec(&GuardOrder::Adopt { key: key.to_owned() })
        .context(ErrorKind::Internal, cannot)?;
    line.push(b'\n');
    let spoken = async {
        socket.write_all(&line).await?;
        hello(&mut socket).await
    };
    let (hello, rest) = tokio::time::timeout(wait, spoken)
        .await
        .map_err(|_| silent())?
        .context(ErrorKind::Unavailable, cannot)?;
    let GuardEvent::Hello { version, last_input, is_ending } = hello else {
        return Err(Error::unavailable(format!("{}: it makes no sense", cannot())));
    };
    if version != VERSION {
        let message = format!("{}: it is of version {version}", cannot());
        return Err(Error::conflict("guard_version", message));
    }
    let launch = read_launch(&folder)?;
    let started = Started {
        held: Held::Adopted(identity.clone()),
        children: children.clone(),
        identity: identity.clone(),
        job_dir: Utf8PathBuf::from(job_dir),
        line: Lifeline::new(socket),
        cgroup: launch.cgroup.clone().map(Cgroup::at),
        wall: launch.clocks.wall_ms.map_or(FAR, Duration::from_millis),
        grace: Duration::from_millis(launch.grace_ms),
    };
    let guard = Guard::adopted(started, rest, is_ending);
    Ok(Some(Adopted { guard, last_input }))
}

/// Returns the guard that listens in a job's folder, proven to be a guard of that job; `None` if
/// nobody listens.
///
/// # Errors
/// `unavailable` if the folder cannot be opened, or another process listens there.
pub fn at_door(job_dir: &Utf8Path, job: &str) -> Result<Option<ProcessIdentity>> {
    let Some(folder) = JobFolder::open(job_dir)? else { return Ok(None) };
    // The socket of a guard that was killed: nobody listens.
    let Ok(socket) = folder.connect(GUARD_SOCKET) else { return Ok(None) };
    let cannot = || format!("the guard of job {job} is not known");
    let peer =
        getsockopt(&socket.as_fd(), PeerCredentials).context(ErrorKind::Unavailable, cannot)?;
    let identity = ProcessIdentity::of(peer.pid())?;
    match identity.filter(|it| it.is_proven(Some((MARK, job)))) {
        Some(identity) => Ok(Some(identity)),
        None => Err(Error::unavailable(format!("{}: somebody else is at its door", cannot()))),
    }
}

/// Reads the guard's first line, and whatever followed it.
async fn hello(socket: &mut UnixStream) -> std::io::Result<(GuardEvent, Vec<u8>)> {
    let mut reader = BufReader::new(socket);
    let mut line = Vec::new();
    loop {
        let found = reader.fill_buf().await?;
        if found.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let end = found.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(found.len(), |at| at + 1);
        line.extend_from_slice(&found[..count]);
        reader.consume(count);
        if end.is_some() {
            break;
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
    }
    let rest = reader.buffer().to_vec();
    let event = serde_json::from_slice(&line)?;
    Ok((event, rest))
}
