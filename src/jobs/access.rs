//! The grants of a job's token.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::base::{Address, Error, ErrorKind, JobId, Result, SourcePath, TopicId};
use crate::jobs::Job;

/// The code of an action without the grant for it.
pub(in crate::jobs) const NOT_GRANTED: &str = "not_granted";

/// What a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read it.
    Read,
    /// Post a message in it.
    Message,
    /// Propose a text for it.
    Propose,
    /// Store a persona's perspective on it.
    View,
    /// Open a Topic on it.
    Open,
    /// Request a person's approval.
    Ask,
    /// Send messages to it.
    Send,
    /// See what it prints.
    Peek,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Message => "message",
            Verb::Propose => "propose",
            Verb::View => "view",
            Verb::Open => "open",
            Verb::Ask => "ask",
            Verb::Send => "send",
            Verb::Peek => "peek",
        }
    }
}

/// The subject of a grant on all Sources and Topics.
const SITE: &str = "site";

/// The subject of a grant to request approvals.
const APPROVALS: &str = "approvals";

/// A permission of a job: `topic:ID read+message+propose`, `source:PATH read`, `site read` or
/// `approvals ask`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Grant {
    subject: String,
    verbs: Vec<Verb>,
}

impl Grant {
    /// Returns a grant on a Topic.
    pub fn topic(id: &TopicId, verbs: &[Verb]) -> Grant {
        Grant { subject: format!("topic:{id}"), verbs: verbs.to_vec() }
    }

    /// Returns a grant on a Source and its open Topics.
    pub fn source(path: &SourcePath, verbs: &[Verb]) -> Grant {
        Grant { subject: format!("source:{path}"), verbs: verbs.to_vec() }
    }

    /// Returns a grant on every Source and every Topic.
    pub fn site(verbs: &[Verb]) -> Grant {
        Grant { subject: SITE.to_owned(), verbs: verbs.to_vec() }
    }

    /// Returns a grant to request approvals.
    pub fn approvals() -> Grant {
        Grant { subject: APPROVALS.to_owned(), verbs: vec![Verb::Ask] }
    }

    /// Returns a grant to send to addresses matching a pattern, in which `*` stands for any text.
    pub fn address(pattern: &str) -> Grant {
        Grant { subject: format!("address:{pattern}"), verbs: vec![Verb::Send] }
    }

    /// Returns a grant to see what an instance prints.
    pub fn worker(root: &JobId) -> Grant {
        Grant { subject: format!("job:{root}"), verbs: vec![Verb::Peek] }
    }

    /// Returns its subject as in events: `topic:ID` or `source:PATH`.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the grant after Sources were renamed.
    pub(super) fn renamed(self, renames: &BTreeMap<SourcePath, SourcePath>) -> Grant {
        let path = self.subject.strip_prefix("source:");
        let to = renames.iter().find(|(from, _)| path == Some(from.as_str()));
        match to {
            Some((_, to)) => Grant::source(to, &self.verbs),
            None => self,
        }
    }

    /// Returns a grant to read a persona.
    pub fn persona(name: &str) -> Grant {
        Grant { subject: format!("persona:{name}"), verbs: vec![Verb::Read] }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs: Vec<&str> = self.verbs.iter().map(|it| it.as_str()).collect();
        write!(f, "{} {}", self.subject, verbs.join("+"))
    }
}

impl FromStr for Grant {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::internal(format!("`{text}` is not a grant"));
        // A path may contain spaces: the verbs follow the last one.
        let (subject, verbs) = text.rsplit_once(' ').ok_or_else(wrong)?;
        let all = [
            Verb::Read,
            Verb::Message,
            Verb::Propose,
            Verb::View,
            Verb::Open,
            Verb::Ask,
            Verb::Send,
            Verb::Peek,
        ];
        let verbs: Option<Vec<Verb>> = verbs
            .split('+')
            .map(|word| all.into_iter().find(|verb| verb.as_str() == word))
            .collect();
        Ok(Grant { subject: subject.to_owned(), verbs: verbs.ok_or_else(wrong)? })
    }
}

impl TryFrom<String> for Grant {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> String {
        grant.to_string()
    }
}

impl Job {
    /// Refuses an action on a Topic without a grant.
    ///
    /// # Errors
    /// `forbidden` with code `not_granted`.
    pub fn require_topic(&self, id: &TopicId, verb: Verb) -> Result<()> {
        self.require(&format!("topic:{id}"), verb)
    }

    /// Refuses an action on a Source without a grant.
    ///
    /// # Errors
    /// `forbidden` with code `not_granted`.
    pub fn require_source(&self, path: &SourcePath, verb: Verb) -> Result<()> {
        self.require(&format!("source:{path}"), verb)
    }

    /// Returns whether this job was started for a Source, and not for the whole site alone.
    pub fn is_given(&self, path: &SourcePath) -> bool {
        let subject = format!("source:{path}");
        self.grants.iter().any(|it| it.subject == subject)
    }

    /// Refuses a persona for which this job was not started.
    ///
    /// # Errors
    /// `forbidden` with code `not_granted`.
    pub fn require_persona(&self, name: &str) -> Result<()> {
        self.require(&format!("persona:{name}"), Verb::Read)
    }

    /// Refuses sending to an address without a grant.
    ///
    /// # Errors
    /// `forbidden` with code `not_granted`.
    pub fn require_address(&self, to: &Address) -> Result<()> {
        let text = to.to_string();
        let is_allowed = |it: &Grant| {
            let pattern = it.subject.strip_prefix("address:");
            it.verbs.contains(&Verb::Send) && pattern.is_some_and(|it| fits(it, &text))
        };
        if self.grants.iter().any(is_allowed) {
            return Ok(());
        }
        let message = format!("job {} may not send to {to}", self.id);
        Err(Error::new(ErrorKind::Forbidden, message).code(NOT_GRANTED).hint(
            "allow it in the script: sends = { \"person:*\", … } of its inbox, agent or kind",
        ))
    }

    /// Refuses a job without a grant on the whole site.
    ///
    /// # Errors
    /// `forbidden` with code `not_granted`.
    pub fn require_site(&self) -> Result<()> {
        self.require(SITE, Verb::Read)
    }

    /// Refuses a job that neither is an instance nor watches it.
    ///
    /// # Errors
    /// `forbidden` with code `not_granted`.
    pub fn require_worker(&self, root: &JobId) -> Result<()> {
        if self.root() == root {
            return Ok(());
        }
        self.require(&format!("job:{root}"), Verb::Peek)
    }

    /// Refuses a job without a grant to request approvals.
    ///
    /// # Errors
    /// `forbidden` with code `not_granted`.
    pub fn require_asking(&self) -> Result<()> {
        self.require(APPROVALS, Verb::Ask)
    }

    fn require(&self, subject: &str, verb: Verb) -> Result<()> {
        let is_of_site = subject.starts_with("topic:") || subject.starts_with("source:");
        let allowed = |it: &Grant| {
            let is_on = it.subject == subject || (is_of_site && it.subject == SITE);
            is_on && it.verbs.contains(&verb)
        };
        if self.grants.iter().any(allowed) {
            return Ok(());
        }
        let does = match verb {
            Verb::Read => "read",
            Verb::Message => "write in",
            Verb::Propose => "propose for",
            Verb::View => "store a view of",
            Verb::Open => "open a topic on",
            Verb::Ask => "ask for",
            Verb::Send => "send to",
            Verb::Peek => "look at",
        };
        let hint = match (subject, verb) {
            (SITE, _) => "only a job of a kind with sees = \"site\" may",
            (_, Verb::Ask) => "only a job of an inbox, or of a kind with asks = true, may",
            (_, Verb::Peek) => "only the monitor of an inbox may look at its worker",
            (_, Verb::Open) => "a job of a kind with produces = \"topic\" may, on its own source",
            _ => "a job works on the topic and the source that it was started for",
        };
        let what = match subject {
            SITE => "the whole site".to_owned(),
            _ => subject.replacen(':', " ", 1),
        };
        let message = format!("job {} may not {does} {what}", self.id);
        Err(Error::new(ErrorKind::Forbidden, message).code(NOT_GRANTED).hint(hint))
    }
}

/// Returns whether a text matches a pattern in which `*` stands for any text, even none.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_survives_its_text() {
        for text in [
            "topic:018bcfe5-6800-7000-8000-000000000000 read+message+propose",
            "source:a b.md read+view",
            "persona:critic read",
            "site read+open",
            "approvals ask",
            "address:person:* send",
            "job:018bcfe5-6800-7000-8000-000000000000 peek",
        ] {
            assert_eq!(text.parse::<Grant>().unwrap().to_string(), text);
        }
        assert!("source:a.md own".parse::<Grant>().is_err());
    }

    #[test]
    fn a_pattern_fits_whole_addresses() {
        for (pattern, text, does) in [
            ("person:*", "person:ada", true),
            ("person:ada", "person:ada", true),
            ("person:ada", "person:adam", false),
            ("topic:*/review", "topic:docs/review", true),
            ("topic:*/review", "topic:docs/reviews", false),
            ("topic:a*", "topic:b/a", false),
            ("*", "agent:x", true),
            ("agent:a*b*c", "agent:aXbYc", true),
            ("agent:a*b*c", "agent:acb", false),
            ("", "agent:x", false),
            ("agent:ab*ba", "agent:aba", false),
        ] {
            assert_eq!(fits(pattern, text), does, "{pattern} {text}");
        }
    }
}
