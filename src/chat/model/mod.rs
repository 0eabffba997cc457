//! A model, as the loop of an answer uses it: one request and one streamed answer.
//!
//! **Invariant:** no knowledge of tools, people or routes, and no retries.
//! **Invariant:** providers are not trusted: events and answers are bounded, and unknown parts are
//! ignored.
//! **Invariant:** secrets in an answer are covered, also those that arrive in pieces: a provider
//! may repeat its key.

mod anthropic;
mod fault;
mod read;
mod request;
mod subscribed;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::base::truncate_chars;
use crate::jobs::Pieces;
use crate::script::Price;

pub use anthropic::Claude;
pub use subscribed::OfPerson;

/// Bytes per token, for an estimate.
pub const TOKEN_BYTES: u64 = 4;
/// Longest reason for which an answer stopped, in characters.
const STOP_CHARS_MAX: usize = 80;

/// A model that the loop of an answer calls.
#[derive(Clone, Debug)]
pub enum Model {
    /// Over the Messages API, with a key.
    Claude(Claude),
    /// Through the gateway, with a person's subscription.
    OfPerson(OfPerson),
}

/// The next part of an answer.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// More text.
    Text(String),
    /// The whole step; the last part.
    Done(Box<Step>),
}

/// An answer in progress. Dropping it also ends it at the provider.
pub struct Answering {
    coming: Coming,
    /// Holds back what may begin a secret.
    pieces: Pieces,
    /// How it ended, while text is still to be told.
    ended: Option<Result<Step, Fault>>,
}

enum Coming {
    Events(Box<anthropic::Events>),
    Lines(Box<subscribed::Lines>),
}

impl Model {
    /// Sends a request; returns when the answer begins. `idle` is the longest silence, and `pieces`
    /// covers the secrets in the answer.
    ///
    /// # Errors
    /// The provider's refusal, or a connection error.
    pub async fn begin(
        &self,
        ask: &Ask,
        idle: Duration,
        pieces: Pieces,
    ) -> Result<Answering, Fault> {
        let coming = match self {
            Model::Claude(it) => Coming::Events(Box::new(it.begin(ask, idle).await?)),
            Model::OfPerson(it) => Coming::Lines(Box::new(it.begin(ask, idle).await?)),
        };
        Ok(Answering { coming, pieces, ended: None })
    }

    /// Returns its provider, as stored with messages.
    pub fn provider(&self) -> &'static str {
        match self {
            Model::Claude(_) => "anthropic",
            Model::OfPerson(_) => "gateway",
        }
    }

    /// Returns its name. A step is sent back in its native form only to a model with the same name.
    pub fn name(&self) -> String {
        match self {
            Model::Claude(it) => it.model().model.clone(),
            Model::OfPerson(it) => format!("{}/{}", it.model().provider, it.model().model),
        }
    }

    /// Returns the most output tokens of a step, and the size of the context window.
    pub fn room(&self) -> (u32, u32) {
        match self {
            Model::Claude(it) => (it.model().max_output, it.model().context),
            Model::OfPerson(it) => (it.model().max_output, it.model().context),
        }
    }

    /// Returns its price for the site, if known.
    pub fn price(&self) -> Option<&Price> {
        match self {
            Model::Claude(it) => it.model().price.as_ref(),
            Model::OfPerson(_) => None,
        }
    }
}

impl Answering {
    /// Returns the tokens so far of an answer that broke off, some of them estimated.
    pub fn tokens(&self) -> Tokens {
        match &self.coming {
            Coming::Events(it) => it.tokens(),
            Coming::Lines(it) => it.tokens(),
        }
    }

    /// Returns the next part; [`Next::Done`] is the last.
    ///
    /// # Errors
    /// The reason why the answer broke off.
    pub async fn next(&mut self) -> Result<Next, Fault> {
        loop {
            if let Some(ended) = self.ended.take() {
                return ended.map(|it| Next::Done(Box::new(it)));
            }
            let next = match &mut self.coming {
                Coming::Events(it) => it.next().await,
                Coming::Lines(it) => it.next().await,
            };
            let shown = match next {
                Ok(Next::Text(delta)) => self.pieces.pass(&delta),
                Ok(Next::Done(step)) => {
                    self.ended = Some(Ok(step.covered(&self.pieces)));
                    self.pieces.end()
                }
                Err(fault) => {
                    let message = self.pieces.cover(&fault.message);
                    self.ended = Some(Err(Fault { message, ..fault }));
                    self.pieces.end()
                }
            };
            if !shown.is_empty() {
                return Ok(Next::Text(shown));
            }
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The system prompt.
    pub system: String,
    /// The turns, oldest first; the last one is the person's.
    pub turns: Vec<Turn>,
    /// The tools, in MCP's format.
    pub tools: Vec<Value>,
}

/// A turn of one side.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Whether it is the model's.
    pub is_model: bool,
    /// Its parts.
    pub blocks: Vec<Block>,
}

/// A part of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// Its media type.
        kind: String,
        /// The bytes of its file.
        bytes: Arc<[u8]>,
    },
    /// A part in the provider's own form, which is sent back unchanged.
    Native(Value),
    /// The result of a call.
    Result {
        /// The model's id of the call.
        id: String,
        /// The text for the model.
        text: String,
        /// Whether it succeeded.
        is_ok: bool,
    },
}

/// A complete answer of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Its text.
    pub text: String,
    /// All of it, in the provider's own form.
    pub native: Vec<Value>,
    /// The tool calls that it requests.
    pub calls: Vec<ModelCall>,
    /// Why it stopped.
    pub stop: Stop,
    /// Its tokens.
    pub tokens: Tokens,
}

impl Step {
    /// Covers the secrets in it.
    fn covered(mut self, pieces: &Pieces) -> Step {
        self.text = pieces.cover(&self.text);
        self.native.iter_mut().for_each(|it| pieces.cover_value(it));
        for call in &mut self.calls {
            (call.id, call.tool) = (pieces.cover(&call.id), pieces.cover(&call.tool));
            call.args.iter_mut().for_each(|it| pieces.cover_value(it));
        }
        if let Stop::Unknown(word) = &mut self.stop {
            // Cut afterwards: a part of a secret is not known as one.
            *word = truncate_chars(&pieces.cover(word), STOP_CHARS_MAX);
        }
        self
    }
}

/// A tool call that a model requests.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The model's id of it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments; `None` if they are not a JSON object.
    pub args: Option<Value>,
}

/// Why an answer stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// The model ended its turn.
    #[default]
    Ended,
    /// It waits for the results of its calls.
    Calls,
    /// It paused, and is to be continued.
    Paused,
    /// It reached the limit of output tokens.
    MaxTokens,
    /// The provider refused to continue.
    Refused,
    /// The context window is full.
    ContextFull,
    /// An unknown reason.
    Unknown(String),
}

/// Tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input, without those from a cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// Adds the tokens of another answer.
    pub fn add(&mut self, other: Tokens) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }

    /// Returns their cost in US dollars, rounded to a millionth.
    pub fn cost(&self, price: &Price) -> f64 {
        let of = |count: u64, price: f64| count as f64 * price / 1e6;
        let sum = of(self.input, price.input)
            + of(self.output, price.output)
            + of(self.cache_read, price.cache_read)
            + of(self.cache_write, price.cache_write);
        (sum * 1e6).round() / 1e6
    }
}

/// Why an answer is missing or incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A stable word.
    pub code: &'static str,
    /// A message for people, without secrets.
    pub message: String,
    /// Whether a retry may succeed.
    pub is_passing: bool,
    /// How long to wait before a retry, if the provider said so.
    pub wait: Option<Duration>,
}

impl Fault {
    /// Returns a fault that a retry would meet again.
    pub fn lasting(code: &'static str, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), is_passing: false, wait: None }
    }

    /// Returns a fault that may be temporary.
    pub fn passing(code: &'static str, message: impl Into<String>) -> Fault {
        Fault { is_passing: true, ..Fault::lasting(code, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_cost_what_their_price_says() {
        let price = Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        let mut tokens =
            Tokens { input: 1_000_000, output: 100_000, cache_read: 0, cache_write: 0 };
        assert!((tokens.cost(&price) - 4.5).abs() < 1e-9);
        tokens.add(Tokens { input: 0, output: 0, cache_read: 1_000_000, cache_write: 1_000_000 });
        assert!((tokens.cost(&price) - 8.55).abs() < 1e-9);
    }

    #[test]
    fn g28_no_part_of_an_answer_repeats_a_secret() {
        let secret = "s3cret-".repeat(20);
        let stop = Stop::Unknown(format!("because {secret}"));
        let step = Step { text: secret.clone(), stop, ..Step::default() };
        let covered = step.covered(&Pieces::new(&[secret]));
        assert!(!format!("{covered:?}").contains("s3cret"), "{covered:?}");
        assert!(matches!(&covered.stop, Stop::Unknown(it) if it.starts_with("because ")));
    }
}
