//! Which events a reader of the stream receives.

use tracing::warn;

use crate::base::{Actor, EventKind, Result, fault};
use crate::channels;
use crate::http::Edge;
use crate::jobs;
use crate::people::Caller;
use crate::store::{Store, StoredEvent};

/// The events that a reader receives.
pub(in crate::http) enum View {
    /// Events of the site and of one scope.
    Person(String),
    /// Events of the channels that a member from outside takes part in.
    Outside {
        /// Used to look up the channels for each event.
        store: Store,
        /// The member.
        member: Actor,
    },
    /// Events about one of these: a job's agent receives those of its grants, and of the Topic that
    /// the job opens.
    Job {
        /// The job as an actor.
        actor: String,
        /// Its scopes.
        subjects: Vec<String>,
    },
}

impl View {
    /// Returns the audience of a caller.
    ///
    /// # Errors
    /// As any read.
    pub(in crate::http) async fn of(edge: &Edge, caller: &Caller) -> Result<View> {
        let id = match caller {
            Caller::Person { person, .. } if person.is_external => {
                let member = Actor::Person(person.id.clone());
                return Ok(View::Outside { store: edge.store.clone(), member });
            }
            Caller::Person { person, .. } => {
                return Ok(View::Person(format!("person:{}", person.id)));
            }
            Caller::Job { id, .. } => id.clone(),
        };
        let job = edge.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &id)).await?;
        let granted = job.grants.iter().map(|it| it.subject().to_owned());
        let actor = format!("job:{}", job.id);
        Ok(View::Job { subjects: granted.chain([actor.clone()]).collect(), actor })
    }

    /// Returns whether the reader receives an event. Events must be passed in order.
    pub(in crate::http) fn has(&mut self, event: &StoredEvent) -> bool {
        let subjects = match self {
            View::Person(own) => return event.scope == "site" || event.scope == *own,
            View::Outside { store, member } => return is_of_own_channel(store, member, event),
            View::Job { actor, subjects } => {
                if event.kind == EventKind::TopicCreated && event.actor == *actor {
                    subjects.push(event.subject.clone());
                }
                subjects
            }
        };
        let about = |field: &str, kind: &str| {
            event.data[field].as_str().is_some_and(|it| subjects.contains(&format!("{kind}:{it}")))
        };
        event.scope == "site"
            && (subjects.contains(&event.subject)
                || about("job_id", "job")
                || about("topic_id", "topic")
                || about("source_path", "source")
                || fault::is_off("job_events"))
    }
}

/// Returns whether an event is about a channel that the person takes part in, or about its members,
/// and not from before they joined it for the last time: as its history, also when replayed.
fn is_of_own_channel(store: &Store, member: &Actor, event: &StoredEvent) -> bool {
    let is_told = matches!(
        event.kind,
        EventKind::ChannelMessage | EventKind::ChannelChanged | EventKind::MemberChanged
    );
    let Some(channel) = event.data["channel"].as_str().filter(|_| is_told) else { return false };
    let when = (event.at, event.data["sequence"].as_i64());
    match store.look(|c| channels::hears(c, channel, member, when)) {
        Ok(hears) => event.scope == "site" && hears,
        Err(cause) => {
            warn!("an event is not told to somebody from outside: {}", cause.chain());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::Millis;

    fn event(kind: EventKind, topic: &str, actor: &str) -> StoredEvent {
        StoredEvent {
            id: 1,
            at: Millis(0),
            kind,
            subject: format!("topic:{topic}"),
            actor: actor.to_owned(),
            scope: "site".to_owned(),
            data: json!({"topic_id": topic}),
        }
    }

    #[test]
    fn a_job_hears_of_the_topic_that_it_opens_and_of_no_other_one() {
        let subjects = vec!["source:a.md".to_owned(), "job:7".to_owned()];
        let mut view = View::Job { actor: "job:7".to_owned(), subjects };
        let said = |topic| event(EventKind::MessagePosted, topic, "person:1");
        assert!(!view.has(&said("own")));
        assert!(!view.has(&event(EventKind::TopicCreated, "other", "person:1")));
        assert!(!view.has(&event(EventKind::TopicCreated, "third", "job:77")));
        assert!(view.has(&event(EventKind::TopicCreated, "own", "job:7")));
        assert!(view.has(&said("own")));
        assert!(!view.has(&said("other")) && !view.has(&said("third")));
    }
}
