//! Tests of opening, listing and closing Topics, and of renamed Sources.

use super::*;
use crate::base::ErrorKind;
use crate::documents::fixture::{Fixture, TEXT, anchor_on, blob, source};

fn new(body: &str, title: Option<&str>) -> NewTopic {
    NewTopic {
        source_path: source("a.md"),
        is_global: true,
        title: title.map(str::to_owned),
        body: body.to_owned(),
        author: Actor::System,
        anchor: None,
    }
}

#[test]
fn a_new_topic_has_its_message_anchor_and_place() {
    let mut fixture = Fixture::new();
    let made = fixture.topic("docs/plan.md", "rain stops");
    let shown = serde_json::to_value(&made).unwrap();
    assert_eq!(shown["title"], "About rain stops.");
    assert_eq!(shown["message_count"], 1);
    assert_eq!(shown["closed_at"], serde_json::Value::Null);
    assert_eq!(shown["created_by_name"], serde_json::Value::Null);
    assert_eq!(shown["anchor"]["heading_path"], json!(["Plan", "Risks"]));
    assert_eq!(shown["anchor"]["block_kind"], "list_item");
    assert_eq!(shown["anchor"]["origin"]["quote"], "rain stops");
    assert_eq!(shown["placement"]["state"], "exact");
    assert_eq!(shown["placement"]["decided_by"], "system");
    let names: Vec<&String> = shown.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "id",
            "source_path",
            "is_global",
            "title",
            "status",
            "created_by",
            "created_by_name",
            "created_at",
            "closed_at",
            "message_count",
            "anchor",
            "placement",
            "source_deleted",
        ]
    );
    assert_eq!(fixture.kinds(0), ["topic_created"]);
    let elsewhere = find(&fixture.connection, &made.id, Some(&blob('b'))).unwrap();
    assert!(elsewhere.placement.is_none() && elsewhere.anchor.is_some());
    let messages = message::list_of(&fixture.connection, &made.id).unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].body, "About rain stops.\nPlease look.");
}

#[test]
fn hostile_topics_are_refused_and_change_nothing() {
    let mut fixture = Fixture::new();
    let long = "x".repeat(MESSAGE_BYTES_MAX + 1);
    let wide = "x".repeat(TITLE_BYTES_MAX + 1);
    let mut anchored = new("text", None);
    anchored.anchor = Some(anchor_on(TEXT, 'a', "rain"));
    let mut bare = new("text", None);
    bare.is_global = false;
    for bad in [
        new("", None),
        new(" \n ", None),
        new("a\0b", None),
        new(&long, None),
        new("text", Some("")),
        new("text", Some("two\nlines")),
        new("text", Some(&wide)),
        anchored,
        bare,
    ] {
        assert!(fixture.write(|tx, ids| create(tx, ids, bad)).is_err());
    }
    let page = list(&fixture.connection, &TopicFilter::default()).unwrap();
    assert!(page.items.is_empty() && fixture.kinds(0).is_empty());
}

#[test]
fn a_title_is_the_first_line_that_says_something() {
    let mut fixture = Fixture::new();
    let mut title = |body: &str, title: Option<&str>| {
        let new = new(body, title);
        fixture.write(|tx, ids| create(tx, ids, new)).unwrap().title
    };
    assert_eq!(title("text", Some(" Given ")), "Given");
    assert_eq!(title("\n\n  first\tone \nsecond", None), "first one");
    assert_eq!(
        title("# Say **when** in [a *year*](http://x.y) <b>now</b>\nmore", None),
        "Say when in a year now"
    );
    assert_eq!(title("---\nmore", None), "---");
    assert_eq!(title("[a]: http://x.y", None), "[a]: http://x.y");
    assert_eq!(title(&"語".repeat(200), None), "語".repeat(TITLE_CHARS_MAX) + "…");
}

#[test]
fn pages_go_from_new_to_old_and_meet_no_topic_twice() {
    let mut fixture = Fixture::new();
    let made: Vec<TopicId> =
        (0..7).map(|it| fixture.topic(if it % 2 == 0 { "a.md" } else { "b.md" }, "").id).collect();
    fixture
        .write(|tx, _| {
            set_status(tx, &made[2], TopicStatus::Open, TopicStatus::Discarded, &Actor::System)
        })
        .unwrap();
    let listed = |source_path: Option<&str>, status: Option<TopicStatus>| {
        let mut filter = TopicFilter { status, limit: 2, ..TopicFilter::default() };
        filter.source_path = source_path.map(source);
        let mut found = Vec::new();
        loop {
            let page = list(&fixture.connection, &filter).unwrap();
            assert!(page.items.len() <= 2);
            found.extend(
                page.items.iter().map(|topic| made.iter().position(|id| *id == topic.id).unwrap()),
            );
            let Some(next) = page.next else { return found };
            filter.after = Some(next.parse().unwrap());
        }
    };
    assert_eq!(listed(None, None), [6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(listed(Some("a.md"), None), [6, 4, 2, 0]);
    assert_eq!(listed(None, Some(TopicStatus::Open)), [6, 5, 4, 3, 1, 0]);
    assert_eq!(listed(Some("a.md"), Some(TopicStatus::Open)), [6, 4, 0]);
    assert_eq!(listed(Some("c.md"), None), Vec::<usize>::new());
    let open = list_open_of(&fixture.connection, &source("a.md"), None).unwrap();
    assert_eq!(open.iter().map(|it| &it.id).collect::<Vec<_>>(), [&made[0], &made[4], &made[6]]);
    assert_eq!(count_open_of(&fixture.connection, &source("a.md")).unwrap(), 3);
}

#[test]
fn a_topic_changes_state_once() {
    let mut fixture = Fixture::new();
    let id = fixture.topic("a.md", "").id;
    let mut set = |from, to| {
        fixture
            .write(|tx, _| set_status(tx, &id, from, to, &Actor::System))
            .map_err(|cause| cause.code_str().to_owned())
    };
    let (open, gone, done) = (TopicStatus::Open, TopicStatus::Discarded, TopicStatus::Incorporated);
    assert_eq!(set(gone, open), Err("topic_not_closed".to_owned()));
    assert_eq!(set(open, gone), Ok(()));
    assert_eq!(set(open, done), Err("topic_closed".to_owned()));
    assert_eq!(set(done, open), Err("topic_closed".to_owned()));
    assert_eq!(set(gone, open), Ok(()));
    let last = fixture.events(0).pop().unwrap();
    assert_eq!((last.1.as_str(), last.2), ("topic_changed", true));
    let topic = find(&fixture.connection, &id, None).unwrap();
    assert_eq!((topic.status, topic.closed_at), (open, None));
    let unknown = fixture.ids.mint();
    let missing = find(&fixture.connection, &unknown, None).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(missing.message(), format!("no topic {unknown}"));
    let missing = fixture.write(|tx, _| set_status(tx, &unknown, open, gone, &Actor::System));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn the_topics_of_a_renamed_source_are_those_of_its_new_name() {
    let mut fixture = Fixture::new();
    let open = fixture.topic("a.md", "rain stops");
    let closed = fixture.topic("a.md", "").id;
    let beside = fixture.topic("b.md", "").id;
    let (a, b) = (source("a.md"), source("b.md"));
    let close = |tx: &Tx<'_>| {
        set_status(tx, &closed, TopicStatus::Open, TopicStatus::Discarded, &Actor::System)
    };
    fixture.write(|tx, _| close(tx)).unwrap();
    for (path, text) in [(&a, "of a"), (&b, "of b")] {
        fixture.write(|tx, _| text::put(tx, path, &blob('c'), text)).unwrap();
    }
    fixture.write(|tx, _| text::put(tx, &a, &blob('d'), "only of a")).unwrap();
    assert_eq!(fixture.write(|tx, _| rename_source(tx, &a, &b)).unwrap(), 2);
    let connection = &fixture.connection;
    assert!(!has_any(connection, &a).unwrap() && has_any(connection, &b).unwrap());
    let filter = TopicFilter { source_path: Some(b.clone()), limit: 9, ..TopicFilter::default() };
    let found = list(connection, &filter).unwrap().items;
    let ids: Vec<&TopicId> = found.iter().map(|it| &it.id).collect();
    assert_eq!(ids, [&beside, &closed, &open.id]);
    assert_eq!(text::find(connection, &b, &blob('c')).unwrap().unwrap(), "of b");
    assert_eq!(text::find(connection, &b, &blob('d')).unwrap().unwrap(), "only of a");
    assert_eq!(text::kept(connection, &a).unwrap(), []);
    assert_eq!(placement::baselines(connection, &b).unwrap().len(), 1);
}
