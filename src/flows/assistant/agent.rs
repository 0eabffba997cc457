//! What a run's program can request: its tools, and calls of them.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::api::chat::{ExecuteRequest, Executed, ToolList};
use crate::base::{Error, ErrorKind, JobId, Result};
use crate::chat::{self, Run, ToolCall};
use crate::flows::Site;
use crate::flows::assistant::calls::{Asked, call};
use crate::flows::assistant::{RUN_ENDED, tools};
use crate::people::Caller;

/// How long one request waits for a person; the client repeats it.
const WAIT: Duration = Duration::from_secs(50);
/// How long a call waits for its announcement in the program's output.
const ANNOUNCED: Duration = Duration::from_secs(5);
/// Longest call id of a runtime, in bytes.
const CALL_REF_BYTES_MAX: usize = 200;

/// Returns the tools of the caller's run.
///
/// # Errors
/// `forbidden` with code `job_only` for people; `not_found` with code `no_run` for other jobs.
pub async fn list_tools(site: &Site, caller: &Caller) -> Result<ToolList> {
    let (run, _) = run_of(site, caller)?;
    let config = site.config_of(&run.job_id);
    let allowed = config.assistant.as_ref().map(|it| &it.tools);
    let is_allowed = |name: &str| allowed.is_some_and(|it| it.contains_key(name));
    let items = tools::TOOLS.iter().filter(|it| is_allowed(it.name)).map(tools::Tool::describe);
    Ok(ToolList { items: items.collect::<Result<_>>()? })
}

/// Executes a call of the caller's run. While it awaits confirmation, the response is `waiting`:
/// repeating the request continues the same call.
///
/// # Errors
/// `forbidden` with codes `job_only` and `limit_tools`; `conflict`: `run_ended`, `not_announced`,
/// `call_changed`; `not_found` with code `no_tool`.
pub async fn execute(
    site: &Site,
    caller: &Caller,
    request: ExecuteRequest,
    stop: &CancellationToken,
) -> Result<Executed> {
    let (run, token_hash) = run_of(site, caller)?;
    if request.id.is_empty() || request.id.len() > CALL_REF_BYTES_MAX {
        let message = format!("`id` has 1 to {CALL_REF_BYTES_MAX} bytes");
        return Err(Error::invalid(message).code("bad_parameter").of_input("id"));
    }
    let step = announced(site, &run.job_id, &request).await?;
    let asked = Asked {
        run,
        token_hash,
        step,
        call_ref: request.id,
        tool: request.name,
        args: request.arguments,
    };
    Ok(executed(call(site, &asked, (Instant::now() + WAIT, stop)).await?))
}

fn run_of(site: &Site, caller: &Caller) -> Result<(Run, String)> {
    let (job, token_hash) = caller.job()?;
    let run = site.store.look(|c| chat::by_job(c, job))?;
    let none = || Error::not_found(format!("job {job} is no answer of the assistant"));
    Ok((run.ok_or_else(|| none().code("no_run"))?, token_hash.to_owned()))
}

/// Returns the step in which the program announced a call. A call that is not in its output is
/// refused.
async fn announced(site: &Site, run: &JobId, request: &ExecuteRequest) -> Result<u32> {
    let Some(line) = site.chat.line(run) else {
        return Err(Error::conflict(RUN_ENDED, format!("run {run} has ended")));
    };
    match timeout(ANNOUNCED, line.announced(&request.id)).await {
        Ok(Some(it)) if it.tool == request.name && it.input == request.arguments => Ok(it.step),
        Ok(Some(_)) => {
            Err(Error::conflict("call_changed", "the call is not the one that was announced"))
        }
        Ok(None) | Err(_) => {
            Err(Error::new(ErrorKind::Conflict, "nothing was printed of such a call")
                .code("not_announced")
                .hint("calls are made through the program that answers"))
        }
    }
}

fn executed(call: ToolCall) -> Executed {
    let text = call.result.unwrap_or_default();
    let is_ok = call.ok == Some(true);
    Executed {
        id: call.call_ref,
        state: call.state.as_str().to_owned(),
        ok: call.ok,
        content: is_ok.then(|| text.clone()),
        error: (call.state.is_final() && !is_ok).then_some(text),
    }
}
