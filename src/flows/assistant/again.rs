//! *Do it now*: executes a call whose confirmation expired, once.
//!
//! **Invariant:** one transaction creates an approval, uses it and starts the call, so a second
//! attempt, or one after a kill, does nothing.

use crate::api::chat::CallView;
use crate::approvals::{self, Decision, State};
use crate::base::{Actor, CallId, Error, ErrorKind, Result, fault, truncate_chars};
use crate::chat::{self, CallState, Home, Run, ToolCall};
use crate::flows::assistant::calls::question;
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::tools::CHANGED_MEANWHILE;
use crate::flows::assistant::tools::{self, Deed, Known, Place, Said, Tool, Work};
use crate::flows::assistant::undo::show_call;
use crate::flows::assistant::{right, seat, vault};
use crate::flows::{Site, Works};
use crate::linkedin::LINKEDIN_UNKNOWN;
use crate::people::{Caller, Person};
use crate::script::Config;

/// Longest result of a call, in characters.
const SUMMARY_CHARS_MAX: usize = 300;

/// Returns whether a call can be executed now.
pub(super) fn can_do(call: &ToolCall) -> bool {
    call.state == CallState::Expired && call.again_id.is_none()
}

/// Executes a call whose confirmation expired, if its target is still as it was shown. The model
/// has continued without it: the result appears in the conversation and in the record of the run.
///
/// # Errors
/// As the seat; `not_found`: `no_call`, `no_tool`; `conflict`: `cannot_do`, `changed_meanwhile`.
pub async fn do_now(site: &Site, caller: &Caller, id: &CallId) -> Result<CallView> {
    caller.may_decide()?;
    let seat = seat(site, caller)?;
    let person = seat.person.clone();
    let (of, wanted) = (person.id.clone(), id.clone());
    let (call, run, known) = site
        .store
        .read(move |c| {
            let call = chat::find_call(c, &of, &wanted)?;
            let run = chat::find_run(c, &of, &call.run_id)?;
            let known = Known::of(c, &run)?;
            Ok((call, run, known))
        })
        .await?;
    if !can_do(&call) {
        let message = "only a call whose question expired is made later, and once";
        return Err(Error::conflict("cannot_do", message).hint("ask the assistant again"));
    }
    let tool = tools::find(&call.tool)?;
    right::policy(seat.assistant, tool.name)?;
    let deed = look(site, (&person, &run), (&call, tool), known).await?;
    if deed.target != call.target && !fault::is_off("call_target") {
        let message = "what the call was to change has changed since it was shown";
        return Err(Error::conflict(CHANGED_MEANWHILE, message).hint("ask the assistant again"));
    }
    // A started call is finished and recorded even if the client leaves.
    let (handle, site_of_it) = (tokio::runtime::Handle::current(), site.clone());
    on_disk(move || handle.block_on(make(&site_of_it, (person, run), (call, deed)))).await?;
    show_call(site, caller, id).await
}

/// Returns what the call would do now.
async fn look(
    site: &Site,
    (person, run): (&Person, &Run),
    (call, tool): (&ToolCall, &Tool),
    known: Known,
) -> Result<Deed> {
    let args = &call.args;
    let config = std::sync::Arc::clone(&site.config);
    match tool.place {
        Place::Vault => {}
        Place::Site => {
            let preview = serde_json::to_string_pretty(args).unwrap_or_default();
            let work = Work::Site;
            return Ok(Deed { target: None, asks: None, preview, is_of_others: false, work });
        }
        Place::Web => {
            let typed = site.store.look(|c| chat::typed(c, run))?;
            return tools::plan_page(args, web_hosts(&config), &typed);
        }
        Place::Linkedin => {
            return tools::plan_linkedin(site, &config, person, (tool.name, args)).await;
        }
    }
    let (person, tool, args) = (person.clone(), call.tool.clone(), args.clone());
    on_disk(move || {
        let gone = || Error::unavailable("the site no longer has an assistant");
        let vault = vault::open(&config, config.assistant.as_ref().ok_or_else(gone)?, &person)?;
        tools::plan_file(&vault, &tool, &args, &known)
    })
    .await
}

/// Returns the hosts whose pages need no confirmation.
fn web_hosts(config: &Config) -> &[String] {
    config.assistant.as_ref().map_or(&[], |it| it.web_hosts.as_slice())
}

async fn make(
    site: &Site,
    (person, run): (Person, Run),
    (call, deed): (ToolCall, Deed),
) -> Result<()> {
    let draft = Begin {
        works: site.works.clone(),
        run: run.clone(),
        person: person.clone(),
        call: call.clone(),
        preview: deed.preview.clone(),
        is_of_others: deed.is_of_others,
    };
    let ids = site.ids.clone();
    site.store.write(move |tx| draft.keep(tx, &ids)).await?;
    fault::crash_point("before_again");
    let made = match &deed.work {
        Work::Site => tools::run_document(site, &person, &call).await,
        Work::Web(url) => tools::fetch_page(site, url, web_hosts(&site.config)).await,
        Work::Linkedin(act) => tools::run_linkedin(site, &site.config, &person, act).await,
        _ => {
            let config = std::sync::Arc::clone(&site.config);
            let (home, id) = (Home::of(&config.site.data, &person.id), call.id.clone());
            on_disk(move || {
                let gone = || Error::unavailable("the site no longer has an assistant");
                let assistant = config.assistant.as_ref().ok_or_else(gone)?;
                let vault = vault::open(&config, assistant, &person)?;
                tools::make(&vault, (&home, &id), &deed)
            })
            .await
        }
    };
    fault::crash_point("after_again");
    let (ok, state, summary) = match made {
        Ok(Said { summary, .. }) => (true, CallState::Done, summary),
        Err(cause) => {
            if cause.kind() == ErrorKind::Internal {
                tracing::error!("a call of {} failed: {}", call.tool, cause.chain());
            }
            let state = match cause.code_str() {
                CHANGED_MEANWHILE => CallState::Void,
                LINKEDIN_UNKNOWN => CallState::Unknown,
                _ => CallState::Done,
            };
            (false, state, cause.message().to_owned())
        }
    };
    let summary = truncate_chars(&summary, SUMMARY_CHARS_MAX);
    site.store
        .write(move |tx| {
            chat::finish_again(tx, &call.id, state, (ok, &summary))?;
            chat::note_change(tx, &run.job_id, ok)?;
            chat::note_call(tx, &run.person_id, &run.session_id)
        })
        .await
}

/// Starts such a call.
struct Begin {
    works: Works,
    run: Run,
    person: Person,
    call: ToolCall,
    preview: String,
    is_of_others: bool,
}

impl Begin {
    fn keep(&self, tx: &crate::store::Tx<'_>, ids: &crate::base::Ids) -> Result<()> {
        let (call, by) = (&self.call, Actor::Person(self.person.id.clone()));
        right::check(tx.connection(), &self.works, (&self.person.id, &call.tool))?;
        let reason = call.asks.as_deref().unwrap_or_default();
        let of = (&call.id, call.tool.as_str(), call.args_digest.as_str());
        let new = question(&self.run, of, (reason, &self.preview), None);
        let approval = approvals::insert(tx, ids, &new)?;
        let version = Some(approval.version);
        let decision = Decision { state: State::Approved, changes: None, note: None, version };
        approvals::decide(tx, &approval.id, &by, &decision)?;
        approvals::use_once(tx, &approval.id)?;
        chat::start_again(tx, &call.id, &approval.id)?;
        if let Some(target) = call.target.as_ref().filter(|_| self.is_of_others) {
            chat::note_file_of_others(tx, &self.person.id, target)?;
        }
        chat::note_call(tx, &self.run.person_id, &self.run.session_id)
    }
}

/// Closes the calls that the last server left executing; their outcome is unknown.
///
/// # Errors
/// As any write.
pub async fn recover(site: &Site) -> Result<()> {
    site.store
        .write(|tx| {
            let runs = chat::close_again(tx)?;
            runs.iter().try_for_each(|run| chat::note_change(tx, run, true))
        })
        .await
}
