//! Counts tokens by model while an agent works, replaced by its final report if there is one.
//!
//! **Invariant:** a message is counted once, however often its engine reports it.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value, json};

use crate::base::truncate_chars;
use crate::jobs::telemetry::{NAME_CHARS_MAX, Report};

/// Most models counted separately; the rest is counted as [`OTHERS`].
const MODELS_MAX: usize = 8;
/// The name under which further models are counted.
const OTHERS: &str = "others";
/// How many of the last messages may be reported again with larger counts.
const OPEN_MAX: usize = 64;

/// Tokens and cost of some requests to one model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tokens {
    /// Input, without tokens read from or written to a cache.
    pub(super) input: u64,
    /// Output.
    pub(super) output: u64,
    /// Read from a cache.
    pub(super) cache_read: u64,
    /// Written to a cache.
    pub(super) cache_creation: u64,
    /// US dollars, if the engine reports them by model.
    pub(super) cost_usd: Option<f64>,
}

impl Tokens {
    fn add(&mut self, other: &Tokens) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_creation = self.cache_creation.saturating_add(other.cache_creation);
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
        };
    }

    fn is_nothing(&self) -> bool {
        Tokens { cost_usd: None, ..*self } == Tokens::default()
            && self.cost_usd.unwrap_or(0.0) == 0.0
    }

    /// Returns the fields of a row's `usage`.
    fn fields(&self) -> Map<String, Value> {
        let pairs = [
            ("input_tokens", self.input),
            ("output_tokens", self.output),
            ("cache_read_input_tokens", self.cache_read),
            ("cache_creation_input_tokens", self.cache_creation),
        ];
        pairs.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect()
    }
}

/// Returns a cost without rounding noise: 0.5451550000000001 becomes 0.545155.
pub(super) fn cost(told: &Value) -> Option<f64> {
    let cost = told.as_f64().filter(|it| (0.0..=1e6).contains(it))?;
    Some((cost * 1e6).round() / 1e6)
}

/// The tokens of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// The last messages: id, model, tokens.
    open: VecDeque<(String, String, Tokens)>,
    /// Everything before them, and what is reported without a message id.
    models: BTreeMap<String, Tokens>,
}

impl Tally {
    /// Counts a request; the model may be unknown.
    pub(super) fn add(&mut self, model: &str, tokens: &Tokens) {
        let model = truncate_chars(model, NAME_CHARS_MAX);
        let is_known = self.models.contains_key(&model) || self.models.len() < MODELS_MAX;
        let name = if is_known { model } else { OTHERS.to_owned() };
        self.models.entry(name).or_default().add(tokens);
    }

    /// Counts a message, or corrects its count if it was reported before.
    pub(super) fn note(&mut self, message: &str, model: &str, tokens: Tokens) {
        if let Some(known) = self.open.iter_mut().rev().find(|it| it.0 == message) {
            let output = known.2.output.max(tokens.output);
            known.2 = Tokens { output, ..tokens };
            return;
        }
        if self.open.len() >= OPEN_MAX
            && let Some((_, model, tokens)) = self.open.pop_front()
        {
            self.add(&model, &tokens);
        }
        let short = |text: &str| truncate_chars(text, NAME_CHARS_MAX);
        self.open.push_back((short(message), short(model), tokens));
    }

    /// Updates the output of the newest message.
    pub(super) fn grow(&mut self, output: u64) {
        if let Some((_, _, tokens)) = self.open.back_mut() {
            tokens.output = tokens.output.max(output);
        }
    }

    /// Returns the row's `usage`; `None` if nothing was counted.
    pub(super) fn usage(&self) -> Option<Map<String, Value>> {
        let mut all = self.clone();
        for (_, model, tokens) in std::mem::take(&mut all.open) {
            all.add(&model, &tokens);
        }
        // A model that was requested but never answered used nothing.
        all.models.retain(|_, tokens| !tokens.is_nothing());
        let mut sum = Tokens::default();
        all.models.values().for_each(|tokens| sum.add(tokens));
        if all.models.is_empty() {
            return None;
        }
        let mut usage = sum.fields();
        let named = || all.models.iter().filter(|(name, _)| !name.is_empty());
        let names: Vec<&String> = named().map(|(name, _)| name).collect();
        usage.insert("models".to_owned(), json!(names));
        let by_model = named().map(|(name, tokens)| {
            let mut fields = tokens.fields();
            fields.insert("model".to_owned(), json!(name));
            let dollars = tokens.cost_usd.and_then(|it| cost(&json!(it)));
            fields.insert("cost_usd".to_owned(), json!(dollars));
            Value::Object(fields)
        });
        usage.insert("by_model".to_owned(), by_model.collect());
        Some(usage)
    }
}

impl Report {
    /// Adopts the tokens so far as those of the run, since its last line may never arrive.
    pub(super) fn keep_tally(&mut self) {
        if let Some(usage) = self.tally.usage() {
            self.usage = Some(Value::Object(usage));
            self.keep_partial();
        }
    }

    /// Marks the tokens as those of an unfinished run.
    pub(super) fn keep_partial(&mut self) {
        if let Some(usage) = &mut self.usage {
            usage["is_partial"] = json!(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64, output: u64) -> Tokens {
        Tokens { input, output, ..Tokens::default() }
    }

    #[test]
    fn a_message_counts_once_and_models_count_apart() {
        let mut tally = Tally::default();
        assert_eq!(tally.usage(), None);
        tally.note("m1", "large", tokens(100, 1));
        tally.grow(30);
        tally.note("m1", "large", tokens(100, 1));
        tally.note("m2", "small", tokens(7, 2));
        tally.add("large", &Tokens { cost_usd: Some(0.25), ..tokens(10, 0) });
        tally.add("silent", &Tokens::default());
        let usage = tally.usage().unwrap();
        assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(117), &json!(32)));
        assert_eq!(usage["models"], json!(["large", "small"]));
        let large = &usage["by_model"][0];
        assert_eq!((&large["input_tokens"], &large["output_tokens"]), (&json!(110), &json!(30)));
        assert_eq!(
            (&large["cost_usd"], &usage["by_model"][1]["cost_usd"]),
            (&json!(0.25), &json!(null))
        );
    }

    #[test]
    fn no_number_of_models_or_messages_grows_it_and_none_is_lost() {
        let mut tally = Tally::default();
        for number in 0..1_000_u64 {
            tally.note(&format!("m{number}"), &format!("model {number}"), tokens(1, 1));
        }
        tally.add("x", &tokens(u64::MAX, 0));
        let usage = tally.usage().unwrap();
        assert!(usage["by_model"].as_array().unwrap().len() <= MODELS_MAX + 1);
        assert_eq!(
            (&usage["input_tokens"], &usage["output_tokens"]),
            (&json!(u64::MAX), &json!(1_000))
        );
        assert!(tally.open.len() <= OPEN_MAX);
    }
}
