//! Permissions: an engine asks a person whether it may use a tool.
//!
//! **Invariant:** a call is allowed once, with exactly the input that a person approved.
//! **Invariant:** nothing but a person's decision allows a call.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::approvals::{Behavior, PermissionAnswer, PermissionAsked};
use crate::approvals::{self, Approval, Decision, NewApproval, Sort, State, Viewer};
use crate::base::limit::{APPROVAL_TITLE_CHARS_MAX, format_duration};
use crate::base::{Actor, ApprovalId, Error, Result, digest_hex, truncate_chars};
use crate::flows::approvals::{ask, question, resume};
use crate::flows::{Site, Works, agents, as_answer, as_kept, kept_answer};
use crate::jobs::{self, Job};
use crate::people::Caller;
use crate::store::{Tx, idempotency};

/// The channel of all permissions.
const CHANNEL: &str = "tools";
/// Longest name of a tool, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// Fields of an input that describe the call in one line; the first one present is used.
const TELLING: [&str; 7] =
    ["command", "file_path", "notebook_path", "path", "url", "query", "pattern"];

/// The body of `POST /api/agent/permissions`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PermissionRequest {
    /// The tool.
    pub tool_name: String,
    /// The tool's input.
    pub input: Map<String, Value>,
}

/// Requests permission to use a tool. Repeating the same call while its permission is undecided or
/// unused returns the same request.
///
/// # Errors
/// `invalid` with code `bad_tool`; `too_large`; `busy` with code `too_many_approvals`; `forbidden`
/// with code `not_granted`; `conflict` with code `waits_already` for a job that is to end.
pub async fn request(
    site: &Site,
    caller: &Caller,
    request: PermissionRequest,
    key: Option<idempotency::Key>,
) -> Result<PermissionAsked> {
    let token_hash = caller.job()?.1.to_owned();
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return as_answer(kept);
    }
    require_name(&request.tool_name)?;
    let (works, caller) = (site.works.clone(), caller.clone());
    let asking = site.store.write(move |tx| {
        let job = jobs::fence(tx, &token_hash)?;
        if let Some(key) = &key
            && let Some(kept) = idempotency::find(tx.connection(), key)?
        {
            return as_answer(kept);
        }
        job.require_asking()?;
        if let Some(other) = &job.waits_for {
            let message = format!("job {} waits for approval {other} already", job.id);
            return Err(Error::conflict("waits_already", message).hint("end your turn now"));
        }
        let asked = find_or_make(tx, &works, (&caller, &job), &request)?;
        agents::block(tx, &job, asked.state == State::Pending)?;
        let config = works.config_of(&job.id);
        let wait = config.kind_of_job(&job.kind).map(|it| it.permission_wait).unwrap_or_default();
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let answer = PermissionAsked { id: asked.id, state: asked.state, wait_ms };
        if let Some(key) = &key {
            idempotency::remember(tx, key, &as_kept(&answer)?)?;
        }
        Ok(answer)
    });
    asking.await
}

/// Returns the answer for an engine's call. An undecided request stays open if the job can be
/// resumed.
///
/// # Errors
/// `conflict` with code `permission_used` if another call used it; `not_found`.
pub async fn answer(
    site: &Site,
    caller: &Caller,
    id: &ApprovalId,
    key: Option<idempotency::Key>,
) -> Result<PermissionAnswer> {
    let token_hash = caller.job()?.1.to_owned();
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return as_answer(kept);
    }
    let (works, id) = (site.works.clone(), id.clone());
    let answering = site.store.write(move |tx| {
        let job = jobs::fence(tx, &token_hash)?;
        if let Some(key) = &key
            && let Some(kept) = idempotency::find(tx.connection(), key)?
        {
            return Ok((as_answer(kept)?, None));
        }
        let asked = approvals::find(tx.connection(), &id, &Viewer::Program)?;
        if asked.sort != Sort::Permission || !is_of(&asked, &job) {
            return Err(Error::not_found(format!("no permission {id}")));
        }
        let is_changed = asked.state == State::Amended && !question::is_one(tx, &asked.id)?;
        let tool = tool_of(&asked.title).to_owned();
        let answer = told(tx, &works, &job, asked)?;
        agents::block(tx, &job, false)?;
        if let Some(key) = &key {
            idempotency::remember(tx, key, &as_kept(&answer)?)?;
        }
        let changed = answer.updated_input.clone().filter(|_| is_changed);
        Ok((answer, changed.map(|input| (job.id, tool, input))))
    });
    let (answer, changed) = answering.await?;
    if let Some((job, tool, input)) = changed {
        site.queue.note_changed_call(&job, &tool, &input);
    }
    Ok(answer)
}

fn require_name(name: &str) -> Result<()> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_-.:/".contains(it);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(Error::invalid("this is not a valid tool name").code("bad_tool"))
}

/// Returns whether a request is from this job, from an earlier leg, or from the same long-running
/// agent.
fn is_of(asked: &Approval, job: &Job) -> bool {
    let is_of_agent = job.agent.is_some() && asked.from == ask::address(job);
    asked.root_id.as_ref() == Some(job.root()) || is_of_agent
}

fn find_or_make(
    tx: &Tx<'_>,
    works: &Works,
    (caller, job): (&Caller, &Job),
    request: &PermissionRequest,
) -> Result<Approval> {
    let input = Value::Object(request.input.clone());
    let call = json!({"input": input, "tool_name": request.tool_name});
    let digest = digest_hex(canonical(&call).as_bytes());
    let by = (job.root(), job.agent.as_deref());
    let last = approvals::last_of_call(tx.connection(), &digest, by)?;
    let is_open = |it: &Approval| match it.state {
        State::Pending => true,
        State::Approved | State::Amended => it.used_at.is_none(),
        // A task that was refused once gets the same answer again; a long-running agent may ask
        // again another day.
        State::Rejected => job.agent.is_none(),
        State::Withdrawn | State::Expired => false,
    };
    if let Some(open) = last.filter(is_open) {
        return Ok(open);
    }
    let questions = question::of(request);
    let new = NewApproval {
        channel: CHANNEL.to_owned(),
        sort: Sort::Permission,
        title: questions.as_ref().map_or_else(|| title(request), |it| one_line(&it.title)),
        payload: input,
        schema: Some(questions.map_or_else(|| json!({"type": "object"}), |it| it.schema)),
        requester: caller.actor(),
        from: ask::address(job),
        job: Some((job.id.clone(), job.root().clone())),
        expires_at: None,
        private_to: None,
        call_digest: Some(digest),
    };
    approvals::insert(tx, &works.ids, &new)
}

/// Describes a call in one line.
fn title(request: &PermissionRequest) -> String {
    let telling = TELLING.iter().find_map(|name| request.input.get(*name)?.as_str());
    let what = match telling {
        Some(text) => text.to_owned(),
        None if request.input.is_empty() => String::new(),
        None => Value::Object(request.input.clone()).to_string(),
    };
    let name = &request.tool_name;
    one_line(&if what.trim().is_empty() { name.clone() } else { format!("{name}: {what}") })
}

/// Returns the tool of a call from its title.
fn tool_of(title: &str) -> &str {
    title.split_once(": ").map_or(title, |(tool, _)| tool)
}

/// Characters that do not show in a line must not make two calls look alike.
fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    // One more character marks a cut.
    truncate_chars(line.trim(), APPROVAL_TITLE_CHARS_MAX - 1)
}

/// Writes JSON with sorted keys, so that equal calls are equal texts.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            let of = |name: &String| format!("{}:{}", json!(name), canonical(&fields[name]));
            format!("{{{}}}", names.into_iter().map(of).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

fn told(tx: &Tx<'_>, works: &Works, job: &Job, asked: Approval) -> Result<PermissionAnswer> {
    let said = |words: String| match &asked.note {
        Some(note) => format!("{words}: {note}"),
        None => words,
    };
    match asked.state {
        State::Approved | State::Amended => {
            approvals::use_once(tx, &asked.id)?;
            let texts = approvals::texts(tx.connection(), &asked.id)?;
            let input = question::answered(texts);
            Ok(allow(input))
        }
        State::Pending => leave(tx, works, job, &asked),
        State::Rejected => Ok(deny(&said("a person refused this call".to_owned()), false)),
        State::Withdrawn | State::Expired => Ok(deny("nobody decided on this call", false)),
    }
}

/// Answers an engine that has waited long enough: its job is parked, its agent gets the answer
/// later, or the call is refused.
fn leave(tx: &Tx<'_>, works: &Works, job: &Job, asked: &Approval) -> Result<PermissionAnswer> {
    let config = works.config_of(&job.id);
    if job.agent.is_some() {
        approvals::leave(tx, &asked.id)?;
        let words = "a person will decide later; a notice will tell you. Do not wait for it";
        return Ok(deny(words, false));
    }
    if resume::require_resumable(&config, job).is_ok() {
        approvals::leave(tx, &asked.id)?;
        // It waits for one; what is decided on calls that others of its agents made is mail.
        if job.waits_for.is_none() {
            jobs::wait_for(tx, job, &asked.id)?;
        }
        return Ok(deny("a person will decide later, end your turn now", true));
    }
    let wait = config.kind_of_job(&job.kind).map(|it| it.permission_wait).unwrap_or_default();
    let why = format!("nobody decided within {}", format_duration(wait));
    let decision =
        Decision { state: State::Withdrawn, changes: None, note: Some(why.clone()), version: None };
    approvals::decide(tx, &asked.id, &Actor::Job(job.id.clone()), &decision)?;
    Ok(deny(&format!("{why}: do without this call"), false))
}

/// `interrupt` ends the turn, so the model does not read the text.
fn deny(message: &str, interrupt: bool) -> PermissionAnswer {
    let message = Some(message.to_owned());
    PermissionAnswer { behavior: Behavior::Deny, updated_input: None, message, interrupt }
}

fn allow(input: Value) -> PermissionAnswer {
    let (updated_input, message) = (Some(input), None);
    PermissionAnswer { behavior: Behavior::Allow, updated_input, message, interrupt: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str, input: Value) -> PermissionRequest {
        let Value::Object(input) = input else { panic!("an object") };
        PermissionRequest { tool_name: name.to_owned(), input }
    }

    #[test]
    fn equal_calls_are_equal_texts() {
        let one = json!({"b": [1, {"y": null, "x": "\u{1}ä"}], "a": 1.5});
        let two = json!({"a": 1.5, "b": [1, {"x": "\u{1}ä", "y": null}]});
        assert_ne!(one.to_string(), two.to_string());
        assert_eq!(canonical(&one), canonical(&two));
        assert_eq!(canonical(&one), "{\"a\":1.5,\"b\":[1,{\"x\":\"\\u0001ä\",\"y\":null}]}");
        assert_ne!(canonical(&json!({"a": 1})), canonical(&json!({"a": "1"})));
    }

    #[test]
    fn a_title_is_one_line_that_says_what_is_done() {
        let of = |name: &str, input| title(&request(name, input));
        let bash = json!({"description": "x", "command": "rm -rf build\nrm -rf /\u{1b}[2J"});
        assert_eq!(of("Bash", bash), "Bash: rm -rf build rm -rf / [2J");
        assert_eq!(of("Write", json!({"file_path": "/a", "content": "x"})), "Write: /a");
        assert_eq!(of("mcp__x__y", json!({"n": 1})), "mcp__x__y: {\"n\":1}");
        assert_eq!(of("ExitPlanMode", json!({})), "ExitPlanMode");
        let long = of("Bash", json!({"command": "x".repeat(900)}));
        assert!(long.chars().count() <= APPROVAL_TITLE_CHARS_MAX);
    }

    #[test]
    fn a_name_is_a_name() {
        for right in ["Bash", "mcp__wb__a-b", "a.b:c/d"] {
            assert!(require_name(right).is_ok(), "{right}");
        }
        for wrong in ["", "a b", "a\n", "ä", &"x".repeat(129)] {
            assert_eq!(require_name(wrong).unwrap_err().code_str(), "bad_tool", "{wrong}");
        }
    }
}
