//! The tool by which an engine asks a person whether a tool may be used.
//!
//! **Invariant:** only the server's word allows a call; whatever goes wrong here refuses it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::approvals::PERMISSION_USED;
use crate::base::limit::APPROVAL_WAIT_MS_MAX;
use crate::base::{Error, ErrorKind, Result, random_token};
use crate::cli::agent::args::Place;
use crate::cli::agent::client;
use crate::cli::agent::mcp::{Call, Tools, locked, words};
use crate::client::{Client, query};

/// The tool's name; engines know it as `mcp__wb__permission`.
const NAME: &str = "permission";
/// How long a server that is away is waited for before the question was asked.
const ASK_WAIT: Duration = Duration::from_secs(60);
/// The pause before a server that is away is asked again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a permission that another call used is asked for anew.
const TRIES_MAX: u32 = 3;

/// What is known of a call that runs.
enum Asked {
    /// It was taken back before its question had a name.
    TakenBack,
    /// Its question.
    As(String),
}

/// The tool.
pub(super) struct Permission<'p> {
    place: &'p Place,
    asked: Mutex<BTreeMap<String, Asked>>,
}

impl<'p> Permission<'p> {
    /// Returns the tool of whoever has this place's token.
    pub(super) fn new(place: &'p Place) -> Permission<'p> {
        Permission { place, asked: Mutex::default() }
    }

    fn answer(&self, call: &Call) -> Result<Value> {
        let client = client(self.place)?;
        for _ in 0..TRIES_MAX {
            match self.ask(&client, call) {
                Err(cause) if cause.code_str() == PERMISSION_USED => {}
                answered => return answered,
            }
        }
        Err(Error::conflict(PERMISSION_USED, "other calls use each permission for this one"))
    }

    /// Asks, waits for the decision, and returns what the engine is to be told.
    fn ask(&self, client: &Client, call: &Call) -> Result<Value> {
        let given = &call.params["arguments"];
        let body = json!({"tool_name": given["tool_name"], "input": given["input"]});
        let until = Instant::now() + ASK_WAIT;
        let asked = post(client, "/api/agent/permissions", &body, until)?;
        let id = asked["id"].as_str().unwrap_or_default().to_owned();
        let wait = Duration::from_millis(asked["wait_ms"].as_u64().unwrap_or_default());
        let is_taken_back = {
            let mut all = locked(&self.asked);
            matches!(all.insert(call.id.clone(), Asked::As(id.clone())), Some(Asked::TakenBack))
        };
        if is_taken_back {
            withdraw(client, &id);
            return Err(Error::conflict("taken_back", "nobody waits for the answer"));
        }
        let until = Instant::now() + wait;
        while Instant::now() < until && !is_decided(client, &id, until)? {}
        let until = Instant::now() + ASK_WAIT;
        post(client, &format!("/api/agent/permissions/{id}/answer"), &json!({}), until)
    }
}

impl Tools for Permission<'_> {
    fn list(&self) -> Result<Vec<Value>> {
        let text = json!({"type": "string"});
        let properties =
            json!({"tool_name": text, "input": {"type": "object"}, "tool_use_id": text});
        Ok(vec![json!({
            "name": NAME,
            "description": "Ask a person whether a tool may be used.",
            "inputSchema": {
                "type": "object", "properties": properties, "required": ["tool_name", "input"],
            },
        })])
    }

    fn call(&self, call: &Call) -> Result<String> {
        if call.name != NAME {
            return Err(Error::not_found("there is no such tool"));
        }
        let answer = match self.answer(call) {
            Ok(answer) => answer,
            // An error of a tool is shown to the model as one; a refusal is what it is.
            Err(cause) => json!({"behavior": "deny", "message": words(&cause)}),
        };
        locked(&self.asked).remove(&call.id);
        Ok(answer.to_string())
    }

    fn cancel(&self, id: &str) {
        let asked = locked(&self.asked).insert(id.to_owned(), Asked::TakenBack);
        if let (Some(Asked::As(approval)), Ok(client)) = (asked, client(self.place)) {
            withdraw(&client, &approval);
        }
    }
}

/// Waits for a decision, for one request's time; whether there is one. A server that is away is
/// waited for.
fn is_decided(client: &Client, id: &str, until: Instant) -> Result<bool> {
    let left = until.saturating_duration_since(Instant::now());
    let left = left.min(Duration::from_millis(APPROVAL_WAIT_MS_MAX));
    let seconds = left.as_millis().div_ceil(1_000).to_string();
    let path = format!("/api/approvals/{id}/await");
    match client.get(&query(&path, &[("timeout", Some(&seconds))])) {
        Ok(found) => Ok(found["state"] != "pending"),
        Err(cause) if cause.kind() == ErrorKind::Unavailable => {
            std::thread::sleep(PAUSE);
            Ok(false)
        }
        Err(cause) => Err(cause),
    }
}

/// Posts under a key until a server answers: the same request again does nothing more.
fn post(client: &Client, path: &str, body: &Value, until: Instant) -> Result<Value> {
    let key = random_token("mcp-")?;
    loop {
        match client.post_once(path, body, &key) {
            Err(cause) if cause.kind() == ErrorKind::Unavailable && Instant::now() < until => {
                std::thread::sleep(PAUSE);
            }
            answered => return answered,
        }
    }
}

/// Takes a question back; one that was decided, or whose job has ended, needs no more.
fn withdraw(client: &Client, id: &str) {
    let body = json!({"note": "the call was interrupted"});
    let _ = client.post(&format!("/api/approvals/{id}/withdraw"), &body);
}
