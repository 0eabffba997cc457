//! Agents that would talk for ever stop exactly where a limit is, with one line; a person's line
//! lets them go on, and limits are refused by name.

use crate::api::channels::{MemberRequest, PostRequest};
use crate::base::Result;
use crate::channels::{self, Channel, ChannelType, Limits, NewChannel, Pause};
use crate::flows::channels::tests::{AGENTS, Site, job, place};
use crate::flows::channels::{joining, speak};
use crate::people::Caller;

impl Site {
    fn limit(&mut self, change: impl Fn(&mut Limits)) {
        self.ground.kinds.iter_mut().for_each(|kind| change(&mut kind.limits));
    }

    /// Lets all agents hear and answer until none is woken any more; returns how many turns that
    /// took.
    fn settle(&mut self, room: &Channel, answer: impl Fn(&str) -> String) -> usize {
        let mut turns = 0;
        loop {
            let before = turns;
            for agent in AGENTS {
                turns += usize::from(self.answer(agent, room, &answer(agent)));
            }
            assert!(turns < 200, "they never stop");
            if turns == before {
                return turns;
            }
        }
    }

    fn pauses(&self, room: &Channel) -> usize {
        let said = self.said(room);
        said.iter().filter(|it| it.0 == "*" && it.1.starts_with("Paused")).count()
    }

    fn reason(&self, room: &Channel) -> Option<Pause> {
        self.channel(room).paused.map(|it| it.0)
    }

    /// Posts in the turn of an agent.
    pub(super) fn post_as(
        &mut self,
        agent: &str,
        room: &Channel,
        request: &PostRequest,
    ) -> Result<i64> {
        let caller = Caller::Job { id: job(place(agent)), token_hash: String::new() };
        let slug = room.slug.clone();
        self.try_write(|tx, ground| speak::post_in_room(tx, ground, (&caller, &slug), request))
            .map(|it| it.sequence)
    }
}

fn next(agent: &str) -> &'static str {
    AGENTS[(place(agent) + 1) % AGENTS.len()]
}

fn words(text: &str) -> PostRequest {
    PostRequest { body: text.to_owned(), ..PostRequest::default() }
}

#[test]
fn three_agents_that_call_each_other_stop_at_the_hops_and_go_on_with_a_person() {
    let mut site = Site::new();
    let room = site.room("Ring", &AGENTS);
    let hops = usize::try_from(ChannelType::workshop().limits.hops).unwrap();
    let mut turns = 0;
    for round in 1..=3 {
        site.say(0, &room, "@robbo begin").unwrap();
        let more = site.settle(&room, |agent| format!("@{} what do you say?", next(agent)));
        // The answer that reached the limit woke somebody, who goes on with the next line.
        assert!(more == hops || (round > 1 && more == hops + 1), "round {round}: {more}");
        assert_eq!((site.pauses(&room), site.reason(&room)), (round, Some(Pause::Hops)));
        turns += more;
    }
    assert_eq!(site.by_agents(&room), turns);
}

#[test]
fn agents_that_call_everybody_stop_where_one_repeats_itself() {
    let mut site = Site::new();
    site.limit(|it| (it.hops, it.pair, it.channel) = (64, 1_000, 1_000));
    let room = site.room("Storm", &AGENTS);
    site.say(0, &room, "What next?").unwrap();
    let others = |agent: &str| {
        let names: Vec<String> =
            AGENTS.iter().filter(|it| **it != agent).map(|it| format!("@{it}")).collect();
        format!("{} do you agree with me?", names.join(" "))
    };
    site.settle(&room, others);
    assert_eq!((site.pauses(&room), site.reason(&room)), (1, Some(Pause::Cycle)));
    let said = site.said(&room);
    let of = |agent: &str| said.iter().filter(|it| it.0 == agent).count();
    let most = AGENTS.iter().map(|it| of(it)).max().unwrap();
    assert_eq!(most, usize::try_from(ChannelType::workshop().limits.per_root).unwrap());
}

#[test]
fn agents_stop_after_so_many_messages_without_a_person() {
    let mut site = Site::new();
    site.limit(|it| (it.without_person, it.hops, it.per_root) = (5, 64, 64));
    let room = site.room("Alone", &AGENTS);
    site.say(0, &room, "@robbo begin").unwrap();
    let turns = site.settle(&room, |agent| format!("@{} what do you say?", next(agent)));
    assert_eq!((turns, site.reason(&room)), (5, Some(Pause::NoPerson)));
    assert_eq!(site.pauses(&room), 1);
}

#[test]
fn thanks_and_talk_to_oneself_wake_nobody() {
    let mut site = Site::new();
    let room = site.room("Thanks", &AGENTS);
    for answer in ["Thank you all!", "You are welcome.", "I go on with it by myself, as I said."] {
        site.say(0, &room, "What next?").unwrap();
        let turns = site.settle(&room, |agent| format!("{answer} @{agent}"));
        assert_eq!(turns, AGENTS.len(), "{answer}");
    }
    assert_eq!(site.pauses(&room), 0);
}

#[test]
fn an_agent_that_posts_in_a_loop_is_refused_and_its_answers_pause_the_channel() {
    let mut site = Site::new();
    site.limit(|it| (it.per_root, it.without_person) = (1_000, 1_000));
    let room = site.room("Loop", &["robbo"]);
    site.say(0, &room, "@robbo begin").unwrap();
    let block = site.hear("robbo", &room).unwrap();
    let pair = usize::try_from(ChannelType::workshop().limits.pair).unwrap();
    let mut refused = Ok(0);
    for at in 0..=pair {
        refused = site.post_as("robbo", &room, &words(&format!("line {at}")));
        assert_eq!(refused.is_ok(), at < pair, "{at}: {refused:?}");
    }
    assert_eq!(refused.unwrap_err().code_str(), "too_fast");
    assert_eq!(site.by_agents(&room), pair, "a refused one changes nothing");
    // What it says last is posted, and the channel pauses.
    site.end("robbo", Some(&block.id), crate::mail::TurnEnd::Answered, "Done with all of that.");
    assert_eq!(site.by_agents(&room), pair + 1);
    assert_eq!((site.pauses(&room), site.reason(&room)), (1, Some(Pause::Rate)));
    let refused = site.post_as("robbo", &room, &words("more")).unwrap_err();
    assert_eq!(refused.code_str(), "private_turn", "its turn is over");
}

#[test]
fn budgets_of_tokens_and_of_money_pause_as_that_of_turns_does() {
    for field in ["tokens", "cost_usd"] {
        let mut site = Site::new();
        let room = site.room("Budget", &["robbo"]);
        let mut change = site.channel(&room);
        // A turn takes 10 tokens and a cent.
        match field {
            "tokens" => change.budget.tokens = Some(25),
            _ => change.budget.cost_usd = Some(0.025),
        }
        site.write(|tx, _| channels::change(tx, &change, &crate::base::Actor::System));
        for at in 1..=5 {
            site.say(0, &room, &format!("Question {at}?")).unwrap();
            assert_eq!(site.answer("robbo", &room, "[no-reply]"), at <= 3, "{field} {at}");
        }
        assert_eq!((site.pauses(&room), site.reason(&room)), (1, Some(Pause::Budget)), "{field}");
    }
}

#[test]
fn who_may_not_speak_or_come_is_refused_by_name() {
    let mut site = Site::new();
    site.limit(|it| it.members = 3);
    let room = site.room("Names", &["robbo", "paula"]);
    let refused = site.seat_in(&room, "con").unwrap_err();
    assert_eq!(refused.code_str(), "too_many_members");
    // A muted person.
    let sam = site.people[0].actor();
    site.write(|tx, _| {
        let c = tx.connection();
        let (channel, member) = (channels::find(c, 1)?, channels::find_member(c, 1, &sam)?);
        channels::set_muted(tx, &channel, &member.unwrap(), true, &sam)
    });
    assert_eq!(site.say(0, &room, "x").unwrap_err().code_str(), "member_muted");
    // A channel in which only the chair speaks.
    let mut news = NewChannel {
        kind: "broadcast".to_owned(),
        name: "News".to_owned(),
        about: None,
        intent: None,
        by: sam.clone(),
        budget: Default::default(),
        promoted_from: None,
    };
    let (first, second) = (sam.clone(), site.people[1].actor());
    let made = site.write(|tx, ground| {
        let channel = channels::create(tx, &ground.ids, &news)?;
        let kind = ground.kind("broadcast");
        for (actor, name) in [(&first, "sam"), (&second, "ada")] {
            let name = name.to_owned();
            let new =
                channels::Joining { member: actor.clone(), name, agent: None, is_outside: false };
            channels::join(tx, (&channel, &kind), &new, actor)?;
        }
        Ok(channel)
    });
    site.say(0, &made, "News").unwrap();
    assert_eq!(site.say(1, &made, "x").unwrap_err().code_str(), "chair_only");
    // One channel too many.
    let mut refused = None;
    for at in 0..=200 {
        news.name = format!("Room {at}");
        let made = site.try_write(|tx, ground| channels::create(tx, &ground.ids, &news));
        if let Err(cause) = made {
            refused = Some((at, cause.code_str().to_owned()));
            break;
        }
    }
    assert_eq!(refused, Some((198, "too_many_channels".to_owned())));
}

impl Site {
    /// Seats an agent under the limits of the site.
    fn seat_in(&mut self, channel: &Channel, name: &str) -> Result<()> {
        let (number, sam) = (channel.number, self.people[0].actor());
        let request = MemberRequest { agent: Some(name.to_owned()), ..MemberRequest::default() };
        self.try_write(|tx, ground| {
            let channel = channels::find(tx.connection(), number)?;
            let joining = joining::joining(tx, ground, &request, &sam)?;
            let kind = ground.kind(&channel.kind);
            channels::join(tx, (&channel, &kind), &joining, &sam).map(drop)
        })
    }
}

/// The stream tells somebody from outside what its history shows: nothing from before they came, or
/// from between two times.
#[test]
fn somebody_from_outside_hears_of_nothing_from_before_they_joined() {
    let mut site = Site::new();
    let room = site.room("Room", &[]);
    let (sam, guest) = (site.people[0].actor(), site.people[1].actor());
    let join = |site: &mut Site| {
        let new = channels::Joining {
            member: guest.clone(),
            name: "ada".to_owned(),
            agent: None,
            is_outside: true,
        };
        site.write(|tx, _| {
            let channel = channels::find(tx.connection(), room.number)?;
            channels::join(tx, (&channel, &ChannelType::workshop()), &new, &sam)
        });
        site.now
    };
    let hears =
        |site: &Site, when| channels::hears(&site.c, room.id.as_str(), &guest, when).unwrap();
    let early = site.say(0, &room, "before").unwrap();
    let first = join(&mut site);
    let heard = site.say(0, &room, "while").unwrap();
    assert!(!hears(&site, (site.now, Some(early))));
    assert!(hears(&site, (first, Some(heard))) && hears(&site, (first, None)));
    assert!(!hears(&site, (first.plus(-1), None)));
    site.write(|tx, _| {
        let (channel, member) = (
            channels::find(tx.connection(), room.number)?,
            channels::find_member(tx.connection(), room.number, &guest)?.unwrap(),
        );
        channels::leave(tx, &channel, &member, &sam)
    });
    let away = site.say(0, &room, "away").unwrap();
    assert!(!hears(&site, (site.now, Some(away))) && !hears(&site, (site.now, None)));
    let second = join(&mut site);
    let back = site.say(0, &room, "back").unwrap();
    for sequence in [early, heard, away] {
        assert!(!hears(&site, (site.now, Some(sequence))), "{sequence}");
    }
    assert!(!hears(&site, (first, None)) && hears(&site, (second, None)));
    assert!(hears(&site, (second, Some(back))));
}
