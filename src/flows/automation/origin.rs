//! What an event follows from: the jobs and messages of the script that led to it.
//!
//! An event names a job, a message, a turn, an agent or a channel. From there the way leads back: a
//! job to the message that started it, a message to the one that it answers and to what its sender
//! was given then, a turn to the messages that it was given.
//!
//! **Invariant:** what the script wrote or asked for carries its depth on, through whatever agents
//! made of it. What a person did begins at zero.

use std::collections::{BTreeSet, VecDeque};

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, named_params};

use crate::base::{Address, EventKind, JobId, MailId, Millis, Result, TurnId};
use crate::flows::instances;
use crate::jobs;
use crate::store::{StoredEvent, events};

/// Most steps back.
const STEPS_MAX: usize = 200;

const MESSAGE: &str = "
    SELECT m.depth AS depth, m.job_id AS job_id, m.in_reply_to AS answered,
        m.created_ms AS created_ms, root.depth AS root_depth, said.turn_id AS turn_id
    FROM messages m
    LEFT JOIN channel_messages said ON said.message_id = m.id
    LEFT JOIN messages root ON root.id = said.root
    WHERE m.id = :id AND m.sender NOT LIKE 'person:%'";
const TURN: &str = "SELECT block_id, agent, job_id, started_ms FROM turns WHERE id = :id";
const GIVEN: &str = "
    SELECT message_id FROM deliveries WHERE block_id = :block AND wakes = 1
    ORDER BY seq DESC LIMIT 20";
const BLOCK_AT: &str = "
    SELECT block_id FROM turns
    WHERE agent = :agent AND started_ms <= :at AND block_id IS NOT NULL
        AND (:job IS NULL OR job_id = :job)
    ORDER BY started_ms DESC LIMIT 1";
const OPEN_AT: &str = "
    SELECT d.message_id FROM
        (SELECT message_id, ended_ms FROM deliveries
        WHERE to_class = 'agent' AND to_name = :agent ORDER BY seq DESC LIMIT 100) AS d
    CROSS JOIN messages m ON m.id = d.message_id
    WHERE m.created_ms <= :at AND (d.ended_ms IS NULL OR d.ended_ms >= :at) LIMIT 20";
const TOLD_AT: &str = "
    SELECT d.message_id FROM
        (SELECT message_id FROM deliveries
        WHERE to_class = 'instance' AND to_name = :name ORDER BY seq DESC LIMIT 20) AS d
    CROSS JOIN messages m ON m.id = d.message_id
    WHERE m.created_ms <= :at LIMIT 1";
const SAID_AT: &str = "
    SELECT message_id FROM channel_messages
    WHERE channel = :channel AND created_ms <= :at AND type <> 'system'
    ORDER BY created_ms DESC LIMIT 1";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("origin::message", MESSAGE),
    ("origin::turn", TURN),
    ("origin::given", GIVEN),
    ("origin::block_at", BLOCK_AT),
    ("origin::open_at", OPEN_AT),
    ("origin::told_at", TOLD_AT),
    ("origin::said_at", SAID_AT),
];

/// Something that an event can follow from.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Step {
    /// A job, and what its agent had been given by then.
    Job(JobId, Millis),
    /// A message.
    Message(MailId),
    /// A turn of an agent.
    Turn(TurnId),
    /// What an agent was given last, in one of its starts.
    Given(String, Option<JobId>, Millis),
    /// What waited for an agent.
    Waiting(String, Millis),
    /// What was last said in a channel.
    Channel(i64, Millis),
}

/// Returns the depth of a job or message requested because of an event: one more than those of the
/// script that led to it.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn depth_after(c: &Connection, event: &StoredEvent) -> Result<u32> {
    let failed = (event.kind == EventKind::ScriptFailed).then(|| cause_of(c, event)).transpose()?;
    let mut steps: VecDeque<Step> = match failed.flatten() {
        Some(Cause::Event(caused)) => of_event(&caused).into(),
        Some(Cause::Job(id)) => [Step::Job(id, event.at)].into(),
        None => of_event(event).into(),
    };
    let (mut seen, mut depth) = (BTreeSet::new(), 0);
    while let Some(step) = steps.pop_front() {
        if seen.len() < STEPS_MAX && seen.insert(step.clone()) {
            depth = depth.max(follow(c, &step, &mut steps)?);
        }
    }
    Ok(depth + 1)
}

/// What a function that failed was called for.
enum Cause {
    Event(StoredEvent),
    Job(JobId),
}

/// Reads it from the words of the failure: `event 17 (job_finished)`, `job ID`, or a time.
fn cause_of(c: &Connection, failed: &StoredEvent) -> Result<Option<Cause>> {
    let said = failed.data["cause"].as_str().unwrap_or_default();
    let word = said.split(' ').nth(1).unwrap_or_default();
    if said.starts_with("job ") {
        return Ok(word.parse().ok().map(Cause::Job));
    }
    if !said.starts_with("event ") {
        return Ok(None);
    }
    let id: i64 = word.parse().unwrap_or_default();
    let found = events::after(c, id.saturating_sub(1), 1)?;
    Ok(found.into_iter().find(|it| it.id == id).map(Cause::Event))
}

/// Returns what an event names.
fn of_event(event: &StoredEvent) -> Vec<Step> {
    use EventKind::{
        AgentChanged, ApprovalDecided, ChangesDecided, ChannelChanged, HandoffChanged,
        MemberChanged, TurnHeld,
    };
    // A person who does this begins something, whatever it is about.
    let is_begun = matches!(
        event.kind,
        AgentChanged
            | ApprovalDecided
            | ChangesDecided
            | ChannelChanged
            | HandoffChanged
            | MemberChanged
            | TurnHeld
    );
    if is_begun && event.actor.starts_with("person:") {
        return Vec::new();
    }
    let data = |name: &str| event.data[name].as_str();
    let subject = |class: &str| event.subject.strip_prefix(class);
    let jobs = [subject("job:"), event.actor.strip_prefix("job:"), data("job_id")];
    let jobs = jobs.into_iter().flatten().filter_map(|id| id.parse().ok());
    let mut steps: Vec<Step> = jobs.map(|id| Step::Job(id, event.at)).collect();
    steps.extend(data("message_id").and_then(|id| id.parse().ok()).map(Step::Message));
    steps.extend(data("turn_id").and_then(|id| id.parse().ok()).map(Step::Turn));
    let agent = subject("agent:").map(str::to_owned);
    match event.kind {
        AgentChanged => steps.extend(agent.map(|it| Step::Waiting(it, event.at))),
        HandoffChanged => steps.extend(agent.map(|it| Step::Given(it, None, event.at))),
        ChannelChanged | MemberChanged => {
            let channel = event.data["number"].as_i64();
            steps.extend(channel.map(|it| Step::Channel(it, event.at)));
        }
        _ => {}
    }
    steps
}

/// Returns the depth of a step, and adds what it follows from.
fn follow(c: &Connection, step: &Step, steps: &mut VecDeque<Step>) -> Result<u32> {
    match step {
        Step::Job(id, at) => {
            let Ok(job) = jobs::find_brief(c, &jobs::Viewer::Program, id) else { return Ok(0) };
            steps.extend(job.message_id.clone().map(Step::Message));
            match instances::address_of_job(&job) {
                Some(Address::Agent(agent)) => {
                    steps.push_back(Step::Given(agent, Some(id.clone()), *at));
                }
                Some(own) => {
                    let params = named_params! {":name": own.name(), ":at": at};
                    steps.extend(messages(c, TOLD_AT, params)?);
                }
                None => {}
            }
            return jobs::depth_of(c, id);
        }
        Step::Message(id) => return message(c, id, steps),
        Step::Turn(id) => {
            let find = |row: &Row<'_>| {
                let (block, agent): (Option<String>, _) = (row.get(0)?, row.get(1)?);
                Ok((block, Step::Given(agent, row.get(2)?, row.get(3)?)))
            };
            let mut statement = c.prepare_cached(TURN)?;
            match statement.query_row(named_params! {":id": id}, find).optional()? {
                Some((Some(block), _)) => steps.extend(given(c, &block)?),
                // It went on by itself.
                Some((None, before)) => steps.push_back(before),
                None => {}
            }
        }
        Step::Given(agent, job, at) => {
            let params = named_params! {":agent": agent, ":job": job, ":at": at};
            let blocks = texts(c, BLOCK_AT, params)?;
            for block in &blocks {
                steps.extend(given(c, block)?);
            }
            if blocks.is_empty() && job.is_some() {
                // Before its first turn: what it was started for waits.
                steps.push_back(Step::Waiting(agent.clone(), *at));
            }
        }
        Step::Waiting(agent, at) => {
            steps.extend(messages(c, OPEN_AT, named_params! {":agent": agent, ":at": at})?);
        }
        Step::Channel(number, at) => {
            steps.extend(messages(c, SAID_AT, named_params! {":channel": number, ":at": at})?);
        }
    }
    Ok(0)
}

/// In a channel, answers of agents count only if the script began the chain. A person's message
/// follows from nothing.
fn message(c: &Connection, id: &MailId, steps: &mut VecDeque<Step>) -> Result<u32> {
    let find = |row: &Row<'_>| {
        let (job, answered): (Option<JobId>, Option<MailId>) =
            (row.get("job_id")?, row.get("answered")?);
        let (at, depth): (Millis, u32) = (row.get("created_ms")?, row.get("depth")?);
        let root: Option<u32> = row.get("root_depth")?;
        // What the site says of a turn follows from it.
        let turn: Option<TurnId> = row.get("turn_id")?;
        let led =
            [job.map(|it| Step::Job(it, at)), answered.map(Step::Message), turn.map(Step::Turn)];
        Ok((led, root.unwrap_or(depth)))
    };
    let mut statement = c.prepare_cached(MESSAGE)?;
    let found = statement.query_row(named_params! {":id": id}, find).optional()?;
    let Some((led, depth)) = found else { return Ok(0) };
    steps.extend(led.into_iter().flatten());
    Ok(depth)
}

fn given(c: &Connection, block: &str) -> Result<Vec<Step>> {
    messages(c, GIVEN, named_params! {":block": block})
}

fn messages(c: &Connection, sql: &'static str, params: &[(&str, &dyn ToSql)]) -> Result<Vec<Step>> {
    let ids = texts(c, sql, params)?;
    Ok(ids.iter().filter_map(|id| id.parse().ok()).map(Step::Message).collect())
}

fn texts(c: &Connection, sql: &'static str, params: &[(&str, &dyn ToSql)]) -> Result<Vec<String>> {
    let mut statement = c.prepare_cached(sql)?;
    let found = statement.query_map(params, |row| row.get(0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}
