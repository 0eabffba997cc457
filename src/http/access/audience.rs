//! Which events a reader of the stream sees.

use crate::base::{EventKind, Result, fault};
use crate::http::Edge;
use crate::jobs;
use crate::people::Caller;
use crate::store::StoredEvent;

/// Which events somebody sees.
pub(in crate::http) enum View {
    /// Those of the site, and of this scope.
    Person(String),
    /// Those that are about one of these: the agent of a job sees what its job is granted, and the
    /// Topic that its job opens.
    Job {
        /// The job as an actor.
        actor: String,
        /// What it sees.
        subjects: Vec<String>,
    },
}

impl View {
    /// Returns what a caller sees.
    ///
    /// # Errors
    /// As any read.
    pub(in crate::http) async fn of(edge: &Edge, caller: &Caller) -> Result<View> {
        let id = match caller {
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

    /// Whether it shows an event; they are asked about in their order.
    pub(in crate::http) fn has(&mut self, event: &StoredEvent) -> bool {
        let subjects = match self {
            View::Person(own) => return event.scope == "site" || event.scope == *own,
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
