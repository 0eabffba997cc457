//! A question becomes a message, a run and a job, in one transaction.

use serde_json::{Value, json};

use crate::api::chat::{AskRequest, Asked};
use crate::base::{
    Actor, ChatMessageId, Error, ErrorKind, JobId, PersonId, Result, fault, from_json,
};
use crate::chat::{
    self, ATTACHMENTS_MAX, Attachment, IMAGES_MAX, NewMessage, NewRun, Policy, Role, Session, State,
};
use crate::flows::assistant::actions::{self, Chosen};
use crate::flows::assistant::{SESSION_BUSY, Seat, closed, end, fallback, right, seat};
use crate::flows::people::refuse_disabled;
use crate::flows::{Site, kept_answer};
use crate::jobs::{self, NewJob, Pool, Viewer};
use crate::people::Caller;
use crate::script::{Mode, OnBusy};
use crate::store::{Tx, idempotency};

/// Asks a question. The run that answers continues even if nobody reads it.
///
/// # Errors
/// `not_found`: `no_assistant`, `no_session`, `no_message`, `no_action`; `forbidden`: `not_named`,
/// `viewer`; `invalid`: `bad_message`, `bad_parent`, `unknown_mode`, `bad_action`; `too_large`:
/// `prompt_too_large`; `conflict`: `session_busy`, `confirm_required`, `action_changed`;
/// `unavailable`: `runtime_unavailable`; `busy`: `queue_full`, `daily_cap`.
pub async fn ask(
    site: &Site,
    caller: &Caller,
    request: AskRequest,
    key: Option<idempotency::Key>,
) -> Result<Asked> {
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return kept_asked(kept);
    }
    let seat = seat(site, caller)?;
    let action = action(site, &seat, &request).await?;
    let question = match &action {
        Some(action) => {
            // Any id will do for the length: all are equally long.
            check_text(&seat, &action.question.join(person_id(&seat)))?;
            Some(action.question.clone())
        }
        None => check(&seat, &request)?.map(|it| vec![it]),
    };
    let mode = mode(site, &seat, request.mode.as_deref())?;
    check_attachments(&request, question.is_some())?;
    let person = seat.person.id.clone();
    let draft = Draft { person, mode, question, action, request };
    let (site, store) = (site.clone(), site.store.clone());
    store
        .write(move |tx| {
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                return kept_asked(kept);
            }
            let asked = accept(tx, &site, &draft)?;
            if let Some(key) = &key {
                idempotency::remember(tx, key, &json!(asked))?;
            }
            Ok(asked)
        })
        .await
}

fn person_id<'s>(seat: &'s Seat<'_>) -> &'s str {
    seat.person.id.as_str()
}

fn kept_asked(kept: Value) -> Result<Asked> {
    from_json(&kept)
        .map_err(|cause| Error::internal("a kept answer is none of a question").source(cause))
}

/// A question, after all checks that need no transaction.
struct Draft {
    person: PersonId,
    mode: Mode,
    /// In parts between which the id of the run belongs; `None` if a question is answered again.
    question: Option<Vec<String>>,
    action: Option<Chosen>,
    request: AskRequest,
}

/// Returns the action to run.
async fn action(site: &Site, seat: &Seat<'_>, request: &AskRequest) -> Result<Option<Chosen>> {
    let Some(id) = &request.action_id else {
        return match request.confirm {
            None => Ok(None),
            Some(_) => Err(Error::invalid("only an action is confirmed")
                .code("bad_action")
                .of_input("confirm")
                .hint("send `action_id` too")),
        };
    };
    let confirm = request.confirm.as_deref();
    actions::choose(site, seat, (id, confirm), request.message.as_deref()).await.map(Some)
}

fn check(seat: &Seat<'_>, request: &AskRequest) -> Result<Option<String>> {
    let Some(text) = &request.message else {
        let names_one = request.session_id.is_some() && request.parent_id.is_some();
        return match names_one {
            true => Ok(None),
            false => Err(Error::invalid("there is nothing to answer")
                .code("bad_message")
                .of_input("message")
                .hint("send `message`, or `session_id` and the question as `parent_id`")),
        };
    };
    check_text(seat, text).map(Some)
}

fn check_text(seat: &Seat<'_>, text: &str) -> Result<String> {
    let most = seat.assistant.limits.prompt_bytes;
    if text.len() as u64 > most {
        let message = format!("the message has {} bytes, {most} are allowed", text.len());
        return Err(Error::new(ErrorKind::TooLarge, message)
            .code("prompt_too_large")
            .hint("shorten it, or send it in parts"));
    }
    let refused = |what: &str| Err(Error::invalid(what).code("bad_message").of_input("message"));
    if text.trim().is_empty() {
        return refused("the message is empty").map_err(|it| it.hint("write a message"));
    }
    if text.contains('\0') {
        return refused("the message contains a zero byte");
    }
    Ok(text.to_owned())
}

fn check_attachments(request: &AskRequest, is_new: bool) -> Result<()> {
    let count = request.attachments.len();
    let refuse = |message: String| {
        Err(Error::invalid(message).code("bad_attachments").of_input("attachments"))
    };
    if count > ATTACHMENTS_MAX {
        return refuse(format!("{count} files are attached, {ATTACHMENTS_MAX} are allowed"));
    }
    if count > 0 && !is_new {
        return refuse("files go with a new question only".to_owned());
    }
    Ok(())
}

/// Takes the attached files, which this person must have uploaded and not sent yet.
fn take_attachments(tx: &Tx<'_>, draft: &Draft) -> Result<Vec<Attachment>> {
    let mut taken = Vec::new();
    for path in &draft.request.attachments {
        let Some(file) = chat::take_upload(tx, &draft.person, path)? else {
            let shown = crate::base::truncate_chars(path, 200);
            let message =
                format!("`{}` was not uploaded, or was sent before", shown.escape_debug());
            return Err(Error::not_found(message)
                .code("no_attachment")
                .hint("POST /api/agent/attachments takes the file"));
        };
        taken.push(file);
    }
    let images = taken.iter().filter(|it| it.is_image()).count();
    let refuse = |message: &str| {
        Err(Error::invalid(message).code("attachment_type").of_input("attachments"))
    };
    if images > 0 && draft.mode == Mode::ClaudeCode {
        return refuse("Claude Code takes no images: send texts, or choose another mode");
    }
    if images > IMAGES_MAX {
        return refuse("a message has at most three images");
    }
    Ok(taken)
}

/// Returns a run's mode: the request's, or else the person's, or else the script's.
fn mode(site: &Site, seat: &Seat<'_>, asked: Option<&str>) -> Result<Mode> {
    let chosen = site.store.look(|c| chat::setting_of(c, &seat.person.id))?.mode;
    let mode = match asked {
        Some(word) => parse_mode(word)?,
        None => seat.mode(chosen.as_deref()),
    };
    match closed(site, seat, mode)? {
        None => Ok(mode),
        // Its run says that another mode answers.
        Some(closed) if fallback::instead_of(site, seat, (mode, closed.state))?.is_some() => {
            Ok(mode)
        }
        Some(closed) => {
            Err(Error::unavailable(closed.why).code("runtime_unavailable").hint(closed.hint))
        }
    }
}

/// Returns the mode with this name.
///
/// # Errors
/// `invalid` with code `unknown_mode`.
pub(super) fn parse_mode(word: &str) -> Result<Mode> {
    Mode::parse(word).ok_or_else(|| {
        let shown = crate::base::truncate_chars(word, 80);
        let modes = Mode::ALL.map(Mode::as_str).join(", ");
        Error::invalid(format!("unknown mode `{}`", shown.escape_debug()))
            .code("unknown_mode")
            .of_input("mode")
            .hint(format!("the modes are {modes}"))
    })
}

fn accept(tx: &Tx<'_>, site: &Site, draft: &Draft) -> Result<Asked> {
    let c = tx.connection();
    let by = Actor::Person(draft.person.clone());
    refuse_disabled(c, &by)?;
    // Whoever took the right away meanwhile has stopped the answers that there were.
    if right::owner(c, &site.works, &draft.person)?.is_none() {
        let message = "you may no longer use the assistant";
        return Err(Error::new(ErrorKind::Forbidden, message)
            .code("not_named")
            .hint("an admin names you in `persons` of wb.assistant"));
    }
    let session = match &draft.request.session_id {
        Some(id) => chat::find_session(c, &draft.person, id)?,
        None => {
            let question = draft.question.as_deref().and_then(|it| it.first());
            let question = question.map_or("", String::as_str);
            let title = draft.action.as_ref().map_or(question, |it| it.label.as_str());
            chat::begin(tx, &site.ids, &draft.person, title)?
        }
    };
    let is_alone = !fault::is_off("session_lane");
    if is_alone {
        refuse_busy(tx, &session)?;
    }
    let new = NewJob {
        lane: is_alone.then(|| format!("@chat={}", session.id)),
        on_busy: OnBusy::Reject,
        owner: Some(draft.person.clone()),
        pool: Pool::Chat,
        ..NewJob::plain(&draft.mode.kind(), &site.config.digest, by)
    };
    site.queue.admit(tx, &new)?;
    let run_id = jobs::enqueue(tx, &site.ids, &site.queue.capacities(), &new)?;
    let question = keep_question(tx, site, (&session, &run_id), draft)?;
    chat::note_question(tx, &session, &question, draft.question.is_some())?;
    let mode = draft.mode.as_str();
    let action = draft.action.as_ref();
    let new = NewRun {
        mode: (draft.request.mode.as_deref(), mode),
        action: action.map(|it| it.id.as_str()),
        is_dry: draft.request.dry_run,
        is_piped: draft.request.piped,
        policy: Policy { max_steps: action.and_then(|it| it.max_steps) },
    };
    chat::add_run(tx, &run_id, (&session.id, &question), &new)?;
    Ok(Asked { session_id: session.id, run_id, message_id: question, mode: mode.to_owned() })
}

/// A conversation answers one question at a time.
fn refuse_busy(tx: &Tx<'_>, session: &Session) -> Result<()> {
    let Some(open) = chat::open_of(tx.connection(), &session.id)? else { return Ok(()) };
    let job =
        jobs::find_brief(tx.connection(), &Viewer::Person(open.person_id.clone()), &open.job_id)?;
    if job.status.is_final() {
        // The job was cancelled before it started, and not through its conversation.
        return end::cancelled(tx, &job);
    }
    let message = format!("run {} answers in this conversation already", open.job_id);
    Err(Error::conflict(SESSION_BUSY, message)
        .hint(format!("wait for it, or stop it: wiki-browser chat stop {}", open.job_id)))
}

/// Stores the question, or finds the one that is answered again.
fn keep_question(
    tx: &Tx<'_>,
    site: &Site,
    (session, run): (&Session, &JobId),
    draft: &Draft,
) -> Result<ChatMessageId> {
    let c = tx.connection();
    let parent: Option<ChatMessageId> = match draft.request.parent_id.as_deref() {
        None => session.head_id.clone(),
        Some("") => None,
        Some(id) => {
            let id = id.parse().map_err(|cause: Error| cause.of_input("parent_id"))?;
            Some(chat::find_message(c, &session.id, &id)?.id)
        }
    };
    let Some(parts) = &draft.question else {
        let asked = parent.map(|it| chat::find_message(c, &session.id, &it)).transpose()?;
        return match asked {
            Some(it) if it.role == Role::User => Ok(it.id),
            _ => Err(Error::invalid("only a question can be answered again")
                .code("bad_parent")
                .of_input("parent_id")),
        };
    };
    let new = NewMessage {
        session: &session.id,
        parent: parent.as_ref(),
        role: Role::User,
        run: None,
        state: State::Whole,
        body: &parts.join(run.as_str()),
        native: None,
        model: None,
        attachments: &take_attachments(tx, draft)?,
    };
    chat::add_message(tx, &site.ids, &new)
}
