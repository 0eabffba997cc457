//! `wb-agent mcp`: a server of the Model Context Protocol on standard input and output, for the
//! agent that started it.
//!
//! **Invariant:** what it may do is what the token of its job may do; it decides nothing itself.
//! **Invariant:** a message without an answer is a notification: every request gets exactly one,
//! unless its asker has taken it back.

mod assistant;
mod permission;
mod wire;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::base::{Error, Result};
use crate::cli::agent::args::Place;
use crate::cli::agent::mcp::wire::Message;

/// Versions of the protocol that are spoken, the newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// How long calls may go on after the input has ended.
const LAST_CALLS: Duration = Duration::from_millis(500);
/// Most calls at once.
const CALLS_MAX: usize = 16;

/// Which tools are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Offer {
    /// One tool, by which an engine asks a person whether a tool may be used.
    Permission,
    /// The tools of an answer of the assistant.
    Assistant,
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The request's id, as text: unique among the calls that run.
    pub(super) id: String,
    /// The tool.
    pub(super) name: String,
    /// What came with it: `arguments`, and `_meta` with what its asker says about the call.
    pub(super) params: Value,
}

/// A set of tools.
pub(super) trait Tools: Sync {
    /// Returns the tools as `tools/list` names them.
    ///
    /// # Errors
    /// What keeps the server from saying so.
    fn list(&self) -> Result<Vec<Value>>;

    /// Runs a call; returns the text of its answer. An error is shown to the agent as one of the
    /// tool.
    ///
    /// # Errors
    /// Whatever the call is refused for; `not_found` for a tool that is none.
    fn call(&self, call: &Call) -> Result<String>;

    /// Hears that nobody waits for the answer of a call any more.
    fn cancel(&self, id: &str);
}

/// Serves until standard input ends.
pub(super) fn run(place: &Place, offer: Offer) -> ExitCode {
    let tools: Box<dyn Tools> = match offer {
        Offer::Permission => Box::new(permission::Permission::new(place)),
        Offer::Assistant => Box::new(assistant::Assistant::new(place)),
    };
    let ended = serve(&*tools, std::io::stdin().lock(), std::io::stdout());
    // Calls that still wait are left to the server: it knows when their job ends.
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// What the requests of one client share.
struct Desk<'t, W> {
    tools: &'t dyn Tools,
    out: Mutex<W>,
    /// The ids of the calls that run; false for one that was taken back.
    calls: Mutex<BTreeMap<String, bool>>,
    /// Rung when one of them has ended.
    ended: Condvar,
}

/// Answers requests until the input ends, then takes back the calls that still run.
fn serve<W: Write + Send>(
    tools: &dyn Tools,
    mut input: impl BufRead,
    out: W,
) -> std::io::Result<()> {
    let calls = Mutex::default();
    let desk = Desk { tools, out: Mutex::new(out), calls, ended: Condvar::new() };
    std::thread::scope(|scope| {
        while let Some(message) = wire::next(&mut input)? {
            match message {
                Message::Refused(code, why) => desk.say(wire::refusal(&Value::Null, code, &why))?,
                Message::Notice { method, params } => desk.notice(&method, &params),
                Message::Request { id, method, params } if method == "tools/call" => {
                    let Some(call) = desk.begin(&id, params)? else { continue };
                    let desk = &desk;
                    scope.spawn(move || desk.run(&id, &call));
                }
                Message::Request { id, method, params } => {
                    desk.say(desk.answer(&id, &method, &params))?;
                }
            }
        }
        desk.left().iter().for_each(|id| desk.take_back(id));
        Ok(())
    })
}

impl<W: Write + Send> Desk<'_, W> {
    fn say(&self, message: Value) -> std::io::Result<()> {
        let mut out = locked(&self.out);
        writeln!(out, "{message}")?;
        out.flush()
    }

    /// Returns the calls that do not end soon after the input has.
    fn left(&self) -> Vec<String> {
        let calls = locked(&self.calls);
        let calls = self.ended.wait_timeout_while(calls, LAST_CALLS, |it| !it.is_empty());
        let (calls, _) = calls.unwrap_or_else(PoisonError::into_inner);
        calls.keys().cloned().collect()
    }

    /// Answers what takes no time.
    fn answer(&self, id: &Value, method: &str, params: &Value) -> Value {
        match method {
            "initialize" => {
                let asked = params["protocolVersion"].as_str().unwrap_or_default();
                let version = VERSIONS.into_iter().find(|it| *it == asked).unwrap_or(VERSIONS[0]);
                let info = json!({"name": "wb", "version": env!("CARGO_PKG_VERSION")});
                let able = json!({"tools": {}});
                wire::result(
                    id,
                    json!({"protocolVersion": version, "capabilities": able, "serverInfo": info}),
                )
            }
            "ping" => wire::result(id, json!({})),
            "tools/list" => match self.tools.list() {
                Ok(tools) => wire::result(id, json!({"tools": tools})),
                Err(cause) => wire::refusal(id, wire::INTERNAL, &words(&cause)),
            },
            _ => wire::refusal(id, wire::NO_METHOD, "unknown method"),
        }
    }

    fn notice(&self, method: &str, params: &Value) {
        if method == "notifications/cancelled" {
            self.take_back(&params["requestId"].to_string());
        }
    }

    fn take_back(&self, id: &str) {
        let is_known = match locked(&self.calls).get_mut(id) {
            Some(is_awaited) => std::mem::replace(is_awaited, false),
            None => false,
        };
        if is_known {
            self.tools.cancel(id);
        }
    }

    /// Takes a call in; nothing if it was answered at once.
    fn begin(&self, id: &Value, params: Value) -> std::io::Result<Option<Call>> {
        let Some(name) = params["name"].as_str().map(str::to_owned) else {
            let refused = wire::refusal(id, wire::BAD_PARAMS, "the call has no tool name");
            return self.say(refused).map(|()| None);
        };
        let key = id.to_string();
        let wrong = {
            let mut calls = locked(&self.calls);
            match calls.len() >= CALLS_MAX {
                true => Some("too many simultaneous calls"),
                false if calls.contains_key(&key) => Some("a call with this id is already running"),
                false => {
                    calls.insert(key.clone(), true);
                    None
                }
            }
        };
        if let Some(wrong) = wrong {
            return self.say(wire::refusal(id, wire::REFUSED, wrong)).map(|()| None);
        }
        Ok(Some(Call { id: key, name, params }))
    }

    /// Runs a call to its end and answers it, if that is still awaited.
    fn run(&self, id: &Value, call: &Call) {
        let (text, is_error) = match self.tools.call(call) {
            Ok(text) => (text, false),
            Err(cause) => (words(&cause), true),
        };
        let is_awaited = locked(&self.calls).get(&call.id) == Some(&true);
        if is_awaited {
            let mut answer = json!({"content": [{"type": "text", "text": text}]});
            if is_error {
                answer["isError"] = json!(true);
            }
            // Whoever has left hears nothing; the end of the input says so, too.
            let _ = self.say(wire::result(id, answer));
        }
        locked(&self.calls).remove(&call.id);
        self.ended.notify_all();
    }
}

/// Returns an error as an agent reads it.
fn words(cause: &Error) -> String {
    match cause.hint_str() {
        Some(hint) => format!("{}: {} ({hint})", cause.code_str(), cause.message()),
        None => format!("{}: {}", cause.code_str(), cause.message()),
    }
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
