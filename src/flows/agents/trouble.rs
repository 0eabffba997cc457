//! What keeps an agent from working, and what a person can do about it.

use camino::Utf8Path;

use crate::api::agents::Problem;
use crate::base::limit::format_duration;
use crate::base::{Result, truncate_chars};
use crate::flows::agents::heard::{ASKS, ASKS_AT_START, HELD, NOT_INTERRUPTED, SEEMS_IDLE};
use crate::flows::agents::silent_agent;
use crate::jobs::{self, Job, Reason};
use crate::mail::agent::{Agent, State};
use crate::process::{self, Front, Sight};
use crate::script::{Config, EngineBody, Kind, kind_of_agent};

/// Longest line of a program that is quoted, in characters.
const QUOTED_CHARS_MAX: usize = 200;
/// Words of programs that nobody has signed in to.
const SIGN_IN: [&str; 9] = [
    "log in",
    "login",
    "logged in",
    "sign in",
    "signed in",
    "authenticat",
    "unauthorized",
    "api key",
    "api_key",
];

/// Says what keeps an agent from working, if something does that a person can change.
///
/// # Errors
/// `unavailable` if the files of its last start cannot be read.
pub(super) fn of(agent: &Agent, start: Option<&Job>, config: &Config) -> Result<Option<Problem>> {
    let name = &agent.name;
    let reason = agent.reason.as_deref().unwrap_or_default();
    let attach = || format!("`wiki-browser agent attach {name}` (Ctrl-B, then D, detaches)");
    let problem = |what: &str, fix: String| Some(Problem { what: what.to_owned(), fix });
    if let Some(doubt) = agent.doubt() {
        return doubted(agent, start, (config, doubt));
    }
    Ok(match (agent.state, reason) {
        (State::Blocked, ASKS_AT_START) => problem(
            "it asks something at its start, such as whether to trust the folder or to sign in",
            format!("answer it in its terminal: {}", attach()),
        ),
        (State::Blocked, reason) if reason.starts_with(ASKS) => problem(
            "it waits for an answer in its terminal",
            format!("answer it there: {}", attach()),
        ),
        (State::Failed | State::Starting, reason) => {
            // One that is started anew has no reason yet.
            let is_why = |it: &&Job| it.reason.is_some_and(|it| it.as_str() == reason);
            match start.filter(|it| it.status.is_final()).filter(is_why) {
                Some(job) => ended(agent, job, config)?,
                None => None,
            }
        }
        (State::Busy, SEEMS_IDLE) => problem(
            "its turn has not ended, but its screen shows its input line and has not changed for \
             twelve seconds, such as after Escape before its first word",
            format!(
                "`wiki-browser agent interrupt {name}` ends the turn; to see its screen first: {}",
                attach()
            ),
        ),
        (State::Busy, NOT_INTERRUPTED) => problem(
            "it was interrupted, but its screen does not show that its turn has ended",
            format!(
                "see its screen: {}; `wiki-browser agent interrupt {name}` presses Escape again, \
                 `wiki-browser agent restart {name}` starts it again in its session",
                attach()
            ),
        ),
        (_, reason) => match reason.strip_prefix(HELD) {
            Some(why) => held(agent, start, why)?,
            None => None,
        },
    })
}

/// Says what keeps messages from an agent in a terminal.
fn held(agent: &Agent, start: Option<&Job>, why: &str) -> Result<Option<Problem>> {
    let name = &agent.name;
    let attach = format!("`wiki-browser agent attach {name}` (Ctrl-B, then D, detaches)");
    let front = || {
        let guard = start.and_then(|it| it.guard.as_ref());
        guard.map(|it| process::look_in_front(it.pid)).transpose()
    };
    let restart = format!("`wiki-browser agent restart {name}` starts it again in its session");
    let (what, fix) = match why {
        "draft" => (
            "its input line holds a text that a person typed".to_owned(),
            format!("submit or delete that text: {attach}"),
        ),
        "mode" => {
            ("somebody scrolls back in its terminal".to_owned(), format!("press q there: {attach}"))
        }
        "dialog" => ("a dialog is on its screen".to_owned(), format!("answer it: {attach}")),
        "moving" => (
            "its screen keeps changing".to_owned(),
            "set `ready` of its engine to a text that is visible only while it waits".to_owned(),
        ),
        "no_line" => (
            "its input line is not on its screen, for example because an editor, \
             a search or the mode for commands is open there"
                .to_owned(),
            format!(
                "close what is open there: {attach}; if nothing is, correct `input` of its engine"
            ),
        ),
        "stopped" => {
            let fix = match front()? {
                Some(Front::Stopped(pid)) => format!("`kill -CONT {pid}` continues it; {restart}"),
                _ => restart,
            };
            ("its program was stopped, by Ctrl-Z or another signal".to_owned(), fix)
        }
        "other_program" => {
            let pid = match front()? {
                Some(Front::Other(pid)) => format!(" (process {pid})"),
                _ => String::new(),
            };
            let what = format!("another program{pid} has its terminal");
            (what, format!("end that program: {attach}"))
        }
        _ => return Ok(None),
    };
    Ok(Some(Problem { what: format!("messages wait because {what}"), fix }))
}

/// Says why it is not known what an agent does.
fn doubted(
    agent: &Agent,
    start: Option<&Job>,
    (config, doubt): (&Config, &str),
) -> Result<Option<Problem>> {
    let name = &agent.name;
    let restart = format!("`wiki-browser agent restart {name}` starts it again in its session");
    let (what, fix) = match doubt {
        silent_agent::GUARD => {
            let kill = agent.job_id.as_ref().map(|id| {
                format!(
                    "; to start it anew instead: `wiki-browser job cancel {id} --force`, then \
                     `wiki-browser agent start {name}`"
                )
            });
            let what = "the process that guards it does not answer the server".to_owned();
            let wait = "the server takes it over as soon as it does";
            (what, format!("{wait}{}", kill.unwrap_or_default()))
        }
        silent_agent::STOPPED => {
            let sight = start.and_then(|it| it.guard.as_ref()).map(process::look_below);
            let fix = match sight.transpose()? {
                Some(Sight::Stopped(pid)) => format!("`kill -CONT {pid}` continues it; {restart}"),
                _ => restart,
            };
            ("its process was stopped by a signal".to_owned(), fix)
        }
        silent_agent::GONE => {
            ("its process has ended, and its guard has not reported that".to_owned(), restart)
        }
        _ => {
            let kind = config.kinds.get(&kind_of_agent(&agent.declared));
            let declared = kind.and_then(|it| it.agent.as_ref());
            let after = declared.map(|it| format_duration(it.probe_after)).unwrap_or_default();
            let fix = format!(
                "see what it printed last: `wiki-browser agent peek {name}`; `wiki-browser agent \
                 interrupt {name}` ends its turn, {restart}; if its tools take that long, raise \
                 `probe_after`"
            );
            (format!("its process runs, but it has printed nothing for {after}"), fix)
        }
    };
    Ok(Some(Problem { what, fix }))
}

/// Says why an agent that should run has ended; nothing if the server or a person ended it.
fn ended(agent: &Agent, job: &Job, config: &Config) -> Result<Option<Problem>> {
    let kind = config.kinds.get(&kind_of_agent(&agent.declared));
    let (program, engine) = (program_of(kind, config), kind.map_or("", |it| it.engine.as_str()));
    let again = match (agent.state, agent.not_before) {
        (State::Starting, Some(at)) => format!("it is tried again at {} UTC", at.minute()),
        _ if agent.session_ref.is_some() => format!(
            "then start it: `wiki-browser agent start {}`, or with `--fresh` if its program \
             refuses its session",
            agent.name
        ),
        _ => format!("then start it: `wiki-browser agent start {}`", agent.name),
    };
    let dir = jobs::job_dir(&config.site.data, &job.id);
    let said = last_words(&dir, job)?;
    let quoted = said.as_ref().map(|it| format!(": \u{201c}{it}\u{201d}")).unwrap_or_default();
    let tail = job.error_tail.as_deref().unwrap_or_default();
    let (what, fix) = match job.reason {
        None | Some(Reason::ServerRestarted | Reason::Cancelled) => return Ok(None),
        Some(Reason::SpawnFailed) if tail.contains("`tmux`") || tail.contains("tmux 3.2") => (
            "it runs in a terminal, and tmux is missing or too old".to_owned(),
            "install tmux 3.2 or newer on the machine of this site".to_owned(),
        ),
        Some(Reason::SpawnFailed) => (
            format!("{program} cannot be started{quoted}"),
            format!(
                "install it for the account of the server, or correct `command` of engine \
                     \"{engine}\""
            ),
        ),
        Some(_) => {
            let is_sign_in = said.as_ref().is_some_and(|it| {
                let lower = it.to_lowercase();
                SIGN_IN.iter().any(|word| lower.contains(word))
            });
            let how = match (job.exit_code, job.signal) {
                (Some(code), _) => format!("{program} exited with status {code}{quoted}"),
                (_, Some(signal)) => format!("{program} was ended by signal {signal}{quoted}"),
                _ => format!("{program} ended{quoted}"),
            };
            let fix = match is_sign_in {
                true => format!("sign in once as the account of the server: run `{program}` there"),
                false => format!("read what it printed: `wiki-browser agent peek {}`", agent.name),
            };
            (how, fix)
        }
    };
    Ok(Some(Problem { what, fix: format!("{fix}; {again}") }))
}

/// Returns the program of an agent, as its engine names it.
fn program_of(kind: Option<&Kind>, config: &Config) -> String {
    let engine = kind.and_then(|kind| config.engines.get(&kind.engine));
    let command = match engine.map(|it| &it.body) {
        Some(EngineBody::Process { command, .. }) => command.first(),
        _ => None,
    };
    command.map_or_else(|| "its program".to_owned(), Clone::clone)
}

/// Returns the last line of what a program printed before it ended.
fn last_words(dir: &Utf8Path, job: &Job) -> Result<Option<String>> {
    let last = |text: &str| {
        // The last line of a pane whose program has ended is tmux's own.
        let is_said = |it: &&str| !it.is_empty() && !it.starts_with("Pane is dead (");
        let line = text.lines().rev().map(str::trim).find(is_said)?;
        Some(truncate_chars(line, QUOTED_CHARS_MAX))
    };
    if let Some(line) = job.error_tail.as_deref().and_then(last) {
        return Ok(Some(line));
    }
    Ok(jobs::last_screen(dir)?.as_deref().and_then(last))
}
