//! The chain that a message belongs to: its first message, and the distance from it.

use crate::base::MailId;

/// The message that caused an agent's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The message.
    pub id: MailId,
    /// Its number in the channel.
    pub sequence: i64,
    /// The first message of its chain.
    pub root: MailId,
    /// Its distance from that.
    pub hop: u32,
}

/// The position of a message in a chain; without a root, it begins one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The first message of its chain.
    pub root: Option<MailId>,
    /// Its distance from that.
    pub hop: u32,
}

/// Returns the position of a message. `guard_from` is the first message that counts: a person
/// resumed the channel there, and chains from before it start again.
pub(super) fn origin(cause: Option<&Cause>, guard_from: i64) -> Origin {
    match cause {
        Some(cause) if cause.sequence >= guard_from => {
            Origin { root: Some(cause.root.clone()), hop: cause.hop.saturating_add(1) }
        }
        _ => Origin { root: None, hop: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_goes_on_until_a_person_lets_it_begin_anew() {
        let id: MailId = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
        let root: MailId = "018bcfe5-6800-7000-8000-000000000000".parse().unwrap();
        let cause = Cause { id, sequence: 5, root: root.clone(), hop: 3 };
        assert_eq!(origin(None, 0), Origin { root: None, hop: 0 });
        assert_eq!(origin(Some(&cause), 5), Origin { root: Some(root), hop: 4 });
        assert_eq!(origin(Some(&cause), 6), Origin { root: None, hop: 0 });
    }
}
