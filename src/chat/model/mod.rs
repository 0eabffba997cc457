//! A model as the loop of an answer sees it: one request, one answer, piece by piece.
//!
//! **Invariant:** nothing here knows a tool, a person or a route; nothing is repeated here.
//! **Invariant:** what a provider says is hostile: every event and every answer has a bound, and
//! what is unknown is left out.

mod anthropic;
mod fault;
mod read;
mod request;
mod subscribed;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::script::Price;

pub use anthropic::Claude;
pub use subscribed::OfPerson;

/// A model that the loop of an answer asks.
#[derive(Clone, Debug)]
pub enum Model {
    /// By the Messages API, with a key.
    Claude(Claude),
    /// By the gateway, with a person's subscription.
    OfPerson(OfPerson),
}

/// What comes next of an answer.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// More words.
    Text(String),
    /// It is whole.
    Done(Box<Step>),
}

/// An answer while it comes. Who drops it ends it, also at the provider.
pub struct Answering(Coming);

enum Coming {
    Events(Box<anthropic::Events>),
    Lines(Box<subscribed::Lines>),
}

impl Model {
    /// Asks; returns the answer once it begins. `idle` is the longest silence.
    ///
    /// # Errors
    /// What the provider refuses, or that it cannot be reached.
    pub async fn begin(&self, ask: &Ask, idle: Duration) -> Result<Answering, Fault> {
        Ok(Answering(match self {
            Model::Claude(it) => Coming::Events(Box::new(it.begin(ask, idle).await?)),
            Model::OfPerson(it) => Coming::Lines(Box::new(it.begin(ask, idle).await?)),
        }))
    }

    /// Returns who gives its answers, as a message has it.
    pub fn provider(&self) -> &'static str {
        match self {
            Model::Claude(_) => "anthropic",
            Model::OfPerson(_) => "gateway",
        }
    }

    /// Returns its name. A step goes back as it came to a model of the same name only.
    pub fn name(&self) -> String {
        match self {
            Model::Claude(it) => it.model().model.clone(),
            Model::OfPerson(it) => format!("{}/{}", it.model().provider, it.model().model),
        }
    }

    /// Returns the most tokens of a step, and those that it reads and writes at once.
    pub fn room(&self) -> (u32, u32) {
        match self {
            Model::Claude(it) => (it.model().max_output, it.model().context),
            Model::OfPerson(it) => (it.model().max_output, it.model().context),
        }
    }

    /// Returns what it costs the site, if that is known.
    pub fn price(&self) -> Option<&Price> {
        match self {
            Model::Claude(it) => it.model().price.as_ref(),
            Model::OfPerson(_) => None,
        }
    }
}

impl Answering {
    /// Returns what comes next; after [`Next::Done`] there is nothing.
    ///
    /// # Errors
    /// What broke the answer off.
    pub async fn next(&mut self) -> Result<Next, Fault> {
        match &mut self.0 {
            Coming::Events(it) => it.next().await,
            Coming::Lines(it) => it.next().await,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What the model is told of itself.
    pub system: String,
    /// What was said, oldest first; the last one is not the model's.
    pub turns: Vec<Turn>,
    /// The tools, as MCP describes them.
    pub tools: Vec<Value>,
}

/// What one side said before the other one did.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Whether the model said it.
    pub is_model: bool,
    /// What.
    pub blocks: Vec<Block>,
}

/// A part of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Words.
    Text(String),
    /// A picture.
    Image {
        /// Its type.
        kind: String,
        /// Its file.
        bytes: Arc<[u8]>,
    },
    /// A part as the provider gave it, which goes back as it is.
    Native(Value),
    /// What came of a call.
    Result {
        /// The name that the model gave the call.
        id: String,
        /// The words for the model.
        text: String,
        /// Whether it went well.
        is_ok: bool,
    },
}

/// One answer of a model, whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Its words.
    pub text: String,
    /// All of it, as the provider gave it.
    pub native: Vec<Value>,
    /// The tools that it asks for.
    pub calls: Vec<ModelCall>,
    /// Why it ended.
    pub stop: Stop,
    /// What it took.
    pub tokens: Tokens,
}

/// A call that a model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The name that the model gave it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments; none if what came is no object.
    pub args: Option<Value>,
}

/// Why an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// The model has said what it wanted.
    #[default]
    Ended,
    /// It waits for its calls.
    Calls,
    /// It wants to go on.
    Paused,
    /// It was cut off.
    MaxTokens,
    /// The provider refused to go on.
    Refused,
    /// There is no more room.
    ContextFull,
    /// A word that is not known.
    Unknown(String),
}

/// Tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read, without those from a cache.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Kept in a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// Adds those of another answer.
    pub fn add(&mut self, other: Tokens) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }

    /// Returns what they cost, in US dollars, to a millionth.
    pub fn cost(&self, price: &Price) -> f64 {
        let of = |count: u64, price: f64| count as f64 * price / 1e6;
        let sum = of(self.input, price.input)
            + of(self.output, price.output)
            + of(self.cache_read, price.cache_read)
            + of(self.cache_write, price.cache_write);
        (sum * 1e6).round() / 1e6
    }
}

/// Why there is no answer, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A stable word.
    pub code: &'static str,
    /// For people; no secret.
    pub message: String,
    /// Whether the same request may go well.
    pub is_passing: bool,
    /// How long the provider wants to be left alone, if it said so.
    pub wait: Option<Duration>,
}

impl Fault {
    /// Returns one that the same request meets again.
    pub fn lasting(code: &'static str, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), is_passing: false, wait: None }
    }

    /// Returns one that may be over soon.
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
}
