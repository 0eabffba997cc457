//! Which events a reader of the stream sees.

use crate::base::{Result, fault};
use crate::http::Edge;
use crate::jobs;
use crate::people::Caller;
use crate::store::StoredEvent;

/// Which events somebody sees.
pub(super) enum View {
    /// Those of the site, and of this scope.
    Person(String),
    /// Those that are about one of these: the agent of a job sees what its job is granted.
    Job(Vec<String>),
}

impl View {
    /// Returns what a caller sees.
    ///
    /// # Errors
    /// As any read.
    pub(super) async fn of(edge: &Edge, caller: &Caller) -> Result<View> {
        let id = match caller {
            Caller::Person { person, .. } => {
                return Ok(View::Person(format!("person:{}", person.id)));
            }
            Caller::Job { id, .. } => id.clone(),
        };
        let job = edge.store.read(move |c| jobs::find(c, &id)).await?;
        let granted = job.grants.iter().map(|it| it.subject().to_owned());
        Ok(View::Job(granted.chain([format!("job:{}", job.id)]).collect()))
    }

    /// Whether it shows an event.
    pub(super) fn has(&self, event: &StoredEvent) -> bool {
        let subjects = match self {
            View::Person(own) => return event.scope == "site" || event.scope == *own,
            View::Job(subjects) => subjects,
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
