//! Lets a guard outlive its server: it waits for the next one at a socket in the job's folder.
//!
//! **Invariant:** a connection is accepted only from our own user, from a process outside of the
//! job, and with the key. One connection counts at a time, the newest.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Uid;

use crate::base::digest_hex;
use crate::process::guard::note;
use crate::process::identity::carries_mark;
use crate::process::job_folder::JobFolder;
use crate::process::launch::{GUARD_SOCKET, GuardOrder, Launch, MARK, OnServerLoss};

/// Timeout for a client to identify itself.
const KNOCK_MAX: Duration = Duration::from_secs(2);
/// Longest first line.
const KNOCK_BYTES_MAX: usize = 1024;

/// The socket through which a later server connects.
pub(in crate::process::guard) struct Keeper {
    listener: UnixListener,
    job: String,
    digest: String,
    keep: Duration,
    lost_at: Option<Instant>,
    knock: Option<Knock>,
}

/// A client that has not identified itself yet.
struct Knock {
    socket: UnixStream,
    line: Vec<u8>,
    until: Instant,
}

impl Keeper {
    /// Opens the socket, if the job may outlive its server.
    pub(in crate::process::guard) fn open(
        folder: &JobFolder,
        launch: &Launch,
    ) -> std::io::Result<Option<Keeper>> {
        let OnServerLoss::Keep { keep_ms, adopt_digest } = &launch.on_server_loss else {
            return Ok(None);
        };
        let listener = folder.listen(GUARD_SOCKET)?;
        listener.set_nonblocking(true)?;
        Ok(Some(Keeper {
            listener,
            job: launch.job.clone(),
            digest: adopt_digest.clone(),
            keep: Duration::from_millis(*keep_ms),
            lost_at: None,
            knock: None,
        }))
    }

    /// Records whether a server is connected. Returns until when the guard waits for the next one.
    pub(in crate::process::guard) fn note_server(
        &mut self,
        is_gone: bool,
        now: Instant,
    ) -> Option<Instant> {
        match is_gone {
            true => Some(*self.lost_at.get_or_insert(now) + self.keep),
            false => {
                self.lost_at = None;
                None
            }
        }
    }

    /// Returns what to poll for reading.
    pub(in crate::process::guard) fn interest(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let knock = self.knock.as_ref().map(|it| it.socket.as_fd());
        std::iter::once(self.listener.as_fd()).chain(knock)
    }

    /// Returns when an unidentified client is dropped.
    pub(in crate::process::guard) fn patience(&self) -> Option<Instant> {
        self.knock.as_ref().map(|it| it.until)
    }

    /// Accepts and checks clients. Returns the connection of a new server.
    pub(in crate::process::guard) fn hear(&mut self) -> Option<OwnedFd> {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => match self.refuses(&socket) {
                    None => {
                        let until = Instant::now() + KNOCK_MAX;
                        self.knock = Some(Knock { socket, line: Vec::new(), until });
                    }
                    Some(why) => note(&format!("nobody is let in: {why}")),
                },
                Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(cause) => {
                    note(&format!("the door is stuck: {cause}"));
                    break;
                }
            }
        }
        let knock = self.knock.as_mut()?;
        let has_said = read_line(knock);
        let is_late = Instant::now() >= knock.until;
        match has_said {
            Ok(false) if !is_late => None,
            Ok(true) => {
                let knock = self.knock.take()?;
                let order = serde_json::from_slice(&knock.line);
                match order {
                    Ok(GuardOrder::Adopt { key }) if digest_hex(&key) == self.digest => {
                        Some(OwnedFd::from(knock.socket))
                    }
                    _ => {
                        note("nobody is let in without the key");
                        None
                    }
                }
            }
            _ => {
                self.knock = None;
                None
            }
        }
    }

    /// Returns why a client is refused, if it is.
    fn refuses(&self, socket: &UnixStream) -> Option<String> {
        if let Err(cause) = socket.set_nonblocking(true) {
            return Some(cause.to_string());
        }
        let peer = match getsockopt(socket, PeerCredentials) {
            Ok(peer) => peer,
            Err(cause) => return Some(cause.to_string()),
        };
        if peer.uid() != Uid::current().as_raw() {
            return Some(format!("process {} is of another user", peer.pid()));
        }
        match carries_mark(peer.pid(), MARK) {
            Some(mark) if mark == self.job => Some(format!("process {} is of the job", peer.pid())),
            _ => None,
        }
    }
}

/// Reads the available part of the first line; returns whether it is complete.
fn read_line(knock: &mut Knock) -> std::io::Result<bool> {
    let mut byte = [0];
    while knock.line.len() < KNOCK_BYTES_MAX {
        match knock.socket.read(&mut byte) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte[0] == b'\n' => return Ok(true),
            Ok(_) => knock.line.push(byte[0]),
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
            Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => return Ok(false),
            Err(cause) => return Err(cause),
        }
    }
    Err(std::io::ErrorKind::InvalidData.into())
}
