//! An engine of type "gateway": a model that is asked with each person's own subscription, by a
//! service beside this program.

use serde::Serialize;

use crate::script::load::anthropic::{Judge, Thinking};
use crate::script::load::extract::Checked;
use crate::script::source::diagnostic::{Findings, expected};
use crate::script::source::span::Spot;

/// Whose subscriptions the service can use.
const PROVIDERS: [&str; 2] = ["openai-codex", "github-copilot"];

/// Fields that it has not, although engines of other types have.
pub(crate) const NOT_OF_GATEWAY: [&str; 12] = [
    "command",
    "prompt",
    "reads",
    "env",
    "on_rate_limit",
    "session",
    "resume",
    "asks",
    "trusts",
    "key",
    "base_url",
    "price",
];

/// A model by the subscription of whoever asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subscribed {
    /// Who gives the answers.
    pub provider: &'static str,
    /// The name of the model there.
    pub model: String,
    /// Most tokens of a step.
    pub max_output: u32,
    /// Tokens that it reads and writes at once.
    pub context: u32,
    /// How much it thinks before it answers: a word of effort.
    pub thinking: &'static str,
}

/// Makes the model of a declaration; nothing without a provider or a name, which is reported.
pub(crate) fn build(
    title: &str,
    checked: &Checked,
    spot: &Spot,
    findings: &mut Findings,
) -> Option<Subscribed> {
    let mut judge = Judge { title, checked, findings };
    for (field, needs) in [
        ("provider", "one of openai-codex and github-copilot: write provider = \"openai-codex\""),
        ("model", "the name of a model: write model = \"gpt-…\", as its provider lists it"),
    ] {
        if !checked.has(field) {
            let message = format!("{title} has no `{field}`");
            judge.error("missing-field", message, spot, &format!("it needs {needs}"));
        }
    }
    let (max_output, context) = judge.room();
    let thinking = match judge.thinking(max_output) {
        Thinking::Off => "off",
        Thinking::Effort(word) => word,
        Thinking::Budget(_) => {
            let message = format!("`thinking` of {title} is a number of tokens");
            let note = "write \"off\", \"low\", \"medium\" or \"high\"";
            judge.error("unknown-word", message, checked.spot("thinking"), note);
            "off"
        }
    };
    let word = checked.text("provider")?;
    let Some(provider) = PROVIDERS.into_iter().find(|it| *it == word) else {
        let message = format!("`provider` of {title} is `{}`", word.escape_debug());
        let note = match word {
            "anthropic" | "claude" => {
                "with a Claude subscription use the mode claude_code, the provider's own program"
                    .to_owned()
            }
            _ => expected(PROVIDERS),
        };
        judge.error("unknown-word", message, checked.spot("provider"), &note);
        return None;
    };
    let model = checked.text("model")?.to_owned();
    Some(Subscribed { provider, model, max_output, context, thinking })
}
