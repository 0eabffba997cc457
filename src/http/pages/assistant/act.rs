//! The forms of the assistant's page.

use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::chat::{AskRequest, SessionRequest};
use crate::api::chat_settings::ConfigRequest;
use crate::base::{ApprovalId, CallId, ChatId, ChatMessageId, JobId, Millis, Result};
use crate::flows::Site;
use crate::flows::approvals::decide::{Answer, DecideRequest, decide};
use crate::flows::assistant;
use crate::http::pages::Frame;
use crate::http::pages::assistant::{Asked, at, page, settings};
use crate::http::pages::parts::form;
use crate::http::{Call, any_of, post, reply};

/// Largest form with a question, in which every byte may be escaped as three.
const FORM_BYTES_MAX: usize = 3 * 1024 * 1024 + 4 * 1024;
/// Longest body of the other forms, in bytes.
const SMALL_BYTES_MAX: usize = 16 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskForm {
    key: String,
    #[serde(default)]
    session: Option<ChatId>,
    #[serde(default)]
    parent: Option<String>,
    /// The mode that answers; without it, the person's.
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    message: Option<String>,
    /// The id of an action, with the digest that was shown if it requires confirmation.
    #[serde(default)]
    action: Option<String>,
    /// `1` for a dry run.
    #[serde(default)]
    dry: Option<String>,
    /// Paths of uploaded files, one per line.
    #[serde(default)]
    attachments: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeForm {
    mode: String,
    /// `settings` for the page of the settings.
    #[serde(default)]
    back: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScratchForm {
    /// The list's `before`.
    before: Millis,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunForm {
    run: JobId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowForm {
    head: ChatMessageId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallForm {
    call: CallId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerForm {
    approval: ApprovalId,
    version: i64,
    /// `allow` or `decline`.
    answer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TitleForm {
    title: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceForm {
    #[serde(default)]
    pinned: Option<bool>,
    #[serde(default)]
    archived: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInForm {
    token: String,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/assistant", site, ask),
        post("/assistant/sign-in", site, sign_in),
        post("/assistant/sign-out", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let outcome = assistant::sign_out(&site, &call.caller()?).await;
            form::answer(outcome, |_| "/assistant".to_owned(), "/assistant".to_owned(), None)
        }),
        post("/assistant/mode", site, choose_mode),
        post("/assistant/scratch", site, async |site: Site, mut call: Call| {
            let sent: ScratchForm = call.form(SMALL_BYTES_MAX).await?;
            let outcome = assistant::clear_scratch(&site, &call.caller()?, sent.before).await;
            form::answer(outcome, |_| "/assistant".to_owned(), "/assistant".to_owned(), None)
        }),
        post("/assistant/{session}/stop", site, stop),
        post("/assistant/{session}/show", site, show),
        post("/assistant/{session}/undo", site, undo),
        post("/assistant/{session}/do", site, do_now),
        post("/assistant/{session}/answer", site, answer),
        post("/assistant/{session}/title", site, title),
        post("/assistant/{session}/place", site, place),
        post("/assistant/{session}/delete", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let id: ChatId = call.param("session")?;
            let outcome = assistant::remove(&site, &call.caller()?, &id).await;
            form::answer(outcome, |()| "/assistant".to_owned(), at(&id), None)
        }),
    ])
}

async fn ask(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (AskForm, _) = call.form_with_digest(FORM_BYTES_MAX).await?;
    let typed = sent.message.as_deref().map(form::text);
    let key = call.key_of_form(sent.key, digest)?;
    let framed = Frame::of(&site, &call, "/assistant")?;
    let (action_id, confirm) = match sent.action.as_deref() {
        None | Some("") => (None, None),
        Some(chosen) => match chosen.split_once(' ') {
            None => (Some(chosen.to_owned()), None),
            Some((id, digest)) => (Some(id.to_owned()), Some(digest.to_owned())),
        },
    };
    let attachments = sent.attachments.unwrap_or_default();
    let request = AskRequest {
        session_id: sent.session.clone(),
        message: typed.clone(),
        parent_id: sent.parent,
        mode: sent.mode,
        action_id,
        confirm,
        dry_run: sent.dry.as_deref() == Some("1"),
        piped: false,
        attachments: attachments.lines().filter(|it| !it.is_empty()).map(str::to_owned).collect(),
    };
    match assistant::ask(&site, &call.caller()?, request, Some(key)).await {
        Ok(asked) => reply::see_other(&at(&asked.session_id)),
        Err(cause) => {
            let refused = Some((typed.unwrap_or_default(), cause));
            page(&site, framed, (sent.session, Asked::default()), refused).await
        }
    }
}

async fn undo(site: Site, mut call: Call) -> Result<Response> {
    let id: ChatId = call.param("session")?;
    let sent: CallForm = call.form(SMALL_BYTES_MAX).await?;
    let outcome = assistant::undo(&site, &call.caller()?, &sent.call).await;
    form::answer(outcome, |_| at(&id), at(&id), None)
}

/// Executes a call whose confirmation expired.
async fn do_now(site: Site, mut call: Call) -> Result<Response> {
    let id: ChatId = call.param("session")?;
    let sent: CallForm = call.form(SMALL_BYTES_MAX).await?;
    let outcome = assistant::do_now(&site, &call.caller()?, &sent.call).await;
    form::answer(outcome, |_| at(&id), at(&id), None)
}

/// Decides about a call, and returns to the conversation.
async fn answer(site: Site, mut call: Call) -> Result<Response> {
    let id: ChatId = call.param("session")?;
    let sent: AnswerForm = call.form(SMALL_BYTES_MAX).await?;
    let verb = match sent.answer.as_str() {
        "allow" => Answer::Approve,
        _ => Answer::Reject,
    };
    let request = DecideRequest { version: sent.version, changes: None, note: None };
    let caller = call.caller()?;
    let outcome = decide(&site, &caller, &sent.approval, verb, request).await;
    form::answer(outcome, |_| at(&id), at(&id), None)
}

async fn sign_in(site: Site, mut call: Call) -> Result<Response> {
    let sent: SignInForm = call.form(SMALL_BYTES_MAX).await?;
    let outcome = assistant::sign_in(&site, &call.caller()?, sent.token).await;
    form::answer(outcome, |()| "/assistant".to_owned(), "/assistant".to_owned(), None)
}

/// Stores the person's mode.
async fn choose_mode(site: Site, mut call: Call) -> Result<Response> {
    let sent: ModeForm = call.form(SMALL_BYTES_MAX).await?;
    let request = ConfigRequest { mode: Some(Some(sent.mode)), ..ConfigRequest::default() };
    let outcome = assistant::set_config(&site, &call.caller()?, request).await;
    let back = match sent.back.as_deref() {
        Some("settings") => settings::PLACE,
        _ => "/assistant",
    };
    form::answer(outcome, |_| back.to_owned(), back.to_owned(), None)
}

async fn stop(site: Site, mut call: Call) -> Result<Response> {
    let sent: RunForm = call.form(SMALL_BYTES_MAX).await?;
    let id: ChatId = call.param("session")?;
    let outcome = assistant::stop(&site, &call.caller()?, &sent.run).await;
    form::answer(outcome, |_| at(&id), at(&id), None)
}

async fn show(site: Site, mut call: Call) -> Result<Response> {
    let sent: ShowForm = call.form(SMALL_BYTES_MAX).await?;
    let request = SessionRequest { head_id: Some(sent.head), ..SessionRequest::default() };
    change(site, call, request).await
}

async fn title(site: Site, mut call: Call) -> Result<Response> {
    let sent: TitleForm = call.form(SMALL_BYTES_MAX).await?;
    let request = SessionRequest { title: Some(sent.title), ..SessionRequest::default() };
    change(site, call, request).await
}

/// Pins a conversation, or puts it away.
async fn place(site: Site, mut call: Call) -> Result<Response> {
    let sent: PlaceForm = call.form(SMALL_BYTES_MAX).await?;
    let request = SessionRequest {
        is_pinned: sent.pinned,
        is_archived: sent.archived,
        ..SessionRequest::default()
    };
    change(site, call, request).await
}

async fn change(site: Site, call: Call, request: SessionRequest) -> Result<Response> {
    let id: ChatId = call.param("session")?;
    let outcome = assistant::set(&site, &call.caller()?, &id, request).await;
    form::answer(outcome, |_| at(&id), at(&id), None)
}
