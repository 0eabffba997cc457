//! Anthropic's Messages API, over HTTPS.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use crate::base::sse::Frames;
use crate::chat::model::read::Reader;
use crate::chat::model::{Ask, Fault, Next, Tokens, fault, request};
use crate::outbound::{self, Body, Client, Request};
use crate::script::Anthropic;

/// The version of the API.
const VERSION: &str = "2023-06-01";
/// Longest event of an answer, in bytes.
const EVENT_BYTES_MAX: usize = 1024 * 1024;
/// Most bytes read of an error response.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Longest time without new content while the connection stays open.
const STILL_MAX: Duration = Duration::from_secs(300);

/// A model that is called with a key.
#[derive(Clone)]
pub struct Claude {
    client: Client,
    model: Anthropic,
    key: String,
}

impl fmt::Debug for Claude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claude {{ model: {} }}", self.model.model)
    }
}

/// An answer in progress. Dropping it also ends it at the provider.
pub(super) struct Events {
    answer: outbound::Answer,
    frames: Frames,
    reader: Reader,
    ready: VecDeque<String>,
    idle: Duration,
    grown_at: Instant,
    key: String,
}

impl Claude {
    /// Returns a model with its key.
    pub fn new(client: Client, model: Anthropic, key: String) -> Claude {
        Claude { client, model, key }
    }

    pub(super) fn model(&self) -> &Anthropic {
        &self.model
    }

    /// Sends a request; returns when the answer begins. `idle` is the longest silence.
    ///
    /// # Errors
    /// The provider's refusal, or a connection error.
    pub(super) async fn begin(&self, ask: &Ask, idle: Duration) -> Result<Events, Fault> {
        let body = request::body(&self.model, ask);
        let request = Request {
            base: &self.model.base_url,
            path: "/v1/messages",
            headers: &[("anthropic-version", VERSION), ("accept", "text/event-stream")],
            secret: Some(("x-api-key", &self.key)),
            body: Body::Json(Bytes::from(body.to_string())),
        };
        let answer = self.client.send(&request, idle).await.map_err(fault::of_failure)?;
        if answer.status() != 200 {
            let retry_after = answer.header("retry-after").map(str::to_owned);
            let status = answer.status();
            // The status is enough, whatever the body is.
            let body = answer.text(REFUSAL_BYTES_MAX, idle).await.unwrap_or_default();
            let fault = fault::of_status(status, retry_after.as_deref(), &body);
            return Err(masked(fault, &self.key));
        }
        Ok(Events {
            answer,
            frames: Frames::new(EVENT_BYTES_MAX),
            reader: Reader::default(),
            ready: VecDeque::new(),
            idle,
            grown_at: Instant::now(),
            key: self.key.clone(),
        })
    }
}

/// A service may echo the request, including the key.
fn masked(fault: Fault, key: &str) -> Fault {
    Fault { message: fault.message.replace(key, "[key]"), ..fault }
}

impl Events {
    /// Returns the tokens so far.
    pub(super) fn tokens(&self) -> Tokens {
        self.reader.tokens()
    }

    /// Returns the next part; [`Next::Done`] is the last.
    ///
    /// # Errors
    /// The reason why the answer broke off.
    pub(super) async fn next(&mut self) -> Result<Next, Fault> {
        loop {
            if let Some(text) = self.ready.pop_front() {
                return Ok(Next::Text(text));
            }
            if self.reader.is_over() {
                let step = self.reader.finish()?;
                return Ok(Next::Done(Box::new(step)));
            }
            let piece = self.answer.chunk(self.idle).await.map_err(fault::of_failure)?;
            let Some(bytes) = piece else {
                let step = self.reader.finish()?;
                return Ok(Next::Done(Box::new(step)));
            };
            self.feed(&bytes)?;
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let frames = self
            .frames
            .feed(bytes)
            .map_err(|_| Fault::lasting("bad_answer", "the answer has a line that is too long"))?;
        let mut words = String::new();
        let mut has_grown = false;
        for frame in frames {
            // Anything but JSON is ignored.
            let Ok(event) = serde_json::from_str::<Value>(&frame.data) else { continue };
            has_grown |= event["type"] != "ping";
            let text = self.reader.take(&event).map_err(|it| masked(it, &self.key))?;
            words.push_str(&text.unwrap_or_default());
        }
        if has_grown {
            self.grown_at = Instant::now();
        } else if self.grown_at.elapsed() > STILL_MAX {
            return Err(Fault::passing("stalled", "the model sent nothing for five minutes"));
        }
        if !words.is_empty() {
            self.ready.push_back(words);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;
    use crate::script::{Secret, Thinking};

    const PING: &[u8] = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";
    const WORDS: &[u8] = b"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\
        \"type\":\"text\",\"text\":\"a\"}}\n\n";

    /// Pings keep the connection, but a model that only sends pings is no longer answering.
    #[tokio::test]
    async fn pings_without_words_are_waited_for_five_minutes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let mut served = JoinSet::new();
        served.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = vec![0; 4096];
            assert!(stream.read(&mut read).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            std::future::pending::<()>().await;
        });
        let model = Anthropic {
            model: "m".to_owned(),
            key: Secret::Env("K".to_owned()),
            base_url,
            max_output: 1_024,
            context: 100_000,
            thinking: Thinking::Off,
            price: None,
        };
        let claude = Claude::new(Client::default(), model, "k".to_owned());
        let ask = Ask { system: String::new(), turns: Vec::new(), tools: Vec::new() };
        let mut events = claude.begin(&ask, Duration::from_secs(60)).await.unwrap();
        tokio::time::pause();
        for _ in 0..9 {
            tokio::time::advance(STILL_MAX / 10).await;
            events.feed(PING).unwrap();
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        events.feed(WORDS).unwrap();
        events.feed(PING).unwrap();
        tokio::time::advance(STILL_MAX + Duration::from_secs(1)).await;
        let fault = events.feed(PING).unwrap_err();
        assert_eq!((fault.code, fault.is_passing), ("stalled", true));
    }
}
