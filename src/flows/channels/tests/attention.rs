//! What waits for a person in channels.

use crate::api::channels::PostRequest;
use crate::base::{Actor, PersonId};
use crate::channels::{self, ChannelType, Pause};
use crate::flows::channels::tests::{Site, job};
use crate::flows::channels::{escalated, paused, speak};
use crate::people::Caller;

fn ids(site: &Site) -> [PersonId; 2] {
    [0, 1].map(|at| site.people[at].person().unwrap().id.clone())
}

#[test]
fn a_pause_waits_for_members_unless_a_person_made_it() {
    let mut site = Site::new();
    let room = site.room("Room", &["robbo"]);
    let [sam, ada] = ids(&site);
    site.say(0, &room, "Go").unwrap();
    let pause = |site: &mut Site, why| {
        let channel = site.channel(&room);
        site.write(|tx, ground| {
            channels::pause(tx, &ground.ids, (&channel, &ChannelType::workshop()), why)
        });
    };
    let count = |site: &Site, person| paused(&site.c, person).unwrap().len();
    assert_eq!(count(&site, &sam), 0);
    pause(&mut site, Pause::Hops);
    assert_eq!((count(&site, &sam), count(&site, &ada)), (1, 0));
    // A person's message lets it go on.
    site.say(0, &room, "Go on").unwrap();
    assert_eq!(count(&site, &sam), 0);
    pause(&mut site, Pause::Person);
    assert_eq!(count(&site, &sam), 0);
}

#[test]
fn an_escalation_waits_until_the_chair_has_read_it() {
    let mut site = Site::new();
    let room = site.room("Room", &["robbo"]);
    let [sam, ada] = ids(&site);
    site.say(0, &room, "@robbo look").unwrap();
    site.hear("robbo", &room).unwrap();
    let agent = Caller::Job { id: job(0), token_hash: String::new() };
    let request = PostRequest {
        body: "I may not decide this".to_owned(),
        kind: Some("escalation".to_owned()),
        ..PostRequest::default()
    };
    let slug = room.slug.clone();
    let posted =
        site.write(|tx, ground| speak::post_in_room(tx, ground, (&agent, &slug), &request));
    let number = posted.sequence;
    let waiting = |site: &Site, person| {
        let found = escalated(&site.c, person).unwrap();
        found.into_iter().map(|it| it.0.sequence).collect::<Vec<_>>()
    };
    assert_eq!((waiting(&site, &sam), waiting(&site, &ada)), (vec![number], vec![]));
    let actor = Actor::Person(sam.clone());
    site.write(|tx, _| channels::read(tx, room.number, &actor, number - 1));
    assert_eq!(waiting(&site, &sam), [number]);
    site.write(|tx, _| channels::read(tx, room.number, &actor, number));
    assert!(waiting(&site, &sam).is_empty());
}
