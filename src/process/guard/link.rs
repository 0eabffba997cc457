//! The guard's side of the lifeline: orders in, events out.
//!
//! **Invariant:** the guard never blocks on the server: if the socket is full, events are buffered
//! and output notices skipped.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};

use crate::process::guard::note;
use crate::process::launch::{GuardEvent, GuardOrder, LINE_BYTES_MAX};

/// The socket to the server.
pub(in crate::process::guard) struct Link {
    socket: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Orders that arrived before they could be carried out.
    early: Vec<GuardOrder>,
    is_gone: bool,
}

impl Link {
    /// Uses descriptor 0 as the lifeline.
    pub(in crate::process::guard) fn from_stdin() -> io::Result<Link> {
        // The copy is close-on-exec; descriptor 0 itself is replaced in the agent.
        Ok(Link::at(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Uses this socket as the lifeline.
    pub(in crate::process::guard) fn at(socket: OwnedFd) -> Link {
        let (input, output, early) = (Vec::new(), Vec::new(), Vec::new());
        Link { socket, input, output, early, is_gone: false }
    }

    /// Switches to the connection of a later server, dropping the previous one.
    pub(in crate::process::guard) fn replace(&mut self, socket: OwnedFd) {
        *self = Link::at(socket);
    }

    pub(in crate::process::guard) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns what to poll for; `None` once the server is gone.
    pub(in crate::process::guard) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let mut flags = PollFlags::POLLIN;
        flags.set(PollFlags::POLLOUT, !self.output.is_empty());
        (!self.is_gone).then(|| (self.socket.as_fd(), flags))
    }

    /// Waits for the first order.
    pub(in crate::process::guard) fn first_order(
        &mut self,
        patience: Duration,
    ) -> Option<GuardOrder> {
        let deadline = Instant::now() + patience;
        loop {
            let mut orders = self.receive().into_iter();
            if let Some(order) = orders.next() {
                self.early = orders.collect();
                return Some(order);
            }
            if self.is_gone || !self.wait(PollFlags::POLLIN, deadline) {
                return None;
            }
        }
    }

    /// Returns the orders that have arrived, without blocking.
    pub(in crate::process::guard) fn receive(&mut self) -> Vec<GuardOrder> {
        let mut buffer = [0; 4096];
        let mut orders = std::mem::take(&mut self.early);
        while !self.is_gone {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => self.is_gone = true,
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    self.take_lines(&mut orders);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(cause) => {
                    note(&format!("the lifeline broke: {cause}"));
                    self.is_gone = true;
                }
            }
        }
        orders
    }

    /// Puts back orders that cannot be carried out yet.
    pub(in crate::process::guard) fn put_back(&mut self, orders: Vec<GuardOrder>) {
        self.early = orders;
    }

    /// Sends an event that the server must receive.
    pub(in crate::process::guard) fn tell(&mut self, event: &GuardEvent) {
        match serde_json::to_vec(event) {
            Ok(line) if !self.is_gone => {
                self.output.extend_from_slice(&line);
                self.output.push(b'\n');
                self.flush();
            }
            Ok(_) => {}
            Err(cause) => note(&format!("cannot write an event: {cause}")),
        }
    }

    /// Sends an event unless earlier ones are still buffered. Returns whether it was sent.
    pub(in crate::process::guard) fn tell_if_free(&mut self, event: &GuardEvent) -> bool {
        self.flush();
        let is_free = self.output.is_empty();
        if is_free {
            self.tell(event);
        }
        is_free
    }

    /// Sends as much as the socket accepts.
    pub(in crate::process::guard) fn flush(&mut self) {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        while !self.output.is_empty() && !self.is_gone {
            match send(self.socket.as_raw_fd(), &self.output, flags) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                // The read side reports the loss, so that it is handled in one place.
                Err(_) => self.output.clear(),
            }
        }
    }

    /// Sends the rest for at most `patience`. Nothing depends on it: everything is on disk already.
    pub(in crate::process::guard) fn flush_within(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.flush();
        while !self.output.is_empty() && !self.is_gone && self.wait(PollFlags::POLLOUT, deadline) {
            self.flush();
        }
    }

    fn wait(&self, flags: PollFlags, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(self.socket.as_fd(), flags)];
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(0) => false,
            Ok(_) | Err(Errno::EINTR) => true,
            Err(_) => false,
        }
    }

    fn take_lines(&mut self, orders: &mut Vec<GuardOrder>) {
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(order) => orders.push(order),
                // The line is not logged: it may contain a secret.
                Err(_) => note("an order on the lifeline makes no sense"),
            }
        }
        if self.input.len() > LINE_BYTES_MAX {
            note("a line on the lifeline is too long");
            self.is_gone = true;
        }
    }
}
