//! Files of agents: uploaded only when the agent can post, and sent by nobody else.

use rusqlite::named_params;

use crate::channels::{self, Uploader};
use crate::flows::channels::speak;
use crate::flows::channels::tests::{Site, job};
use crate::people::Caller;

fn agent(at: usize) -> Caller {
    Caller::Job { id: job(at), token_hash: String::new() }
}

#[test]
fn an_agent_uploads_only_in_a_turn_that_the_channel_caused() {
    let mut site = Site::new();
    let room = site.room("Room", &["robbo"]);
    let channel = site.channel(&room);
    let upload = |site: &mut Site, at: usize| {
        let channel = channel.clone();
        site.try_write(|tx, ground| speak::uploader(tx, ground, (&agent(at), &channel)))
    };
    assert_eq!(upload(&mut site, 0).unwrap_err().code_str(), "private_turn");
    assert_eq!(upload(&mut site, 1).unwrap_err().code_str(), "not_a_member");
    site.say(0, &room, "@robbo look").unwrap();
    site.hear("robbo", &room).unwrap();
    assert_eq!(upload(&mut site, 0).unwrap(), Uploader::Agent("robbo".to_owned()));
}

#[test]
fn an_upload_is_sent_by_its_uploader_alone_and_a_day_has_an_end() {
    let mut site = Site::new();
    let room = site.room("Room", &["robbo"]);
    let sam = site.people[0].person().unwrap().id.clone();
    let all = [
        Uploader::Agent("robbo".to_owned()),
        Uploader::Agent("paula".to_owned()),
        Uploader::Person(sam.clone()),
    ];
    let mut numbers = Vec::new();
    for by in &all {
        let made = site.write(|tx, _| channels::upload(tx, (room.number, by), "a", b"a"));
        numbers.push(made.number);
    }
    // A person sends their own, and no agent's.
    for number in &numbers[..2] {
        let refused = site.say_with(0, &room, &[*number]).unwrap_err();
        assert_eq!(refused.code_str(), "no_attachment");
    }
    site.say_with(0, &room, &numbers[2..]).unwrap();
    // As if they had sent large files.
    for by in ["robbo", ""] {
        site.write(|tx, _| {
            tx.prepare_cached(
                "INSERT INTO channel_attachments (channel, person_id, agent, name, kind, bytes,
                    digest, created_ms)
                VALUES (:channel, :person, :agent, 'a', 'text', 104857598, '', :now)",
            )?
            .execute(named_params! {
                ":channel": room.number, ":now": tx.now(),
                ":person": by.is_empty().then_some(&sam),
                ":agent": (!by.is_empty()).then_some(by),
            })?;
            Ok(())
        });
    }
    let mut upload = |by: &Uploader, content: &[u8]| {
        let made = site.try_write(|tx, _| channels::upload(tx, (room.number, by), "a", content));
        made.map_err(|cause| cause.code_str().to_owned())
    };
    assert_eq!(upload(&all[0], b"aa").unwrap_err(), "too_many_uploads");
    upload(&all[0], b"a").unwrap();
    assert_eq!(upload(&all[0], b"a").unwrap_err(), "too_many_uploads");
    upload(&all[1], b"aa").unwrap();
    upload(&all[2], b"aa").unwrap();
    assert_eq!(upload(&Uploader::Outsider(sam), b"aa").unwrap_err(), "too_many_uploads");
}
