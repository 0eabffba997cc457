//! The stream of the server's events, which survives a restart of the server.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::Instant;

use crate::base::limit::EVENT_BYTES_MAX;
use crate::base::sse::{Frame, Frames};
use crate::base::{Error, ErrorKind, Result};
use crate::client::exchange::CONNECTION_LOST;
use crate::client::exchange::{self, Answer, Request};
use crate::client::{CONNECT_WAIT_MAX, Client};

/// Longest silence of a stream: the server sends a comment every 10 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(35);
/// Shortest and longest pause between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// One event of the server.
#[derive(Clone, Debug)]
pub struct ServerEvent {
    /// The position in the log: `EPOCH-NUMBER`.
    pub id: Option<String>,
    /// The kind of event.
    pub kind: String,
    /// `{"id","at","kind","subject","actor","data"}`.
    pub data: Value,
}

impl ServerEvent {
    /// Returns whether it is about this subject.
    pub fn is_about(&self, subject: &str) -> bool {
        self.data["subject"] == subject
    }
}

/// The result of waiting for the next event.
#[derive(Debug)]
pub enum Next {
    /// Connected: all further events will arrive, so read the current state now.
    Opened,
    /// An event.
    Event(ServerEvent),
    /// Events were lost: read the current state instead.
    Reset,
    /// Nothing happened within the wait.
    Quiet,
    /// The server is not reachable; the next call tries again.
    Lost(Error),
}

/// The events of a server, from a position on.
pub struct Events<'c> {
    client: &'c Client,
    after: Option<String>,
    open: Option<Open>,
    ready: VecDeque<Frame>,
    pause: Duration,
}

struct Open {
    answer: Answer,
    frames: Frames,
    heard: Instant,
}

impl<'c> Events<'c> {
    /// Returns the events after an id.
    pub(super) fn new(client: &'c Client, after: Option<String>) -> Events<'c> {
        Events { client, after, open: None, ready: VecDeque::new(), pause: PAUSE_MIN }
    }

    /// Waits for the next event, for at most `wait`; connects if necessary.
    ///
    /// # Errors
    /// What the server refuses (no credential, not allowed). That it is not there is no error but
    /// [`Next::Lost`].
    pub fn next(&mut self, wait: Duration) -> Result<Next> {
        let client = self.client;
        client.runtime.block_on(async {
            let deadline = Instant::now() + wait;
            match self.advance(deadline).await {
                Err(cause) if cause.kind() == ErrorKind::Unavailable => {
                    self.open = None;
                    let pause = deadline.min(Instant::now() + self.pause);
                    self.pause = (self.pause * 2).min(PAUSE_MAX);
                    tokio::time::sleep_until(pause).await;
                    Ok(Next::Lost(cause))
                }
                other => other,
            }
        })
    }

    async fn advance(&mut self, deadline: Instant) -> Result<Next> {
        loop {
            while let Some(frame) = self.ready.pop_front() {
                if let Some(next) = self.take(frame) {
                    return Ok(next);
                }
            }
            let mut open = match self.open.take() {
                Some(open) => open,
                None => {
                    self.open = Some(self.connect().await?);
                    return Ok(Next::Opened);
                }
            };
            let silence = open.heard + SILENCE_MAX;
            let frame =
                tokio::time::timeout_at(deadline.min(silence), open.answer.body.frame()).await;
            match frame {
                Ok(Some(Ok(frame))) => {
                    open.heard = Instant::now();
                    if let Some(bytes) = frame.data_ref() {
                        self.ready.extend(open.frames.feed(bytes)?);
                    }
                    self.open = Some(open);
                }
                Ok(Some(Err(cause))) => return Err(exchange::lost(cause)),
                Ok(None) => return Err(ended("the server ended the stream of events")),
                Err(_) if Instant::now() >= silence => {
                    return Err(ended("the stream of events has gone silent"));
                }
                Err(_) => {
                    self.open = Some(open);
                    return Ok(Next::Quiet);
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<Open> {
        let token = self.client.token()?;
        let request = Request::events("/api/events", self.after.as_deref());
        let opening = exchange::open(&self.client.socket, token.as_deref(), &request);
        let answer = match tokio::time::timeout(CONNECT_WAIT_MAX * 2, opening).await {
            Ok(answer) => answer?,
            Err(_) => return Err(ended("the server does not open its stream of events")),
        };
        self.pause = PAUSE_MIN;
        Ok(Open { answer, frames: Frames::new(EVENT_BYTES_MAX), heard: Instant::now() })
    }

    fn take(&mut self, frame: Frame) -> Option<Next> {
        if frame.id.is_some() {
            self.after.clone_from(&frame.id);
        }
        if frame.event == "reset" {
            if frame.id.is_none() {
                self.after = None;
            }
            return Some(Next::Reset);
        }
        if frame.event.is_empty() && frame.data.is_empty() {
            return None;
        }
        // Data that is not JSON is kept as text, so that the reader of the log sees it.
        let data = serde_json::from_str(&frame.data).unwrap_or(Value::String(frame.data));
        Some(Next::Event(ServerEvent { id: frame.id, kind: frame.event, data }))
    }
}

fn ended(message: &str) -> Error {
    Error::unavailable(message).code(CONNECTION_LOST)
}
