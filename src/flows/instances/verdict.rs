//! The result that an instance reports: `wb-agent complete` and `fail`.

use serde_json::{Value, json};

use crate::api::mail::VerdictRequest;
use crate::approvals;
use crate::base::{Error, ErrorKind, JobId, Result};
use crate::flows::Site;
use crate::flows::jobs::require_own;
use crate::flows::mail::PAYLOAD_BYTES_MAX;
use crate::jobs::{self, Given, Job, Verdict};
use crate::people::Caller;
use crate::store::Tx;

/// Accepts the verdict of an instance, once. Repeating the same one gets the same response.
///
/// # Errors
/// `invalid` with code `bad_reply` if the reply does not fit the inbox, with code `bad_verdict` if
/// it is none, with code `no_instance` for a job that no message started; `conflict` with code
/// `already_completed` or `job_ended`, or with code `waits_already` if a call waits for a person.
pub async fn give(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    request: VerdictRequest,
) -> Result<Value> {
    require_own(caller, id)?;
    let given = check(request)?;
    let (config, own) = (site.config_of(id), id.clone());
    let kind = site
        .store
        .read(move |c| Ok(jobs::find_brief(c, &jobs::Viewer::Program, &own)?.kind))
        .await?;
    if let (Verdict::Ok, Some(kind)) = (given.verdict, config.kind(&kind)) {
        jobs::check_reply(kind, &given.result)?;
    }
    let token = caller.job()?.1.to_owned();
    let (queue, id) = (site.queue.clone(), id.clone());
    let told = id.clone();
    site.store
        .write(move |tx| {
            let job = jobs::fence(tx, &token)?;
            if job.message_id.is_none() {
                return Err(Error::invalid(format!("job {id} is not an instance of an inbox"))
                    .code("no_instance")
                    .hint("submit its result with `wb-agent finish`"));
            }
            refuse_parking(tx, &job)?;
            jobs::give_verdict(tx, &id, &given)
        })
        .await?;
    queue.note_verdict(&told);
    Ok(json!({}))
}

/// Refuses the verdict of a job that ends because a person has yet to allow a call: if a sub-agent
/// made the call, only its turn has ended, and the main agent has heard of nothing.
fn refuse_parking(tx: &Tx<'_>, job: &Job) -> Result<()> {
    let Some(id) = &job.waits_for else { return Ok(()) };
    let asked = approvals::find(tx.connection(), id, &approvals::Viewer::Program)?;
    if asked.sort != approvals::Sort::Permission {
        return Ok(());
    }
    let message = format!("a person has yet to decide on a call: {}", asked.title);
    Err(Error::conflict("waits_already", message)
        .hint("end your turn now; you go on when it is decided"))
}

fn check(request: VerdictRequest) -> Result<Given> {
    let bad = |what: &str| Err(Error::invalid(what.to_owned()).code("bad_verdict"));
    let given = match (request.verdict.as_str(), request.reply, request.reason) {
        ("ok", Some(reply), None) => Given { verdict: Verdict::Ok, result: reply },
        ("ok", None, None) => Given { verdict: Verdict::Ok, result: Value::Null },
        ("error", None, Some(reason)) if !reason.trim().is_empty() => {
            Given { verdict: Verdict::Error, result: Value::String(reason) }
        }
        ("error", None, _) => return bad("a failure needs a reason"),
        ("ok" | "error", _, _) => return bad("a reply goes with ok, a reason with error"),
        _ => return bad("the verdict is neither ok nor error"),
    };
    let bytes = given.result.to_string().len();
    if bytes > PAYLOAD_BYTES_MAX {
        let message =
            format!("the reply has {bytes} bytes as JSON, {PAYLOAD_BYTES_MAX} are allowed");
        return Err(Error::new(ErrorKind::TooLarge, message)
            .hint("write large content to a file and give its path"));
    }
    Ok(given)
}
