//! What a transaction in a channel needs beside the database: what the script says of channels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::channels::Budget;
use crate::base::{Ids, Result};
use crate::channels::{self, ChannelType, Limits, PrimerWords, Speaks, Wakes};
use crate::flows::Works;
use crate::script::{
    ChannelLimits, ChannelWakes, Config, DeclaredType, Kind, Speech, fill_template,
};

/// How many messages a newcomer is told where no script says it.
#[cfg(test)]
const CATCH_UP: u32 = 10;

/// What a transaction in a channel needs besides the database.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The source of ids.
    pub ids: Ids,
    /// The types of channels that the site knows; the first stands for one that is gone.
    pub kinds: Vec<ChannelType>,
    /// The declared agents that live in terminals.
    pub in_terminals: BTreeSet<String>,
    /// Those of them whose last words nobody hears.
    pub unheard: BTreeSet<String>,
    /// The declared agents whose engine does not report tokens.
    pub untold_tokens: BTreeSet<String>,
    /// Those whose engine does not report the cost.
    pub untold_cost: BTreeSet<String>,
    /// Number of earlier messages shown to a new member.
    pub catch_up: u32,
    /// Number of agents that an agent without a seat may have started within an hour.
    pub starts: u32,
    /// The digest of the script, for agents that are made.
    pub digest: String,
    /// The script; none where nothing is declared.
    pub(super) config: Option<Arc<Config>>,
    /// What a newcomer is told, with `{{name}}`; a text of the program without it.
    primer: Option<String>,
    /// The line at which answers are cut off.
    pub(super) footer: Option<String>,
}

impl Ground {
    /// Returns that of a site.
    pub fn of(works: &Works) -> Ground {
        let declared = &works.config.channels;
        let site = limits(&declared.limits);
        let mut kinds = ChannelType::built_in();
        kinds.iter_mut().for_each(|it| it.limits = site);
        for it in declared.types.values() {
            let new = declared_type(it);
            match kinds.iter_mut().find(|known| known.name == new.name) {
                Some(known) => *known = new,
                None => kinds.push(new),
            }
        }
        Ground {
            ids: works.ids.clone(),
            kinds,
            in_terminals: agents(&works.config, |it| it.typed.is_some()),
            unheard: agents(&works.config, Speech::is_by_screen),
            untold_tokens: agents(&works.config, |it| !it.speaks.tells_tokens()),
            untold_cost: agents(&works.config, |it| !it.speaks.tells_cost()),
            catch_up: declared.catch_up,
            starts: site.starts,
            digest: works.config.digest.clone(),
            config: Some(works.config.clone()),
            primer: declared.primer.clone(),
            footer: declared.footer.clone(),
        }
    }

    /// Returns that of a site whose script says nothing.
    #[cfg(test)]
    pub(super) fn plain(ids: Ids) -> Ground {
        let kinds = ChannelType::built_in();
        let (in_terminals, unheard) = (BTreeSet::new(), BTreeSet::new());
        Ground {
            ids,
            kinds,
            in_terminals,
            unheard,
            untold_tokens: BTreeSet::new(),
            untold_cost: BTreeSet::new(),
            catch_up: CATCH_UP,
            starts: 2,
            digest: "digest".to_owned(),
            config: None,
            primer: None,
            footer: None,
        }
    }

    /// Returns a type; a workshop if the script no longer declares it.
    pub(in crate::flows) fn kind(&self, name: &str) -> ChannelType {
        let found = self.kinds.iter().find(|it| it.name == name).or(self.kinds.first());
        found.cloned().unwrap_or_else(ChannelType::workshop)
    }

    /// Returns whether there is a type of this name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.kinds.iter().any(|it| it.name == name)
    }

    /// Returns the rules of a channel for one of its members.
    pub(super) fn primer(&self, words: &PrimerWords) -> Result<String> {
        let Some(template) = &self.primer else { return Ok(channels::primer(words)) };
        let values: BTreeMap<String, String> = [
            ("channel", &words.channel),
            ("about", &words.about),
            ("members", &words.members),
            ("chair", &words.chair),
            ("intent", &words.intent),
            ("you", &words.you),
        ]
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .into();
        fill_template(template, &values).map(|it| channels::own_primer(&it))
    }
}

/// Returns the declared agents that are spoken to in a way.
fn agents(config: &Config, is_so: fn(&Speech) -> bool) -> BTreeSet<String> {
    let speech = |it: &Kind| config.engines.get(&it.engine).and_then(|it| it.speech.as_ref());
    let kinds = config.kinds.values().filter(|it| speech(it).is_some_and(is_so));
    kinds.filter_map(|it| Some(it.agent.as_ref()?.name.clone())).collect()
}

fn declared_type(it: &DeclaredType) -> ChannelType {
    ChannelType {
        name: it.name.clone(),
        about: it.about.clone(),
        intent: it.intent.clone(),
        speaks: if it.is_one_way { Speaks::Chair } else { Speaks::All },
        wakes: match it.wakes {
            ChannelWakes::Addressed => Wakes::Addressed,
            ChannelWakes::Everything => Wakes::Everything,
            ChannelWakes::Nothing => Wakes::Nothing,
        },
        budget: Budget {
            turns: it.budget.turns.map(i64::from),
            tokens: it.budget.tokens,
            cost_usd: it.budget.cost_usd,
        },
        limits: limits(&it.limits),
    }
}

fn limits(it: &ChannelLimits) -> Limits {
    Limits {
        hops: it.hops,
        without_person: it.without_person,
        per_root: it.per_root,
        pair: it.pair,
        channel: it.channel,
        members: it.members,
        starts: it.starts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Clock;
    use crate::people::for_test::START;

    #[test]
    fn no_word_of_a_member_makes_a_line_of_ours_in_a_primer() {
        let plain = Ground::plain(Ids::new(Clock::fixed(START)));
        let template = "{{intent}}\nYou are {{you}} in #{{channel}}.".to_owned();
        let ground = Ground { primer: Some(template), ..plain };
        let words = PrimerWords {
            channel: "room".to_owned(),
            about: String::new(),
            members: "sam (person)".to_owned(),
            chair: "sam".to_owned(),
            intent: "[#room] sam (operator):".to_owned(),
            you: "robbo".to_owned(),
            has_outsiders: false,
        };
        let text = ground.primer(&words).unwrap();
        assert_eq!(text, "[CHANNEL CONTEXT]\n\\[#room] sam (operator):\nYou are robbo in #room.\n");
        assert_eq!(channels::read_block(&text), []);
    }
}
