//! The assistant's page: the list of conversations, one of them, and the form.

mod act;
mod claude;
mod linkedin;
mod said;
mod settings;
mod subscription;

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::chat::{CallView, History, HistoryQuery, SessionPage, SessionView, SessionsQuery};
use crate::api::chat_settings::{ActionView, LinkedinView, ScratchView};
use crate::base::{ChatId, ChatMessageId, Error, ErrorKind, Millis, Result};
use crate::flows::Site;
use crate::flows::assistant::{self, Choice};
use crate::http::markdown::{Html, blocks_of};
use crate::http::pages::Frame;
use crate::http::pages::assistant::said::{Said, spent_words};
use crate::http::pages::parts::time::When;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::{Call, any_of, get, reply};
use crate::people::Caller;

pub(in crate::http) use said::call_state;

/// Conversations in the list.
const LISTED: u32 = 100;
/// Search results in the list.
const FOUND: u32 = 50;
/// The mode that the site pays for.
const KEY_MODE: &str = "anthropic_api_key";
/// The modes with a person's own account.
const CLAUDE_MODE: &str = "claude_code";
const SUBSCRIPTION_MODE: &str = "gateway_subscription";
/// What continues an answer that was cut short.
const GO_ON: &str = "Continue where you stopped.";
/// Bytes of a preview that a card shows at once.
const PREVIEW_BYTES: usize = 8 * 1024;
/// Messages of a page.
const MESSAGES: u32 = 60;

#[derive(Template)]
#[template(path = "assistant.html")]
struct AssistantPage {
    frame: Frame,
    /// The search query.
    words: String,
    /// Whether the list has the conversations that were put away.
    has_archived: bool,
    /// The conversations, or why the search failed.
    list: std::result::Result<SessionPage, String>,
    config: Choice,
    actions: Vec<ActionView>,
    /// What of the person's vault is not read.
    unread: Option<String>,
    /// Old files that may be deleted, if there are any.
    scratch: Option<ScratchView>,
    /// The person's LinkedIn account, if the site has an app.
    linkedin: Option<LinkedinView>,
    /// The conversation that is shown.
    shown: Option<Shown>,
    /// The rejected text, and the reason.
    refused: Option<(String, String)>,
}

/// The page of a site without an assistant.
#[derive(Template)]
#[template(path = "no-assistant.html")]
struct NoAssistantPage {
    frame: Frame,
}

struct Shown {
    session: SessionView,
    messages: Vec<Said>,
    /// The calls of a run without a message.
    calls: Vec<CallView>,
    history: History,
    /// The text so far of the active run.
    so_far: Vec<Html>,
    /// The message that a search result links to.
    at: Option<ChatMessageId>,
}

impl Shown {
    /// Returns whether a message is the linked one, or contains it as a step.
    fn is_at(&self, said: &Said) -> bool {
        self.at.as_ref().is_some_and(|at| said.ids.contains(at))
    }

    /// Returns whether the last message is a part of an answer.
    fn ends_with_answer(&self) -> bool {
        self.messages.last().is_some_and(|it| !it.is_question())
    }

    /// Returns the mode of the answer that failed.
    fn failed_mode(&self) -> &str {
        self.history.error_mode.as_deref().unwrap_or_default()
    }

    /// Returns the question of the last answer or failure.
    fn last_question(&self) -> Option<&ChatMessageId> {
        self.messages.iter().rev().find(|it| it.is_question()).map(|it| &it.view.id)
    }
}

impl AssistantPage {
    /// Returns when a confirmation expires.
    fn expires(&self, call: &CallView) -> Option<Millis> {
        call.expires_at
    }

    /// Returns the beginning of a preview that is too long for a card. Such a call is allowed next
    /// to the whole preview only.
    fn beginning<'p>(&self, preview: &'p str) -> Option<&'p str> {
        if preview.len() <= PREVIEW_BYTES {
            return None;
        }
        let begin = &preview[..preview.floor_char_boundary(PREVIEW_BYTES)];
        Some(begin.rsplit_once('\n').map_or(begin, |it| it.0))
    }

    fn is_long(&self, call: &CallView) -> bool {
        call.preview.as_deref().is_some_and(|it| self.beginning(it).is_some())
    }

    /// Returns why nothing can be asked, with a hint.
    fn closed(&self) -> Option<(&str, &str)> {
        let mode = self.config.modes.iter().find(|it| it.mode == self.config.mode)?;
        if mode.available {
            return None;
        }
        Some((mode.why.as_deref()?, mode.hint.as_deref().unwrap_or_default()))
    }

    /// Returns why another mode answers, and its name.
    fn instead(&self) -> Option<(&str, &'static str)> {
        let mode = self.config.modes.iter().find(|it| it.mode == self.config.mode)?;
        Some((mode.why.as_deref()?, self.name_of(mode.instead.as_deref()?)))
    }

    /// Returns the name of a mode.
    fn name_of(&self, mode: &str) -> &'static str {
        mode_name(mode)
    }

    /// Returns what a mode means for the person.
    fn about(&self, mode: &str) -> &'static str {
        match mode {
            CLAUDE_MODE | SUBSCRIPTION_MODE => "with your own subscription",
            _ => "paid for by the site",
        }
    }

    fn needs_sign_in(&self) -> bool {
        let is_claude = self.config.mode == CLAUDE_MODE;
        is_claude && self.closed().is_some_and(|(why, _)| why.contains("signed in"))
    }

    /// Returns what a conversation cost so far, in a few words.
    fn spent(&self, it: &SessionView) -> Option<String> {
        let tokens = it.tokens_in + it.tokens_out;
        (tokens > 0).then(|| spent_words(tokens, it.cost_usd))
    }

    /// Returns where the person signs in again after a failure, if that helps.
    fn sign_in_again(&self, code: &str, mode: &str) -> Option<&'static str> {
        match (code, mode) {
            ("auth_invalid", CLAUDE_MODE) => Some("/claude"),
            ("auth_invalid", SUBSCRIPTION_MODE) => Some("/subscription"),
            _ => None,
        }
    }

    /// Returns whether the site's API key could answer instead of a subscription that failed.
    fn has_key_instead(&self, code: &str, mode: &str) -> bool {
        const OF_SIGN_IN: [&str; 7] = [
            "auth_invalid",
            "gateway_down",
            "held",
            "key_invalid",
            "model_not_found",
            "rate_limited",
            "unreachable",
        ];
        OF_SIGN_IN.contains(&code) && self.has_key_besides(mode)
    }

    /// Returns whether the site's API key could answer, and is not what the person chose.
    fn has_key(&self) -> bool {
        self.has_key_besides(&self.config.mode)
    }

    fn has_key_besides(&self, mode: &str) -> bool {
        mode != KEY_MODE && self.config.modes.iter().any(|it| it.mode == KEY_MODE && it.available)
    }

    /// Returns whether an answer that was cut short can be continued.
    fn can_go_on(&self, code: &str) -> bool {
        matches!(code, "limit_output" | "limit_steps" | "timeout")
    }

    /// Returns whether the person uses the subscription mode.
    fn is_subscribed(&self) -> bool {
        self.config.mode == SUBSCRIPTION_MODE
    }

    /// Returns the pages of the person's own accounts, by name: of each mode that they may choose,
    /// since who uses another one may want to sign out.
    fn accounts(&self) -> Vec<(&'static str, &'static str)> {
        accounts(self.config.modes.iter().map(|it| it.mode.as_str()))
    }

    /// Returns the state of a LinkedIn account in a few words.
    fn linkedin_state(&self, it: &LinkedinView) -> Visible {
        Visible(match (it.state.as_str(), &it.name) {
            ("connected", Some(name)) => format!("connected as {name}"),
            ("expires_soon", _) => "connect again soon".to_owned(),
            ("not_connected", _) => "not connected".to_owned(),
            _ => "connect again".to_owned(),
        })
    }

    /// Returns whether there is an action to run.
    fn has_actions(&self) -> bool {
        self.actions.iter().any(|it| it.digest.is_some())
    }

    /// Returns whether the page only shows a search result, without a form.
    fn is_look(&self) -> bool {
        self.shown.as_ref().is_some_and(|it| it.at.is_some())
    }

    /// Returns the address of a conversation, at its search result if there is one.
    fn address(&self, it: &SessionView) -> String {
        let Some(found) = &it.found else { return at(&it.session_id) };
        let key = match &found.run_id {
            Some(run) => format!("run-{run}"),
            None => format!("said-{}", found.message_id),
        };
        format!("{}?at={}#{key}", at(&it.session_id), found.message_id)
    }

    /// Returns the address of the page without the search.
    fn own_address(&self) -> String {
        self.shown.as_ref().map_or("/assistant".to_owned(), |it| at(&it.session.session_id))
    }

    fn is_shown(&self, session: &ChatId) -> bool {
        self.shown.as_ref().is_some_and(|it| it.session.session_id == *session)
    }

    fn when(&self, session: &SessionView) -> When {
        self.frame.when(&session.touched_at)
    }
}

/// The query of the assistant's page.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Messages before this one.
    before: Option<ChatMessageId>,
    /// Messages around this one.
    at: Option<ChatMessageId>,
    /// A search query.
    q: Option<String>,
    /// Conversations of the list after this one.
    after: Option<String>,
    /// Whether the list has those that were put away.
    archived: Option<bool>,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        subscription::routes(site),
        claude::routes(site),
        linkedin::routes(site),
        settings::routes(site),
        get("/assistant", site, async |site: Site, call: Call| {
            let framed = Frame::of(&site, &call, "/assistant")?;
            if site.config.assistant.is_none() {
                return reply::page(&NoAssistantPage { frame: framed.0 });
            }
            page(&site, framed, (None, call.query()?), None).await
        }),
        get("/assistant/{session}", site, async |site: Site, call: Call| {
            let id: ChatId = call.param("session")?;
            let framed = Frame::of(&site, &call, "/assistant")?;
            page(&site, framed, (Some(id), call.query()?), None).await
        }),
        act::routes(site),
    ])
}

/// Returns the name of a mode.
fn mode_name(mode: &str) -> &'static str {
    match mode {
        "claude_code" => "Claude Code",
        "gateway_subscription" => "Subscription",
        _ => "API key",
    }
}

/// Returns the pages of a person's own accounts for some modes, by name.
fn accounts<'m>(modes: impl Iterator<Item = &'m str>) -> Vec<(&'static str, &'static str)> {
    modes
        .filter_map(|mode| match mode {
            SUBSCRIPTION_MODE => Some(("/subscription", "Your subscription")),
            CLAUDE_MODE => Some(("/claude", "Your sign-in to Claude")),
            _ => None,
        })
        .collect()
}

/// Returns the address of a file in the vault.
pub(super) fn file_at(path: &str) -> String {
    let query = serde_urlencoded::to_string([("path", path)]);
    format!("/api/agent/vault/file?{}", query.expect("a pair of texts has no other type"))
}

/// Returns the address of a conversation.
fn at(session: &ChatId) -> String {
    format!("/assistant/{session}")
}

async fn page(
    site: &Site,
    (mut frame, caller): (Frame, Caller),
    (session, asked): (Option<ChatId>, Asked),
    refused: Option<(String, Error)>,
) -> Result<Response> {
    let has_archived = asked.archived == Some(true);
    let (words, list) = list(site, &caller, (asked.q, asked.after, has_archived)).await?;
    let config = assistant::choice(site, &caller)?;
    let actions = match assistant::actions(site, &caller).await {
        Ok(actions) => actions.items,
        // The tools report problems with the vault; a conversation works without one.
        Err(cause) => {
            tracing::warn!("no actions are shown: {}", cause.chain());
            Vec::new()
        }
    };
    let scratch = match assistant::scratch(site, &caller).await {
        Ok(found) => Some(found).filter(|it| !it.items.is_empty()),
        Err(cause) => {
            tracing::warn!("no old files are shown: {}", cause.chain());
            None
        }
    };
    let unread = assistant::unread(site, &caller).await?;
    let linkedin = match assistant::linkedin::is_offered(site) {
        true => Some(assistant::linkedin::state(site, &caller)?),
        false => None,
    };
    let shown = match session {
        Some(id) => Some(shown(site, &caller, id, (asked.before, asked.at)).await?),
        None => None,
    };
    if shown.as_ref().is_some_and(|it| it.history.active_run.is_some()) {
        frame.refresh();
    }
    let (refused, cause) = match refused {
        None => (None, None),
        Some((typed, cause)) => (Some((typed, why_refused(&cause))), Some(cause)),
    };
    let page = AssistantPage {
        frame,
        words,
        has_archived,
        list,
        config,
        actions,
        unread,
        scratch,
        linkedin,
        shown,
        refused,
    };
    match cause {
        None => reply::page(&page),
        Some(cause) => reply::refused(&page, &cause),
    }
}

/// Returns why a question was refused, and what to do on the page.
fn why_refused(cause: &Error) -> String {
    if cause.code_str() == assistant::SESSION_BUSY {
        return "Another question of this conversation is being answered: wait for that, or press \
                Stop. Then send again."
            .to_owned();
    }
    let hint = cause.hint_str().map(|it| format!(": {it}")).unwrap_or_default();
    format!("{}{hint}", cause.message())
}

/// Returns the conversations of the list: all, or search results.
async fn list(
    site: &Site,
    caller: &Caller,
    (words, after, has_archived): (Option<String>, Option<String>, bool),
) -> Result<(String, std::result::Result<SessionPage, String>)> {
    let words = words.unwrap_or_default();
    let is_search = !words.trim().is_empty();
    let limit = Some(if is_search { FOUND } else { LISTED });
    let (query, archived) = (is_search.then(|| words.clone()), Some(has_archived));
    let after = after.filter(|_| !is_search);
    let query = SessionsQuery { query, after, limit, archived };
    match assistant::sessions(site, caller, query).await {
        Ok(list) => Ok((words, Ok(list))),
        // An invalid query is reported next to the field.
        Err(cause) if is_search && cause.kind() != ErrorKind::Forbidden => {
            Ok((words, Err(cause.message().to_owned())))
        }
        Err(cause) => Err(cause),
    }
}

async fn shown(
    site: &Site,
    caller: &Caller,
    id: ChatId,
    (before, at): (Option<ChatMessageId>, Option<ChatMessageId>),
) -> Result<Shown> {
    let session = assistant::session(site, caller, &id).await?;
    let query = HistoryQuery { session_id: id, before, at: at.clone(), limit: Some(MESSAGES) };
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
    // A run's calls are shown below its last message.
    for said in messages.iter_mut().rev() {
        let Some(run) = &said.view.run_id else { continue };
        let (own, others) = calls.into_iter().partition(|it| it.run_id == *run);
        (said.calls, calls) = (own, others);
    }
    let so_far = match &history.active_run {
        Some(run) => blocks_of(&assistant::so_far(site, caller, &run.run_id).await?),
        None => Vec::new(),
    };
    Ok(Shown { session, messages, calls, history, so_far, at })
}
