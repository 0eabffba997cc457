//! Rules for requests: whether a kind can be requested, and which values its inputs accept.

use serde_json::Value;

use crate::base::is_one_line;
use crate::base::limit::{LINE_BYTES_MAX, TEXT_INPUT_BYTES_MAX};
use crate::script::config::{Input, InputType, Kind};

impl Kind {
    /// Returns whether only messages start its jobs, so that they cannot be requested.
    pub fn takes_messages(&self) -> bool {
        self.inbox.is_some() || self.agent.is_some()
    }

    /// Returns the address whose messages start its jobs, if [`Kind::takes_messages`].
    pub fn address(&self) -> Option<String> {
        match (&self.agent, &self.inbox) {
            (Some(agent), _) => Some(format!("agent:{}", agent.name)),
            (None, Some(_)) => Some(format!("topic:{}", self.name)),
            (None, None) => None,
        }
    }

    /// Returns what to do instead of requesting a job, if [`Kind::takes_messages`].
    pub fn instead_of_a_request(&self) -> String {
        match &self.agent {
            Some(agent) => format!("send to agent:{}, which answers", agent.name),
            None => format!("send to topic:{}: the message starts its job", self.name),
        }
    }

    /// Returns the name as the script has it: that of an agent is without the `@` of its kind.
    pub fn declared_name(&self) -> &str {
        self.name.trim_start_matches('@')
    }
}

impl Input {
    /// Returns what the value must be, if it is invalid; checks only what needs neither the
    /// database nor the repository.
    pub fn refusal(&self, value: &Value) -> Option<String> {
        let expected = match (self.ty, value.as_str()) {
            (InputType::Topic, None) => "the id of a topic",
            (InputType::Source, None) => "the path of a source",
            (InputType::Persona, None) => "the name of a persona",
            (InputType::Line | InputType::Text | InputType::Blob | InputType::Hash, None) => "text",
            (InputType::Choice, None) => "one of its choices",
            (InputType::Line, Some(text)) if text.len() > LINE_BYTES_MAX || !is_one_line(text) => {
                "one line of at most 4 KiB"
            }
            (InputType::Text, Some(text))
                if text.len() > TEXT_INPUT_BYTES_MAX || text.contains('\0') =>
            {
                "text of at most 16 MiB without zero bytes"
            }
            (InputType::Choice, Some(text)) if !self.choices.iter().any(|it| it == text) => {
                return Some(format!("one of {}", self.choices.join(", ")));
            }
            (InputType::Flag, _) if !value.is_boolean() => "true or false",
            (InputType::Number, _) => return self.refusal_of_number(value),
            _ => return None,
        };
        Some(expected.to_owned())
    }

    fn refusal_of_number(&self, value: &Value) -> Option<String> {
        let Some(number) = value.as_f64() else { return Some("a number".to_owned()) };
        let is_below = self.min.is_some_and(|it| number < it);
        let is_above = self.max.is_some_and(|it| number > it);
        (is_below || is_above).then(|| match (self.min, self.max) {
            (Some(min), Some(max)) => format!("a number from {min} to {max}"),
            (Some(min), None) => format!("a number of at least {min}"),
            (_, max) => format!("a number of at most {}", max.unwrap_or(f64::MAX)),
        })
    }
}
