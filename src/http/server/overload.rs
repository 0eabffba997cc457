//! Refuses connections beyond the limits, at once and with a response.
//!
//! **Invariant:** nothing here waits for a client, and nothing needs more than one descriptor.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use tokio::net::{TcpStream, UnixStream};

use crate::base::fault;

/// The response to an excess connection. Its head is not read, so the response is always JSON.
const ANSWER: &str = "HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: application/json\r\nContent-Length: 148\r\nRetry-After: 2\r\n\
    Cache-Control: no-store\r\nConnection: close\r\n\r\n\
    {\"error\":{\"code\":\"too_many_connections\",\"message\":\"this site has as many connections \
    as it can hold\",\"hint\":\"close some, or try again in a moment\"}}";
/// Bytes read of a request that will not be handled: closing with unread bytes would send a reset,
/// which can overtake the response.
const UNREAD_BYTES_MAX: usize = 32 * 1024;

/// Answers a TCP connection with 503 and closes it.
pub(in crate::http) fn turn_away_tcp(stream: TcpStream) {
    let Ok(mut stream) = stream.into_std() else { return };
    if fault::is_off("turned_away") || stream.write_all(ANSWER.as_bytes()).is_err() {
        return;
    }
    // The connection closes in any case; these two only make it more likely that the response
    // arrives.
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0; UNREAD_BYTES_MAX]);
}

/// The same on the Unix socket.
pub(in crate::http) fn turn_away_unix(stream: UnixStream) {
    let Ok(mut stream) = stream.into_std() else { return };
    if fault::is_off("turned_away") || stream.write_all(ANSWER.as_bytes()).is_err() {
        return;
    }
    // As above.
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0; UNREAD_BYTES_MAX]);
}

/// A spare descriptor for when there are no others: with it, a connection can be accepted, refused
/// and closed instead of waiting forever.
pub(in crate::http) struct Spare(Option<File>);

impl Spare {
    pub(in crate::http) fn new() -> Spare {
        Spare(File::open("/dev/null").ok())
    }

    /// Closes the spare descriptor; returns whether there was one.
    pub(in crate::http) fn release(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Opens it again; returns whether that succeeded.
    pub(in crate::http) fn restore(&mut self) -> bool {
        if self.0.is_none() {
            self.0 = File::open("/dev/null").ok();
        }
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_its_own_length() {
        let (head, body) = ANSWER.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
        let json: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(json["error"]["code"], "too_many_connections");
    }

    #[test]
    fn a_spare_is_given_up_once() {
        let mut spare = Spare::new();
        assert!(spare.release() && !spare.release());
        assert!(spare.restore() && spare.release());
    }
}
