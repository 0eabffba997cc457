//! The record of a run, a file in the person's vault: `agent/runs/YYYY/MM/DD/RUN.md`.
//!
//! **Invariant:** it is written after the settlement, from rows only, so the next start writes what
//! a killed server left.
//! **Invariant:** only a file that this program wrote is replaced: its digest is stored before the
//! file is written.

use std::fmt::Write as _;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::base::{Error, JobId, Millis, Result, fault, truncate_chars};
use crate::chat::{self, CallState, RECORD_BELL, Run, ToolCall};
use crate::flows::Site;
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::undo::subject;
use crate::flows::assistant::{attach, leaving, tools, uncertain, vault};
use crate::people::{self, Person};
use crate::vault::{Image, VaultPath};

/// How often a record that could not be written is tried again.
const EVERY: Duration = Duration::from_secs(600);
/// Most runs per query.
const RUNS_MAX: u32 = 50;
/// Most characters of a question and of an answer.
const TEXT_CHARS_MAX: usize = 64_000;
/// Most steps of an answer.
const STEPS_MAX: usize = 500;

/// Returns whether a run that ends gets a record: it ran an action, or changed something.
pub(super) fn is_due(run: &Run, calls: &[ToolCall]) -> bool {
    let has_changed = |it: &ToolCall| {
        let is_made = match it.state {
            CallState::Done => it.ok == Some(true),
            CallState::Running | CallState::Unknown => true,
            _ => false,
        };
        is_made && !tools::only_reads(&it.tool)
    };
    run.action.is_some() || (!run.is_dry && calls.iter().any(has_changed))
}

/// Returns the path of a run's record.
pub(super) fn path_of(run: &Run) -> String {
    let day = run.created_at.rfc3339();
    let day = day.get(..10).unwrap_or_default().replace('-', "/");
    format!("agent/runs/{day}/{}.md", run.job_id)
}

/// Writes the records that are due, and removes old uploads and the sign-ins of disabled people,
/// until `stop`.
pub async fn serve(site: Site, stop: CancellationToken) {
    let (due, begun) = (site.store.bell(RECORD_BELL), site.store.clock().now());
    if let Err(cause) = leaving::forget_deleted(&site.now()).await {
        warn!("deleted conversations were not looked for: {}", cause.chain());
    }
    loop {
        {
            // Dropped before sleeping, because it holds a generation of the script.
            let now = site.now();
            tokio::select! {
                done = look(&now, begun) => if let Err(cause) = done {
                    warn!("the vaults could not be looked after: {}", cause.chain());
                },
                () = stop.cancelled() => return,
            }
        }
        tokio::select! {
            () = due.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn look(site: &Site, begun: Millis) -> Result<()> {
    write_due(site, begun).await?;
    leaving::forget_sign_ins(site).await?;
    attach::drop_unsent(site).await
}

async fn write_due(site: &Site, begun: Millis) -> Result<()> {
    let (mut ended, mut after) = (0, String::new());
    loop {
        let from = (ended, after.clone());
        let due =
            site.store.read(move |c| chat::unrecorded(c, (from.0, &from.1), RUNS_MAX)).await?;
        let Some((last, at)) = due.last() else { return Ok(()) };
        (ended, after) = (*at, last.to_string());
        for (run, _) in &due {
            if let Err(cause) = uncertain::settle(site, run, begun).await {
                warn!(job_id = %run, "calls of run {run} stay unknown: {}", cause.chain());
            }
            // A record that cannot be written does not hold up the others, and is tried again
            // later.
            if let Err(cause) = write(site, run).await {
                warn!(job_id = %run, "run {run} is not recorded: {}", cause.chain());
            }
        }
    }
}

/// The contents of a record.
struct Found {
    run: Run,
    person: Person,
    title: String,
    question: String,
    answer: String,
    calls: Vec<ToolCall>,
}

fn find(c: &rusqlite::Connection, id: &JobId) -> Result<Option<Found>> {
    let Some(run) = chat::by_job(c, id)? else { return Ok(None) };
    let Some(person) = people::find(c, &run.person_id)? else { return Ok(None) };
    let session = chat::find_session(c, &run.person_id, &run.session_id)?;
    let question = chat::find_message(c, &run.session_id, &run.question_id)?.body;
    let mut answer = String::new();
    for (_, message) in chat::of_run(c, id)?.into_iter().take(STEPS_MAX) {
        let body = chat::find_message(c, &run.session_id, &message)?.body;
        if !body.trim().is_empty() {
            let gap = if answer.is_empty() { "" } else { "\n\n" };
            let _ = write!(answer, "{gap}{}", body.trim());
        }
    }
    let calls = chat::calls_of_run(c, id)?;
    Ok(Some(Found { run, person, title: session.title, question, answer, calls }))
}

async fn write(site: &Site, id: &JobId) -> Result<()> {
    let wanted = id.clone();
    let Some(found) = site.store.read(move |c| find(c, &wanted)).await? else { return Ok(()) };
    let path = path_of(&found.run);
    let record = Image::of(text(&found).into_bytes(), &Image::nothing());
    let (known, version) = (found.run.record.digests.clone(), found.run.record.version);
    let digest = record.digest();
    // A record that could not be written is tried again, with the same text.
    if !known.split(' ').any(|it| it == digest) {
        let (of, both) = (id.clone(), format!("{known} {digest}"));
        site.store.write(move |tx| chat::note_digests(tx, &of, &both)).await?;
    }
    fault::crash_point("before_record");
    let config = std::sync::Arc::clone(&site.config);
    let (person, at) = (found.person, path.clone());
    let is_written = on_disk(move || {
        let gone = || Error::unavailable("the site no longer has an assistant");
        let vault = vault::open(&config, config.assistant.as_ref().ok_or_else(gone)?, &person)?;
        let at: VaultPath = at.parse()?;
        let before = vault.image(&at)?;
        let is_ours = |it: &str| it == record.digest() || known.split(' ').any(|own| own == it);
        // A file that somebody else wrote or changed stays.
        if before.bytes().is_some() && !is_ours(&before.digest()) {
            return Ok(None);
        }
        vault.refuse_hard_link(&at)?;
        vault.swap(&at, &before, &record).map(Some)
    })
    .await?;
    fault::crash_point("after_record");
    let (kept_path, kept) = match is_written {
        Some(true) => (path, digest),
        // It is tried again.
        Some(false) => return Ok(()),
        None if found.run.record.digests.is_empty() => (String::new(), String::new()),
        None => (path, found.run.record.digests),
    };
    let (of, session) = (id.clone(), (found.run.person_id, found.run.session_id));
    site.store
        .write(move |tx| {
            chat::note_record(tx, &of, version, (&kept_path, &kept))?;
            chat::note_call(tx, &session.0, &session.1)
        })
        .await
}

/// Returns a run's record as Markdown.
fn text(found: &Found) -> String {
    let run = &found.run;
    let ended = run.end.as_ref().map_or("", |it| it.ended.as_str());
    let mut text = format!(
        "---\nrun: {}\nconversation: {}\nasked: {}\nended: {ended}\nmode: {}\n",
        run.job_id,
        run.session_id,
        run.created_at.rfc3339(),
        run.mode
    );
    if let Some(action) = &run.action {
        text += &format!("action: {action}\n");
    }
    if run.is_dry {
        text += "dry_run: true\n";
    }
    text += &format!("---\n# {}\n\n## Question\n\n", line(&found.title));
    for words in truncate_chars(&found.question, TEXT_CHARS_MAX).lines() {
        text += &format!("> {words}\n");
    }
    text += "\n## Calls\n\n";
    if found.calls.is_empty() {
        text += "None.\n";
    }
    for call in &found.calls {
        text += &of_call(call);
    }
    let answer = truncate_chars(&found.answer, TEXT_CHARS_MAX);
    let answer = if answer.is_empty() { "None." } else { &answer };
    text += &format!("\n## Answer\n\n{answer}\n");
    if let Some(why) = run.end.as_ref().and_then(|it| it.text.as_deref()) {
        text += &format!("\nIt ended early: {}.\n", line(why));
    }
    text
}

fn of_call(call: &ToolCall) -> String {
    let at = call.ended_at.unwrap_or(call.created_at);
    let state = match (call.state, call.ok) {
        _ if call.undone_at.is_some() => "undone",
        (CallState::Done, Some(true)) if call.again_id.is_some() => "done later",
        (CallState::Done, Some(true)) => "done",
        (CallState::Done, _) => "failed",
        (CallState::Unknown | CallState::Running, _) => "perhaps made: check it",
        (CallState::Declined, _) => "declined",
        (CallState::Expired, _) => "expired",
        _ => "not made",
    };
    let subject = line(&subject(call)).replace('`', "'");
    let summary = call.summary.as_deref().map(|it| format!(": {}", line(it)));
    let subject = if subject.is_empty() { subject } else { format!(" `{subject}`") };
    format!("- {} **{state}** {}{subject}{}\n", clock(at), call.tool, summary.unwrap_or_default())
}

fn clock(at: Millis) -> String {
    at.rfc3339().get(11..19).unwrap_or_default().to_owned()
}

fn line(text: &str) -> String {
    text.split(|it: char| it.is_control()).collect::<Vec<_>>().join(" ")
}
