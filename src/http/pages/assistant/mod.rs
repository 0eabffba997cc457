//! The assistant: conversations, one of them, and the form that asks.

mod subscription;

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::chat::{
    ActionView, AskRequest, CallView, ChatMessageView, ConfigRequest, ConfigView, History,
    HistoryQuery, SessionRequest, SessionView, SessionsQuery,
};
use crate::base::{ApprovalId, CallId, ChatId, ChatMessageId, Error, JobId, Result};
use crate::flows::Site;
use crate::flows::approvals::decide::{Answer, DecideRequest, decide};
use crate::flows::assistant;
use crate::http::markdown::{Html, blocks_of};
use crate::http::pages::Frame;
use crate::http::pages::parts::form;
use crate::http::pages::parts::time::{At, When};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// A question as a form: every byte may be escaped by three.
const FORM_BYTES_MAX: usize = 3 * 1024 * 1024 + 4 * 1024;
/// Longest body of the other forms, in bytes.
const SMALL_BYTES_MAX: usize = 16 * 1024;
/// Conversations of the list.
const LISTED: u32 = 100;
/// Messages of a page.
const MESSAGES: u32 = 60;

/// A message as the page shows it.
struct Said {
    view: ChatMessageView,
    blocks: Vec<Html>,
    at: At,
    calls: Vec<CallView>,
}

impl Said {
    fn of(view: ChatMessageView) -> Said {
        let blocks = if view.role == "user" { Vec::new() } else { blocks_of(&view.body) };
        Said { at: At(view.created_at), blocks, view, calls: Vec::new() }
    }

    /// Adds the next step of the same answer: while it is written they are one, too.
    fn go_on(&mut self, next: Said) {
        self.blocks.extend(next.blocks);
        self.view.state = next.view.state;
    }

    fn is_question(&self) -> bool {
        self.view.role == "user"
    }

    /// Its name on the page: an answer keeps the one that it had while it was written.
    fn key(&self) -> String {
        match &self.view.run_id {
            Some(run) => format!("run-{run}"),
            None => format!("said-{}", self.view.id),
        }
    }

    fn place(&self) -> usize {
        let place = self.view.siblings.iter().position(|it| *it == self.view.id);
        place.map_or(1, |it| it + 1)
    }

    fn before(&self) -> Option<&ChatMessageId> {
        self.view.siblings.get(self.place().checked_sub(2)?)
    }

    fn after(&self) -> Option<&ChatMessageId> {
        self.view.siblings.get(self.place())
    }

    /// Returns why an answer is not whole.
    fn state(&self) -> Option<&'static str> {
        match self.view.state.as_str() {
            "stopped" => Some("Stopped"),
            "interrupted" => Some("Interrupted"),
            "failed" => Some("Incomplete"),
            _ => None,
        }
    }

    /// The message that another version of a question follows.
    fn parent(&self) -> &str {
        self.view.parent_id.as_ref().map_or("", ChatMessageId::as_str)
    }
}

/// Returns how a call stands, in a word for people.
pub(in crate::http) fn call_state(call: &CallView) -> &'static str {
    match (call.state.as_str(), call.ok, call.undone_at) {
        (_, _, Some(_)) => "undone",
        ("ready" | "running", ..) => "working",
        ("waiting", ..) => "waits for you",
        ("done", Some(true), _) => "done",
        ("declined", ..) => "declined",
        ("expired", ..) => "expired",
        ("void", ..) => "not made",
        ("cancelled", ..) => "not made",
        ("unknown", ..) => "perhaps made",
        _ => "failed",
    }
}

#[derive(Template)]
#[template(path = "assistant.html")]
struct AssistantPage {
    frame: Frame,
    sessions: Vec<SessionView>,
    config: ConfigView,
    actions: Vec<ActionView>,
    /// The conversation that is shown.
    shown: Option<Shown>,
    /// What was typed, and why it was refused.
    refused: Option<(String, String)>,
}

/// What stands there on a site without one.
#[derive(Template)]
#[template(path = "no-assistant.html")]
struct NoAssistantPage {
    frame: Frame,
}

struct Shown {
    session: SessionView,
    messages: Vec<Said>,
    /// The calls of a run that has no message yet.
    calls: Vec<CallView>,
    history: History,
    /// What the run that answers has said so far.
    so_far: Vec<Html>,
}

impl Shown {
    /// The question that the last answer, or its failure, is to.
    fn last_question(&self) -> Option<&ChatMessageId> {
        self.messages.iter().rev().find(|it| it.is_question()).map(|it| &it.view.id)
    }
}

impl AssistantPage {
    /// Returns when a question expires.
    fn expires(&self, call: &CallView) -> Option<At> {
        call.expires_at.map(At)
    }

    /// Returns why nothing can be asked.
    fn closed(&self) -> Option<(&str, &str)> {
        let mode = self.config.modes.iter().find(|it| it.mode == self.config.mode)?;
        Some((mode.why.as_deref()?, mode.hint.as_deref().unwrap_or_default()))
    }

    /// Returns what a mode is called.
    fn name_of(&self, mode: &str) -> &'static str {
        match mode {
            "claude_code" => "Claude Code",
            "gateway_subscription" => "Subscription",
            _ => "API key",
        }
    }

    /// Returns what a mode means for whoever asks.
    fn about(&self, mode: &str) -> &'static str {
        match mode {
            "claude_code" | "gateway_subscription" => "with your own subscription",
            _ => "the site pays for each answer",
        }
    }

    fn needs_sign_in(&self) -> bool {
        let is_claude = self.config.mode == "claude_code";
        is_claude && self.closed().is_some_and(|(why, _)| why.contains("signed in"))
    }

    /// Returns whether the mode is that of the person's subscription.
    fn is_subscribed(&self) -> bool {
        self.config.mode == "gateway_subscription"
    }

    fn is_shown(&self, session: &ChatId) -> bool {
        self.shown.as_ref().is_some_and(|it| it.session.session_id == *session)
    }

    fn when(&self, session: &SessionView) -> When {
        self.frame.when(&At(session.touched_at))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskForm {
    key: String,
    #[serde(default)]
    session: Option<ChatId>,
    #[serde(default)]
    parent: Option<String>,
    #[serde(default)]
    message: Option<String>,
    /// The id of an action, with the digest that was shown if it wants to be looked at.
    #[serde(default)]
    action: Option<String>,
    /// `1`: nothing is changed.
    #[serde(default)]
    dry: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeForm {
    mode: String,
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
struct UndoForm {
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
struct SignInForm {
    token: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    before: Option<ChatMessageId>,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        subscription::routes(site),
        get("/assistant", site, async |site: Site, call: Call| {
            let framed = Frame::of(&site, &call, "/assistant")?;
            if site.config.assistant.is_none() {
                return reply::page(&NoAssistantPage { frame: framed.0 });
            }
            page(&site, framed, (None, None), None).await
        }),
        post("/assistant", site, ask),
        post("/assistant/sign-in", site, sign_in),
        post("/assistant/sign-out", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let outcome = assistant::sign_out(&site, &call.caller()?).await;
            form::answer(outcome, |_| "/assistant".to_owned(), "/assistant".to_owned(), None)
        }),
        post("/assistant/mode", site, choose_mode),
        get("/assistant/{session}", site, async |site: Site, call: Call| {
            let id: ChatId = call.param("session")?;
            let asked: Listed = call.query()?;
            let framed = Frame::of(&site, &call, "/assistant")?;
            page(&site, framed, (Some(id), asked.before), None).await
        }),
        post("/assistant/{session}/stop", site, stop),
        post("/assistant/{session}/show", site, show),
        post("/assistant/{session}/undo", site, undo),
        post("/assistant/{session}/answer", site, answer),
        post("/assistant/{session}/title", site, title),
        post("/assistant/{session}/delete", site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let id: ChatId = call.param("session")?;
            let outcome = assistant::remove(&site, &call.caller()?, &id).await;
            form::answer(outcome, |()| "/assistant".to_owned(), at(&id), None)
        }),
    ])
}

fn at(session: &ChatId) -> String {
    format!("/assistant/{session}")
}

async fn page(
    site: &Site,
    (mut frame, caller): (Frame, Caller),
    (session, before): (Option<ChatId>, Option<ChatMessageId>),
    refused: Option<(String, Error)>,
) -> Result<Response> {
    let query = SessionsQuery { after: None, limit: Some(LISTED) };
    let sessions = assistant::sessions(site, &caller, query).await?.items;
    let config = assistant::config(site, &caller).await?;
    let actions = match assistant::actions(site, &caller).await {
        Ok(actions) => actions.items,
        // The tools say what is wrong with the vault; a conversation needs none.
        Err(cause) => {
            tracing::warn!("no actions are shown: {}", cause.chain());
            Vec::new()
        }
    };
    let shown = match session {
        Some(id) => Some(shown(site, &caller, id, before).await?),
        None => None,
    };
    if shown.as_ref().is_some_and(|it| it.history.active_run.is_some()) {
        frame.refresh();
    }
    match refused {
        None => {
            let refused = None;
            reply::page(&AssistantPage { frame, sessions, config, actions, shown, refused })
        }
        Some((typed, cause)) => {
            let hint = cause.hint_str().map(|it| format!(": {it}")).unwrap_or_default();
            let refused = Some((typed, format!("{}{hint}", cause.message())));
            let page = AssistantPage { frame, sessions, config, actions, shown, refused };
            reply::refused(&page, &cause)
        }
    }
}

async fn shown(
    site: &Site,
    caller: &Caller,
    id: ChatId,
    before: Option<ChatMessageId>,
) -> Result<Shown> {
    let session = assistant::session(site, caller, &id).await?;
    let query = HistoryQuery { session_id: id, before, limit: Some(MESSAGES) };
    let mut history = assistant::history(site, caller, query).await?;
    let mut calls = std::mem::take(&mut history.calls);
    let said = std::mem::take(&mut history.messages).into_iter().map(Said::of);
    let mut messages: Vec<Said> = Vec::new();
    for next in said {
        match messages.last_mut() {
            Some(last) if last.view.run_id.is_some() && last.view.run_id == next.view.run_id => {
                last.go_on(next);
            }
            _ => messages.push(next),
        }
    }
    // The calls of a run stand under the last that it said.
    for said in messages.iter_mut().rev() {
        let Some(run) = &said.view.run_id else { continue };
        let (own, others) = calls.into_iter().partition(|it| it.run_id == *run);
        (said.calls, calls) = (own, others);
    }
    let so_far = match &history.active_run {
        Some(run) => blocks_of(&assistant::so_far(site, caller, &run.run_id).await?),
        None => Vec::new(),
    };
    Ok(Shown { session, messages, calls, history, so_far })
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
    let request = AskRequest {
        session_id: sent.session.clone(),
        message: typed.clone(),
        parent_id: sent.parent,
        mode: None,
        action_id,
        confirm,
        dry_run: sent.dry.as_deref() == Some("1"),
    };
    match assistant::ask(&site, &call.caller()?, request, Some(key)).await {
        Ok(asked) => reply::see_other(&at(&asked.session_id)),
        Err(cause) => {
            let refused = Some((typed.unwrap_or_default(), cause));
            page(&site, framed, (sent.session, None), refused).await
        }
    }
}

async fn undo(site: Site, mut call: Call) -> Result<Response> {
    let id: ChatId = call.param("session")?;
    let sent: UndoForm = call.form(SMALL_BYTES_MAX).await?;
    let outcome = assistant::undo(&site, &call.caller()?, &sent.call).await;
    form::answer(outcome, |_| at(&id), at(&id), None)
}

/// Answers a question about a call, and leads back to the conversation.
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

/// Keeps which mode the person's questions go to.
async fn choose_mode(site: Site, mut call: Call) -> Result<Response> {
    let sent: ModeForm = call.form(SMALL_BYTES_MAX).await?;
    let request = ConfigRequest { mode: Some(sent.mode) };
    let outcome = assistant::set_config(&site, &call.caller()?, request).await;
    form::answer(outcome, |_| "/assistant".to_owned(), "/assistant".to_owned(), None)
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

async fn change(site: Site, call: Call, request: SessionRequest) -> Result<Response> {
    let id: ChatId = call.param("session")?;
    let outcome = assistant::set(&site, &call.caller()?, &id, request).await;
    form::answer(outcome, |_| at(&id), at(&id), None)
}
