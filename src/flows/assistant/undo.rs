//! Calls as their owner sees them, and undoing them.

use rusqlite::Connection;

use crate::api::chat::CallView;
use crate::approvals::{self, Viewer};
use crate::base::{CallId, Error, JobId, PersonId, Result};
use crate::chat::{self, CallState, Home, ToolCall};
use crate::flows::Site;
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::{again, seat, tools, vault};
use crate::people::Caller;

/// Returns the caller's call with all details.
///
/// # Errors
/// As the seat; `not_found` with code `no_call`.
pub async fn show_call(site: &Site, caller: &Caller, id: &CallId) -> Result<CallView> {
    let person = seat(site, caller)?.person.id;
    let id = id.clone();
    site.store
        .read(move |c| {
            let call = chat::find_call(c, &person, &id)?;
            let (args, result) = (call.args.clone(), call.result.clone());
            let view = view(c, &person, call)?;
            Ok(CallView { args: Some(args), result, ..view })
        })
        .await
}

/// Returns a run's calls in order, without long texts.
///
/// # Errors
/// As any read.
pub(super) fn calls_of(c: &Connection, person: &PersonId, run: &JobId) -> Result<Vec<CallView>> {
    let calls = chat::calls_of_run(c, run)?;
    calls.into_iter().map(|it| view(c, person, it)).collect()
}

fn view(c: &Connection, person: &PersonId, call: ToolCall) -> Result<CallView> {
    let mut view = CallView {
        id: call.id.clone(),
        run_id: call.run_id.clone(),
        step: call.step,
        tool: call.tool.clone(),
        subject: subject(&call),
        state: call.state.as_str().to_owned(),
        ok: call.ok,
        summary: call.summary.clone(),
        asks: call.asks.clone(),
        approval_id: call.approval_id.clone(),
        version: None,
        preview: None,
        expires_at: None,
        can_undo: can_undo(&call),
        can_do: again::can_do(&call),
        undone_at: call.undone_at,
        ms: call.ms(),
        created_at: call.created_at,
        args: None,
        result: None,
    };
    if let (CallState::Waiting, Some(id)) = (call.state, &call.approval_id) {
        let approval = approvals::find(c, id, &Viewer::Person(person.clone()))?;
        let texts = approvals::texts(c, id)?;
        if approval.state == approvals::State::Pending {
            view.version = Some(approval.version);
            view.preview = texts.payload["preview"].as_str().map(str::to_owned);
            view.expires_at = approval.expires_at;
        }
    }
    if let (true, Some(id)) = (view.can_do, &call.approval_id) {
        view.preview = approvals::texts(c, id)?.payload["preview"].as_str().map(str::to_owned);
    }
    Ok(view)
}

/// Returns the subject of a call: a path, an address or a few words.
pub(super) fn subject(call: &ToolCall) -> String {
    let names = ["path", "from", "source_path", "pattern", "url", "post_urn", "comment_urn"];
    let found = names.iter().find_map(|it| call.args[*it].as_str()).unwrap_or_default();
    crate::base::truncate_chars(found, 200)
}

fn can_undo(call: &ToolCall) -> bool {
    let is_made = match call.state {
        CallState::Done => call.ok == Some(true),
        CallState::Unknown => true,
        _ => false,
    };
    is_made && call.target.is_some() && call.undone_at.is_none()
}

/// Undoes a call, if nothing else has changed the file since.
///
/// # Errors
/// As the seat; `not_found` with code `no_call`; `conflict` with code `cannot_undo`.
pub async fn undo(site: &Site, caller: &Caller, id: &CallId) -> Result<CallView> {
    caller.may_decide()?;
    let person = seat(site, caller)?.person;
    let call = site.store.look(|c| chat::find_call(c, &person.id, id))?;
    let refuse = |why: &str| Error::conflict("cannot_undo", why.to_owned());
    let target = match call.target.clone().filter(|_| can_undo(&call)) {
        Some(target) => target,
        None if call.undone_at.is_some() => return Err(refuse("the call was undone before")),
        None => return Err(refuse("the call has changed nothing that can be taken back")),
    };
    let (config, made, of) = (site.config.clone(), id.clone(), person.clone());
    on_disk(move || {
        let gone = || Error::unavailable("the site no longer has an assistant");
        let assistant = config.assistant.as_ref().ok_or_else(gone)?;
        let vault = vault::open(&config, assistant, &of)?;
        tools::unmake(&vault, (&Home::of(&config.site.data, &of.id), &made), &target)
    })
    .await?;
    let undone = id.clone();
    site.store
        .write(move |tx| {
            let run = chat::find_run(tx.connection(), &person.id, &call.run_id)?;
            chat::note_call(tx, &person.id, &run.session_id)?;
            chat::note_change(tx, &call.run_id, false)?;
            chat::note_undone(tx, &undone).map(|_| ())
        })
        .await?;
    show_call(site, caller, id).await
}
