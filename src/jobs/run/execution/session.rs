//! The session of a job's engine: begun under a name that is on record, or gone on with.

use rusqlite::Connection;

use crate::base::{JobId, fault};
use crate::jobs::queue::parking::{self, Session};
use crate::jobs::rows::table;
use crate::jobs::run::dispatch::Inner;
use crate::jobs::run::execution::failed;
use crate::jobs::run::settle::{Ended, Outcome};
use crate::jobs::speak::NO_SESSION;
use crate::jobs::{Generation, Job, Reason, Viewer};
use crate::script::Kind;
use crate::store::Tx;

/// Returns the session of a job whose engine is told it: a new one gets its name here, on record
/// before the agent starts; a later leg goes on with that of the leg before it.
pub(super) async fn of(
    (inner, generation): (&Inner, &Generation),
    job: &Job,
    kind: &Kind,
    earlier: Option<String>,
) -> std::result::Result<Option<Session>, Outcome> {
    let Ok(engine) = generation.engines.find(&kind.engine) else { return Ok(None) };
    let going_on = |name: &str| Session { name: name.to_owned(), is_resumed: true };
    let can_resume = engine.can_resume();
    if let Some(earlier) = earlier.filter(|_| can_resume) {
        keep_session(inner, job, &earlier).await?;
        return Ok(Some(going_on(&earlier)));
    }
    if let Some(before) = &job.resumes {
        let look = |c: &Connection| table::find_slim(c, &Viewer::Program, before);
        let began = inner.setup.store.look(look);
        let began = began.map_err(|cause| failed(Reason::Internal, cause.chain()))?;
        let now = generation.config.engines.get(&kind.engine);
        let other = now.and_then(|it| began.other_engine(it, &generation.config.folder));
        if let Some(tail) = other.filter(|_| !fault::is_off("same_engine")) {
            return Err(failed(Reason::SessionLost, tail));
        }
        return match &job.session_ref {
            Some(session) if can_resume => Ok(Some(going_on(session))),
            _ => {
                let tail = "its engine can no longer resume sessions".to_owned();
                Err(failed(Reason::SessionLost, tail))
            }
        };
    }
    if engine.sessions.session.is_empty() || job.session_ref.is_some() {
        let name = job.session_ref.clone();
        return Ok(name.map(|name| Session { name, is_resumed: false }));
    }
    let session: JobId = inner.setup.ids.mint();
    keep_session(inner, job, session.as_str()).await?;
    Ok(Some(Session { name: session.to_string(), is_resumed: false }))
}

/// Returns whether a later leg failed because its engine does not know its session any more. An
/// engine that is not spoken to says so in its own words.
pub(super) fn is_lost(job: &Job, outcome: &Outcome) -> bool {
    let has_failed = matches!(outcome.ended, Ended::Not(_, Reason::ExitStatus));
    job.resumes.is_some() && has_failed && outcome.error_tail.contains(NO_SESSION)
}

async fn keep_session(inner: &Inner, job: &Job, name: &str) -> std::result::Result<(), Outcome> {
    let (id, name) = (job.id.clone(), name.to_owned());
    let keep = move |tx: &Tx<'_>| parking::keep_session(tx, &id, &name);
    let kept = inner.setup.store.write(keep).await;
    kept.map_err(|cause| failed(Reason::Internal, cause.chain()))
}
