//! A guard inside a terminal: the terminal belongs to its agent, and the server connects by socket.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::process::guard::keeper::Keeper;
use crate::process::guard::link::Link;
use crate::process::job_folder::JobFolder;
use crate::process::launch::{GUARD_LOG, GuardEvent, HOOKS_PIPE, Launch, LaunchStdin, VERSION};

/// How long the server may take to connect to a guard that it just started.
const SERVER_MAX: Duration = Duration::from_secs(10);

/// The terminal in which the guard was started.
pub(in crate::process::guard) struct Terminal {
    tty: OwnedFd,
    hooks: OwnedFd,
}

impl Terminal {
    /// Redirects the guard's own messages from the terminal to its log. `None` if the agent is not
    /// to have a terminal.
    pub(in crate::process::guard) fn take(
        folder: &JobFolder,
        launch: &Launch,
    ) -> io::Result<Option<Terminal>> {
        if launch.stdin != LaunchStdin::Terminal {
            return Ok(None);
        }
        let tty = io::stdin().as_fd().try_clone_to_owned()?;
        let log = folder.append(GUARD_LOG).map_err(io::Error::other)?;
        dup2_stdin(std::fs::File::open("/dev/null")?)?;
        dup2_stdout(&log)?;
        dup2_stderr(&log)?;
        let hooks = OwnedFd::from(folder.pipe(HOOKS_PIPE)?);
        Ok(Some(Terminal { tty, hooks }))
    }

    /// Returns the agent's terminal.
    pub(in crate::process::guard) fn tty(&self) -> BorrowedFd<'_> {
        self.tty.as_fd()
    }

    /// Returns the pipe to which the agent's hooks write.
    pub(in crate::process::guard) fn hooks(&self) -> io::Result<OwnedFd> {
        self.hooks.try_clone()
    }
}

/// Waits for the server that started this guard to connect.
pub(in crate::process::guard) fn let_in(keeper: &mut Keeper) -> io::Result<Link> {
    let deadline = Instant::now() + SERVER_MAX;
    loop {
        if let Some(socket) = keeper.hear() {
            let mut link = Link::at(socket);
            let hello = GuardEvent::Hello { version: VERSION, last_input: None, is_ending: false };
            link.tell(&hello);
            return Ok(link);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::other("no server came"));
        }
        let mut fds: Vec<_> =
            keeper.interest().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}
