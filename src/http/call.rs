//! A request as a handler's leaf sees it: checked, with typed access to its parts.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{CONTENT_LENGTH, EXPECT, HeaderName, TRANSFER_ENCODING};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use crate::base::limit::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use crate::base::{Error, Result, digest_hex};
use crate::flows::repository::read_version::ReadVersion;
use crate::http::access::gate::Passed;
use crate::http::access::who::Credential;
use crate::http::server::body::{self, BodyStream, FILE, FORM, Room};
use crate::http::server::listen::Peer;
use crate::people::Caller;
use crate::store::idempotency::{KEY_BYTES_MAX, Key};

/// What a page sends of its document: see [`ReadVersion`].
const READ_VERSION: &str = "wb-read-version";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Longest body of a route that takes none, in bytes.
const NOTHING_BYTES_MAX: usize = crate::base::limit::NO_BODY_BYTES_MAX;

/// The body of a request, until somebody has read it.
pub(super) struct Body(Mutex<Option<BodyStream>>);

impl Body {
    fn take(&self) -> Option<BodyStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Discards what nobody has read: many clients send all of it before they look at the answer.
    pub(super) async fn drain(&self) {
        if let Some(body) = self.take() {
            body::drain(body).await;
        }
    }
}

/// A request that passed all checks. Only leaves see it; handlers take plain values.
pub struct Call {
    passed: Arc<Passed>,
    body: Arc<Body>,
    room: Room,
    taken: Option<OwnedSemaphorePermit>,
}

impl Call {
    pub(super) fn new(passed: Arc<Passed>, room: Room, body: BodyStream) -> Call {
        Call { passed, body: Arc::new(Body(Mutex::new(Some(body)))), room, taken: None }
    }

    /// Returns the body as what outlives the call, if one is on its way. A client that asks first
    /// sends none before it is told to.
    pub(super) fn body_on_its_way(&self) -> Option<Arc<Body>> {
        let headers = &self.passed.headers;
        let is_sent =
            headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
        (is_sent && !headers.contains_key(EXPECT)).then(|| Arc::clone(&self.body))
    }

    /// Returns the caller.
    ///
    /// # Errors
    /// `internal` on a route that is open to all: it has no caller.
    pub fn caller(&self) -> Result<Caller> {
        let who = self.passed.who.as_ref().map(|it| it.caller.clone());
        who.ok_or_else(|| Error::internal(format!("{} has no caller", self.passed.route.path)))
    }

    /// Returns the peer that sent the request.
    pub fn peer(&self) -> Peer {
        self.passed.peer
    }

    /// Returns a part of the path by its name in the table.
    ///
    /// # Errors
    /// `not_found` if it is not a `T`: then nothing can have that name.
    pub fn param<T: FromStr<Err = Error>>(&self, name: &str) -> Result<T> {
        self.text_param(name)?.parse().map_err(|cause: Error| {
            let hint = cause.hint_str().unwrap_or("lists name what there is").to_owned();
            Error::not_found(cause.message().to_owned()).code("not_found").hint(hint)
        })
    }

    /// Returns a part of the path as text.
    ///
    /// # Errors
    /// `internal` if the route has no part of that name.
    pub fn text_param(&self, name: &str) -> Result<&str> {
        let found = self.passed.params.iter().find(|(it, _)| *it == name);
        found.map(|(_, text)| text.as_str()).ok_or_else(|| {
            Error::internal(format!("{} has no part {name}", self.passed.route.path))
        })
    }

    /// Returns the query; `T` should deny unknown fields.
    ///
    /// # Errors
    /// `invalid` for an unknown, doubled, missing or wrong parameter.
    pub fn query<T: DeserializeOwned>(&self) -> Result<T> {
        body::parse_query(&self.passed.query)
    }

    /// Returns the value of a header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.passed.headers.get(name).and_then(|it| it.to_str().ok())
    }

    /// Returns what the sender has read of the document that the request is about, if that is said.
    ///
    /// # Errors
    /// `invalid` if it is not one.
    pub fn read_version(&self) -> Result<Option<ReadVersion>> {
        self.header(READ_VERSION).map(str::parse).transpose()
    }

    /// Returns whether the body is a form of a page.
    pub fn is_form(&self) -> bool {
        body::is_of_type(&self.passed.headers, FORM)
    }

    /// Returns whether the body is JSON.
    pub fn is_json(&self) -> bool {
        body::is_of_type(&self.passed.headers, "application/json")
    }

    /// Reads the body as JSON; `T` should deny unknown fields.
    ///
    /// # Errors
    /// `invalid` (`not_json`, `unknown_field`, `bad_json`, `body_timeout`) or `too_large`.
    pub async fn json<T: DeserializeOwned>(&mut self, bytes_max: usize) -> Result<T> {
        Ok(self.json_with_key(bytes_max).await?.0)
    }

    /// Reads the body as JSON, and the `Idempotency-Key` if one was sent with it.
    ///
    /// # Errors
    /// As [`Call::json`]; `invalid` with code `bad_idempotency_key`.
    pub async fn json_with_key<T: DeserializeOwned>(
        &mut self,
        bytes_max: usize,
    ) -> Result<(T, Option<Key>)> {
        if !self.is_json() {
            self.drain().await;
            return Err(not_json());
        }
        let word = self.key_word()?;
        let bytes = self.bytes(bytes_max).await?;
        let value = body::parse_json(&bytes)?;
        Ok((value, self.key(word, &bytes)?))
    }

    /// Reads a JSON body as it was sent.
    ///
    /// # Errors
    /// `invalid` (`not_json`, `body_timeout`) or `too_large`.
    pub(super) async fn json_bytes(&mut self, bytes_max: usize) -> Result<Vec<u8>> {
        if !self.is_json() {
            self.drain().await;
            return Err(not_json());
        }
        self.bytes(bytes_max).await
    }

    /// Reads the body as the bytes of a file. They count toward the memory shared by all bodies
    /// until the call ends.
    ///
    /// # Errors
    /// `invalid` (`not_file`, `body_timeout`) or `too_large`.
    pub async fn file(&mut self, bytes_max: usize) -> Result<Vec<u8>> {
        if !body::is_of_type(&self.passed.headers, FILE) {
            self.drain().await;
            return Err(Error::invalid("the body is not a file")
                .code("not_file")
                .hint("send `Content-Type: application/octet-stream`"));
        }
        self.bytes(bytes_max).await
    }

    /// Reads the body as a form; `T` should deny unknown fields.
    ///
    /// # Errors
    /// `invalid` or `too_large`.
    pub async fn form<T: DeserializeOwned>(&mut self, bytes_max: usize) -> Result<T> {
        Ok(self.form_with_digest(bytes_max).await?.0)
    }

    /// Reads the body as a form, and returns it with its SHA-256.
    ///
    /// # Errors
    /// As [`Call::form`].
    pub(super) async fn form_with_digest<T: DeserializeOwned>(
        &mut self,
        bytes_max: usize,
    ) -> Result<(T, String)> {
        if !self.is_form() {
            self.drain().await;
            return Err(Error::invalid("the body is not a form").code("not_form"));
        }
        let bytes = self.bytes(bytes_max).await?;
        Ok((body::parse_form(&bytes)?, digest_hex(&bytes)))
    }

    /// Returns the idempotency key from a page's form.
    ///
    /// # Errors
    /// `invalid` with code `bad_idempotency_key` if it is no word; as [`Call::caller`].
    pub(super) fn key_of_form(&self, word: String, body_digest: String) -> Result<Key> {
        if !is_key_word(&word) {
            return Err(bad_key());
        }
        let route = format!("{} {}", self.passed.route.verb.as_str(), self.passed.path);
        Ok(Key { actor: self.caller()?.actor(), key: word, route, body_digest })
    }

    /// Reads the body of a route without input: no body, `{}` or an empty form.
    ///
    /// # Errors
    /// `invalid` if there is more.
    pub async fn nothing(&mut self) -> Result<()> {
        let bytes = self.bytes(NOTHING_BYTES_MAX).await?;
        match bytes.trim_ascii() {
            b"" | b"{}" => Ok(()),
            _ => Err(Error::invalid("this route does not accept a body")
                .code("unknown_field")
                .hint("send {} or nothing")),
        }
    }

    /// Reads a body that must be empty (or `{}`), and the idempotency key.
    ///
    /// # Errors
    /// `invalid` for any other body, and for a key that is no word.
    pub async fn nothing_with_key(&mut self) -> Result<Option<Key>> {
        let word = self.key_word()?;
        self.nothing().await?;
        self.key(word, b"")
    }

    /// Reads a small optional JSON body, and the idempotency key.
    ///
    /// # Errors
    /// As [`Call::json_with_key`].
    pub async fn json_or_nothing_with_key<T: DeserializeOwned + Default>(
        &mut self,
        bytes_max: usize,
    ) -> Result<(T, Option<Key>)> {
        if !self.is_json() {
            return Ok((T::default(), self.nothing_with_key().await?));
        }
        let word = self.key_word()?;
        let bytes = self.bytes(bytes_max).await?;
        // Clients name the type of a body that they leave out.
        let value = match bytes.trim_ascii() {
            b"" => T::default(),
            _ => body::parse_json(&bytes)?,
        };
        Ok((value, self.key(word, &bytes)?))
    }

    /// Returns an idempotency key with what it stands for.
    fn key(&self, word: Option<String>, body: &[u8]) -> Result<Option<Key>> {
        let Some(key) = word else { return Ok(None) };
        Ok(Some(Key {
            actor: self.caller()?.actor(),
            key,
            route: format!("{} {}", self.passed.route.verb.as_str(), self.passed.path),
            body_digest: digest_hex(body),
        }))
    }

    pub(super) fn login_hash(&self) -> Option<String> {
        self.passed.who.as_ref().and_then(|it| it.login_hash.clone())
    }

    pub(super) fn credential(&self) -> Option<Credential> {
        self.passed.credential.clone()
    }

    async fn bytes(&mut self, bytes_max: usize) -> Result<Vec<u8>> {
        let body = self.body.take().ok_or_else(|| Error::internal("a body was read twice"))?;
        let arrived = body::read(body, &self.passed.headers, bytes_max, &self.room).await?;
        // Held until the call ends, because the bytes read live as long.
        let (bytes, room) = arrived.split();
        self.taken = room;
        Ok(bytes)
    }

    /// Discards the body of a request that is refused for another reason.
    async fn drain(&mut self) {
        self.body.drain().await;
    }

    fn key_word(&self) -> Result<Option<String>> {
        let mut values = self.passed.headers.get_all(IDEMPOTENCY_KEY).iter();
        let (first, more) = (values.next(), values.next());
        let Some(value) = first else { return Ok(None) };
        let word = value.to_str().ok().filter(|it| is_key_word(it));
        match (word, more) {
            (Some(word), None) => Ok(Some(word.to_owned())),
            _ => Err(bad_key()),
        }
    }
}

fn is_key_word(word: &str) -> bool {
    (1..=KEY_BYTES_MAX).contains(&word.len()) && word.bytes().all(|it| it.is_ascii_graphic())
}

fn not_json() -> Error {
    Error::invalid("the body is not JSON")
        .code("not_json")
        .hint("send `Content-Type: application/json`")
}

fn bad_key() -> Error {
    let message = format!("the Idempotency-Key is not one word of at most {KEY_BYTES_MAX} bytes");
    Error::invalid(message)
        .code("bad_idempotency_key")
        .hint("send one header with 1 to 200 visible ASCII characters")
}

/// The requested rows of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The cursor from the previous page.
    pub after: Option<String>,
    /// Number of rows.
    pub limit: u32,
}

impl Page {
    /// Returns the page requested by a query.
    ///
    /// # Errors
    /// `invalid` for a limit of zero or above the largest.
    pub fn new(after: Option<String>, limit: Option<u32>) -> Result<Page> {
        let limit = limit.unwrap_or(PAGE_ROWS_DEFAULT);
        if (1..=PAGE_ROWS_MAX).contains(&limit) {
            return Ok(Page { after, limit });
        }
        Err(Error::invalid(format!("limit must be between 1 and {PAGE_ROWS_MAX}"))
            .code("bad_parameter")
            .hint("use `after` for the next page"))
    }
}
