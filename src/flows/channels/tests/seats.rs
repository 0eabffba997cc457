//! Seats that change hands.

use crate::api::channels::MemberRequest;
use crate::base::Actor;
use crate::channels::{self, Channel};
use crate::flows::channels::tests::Site;
use crate::flows::channels::{fresh, hear, joining, seat};
use crate::mail::agent;
use crate::mail::{self, TurnEnd};

/// Gives robbo's seat to a fresh agent; returns its name.
fn follow(site: &mut Site, channel: &Channel, is_heir: bool) -> String {
    let room = channel.number;
    site.write(|tx, ground| {
        let c = tx.connection();
        let old = agent::find(c, "robbo")?.unwrap();
        let new = fresh(tx, &old, "digest")?;
        let channel = channels::find(c, room)?;
        let members = channels::members(c, room)?;
        let member = members.iter().find(|it| it.agent.as_deref() == Some("robbo")).unwrap();
        let who = (&old, new.name.as_str(), &Actor::System);
        seat::take_over(tx, ground, (&channel, member), who, None)?;
        if is_heir {
            agent::set_heir(tx, "robbo", Some(&new.name))?;
        }
        Ok(new.name)
    })
}

fn block(site: &mut Site, agent: &str, channel: &Channel) -> Option<String> {
    let room = channel.number;
    site.write(|tx, ground| hear::compose(tx, ground, agent, room)).map(|it| it.text)
}

/// Fails with `WB_WITHOUT=seat_tx` and with `WB_WITHOUT=block_order`.
#[test]
fn g38_who_takes_a_seat_is_told_of_the_room_and_hears_what_waited_there() {
    let mut site = Site::new();
    let channel = site.room("a", &["robbo", "paula"]);
    site.say(0, &channel, "@paula first words").unwrap();
    site.say(0, &channel, "@robbo look at this").unwrap();
    let new = follow(&mut site, &channel, false);
    assert_eq!(new, "robbo-2");
    let text = block(&mut site, &new, &channel).unwrap();
    assert!(text.starts_with("[CHANNEL CONTEXT] You take part in #a as robbo."), "{text}");
    assert_eq!(text.matches("@robbo look at this").count(), 1, "{text}");
    assert_eq!(text.matches("@paula first words").count(), 1, "{text}");
    assert!(mail::waiting_in_room(&site.c, "robbo", channel.number).unwrap().is_empty());
    assert_eq!(block(&mut site, "robbo", &channel), None);
    // One after the other, as often as somebody wants.
    assert_eq!(channels::seat_of(&site.c, &new).unwrap(), Some(channel.number));
    assert_eq!(channels::seat_of(&site.c, "robbo").unwrap(), None);
}

#[test]
fn a_late_answer_of_who_has_handed_over_stands_under_the_same_name() {
    let mut site = Site::new();
    let channel = site.room("a", &["robbo"]);
    site.say(0, &channel, "What next?").unwrap();
    let given = site.hear("robbo", &channel).unwrap();
    let new = follow(&mut site, &channel, true);
    let late = "I would begin with the tests, since nobody knows whether it works";
    site.end("robbo", Some(&given.id), TurnEnd::Answered, late);
    let told = site.said(&channel);
    assert_eq!(told.last().unwrap(), &("robbo".to_owned(), late.to_owned()));
    let waiting = mail::waiting_in_room(&site.c, &new, channel.number).unwrap();
    assert!(waiting.iter().all(|it| !it.wakes), "its own words wake nobody: {waiting:?}");
    site.say(0, &channel, "@robbo do it").unwrap();
    let text = block(&mut site, &new, &channel).unwrap();
    assert!(text.contains(late) && text.contains("@robbo do it"), "{text}");
    // What somebody left behind who has no heir is told, and not posted.
    site.say(0, &channel, "@robbo-2 and then?").unwrap();
    assert_eq!(site.said(&channel).len(), 4);
}

/// Returns the agent that a person would get for a persona.
fn for_persona(site: &mut Site, name: &str, person: usize) -> String {
    let by = site.people[person].actor();
    let request = MemberRequest { persona: Some(name.to_owned()), ..Default::default() };
    let joining = site.write(|tx, ground| joining::joining(tx, ground, &request, &by));
    joining.agent.unwrap()
}

/// Fails where a persona is seated with whatever agent is free.
#[test]
fn an_agent_that_somebody_else_has_written_to_is_not_seated_for_a_persona() {
    let mut site = Site::new();
    for person in [0, 1] {
        assert_eq!(for_persona(&mut site, "robbo", person), "robbo");
    }
    site.write_to("robbo", 1);
    assert_eq!(for_persona(&mut site, "robbo", 1), "robbo");
    assert_eq!(for_persona(&mut site, "robbo", 0), "robbo-2");
    // The next time that one is there.
    assert_eq!(for_persona(&mut site, "robbo", 0), "robbo-2");
    let (sam, agent) = (site.people[0].actor(), Some("robbo".to_owned()));
    let request = MemberRequest { agent, ..Default::default() };
    let named = site.try_write(|tx, ground| joining::joining(tx, ground, &request, &sam));
    let refused = named.unwrap_err();
    assert_eq!(refused.code_str(), "agent_state", "nor for who names it");
}
