//! Sockets: listeners, peers, and limits on stalled clients.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use camino::Utf8Path;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, Sleep, sleep};

use crate::base::{Context, Error, ErrorKind, Result, fault};

/// The sender of a request, as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP client.
    Tcp(SocketAddr),
    /// A process on this machine, of our user or root.
    Unix {
        /// Its user.
        uid: u32,
        /// Its process, if visible to this one.
        pid: Option<i32>,
        /// Whether it belonged to a job when it connected. Decided once, because the process can
        /// end and leave the connection to another. A process that is not visible counts as an
        /// agent's.
        is_agent: bool,
    },
}

/// Binds a Unix socket (mode 0600) in a folder of any depth.
///
/// The kernel limits the path of a socket to 107 bytes; through the folder's descriptor it is
/// short.
/// The caller holds the site's lock: a socket that is there already belongs to nobody.
///
/// # Errors
/// `conflict` with code `socket_taken` if something that is no socket has the name; `unavailable`
/// if the socket cannot be made.
pub fn bind_unix(dir: &Utf8Path, name: &str) -> Result<UnixListener> {
    let cannot = || format!("cannot make the socket {dir}/{name}");
    let folder = File::open(dir).context(ErrorKind::Unavailable, cannot)?;
    let short = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let (path, aside) = (format!("{short}/{name}"), format!("{short}/{name}.new"));
    for old in [&path, &aside] {
        match std::fs::symlink_metadata(old) {
            Ok(facts) if facts.file_type().is_socket() => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => {
                return Err(Error::conflict("socket_taken", cannot())
                    .hint("the path exists and is not a socket; remove it"));
            }
            Err(cause) => return Err(Error::unavailable(cannot()).source(cause)),
        }
    }
    match std::fs::remove_file(&aside) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            return Err(Error::unavailable(cannot()).source(cause));
        }
        _ => {}
    }
    // Created under another name and renamed, so that it is never open to others under its own
    // name, and an old one is replaced atomically.
    let listener = UnixListener::bind(&aside).context(ErrorKind::Unavailable, cannot)?;
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&aside, private).context(ErrorKind::Unavailable, cannot)?;
    std::fs::rename(&aside, &path).context(ErrorKind::Unavailable, cannot)?;
    Ok(listener)
}

/// Returns our user, as the kernel shows it to peers.
pub(in crate::http) fn own_uid() -> io::Result<u32> {
    let (one, _other) = UnixStream::pair()?;
    Ok(one.peer_cred()?.uid())
}

/// How much of a response a client must read within the time limit.
const PROGRESS_BYTES_MIN: usize = 64 * 1024;

/// A stream whose writes may not stall: a client that stops reading, or reads a byte now and then,
/// is disconnected, and so cannot hold a response and its memory forever.
pub(in crate::http) struct Watched<S> {
    stream: S,
    stall: Duration,
    /// Since when a write has been waiting; reset when all is written or enough was read.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes read since then.
    taken: usize,
}

impl<S> Watched<S> {
    pub(in crate::http) fn new(stream: S, stall: Duration) -> Watched<S> {
        Watched { stream, stall, deadline: None, taken: 0 }
    }

    fn watch(
        &mut self,
        context: &mut TaskContext<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(done) = &outcome {
            self.taken = self.taken.saturating_add(*done.as_ref().unwrap_or(&0));
            if self.taken >= PROGRESS_BYTES_MIN || fault::is_off("write_progress") {
                self.is_fine();
            }
            return outcome;
        }
        let stall = self.stall;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(stall)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S> Watched<S> {
    fn is_fine(&mut self) {
        self.deadline = None;
        self.taken = 0;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        // Only fully written bytes are flushed.
        self.is_fine();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// How long to wait after a failed accept: such failures (no descriptors left) pass, and retrying
/// at once would use up the CPU.
#[derive(Default)]
pub(in crate::http) struct Backoff {
    failures: u32,
    last: Option<Instant>,
}

impl Backoff {
    /// Records a failure; returns how long to wait, and whether to log it.
    pub(in crate::http) fn failed(&mut self) -> (Duration, bool) {
        let now = Instant::now();
        let is_news = self.last.is_none_or(|at| now - at > Duration::from_secs(60));
        if is_news {
            self.failures = 0;
        }
        self.last = Some(now);
        self.failures = (self.failures + 1).min(6);
        (Duration::from_millis(20 << self.failures), is_news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_are_logged_once_and_slow_down() {
        let mut backoff = Backoff::default();
        let (first, is_news) = backoff.failed();
        assert!(is_news);
        for _ in 0..20 {
            let (next, is_news) = backoff.failed();
            assert!(!is_news && next > first && next <= Duration::from_secs(2));
        }
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(backoff.failed(), (first, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_closed() {
        use tokio::io::AsyncWriteExt as _;
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut watched = Watched::new(ours, Duration::from_secs(30));
        let outcome = watched.write_all(&[0; 64]).await;
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// Fails with `WB_WITHOUT=write_progress`.
    #[tokio::test(start_paused = true)]
    async fn a_reader_of_single_bytes_is_closed_and_a_slow_one_is_not() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        for (bytes_each_time, is_closed) in [(1, true), (32 * 1024, false)] {
            let (ours, mut theirs) = tokio::io::duplex(bytes_each_time);
            let mut watched = Watched::new(ours, Duration::from_secs(30));
            let mut reading = tokio::task::JoinSet::new();
            reading.spawn(async move {
                let mut taken = vec![0; bytes_each_time];
                while theirs.read(&mut taken).await.is_ok_and(|it| it > 0) {
                    sleep(Duration::from_secs(10)).await;
                }
            });
            let answer = vec![0; 1024 * 1024];
            let writing = watched.write_all(&answer);
            let outcome = tokio::time::timeout(Duration::from_secs(600), writing).await;
            let outcome = outcome.expect("an end").map_err(|it| it.kind());
            let expected = if is_closed { Err(io::ErrorKind::TimedOut) } else { Ok(()) };
            assert_eq!(outcome, expected, "{bytes_each_time}");
        }
    }

    #[tokio::test]
    async fn what_is_no_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::write(dir.join("wb.sock"), "mine").unwrap();
        assert_eq!(bind_unix(dir, "wb.sock").unwrap_err().code_str(), "socket_taken");
        assert_eq!(std::fs::read_to_string(dir.join("wb.sock")).unwrap(), "mine");
    }
}
