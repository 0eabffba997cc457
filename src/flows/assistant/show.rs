//! Conversations, messages and runs, as their owner sees them.

use rusqlite::Connection;

use crate::api::chat::{
    CallView, ChatMessageView, History, HistoryQuery, RunError, RunView, SessionPage, SessionView,
    SessionsQuery, SpentView,
};
use crate::base::{ChatId, Error, JobId, Result};
use crate::chat::{self, CallState, Message, Run, Session};
use crate::flows::assistant::end::spent;
use crate::flows::assistant::follow::{answer_of, error_of, text_of};
use crate::flows::assistant::undo::calls_of;
use crate::flows::assistant::{attach, find, seat};
use crate::flows::{Site, Works, page_limit};
use crate::jobs::{self, Status, Viewer, job_dir};
use crate::people::Caller;

/// Messages per page of history.
const MESSAGES_DEFAULT: u32 = 60;

/// Returns the conversations of the caller, newest first.
///
/// # Errors
/// As the seat; `not_found` with code `no_session` for an unknown cursor.
pub async fn sessions(site: &Site, caller: &Caller, query: SessionsQuery) -> Result<SessionPage> {
    let person = seat(site, caller)?.person.id;
    let limit = page_limit(query.limit)?;
    if let Some(words) = query.query {
        return find::sessions(site, person, &words, (query.after.as_deref(), limit)).await;
    }
    let after: Option<ChatId> = query.after.as_deref().map(cursor).transpose()?;
    site.store
        .read(move |c| {
            let from = (after.as_ref(), query.archived == Some(true));
            let mut found = chat::list_sessions(c, &person, from, limit + 1)?;
            let has_more = found.len() > limit as usize;
            found.truncate(limit as usize);
            let next = found.last().filter(|_| has_more).map(|it| it.id.to_string());
            let items = found.iter().map(|it| view(c, it)).collect::<Result<_>>()?;
            Ok(SessionPage { items, next, is_cut: false, is_building: false })
        })
        .await
}

fn cursor(after: &str) -> Result<ChatId> {
    after.parse().map_err(|cause: Error| cause.code("bad_parameter").of_input("after"))
}

/// Returns a conversation of the caller.
///
/// # Errors
/// As the seat; `not_found` with code `no_session`.
pub async fn session(site: &Site, caller: &Caller, id: &ChatId) -> Result<SessionView> {
    let person = seat(site, caller)?.person.id;
    let id = id.clone();
    site.store.read(move |c| view(c, &chat::find_session(c, &person, &id)?)).await
}

pub(super) fn view(connection: &Connection, it: &Session) -> Result<SessionView> {
    let open = chat::open_of(connection, &it.id)?;
    let active = match open {
        Some(run) if !is_left(connection, &run)? => Some(run.job_id),
        _ => None,
    };
    let questions = match &active {
        Some(run) => chat::calls_of_run(connection, run)?
            .iter()
            .filter(|it| it.state == CallState::Waiting)
            .count(),
        None => 0,
    };
    Ok(SessionView {
        session_id: it.id.clone(),
        title: it.title.clone(),
        is_pinned: it.is_pinned,
        is_archived: it.archived_at.is_some(),
        messages: it.messages,
        tokens_in: it.tokens_in,
        tokens_out: it.tokens_out,
        cost_usd: it.cost_micros as f64 / 1e6,
        active_run: active,
        questions: u32::try_from(questions).unwrap_or(u32::MAX),
        head_id: it.head_id.clone(),
        created_at: it.created_at,
        touched_at: it.touched_at,
        found: None,
    })
}

/// Returns whether a run is open only because its job was cancelled before it began.
fn is_left(connection: &Connection, run: &Run) -> Result<bool> {
    let viewer = Viewer::Person(run.person_id.clone());
    Ok(jobs::find_brief(connection, &viewer, &run.job_id)?.status.is_final())
}

/// Returns a run of the caller.
///
/// # Errors
/// As the seat; `not_found` with code `no_run`.
pub async fn run(site: &Site, caller: &Caller, id: &JobId) -> Result<RunView> {
    let person = seat(site, caller)?.person.id;
    let (id, works) = (id.clone(), site.works.clone());
    site.store.read(move |c| run_view(&works, c, &chat::find_run(c, &person, &id)?)).await
}

fn run_view(works: &Works, connection: &Connection, run: &Run) -> Result<RunView> {
    let viewer = Viewer::Person(run.person_id.clone());
    let job = jobs::find_brief(connection, &viewer, &run.job_id)?;
    let state = match (&run.end, job.status) {
        (Some(_), _) => "ended",
        (None, Status::Queued) => "waiting",
        (None, Status::Running) => "running",
        (None, _) => "ended",
    };
    let said = chat::sum(&job_dir(&works.config.site.data, &run.job_id))?.unwrap_or_default();
    let answer = answer_of(connection, run)?.filter(|_| run.end.is_some());
    let text = answer.map_or_else(|| text_of(&said), |it| it.1);
    let endings = match &run.end {
        None => 0,
        Some(_) => 1 + u64::from(error_of(run).is_some()),
    };
    Ok(RunView {
        run_id: run.job_id.clone(),
        session_id: run.session_id.clone(),
        question_id: run.question_id.clone(),
        mode: run.mode.clone(),
        fell_back: run.fell_back,
        action: run.action.clone(),
        dry_run: run.is_dry,
        state: state.to_owned(),
        ended: run.end.as_ref().map(|it| it.ended.as_str().to_owned()),
        error: error_of(run),
        text,
        last_seq: said.last_seq.max(1) + endings,
        artefact: run.record.path.clone(),
        created_at: run.created_at,
        ended_at: run.ended_at,
    })
}

/// Returns the branch of a conversation that is shown.
///
/// # Errors
/// As the seat; `not_found`: `no_session`, `no_message`.
pub async fn history(site: &Site, caller: &Caller, query: HistoryQuery) -> Result<History> {
    let person = seat(site, caller)?.person.id;
    let limit = match query.limit {
        None => MESSAGES_DEFAULT,
        limit => page_limit(limit)?,
    };
    let works = site.works.clone();
    site.store
        .read(move |c| {
            let session = chat::find_session(c, &person, &query.session_id)?;
            let from = match (&query.before, &query.at) {
                (None, None) => session.head_id.clone(),
                (Some(id), _) => chat::find_message(c, &session.id, id)?.parent_id,
                (None, Some(id)) => {
                    chat::find_message(c, &session.id, id)?;
                    Some(chat::below(c, id, limit as usize / 2)?)
                }
            };
            let is_in_branch = match (&query.at, &session.head_id) {
                (Some(id), Some(head)) => Some(chat::is_above(c, id, head)?),
                _ => None,
            };
            let (found, has_more) = match &from {
                Some(head) => chat::branch(c, &session.id, head, limit as usize)?,
                None => Default::default(),
            };
            let next = found.first().filter(|_| has_more).map(|it| it.id.clone());
            let open = chat::open_of(c, &session.id)?;
            let messages = views(c, &session, &found, open.as_ref())?;
            let open = match open {
                Some(run) if !is_left(c, &run)? => Some(run),
                _ => None,
            };
            let is_end = query.before.is_none() && query.at.is_none();
            let (error, error_mode) = match (&open, found.last().filter(|_| is_end)) {
                (None, Some(last)) => last_error(c, &session, last)?.unzip(),
                _ => (None, None),
            };
            let calls = calls(c, &session, &found, open.as_ref())?;
            let active_run = open.map(|it| run_view(&works, c, &it)).transpose()?;
            let head_id = session.head_id;
            Ok(History {
                messages,
                head_id,
                next,
                calls,
                active_run,
                error,
                error_mode,
                is_in_branch,
            })
        })
        .await
}

/// Returns the calls of some messages' runs, and of the newest run if it has no message yet.
fn calls(
    c: &Connection,
    session: &Session,
    found: &[Message],
    open: Option<&Run>,
) -> Result<Vec<CallView>> {
    let mut runs: Vec<JobId> = found.iter().filter_map(|it| it.run_id.clone()).collect();
    let last = found.last().filter(|it| it.run_id.is_none());
    match (open, last) {
        (Some(open), _) => runs.push(open.job_id.clone()),
        (None, Some(last)) => {
            runs.extend(chat::latest_of(c, &session.id, &last.id)?.map(|it| it.job_id));
        }
        (None, None) => {}
    }
    runs.dedup();
    let mut calls = Vec::new();
    for run in &runs {
        calls.extend(calls_of(c, &session.person_id, run)?);
    }
    Ok(calls)
}

/// Returns why the newest answer to the last message failed, and its mode.
fn last_error(
    connection: &Connection,
    session: &Session,
    last: &Message,
) -> Result<Option<(RunError, String)>> {
    let run = match &last.run_id {
        Some(run) => chat::by_job(connection, run)?,
        None => chat::latest_of(connection, &session.id, &last.id)?,
    };
    Ok(run.and_then(|run| Some((error_of(&run)?, run.mode))))
}

/// Returns messages for display. A step without text is represented by its calls, and the next step
/// of its answer takes its place. The steps of an open run come from its stream.
fn views(
    c: &Connection,
    session: &Session,
    found: &[Message],
    open: Option<&Run>,
) -> Result<Vec<ChatMessageView>> {
    let mut views = Vec::new();
    let mut wordless: Option<ChatMessageView> = None;
    for message in found {
        if message.run_id.is_some() && message.run_id.as_ref() == open.map(|it| &it.job_id) {
            continue;
        }
        let mut view = message_view(c, session, message)?;
        if let Some(first) = wordless.take().filter(|it| it.run_id == view.run_id) {
            let own = |it| if it == first.id { view.id.clone() } else { it };
            view.siblings = first.siblings.into_iter().map(own).collect();
            view.parent_id = first.parent_id;
        }
        match view.body.trim().is_empty() {
            true => wordless = Some(view),
            false => views.push(view),
        }
    }
    Ok(views)
}

fn message_view(
    connection: &Connection,
    session: &Session,
    message: &Message,
) -> Result<ChatMessageView> {
    let siblings = chat::siblings(connection, &session.id, message.parent_id.as_ref())?;
    if siblings.is_empty() {
        return Err(Error::internal(format!("message {} is not below its parent", message.id)));
    }
    let run = message.run_id.as_ref().map(|run| chat::by_job(connection, run)).transpose()?;
    let run = run.flatten();
    let spent = match &run {
        Some(run) if run.end.is_some() => spent_view(connection, run)?,
        _ => None,
    };
    Ok(ChatMessageView {
        id: message.id.clone(),
        parent_id: message.parent_id.clone(),
        role: message.role.as_str().to_owned(),
        state: message.state.as_str().to_owned(),
        body: message.body.clone(),
        run_id: message.run_id.clone(),
        attachments: message.attachments.iter().cloned().map(attach::view).collect(),
        fell_back: run.as_ref().is_some_and(|run| run.fell_back),
        artefact: run.and_then(|run| run.record.path),
        spent,
        siblings,
        created_at: message.created_at,
    })
}

/// Returns what an answer took, if its program said so.
fn spent_view(connection: &Connection, run: &Run) -> Result<Option<SpentView>> {
    let viewer = Viewer::Person(run.person_id.clone());
    let spent = spent(&jobs::find_brief(connection, &viewer, &run.job_id)?);
    let view = SpentView {
        tokens_in: spent.tokens_in,
        tokens_out: spent.tokens_out,
        cost_usd: spent.cost_micros as f64 / 1e6,
    };
    Ok(Some(view).filter(|it| it.tokens_in + it.tokens_out > 0))
}
