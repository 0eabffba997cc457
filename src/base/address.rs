//! Recipients of messages: one textual form for agents, instances, inboxes, people and channels.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::base::{Error, Result, truncate_chars};

/// Longest part of an address, in bytes.
const SEGMENT_BYTES_MAX: usize = 63;
/// Longest name of a person, in bytes.
const PERSON_BYTES_MAX: usize = 100;

/// An address. Its text is canonical: parsing and printing round-trip.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    /// `agent:NAME`: a long-lived agent; a bare `NAME` is short for it.
    Agent(String),
    /// `agent:TEMPLATE/JOB`: a running instance of an inbox. The command line also accepts a unique
    /// prefix of the job's id.
    Instance {
        /// The part of the inbox's name before the slash.
        template: String,
        /// The root job's id.
        job: String,
    },
    /// `topic:TEMPLATE/INBOX`: an inbox; each message sent to it starts an instance.
    Inbox {
        /// The part of the inbox's name before the slash.
        template: String,
        /// The part after the slash.
        inbox: String,
    },
    /// `person:NAME`.
    Person(String),
    /// `channel:SLUG`.
    Channel(String),
    /// `approval:CHANNEL`: a label only; it cannot receive messages.
    Approval(String),
}

impl Address {
    /// Returns the class stored in tables; `None` for a label.
    pub fn class(&self) -> Option<&'static str> {
        match self {
            Address::Agent(_) => Some("agent"),
            Address::Instance { .. } => Some("instance"),
            Address::Inbox { .. } => Some("topic"),
            Address::Person(_) => Some("person"),
            Address::Channel(_) => Some("channel"),
            Address::Approval(_) => None,
        }
    }

    /// Returns the name without its class, as stored in tables.
    pub fn name(&self) -> String {
        match self {
            Address::Agent(name) | Address::Person(name) => name.clone(),
            Address::Channel(name) | Address::Approval(name) => name.clone(),
            Address::Instance { template, job } => format!("{template}/{job}"),
            Address::Inbox { template, inbox } => format!("{template}/{inbox}"),
        }
    }

    /// Builds the address from the class and name stored in a row.
    ///
    /// # Errors
    /// `internal` if they do not form an address.
    pub fn from_row(class: &str, name: &str) -> Result<Address> {
        let prefix = if class == "instance" { "agent" } else { class };
        format!("{prefix}:{name}").parse().map_err(|cause: Error| {
            Error::internal(format!("a row holds no address: {class} {name}")).source(cause)
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self {
            Address::Agent(_) | Address::Instance { .. } => "agent",
            Address::Inbox { .. } => "topic",
            Address::Person(_) => "person",
            Address::Channel(_) => "channel",
            Address::Approval(_) => "approval",
        };
        write!(f, "{prefix}:{}", self.name())
    }
}

impl FromStr for Address {
    type Err = Error;
    fn from_str(text: &str) -> Result<Address> {
        let (class, name) = text.split_once(':').unwrap_or(("agent", text));
        if class == "person" && is_person_name(name) {
            return Ok(Address::Person(name.to_owned()));
        }
        let parts: Vec<&str> = name.split('/').collect();
        if parts.is_empty() || !parts.iter().all(|part| is_segment(part)) {
            return Err(malformed(text));
        }
        let owned = |part: &str| part.to_owned();
        match (class, parts.as_slice()) {
            ("agent", [name]) => Ok(Address::Agent(owned(name))),
            ("agent", [template, job]) => {
                Ok(Address::Instance { template: owned(template), job: owned(job) })
            }
            ("topic", [template, inbox]) => {
                Ok(Address::Inbox { template: owned(template), inbox: owned(inbox) })
            }
            ("channel", [slug]) => Ok(Address::Channel(owned(slug))),
            ("approval", [channel]) => Ok(Address::Approval(owned(channel))),
            _ => Err(malformed(text)),
        }
    }
}

/// Returns whether a text is a valid part of an address: letters, digits, `_` and `-`, starting
/// with a letter or digit.
pub fn is_segment(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=SEGMENT_BYTES_MAX).contains(&text.len())
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && text.bytes().all(is_plain)
}

/// Returns whether a text is a valid person's name. Wider than [`is_segment`], because names come
/// from the operating system or the company's directory.
pub fn is_person_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    (1..=PERSON_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

fn malformed(text: &str) -> Error {
    let shown = truncate_chars(text, 80);
    Error::invalid(format!("`{}` is not an address", shown.escape_debug()))
        .code("malformed_address")
        .hint("use agent:NAME, topic:TEMPLATE/INBOX, person:NAME or channel:NAME")
}

impl TryFrom<String> for Address {
    type Error = Error;
    fn try_from(text: String) -> Result<Address> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_survives_its_text() {
        for text in [
            "agent:gitea-lead",
            "agent:aws-account-lead/01a20055-441c-7543-b08c-8b3d2fe49395",
            "topic:aws-account-lead/provision",
            "person:ada",
            "person:jo.doe@example.org",
            "channel:workshop-names-7",
            "approval:aws",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            if let Some(class) = address.class() {
                assert_eq!(Address::from_row(class, &address.name()).unwrap(), address);
            }
        }
        assert_eq!("robbo".parse::<Address>().unwrap(), Address::Agent("robbo".to_owned()));
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        let long = "a".repeat(64);
        for text in [
            "",
            ":",
            "agent:",
            "topic:a",
            "topic:a/b/c",
            "topic:/a",
            "topic:a/",
            "person:a/b",
            "agent:a:b",
            "agent: a",
            "agent:-a",
            "agent:_a",
            "group:a",
            "person:ä",
            "a\0b",
            &long,
            "approval:a/b",
            "TOPIC:a/b",
        ] {
            let refused = text.parse::<Address>().unwrap_err();
            assert_eq!(refused.code_str(), "malformed_address", "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_parses_prints_as_itself(text in "[a-z:/_A-Z0-9-]{0,40}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
            }
        }
    }
}
