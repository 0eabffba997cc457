//! Placements of Topics: in other people's commits, in uncommitted texts, and after a person moved
//! them.

mod baseline;
mod deleted;
mod elsewhere;
mod export;
mod followed;
mod handed;
mod histories;
mod notice;
mod reattach;
mod renamed;
mod starting;
mod strange;
mod uncommitted;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::support::{Bench, Topic, until, wait_for};

/// Returns the rows of a query, each as JSON made by the query itself.
fn rows(bench: &Bench, query: &str) -> Vec<Value> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = Connection::open_with_flags(bench.data.join("wiki.db"), flags).unwrap();
    let mut statement = database.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|it| serde_json::from_str(&it.unwrap()).unwrap()).collect()
}

/// Returns the events of a kind, oldest first.
pub(crate) fn events(bench: &Bench, kind: &str) -> Vec<Value> {
    rows(bench, &format!("SELECT data_json FROM events WHERE kind = '{kind}' ORDER BY id"))
}

/// Waits until the change of a Source to its present text was told, and returns what was told last.
#[track_caller]
fn told(bench: &Bench, path: &str) -> Value {
    let blob = bench.git(&["hash-object", "--no-filters", path]);
    wait_for(&format!("the change of {path} is told"), || {
        let mut told = events(bench, "source_changed").into_iter().filter(|it| it["path"] == path);
        told.next_back().filter(|it| it["blob"] == blob.as_str())
    })
}

/// Waits until the first look is done: what is changed before belongs to it.
#[track_caller]
pub(crate) fn ready(bench: &Bench) {
    until("it was looked", || {
        !rows(bench, "SELECT json_object('head', head) FROM repository_seen").is_empty()
    });
}

/// Returns the kept placement of a Topic in the present text of its Source, once there is one:
/// `{state, start, end, method, by, working}`.
#[track_caller]
fn kept(bench: &Bench, topic: &Topic) -> Value {
    let blob = bench.git(&["hash-object", "--no-filters", &topic.path]);
    kept_in(bench, topic, &blob)
}

/// The same for any version.
#[track_caller]
fn kept_in(bench: &Bench, topic: &Topic, blob: &str) -> Value {
    let query = format!(
        "SELECT json_object('state', state, 'start', start, 'end', end, 'method', method,
                            'by', decided_by, 'working', is_working)
         FROM placements WHERE topic_id = '{}' AND blob = '{blob}'",
        topic.id
    );
    wait_for("the placement is kept", || rows(bench, &query).pop())
}

/// Returns the placement of a Topic as a reader gets it.
#[track_caller]
fn shown(bench: &Bench, topic: &Topic) -> Value {
    bench.get(&format!("/api/topics/{}", topic.id)).ok()["topic"]["placement"].clone()
}

/// Returns the words of the present text at a placement.
#[track_caller]
fn words(bench: &Bench, topic: &Topic, placement: &Value) -> String {
    let of = |name: &str| usize::try_from(placement[name].as_u64().unwrap()).unwrap();
    bench.read(&topic.path)[of("start")..of("end")].to_owned()
}
