//! The stream of a run for one reader: the items of its file, and the ending from its row.
//!
//! **Invariant:** every stream ends with one `done`, after an `error` unless the run succeeded.
//! Both are made from the settled row, so each reader gets the same.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::api::chat::{Answered, RunError};
use crate::base::{ChatMessageId, Error, JobId, PersonId, Result};
use crate::chat::{self, Ended, Item, Pokes, Role, Run, Tail};
use crate::flows::assistant::record;
use crate::flows::assistant::{hint, run, seat};
use crate::flows::{Site, Works};
use crate::jobs::{self, job_dir};
use crate::people::Caller;
use crate::store::StoredEvent;

/// A reader of a run's stream.
pub struct Follower {
    works: Works,
    person: PersonId,
    run: JobId,
    tail: Tail,
    after: u64,
    stays: bool,
    has_begun: bool,
    is_over: bool,
    pokes: Pokes,
    events: Receiver<Arc<StoredEvent>>,
}

/// Returns a reader of a run's items after a number; if it `stays`, until the run has ended.
///
/// # Errors
/// `not_found`: `no_assistant`, `no_run`, and `stream_gone` if the items were removed.
pub async fn follow(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    (after, stays): (u64, bool),
) -> Result<Follower> {
    let person = seat(site, caller)?.person.id;
    // Subscribed before the first look, so that nothing is missed.
    let (pokes, events) = (site.chat.follow(id), site.store.subscribe());
    let (run, files) =
        site.store.look(|c| Ok((chat::find_run(c, &person, id)?, jobs::files(c, id)?)))?;
    let is_gone = files.is_some_and(|it| it.removed.is_some());
    if is_gone {
        return Err(Error::not_found(format!("the items of run {id} were removed"))
            .code("stream_gone")
            .hint("its answer is in the history of the conversation"));
    }
    let dir = job_dir(&site.config.site.data, &run.job_id);
    Ok(Follower {
        works: site.works.clone(),
        person,
        run: run.job_id,
        tail: Tail::after(&dir, after),
        after,
        stays,
        has_begun: false,
        is_over: false,
        pokes,
        events,
    })
}

impl Follower {
    /// Returns the next lines with their numbers; `None` at the end. Cancel-safe.
    ///
    /// # Errors
    /// `not_found` if the conversation was deleted; as reading.
    pub async fn next(&mut self) -> Result<Option<Vec<(u64, String)>>> {
        while !self.is_over {
            // The row is read first: once the run has ended, the file is complete.
            let run = self.works.store.look(|c| chat::find_run(c, &self.person, &self.run))?;
            let mut lines = self.tail.read()?;
            if lines.is_empty() {
                lines = self.rest(&run)?;
            }
            self.has_begun |= !lines.is_empty() || self.tail.last_seq > 0;
            lines.retain(|(seq, _)| *seq > self.after);
            if let Some((seq, _)) = lines.last() {
                self.after = *seq;
                return Ok(Some(lines));
            }
            if !self.is_over && self.tail.last_seq == 0 && !self.stays {
                return Ok(None);
            }
            if !self.is_over {
                if !self.stays && self.has_begun {
                    return Ok(None);
                }
                self.wait().await;
            }
        }
        Ok(None)
    }

    /// Returns what is not in the file: the first item as long as there is no file, and the ending.
    fn rest(&mut self, run: &Run) -> Result<Vec<(u64, String)>> {
        let mut lines = Vec::new();
        let mut seq = self.tail.last_seq;
        if seq == 0 && (!self.has_begun || run.end.is_some()) {
            let answer = run::answer(&self.works.config, run);
            lines.push((1, answer.start.line(1, answer.at, &answer.run)));
            seq = 1;
        }
        let Some(end) = &run.end else { return Ok(lines) };
        let at = run.ended_at.unwrap_or(run.created_at);
        if let Some(error) = error_of(run) {
            seq += 1;
            let RunError { code, message, hint } = error;
            lines.push((seq, Item::Error { code, message, hint }.line(seq, at, &run.job_id)));
        }
        seq += 1;
        let done = Item::Done {
            session_id: run.session_id.clone(),
            message_id: self.works.store.look(|c| answer_of(c, run))?.map(|it| it.0),
            reason: end.ended.as_str().to_owned(),
            artefact: run.record.is_due.then(|| record::path_of(run)),
        };
        lines.push((seq, done.line(seq, at, &run.job_id)));
        self.is_over = true;
        Ok(lines)
    }

    async fn wait(&mut self) {
        let job = format!("job:{}", self.run);
        // A conversation that is deleted ends the stream too.
        let is_about = |subject: &str| subject == job || subject.starts_with("chat:");
        loop {
            tokio::select! {
                changed = self.pokes.changed() => {
                    if changed.is_ok() {
                        return;
                    }
                }
                event = self.events.recv() => match event {
                    Ok(event) if !is_about(&event.subject) => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => return,
                    // The server is stopping; the owner of this reader ends it.
                    Err(RecvError::Closed) => return std::future::pending().await,
                }
            }
        }
    }
}

/// Returns why a run failed; `None` if it succeeded or is open.
pub(super) fn error_of(run: &Run) -> Option<RunError> {
    let end = run.end.as_ref().filter(|it| it.ended != Ended::Ok)?;
    let code = end.code.clone().unwrap_or_else(|| "internal".to_owned());
    let message = end.text.clone().filter(|it| !it.is_empty());
    Some(RunError {
        hint: hint(&code).to_owned(),
        message: message.unwrap_or_else(|| "the run failed".to_owned()),
        code,
    })
}

/// Returns a run's answer: its last message, and the text of all its steps.
fn answer_of(
    connection: &rusqlite::Connection,
    run: &Run,
) -> Result<Option<(ChatMessageId, String)>> {
    let mut found: Option<(ChatMessageId, String)> = None;
    let mut parent = run.question_id.clone();
    loop {
        let below = chat::siblings(connection, &run.session_id, Some(&parent))?;
        let mut own = None;
        for id in below {
            let message = chat::find_message(connection, &run.session_id, &id)?;
            if message.role == Role::Assistant && message.run_id.as_ref() == Some(&run.job_id) {
                own = Some(message);
            }
        }
        let Some(message) = own else { return Ok(found) };
        let before = found.map(|(_, text)| text + "\n\n").unwrap_or_default();
        parent = message.id.clone();
        found = Some((message.id, before + &message.body));
    }
}

/// Returns a run's text so far.
///
/// # Errors
/// `not_found` with code `no_run`.
pub async fn so_far(site: &Site, caller: &Caller, id: &JobId) -> Result<String> {
    let person = seat(site, caller)?.person.id;
    site.store.look(|c| chat::find_run(c, &person, id))?;
    let said = chat::sum(&job_dir(&site.config.site.data, id))?.unwrap_or_default();
    let steps: Vec<&str> = said.steps().map(|(_, text)| text).collect();
    Ok(steps.join("\n\n"))
}

/// Waits for the end of a run; returns its state then, at `stop`, or after the time limit.
///
/// # Errors
/// As [`follow`].
pub async fn answered(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    (wait, stop): (std::time::Duration, &CancellationToken),
) -> Result<Answered> {
    let mut follower = follow(site, caller, id, (0, true)).await?;
    let ended = async {
        while follower.next().await?.is_some() {}
        Ok::<(), Error>(())
    };
    tokio::select! {
        ended = tokio::time::timeout(wait, ended) => {
            if let Ok(Err(cause)) = ended {
                return Err(cause);
            }
        }
        () = stop.cancelled() => {}
    }
    let person = seat(site, caller)?.person.id;
    let (run, answer) = site.store.look(|c| {
        let run = chat::find_run(c, &person, id)?;
        let answer = answer_of(c, &run)?;
        Ok((run, answer))
    })?;
    let (message_id, text) = match answer {
        Some((id, text)) => (Some(id), text),
        None => {
            let said = chat::sum(&job_dir(&site.config.site.data, id))?.unwrap_or_default();
            let steps: Vec<&str> = said.steps().map(|(_, text)| text).collect();
            (None, steps.join("\n\n"))
        }
    };
    Ok(Answered {
        session_id: run.session_id.clone(),
        run_id: run.job_id.clone(),
        message_id,
        text,
        ended: run.end.as_ref().map(|it| it.ended.as_str().to_owned()),
        error: error_of(&run),
    })
}
