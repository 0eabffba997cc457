//! When agents that go on alone are stopped: decided by numbers, in the transaction that posts.

use crate::channels::kind::Limits;

/// Why a channel waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Answers to answers went on too long.
    Hops,
    /// Agents wrote too much since a person spoke.
    NoPerson,
    /// One author came again and again in one chain.
    Cycle,
    /// Too much was written within a minute.
    Rate,
    /// The channel's budget is used up.
    Budget,
    /// A person stopped it.
    Person,
}

impl Pause {
    /// All of them.
    pub const ALL: [Pause; 6] =
        [Pause::Hops, Pause::NoPerson, Pause::Cycle, Pause::Rate, Pause::Budget, Pause::Person];

    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Pause::Hops => "hops",
            Pause::NoPerson => "no_person",
            Pause::Cycle => "cycle",
            Pause::Rate => "rate",
            Pause::Budget => "budget",
            Pause::Person => "person",
        }
    }

    /// Returns the pause with this word.
    pub fn parse(word: &str) -> Option<Pause> {
        Pause::ALL.into_iter().find(|pause| pause.as_str() == word)
    }

    /// Returns whether a line of a person ends it.
    pub fn ends_with_a_line(self) -> bool {
        !matches!(self, Pause::Budget | Pause::Person)
    }

    /// Says why, for the channel.
    pub fn sentence(self, limits: &Limits) -> String {
        match self {
            Pause::Hops => format!("Paused: {} answers in a row without a person.", limits.hops),
            Pause::NoPerson => {
                format!("Paused: {} messages of agents without a person.", limits.without_person)
            }
            Pause::Cycle => {
                let times = limits.per_root;
                format!("Paused: an agent spoke {times} times about the same message.")
            }
            Pause::Rate => "Paused: agents wrote too much within a minute.".to_owned(),
            Pause::Budget => "Paused: the budget is used up.".to_owned(),
            Pause::Person => "Paused by a person.".to_owned(),
        }
    }
}

/// How far agents have gone, with the message that is posted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Talk {
    /// How many steps the message is away from the beginning of its chain.
    pub hop: u32,
    /// Messages of agents since a person spoke.
    pub without_person: u32,
    /// Messages of this author in this chain.
    pub per_root: u32,
    /// Messages of this author within the last minute.
    pub pair: u32,
    /// Messages of all agents within the last minute.
    pub channel: u32,
}

/// Returns why a channel is paused after a message of an agent.
pub(super) fn pause(limits: &Limits, talk: &Talk) -> Option<Pause> {
    if talk.hop >= limits.hops {
        return Some(Pause::Hops);
    }
    if talk.per_root >= limits.per_root {
        return Some(Pause::Cycle);
    }
    if talk.without_person >= limits.without_person {
        return Some(Pause::NoPerson);
    }
    (talk.pair > limits.pair || talk.channel > limits.channel).then_some(Pause::Rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_pauses_exactly_where_it_is() {
        let limits = Limits::default();
        let below = Talk { hop: 7, without_person: 19, per_root: 5, pair: 10, channel: 30 };
        assert_eq!(pause(&limits, &below), None);
        for (talk, expected) in [
            (Talk { hop: 8, ..below }, Pause::Hops),
            (Talk { without_person: 20, ..below }, Pause::NoPerson),
            (Talk { per_root: 6, ..below }, Pause::Cycle),
            (Talk { pair: 11, ..below }, Pause::Rate),
            (Talk { channel: 31, ..below }, Pause::Rate),
        ] {
            assert_eq!(pause(&limits, &talk), Some(expected), "{talk:?}");
        }
    }

    #[test]
    fn every_word_leads_back_to_its_pause() {
        for it in Pause::ALL {
            assert_eq!(Pause::parse(it.as_str()), Some(it));
            assert!(it.sentence(&Limits::default()).starts_with("Paused"));
        }
    }
}
