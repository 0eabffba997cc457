//! A long response that arrives line by line, one JSON value each.

use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::base::{Error, ErrorKind, Result};
use crate::client::Client;
use crate::client::exchange::CONNECTION_LOST;
use crate::client::exchange::{self, Answer, Request};

/// Longest silence in such a response: the server sends a line every 10 seconds.
const SILENCE_MAX: std::time::Duration = std::time::Duration::from_secs(35);
/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The lines of a response.
pub struct Lines<'c> {
    client: &'c Client,
    answer: Answer,
    rest: Vec<u8>,
}

impl<'c> Lines<'c> {
    pub(super) fn open(client: &'c Client, request: &Request<'_>) -> Result<Lines<'c>> {
        let token = client.token()?;
        let opening = exchange::open(client.socket(), token.as_deref(), request);
        let answer = client.runtime.block_on(opening)?;
        Ok(Lines { client, answer, rest: Vec::new() })
    }

    /// Waits for the next line; `None` at the end of the response.
    ///
    /// # Errors
    /// `unavailable` with code `connection_lost` if the answer breaks off or falls silent.
    pub fn next_line(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.rest.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = serde_json::from_slice(&line).map_err(|cause| {
                    lost("the server sent a line that is not JSON").source(cause)
                })?;
                return Ok(Some(line));
            }
            if self.rest.len() > LINE_BYTES_MAX {
                return Err(lost("the server sent a line without end"));
            }
            let body = &mut self.answer.body;
            let next = async { tokio::time::timeout(SILENCE_MAX, body.frame()).await };
            match self.client.runtime.block_on(next) {
                Ok(Some(Ok(frame))) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.rest.extend_from_slice(bytes);
                    }
                }
                Ok(Some(Err(cause))) => return Err(exchange::lost(cause)),
                Ok(None) if self.rest.is_empty() => return Ok(None),
                Ok(None) => {
                    return Err(lost("the server ended the answer in the middle of a line"));
                }
                Err(_) => return Err(lost("the answer of the server has gone silent")),
            }
        }
    }
}

fn lost(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message).code(CONNECTION_LOST)
}
