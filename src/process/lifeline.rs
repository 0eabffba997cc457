//! The server's end of a guard's lifeline: orders go out by it, and its end ends the job.
//!
//! **Invariant:** an order is never waited for: some dozen bytes always fit, unless the guard
//! stands still, and that has deadlines of its own.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use nix::sys::socket::{MsgFlags, send};
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::process::launch::{ExitCause, GuardOrder};

/// The socket to a guard, and what was asked of it.
#[derive(Debug)]
pub(in crate::process) struct Lifeline {
    pub(in crate::process) socket: UnixStream,
    pub(in crate::process) bell: Notify,
    is_stop_asked: AtomicBool,
}

/// A handle by which a job can be ended while another waits for it. It holds no lifeline.
#[derive(Clone, Debug)]
pub struct GuardStopper {
    line: Weak<Lifeline>,
}

impl GuardStopper {
    pub(in crate::process) fn new(line: &Arc<Lifeline>) -> GuardStopper {
        GuardStopper { line: Arc::downgrade(line) }
    }

    /// Ends the job: INT at once, TERM at 40 % and KILL at 100 % of its grace. Does nothing when it
    /// is ending already or over. `cause` is what the record will say: `Stopped`, or a clock of the
    /// server's own.
    pub fn stop(&self, cause: ExitCause) {
        let Some(line) = self.line.upgrade() else { return };
        line.stop(cause);
        line.bell.notify_one();
    }

    /// Says that the agent's final result was seen: the linger clock starts.
    pub fn final_result(&self) {
        if let Some(line) = self.line.upgrade() {
            line.order(&GuardOrder::FinalResult);
        }
    }

    /// Says whether a tool of the agent works: the idle clock stands still meanwhile.
    pub fn in_call(&self, is_open: bool) {
        if let Some(line) = self.line.upgrade() {
            line.order(&GuardOrder::InCall { is_open });
        }
    }
}

impl Lifeline {
    pub(in crate::process) fn new(socket: UnixStream) -> Lifeline {
        Lifeline { socket, bell: Notify::new(), is_stop_asked: AtomicBool::new(false) }
    }

    pub(in crate::process) fn stop(&self, cause: ExitCause) {
        self.is_stop_asked.store(true, Ordering::SeqCst);
        self.order(&GuardOrder::Stop { cause });
    }

    /// Returns whether the guard was told to end its job.
    pub(in crate::process) fn is_stop_asked(&self) -> bool {
        self.is_stop_asked.load(Ordering::SeqCst)
    }

    fn order(&self, order: &GuardOrder) {
        let Ok(mut text) = serde_json::to_vec(order) else { return };
        text.push(b'\n');
        // A guard that is gone needs no order.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        if let Err(cause) = send(self.socket.as_raw_fd(), &text, flags) {
            tracing::debug!("a guard takes no order: {cause}");
        }
    }
}
