//! Engines of type "anthropic": a model API that this program calls with a key of the site.

use serde::Serialize;

use crate::base::BaseUrl;
use crate::script::config::secret::Secret;
use crate::script::load::extract::{Checked, Given};
use crate::script::source::diagnostic::{Diagnostic, Findings};
use crate::script::source::span::Spot;

/// Fields that only an engine of this type has.
pub(crate) const OF_MODEL: [&str; 7] =
    ["model", "key", "base_url", "max_output", "context", "thinking", "price"];

/// Where the models are.
const BASE_URL: &str = "https://api.anthropic.com";
/// Bounds for the tokens of a step, and for the context window.
const MAX_OUTPUT: u32 = 8_192;
const CONTEXT: u32 = 200_000;
/// Bounds of both.
const MAX_OUTPUT_BOUNDS: (u32, u32) = (256, 128_000);
const CONTEXT_BOUNDS: (u32, u32) = (8_000, 2_000_000);
/// Smallest thinking budget of a model, in tokens.
const BUDGET_MIN: u32 = 1_024;
/// Most dollars per million tokens.
const PRICE_MAX: f64 = 10_000.0;

/// A model by the Messages API.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Anthropic {
    /// Its name at the provider.
    pub model: String,
    /// The key.
    pub key: Secret,
    /// Base URL of the API.
    pub base_url: BaseUrl,
    /// Most tokens of a step.
    pub max_output: u32,
    /// Context window in tokens.
    pub context: u32,
    /// How much it thinks before it answers.
    pub thinking: Thinking,
    /// Its price, if declared.
    pub price: Option<Price>,
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// Not at all.
    Off,
    /// The model decides, at this effort.
    Effort(&'static str),
    /// At most so many tokens.
    Budget(u32),
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Tokens read from a cache.
    pub cache_read: f64,
    /// Tokens written to a cache.
    pub cache_write: f64,
}

/// Builds the model of a declaration; `None` without a name or a key, which is reported.
pub(crate) fn build(
    title: &str,
    checked: &Checked,
    spot: &Spot,
    findings: &mut Findings,
) -> Option<Anthropic> {
    let mut judge = Judge { title, checked, findings };
    for (field, needs) in [
        ("model", "the name of a model: write model = \"claude-…\", as your provider lists it"),
        ("key", "a secret: write key = wb.secret.env \"ANTHROPIC_API_KEY\""),
    ] {
        if !checked.has(field) {
            let message = format!("{title} has no `{field}`");
            judge.error("missing-field", message, spot, &format!("it needs {needs}"));
        }
    }
    let (max_output, context) = judge.room();
    let (base_url, thinking) = (judge.base_url(), judge.thinking(max_output));
    let price = judge.price();
    let Some(Given::Secret(key)) = checked.given("key") else { return None };
    let (key, model) = (key.clone(), checked.text("model")?.to_owned());
    Some(Anthropic { model, key, base_url: base_url?, max_output, context, thinking, price })
}

pub(super) struct Judge<'a> {
    pub(super) title: &'a str,
    pub(super) checked: &'a Checked,
    pub(super) findings: &'a mut Findings,
}

impl Judge<'_> {
    pub(super) fn error(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::error(code, message).at(spot).note(note));
    }

    /// Returns the tokens of a step, and those that the model reads and writes at once.
    pub(super) fn room(&mut self) -> (u32, u32) {
        let max_output = self.count("max_output", MAX_OUTPUT_BOUNDS).unwrap_or(MAX_OUTPUT);
        let context = self.count("context", CONTEXT_BOUNDS).unwrap_or(CONTEXT);
        if max_output >= context {
            let message = format!("`max_output` of {} is not below its `context`", self.title);
            self.error("out-of-range", message, self.checked.spot("max_output"), "lower it");
        }
        (max_output, context)
    }

    fn count(&mut self, name: &str, (least, most): (u32, u32)) -> Option<u32> {
        let it = self.checked.number(name)?;
        if it.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(&it) {
            return Some(it as u32);
        }
        let message = format!("`{name}` of {} is {it}, not {least} to {most}", self.title);
        self.error("out-of-range", message, self.checked.spot(name), "");
        None
    }

    fn base_url(&mut self) -> Option<BaseUrl> {
        let text = self.checked.text("base_url").unwrap_or(BASE_URL);
        match text.parse() {
            Ok(url) => Some(url),
            Err(cause) => {
                let message = format!("`base_url` of {}: {}", self.title, cause.message());
                let note = format!("write base_url = \"{BASE_URL}\", or leave it out");
                self.error("bad-text", message, self.checked.spot("base_url"), &note);
                None
            }
        }
    }

    pub(super) fn thinking(&mut self, max_output: u32) -> Thinking {
        let word = self.checked.text("thinking").unwrap_or("off");
        let budget = word.parse::<u32>().ok();
        match (word, budget) {
            ("off", _) => Thinking::Off,
            ("low", _) => Thinking::Effort("low"),
            ("medium", _) => Thinking::Effort("medium"),
            ("high", _) => Thinking::Effort("high"),
            (_, Some(tokens)) if (BUDGET_MIN..max_output).contains(&tokens) => {
                Thinking::Budget(tokens)
            }
            _ => {
                let message = format!("`thinking` of {} is `{}`", self.title, word.escape_debug());
                let note = format!(
                    "write \"off\", \"low\", \"medium\" or \"high\", or a number of tokens of at \
                     least {BUDGET_MIN} and below `max_output`"
                );
                self.error("unknown-word", message, self.checked.spot("thinking"), &note);
                Thinking::Off
            }
        }
    }

    fn price(&mut self) -> Option<Price> {
        let Some(Given::Fields(fields)) = self.checked.given("price") else { return None };
        for name in ["input", "output", "cache_read", "cache_write"] {
            let number = fields.number(name).unwrap_or_default();
            if !(0.0..=PRICE_MAX).contains(&number) {
                let message = format!("`{name}` in `price` of {} is {number}", self.title);
                let note = format!("it is US dollars for a million tokens, at most {PRICE_MAX}");
                self.error("out-of-range", message, fields.spot(name), &note);
            }
        }
        let (input, output) = (fields.number("input")?, fields.number("output")?);
        Some(Price {
            input,
            output,
            cache_read: fields.number("cache_read").unwrap_or(input),
            cache_write: fields.number("cache_write").unwrap_or(input),
        })
    }
}
