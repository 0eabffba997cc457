//! The stream of a run for one reader: the items of its file, and the ending from its row.
//!
//! **Invariant:** every stream ends with one `done`, after an `error` unless the run succeeded.
//! Both are made from the settled row, so each reader gets the same.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::api::chat::{Answered, RunError};
use crate::base::{ChatMessageId, Error, JobId, PersonId, Result, fault};
use crate::chat::{self, End, Ended, Item, Pokes, Role, Run, Sum, Tail};
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
    /// Whether the row may have changed since it was read.
    is_row_due: bool,
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
        is_row_due: true,
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
            // A token reaches its reader by one look at the file, and none into the database.
            if self.tail.is_drained && !self.is_row_due && self.stays {
                self.wait().await;
            }
            let mut lines = self.tail.read()?;
            if lines.is_empty() && self.is_row_due {
                self.is_row_due = false;
                // Read before the file: once the run has ended, the file is complete.
                let run = self.works.store.look(|c| chat::find_run(c, &self.person, &self.run))?;
                lines = self.tail.read()?;
                // What is left of the file comes before the ending.
                self.is_row_due = !lines.is_empty();
                if lines.is_empty() {
                    lines = self.rest(&run)?;
                }
            }
            self.has_begun |= !lines.is_empty() || self.tail.last_seq > 0;
            let has_read = !lines.is_empty();
            lines.retain(|(seq, _)| *seq > self.after);
            if let Some((seq, _)) = lines.last() {
                self.after = *seq;
                return Ok(Some(lines));
            }
            if !has_read && !self.is_over && !self.stays {
                return Ok(None);
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
        let early = End { ended: Ended::Ok, code: None, text: None };
        let early = (fault::is_off("done_last") && self.tail.last_seq > 1).then_some(&early);
        let Some(end) = run.end.as_ref().or(early) else { return Ok(lines) };
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
                    Ok(_) | Err(RecvError::Lagged(_)) => {
                        self.is_row_due = true;
                        return;
                    }
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
pub(super) fn answer_of(
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
    Ok(text_of(&chat::sum(&job_dir(&site.config.site.data, id))?.unwrap_or_default()))
}

/// Returns the text of all steps.
pub(super) fn text_of(said: &Sum) -> String {
    let steps: Vec<&str> = said.steps().map(|(_, text)| text).collect();
    steps.join("\n\n")
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
            (None, text_of(&said))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::chat_stream::{StreamItem, StreamLine};
    use crate::base::Millis;

    /// The command line parses what is written here.
    #[test]
    fn readers_know_every_item() {
        let run: JobId = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
        let parsed = |item: Item| {
            let line: StreamLine = serde_json::from_str(&item.line(7, Millis(0), &run)).unwrap();
            assert_eq!((line.seq, line.run_id.as_ref()), (Some(7), Some(&run)));
            line.item
        };
        let word = || "x".to_owned();
        let id = || "018bcfe5-6800-7000-8000-000000000002".to_owned();
        for item in [
            Item::Start { session_id: id().parse().unwrap(), mode: word(), model: None },
            Item::Text { step: 1, delta: word() },
            Item::Status { code: word(), message: word() },
            Item::ToolCall { id: id().parse().unwrap(), step: 1, tool: word(), args: json!({}) },
            Item::ConfirmRequired {
                id: id().parse().unwrap(),
                tool: word(),
                approval_id: id().parse().unwrap(),
                reason: word(),
                preview: word(),
                expires_at: Millis(0),
            },
            Item::ToolResult {
                id: id().parse().unwrap(),
                tool: word(),
                state: "done",
                ok: true,
                summary: word(),
                ms: 1,
            },
            Item::Reset { step: 1, from_seq: 2 },
            Item::Error { code: word(), message: word(), hint: word() },
            Item::Done {
                session_id: id().parse().unwrap(),
                message_id: None,
                reason: word(),
                artefact: None,
            },
        ] {
            let shown = item.word();
            assert!(!matches!(parsed(item), StreamItem::Other), "{shown}");
        }
        let usage =
            Item::Usage { input: 1, output: 1, cache_read: 0, cache_write: 0, cost_usd: None };
        assert!(matches!(parsed(usage), StreamItem::Other));
        let ping: StreamLine = serde_json::from_str("{\"type\":\"ping\"}").unwrap();
        assert!(ping.seq.is_none() && matches!(ping.item, StreamItem::Other));
    }
}
