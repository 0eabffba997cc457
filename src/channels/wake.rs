//! Which agents a message wakes; the others get it as context with a later one.

use std::collections::BTreeSet;

use crate::channels::kind::{Speaks, Wakes};
use crate::channels::message::Sort;

/// Handles that no member can have.
pub(super) const RESERVED: [&str; 3] = ["all", "chair", "here"];
/// Those of them that call somebody; `@here` is text.
pub(super) const CALLS: [&str; 2] = ["all", "chair"];
/// Longest acknowledgement, in words.
const ACK_WORDS_MAX: usize = 12;

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// A person of this site.
    Person,
    /// An agent.
    Agent,
    /// A member from outside.
    Outside,
    /// A handler or a schedule of the script.
    Script,
    /// The server.
    System,
}

impl Voice {
    /// Returns whether its messages wake only the members they mention.
    pub(super) fn is_guarded(self) -> bool {
        matches!(self, Voice::Agent | Voice::Outside)
    }
}

/// The properties of a message that decide who is woken.
#[derive(Clone, Debug)]
pub(super) struct Said<'a> {
    /// Who wrote it.
    pub voice: Voice,
    /// Whether the author is the chair.
    pub is_chair: bool,
    /// Its type.
    pub sort: Sort,
    /// Its text.
    pub text: &'a str,
    /// The handles and reserved words that it mentions, in lower case.
    pub mentions: &'a BTreeSet<String>,
    /// Whether the message that caused it asks something.
    pub answers_a_question: bool,
}

/// A member that may be woken.
#[derive(Clone, Debug)]
pub(super) struct Listener<'a> {
    /// Its handle.
    pub handle: &'a str,
    /// Its agent.
    pub agent: &'a str,
    /// Whether it is the chair.
    pub is_chair: bool,
    /// Whether it is the only active member besides the author.
    pub is_only_other: bool,
}

/// Returns whether a message wakes a member; otherwise it is context for the next one that does.
pub(super) fn wakes((speaks, wakes): (Speaks, Wakes), said: &Said<'_>, who: &Listener<'_>) -> bool {
    if said.voice == Voice::System || wakes == Wakes::Nothing {
        return false;
    }
    let is_weighty = matches!(said.sort, Sort::Delegation | Sort::Escalation);
    let is_thanks = said.voice.is_guarded() && is_acknowledgement(said.text);
    if is_thanks && !said.is_chair && !is_weighty && !said.answers_a_question {
        return false;
    }
    let may_call_all = !said.voice.is_guarded() || said.is_chair;
    let is_called = |word: &str| said.mentions.contains(&word.to_ascii_lowercase());
    let is_mentioned = is_called(who.handle)
        || is_called(who.agent)
        || (who.is_chair && is_called("chair"))
        || (may_call_all && is_called("all"));
    let is_to_everybody = may_call_all && said.mentions.is_empty();
    is_mentioned
        || is_to_everybody
        || who.is_only_other
        || wakes == Wakes::Everything
        || (said.sort == Sort::Escalation && who.is_chair)
        || (speaks == Speaks::Chair && said.is_chair)
}

/// Returns whether a text is an acknowledgement: short, without a mention, a question, a link or
/// code.
pub(super) fn is_acknowledgement(text: &str) -> bool {
    let is_plain = !text.contains(['@', '?', '`']) && !text.contains("://");
    is_plain && text.split_whitespace().take(ACK_WORDS_MAX + 1).count() <= ACK_WORDS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::mention::mentions;

    const WORKSHOP: (Speaks, Wakes) = (Speaks::All, Wakes::Addressed);

    fn woken(
        rule: (Speaks, Wakes),
        voice: Voice,
        is_chair: bool,
        sort: Sort,
        text: &str,
    ) -> String {
        let mentions = mentions(text);
        let said =
            Said { voice, is_chair, sort, text, mentions: &mentions, answers_a_question: false };
        let mut found = String::new();
        for (letter, handle, is_chair) in [("r", "Robbo", false), ("p", "paula", true)] {
            let agent = if handle == "Robbo" { "robbo-2" } else { "paula" };
            let who = Listener { handle, agent, is_chair, is_only_other: false };
            if wakes(rule, &said, &who) {
                found.push_str(letter);
            }
        }
        found
    }

    const LONG: &str = "I would keep them beside the persona because a skill is part of who that \
        persona is";

    #[test]
    fn who_is_woken_by_whom() {
        use Sort::{Delegation, Escalation, Message};
        use Voice::{Agent, Outside, Person, Script, System};
        let everything = (Speaks::All, Wakes::Everything);
        let nothing = (Speaks::All, Wakes::Nothing);
        let broadcast = (Speaks::Chair, Wakes::Addressed);
        for (rule, voice, is_chair, sort, text, expected) in [
            (WORKSHOP, Person, false, Message, "Where should skills live?", "rp"),
            (WORKSHOP, Person, false, Message, "@paula do you agree?", "p"),
            (WORKSHOP, Person, false, Message, "@robbo-2 and you?", "r"),
            (WORKSHOP, Person, false, Message, "@all done?", "rp"),
            (WORKSHOP, Person, false, Message, "@chair decide", "p"),
            (WORKSHOP, Person, false, Message, "@sam look", ""),
            (WORKSHOP, Script, false, Message, "done, next, blocked", "rp"),
            (WORKSHOP, System, false, Message, "@robbo joined", ""),
            (WORKSHOP, Agent, false, Message, LONG, ""),
            (WORKSHOP, Agent, false, Message, "@robbo what do you think of this?", "r"),
            (WORKSHOP, Agent, false, Message, "@all what do you think of this?", ""),
            (WORKSHOP, Agent, true, Message, "thanks", "rp"),
            (WORKSHOP, Agent, false, Delegation, "@robbo go", "r"),
            (WORKSHOP, Agent, false, Escalation, "I cannot go on", "p"),
            // Only where they may wake agents at all.
            (WORKSHOP, Outside, false, Message, LONG, ""),
            (WORKSHOP, Outside, false, Message, "@robbo what do you think of this?", "r"),
            (WORKSHOP, Outside, false, Message, "@all what do you think of this?", ""),
            (everything, Agent, false, Message, LONG, "rp"),
            (everything, Agent, false, Message, "thank you all", ""),
            (nothing, Person, true, Message, "@all wake up", ""),
            (broadcast, Agent, true, Message, "@sam the site is down", "rp"),
        ] {
            let known = ["robbo", "robbo-2", "paula", "sam", "all", "chair"];
            assert!(mentions(text).iter().all(|word| known.contains(&word.as_str())), "{text}");
            let found = woken(rule, voice, is_chair, sort, text);
            assert_eq!(found, expected, "{rule:?} {voice:?} {sort:?} {text}");
        }
    }

    #[test]
    fn an_answer_to_a_question_wakes_also_if_it_is_short() {
        let mentions = BTreeSet::new();
        for (answers_a_question, expected) in [(false, false), (true, true)] {
            let said = Said {
                voice: Voice::Agent,
                is_chair: false,
                sort: Sort::Message,
                text: "Yes.",
                mentions: &mentions,
                answers_a_question,
            };
            let who = Listener { handle: "a", agent: "a", is_chair: false, is_only_other: true };
            assert_eq!(wakes(WORKSHOP, &said, &who), expected);
        }
    }
}
