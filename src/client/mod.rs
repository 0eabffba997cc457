//! The client of a running server: HTTP/1.1 over the site's Unix socket, for both binaries.
//!
//! **Invariant:** nothing here opens the database, runs a script or knows what a job is.
//! **Invariant:** an answer never takes more memory or time than the limits below.

mod events;
mod exchange;
mod lines;
#[cfg(test)]
mod protocol;
mod site;
mod socket;

use std::cell::Cell;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use hyper::body::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use crate::base::{Context, Error, ErrorKind, Result, fault};

pub use events::{Events, Next, ServerEvent};
pub use exchange::CONNECTION_LOST;
pub use lines::Lines;
pub use site::{Search, Site, find_script, working_folder};
pub use socket::NO_SERVER;

/// Largest response, in bytes.
pub const ANSWER_BYTES_MAX: usize = crate::base::limit::ANSWER_BYTES_MAX;
/// Longest wait for a complete response; an approval runs git on the server.
pub const ANSWER_WAIT_MAX: Duration = Duration::from_secs(120);
/// Longest wait for a server that has gone away: it may be restarting.
pub const RESTART_WAIT_MAX: Duration = Duration::from_secs(15);
/// Longest wait for a connection.
pub const CONNECT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Shortest and longest pause before a request is repeated.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A blocking client of one server. Each call uses one connection; must not be used in async code.
#[derive(Debug)]
pub struct Client {
    runtime: tokio::runtime::Runtime,
    socket: Utf8PathBuf,
    credential: Credential,
    wait_max: Duration,
    /// Whether a server has ever responded on this socket; otherwise the client does not wait for
    /// one.
    was_there: Cell<bool>,
    /// The hint if no server is there, instead of the usual one.
    missing_hint: Option<String>,
}

/// The source of the bearer token.
#[derive(Clone)]
enum Credential {
    /// No token: only for open routes.
    Nothing,
    /// This token.
    Token(String),
    /// The content of a file, read for each request, because a restarted server may have replaced
    /// it.
    File(Utf8PathBuf),
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credential::Nothing => f.write_str("nothing"),
            Credential::Token(_) => f.write_str("a token"),
            Credential::File(path) => write!(f, "{path}"),
        }
    }
}

impl Client {
    /// Returns a client of the server behind `socket`; nothing is opened yet.
    ///
    /// # Errors
    /// `unavailable` if the machine gives no descriptors.
    pub fn at(socket: &Utf8Path, token: Option<String>) -> Result<Client> {
        let credential = token.map_or(Credential::Nothing, Credential::Token);
        Client::with(socket, credential)
    }

    /// Returns a client that reads its token from a file at each request.
    ///
    /// # Errors
    /// `unavailable` if the machine gives no descriptors.
    pub fn with_token_file(socket: &Utf8Path, file: &Utf8Path) -> Result<Client> {
        Client::with(socket, Credential::File(file.to_owned()))
    }

    /// Returns a client with the operator's token from the site's data folder.
    ///
    /// # Errors
    /// `unauthenticated` if only the socket of the site is known.
    pub fn of_operator(site: &Site) -> Result<Client> {
        let data = site.data.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unauthenticated, "the data folder of the site is not known")
        })?;
        Client::with_token_file(&site.socket, &data.join("operator.token"))
    }

    fn with(socket: &Utf8Path, credential: Credential) -> Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context(ErrorKind::Unavailable, || "cannot start the client".to_owned())?;
        Ok(Client {
            runtime,
            socket: socket.to_owned(),
            credential,
            wait_max: ANSWER_WAIT_MAX,
            was_there: Cell::new(false),
            missing_hint: None,
        })
    }

    /// Sets the hint of the error if no server is there.
    #[must_use]
    pub fn hinting(mut self, hint: String) -> Client {
        self.missing_hint = Some(hint);
        self
    }

    /// Sets the longest wait for a response.
    #[must_use]
    pub fn waiting_at_most(mut self, wait_max: Duration) -> Client {
        self.wait_max = wait_max;
        self
    }

    /// Returns the socket of the server.
    pub fn socket(&self) -> &Utf8Path {
        &self.socket
    }

    /// Checks that a server listens on the socket; sends nothing.
    ///
    /// # Errors
    /// `no_server`; `timeout` if it accepts no connection; `forbidden`.
    pub fn probe(&self) -> Result<()> {
        self.runtime.block_on(socket::connect(&self.socket)).map(drop)
    }

    /// Requests a resource and returns its JSON.
    ///
    /// # Errors
    /// The server's own error; `no_server` if none listens; `timeout`; `too_large`.
    pub fn get(&self, path_and_query: &str) -> Result<Value> {
        self.send(exchange::Request::get(path_and_query))
    }

    /// Requests a resource once, for callers that poll and report an absent server themselves.
    ///
    /// # Errors
    /// As [`Client::get`], without a wait for a server that was there.
    pub fn look(&self, path_and_query: &str) -> Result<Value> {
        let request = exchange::Request::get(path_and_query);
        exchange::json(&self.runtime.block_on(self.send_once(&request))?)
    }

    /// Posts a body and returns the JSON of the response.
    ///
    /// # Errors
    /// As [`Client::get`]. After `timeout` or `connection_lost` it is not known what was done: this
    /// request is sent once.
    pub fn post(&self, path_and_query: &str, body: &Value) -> Result<Value> {
        self.send(exchange::Request::post(path_and_query, body, None))
    }

    /// Posts a body with an idempotency key, and repeats the request if the server restarts in the
    /// meantime.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn post_once(&self, path_and_query: &str, body: &Value, key: &str) -> Result<Value> {
        self.send(exchange::Request::post(path_and_query, body, Some(key)))
    }

    /// Posts a body with a new key, for what the server creates only once.
    ///
    /// # Errors
    /// As [`Client::post_once`]; `unavailable` without random bytes.
    pub fn create(&self, path_and_query: &str, body: &Value) -> Result<Value> {
        let key = crate::base::random_token("cli-")?;
        self.post_once(path_and_query, body, &key)
    }

    /// Posts the bytes of a file and returns the JSON of the response.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn post_file(&self, path_and_query: &str, bytes: &[u8]) -> Result<Value> {
        self.send(exchange::Request::post_file(path_and_query, bytes))
    }

    /// Returns the bytes of a file.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_file(&self, path_and_query: &str) -> Result<Vec<u8>> {
        Ok(self.fetch(&exchange::Request::get(path_and_query))?.to_vec())
    }

    /// Posts a body with a key, and returns the response line by line.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn post_lines(&self, path: &str, body: &Value, key: &str) -> Result<Lines<'_>> {
        Lines::open(self, &exchange::Request::post(path, body, Some(key)))
    }

    /// Requests a response line by line.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_lines(&self, path_and_query: &str) -> Result<Lines<'_>> {
        Lines::open(self, &exchange::Request::get(path_and_query))
    }

    /// Deletes a resource and returns the JSON of the response.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn delete(&self, path: &str) -> Result<Value> {
        self.send(exchange::Request::delete(path))
    }

    /// Returns the server's events after an id, or from now on. Nothing is opened before the first
    /// [`Events::next`].
    pub fn events(&self, after: Option<String>) -> Events<'_> {
        Events::new(self, after)
    }

    fn send(&self, request: exchange::Request<'_>) -> Result<Value> {
        exchange::json(&self.fetch(&request)?)
    }

    fn fetch(&self, request: &exchange::Request<'_>) -> Result<Bytes> {
        self.runtime.block_on(async {
            let give_up = Instant::now() + RESTART_WAIT_MAX.min(self.wait_max);
            let mut pause = PAUSE_MIN;
            loop {
                let outcome = self.send_once(request).await;
                let Err(cause) = &outcome else { return outcome };
                if !self.may_repeat(request, cause) || Instant::now() >= give_up {
                    return outcome;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        })
    }

    async fn send_once(&self, request: &exchange::Request<'_>) -> Result<Bytes> {
        // Read each time, because a restarted server may have replaced it.
        let token = self.token()?;
        let answer = exchange::send(&self.socket, token.as_deref(), request);
        let answer = match tokio::time::timeout(self.wait_max, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(timeout(self.wait_max)),
        };
        let is_heard = answer.as_ref().err().is_none_or(|it| it.code_str() != NO_SERVER);
        self.was_there.set(self.was_there.get() || is_heard);
        answer.map_err(|cause| match &self.missing_hint {
            Some(hint) if cause.code_str() == NO_SERVER => cause.hint(hint.clone()),
            _ => cause,
        })
    }

    /// Repeats a request that reached no server, or that is safe to repeat; never if the server was
    /// not there before.
    fn may_repeat(&self, request: &exchange::Request<'_>, cause: &Error) -> bool {
        let may = match cause.code_str() {
            NO_SERVER => self.was_there.get(),
            CONNECTION_LOST => request.is_repeatable(),
            _ => false,
        };
        may && !fault::is_off("client_retry")
    }

    fn token(&self) -> Result<Option<String>> {
        match &self.credential {
            Credential::Nothing => Ok(None),
            Credential::Token(token) => Ok(Some(token.clone())),
            Credential::File(path) => site::read_token(path).map(Some),
        }
    }
}

/// Returns a text percent-encoded for one segment of a path.
pub fn path_part(text: &str) -> String {
    let mut part = String::new();
    push_encoded(&mut part, text);
    part.replace('/', "%2F")
}

/// Returns `path?key=value&…` with percent-encoded values; pairs without a value are left out.
pub fn query(path: &str, pairs: &[(&str, Option<&str>)]) -> String {
    let mut text = path.to_owned();
    let given = pairs.iter().filter_map(|(key, value)| value.map(|value| (key, value)));
    for (at, (key, value)) in given.enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        text.push_str(key);
        text.push('=');
        push_encoded(&mut text, value);
    }
    text
}

fn push_encoded(text: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            for nibble in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                text.push(digit.to_ascii_uppercase());
            }
        }
    }
}

fn timeout(wait_max: Duration) -> Error {
    let wait = crate::base::limit::format_duration(wait_max);
    Error::unavailable(format!("the server did not answer within {wait}"))
        .code("timeout")
        .hint("it may still do what was asked: look before you ask again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_carries_any_text() {
        let pairs = [("path", Some("a b/ü&=?.md")), ("none", None), ("limit", Some("5"))];
        assert_eq!(
            query("/api/source", &pairs),
            "/api/source?path=a%20b/%C3%BC%26%3D%3F.md&limit=5"
        );
        assert_eq!(query("/api/jobs", &[("none", None)]), "/api/jobs");
    }

    #[test]
    fn a_token_is_never_shown() {
        let client = Client::at("/nowhere/wb.sock".into(), Some("secret-word".into())).unwrap();
        assert!(!format!("{client:?}").contains("secret-word"));
    }
}
