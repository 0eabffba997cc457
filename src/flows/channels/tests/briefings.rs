//! What an agent is told of its channel, when, and how much of it.

use crate::api::channels::{Budget, PostRequest};
use crate::base::Actor;
use crate::channels::{self, BLOCK_BYTES_MAX, Channel};
use crate::flows::channels::tests::Site;
use crate::flows::channels::{briefing, fresh, hear, seat};
use crate::mail::agent;
use crate::mail::{self, TurnEnd};

const INTRODUCTION: &str = "[CHANNEL CONTEXT] You take part in ";

/// Lets an agent that has lost what it knew be briefed again.
fn again(site: &mut Site, agent: &str, knows_messages: bool) {
    site.write(|tx, ground| briefing::again(tx, ground, agent, knows_messages));
}

/// Lets an agent hear and say nothing; returns what it heard.
fn heard(site: &mut Site, agent: &str, room: &Channel) -> String {
    let block = site.hear(agent, room).unwrap();
    site.end(agent, Some(&block.id), TurnEnd::Answered, "");
    block.text
}

fn texts(block: &str) -> Vec<String> {
    channels::read_block(block).into_iter().map(|it| it.text).collect()
}

/// Fails where what waits too long pushes out the introduction, or goes without a word.
#[test]
fn whatever_waits_an_agent_is_introduced_and_told_how_much_it_missed() {
    let mut site = Site::new();
    let room = site.room("Many", &["robbo", "paula"]);
    for at in 1..=55 {
        site.say(0, &room, &format!("@robbo question {at}?")).unwrap();
        site.say(0, &room, &format!("@sam note {at}.")).unwrap();
    }
    let first = heard(&mut site, "robbo", &room);
    assert!(first.starts_with(INTRODUCTION), "{first}");
    let said = texts(&first);
    assert_eq!(said.len(), 20);
    assert_eq!(said[0], "@robbo question 6?", "the oldest five are context by now");
    // Five questions and 55 notes: fifty wait, and none has room beside the questions.
    let left_out = first.lines().find(|it| it.contains("were left out")).unwrap();
    assert!(left_out.starts_with('('), "{left_out}");
    let mut rest = Vec::new();
    while let Some(block) = site.hear("robbo", &room) {
        site.end("robbo", Some(&block.id), TurnEnd::Answered, "");
        assert!(!block.text.contains(INTRODUCTION), "once");
        rest.extend(texts(&block.text));
    }
    assert_eq!(rest.iter().filter(|it| it.contains("question")).count(), 30);

    // What only paula hears as context is bounded, too, and she is told.
    site.say(0, &room, "@paula and you?").unwrap();
    let block = heard(&mut site, "paula", &room);
    assert!(block.starts_with(INTRODUCTION), "{block}");
    assert_eq!(texts(&block).last().unwrap(), "@paula and you?");
    let waited = 110 - 19;
    assert!(block.contains(&format!("({waited} earlier messages were left out")), "{block}");
    site.say(0, &room, "@paula once more?").unwrap();
    assert!(!heard(&mut site, "paula", &room).contains("left out"), "said once");
}

#[test]
fn an_agent_that_lost_what_it_knew_is_introduced_again() {
    let mut site = Site::new();
    let room = site.room("Again", &["robbo"]);
    again(&mut site, "robbo", false);
    site.say(0, &room, "First?").unwrap();
    let block = heard(&mut site, "robbo", &room);
    assert_eq!(block.matches(INTRODUCTION).count(), 1, "it was not briefed yet: {block}");
    site.say(0, &room, "Second?").unwrap();
    assert!(!heard(&mut site, "robbo", &room).contains(INTRODUCTION));
    // Its session is gone: it starts twice before anybody speaks.
    again(&mut site, "robbo", false);
    again(&mut site, "robbo", false);
    site.say(0, &room, "Third?").unwrap();
    let block = heard(&mut site, "robbo", &room);
    assert_eq!(block.matches(INTRODUCTION).count(), 1, "{block}");
    assert_eq!(texts(&block), ["First?", "Second?", "Third?"]);
    // Its engine has made room: the rules are enough.
    again(&mut site, "robbo", true);
    site.say(0, &room, "Fourth?").unwrap();
    let block = heard(&mut site, "robbo", &room);
    assert!(block.starts_with(INTRODUCTION), "{block}");
    assert_eq!(texts(&block), ["Fourth?"]);
    again(&mut site, "paula", false);
}

/// Fails where a briefing has no limit of its own, or a block none with one.
#[test]
fn a_block_keeps_to_its_length_whatever_was_missed() {
    let mut site = Site::new();
    let room = site.room("Long", &["robbo", "paula"]);
    site.say(0, &room, "@robbo first?").unwrap();
    heard(&mut site, "robbo", &room);
    let robbo = Actor::Persona("robbo".to_owned());
    let mute = |site: &mut Site, is_muted: bool| {
        site.write(|tx, ground| {
            let c = tx.connection();
            let channel = channels::find(c, 1)?;
            let member = channels::find_member(c, 1, &robbo)?.unwrap();
            channels::set_muted(tx, &channel, &member, is_muted, &Actor::System)?;
            match is_muted {
                true => mail::drop_in_room(tx, "robbo", 1, "muted").map(drop),
                false => briefing::of_missed(tx, ground, &channel, &member),
            }
        });
    };
    mute(&mut site, true);
    for at in 0..50 {
        site.say(0, &room, &format!("missed {at} {}", "x".repeat(8_000))).unwrap();
    }
    mute(&mut site, false);
    site.say(0, &room, &format!("@robbo and now? {}", "y".repeat(20_000))).unwrap();
    let block = heard(&mut site, "robbo", &room);
    assert!(block.len() <= BLOCK_BYTES_MAX, "{}", block.len());
    assert!(block.starts_with(INTRODUCTION), "{}", &block[..400]);
    assert!(block.contains("earlier messages were left out"));
    let said = texts(&block);
    assert!(said[said.len() - 2].starts_with("missed 49 "), "the newest are told");
    // One that was muted before it heard anything is introduced when it may hear.
    let paula = Actor::Persona("paula".to_owned());
    site.write(|tx, ground| {
        let c = tx.connection();
        mail::drop_in_room(tx, "paula", 1, "muted")?;
        let (channel, member) = (channels::find(c, 1)?, channels::find_member(c, 1, &paula)?);
        briefing::of_missed(tx, ground, &channel, &member.unwrap())
    });
    site.say(0, &room, "@paula?").unwrap();
    assert!(heard(&mut site, "paula", &room).starts_with(INTRODUCTION));
}

/// Fails where a successor is told the last messages only.
#[test]
fn a_successor_is_told_all_that_was_said_since_the_other_wrote() {
    let mut site = Site::new();
    let room = site.room("Heir", &["robbo"]);
    site.say(0, &room, "Long ago.").unwrap();
    assert!(site.answer("robbo", &room, "[no-reply]"));
    let since = site.now.plus(1);
    for at in 1..=14 {
        site.say(0, &room, &format!("Meanwhile {at}.")).unwrap();
        assert!(site.answer("robbo", &room, "[no-reply]"));
    }
    let new = site.write(|tx, ground| {
        let c = tx.connection();
        let old = agent::find(c, "robbo")?.unwrap();
        let new = fresh(tx, &old, "digest")?;
        let channel = channels::find(c, room.number)?;
        let robbo = Actor::Persona("robbo".to_owned());
        let member = channels::find_member(c, room.number, &robbo)?.unwrap();
        let who = (&old, new.name.as_str(), &Actor::System);
        seat::take_over(tx, ground, (&channel, &member), who, Some(since))?;
        Ok(new.name)
    });
    site.say(0, &room, "And now?").unwrap();
    let number = room.number;
    let block = site.write(|tx, ground| hear::compose(tx, ground, &new, number)).unwrap();
    let mut expected: Vec<String> = (1..=14).map(|at| format!("Meanwhile {at}.")).collect();
    expected.push("And now?".to_owned());
    assert_eq!(texts(&block.text), expected);
}

#[test]
fn the_last_words_of_an_agent_that_leaves_are_posted() {
    let mut site = Site::new();
    let room = site.room("Bye", &["robbo", "paula"]);
    site.say(0, &room, "@robbo decide and go").unwrap();
    let block = site.hear("robbo", &room).unwrap();
    let robbo = Actor::Persona("robbo".to_owned());
    site.write(|tx, _| channels::leave_after_turn(tx, room.number, &robbo));
    site.end("robbo", Some(&block.id), TurnEnd::Answered, "Decision: ship");
    let said = site.said(&room);
    let last: Vec<(&str, &str)> =
        said.iter().rev().take(2).map(|it| (it.0.as_str(), it.1.as_str())).collect();
    assert_eq!(last, [("*", "robbo left the channel."), ("robbo", "Decision: ship")]);
    assert_eq!(channels::seat_of(&site.c, "robbo").unwrap(), None);
    // It comes back without leaving at the end of its next turn.
    site.seat(&room, "robbo").unwrap();
    site.say(0, &room, "@robbo welcome?").unwrap();
    assert!(site.answer(
        "robbo",
        &room,
        "I am here again, for as long as it takes to finish this."
    ));
    assert_eq!(channels::seat_of(&site.c, "robbo").unwrap(), Some(room.number));
}

#[test]
fn nobody_is_called_who_has_left_and_here_is_a_word() {
    let mut site = Site::new();
    let room = site.room("Calls", &["robbo", "paula"]);
    let paula = Actor::Persona("paula".to_owned());
    site.write(|tx, ground| {
        let c = tx.connection();
        let (channel, member) = (channels::find(c, 1)?, channels::find_member(c, 1, &paula)?);
        crate::flows::channels::members::take_out(
            tx,
            ground,
            (&channel, &member.unwrap()),
            (&Actor::System, None),
        )
    });
    let to = |to: &str| PostRequest {
        body: "do it".to_owned(),
        kind: Some("delegation".to_owned()),
        to: Some(to.to_owned()),
        ..PostRequest::default()
    };
    let refused = site.post(0, &room, to("paula")).unwrap_err();
    assert_eq!(refused.code_str(), "unknown_mention");
    site.post(0, &room, to("robbo")).unwrap();
    heard(&mut site, "robbo", &room);
    site.seat(&room, "con").unwrap();
    site.say(0, &room, "@here anybody?").unwrap();
    assert!(site.hear("robbo", &room).is_some() && site.hear("con", &room).is_some());
}

#[test]
fn a_budget_warns_once_until_it_is_changed() {
    let mut site = Site::new();
    let room = site.room("Warned", &["robbo"]);
    let change = |site: &mut Site, turns: Option<i64>, intent: &str| {
        let mut channel = site.channel(&room);
        channel.budget = Budget { turns: turns.or(channel.budget.turns), ..Budget::default() };
        channel.intent = Some(intent.to_owned());
        site.write(|tx, _| channels::change(tx, &channel, &Actor::System));
    };
    let warnings = |site: &Site| {
        let said = site.said(&room);
        said.iter().filter(|it| it.1 == "Two thirds of the budget are used.").count()
    };
    change(&mut site, Some(9), "one");
    for at in 1..=7 {
        site.say(0, &room, &format!("Question {at}?")).unwrap();
        assert!(site.answer("robbo", &room, "[no-reply]"));
        change(&mut site, None, &format!("goal {at}"));
    }
    assert_eq!(warnings(&site), 1);
    change(&mut site, Some(10), "more");
    site.say(0, &room, "Last?").unwrap();
    assert!(site.answer("robbo", &room, "[no-reply]"));
    assert_eq!(warnings(&site), 2, "of the new one");
}
