//! Answers that are kept back.

use crate::api::channels::HeldDecision;
use crate::flows::channels::held;
use crate::flows::channels::tests::Site;
use crate::mail::TurnEnd;
use crate::turns;

#[test]
fn an_answer_that_may_hold_typed_words_waits_for_a_person() {
    let mut site = Site::new();
    let room = site.room("Room", &["robbo"]);
    let sam = site.people[0].person().unwrap().id.clone();
    for (decision, posted) in [(HeldDecision::Private, 0), (HeldDecision::Post, 1)] {
        site.say(0, &room, "@robbo look").unwrap();
        let block = site.hear("robbo", &room).unwrap();
        site.end_as("robbo", Some(&block.id), TurnEnd::Answered, ("a canary", true));
        assert_eq!(site.by_agents(&room), 0);
        let [turn] = &turns::waiting(&site.c, 9).unwrap()[..] else { panic!("none waits") };
        let channel = site.channel(&room);
        let settle = |tx: &crate::store::Tx<'_>, ground: &_| {
            held::settle(tx, ground, (&channel, turn), (decision, &sam))
        };
        site.write(settle);
        assert_eq!(site.by_agents(&room), posted);
        let refused = site.try_write(settle).unwrap_err();
        assert_eq!((refused.code_str(), site.by_agents(&room)), ("already_decided", posted));
        assert!(turns::waiting(&site.c, 9).unwrap().is_empty());
    }
}

/// What came to nothing holds nothing back.
#[test]
fn a_turn_without_an_answer_is_not_held() {
    let mut site = Site::new();
    let room = site.room("Room", &["robbo"]);
    for (how, text) in [(TurnEnd::Interrupted, ""), (TurnEnd::Answered, "[no-reply]")] {
        site.say(0, &room, "@robbo look").unwrap();
        let block = site.hear("robbo", &room).unwrap();
        site.end_as("robbo", Some(&block.id), how, (text, true));
        assert!(turns::waiting(&site.c, 9).unwrap().is_empty());
    }
}
