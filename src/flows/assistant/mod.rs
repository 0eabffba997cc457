//! The assistant: a person asks, a run answers, and only that person sees it.

mod account;
mod actions;
mod again;
mod agent;
mod attach;
mod calls;
mod change;
mod config;
mod context_window;
mod disk;
mod end;
mod fallback;
mod file;
mod find;
mod follow;
pub mod gateway;
mod health;
mod instructions;
mod leaving;
pub mod linkedin;
mod perform;
mod place;
mod record;
pub(in crate::flows) mod right;
mod run;
mod scratch;
mod show;
mod start;
mod steps;
mod task;
mod tools;
mod uncertain;
mod undo;
mod vault;

pub use crate::chat::{NO_SESSION, action};
pub use actions::{FOLDER as ACTIONS_FOLDER, actions};
pub use again::{do_now, recover};
pub use agent::{execute, list_tools};
pub use attach::attach;
pub use change::{clear, remove, set, stop};
pub use config::{
    Choice, choice, is_signed_in, set as set_config, show as config, sign_in, sign_out,
};
pub use file::file;
pub use follow::{Follower, answered, follow, so_far};
pub use gateway::service::{missing, put, serve};
pub use health::health;
pub use instructions::{
    MEMORY_CHARS_MAX, MEMORY_FILE, PROMPT_CHARS_MAX, PROMPT_FILE, text, write_text,
};
pub use record::serve as serve_records;
pub use run::unread;
pub use scratch::{clear_scratch, scratch};
pub use show::{history, run, session, sessions};
pub use start::ask;
pub use task::tasks;
pub use undo::{show_call, undo};

pub(in crate::flows) use end::{cancelled, settle_job, spent_left};
pub(in crate::flows) use perform::quiet;
pub(in crate::flows) use run::{listen, prepare};

use rusqlite::Connection;

use crate::base::{Error, ErrorKind, Result};
use crate::chat::{self, Home};
use crate::flows::Works;
use crate::flows::check::external;
use crate::jobs::{hold_for, hold_of};
use crate::people::{Caller, Person, Role};
use crate::script::{Assistant, Engine, EngineBody, Mode};

/// The code of a run that has ended.
pub const RUN_ENDED: &str = "run_ended";
/// The code of a conversation in which a question is being answered.
pub const SESSION_BUSY: &str = "session_busy";

/// Variables with which an operator sets a key for all runs of an engine.
const KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];

/// A person who may use the assistant.
pub(in crate::flows) struct Seat<'a> {
    /// The person.
    pub(in crate::flows) person: Person,
    /// The script's declaration.
    pub(in crate::flows) assistant: &'a Assistant,
}

impl Seat<'_> {
    /// Returns the mode that the person has chosen, or else the script's: one that was chosen under
    /// an earlier script may be gone.
    fn mode(&self, chosen: Option<&str>) -> Mode {
        let chosen = chosen.and_then(Mode::parse);
        let is_there = |it: &Mode| self.assistant.runtimes.contains_key(it);
        chosen.filter(is_there).unwrap_or(self.assistant.mode)
    }
}

/// Returns whether a person's pages show the assistant.
pub fn is_open_to(works: &Works, person: &Person) -> bool {
    let assistant = works.config.assistant.as_ref();
    person.role != Role::Viewer && assistant.is_some_and(|it| it.admits(&person.name))
}

/// Returns the caller's seat.
///
/// # Errors
/// `not_found` with code `no_assistant`; `forbidden` for jobs, viewers, tokens that do not write
/// and people whom the script does not name.
pub(in crate::flows) fn seat<'a>(works: &'a Works, caller: &Caller) -> Result<Seat<'a>> {
    let Some(assistant) = &works.config.assistant else {
        return Err(Error::not_found("this site has no assistant")
            .code("no_assistant")
            .hint("an admin declares it in the script: wb.assistant { … }"));
    };
    let person = caller.may_write()?.clone();
    if assistant.admits(&person.name) {
        return Ok(Seat { person, assistant });
    }
    Err(Error::new(ErrorKind::Forbidden, format!("{} may not use the assistant", person.name))
        .code("not_named")
        .hint("an admin names you in `persons` of wb.assistant"))
}

/// The reason why a mode cannot be used.
pub(in crate::flows) struct Closed {
    /// A stable word.
    pub(in crate::flows) state: &'static str,
    /// What is wrong.
    pub(in crate::flows) why: String,
    /// How to fix it.
    pub(in crate::flows) hint: String,
}

/// Returns why a person cannot use a mode; `None` if they can.
///
/// # Errors
/// `unavailable` if the person's folder cannot be read.
pub(in crate::flows) fn closed(
    works: &Works,
    seat: &Seat<'_>,
    mode: Mode,
) -> Result<Option<Closed>> {
    if !seat.assistant.runtimes.contains_key(&mode) {
        return Ok(Some(Closed {
            state: "not_allowed",
            why: format!("this site has no mode {mode}"),
            hint: "choose another one on the page of the assistant".to_owned(),
        }));
    }
    if !seat.assistant.admits_to(mode, &seat.person.name) {
        return Ok(Some(Closed {
            state: "not_allowed",
            why: format!("{} may not use the mode {mode}", seat.person.name),
            hint: format!("an admin names you in `{mode}_persons` of wb.assistant"),
        }));
    }
    match mode {
        Mode::AnthropicApiKey => return closed_model(works, seat),
        Mode::GatewaySubscription => return closed_gateway(works, seat),
        Mode::ClaudeCode => {}
    }
    let engine = seat.assistant.runtimes.get(&mode).and_then(|it| works.config.engines.get(it));
    let is_held = || engine.map_or(Ok(None), |it| held(works, it, &seat.person));
    if has_own_key(works, seat.assistant, mode) {
        return is_held();
    }
    match Home::of(&works.config.site.data, &seat.person.id).claude_token()? {
        Some(_) => is_held(),
        None => Ok(Some(Closed {
            state: "no_sign_in",
            why: "you have not signed in to Claude".to_owned(),
            hint: "run `claude setup-token` on your own machine and paste the token it prints \
                   on the page of the assistant"
                .to_owned(),
        })),
    }
}

/// Returns why the model with a key cannot be used; `None` if it can.
fn closed_model(works: &Works, seat: &Seat<'_>) -> Result<Option<Closed>> {
    let engine = seat.assistant.runtimes.get(&Mode::AnthropicApiKey);
    let engine = engine.and_then(|it| works.config.engines.get(it));
    let Some((engine, model)) = engine.and_then(|it| Some((it, it.model()?))) else {
        return Ok(None);
    };
    if let Err(cause) = model.key.read(&works.config.folder, &external::environment()) {
        let hint = "the operator must set the key: wiki-browser check";
        let why = format!("the server has no key: {}", cause.message());
        return Ok(Some(Closed { state: "key_missing", why, hint: hint.to_owned() }));
    }
    held(works, engine, &seat.person)
}

/// Returns why a person's subscription cannot be used; `None` if it can.
fn closed_gateway(works: &Works, seat: &Seat<'_>) -> Result<Option<Closed>> {
    let engine = seat.assistant.runtimes.get(&Mode::GatewaySubscription);
    let engine = engine.and_then(|it| works.config.engines.get(it));
    let Some((engine, model)) = engine.and_then(|it| Some((it, it.subscribed()?))) else {
        return Ok(None);
    };
    if let Some(problem) = gateway::service::missing(&works.config) {
        return Ok(Some(Closed {
            state: "gateway_down",
            why: problem.message().to_owned(),
            hint: problem.hint_str().unwrap_or_default().to_owned(),
        }));
    }
    if !chat::is_signed_in(&works.config.site.data, &seat.person.id, model.provider)? {
        return Ok(Some(Closed {
            state: "no_sign_in",
            why: format!("you have not signed in to {}", model.provider),
            hint: "sign in on the page of the assistant, or type: wiki-browser gateway login"
                .to_owned(),
        }));
    }
    held(works, engine, &seat.person)
}

fn held(works: &Works, engine: &Engine, person: &Person) -> Result<Option<Closed>> {
    let look =
        |c: &Connection| Ok((hold_for(c, &engine.name, &person.id)?, hold_of(c, &engine.name)?));
    let (hold, of_site) = works.store.look(look)?;
    let now = works.store.clock().now();
    Ok(hold.filter(|it| it.until > now && engine.is_held_by_limits).map(|it| {
        let until = it.until.minute();
        Closed {
            state: "held",
            why: format!("the provider's rate limit is reached until {until} UTC"),
            hint: match of_site.is_some_and(|site| site.until >= it.until) {
                true => {
                    format!("wait, or lift the hold: wiki-browser engine release {}", engine.name)
                }
                // A command is the operator's, and this hold is the person's.
                false => format!(
                    "wait, or press Resume now on the page of jobs; an admin types: wiki-browser \
                     engine release {} --person {}",
                    engine.name, person.name
                ),
            },
        }
    }))
}

/// Returns whether the operator has set a key for all runs of a mode.
fn has_own_key(works: &Works, assistant: &Assistant, mode: Mode) -> bool {
    let engine = assistant.runtimes.get(&mode).and_then(|it| works.config.engines.get(it));
    match engine.map(|it| &it.body) {
        Some(EngineBody::Process { env, .. }) => KEYS.iter().any(|it| env.contains_key(*it)),
        _ => false,
    }
}

/// Returns a hint for an error code of a run.
pub(in crate::flows) fn hint(code: &str) -> &'static str {
    match code {
        "stopped" => "ask again, or try another answer",
        "timeout" | "stalled" => "try again; ask for less at once",
        "limit_steps" | "limit_money" => "ask for less at once, or in parts",
        "limit_tools" => "ask for less at once, or in parts",
        "disk_full" => "an admin must free some space on the server's disk; then ask again",
        "limit_output" => "ask for a shorter answer, or for a part of it",
        "rate_limited" => "try again after the limit resets",
        "overloaded" | "unreachable" => "try again in a minute",
        "held" => "ask again then, or press Resume now on the page of jobs",
        "key_missing" => "the operator must set the model's key: wiki-browser check",
        "key_invalid" => "an admin must check the model's key and account",
        "refused" => "rephrase the question",
        "context_full" => "start a new conversation",
        "auth_invalid" => {
            "sign in again on the assistant's page, or with `wiki-browser claude login` or \
             `gateway login`; a key of the engine is checked by an admin"
        }
        "gateway_down" => "try again in a minute; see data/services/pi-gateway/run",
        "model_not_found" => "an admin must choose another model for the assistant's engine",
        "no_output" => "try again",
        "interrupted" => "the text so far is kept; try again",
        _ => "try again; if it happens again, see the run's log",
    }
}
