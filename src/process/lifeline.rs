//! The server's end of a guard's lifeline: it carries orders, and closing it ends the job.
//!
//! **Invariant:** sending an order never blocks: what the socket does not accept is buffered, and
//! sent by the task that listens to the guard. A guard that hangs has deadlines of its own.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::process::launch::{ExitCause, GuardOrder};

/// Longest part of an input in one order: it fits on a line even if escaping makes it six times as
/// long.
const INPUT_PART_BYTES_MAX: usize = 12 * 1024;

/// The socket to a guard and the state of its orders.
#[derive(Debug)]
pub(in crate::process) struct Lifeline {
    pub(in crate::process) socket: UnixStream,
    pub(in crate::process) bell: Notify,
    is_stop_asked: AtomicBool,
    /// Unsent bytes: complete lines, except that the first may be partly sent.
    rest: Mutex<Vec<u8>>,
}

/// A handle to end a job that another task waits for. It does not keep the lifeline open.
#[derive(Clone, Debug)]
pub struct GuardStopper {
    line: Weak<Lifeline>,
}

impl GuardStopper {
    pub(in crate::process) fn new(line: &Arc<Lifeline>) -> GuardStopper {
        GuardStopper { line: Arc::downgrade(line) }
    }

    /// Ends the job: INT now, TERM at 40 % and KILL at 100 % of the grace period. Does nothing if
    /// it is ending or over. `cause` is what the record will say: `Stopped`, or one of the server's
    /// own clocks.
    pub fn stop(&self, cause: ExitCause) {
        let Some(line) = self.line.upgrade() else { return };
        line.stop(cause);
        line.bell.notify_one();
    }

    /// Reports that the agent's final result was seen, which starts the linger clock.
    pub fn final_result(&self) {
        if let Some(line) = self.line.upgrade() {
            line.order(&GuardOrder::FinalResult);
        }
    }

    /// Reports that the agent works again after a result that seemed final: the linger clock begins
    /// anew with the next one.
    pub fn goes_on(&self) {
        if let Some(line) = self.line.upgrade() {
            line.order(&GuardOrder::GoesOn);
        }
    }

    /// Sends input to an agent whose standard input is a pipe; the guard acknowledges `id` once it
    /// has all of it. Returns whether there is still a guard.
    pub fn input(&self, id: &str, text: &str) -> bool {
        let Some(line) = self.line.upgrade() else { return false };
        let mut rest = text;
        loop {
            let mut end = rest.len().min(INPUT_PART_BYTES_MAX);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (part, more) = rest.split_at(end);
            let (is_last, part) = (more.is_empty(), part.to_owned());
            line.order(&GuardOrder::Input { id: id.to_owned(), is_last, text: part });
            rest = more;
            if is_last {
                break;
            }
        }
        line.bell.notify_one();
        true
    }

    /// Ends the agent's standard input, after everything that was sent.
    pub fn close_input(&self) {
        if let Some(line) = self.line.upgrade() {
            line.order(&GuardOrder::CloseInput);
            line.bell.notify_one();
        }
    }

    /// Reports whether a tool of the agent is running, which pauses the idle clock.
    pub fn in_call(&self, is_open: bool) {
        if let Some(line) = self.line.upgrade() {
            line.order(&GuardOrder::InCall { is_open });
        }
    }
}

impl Lifeline {
    pub(in crate::process) fn new(socket: UnixStream) -> Lifeline {
        let is_stop_asked = AtomicBool::new(false);
        Lifeline { socket, bell: Notify::new(), is_stop_asked, rest: Mutex::default() }
    }

    pub(in crate::process) fn start(&self, secrets: Vec<(String, String)>, masked: Vec<String>) {
        self.order(&GuardOrder::Start { secrets, masked });
    }

    pub(in crate::process) fn stop(&self, cause: ExitCause) {
        self.is_stop_asked.store(true, Ordering::SeqCst);
        self.order(&GuardOrder::Stop { cause });
    }

    /// Returns whether the guard was ordered to end its job.
    pub(in crate::process) fn is_stop_asked(&self) -> bool {
        self.is_stop_asked.load(Ordering::SeqCst)
    }

    fn order(&self, order: &GuardOrder) {
        let Ok(mut text) = serde_json::to_vec(order) else { return };
        text.push(b'\n');
        self.rest().extend(text);
        if self.send_rest().is_err() {
            self.bell.notify_one();
        }
    }

    /// Sends as much as the socket accepts; `WouldBlock` if something is left.
    fn send_rest(&self) -> io::Result<()> {
        let mut rest = self.rest();
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        while !rest.is_empty() {
            match send(self.socket.as_raw_fd(), &rest, flags) {
                Ok(count) => drop(rest.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(cause) => {
                    // A guard that is gone needs no orders.
                    tracing::debug!("a guard takes no order: {cause}");
                    rest.clear();
                }
            }
        }
        Ok(())
    }

    /// Waits until the socket accepts more and sends it; waits forever if nothing is buffered.
    pub(in crate::process) async fn write_rest(&self) {
        if self.rest().is_empty() || self.socket.writable().await.is_err() {
            return std::future::pending().await;
        }
        // `try_io` lets the runtime see that the socket is full; otherwise it reports it writable
        // again.
        if let Err(cause) = self.socket.try_io(Interest::WRITABLE, || self.send_rest()) {
            tracing::trace!("a guard takes its orders slowly: {cause}");
        }
    }

    fn rest(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
