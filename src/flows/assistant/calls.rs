//! A tool call: stored, confirmed if necessary, executed once, and returned to the model.
//!
//! **Invariant:** the stored arguments are executed, on the content that was shown.
//! **Invariant:** no call is executed for a run that has ended, for a person who has lost the
//! right, or with a tool that the active script does not allow.

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::approvals::{self, NewApproval, Sort, State, Viewer};
use crate::base::limit::{APPROVAL_PAYLOAD_BYTES_MAX, APPROVAL_TITLE_CHARS_MAX};
use crate::base::{
    Actor, ApprovalId, CallId, Error, ErrorKind, Result, digest_hex, fault, truncate_chars,
};
use crate::chat::{self, CallState, Item, NewCall, Run, ToolCall};
use crate::flows::Site;
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::place::{Until, has_place};
use crate::flows::assistant::tools::CHANGED_MEANWHILE;
use crate::flows::assistant::tools::{self, Deed, Known, Place, Tool, Work};
use crate::flows::assistant::{RUN_ENDED, perform, right, vault};
use crate::jobs;
use crate::linkedin::LINKEDIN_UNKNOWN;
use crate::people::Person;
use crate::script::{Assistant, Config, Policy};
use crate::store::Tx;

/// Most bytes of a preview as JSON: an approval holds it besides a few words.
const PREVIEW_BYTES_MAX: usize = APPROVAL_PAYLOAD_BYTES_MAX - 4 * 1024;
/// The result for a declined call.
const DECLINED: &str = "The person declined this call. Do not try it again; ask what they want.";
/// The result for an expired call.
const EXPIRED: &str = "Nobody answered in time, so the call was not made. Say what is left to do.";

/// A call that a run requests.
#[derive(Clone)]
pub(super) struct Asked {
    /// The run.
    pub(super) run: Run,
    /// The hash of its token, which proves that it is running.
    pub(super) token_hash: String,
    /// The step that requests it.
    pub(super) step: u32,
    /// The name that the runtime gave the call.
    pub(super) call_ref: String,
    /// The tool.
    pub(super) tool: String,
    /// The arguments.
    pub(super) args: Value,
}

/// Executes a call; returns when it has finished, or still awaits confirmation at the deadline.
///
/// # Errors
/// `conflict`: `run_ended`, `call_changed`; `not_found` with code `no_tool`; `forbidden` with code
/// `limit_tools`; as any write.
pub(super) async fn call(site: &Site, asked: &Asked, until: Until<'_>) -> Result<ToolCall> {
    let made = made(site, asked, until).await?;
    if !made.state.is_final() || has_place(site, &asked.run.job_id, until).await? {
        return Ok(made);
    }
    // Until the run has a place again, it learns nothing of the call.
    Ok(ToolCall { state: CallState::Waiting, ok: None, result: None, ..made })
}

async fn made(site: &Site, asked: &Asked, until: Until<'_>) -> Result<ToolCall> {
    let find =
        |site: &Site| site.store.look(|c| chat::by_ref(c, &asked.run.job_id, &asked.call_ref));
    let (call, mut deed) = match find(site)? {
        Some(call) if call.tool != asked.tool || call.args != asked.args => {
            let message = "a call of this name has other arguments";
            return Err(Error::conflict("call_changed", message));
        }
        Some(call) => (call, None),
        None => begin(site, asked).await?,
    };
    match call.state {
        CallState::Ready => {}
        CallState::Waiting => match decided(site, &call, until).await? {
            State::Pending => return Ok(call),
            State::Approved | State::Amended => deed = None,
            State::Rejected => {
                let said = ("declined", DECLINED);
                return finish(site, asked, &call, CallState::Declined, said).await;
            }
            State::Expired => {
                let said = ("nobody answered in time", EXPIRED);
                return finish(site, asked, &call, CallState::Expired, said).await;
            }
            State::Withdrawn => return Err(run_ended(asked)),
        },
        _ => return Ok(call),
    }
    perform::make(site, asked, call, deed).await
}

pub(super) fn run_ended(asked: &Asked) -> Error {
    Error::conflict(RUN_ENDED, format!("run {} has ended", asked.run.job_id))
}

pub(super) fn assistant_of(config: &Config) -> Result<&Assistant> {
    let gone = || Error::unavailable("the site no longer has an assistant").code("no_assistant");
    config.assistant.as_ref().ok_or_else(gone)
}

/// Returns the person of a run, if they may still use the assistant.
fn person_of(c: &rusqlite::Connection, site: &Site, asked: &Asked) -> Result<Person> {
    right::owner(c, site, &asked.run.person_id)?.ok_or_else(|| run_ended(asked))
}

/// Stores a call, with its approval if it needs one.
async fn begin(site: &Site, asked: &Asked) -> Result<(ToolCall, Option<Deed>)> {
    let config = site.config_of(&asked.run.job_id);
    let assistant = assistant_of(&config)?;
    let tool = tools::find(&asked.tool)?;
    // The tools of the run, of which some may have been withdrawn since it began.
    right::policy(assistant, tool.name)?;
    let policy = right::policy(assistant_of(&right::script(site))?, tool.name)?;
    let most = assistant.limits.tool_calls;
    if site.store.look(|c| chat::count_calls(c, &asked.run.job_id))? >= most {
        let message = format!("this answer has made {most} calls, which is all it may");
        return Err(Error::new(ErrorKind::Forbidden, message)
            .code("limit_tools")
            .hint("end the answer with what is known, and say what is left to do"));
    }
    let mut planned = plan(site, asked, tool, &asked.args).await;
    if let Ok(deed) = &mut planned
        && policy == Policy::Ask
        && asks_of(&asked.run, tool)
    {
        deed.asks.get_or_insert_with(|| format!("{} needs your approval every time", tool.name));
        if deed.preview.is_empty() {
            deed.preview = format!("{:#}\n", asked.args);
        }
    }
    // A person must be able to see the whole change before allowing it.
    let is_too_large =
        |it: &Deed| it.asks.is_some() && json!(it.preview).to_string().len() > PREVIEW_BYTES_MAX;
    if planned.as_ref().is_ok_and(is_too_large) {
        planned = Err(Error::new(ErrorKind::TooLarge, "the change is too large to be looked at")
            .hint("make it in smaller parts, each of which the person can look at"));
    }
    let confirm_ms = i64::try_from(assistant.limits.confirm.as_millis()).unwrap_or(i64::MAX);
    let id: CallId = chat::mint_call(&site.ids);
    let draft = Draft::of(asked, &id, planned.as_ref().ok(), confirm_ms);
    let ids = site.ids.clone();
    let (call, question) = site.store.write(move |tx| draft.keep(tx, &ids)).await?;
    fault::crash_point("after_call");
    let mut items = vec![Item::ToolCall {
        id: call.id.clone(),
        step: call.step,
        tool: call.tool.clone(),
        args: call.args.clone(),
    }];
    if let (Some((approval_id, expires_at)), Ok(deed)) = (question, &planned) {
        items.push(Item::ConfirmRequired {
            id: call.id.clone(),
            tool: call.tool.clone(),
            approval_id,
            reason: call.asks.clone().unwrap_or_default(),
            preview: deed.preview.clone(),
            expires_at,
        });
    }
    tell(site, asked, items).await?;
    match planned {
        Ok(deed) => Ok((call, Some(deed))),
        Err(cause) => Ok((failed(site, asked, &call, &cause).await?, None)),
    }
}

/// The stored form of a call.
struct Draft {
    run: Run,
    token_hash: String,
    step: u32,
    call_ref: String,
    tool: String,
    args: String,
    id: CallId,
    deed: Option<Deed>,
    confirm_ms: i64,
}

impl Draft {
    fn of(asked: &Asked, id: &CallId, deed: Option<&Deed>, confirm_ms: i64) -> Draft {
        Draft {
            run: asked.run.clone(),
            token_hash: asked.token_hash.clone(),
            step: asked.step,
            call_ref: asked.call_ref.clone(),
            tool: asked.tool.clone(),
            args: asked.args.to_string(),
            id: id.clone(),
            deed: deed.cloned(),
            confirm_ms,
        }
    }

    fn keep(
        &self,
        tx: &Tx<'_>,
        ids: &crate::base::Ids,
    ) -> Result<(ToolCall, Option<(ApprovalId, crate::base::Millis)>)> {
        jobs::fence(tx, &self.token_hash)?;
        let digest = digest_hex(&self.args);
        let asks = self.deed.as_ref().and_then(|it| it.asks.as_deref());
        let question = match asks {
            Some(reason) => Some(self.ask(tx, ids, (reason, &digest))?),
            None => None,
        };
        if question.is_some() {
            jobs::ask_person(tx, &self.run.job_id)?;
        }
        let new = NewCall {
            id: &self.id,
            run: (&self.run.job_id, self.step),
            call_ref: &self.call_ref,
            tool: &self.tool,
            args: (&self.args, &digest),
            asks: asks.zip(question.as_ref().map(|it| &it.0)),
            target: self.deed.as_ref().and_then(|it| it.target.as_ref()),
        };
        chat::note_call(tx, &self.run.person_id, &self.run.session_id)?;
        Ok((chat::add_call(tx, &new)?, question))
    }

    fn ask(
        &self,
        tx: &Tx<'_>,
        ids: &crate::base::Ids,
        (reason, digest): (&str, &str),
    ) -> Result<(ApprovalId, crate::base::Millis)> {
        let preview = self.deed.as_ref().map(|it| it.preview.as_str()).unwrap_or_default();
        let expires_at = tx.now().plus(self.confirm_ms);
        let of = (&self.id, self.tool.as_str(), digest);
        let new = question(&self.run, of, (reason, preview), Some(expires_at));
        Ok((approvals::insert(tx, ids, &new)?.id, expires_at))
    }
}

/// Returns the approval for a call, with its id, its tool and the digest of its arguments.
pub(super) fn question(
    run: &Run,
    (id, tool, digest): (&CallId, &str, &str),
    (reason, preview): (&str, &str),
    expires_at: Option<crate::base::Millis>,
) -> NewApproval {
    let title: String = format!("{tool}: {reason}");
    let title: String = title.chars().filter(|it| !it.is_control()).collect();
    NewApproval {
        channel: "assistant".to_owned(),
        sort: Sort::Call,
        title: truncate_chars(&title, APPROVAL_TITLE_CHARS_MAX - 1),
        payload: json!({
            "call_id": id, "tool": tool, "args_digest": digest, "preview": preview,
        }),
        schema: None,
        requester: Actor::Job(run.job_id.clone()),
        from: None,
        job: Some((run.job_id.clone(), run.job_id.clone())),
        expires_at,
        private_to: Some(run.person_id.clone()),
        call_digest: Some(digest.to_owned()),
    }
}

/// Returns whether a call may ask the person. In a dry run, only calls that reach outside the site
/// do.
fn asks_of(run: &Run, tool: &Tool) -> bool {
    !run.is_dry || tool.place == Place::Web
}

/// Returns what a call would do. A dry run leaves nothing to undo.
pub(super) async fn plan(
    site: &Site,
    asked: &Asked,
    tool: &'static Tool,
    args: &Value,
) -> Result<Deed> {
    let mut deed = look(site, asked, tool, args).await?;
    if asked.run.is_dry {
        deed.target = None;
    }
    deed.asks = deed.asks.filter(|_| asks_of(&asked.run, tool));
    Ok(deed)
}

async fn look(site: &Site, asked: &Asked, tool: &'static Tool, args: &Value) -> Result<Deed> {
    let config = right::script(site);
    match tool.place {
        Place::Vault => {}
        Place::Site => {
            let preview = serde_json::to_string_pretty(args).unwrap_or_default();
            let work = Work::Site;
            return Ok(Deed { target: None, asks: None, preview, is_of_others: false, work });
        }
        Place::Web => {
            let typed = site.store.look(|c| chat::typed(c, &asked.run))?;
            return tools::plan_page(args, &assistant_of(&config)?.web_hosts, &typed);
        }
        Place::Linkedin => {
            let person = site.store.look(|c| person_of(c, site, asked))?;
            return tools::plan_linkedin(site, &config, &person, (tool.name, args)).await;
        }
    }
    let (person, known) =
        site.store.look(|c| Ok((person_of(c, site, asked)?, Known::of(c, &asked.run)?)))?;
    let (name, args) = (tool.name, args.clone());
    on_disk(move || {
        let vault = vault::open(&config, assistant_of(&config)?, &person)?;
        tools::plan_file(&vault, name, &args, &known)
    })
    .await
}

/// Waits for the person's decision.
async fn decided(site: &Site, call: &ToolCall, (at, stop): Until<'_>) -> Result<State> {
    let Some(id) = &call.approval_id else {
        return Err(Error::internal("a call waits for no question"));
    };
    let subject = format!("approval:{id}");
    let mut events = site.store.subscribe();
    loop {
        let found = site.store.look(|c| approvals::find(c, id, &Viewer::Program))?;
        if found.state != State::Pending || Instant::now() >= at || stop.is_cancelled() {
            return Ok(found.state);
        }
        loop {
            tokio::select! {
                heard = events.recv() => match heard {
                    Ok(event) if event.subject != subject => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => break,
                    Err(RecvError::Closed) => return Ok(found.state),
                },
                () = tokio::time::sleep_until(at) => break,
                () = stop.cancelled() => break,
            }
        }
    }
}

pub(super) fn again(site: &Site, asked: &Asked) -> Result<ToolCall> {
    let found = site.store.look(|c| chat::by_ref(c, &asked.run.job_id, &asked.call_ref))?;
    found.ok_or_else(|| run_ended(asked))
}

pub(super) async fn failed(
    site: &Site,
    asked: &Asked,
    call: &ToolCall,
    cause: &Error,
) -> Result<ToolCall> {
    let state = match cause.code_str() {
        CHANGED_MEANWHILE => CallState::Void,
        LINKEDIN_UNKNOWN => CallState::Unknown,
        RUN_ENDED => return Err(run_ended(asked)),
        _ => CallState::Done,
    };
    if cause.kind() == ErrorKind::Internal {
        tracing::error!("a call of {} failed: {}", call.tool, cause.chain());
    }
    let hint = cause.hint_str().map(|it| format!(": {it}")).unwrap_or_default();
    let text = format!("{}{hint}", cause.message());
    close(site, asked, call, (false, state, cause.message(), &text)).await
}

pub(super) async fn finish(
    site: &Site,
    asked: &Asked,
    call: &ToolCall,
    state: CallState,
    (summary, text): (&str, &str),
) -> Result<ToolCall> {
    close(site, asked, call, (false, state, summary, text)).await
}

/// Stores the result of a call, and adds it to the stream.
pub(super) async fn close(
    site: &Site,
    asked: &Asked,
    call: &ToolCall,
    (ok, state, summary, text): (bool, CallState, &str, &str),
) -> Result<ToolCall> {
    let (id, summary, text) = (call.id.clone(), truncate_chars(summary, 300), text.to_owned());
    let run = asked.run.clone();
    let is_closed = site
        .store
        .write(move |tx| {
            chat::note_call(tx, &run.person_id, &run.session_id)?;
            chat::finish_call(tx, &id, state, (ok, &summary, &text))
        })
        .await?;
    let call = again(site, asked)?;
    if is_closed {
        let item = Item::ToolResult {
            id: call.id.clone(),
            tool: call.tool.clone(),
            state: call.state.as_str(),
            ok,
            summary: call.summary.clone().unwrap_or_default(),
            ms: call.ms(),
        };
        tell(site, asked, vec![item]).await?;
    }
    Ok(call)
}

/// Adds items to the answer's stream. If the run has ended, the call is only in its row.
async fn tell(site: &Site, asked: &Asked, items: Vec<Item>) -> Result<()> {
    let Some(line) = site.chat.line(&asked.run.job_id) else { return Ok(()) };
    on_disk(move || items.into_iter().try_for_each(|item| line.push(item))).await
}
