//! Applying a suggestion at once: the job that turns it into a proposal.

use serde_json::{Map, json};

use crate::base::{Error, SourcePath, TopicId, digest_hex};
use crate::flows::Site;
use crate::flows::jobs::{self, JobRequest, changes};
use crate::flows::proposals::suggestions::{Suggested, applying};
use crate::flows::requests::new_job;
use crate::people::Caller;
use crate::store::idempotency::Key;

/// Starts the job that applies the last suggestion of a Topic, after the suggestion was stored: a
/// refusal undoes nothing of that.
pub async fn apply<T>(
    site: &Site,
    caller: &Caller,
    id: &TopicId,
    made: T,
    key: Option<&Key>,
) -> Suggested<T> {
    let started = match applying(&site.config) {
        None => Err(Error::invalid("no kind on this site applies suggestions directly")
            .code("no_kind")
            .hint("ask an agent on the Topic's page")),
        Some((kind, own)) => {
            let request = JobRequest {
                kind: kind.name.clone(),
                priority: None,
                not_before: None,
                replace_proposals: false,
                inputs: Map::from_iter([(own.name.clone(), json!(id))]),
            };
            // Repeating the request finds the same job, under a key of its own.
            let key = key.map(|key| Key {
                key: digest_hex(format!("{} job", key.key)),
                route: format!("{} job", key.route),
                ..key.clone()
            });
            jobs::create(site, caller, request, key).await
        }
    };
    match started {
        Ok(job) => Suggested { made, job_id: Some(job), not_started: None },
        Err(cause) => Suggested { made, job_id: None, not_started: Some(cause.into()) },
    }
}

/// Returns why no suggestion on a document can be applied now, whatever its words.
pub async fn unready(site: &Site, path: &SourcePath) -> Option<Error> {
    let (kind, _) = applying(&site.config)?;
    let source = kind.source_input(|_| true)?;
    let refusal = new_job::refuse_unready(site, source, path).await.err()?;
    Some(changes::explain(site, Some(path), refusal).await)
}
