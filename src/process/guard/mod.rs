//! The guard: one small process per job. It starts the agent, records its output, and ends its
//! whole process tree: on order, when the agent exits, or when the server dies.
//!
//! **Invariant:** one thread (the death signal follows the thread), no async, no database.
//! **Invariant:** its only inputs are the job's folder and the lifeline, descriptor 0.

mod agent;
mod clocks;
mod end;
mod feed;
mod keeper;
mod link;
mod mask;
mod output;
mod terminal;
mod watch;

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use nix::sys::prctl;
use nix::sys::resource::{UsageWho, getrusage};

use crate::base::{Clock, Context, Error, ErrorKind, Result, fault};
use crate::process::guard::feed::Feed;
use crate::process::guard::keeper::Keeper;
use crate::process::guard::link::Link;
use crate::process::guard::mask::Secrets;
use crate::process::guard::output::Capture;
use crate::process::guard::terminal::{Terminal, let_in};
use crate::process::guard::watch::{Watch, Watched};
use crate::process::job_folder::JobFolder;
use crate::process::launch::{
    EXIT_FILE, ExitCause, ExitRecord, GuardEvent, GuardOrder, Launch, Stream, StreamRecord,
    VERSION, check_env, read_launch,
};
use crate::process::lock::FileLock;
use crate::process::sys;

/// Timeout for the first line; the server writes it before it starts the guard.
const FIRST_LINE_MAX: Duration = Duration::from_secs(5);
/// How long the server may take to read the last event.
const LAST_WORD_MAX: Duration = Duration::from_secs(1);

/// Entry point of a job's guard: `wb-agent __guard JOB_DIR`. Returns when everything has ended and
/// is on disk.
pub fn guard_main(mut args: impl Iterator<Item = String>) -> ExitCode {
    let (Some(job_dir), None) = (args.next(), args.next()) else {
        note("a guard takes the folder of its job and nothing else");
        return ExitCode::from(2);
    };
    match guard(&Utf8PathBuf::from(job_dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&error.chain());
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Writes a line to the guard's log.
fn note(text: &str) {
    // There is no other place to report a failure of the log.
    let _ = writeln!(std::io::stderr(), "guard: {text}");
}

fn guard(job_dir: &Utf8Path) -> Result<()> {
    let started_ms = Clock::system().now().0;
    let began = Instant::now();
    let unavailable = ErrorKind::Unavailable;
    if !fault::is_off("close_on_exec") {
        sys::close_strays_on_exec().context(unavailable, || "cannot mark descriptors".into())?;
    }
    // Orphaned descendants are re-parented to the guard, so that none escapes by double-forking.
    if !fault::is_off("subreaper") {
        prctl::set_child_subreaper(true)
            .context(unavailable, || "cannot become a subreaper".into())?;
    }
    let folder = JobFolder::open(job_dir)?
        .ok_or_else(|| Error::not_found(format!("{job_dir} is not there")))?;
    // Held until the exit file is written: a job has one guard, and one end.
    let lock = take_lock(&folder)?;
    if folder.has(EXIT_FILE) {
        return Err(Error::conflict("job_ended", format!("the job in {job_dir} has ended")));
    }
    let no_lifeline = || "there is no lifeline".to_owned();
    let launch = read_launch(&folder);
    let terminal = match &launch {
        Ok(launch) => Terminal::take(&folder, launch).context(unavailable, no_lifeline)?,
        Err(_) => None,
    };
    let watch = Watch::prepare();
    let mut keeper = None;
    let mut link = match (&terminal, &launch) {
        (Some(_), Ok(launch)) => {
            let mut door = Keeper::open(&folder, launch)
                .and_then(|it| it.ok_or_else(|| std::io::Error::other("it has no door")))
                .context(unavailable, no_lifeline)?;
            let link = let_in(&mut door).context(unavailable, no_lifeline)?;
            keeper = Some(door);
            link
        }
        _ => Link::from_stdin().context(unavailable, no_lifeline)?,
    };
    let watched = match (watch, launch) {
        (Ok(watch), Ok(launch)) => {
            carry_out(&folder, &mut link, watch, (&launch, terminal, keeper))
        }
        (Err(cause), _) | (_, Err(cause)) => Watched::failed(ExitCause::SpawnFailed, cause.chain()),
    };
    // A monotonic duration: had the system time been set meanwhile, it would count as running time.
    let ran_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    let record = record(watched, started_ms, started_ms.saturating_add(ran_ms));
    let text = serde_json::to_vec_pretty(&record)
        .context(ErrorKind::Internal, || "cannot write the exit record".into())?;
    let written = folder.put(EXIT_FILE, &text);
    drop(lock);
    // Sent even if the record could not be written: the server settles the job by this event.
    link.tell(&GuardEvent::Ended(record));
    link.flush_within(LAST_WORD_MAX);
    written
}

fn take_lock(folder: &JobFolder) -> Result<Option<FileLock>> {
    if fault::is_off("job_lock") {
        return Ok(None);
    }
    match folder.lock("lock")? {
        Some(lock) => Ok(Some(lock)),
        None => {
            let message = format!("the job in {} has a guard already", folder.path());
            Err(Error::conflict("job_locked", message))
        }
    }
}

/// Starts the agent, unless something is wrong or the server is gone, and watches it until the end.
fn carry_out(
    folder: &JobFolder,
    link: &mut Link,
    watch: Watch,
    (launch, terminal, keeper): (&Launch, Option<Terminal>, Option<Keeper>),
) -> Watched {
    let (secrets, masked) = match link.first_order(FIRST_LINE_MAX) {
        Some(GuardOrder::Start { secrets, masked }) => (secrets, masked),
        Some(_) => {
            let why = "the first order was not to start";
            return Watched::failed(ExitCause::SpawnFailed, why.into());
        }
        None => return lifeline_lost(),
    };
    // The line can be there after its writer is gone: the end of the lifeline is what counts.
    let pending = link.receive();
    if link.is_gone() && !fault::is_off("lifeline") {
        return lifeline_lost();
    }
    if pending.iter().any(|it| matches!(it, GuardOrder::Stop { .. })) {
        let why = "it was stopped before it started";
        return Watched::failed(ExitCause::Stopped, why.into());
    }
    link.put_back(pending);
    let opened = match keeper {
        Some(keeper) => Ok(Some(keeper)),
        None => Keeper::open(folder, launch),
    };
    let keeper = match opened {
        Ok(keeper) => keeper,
        Err(cause) => {
            let why = format!("no later server could take it over: {cause}");
            return Watched::failed(ExitCause::SpawnFailed, why);
        }
    };
    match start(folder, (launch, terminal.as_ref()), (&secrets, &masked)) {
        Ok((agent, feed, captures)) => watch.watch(link, launch, (agent, feed, keeper), captures),
        Err(why) => Watched::failed(ExitCause::SpawnFailed, why),
    }
}

fn lifeline_lost() -> Watched {
    Watched::failed(ExitCause::Lifeline, "the server was gone before the agent started".into())
}

fn start(
    folder: &JobFolder,
    (launch, terminal): (&Launch, Option<&Terminal>),
    (secrets, masked): (&[(String, String)], &[String]),
) -> std::result::Result<(agent::Agent, Feed, [Capture; 2]), String> {
    check_env(secrets).map_err(|it| it.chain())?;
    let masked = Secrets::of(secrets, masked);
    let capture = |stream| {
        Capture::new(folder, stream, launch.output, &masked)
            .map_err(|cause| format!("cannot create the output files: {cause}"))
    };
    let mut captures = [capture(Stream::Stdout)?, capture(Stream::Stderr)?];
    let (agent, input, pipes) = agent::start(folder, (launch, terminal), secrets)?;
    for (capture, pipe) in captures.iter_mut().zip(pipes) {
        if let Some(pipe) = pipe
            && let Err(cause) = capture.attach(pipe)
        {
            // The pipe is closed, so the agent gets SIGPIPE; the watch continues regardless.
            note(&format!("cannot read {}: {cause}", capture.stream.as_str()));
        }
    }
    let feed = match terminal {
        Some(_) => Feed::of_names(),
        None => Feed::new(input),
    };
    Ok((agent, feed, captures))
}

fn record(watched: Watched, started_ms: i64, ended_ms: i64) -> ExitRecord {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
    let ms = |time: nix::sys::time::TimeVal| {
        let ms = time.tv_sec().saturating_mul(1_000).saturating_add(time.tv_usec() / 1_000);
        u64::try_from(ms).unwrap_or(0)
    };
    let [stdout, stderr]: [StreamRecord; 2] = watched.streams;
    let rss_kib = usage.map_or(0, |it| u64::try_from(it.max_rss()).unwrap_or(0));
    ExitRecord {
        version: VERSION,
        cause: watched.cause,
        code: watched.code,
        signal: watched.signal,
        error: watched.error,
        started_ms,
        ended_ms,
        cpu_user_ms: usage.map_or(0, |it| ms(it.user_time())),
        cpu_sys_ms: usage.map_or(0, |it| ms(it.system_time())),
        rss_max_bytes: rss_kib.saturating_mul(1024),
        stdout,
        stderr,
        swept: watched.swept,
        survivors: watched.survivors,
    }
}
