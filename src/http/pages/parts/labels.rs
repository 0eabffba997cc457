//! States in plain words, each with an icon, a color and a word.

use std::fmt;

use askama::filters::HtmlSafe;

use serde_json::Value;

use crate::api::approvals::{Sort, State as ApprovalState};
use crate::api::changes::{ChangeView, ChangesView};
use crate::api::instances::{MonitorView, PhaseView};
use crate::api::jobs::Status;
use crate::api::proposals::{Fate, ProposalStatus};
use crate::api::sources::Deletion;
use crate::api::topics::{Placement, PlacementState, TopicStatus};
use crate::api::workspaces::WorkspaceState;
use crate::base::Millis;
use crate::http::markdown;
use crate::http::pages::parts::job::Job;
use crate::http::pages::parts::time::span;
use crate::jobs::Reason;

/// The meaning of a state for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http::pages) enum Tone {
    Waiting,
    Running,
    Good,
    Bad,
    Quiet,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Waiting => "waiting",
            Tone::Running => "running",
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Quiet => "quiet",
        }
    }

    /// A clock, a half circle, a tick, a cross, a dash; one stroke width.
    fn icon(self) -> &'static str {
        match self {
            Tone::Waiting => "<circle cx='8' cy='8' r='6'/><path d='M8 4.5V8l2.5 1.5'/>",
            Tone::Running => "<path d='M8 2a6 6 0 1 1-6 6'/><path d='M2 3.5V8h4.5'/>",
            Tone::Good => "<path d='M3 8.5l3.5 3.5L13 4.5'/>",
            Tone::Bad => "<path d='M4 4l8 8M12 4l-8 8'/>",
            Tone::Quiet => "<path d='M4 8h8'/>",
        }
    }
}

/// Returns the size of a file for people.
pub(in crate::http::pages) fn size(bytes: &u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{:.1} MiB", *bytes as f64 / 1_048_576.0),
    }
}

/// Returns the state of a message's delivery. A person reads a message; anybody else receives it.
pub(in crate::http::pages) fn delivery(state: &str, is_to_person: bool) -> &str {
    match (state, is_to_person) {
        ("queued", true) => "Unread",
        ("confirmed", true) => "Read",
        ("queued", false) => "Waiting",
        ("claimed", _) => "Picked up",
        ("sent", _) => "Sent",
        ("confirmed", false) => "Delivered",
        ("unconfirmed", _) => "Not confirmed",
        ("expired", _) => "Expired",
        ("dropped", _) => "Given up",
        (other, _) => other,
    }
}

/// A state on a page; both parts are our own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http::pages) struct State(
    pub(in crate::http::pages) Tone,
    pub(in crate::http::pages) &'static str,
);

impl HtmlSafe for State {}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, icon, word) = (self.0.class(), self.0.icon(), self.1);
        write!(
            f,
            "<span class=\"state state-{class}\"><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\">\
             {icon}</svg>{word}</span>"
        )
    }
}

pub(in crate::http::pages) fn topic_state(status: &TopicStatus) -> State {
    match status {
        TopicStatus::Open => State(Tone::Waiting, "Open"),
        TopicStatus::Incorporated => State(Tone::Good, "Incorporated"),
        TopicStatus::Discarded => State(Tone::Quiet, "Closed without a change"),
    }
}

pub(in crate::http::pages) fn proposal_state(status: &ProposalStatus) -> State {
    match status {
        ProposalStatus::Open => State(Tone::Waiting, "Awaiting review"),
        ProposalStatus::Approved => State(Tone::Good, "Approved and committed"),
        ProposalStatus::Rejected => State(Tone::Bad, "Rejected"),
        ProposalStatus::Superseded => State(Tone::Quiet, "Replaced by a later revision"),
        ProposalStatus::Stale => State(Tone::Bad, "Out of date"),
        ProposalStatus::Void => State(Tone::Quiet, "Void: its job did not succeed"),
    }
}

/// Returns the part of a summary that its title does not already say, if there is one.
pub(in crate::http::pages) fn beyond(title: &str, summary: &str) -> Option<String> {
    let rest = summary.strip_prefix(title).filter(|it| it.is_empty() || it.starts_with('\n'));
    Some(markdown::plain(rest.unwrap_or(summary), 160)).filter(|it| !it.is_empty())
}

/// Returns the state of an approval; a pending one is a question.
pub(in crate::http::pages) fn approval_state(sort: &Sort, state: &ApprovalState) -> State {
    match (state, sort) {
        (ApprovalState::Pending, Sort::Request) => State(Tone::Waiting, "Approve?"),
        (ApprovalState::Pending, _) => State(Tone::Waiting, "Allow?"),
        (ApprovalState::Approved, _) => State(Tone::Good, "Approved"),
        (ApprovalState::Amended, _) => State(Tone::Good, "Approved with changes"),
        (ApprovalState::Rejected, _) => State(Tone::Bad, "Rejected"),
        (ApprovalState::Withdrawn, _) => State(Tone::Quiet, "Withdrawn"),
        (ApprovalState::Expired, _) => State(Tone::Quiet, "Expired"),
    }
}

pub(in crate::http::pages) fn job_state(job: &Job) -> State {
    match job.status {
        Status::Running if job.ending_at.is_some() => State(Tone::Running, "Stopping"),
        status => status_of_job(&status),
    }
}

/// Returns what an instance does in a phase, or did.
pub(in crate::http::pages) fn phase(phase: &PhaseView) -> &'static str {
    match (phase.phase.as_str(), phase.ended_at.is_some()) {
        ("prepare", false) => "Preparing",
        ("prepare", true) => "Prepared",
        ("cleanup", false) => "Cleaning up",
        ("cleanup", true) => "Cleaned up",
        (_, false) => "Working",
        (_, true) => "Worked",
    }
}

/// Returns how long a phase took.
pub(in crate::http::pages) fn took(phase: &PhaseView) -> Option<String> {
    phase.ended_at.map(|end| span(end.0.saturating_sub(phase.started_at.0)))
}

/// Returns the state that a job's status means.
pub(in crate::http::pages) fn status_of_job(status: &Status) -> State {
    match status {
        Status::Queued => State(Tone::Waiting, "Waiting"),
        Status::Running => State(Tone::Running, "Running"),
        Status::Parked => State(Tone::Waiting, "Parked"),
        Status::Succeeded => State(Tone::Good, "Done"),
        Status::TimedOut => State(Tone::Bad, "Timed out"),
        Status::Cancelled => State(Tone::Quiet, "Cancelled"),
        Status::Failed => State(Tone::Bad, "Failed"),
    }
}

/// Returns the state of the monitor of an instance, which is cancelled when the instance ends.
pub(in crate::http::pages) fn monitor_state(monitor: &MonitorView) -> State {
    match monitor.status {
        Status::Queued => State(Tone::Waiting, "Waiting"),
        Status::Running => State(Tone::Running, "Watching"),
        Status::Cancelled => State(Tone::Quiet, "Ended with it"),
        Status::Succeeded => State(Tone::Quiet, "Done"),
        _ => State(Tone::Bad, "Failed"),
    }
}

/// Returns the state of a workspace.
pub(in crate::http::pages) fn workspace_state(state: &WorkspaceState) -> State {
    match state {
        WorkspaceState::Making => State(Tone::Running, "Being created"),
        WorkspaceState::Ready => State(Tone::Running, "In use"),
        WorkspaceState::Cleaning => State(Tone::Running, "Being cleaned up"),
        WorkspaceState::Gone => State(Tone::Quiet, "Removed"),
        WorkspaceState::Failed => State(Tone::Bad, "Needs a person"),
    }
}

/// Returns how a document was deleted, as a sentence.
pub(in crate::http::pages) fn deletion(deletion: &Deletion) -> String {
    match &deletion.commit {
        Some(commit) => {
            format!("The document was deleted in commit {}.", short(commit.as_str()))
        }
        None if deletion.is_committed => "The document was deleted.".to_owned(),
        None => "The document is deleted, but the deletion isn’t committed.".to_owned(),
    }
}

/// Returns the move of a branch or of `HEAD`: from and to.
pub(in crate::http::pages) fn moved(change: &ChangeView) -> Option<String> {
    let word = |it: &Value| match it {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some("nothing".to_owned()),
        _ => None,
    };
    Some(format!("{} → {}", word(&change.before)?, word(&change.after)?))
}

/// Returns whether branches that a job's changes name may have got commits meanwhile.
pub(in crate::http::pages) fn may_have_commits(changes: &ChangesView) -> bool {
    let is_branch = |it: &ChangeView| it.name == "HEAD" || it.name.starts_with("refs/heads/");
    let has = |it: &ChangeView| is_branch(it) && it.after != Value::Null;
    changes.items.iter().any(has)
}

/// Returns the state of a Topic's passage in the current text.
pub(in crate::http::pages) fn placement_words(placement: Option<&Placement>) -> &'static str {
    match placement.map(|it| it.state) {
        None => "About the whole document.",
        Some(PlacementState::Exact) => "The passage is where it was.",
        Some(PlacementState::Shifted) => "The passage is unchanged; the text around it has moved.",
        Some(PlacementState::Edited) => "The passage has been edited in place.",
        Some(PlacementState::Moved) => "The passage has moved.",
        Some(PlacementState::Rewritten) => {
            "The passage has been rewritten. Check that it’s still right."
        }
        Some(PlacementState::Ambiguous) => {
            "The passage matches several places. Choose the right one."
        }
        Some(PlacementState::Orphaned) => "The passage is no longer in the document.",
    }
}

/// Returns whether a person must choose the passage.
pub(in crate::http::pages) fn has_no_place(placement: Option<&Placement>) -> bool {
    placement.is_some_and(|it| {
        use PlacementState::{Ambiguous, Orphaned, Rewritten};
        matches!(it.state, Rewritten | Ambiguous | Orphaned)
    })
}

/// Returns the effect of a proposal on another open Topic.
pub(in crate::http::pages) fn fate_state(fate: &Fate) -> State {
    let had_place = match &fate.before {
        Some(before) => {
            !matches!(before.state, PlacementState::Orphaned | PlacementState::Ambiguous)
        }
        None => true,
    };
    match fate.after.as_ref().map(|it| it.state) {
        None => State(Tone::Good, "Unaffected (whole document)"),
        Some(PlacementState::Exact) if !had_place => State(Tone::Good, "Passage comes back"),
        Some(PlacementState::Exact) => State(Tone::Good, "Unaffected"),
        Some(PlacementState::Shifted) => State(Tone::Good, "Unaffected (moves with the text)"),
        Some(PlacementState::Edited) => State(Tone::Waiting, "Passage edited in place"),
        Some(PlacementState::Moved) => State(Tone::Waiting, "Passage moves"),
        Some(PlacementState::Rewritten) => State(Tone::Waiting, "Passage rewritten: check it"),
        Some(PlacementState::Ambiguous) => State(Tone::Waiting, "Passage becomes ambiguous"),
        Some(_) if !had_place => State(Tone::Quiet, "No passage before or after"),
        Some(_) => State(Tone::Bad, "Loses its passage"),
    }
}

/// The states that jobs can be filtered by, with their names.
pub(in crate::http::pages) const JOB_STATES: [(&str, &str); 7] = [
    ("waiting", "Waiting"),
    ("scheduled", "Scheduled"),
    ("running", "Running"),
    ("succeeded", "Done"),
    ("failed", "Failed"),
    ("timed_out", "Timed out"),
    ("cancelled", "Cancelled"),
];

/// Returns how long a job has been running, or ran.
pub(in crate::http::pages) fn elapsed_ms(job: &Job, now: Millis) -> Option<i64> {
    let started = job.started_at?;
    let until = job.completed_at.unwrap_or(now);
    Some(until.0.saturating_sub(started.0).max(0))
}

/// Returns the state of a job as a sentence.
pub(in crate::http::pages) fn job_sentence(job: &Job, now: Millis) -> String {
    let took = elapsed_ms(job, now);
    let within = |before: &str| took.map(|ms| format!("{before}{}", span(ms))).unwrap_or_default();
    match job.status {
        Status::Queued => waiting_sentence(job),
        Status::Running if job.ending_at.is_some() => {
            format!("Stopping{}: ending its processes.", within(" after "))
        }
        Status::Running => match job.timeout_ms {
            Some(limit) => format!("Running{} of at most {}.", within(" for "), span(limit)),
            None => format!("Running{}.", within(" for ")),
        },
        Status::Parked => "Waiting for an approval; no process is running.".to_owned(),
        Status::Succeeded => format!("Done{}.", within(" in ")),
        _ => match &job.message {
            Some(message) => message.clone(),
            None => format!("Finished{}.", within(" after ")),
        },
    }
}

/// Returns why a job waits.
fn waiting_sentence(job: &Job) -> String {
    let Some(waiting) = &job.waiting else { return "Waiting for its turn.".to_owned() };
    let what = match (&job.source_path, &job.lane) {
        (Some(path), _) => path,
        (None, Some(lane)) => lane,
        (None, None) => "its lane",
    };
    match &*waiting.code {
        "lane_busy" => format!("Waiting for {what}: another job is working on it."),
        "lane_order" => format!("Waiting for {what}: another job is ahead of it."),
        "not_before" => format!("Scheduled: {}.", waiting.message),
        "engine_held" if waiting.until.is_none() => {
            "Waiting: files that control agents changed while another job was running.".to_owned()
        }
        "turn" => "Waiting for its turn.".to_owned(),
        _ => format!("Waiting: {}.", waiting.message),
    }
}

/// A sentence of ours, with text between backticks as code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http::pages) struct Sentence(pub(in crate::http::pages) &'static str);

impl HtmlSafe for Sentence {}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, part) in self.0.split('`').enumerate() {
            match place % 2 {
                0 => f.write_str(part)?,
                _ => write!(f, "<code>{part}</code>")?,
            }
        }
        Ok(())
    }
}

/// Returns what to do about a job that did not succeed.
pub(in crate::http::pages) fn job_hint(job: &Job) -> Option<Sentence> {
    let sentence = match job.reason? {
        Reason::SpawnFailed => "Run `wiki-browser doctor` to check the agents' programs.",
        Reason::ExitStatus | Reason::Signal => "See the end of its standard error.",
        Reason::NoResult => "See its activity below for the reason.",
        Reason::WallTimeout => "Raise its kind's `timeout`, or ask for less at once.",
        Reason::IdleTimeout => "Raise its kind's `idle` if long silence is normal.",
        Reason::StartTimeout => "Raise its kind's `start`, or check the agent's connection.",
        Reason::PromptFailed => "The server's log names the line of the script.",
        Reason::KindChanged | Reason::InputsChanged => "Start it again from its Topic or document.",
        Reason::GuardLost => "See the server's log.",
        Reason::ServerRestarted => "Nothing is wrong with the job itself; run it again.",
        Reason::RateLimited => "Run it again when the provider's limit resets.",
        Reason::Internal => "See the server's log for the cause.",
        _ => return None,
    };
    Some(Sentence(sentence))
}

/// Returns a text without a full stop as a sentence.
pub(in crate::http::pages) fn full_sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

/// Returns the parts of a sentence, and which of them are to be typed: those between backticks.
pub(in crate::http::pages) fn sentence_parts(text: &str) -> Vec<(String, bool)> {
    let sentence = full_sentence(text);
    let parts = sentence.split('`').map(str::to_owned);
    parts.enumerate().map(|(place, part)| (part, place % 2 == 1)).collect()
}

/// Returns a number with its digits in groups of three.
pub(in crate::http::pages) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns `1 Topic` or `2 Topics`.
pub(in crate::http::pages) fn count(number: &i64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

/// Like [`count`], for a length in memory.
pub(in crate::http::pages) fn count_of(number: usize, one: &str, many: &str) -> String {
    count(&i64::try_from(number).unwrap_or(i64::MAX), one, many)
}

/// Returns the last lines of a text.
pub(in crate::http::pages) fn ending(text: &str, lines_max: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(lines_max)..].join("\n")
}

/// Returns the first characters of a hash.
pub(in crate::http::pages) fn short(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

/// Returns the start of a text, with an ellipsis if it was cut.
pub(in crate::http::pages) fn beginning(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_typed_is_code() {
        let sentence = Sentence("`wiki-browser doctor` looks; then `reload`");
        let html = "<code>wiki-browser doctor</code> looks; then <code>reload</code>";
        assert_eq!(sentence.to_string(), html);
    }

    #[test]
    fn digits_stand_in_groups() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
