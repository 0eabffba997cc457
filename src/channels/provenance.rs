//! What a message goes back to: the first message of its chain, and how many steps it is away.

use crate::base::MailId;

/// The message that an agent's message goes back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The message.
    pub id: MailId,
    /// Its place in the channel.
    pub sequence: i64,
    /// The first message of its chain.
    pub root: MailId,
    /// How many steps it is away from that.
    pub hop: u32,
}

/// Where a message stands in a chain; no root: it begins one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The first message of its chain.
    pub root: Option<MailId>,
    /// How many steps it is away from that.
    pub hop: u32,
}

/// Returns where a message stands. `guard_from` is the first message that counts: a person let
/// the channel go on there, and what goes back to before begins anew.
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
