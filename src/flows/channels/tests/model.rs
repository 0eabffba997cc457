//! Whatever is done in channels, they stay sound.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::api::channels::PostRequest;
use crate::base::{Actor, Result};
use crate::channels::{self, Channel};
use crate::flows::channels::tests::{AGENTS, Site, insert_job, job, place};
use crate::flows::channels::{fresh, members, seat};
use crate::mail::agent;
use crate::mail::{self, TurnEnd};

/// One step of the model.
#[derive(Clone, Debug)]
enum Act {
    Make,
    Seat(usize, usize),
    Leave(usize, usize),
    Mute(usize, usize, bool),
    Say(usize, usize, usize),
    Turn(usize, usize),
    /// A turn in which an agent posts by verb, and says nothing at its end.
    Post(usize, usize),
    HandOver(usize),
    Complete(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => Just(Act::Make),
        3 => (0..3usize, 0..3usize).prop_map(|(room, agent)| Act::Seat(room, agent)),
        1 => (0..3usize, 0..4usize).prop_map(|(room, at)| Act::Leave(room, at)),
        1 => (0..3usize, 0..4usize, any::<bool>())
            .prop_map(|(room, at, is)| Act::Mute(room, at, is)),
        5 => (0..3usize, 0..2usize, 0..5usize)
            .prop_map(|(room, who, text)| Act::Say(room, who, text)),
        6 => (0..3usize, 0..5usize).prop_map(|(agent, text)| Act::Turn(agent, text)),
        2 => (0..3usize, 0..5usize).prop_map(|(agent, text)| Act::Post(agent, text)),
        1 => (0..3usize).prop_map(Act::HandOver),
        1 => (0..3usize).prop_map(Act::Complete),
    ]
}

const TEXTS: [&str; 5] =
    ["What next?", "@robbo and you?", "@paula @con look", "thanks", "I would rather do it later."];

impl Site {
    /// Does one thing, or is refused; both are right.
    fn step(&mut self, rooms: &mut Vec<Channel>, act: &Act) {
        let room = |at: &usize| rooms.get(*at).cloned();
        match act {
            Act::Make if rooms.len() < 3 => {
                let made = self.room(&format!("Room {}", rooms.len()), &[]);
                rooms.push(made);
            }
            Act::Make => {}
            Act::Seat(at, agent) => {
                let Some(room) = room(at) else { return };
                let _: Result<()> = self.seat(&room, AGENTS[*agent]);
            }
            Act::Leave(at, who) | Act::Mute(at, who, _) => {
                let Some(room) = room(at) else { return };
                let members = channels::members(&self.c, room.number).unwrap();
                let Some(member) = members.get(*who).cloned() else { return };
                let now = self.channel(&room);
                let _: Result<()> = self.try_write(|tx, ground| match act {
                    Act::Mute(_, _, is_muted) => {
                        channels::set_muted(tx, &now, &member, *is_muted, &Actor::System)
                    }
                    _ => {
                        now.require_open()?;
                        members::take_out(tx, ground, (&now, &member), (&Actor::System, None))
                    }
                });
            }
            Act::Say(at, who, text) => {
                let Some(room) = room(at) else { return };
                let _: Result<i64> = self.say(*who, &room, TEXTS[*text]);
            }
            Act::Turn(agent, text) => {
                let Some((agent, room)) = self.seated(AGENTS[*agent]) else { return };
                self.answer(&agent, &room, TEXTS[*text]);
            }
            Act::Post(agent, text) => {
                let Some((agent, room)) = self.seated(AGENTS[*agent]) else { return };
                let Some(block) = self.hear(&agent, &room) else { return };
                let request = PostRequest { body: TEXTS[*text].to_owned(), ..Default::default() };
                let _: Result<i64> = self.post_as(&agent, &room, &request);
                self.end(&agent, Some(&block.id), TurnEnd::Answered, "[no-reply]");
            }
            Act::HandOver(agent) => {
                let Some((agent, room)) = self.seated(AGENTS[*agent]) else { return };
                if !agent.ends_with("-3") {
                    self.hand_over(&agent, &room);
                }
            }
            Act::Complete(at) => {
                let Some(room) = room(at) else { return };
                let now = self.channel(&room);
                let _: Result<()> = self.try_write(|tx, _| {
                    channels::complete(tx, &now, &Actor::System)?;
                    channels::release_all(tx, now.number)
                });
            }
        }
    }

    /// Returns the agent that sits for a persona, and where.
    fn seated(&self, persona: &str) -> Option<(String, Channel)> {
        [persona.to_owned(), format!("{persona}-2"), format!("{persona}-3")].into_iter().find_map(
            |agent| {
                let room = channels::seat_of(&self.c, &agent).unwrap()?;
                Some((agent, channels::find(&self.c, room).unwrap()))
            },
        )
    }

    /// Gives the seat of an agent to a fresh one, which runs.
    fn hand_over(&mut self, agent: &str, room: &Channel) {
        self.write(|tx, ground| {
            let c = tx.connection();
            let old = agent::find(c, agent)?.unwrap();
            let new = fresh(tx, &old, "digest")?;
            let start = job(place(&new.name));
            insert_job(tx, &start, &new.name);
            agent::start(tx, &new, &start, "digest")?;
            let members = channels::members(c, room.number)?;
            let member = members.iter().find(|it| it.agent.as_deref() == Some(agent)).unwrap();
            let who = (&old, new.name.as_str(), &Actor::System);
            seat::take_over(tx, ground, (room, member), who, None)?;
            agent::set_heir(tx, agent, Some(&new.name))
        });
    }

    /// Returns who should get what is said next: each member with an agent that is not muted.
    fn listeners(&self, room: &Channel) -> BTreeSet<String> {
        let members = channels::members(&self.c, room.number).unwrap();
        members.iter().filter(|it| it.is_active()).filter_map(|it| it.agent.clone()).collect()
    }

    /// Each message that was said since is there once for each member but its author.
    fn require_told(&self, before: &[(Channel, BTreeSet<String>)]) {
        for (room, listeners) in before {
            let since = channels::after(&self.c, room.number, room.last_sequence, 1_000).unwrap();
            for spoken in since.iter().filter(|it| it.handle.is_some()) {
                let heard = mail::heard_in_room(&self.c, &spoken.id).unwrap();
                let told: BTreeSet<String> = heard.iter().map(|it| it.agent.clone()).collect();
                let own = spoken.agent.as_ref();
                let expected = listeners.iter().filter(|it| Some(*it) != own).cloned();
                assert_eq!(told, expected.collect(), "{spoken:?}");
            }
        }
    }

    fn require_sound(&self, rooms: &[Channel]) {
        let mut seated = BTreeSet::new();
        for room in rooms {
            let now = self.channel(room);
            let members = channels::members(&self.c, room.number).unwrap();
            let here: Vec<_> = members.iter().filter(|it| !it.has_left()).collect();
            let chairs = here.iter().filter(|it| it.is_chair).count();
            assert_eq!(chairs, usize::from(now.status.is_open()), "{now:?} {here:?}");
            for agent in here.iter().filter(|it| it.is_active()).filter_map(|it| it.agent.as_ref())
            {
                assert!(seated.insert(agent.clone()), "{agent} sits twice");
            }
            let all = channels::after(&self.c, room.number, 0, 1_000).unwrap();
            let expected: Vec<i64> = (1..=now.last_sequence).collect();
            assert_eq!(all.iter().map(|it| it.sequence).collect::<Vec<_>>(), expected);
            for spoken in &all {
                let heard = mail::heard_in_room(&self.c, &spoken.id).unwrap();
                let agents: BTreeSet<&str> = heard.iter().map(|it| it.agent.as_str()).collect();
                assert_eq!(agents.len(), heard.len(), "twice for one agent");
                let name = |it: &&str| it.split('-').next().unwrap_or_default().to_owned();
                let personas: BTreeSet<String> = agents.iter().map(name).collect();
                assert_eq!(personas.len(), agents.len(), "twice for one member: {heard:?}");
                let own = spoken.agent.as_deref().unwrap_or_default();
                assert!(!agents.contains(own), "an agent hears itself");
            }
            if !now.status.is_open() {
                assert!(here.is_empty());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Fails with `WB_WITHOUT=post_tx`.
    #[test]
    fn g38_whatever_happens_a_channel_has_one_chair_and_no_gap(
        acts in prop::collection::vec(act(), 1..120),
    ) {
        let mut site = Site::new();
        let mut rooms = Vec::new();
        for act in &acts {
            let now = rooms.iter().map(|it| (site.channel(it), site.listeners(it)));
            let before: Vec<_> = now.collect();
            site.step(&mut rooms, act);
            site.require_told(&before);
            site.require_sound(&rooms);
        }
    }
}
