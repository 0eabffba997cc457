//! An agent's output, telemetry and prompt.

use serde::Deserialize;
use serde_json::Value;
use tracing::warn;

use crate::api::jobs::{Cut, LogText, Prompt, Transcript};
use crate::base::limit::{STREAM_ENTRIES_MAX, TEXT_INPUT_BYTES_MAX};
use crate::base::{Error, ErrorKind, JobId, Millis, Result};
use crate::flows::Site;
use crate::flows::jobs::private_output::require_open_output;
use crate::flows::jobs::require_own;
use crate::jobs::{self, Job, job_dir};
use crate::people::Caller;
use crate::process::{self, JobFolder, OutputChunk, Stream};

/// The code of files that were deleted.
pub const LOG_EXPIRED: &str = "log_expired";

/// Most bytes of a log in a response.
const LOG_BYTES_MAX: usize = crate::base::limit::LOG_BYTES_MAX;
/// Default bytes of a log as lines.
const LINES_BYTES: u64 = 64 * 1024;
/// Largest prompt: a text of the largest size, and its surroundings.
const PROMPT_BYTES_MAX: u64 = TEXT_INPUT_BYTES_MAX as u64 + 2 * 1024 * 1024;

/// The query of `GET /api/agent/jobs/{id}/log`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LogQuery {
    /// `stdout` or `stderr` (the default).
    pub stream: Option<String>,
    /// Offset in the agent's output.
    pub offset: Option<u64>,
}

/// Which lines of an agent's output to return.
#[derive(Clone, Debug, Default)]
pub struct LinesQuery {
    /// `stdout` or `stderr` (the default).
    pub stream: Option<String>,
    /// Offset in the agent's output.
    pub offset: u64,
    /// Starts with the next whole line, if `offset` is inside one that ends soon.
    pub is_aligned: bool,
    /// Everything up to this offset, even inside a line; otherwise up to the end of a line.
    pub until: Option<u64>,
}

/// Some lines of an agent's output.
#[derive(Debug)]
pub struct Lines {
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// The offset of the first line.
    pub offset: u64,
    /// The offset of the next part.
    pub next_offset: u64,
    /// The size of the output so far.
    pub total: u64,
    /// The range of deleted bytes: first, and one past the last.
    pub cut: Option<(u64, u64)>,
    /// Whether more may follow.
    pub running: bool,
    /// Whether the first line is cut at its start.
    pub goes_on: bool,
    /// The lines.
    pub text: String,
    /// The beginning of an incomplete line; it is returned again when complete.
    pub open: String,
}

/// Returns a part of an agent's output.
///
/// # Errors
/// `not_found` if the job is not there; with code `log_expired` if its folder was given up, and
/// `private_output` if it may hold what an agent told somebody else in private.
pub async fn log(site: &Site, caller: &Caller, id: &JobId, query: LogQuery) -> Result<LogText> {
    let stream = stream_of(query.stream.as_deref())?;
    let offset = query.offset.unwrap_or(0);
    let (chunk, running) = read(site, caller, id, stream, offset, LOG_BYTES_MAX).await?;
    // An incomplete character at the end is left for the next part.
    let whole = whole_characters(&chunk.bytes, chunk.next_offset < chunk.total || running);
    Ok(LogText {
        stream: stream.as_str().to_owned(),
        offset: chunk.offset,
        next_offset: chunk.offset + whole as u64,
        total: chunk.total,
        text: String::from_utf8_lossy(&chunk.bytes[..whole]).into_owned(),
        cut: chunk.cut.map(|(from, to)| Cut { from, to }),
        running,
    })
}

/// Returns a part of an agent's output that ends with a line, if possible.
///
/// # Errors
/// As [`log()`].
pub async fn lines(site: &Site, caller: &Caller, id: &JobId, query: LinesQuery) -> Result<Lines> {
    let stream = stream_of(query.stream.as_deref())?;
    // With the byte before, to see whether it ends a line.
    let before = query.offset.saturating_sub(1);
    let most = query.until.map_or(LINES_BYTES, |it| it.saturating_sub(query.offset));
    let most = usize::try_from(most).unwrap_or(usize::MAX).clamp(1, LOG_BYTES_MAX - 1);
    let (chunk, running) = read(site, caller, id, stream, before, most + 1).await?;
    let (mut offset, mut bytes, mut goes_on) = (chunk.offset, chunk.bytes.as_slice(), false);
    if query.offset > 0 && offset == before && !bytes.is_empty() {
        goes_on = bytes[0] != b'\n';
        (offset, bytes) = (offset + 1, &bytes[1..]);
    } else if query.offset == 0 {
        bytes = &bytes[..bytes.len().min(most)];
    }
    if query.is_aligned && goes_on {
        let skipped = match bytes.iter().position(|it| *it == b'\n') {
            Some(end) if end + 1 < bytes.len() => {
                goes_on = false;
                end + 1
            }
            _ => bytes.iter().take(3).take_while(|it| **it & 0xC0 == 0x80).count(),
        };
        (offset, bytes) = (offset + skipped as u64, &bytes[skipped..]);
    }
    if let Some(until) = query.until {
        // The requested bytes may have been deleted: then it starts later, perhaps beyond the end.
        let left = usize::try_from(until.saturating_sub(offset)).unwrap_or(usize::MAX);
        bytes = &bytes[..bytes.len().min(left)];
    }
    let is_end = offset + bytes.len() as u64 >= chunk.total;
    let may_go_on = running || !is_end;
    let last_line = bytes.iter().rposition(|it| *it == b'\n');
    let taken = match last_line {
        _ if query.until.is_some() || (is_end && !running) => bytes.len(),
        Some(end) => end + 1,
        None if is_end && bytes.len() < most => 0,
        None => whole_characters(bytes, may_go_on),
    };
    let open = if is_end { &bytes[taken..] } else { &[] };
    Ok(Lines {
        stream: stream.as_str(),
        offset,
        next_offset: offset + taken as u64,
        total: chunk.total,
        cut: chunk.cut,
        running,
        goes_on,
        text: String::from_utf8_lossy(&bytes[..taken]).into_owned(),
        open: String::from_utf8_lossy(&open[..whole_characters(open, running)]).into_owned(),
    })
}

/// Returns a part of an agent's raw output: the bytes, their offset, the next offset, and the
/// total.
///
/// # Errors
/// As [`log()`].
pub async fn bytes(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    query: LogQuery,
) -> Result<(Vec<u8>, u64, u64, u64)> {
    let stream = stream_of(query.stream.as_deref())?;
    let offset = query.offset.unwrap_or(0);
    let (chunk, _) = read(site, caller, id, stream, offset, LOG_BYTES_MAX).await?;
    Ok((chunk.bytes, chunk.offset, chunk.next_offset, chunk.total))
}

fn stream_of(word: Option<&str>) -> Result<Stream> {
    match word {
        None | Some("stderr") => Ok(Stream::Stderr),
        Some("stdout") => Ok(Stream::Stdout),
        Some(_) => Err(Error::invalid("stream must be `stdout` or `stderr`")),
    }
}

/// Reads a part of an output, and whether its job is still running.
async fn read(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    stream: Stream,
    offset: u64,
    bytes_max: usize,
) -> Result<(OutputChunk, bool)> {
    let job = with_output(site, caller, id).await?;
    let dir = job_dir(&site.config.site.data, id);
    let read = blocking(move || process::read_output(&dir, stream, offset, bytes_max)).await;
    let is_nothing = |cause: &Error| match cause.kind() {
        // A waiting job, or one without an agent, has no output.
        ErrorKind::NotFound => job.guard.is_none(),
        // If an agent has replaced its output file, it is not read.
        _ => process::is_usurped(cause),
    };
    let chunk = match read {
        Err(cause) if is_nothing(&cause) => {
            OutputChunk { offset: 0, bytes: Vec::new(), next_offset: 0, total: 0, cut: None }
        }
        read => read?,
    };
    Ok((chunk, !job.status.is_final()))
}

/// Returns when a job's agent last printed something.
pub(in crate::flows) async fn last_printed(site: &Site, id: &JobId) -> Result<Option<Millis>> {
    let dir = job_dir(&site.config.site.data, id);
    blocking(move || process::last_printed(&dir)).await
}

/// Returns the names of the environment of a job's agent; none once its files are removed.
pub(in crate::flows) async fn environment(site: &Site, id: &JobId) -> Result<Vec<String>> {
    let dir = job_dir(&site.config.site.data, id);
    let about = id.clone();
    blocking(move || {
        // The agent can write that file: whatever is wrong with it, the job still has a page.
        Ok(process::environment_names(&dir).unwrap_or_else(|cause| {
            warn!(job_id = %about, "the names of its environment: {}", cause.chain());
            Vec::new()
        }))
    })
    .await
}

/// Returns a job whose output the caller may see and whose folder still exists.
async fn with_output(site: &Site, caller: &Caller, id: &JobId) -> Result<Job> {
    let job = with_files(site, caller, id).await?;
    if let Some(agent) = job.agent.clone() {
        let caller = caller.clone();
        site.store.read(move |c| require_open_output(c, &caller, &agent)).await?;
    }
    Ok(job)
}

/// Returns a job that the caller may see and whose folder still exists.
async fn with_files(site: &Site, caller: &Caller, id: &JobId) -> Result<Job> {
    let (asked, viewer) = (id.clone(), require_own(caller, id)?);
    site.store
        .read(move |c| {
            let job = jobs::find(c, &viewer, &asked)?;
            match jobs::files(c, &asked)?.and_then(|it| it.removed) {
                None => Ok(job),
                Some(at) => {
                    let day: String = at.rfc3339().chars().take(10).collect();
                    Err(Error::not_found(format!("the files of job {asked} were removed on {day}"))
                        .code(LOG_EXPIRED)
                        .hint("logs and prompts are kept for 30 days, up to 2 GiB"))
                }
            }
        })
        .await
}

fn whole_characters(bytes: &[u8], more_may_come: bool) -> usize {
    match std::str::from_utf8(bytes) {
        Err(cause) if more_may_come && cause.error_len().is_none() && cause.valid_up_to() > 0 => {
            cause.valid_up_to()
        }
        _ => bytes.len(),
    }
}

/// Returns the agent's telemetry after an entry.
///
/// # Errors
/// `not_found`.
pub async fn stream(site: &Site, caller: &Caller, id: &JobId, after: u64) -> Result<Transcript> {
    with_output(site, caller, id).await?;
    let dir = job_dir(&site.config.site.data, id);
    let items = blocking(move || jobs::read_stream(&dir, after, STREAM_ENTRIES_MAX)).await?;
    let next = items.last().and_then(|it| it["seq"].as_u64());
    Ok(Transcript { items, next })
}

/// Returns the last entries of an agent's telemetry, and the totals.
///
/// # Errors
/// `not_found`.
pub async fn stream_end(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    most: usize,
) -> Result<(Vec<Value>, Value)> {
    with_output(site, caller, id).await?;
    let dir = job_dir(&site.config.site.data, id);
    blocking(move || jobs::read_stream_end(&dir, most)).await
}

/// Returns the exact prompt of a job.
///
/// # Errors
/// `not_found` with code `no_prompt` for a job that has not been started.
pub async fn prompt(site: &Site, caller: &Caller, id: &JobId) -> Result<Prompt> {
    with_files(site, caller, id).await?;
    let dir = job_dir(&site.config.site.data, id);
    let read = blocking(move || match JobFolder::open(&dir)? {
        Some(folder) => folder.read("prompt", PROMPT_BYTES_MAX),
        None => Ok(None),
    });
    let bytes = read.await?;
    let missing = || Error::not_found(format!("job {id} has no prompt because it was not started"));
    let bytes = bytes
        .ok_or_else(|| missing().code("no_prompt").hint("the server creates it when it starts"))?;
    Ok(Prompt { prompt: String::from_utf8_lossy(&bytes).into_owned() })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::internal("reading a file panicked").source(cause))?
}
