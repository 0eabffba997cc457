//! Revisions, decisions and races of proposals, on the real schema.

use rusqlite::named_params;

use crate::api::proposals::{Proposal, ProposalStatus};
use crate::api::topics::TopicStatus;
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Actor, ErrorKind, JobId, ProposalId, Result, TopicId, digest_hex};
use crate::documents::fixture::{Fixture, blob, source};
use crate::documents::proposals::proposal::{
    NewProposal, ProposalFilter, approve, by_job, find, insert, list, mark_stale, of_topic, reject,
    settle_job, text,
};
use crate::documents::topics::message;
use crate::documents::topics::topic::set_status;

fn new(topic: &TopicId, job: Option<&JobId>) -> NewProposal {
    NewProposal {
        topic_id: topic.clone(),
        job_id: job.cloned(),
        proposed_by: None,
        source_path: source("a.md"),
        base_source_sha: blob('a'),
        proposed_sha: blob('b'),
        text: "# Neu – new\n".to_owned(),
        summary: Some("says it better".to_owned()),
    }
}

fn propose(fixture: &mut Fixture, topic: &TopicId, job: &JobId) -> Proposal {
    let new = new(topic, Some(job));
    fixture.write(|tx, ids| insert(tx, ids, new)).unwrap()
}

fn states(fixture: &Fixture, topic: &TopicId) -> Vec<&'static str> {
    let all = of_topic(&fixture.connection, topic).unwrap();
    all.iter().map(|it| it.status.as_str()).collect()
}

fn code<T: std::fmt::Debug>(outcome: Result<T>) -> String {
    outcome.unwrap_err().code_str().to_owned()
}

#[test]
fn a_proposal_is_stored_as_it_is_shown() {
    let mut fixture = Fixture::new();
    let topic = fixture.topic("a.md", "").id;
    let job = fixture.job(&topic);
    let made = propose(&mut fixture, &topic, &job);
    let shown = serde_json::to_value(&made).unwrap();
    let names: Vec<&String> = shown.as_object().unwrap().keys().collect();
    assert_eq!(
        names.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(" "),
        "id topic_id topic_ids revision_number job_id proposed_by source_path base_source_sha \
         proposed_sha text_digest bytes summary status decided_by decided_by_name decided_at \
         reason commit origin superseded_by has_conflict created_at"
    );
    assert_eq!(shown["bytes"], 14);
    assert_eq!(shown["proposed_by"], serde_json::Value::Null);
    assert_eq!(shown["text_digest"], digest_hex("# Neu – new\n"));
    assert_eq!(text(&fixture.connection, &made.id).unwrap(), "# Neu – new\n");
    let (_, kind, audit, data) = fixture.events(1).remove(0);
    assert_eq!((kind.as_str(), audit), ("proposal_created", false));
    assert!(!data.contains("Neu"), "events hold no text");
    let unknown: ProposalId = fixture.ids.mint();
    assert_eq!(find(&fixture.connection, &unknown).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(text(&fixture.connection, &unknown).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_cannot_be_proposed_is_refused_and_leaves_nothing() {
    let mut fixture = Fixture::new();
    let topic = fixture.topic("a.md", "").id;
    let job = fixture.job(&topic);
    let open = propose(&mut fixture, &topic, &job);
    let mut refuse = |change: fn(&mut NewProposal)| {
        let mut it = new(&topic, Some(&job));
        change(&mut it);
        fixture.write(|tx, ids| insert(tx, ids, it)).unwrap_err()
    };
    assert_eq!(refuse(|it| it.proposed_sha = blob('a')).code_str(), "nothing_changed");
    assert_eq!(refuse(|it| it.text = "a\0".to_owned()).kind(), ErrorKind::Invalid);
    assert_eq!(refuse(|it| it.text = " \n".to_owned()).code_str(), "empty_text");
    let too_large = refuse(|it| it.text = "x".repeat(SOURCE_BYTES_MAX + 1));
    assert_eq!(too_large.kind(), ErrorKind::TooLarge);
    assert_eq!(refuse(|it| it.summary = Some("\u{1b}".to_owned())).kind(), ErrorKind::Invalid);
    assert_eq!(refuse(|it| it.source_path = source("b.md")).kind(), ErrorKind::Invalid);
    assert_eq!(refuse(|it| it.job_id = None).kind(), ErrorKind::Invalid);
    assert_eq!(of_topic(&fixture.connection, &topic).unwrap(), [open]);
    let (from, to) = (TopicStatus::Open, TopicStatus::Discarded);
    fixture.write(|tx, _| set_status(tx, &topic, from, to, &Actor::System)).unwrap();
    let late = new(&topic, Some(&job));
    assert_eq!(code(fixture.write(|tx, ids| insert(tx, ids, late))), "topic_closed");
}

#[test]
fn of_two_by_one_job_the_last_counts() {
    let mut fixture = Fixture::new();
    let topic = fixture.topic("a.md", "").id;
    let job = fixture.job(&topic);
    assert_eq!(by_job(&fixture.connection, &job).unwrap(), None);
    let first = propose(&mut fixture, &topic, &job);
    let second = propose(&mut fixture, &topic, &job);
    assert_eq!((first.revision_number, second.revision_number), (1, 2));
    assert_eq!(states(&fixture, &topic), ["superseded", "open"]);
    assert_eq!(by_job(&fixture.connection, &job).unwrap().unwrap().id, second.id);
    assert_eq!(fixture.kinds(2), ["proposal_decided", "proposal_created"]);
    let decided = fixture.write(|tx, _| reject(tx, &first.id, &Actor::System, "no"));
    assert_eq!(code(decided), "superseded");
}

#[test]
fn a_later_revision_counts_when_its_job_succeeded() {
    let mut fixture = Fixture::new();
    let topic = fixture.topic("a.md", "").id;
    let jobs: Vec<JobId> = (0..3).map(|_| fixture.job(&topic)).collect();
    let made: Vec<Proposal> = jobs.iter().map(|job| propose(&mut fixture, &topic, job)).collect();
    assert_eq!(states(&fixture, &topic), ["open", "open", "open"]);
    let mut settle = |job: usize, succeeded: bool| {
        fixture.write(|tx, _| settle_job(tx, &jobs[job], succeeded, &Actor::System)).unwrap();
        states(&fixture, &topic)
    };
    assert_eq!(settle(2, false), ["open", "open", "void"]);
    assert_eq!(settle(1, true), ["superseded", "open", "void"]);
    assert_eq!(settle(0, true), ["superseded", "open", "void"]);
    let void = fixture.write(|tx, _| approve(tx, &made[2].id, &Actor::System, &blob('c')));
    assert_eq!(code(void), "job_failed");
}

#[test]
fn a_proposal_is_decided_once() {
    let mut fixture = Fixture::new();
    let topic = fixture.topic("a.md", "").id;
    let (one, two) = (fixture.job(&topic), fixture.job(&topic));
    let older = propose(&mut fixture, &topic, &one).id;
    let id = propose(&mut fixture, &topic, &two).id;
    let person = Actor::Person(fixture.ids.mint());
    let empty = fixture.write(|tx, _| reject(tx, &id, &person, " "));
    assert_eq!(empty.unwrap_err().kind(), ErrorKind::Invalid);
    fixture.write(|tx, _| approve(tx, &id, &person, &blob('c'))).unwrap();
    assert_eq!(states(&fixture, &topic), ["superseded", "approved"]);
    let again = fixture.write(|tx, _| approve(tx, &id, &person, &blob('d')));
    assert_eq!(code(again), "already_decided");
    let late = fixture.write(|tx, _| reject(tx, &id, &person, "too late"));
    assert_eq!(code(late), "already_decided");
    assert_eq!(code(fixture.write(|tx, _| mark_stale(tx, &older))), "superseded");
    let shown = find(&fixture.connection, &id).unwrap();
    assert_eq!(shown.decided_by, Some(person));
    assert!(shown.decided_at.is_some());
    let events = fixture.events(3);
    assert!(events.iter().all(|it| it.1 == "proposal_decided" && it.2));
    assert_eq!(events.len(), 2);
    assert!(events[0].3.contains(blob('c').as_str()));
}

#[test]
fn a_stale_or_rejected_proposal_keeps_its_reason() {
    let mut fixture = Fixture::new();
    let topic = fixture.topic("a.md", "").id;
    let (one, two) = (fixture.job(&topic), fixture.job(&topic));
    let stale = propose(&mut fixture, &topic, &one).id;
    let rejected = propose(&mut fixture, &topic, &two).id;
    fixture.write(|tx, _| mark_stale(tx, &stale)).unwrap();
    fixture.write(|tx, _| reject(tx, &rejected, &Actor::System, "not yet")).unwrap();
    assert_eq!(states(&fixture, &topic), ["stale", "rejected"]);
    assert_eq!(find(&fixture.connection, &rejected).unwrap().reason.as_deref(), Some("not yet"));
    let late = fixture.write(|tx, _| reject(tx, &stale, &Actor::System, "x"));
    assert_eq!(code(late), "stale_base");
}

#[test]
fn the_commit_is_that_of_the_committed_attempt() {
    let mut fixture = Fixture::new();
    let topic = fixture.topic("a.md", "").id;
    let job = fixture.job(&topic);
    let id = propose(&mut fixture, &topic, &job).id;
    let sql = "INSERT INTO incorporation_attempts (id, proposal_id, topic_id, approver,
        text_digest, base_commit, branch, commit_sha, state, started_ms, ended_ms)
        VALUES (:state, :id, :topic, 'system', 'x', 'x', 'main', :commit, :state, 1, 2)";
    for (state, digit) in [("dropped", 'd'), ("committed", 'c')] {
        let params = named_params! {
            ":state": state, ":id": id, ":topic": topic, ":commit": blob(digit),
        };
        fixture.connection.execute(sql, params).unwrap();
    }
    assert_eq!(find(&fixture.connection, &id).unwrap().commit, Some(blob('c')));
}

#[test]
fn proposals_are_listed_by_every_filter() {
    let mut fixture = Fixture::new();
    let topics = [fixture.topic("a.md", "").id, fixture.topic("a.md", "").id];
    let made: Vec<ProposalId> = (0..5)
        .map(|it| {
            let job = fixture.job(&topics[it % 2]);
            propose(&mut fixture, &topics[it % 2], &job).id
        })
        .collect();
    fixture.write(|tx, _| reject(tx, &made[1], &Actor::System, "no")).unwrap();
    let listed = |filter: ProposalFilter| {
        let mut filter = ProposalFilter { limit: 2, ..filter };
        let mut found = Vec::new();
        loop {
            let page = list(&fixture.connection, &filter).unwrap();
            let place = |it: &Proposal| made.iter().position(|id| *id == it.id).unwrap();
            found.extend(page.items.iter().map(place));
            let Some(next) = page.next else { return found };
            filter.after = Some(next.parse().unwrap());
        }
    };
    let all = ProposalFilter::default();
    let open = Some(ProposalStatus::Open);
    let path = Some(source("a.md"));
    assert_eq!(listed(all.clone()), [4, 3, 2, 1, 0]);
    assert_eq!(listed(ProposalFilter { status: open, ..all.clone() }), [4, 3, 2, 0]);
    let by_source = ProposalFilter { source_path: path, ..all.clone() };
    assert_eq!(listed(by_source.clone()), [4, 3, 2, 1, 0]);
    assert_eq!(listed(ProposalFilter { status: open, ..by_source.clone() }), [4, 3, 2, 0]);
    let by_topic = ProposalFilter { topic_id: Some(topics[1].clone()), ..by_source };
    assert_eq!(listed(by_topic.clone()), [3, 1]);
    assert_eq!(listed(ProposalFilter { status: open, ..by_topic }), [3]);
    let other = ProposalFilter { source_path: Some(source("b.md")), ..all };
    assert_eq!(listed(other), Vec::<usize>::new());
}

#[test]
fn a_message_names_a_proposal_of_its_own_topic_only() {
    let mut fixture = Fixture::new();
    let (one, two) = (fixture.topic("a.md", "").id, fixture.topic("a.md", "").id);
    let job = fixture.job(&one);
    let id = propose(&mut fixture, &one, &job).id;
    let mut post = |topic: &TopicId| {
        fixture
            .write(|tx, ids| message::post(tx, ids, topic, &Actor::System, "see this", Some(&id)))
    };
    assert_eq!(post(&one).unwrap().proposal_id, Some(id.clone()));
    assert_eq!(post(&two).unwrap_err().kind(), ErrorKind::Invalid);
}
