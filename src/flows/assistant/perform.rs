//! Executes a stored call, once.
//!
//! **Invariant:** all checks are in the transaction that starts the call.
//! **Invariant:** what changes the vault or the site is finished and recorded although its caller
//! is gone, and the run is settled after that.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::approvals;
use crate::base::{Error, JobId, Result, fault};
use crate::chat::{self, CallState, Home, ToolCall};
use crate::flows::assistant::calls::{
    Asked, again, assistant_of, close, failed, finish, plan, run_ended,
};
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::right::NO_TOOL;
use crate::flows::assistant::tools::{self, Deed, Place, Said, Work};
use crate::flows::assistant::{RUN_ENDED, right, vault};
use crate::flows::{Site, Works};
use crate::jobs::{self, Quiet};
use crate::people::Person;

/// The result for a call whose target has changed since the person was asked.
const CHANGED: &str = "What the call was to change has changed meanwhile, so nothing was done. \
                       Read it again.";
/// How long a settlement waits for calls in progress. Those that take longer stay `unknown`.
const QUIET_MAX: Duration = Duration::from_secs(5);
/// How often a step that a test holds looks whether it may go on.
const HOLD_PAUSE: Duration = Duration::from_millis(10);

/// Returns the hook by which the settlement of a run waits for its calls.
pub(in crate::flows) fn quiet(works: &Works) -> Arc<Quiet> {
    let calls = works.chat.calls().clone();
    Arc::new(move |id: JobId| {
        let calls = calls.clone();
        Box::pin(async move {
            if !calls.is_idle(&id) {
                // Tells a test that it waits.
                fault::holds("settlement_waits");
            }
            if tokio::time::timeout(QUIET_MAX, calls.idle(&id)).await.is_err() {
                tracing::warn!(job_id = %id, "run {id} ends before its calls");
            }
        })
    })
}

/// Executes a call.
pub(super) async fn make(
    site: &Site,
    asked: &Asked,
    call: ToolCall,
    deed: Option<Deed>,
) -> Result<ToolCall> {
    let tool = tools::find(&call.tool)?;
    let deed = match deed {
        Some(deed) => deed,
        None => match plan(site, asked, tool, &call.args).await {
            Ok(deed) => deed,
            Err(cause) => return failed(site, asked, &call, &cause).await,
        },
    };
    if deed.target != call.target && !fault::is_off("call_target") {
        let said = ("not made: the file has changed", CHANGED);
        return finish(site, asked, &call, CallState::Void, said).await;
    }
    while fault::holds("before_call_start") {
        tokio::time::sleep(HOLD_PAUSE).await;
    }
    match tool.place {
        Place::Vault | Place::Site if !fault::is_off("tracked") => {
            // Counted before it starts: no settlement can come in between.
            let tracked = site.chat.calls().begin(&asked.run.job_id);
            let (handle, site, asked) = (Handle::current(), site.clone(), asked.clone());
            on_disk(move || {
                // Kept open, so that its result comes before the end of the answer.
                let line = site.chat.line(&asked.run.job_id);
                let made = handle.block_on(carry_out(&site, &asked, call, deed));
                drop((line, tracked));
                made
            })
            .await
        }
        // Whoever waits for another server leaves it when the run ends.
        _ => carry_out(site, asked, call, deed).await,
    }
}

/// Starts a call and records what came of it.
async fn carry_out(site: &Site, asked: &Asked, call: ToolCall, deed: Deed) -> Result<ToolCall> {
    let tool = tools::find(&call.tool)?;
    let person = match start(site, asked, &call, &deed).await {
        Ok(Some(person)) => person,
        Ok(None) => return again(site, asked),
        Err(cause) if cause.code_str() == NO_TOOL => {
            return failed(site, asked, &call, &cause).await;
        }
        Err(cause) => return Err(cause),
    };
    fault::crash_point("before_tool");
    let config = right::script(site);
    let made = match &deed.work {
        _ if asked.run.is_dry && !tools::only_reads(tool.name) => Ok(tools::unmade(&deed)),
        Work::Site => tools::run_document(site, &person, &call).await,
        Work::Web(url) => tools::fetch_page(site, url, &assistant_of(&config)?.web_hosts).await,
        Work::Linkedin(act) => tools::run_linkedin(site, &config, &person, act).await,
        _ => {
            let home = Home::of(&config.site.data, &person.id);
            let id = call.id.clone();
            on_disk(move || {
                let vault = vault::open(&config, assistant_of(&config)?, &person)?;
                while fault::holds("in_tool") {
                    std::thread::sleep(HOLD_PAUSE);
                }
                tools::make(&vault, (&home, &id), &deed)
            })
            .await
        }
    };
    fault::crash_point("after_tool");
    match made {
        Ok(Said { summary, text }) => {
            let done = (true, CallState::Done, summary.as_str(), text.as_str());
            close(site, asked, &call, done).await
        }
        Err(cause) => failed(site, asked, &call, &cause).await,
    }
}

/// Starts a call in one transaction with all checks; `None` if it was started before.
///
/// # Errors
/// `conflict` with codes `job_ended`, `run_ended` and `approval_used`; `not_found` with code
/// `no_tool`.
async fn start(site: &Site, asked: &Asked, call: &ToolCall, deed: &Deed) -> Result<Option<Person>> {
    let (works, token) = (site.works.clone(), asked.token_hash.clone());
    let (id, tool, approval) = (call.id.clone(), call.tool.clone(), call.approval_id.clone());
    let (run, asked_run) = (asked.run.clone(), run_ended(asked));
    let ended = asked_run.message().to_owned();
    let (is_of_others, target) = (deed.is_of_others, deed.target.clone());
    site.store
        .write(move |tx| {
            let ended = || Error::conflict(RUN_ENDED, ended.clone());
            if !fault::is_off("call_start") {
                jobs::fence(tx, &token)?;
            }
            let owner = right::owner(tx.connection(), &works, &run.person_id)?;
            let person = owner.ok_or_else(ended)?;
            right::policy(assistant_of(&right::script(&works))?, &tool)?;
            let is_first = chat::start_call(tx, &id)?;
            if let Some(approval) = approval.as_ref().filter(|_| is_first) {
                approvals::use_once(tx, approval)?;
            }
            if is_first && is_of_others {
                match &target {
                    Some(target) => chat::note_file_of_others(tx, &run.person_id, target)?,
                    None => chat::note_call_of_others(tx, &id)?,
                }
            }
            Ok(is_first.then_some(person))
        })
        .await
}
