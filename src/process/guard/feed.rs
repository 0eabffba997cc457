//! Buffers what the server writes to the agent until the agent's pipe accepts it.
//!
//! **Invariant:** the guard never blocks on an agent that does not read, and buffers at most
//! [`QUEUE_BYTES_MAX`] for it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::process::guard::note;

/// Most bytes buffered for an agent.
const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The write end of the agent's standard input.
#[derive(Default)]
pub(in crate::process::guard) struct Feed {
    pipe: Option<OwnedFd>,
    queue: VecDeque<u8>,
    /// Id and text of an input whose last part has not arrived yet.
    partial: (String, String),
    /// The id of the last input that was queued.
    last: Option<String>,
    /// The id of an input that exceeded the buffer.
    refused: Option<String>,
    /// Whether the pipe is closed once everything is written.
    is_finishing: bool,
    /// Whether the text takes another way, and only ids are recorded here.
    has_names_only: bool,
}

impl Feed {
    /// Takes the write end of a pipe; without one, everything written is dropped.
    pub(in crate::process::guard) fn new(pipe: Option<OwnedFd>) -> Feed {
        if let Some(pipe) = &pipe
            && let Err(cause) = fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        {
            note(&format!("the agent's input may block: {cause}"));
            return Feed::default();
        }
        Feed { pipe, ..Feed::default() }
    }

    /// Returns a feed that only records the ids of input delivered by others.
    pub(in crate::process::guard) fn of_names() -> Feed {
        Feed { has_names_only: true, ..Feed::default() }
    }

    /// Returns what to poll for while something is buffered.
    pub(in crate::process::guard) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| !self.queue.is_empty()).map(AsFd::as_fd)
    }

    /// Adds a part of an input. Returns whether the input is now complete and queued; the agent
    /// never sees an incomplete one.
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
        if self.pipe.is_none() || self.is_finishing || waiting + text.len() > QUEUE_BYTES_MAX {
            note("the agent takes no more input");
            // Without this part the rest would be a different text: drop the whole input.
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

    /// Drops an input whose last part a lost server would have sent.
    pub(in crate::process::guard) fn forget_partial(&mut self) {
        (self.partial, self.refused) = (Default::default(), None);
    }

    /// Returns the id of the last input that was queued or read.
    pub(in crate::process::guard) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Writes as much as the pipe accepts.
    pub(in crate::process::guard) fn write(&mut self) {
        while let Some(pipe) = self.pipe.as_ref().filter(|_| !self.queue.is_empty()) {
            let (first, _) = self.queue.as_slices();
            match nix::unistd::write(pipe, first) {
                Ok(count) => drop(self.queue.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(cause) => {
                    // The agent closed its input or exited; its exit is handled elsewhere.
                    note(&format!("the agent's input is closed: {cause}"));
                    (self.pipe, self.queue) = (None, VecDeque::new());
                }
            }
        }
        if self.is_finishing {
            self.pipe = None;
        }
    }

    /// Closes the agent's input once everything is written to it.
    pub(in crate::process::guard) fn finish(&mut self) {
        self.is_finishing = true;
        self.write();
    }

    /// Closes the agent's input.
    pub(in crate::process::guard) fn close(&mut self) {
        (self.pipe, self.queue) = (None, VecDeque::new());
    }
}
