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

    /// Counts what another one has counted.
    pub(super) fn absorb(&mut self, other: Tally) {
        let open = other.open.into_iter().map(|(_, model, tokens)| (model, tokens));
        other.models.into_iter().chain(open).for_each(|(model, tokens)| self.add(&model, &tokens));
    }

    /// Returns the tokens of all models.
    pub(super) fn sum(&self) -> Tokens {
        let mut sum = Tokens::default();
        let open = self.open.iter().map(|it| &it.2);
        self.models.values().chain(open).for_each(|tokens| sum.add(tokens));
        sum
    }

    /// Returns the row's `usage`; `None` if nothing was counted.
    pub(super) fn usage(&self) -> Option<Map<String, Value>> {
        let mut all = Tally::default();
        all.absorb(self.clone());
        // A model that was requested but never answered used nothing.
        all.models.retain(|_, tokens| !tokens.is_nothing());
        let sum = all.sum();
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
        let mut all = self.told.clone();
        all.absorb(self.tally.clone());
        if let Some(usage) = all.usage() {
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
    use crate::jobs::telemetry::claude;
    use crate::jobs::telemetry::tests::{NOW, read_all};

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

    #[test]
    fn a_turn_without_its_result_adds_to_what_earlier_turns_took() {
        let said = |id: &str| {
            json!({"type": "assistant", "message": {
                "id": id, "model": "large", "content": [],
                "usage": {"input_tokens": 100, "output_tokens": 1},
            }})
        };
        let result = |input: u64, output: u64| {
            json!({
                "type": "result", "is_error": false, "total_cost_usd": 0.5,
                "modelUsage": {"large": {"inputTokens": input, "outputTokens": output}},
            })
        };
        let took = |lines: &[Value]| {
            let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
            let usage = read_all(&lines.join("\n"), NOW, claude::read_line).0.usage.unwrap();
            let count = |name: &str| usage[name].as_u64().unwrap();
            (count("input_tokens"), count("output_tokens"), usage["is_partial"] == true)
        };
        let first = [said("m1"), said("m1"), result(100, 40)];
        assert_eq!(took(&first), (100, 40, false));
        let cut = [&first[..], &[said("m2"), said("m3"), said("m3")]].concat();
        assert_eq!(took(&cut), (300, 42, true));
        let second = [&cut[..], &[result(300, 90)]].concat();
        assert_eq!(took(&second), (300, 90, false));
        assert_eq!(took(&[&second[..], &[said("m4")]].concat()), (400, 91, true));
        // Older versions tell no sums: those of the messages count.
        let old = json!({"type": "result", "is_error": false});
        assert_eq!(took(&[said("m1"), old.clone()]), (100, 1, false));
        assert_eq!(took(&[said("m1"), old, said("m2")]), (200, 2, true));
    }
}
