//! When a channel pauses because agents continue without a person.

use crate::channels::kind::Limits;

/// Why a channel is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The chain of replies is too long.
    Hops,
    /// Too many messages of agents since a person wrote.
    NoPerson,
    /// One author posted too often in one chain.
    Cycle,
    /// Too many messages within a minute.
    Rate,
    /// The channel's budget is used up.
    Budget,
    /// A person paused it.
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

    /// Returns whether a person's message ends it.
    pub fn ends_with_a_line(self) -> bool {
        !matches!(self, Pause::Budget | Pause::Person)
    }

    /// Returns the reason as a sentence for the channel.
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

/// The counters after the message that is being posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Talk {
    /// The distance of the message from the beginning of its chain.
    pub hop: u32,
    /// Messages of agents since a person last wrote.
    pub without_person: u32,
    /// Messages of this author in this chain.
    pub per_root: u32,
    /// Messages of this author within the last minute.
    pub pair: u32,
    /// Messages of all agents within the last minute.
    pub channel: u32,
}

/// Returns why an agent's message pauses the channel, if it does.
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
