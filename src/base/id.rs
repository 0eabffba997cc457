//! Identifiers: UUIDv7 for rows, git object ids for versions, digests and random tokens.

use std::fmt;
use std::str::FromStr;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::{ContextV7, Timestamp, Uuid};

use crate::base::{Clock, Error, ErrorKind, Result};

macro_rules! text_id {
    ($(#[$doc:meta] $name:ident $noun:literal $check:ident;)*) => {$(
        #[$doc]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the text of this id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                if $check(&text) {
                    return Ok(Self(text));
                }
                let shown = crate::base::truncate_chars(&text, 80);
                let message = format!("`{shown}` is not a valid {} id", $noun);
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let text = String::column_result(value)?;
                Self::try_from(text).map_err(|cause| FromSqlError::Other(Box::new(cause)))
            }
        }
    )*};
}

text_id! {
    /// Names a job.
    JobId "job" is_uuid;
    /// Names a Topic.
    TopicId "topic" is_uuid;
    /// Names a message in a Topic.
    MessageId "message" is_uuid;
    /// Names a message between addresses; messages in Topics have ids of their own.
    MailId "message" is_uuid;
    /// Names a block: the input that an agent is given at once.
    BlockId "block" is_uuid;
    /// Names a handover.
    HandoffId "handoff" is_uuid;
    /// Names a conversation with the assistant.
    ChatId "conversation" is_uuid;
    /// Names a message of a conversation with the assistant.
    ChatMessageId "message" is_uuid;
    /// Names a tool call of the assistant.
    CallId "call" is_uuid;
    /// Names a channel.
    ChannelId "channel" is_uuid;
    /// Names a turn of an agent.
    TurnId "turn" is_uuid;
    /// Names an approval.
    ApprovalId "approval" is_uuid;
    /// Names a proposal.
    ProposalId "proposal" is_uuid;
    /// Names an attempt to commit a proposal.
    AttemptId "attempt" is_uuid;
    /// Names a person.
    PersonId "person" is_uuid;
    /// Names a person's token; not the token itself.
    TokenId "token" is_uuid;
    /// A git object id (40 or 64 lower-case hexadecimal digits) of a blob, tree or commit.
    BlobId "git object" is_object_id;
}

impl BlobId {
    /// Returns whether it is git's null id, all zeros, which stands for a missing object.
    pub fn is_absent(&self) -> bool {
        self.as_str().bytes().all(|it| it == b'0')
    }
}

fn is_uuid(text: &str) -> bool {
    // Only the canonical spelling: an id has one text, in SQL and in folder names.
    text.len() == 36
        && Uuid::try_parse(text).is_ok()
        && !text.bytes().any(|b| b.is_ascii_uppercase())
}

fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64)
        && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The source of ids: UUIDv7 from the clock, increasing within one process.
#[derive(Clone, Debug)]
pub struct Ids {
    clock: Clock,
    context: std::sync::Arc<std::sync::Mutex<ContextV7>>,
    /// The last number, if ids are sequential.
    count: Option<std::sync::Arc<std::sync::atomic::AtomicU64>>,
}

impl Ids {
    /// Returns a source of ids based on `clock`.
    pub fn new(clock: Clock) -> Ids {
        let context = std::sync::Arc::new(std::sync::Mutex::new(ContextV7::new()));
        Ids { clock, context, count: None }
    }

    /// Returns a source of sequential ids starting at 1, so that a test gets the same ids every
    /// time.
    pub fn numbered() -> Ids {
        Ids { count: Some(std::sync::Arc::default()), ..Ids::new(Clock::system()) }
    }

    /// Returns a new id.
    pub fn mint<T: TryFrom<String, Error = Error>>(&self) -> T {
        if let Some(count) = &self.count {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
            return T::try_from(format!("00000000-0000-7000-8000-{number:012x}"))
                .unwrap_or_else(|_| unreachable!("such a number is an id"));
        }
        let now = self.clock.now().0.max(0).unsigned_abs();
        let nanos = u32::try_from(now % 1000).unwrap_or(0) * 1_000_000;
        let context = self.context.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let uuid = Uuid::new_v7(Timestamp::from_unix(&*context, now / 1000, nanos));
        T::try_from(uuid.to_string())
            .unwrap_or_else(|_| unreachable!("a UUID in lower case is an id"))
    }
}

/// Returns the SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
pub fn digest_hex(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

/// Returns `prefix` followed by 256 random bits from the kernel as 64 hexadecimal digits.
///
/// # Errors
/// `unavailable` if the kernel provides no randomness.
pub fn random_token(prefix: &str) -> Result<String> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Error::unavailable(format!("no random bytes from the kernel: {cause}")))?;
    Ok(format!("{prefix}{}", hex(&bytes)))
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;

    #[test]
    fn ids_rise_even_when_the_clock_stands() {
        let ids = Ids::new(Clock::fixed(Millis(1_700_000_000_000)));
        let minted: Vec<JobId> = (0..100).map(|_| ids.mint()).collect();
        assert!(minted.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn an_id_has_one_spelling() {
        assert!("018BCFE5-6800-7000-8000-000000000000".parse::<JobId>().is_err());
        assert!("018bcfe5-6800-7000-8000-000000000000".parse::<JobId>().is_ok());
        assert!("../../etc/passwd".parse::<JobId>().is_err());
        assert!("deadbeef".parse::<BlobId>().is_err());
    }

    #[test]
    fn a_digest_is_sha_256() {
        assert_eq!(
            digest_hex(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
