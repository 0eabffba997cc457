//! The tools of an assistant's answer; the server has them, and executes each call.
//!
//! **Invariant:** nothing is executed here; a call is identified by the id with which the program
//! printed it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::base::{Error, ErrorKind, Result};
use crate::cli::agent::args::Place;
use crate::cli::agent::client;
use crate::cli::agent::mcp::{Call, Tools};
use crate::client::Client;

/// Longest wait for an unreachable server.
const AWAY_MAX: Duration = Duration::from_secs(60);
/// The pause before an unreachable server is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// The tools.
pub(super) struct Assistant<'p> {
    place: &'p Place,
}

impl<'p> Assistant<'p> {
    /// Returns the tools of the run that the token belongs to.
    pub(super) fn new(place: &'p Place) -> Assistant<'p> {
        Assistant { place }
    }
}

impl Tools for Assistant<'_> {
    fn list(&self) -> Result<Vec<Value>> {
        let tools = client(self.place)?.get("/api/agent/tools")?;
        Ok(tools["items"].as_array().cloned().unwrap_or_default())
    }

    fn call(&self, call: &Call) -> Result<String> {
        let id = &call.params["_meta"]["claudecode/toolUseId"];
        if !id.is_string() {
            return Err(Error::invalid("the call has no `claudecode/toolUseId`").code("no_call_id"));
        }
        let arguments = match &call.params["arguments"] {
            Value::Null => json!({}),
            given => given.clone(),
        };
        let body = json!({"id": id, "name": call.name, "arguments": arguments});
        let client = client(self.place)?;
        loop {
            let made = execute(&client, &body)?;
            // It awaits confirmation: repeating the request continues the same call.
            if matches!(made["state"].as_str(), Some("waiting" | "running" | "ready")) {
                std::thread::sleep(PAUSE);
                continue;
            }
            let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
            return match made["ok"].as_bool() {
                Some(true) => Ok(text("content")),
                _ => Err(Error::new(ErrorKind::Conflict, text("error")).code(text("state"))),
            };
        }
    }

    fn cancel(&self, _id: &str) {
        // A started call is finished; the end of the run withdraws a call that awaits confirmation.
    }
}

fn execute(client: &Client, body: &Value) -> Result<Value> {
    let until = Instant::now() + AWAY_MAX;
    loop {
        match client.post("/api/agent/tools/execute", body) {
            Err(cause) if cause.kind() == ErrorKind::Unavailable && Instant::now() < until => {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}
