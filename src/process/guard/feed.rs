//! What the server writes to the agent: kept here until the agent's pipe takes it.
//!
//! **Invariant:** the guard never waits for an agent that does not read, and holds no more of what
//! it is to read than [`QUEUE_BYTES_MAX`].

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::process::guard::note;

/// Most bytes that wait for an agent to read them.
const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The writing end of the agent's standard input.
#[derive(Default)]
pub(in crate::process::guard) struct Feed {
    pipe: Option<OwnedFd>,
    queue: VecDeque<u8>,
    /// An input whose last part is still to come.
    partial: (String, String),
    /// The name of the last input that was queued.
    last: Option<String>,
    /// The name of an input that was too much.
    refused: Option<String>,
    /// Whether what is written goes another way, and only its names come here.
    has_names_only: bool,
}

impl Feed {
    /// Takes the writing end of a pipe; without one, everything that is written is lost.
    pub(in crate::process::guard) fn new(pipe: Option<OwnedFd>) -> Feed {
        if let Some(pipe) = &pipe
            && let Err(cause) = fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        {
            note(&format!("the agent's input may block: {cause}"));
            return Feed::default();
        }
        Feed { pipe, ..Feed::default() }
    }

    /// Takes the names of what somebody else writes.
    pub(in crate::process::guard) fn of_names() -> Feed {
        Feed { has_names_only: true, ..Feed::default() }
    }

    /// Returns what to poll for, while something waits to be read.
    pub(in crate::process::guard) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| !self.queue.is_empty()).map(AsFd::as_fd)
    }

    /// Adds a part of an input; whether it is whole now and on its way. Of one whose end never
    /// comes the agent reads nothing.
    pub(in crate::process::guard) fn add(&mut self, id: String, is_last: bool, text: &str) -> bool {
        if self.has_names_only {
            self.last = Some(id);
            return true;
        }
        if self.refused.as_ref() == Some(&id) {
            return false;
        }
        if self.partial.0 != id {
            self.partial = (id, String::new());
        }
        let waiting = self.queue.len() + self.partial.1.len();
        if self.pipe.is_none() || waiting + text.len() > QUEUE_BYTES_MAX {
            note("the agent takes no more input");
            // Of one part that is left out the others would make another text.
            self.refused = Some(std::mem::take(&mut self.partial).0);
            return false;
        }
        self.partial.1.push_str(text);
        if !is_last {
            return false;
        }
        let (id, whole) = std::mem::take(&mut self.partial);
        self.queue.extend(whole.as_bytes());
        if !id.is_empty() {
            self.last = Some(id);
        }
        self.write();
        true
    }

    /// Forgets the input whose end a server that is gone would have written.
    pub(in crate::process::guard) fn forget_partial(&mut self) {
        (self.partial, self.refused) = (Default::default(), None);
    }

    /// Returns the name of the last input that is on its way, or was read.
    pub(in crate::process::guard) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Writes what the pipe takes.
    pub(in crate::process::guard) fn write(&mut self) {
        while let Some(pipe) = self.pipe.as_ref().filter(|_| !self.queue.is_empty()) {
            let (first, _) = self.queue.as_slices();
            match nix::unistd::write(pipe, first) {
                Ok(count) => drop(self.queue.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(cause) => {
                    // It closed its input, or has ended: its exit is what counts.
                    note(&format!("the agent's input is closed: {cause}"));
                    (self.pipe, self.queue) = (None, VecDeque::new());
                }
            }
        }
    }

    /// Closes the agent's input.
    pub(in crate::process::guard) fn close(&mut self) {
        (self.pipe, self.queue) = (None, VecDeque::new());
    }
}
