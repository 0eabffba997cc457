//! The rows of channels: their state and what they have spent.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::channels::Budget;
use crate::base::{Actor, ChannelId, Error, ErrorKind, Event, EventKind, Ids, Millis, Result};
use crate::channels::name_and_goal::{check_name, check_texts};
use crate::channels::pause::Pause;
use crate::channels::slug::{fold, slug};
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO channels (id, slug, name, folded, type, about, intent, created_by, status,
        created_ms, last_ms, budget_json, promoted_from)
    VALUES (:id, :id, :name, :folded, :type, :about, :intent, :by, 'pending', :now, :now, :budget,
        :promoted)";
const NAME_SLUG: &str = "
    UPDATE channels SET slug = :slug, folded = :folded WHERE number = :number";
const FIND: &str = "SELECT * FROM channels WHERE number = :number";
const FIND_SLUG: &str = "SELECT * FROM channels WHERE slug = :slug";
const FIND_PREFIX: &str = "
    SELECT * FROM channels WHERE slug >= :from AND slug < :until ORDER BY slug LIMIT 2";
const FIND_NAME: &str = "
    SELECT * FROM channels WHERE folded = :folded AND status IN ('pending', 'active')";
const FIND_ENDED: &str = "
    SELECT * FROM channels INDEXED BY channels_by_status
    WHERE status IN ('complete', 'archived') AND folded = :folded ORDER BY number DESC LIMIT 1";
const LIST: &str = "
    SELECT * FROM channels INDEXED BY channels_by_status
    WHERE status = :status AND (last_ms, number) < (:before, :number)
    ORDER BY last_ms DESC, number DESC LIMIT :limit";
const COUNT_OPEN: &str = "
    SELECT COUNT(*) FROM channels INDEXED BY channels_by_status
    WHERE status IN ('pending', 'active')";
const CHANGE: &str = "
    UPDATE channels SET about = :about, intent = :intent, budget_json = :budget,
        warned_ms = CASE WHEN budget_json IS :budget THEN warned_ms END,
        outside_wakes = :outside_wakes
    WHERE number = :number";
const COMPLETE: &str = "
    UPDATE channels SET status = 'complete', completed_ms = :now, completed_by = :by,
        paused_ms = NULL, pause_reason = NULL, last_ms = :now
    WHERE number = :number AND status IN ('pending', 'active')";
const ARCHIVE: &str = "
    UPDATE channels SET status = 'archived', archived_ms = :now
    WHERE number = :number AND status = 'complete'";
const PAUSE: &str = "
    UPDATE channels SET paused_ms = :now, pause_reason = :reason
    WHERE number = :number AND status = 'active' AND paused_ms IS NULL";
const RESUME: &str = "
    UPDATE channels SET paused_ms = NULL, pause_reason = NULL, agent_messages = 0,
        guard_from = last_sequence + 1
    WHERE number = :number AND status = 'active'";
const SPEND: &str = "
    UPDATE channels SET turns = turns + 1, tokens = tokens + :tokens, cost_usd = cost_usd + :cost
    WHERE number = :number";
const SPENT_LATER: &str = "
    UPDATE channels SET turns = MAX(turns, :turns), tokens = MAX(tokens, :tokens),
        cost_usd = MAX(cost_usd, :cost)
    WHERE number = :number";
const WARN: &str = "UPDATE channels SET warned_ms = :now WHERE number = :number";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("channel::insert", INSERT),
    ("channel::name_slug", NAME_SLUG),
    ("channel::spent_later", SPENT_LATER),
    ("channel::find", FIND),
    ("channel::find_slug", FIND_SLUG),
    ("channel::find_prefix", FIND_PREFIX),
    ("channel::find_name", FIND_NAME),
    ("channel::find_ended", FIND_ENDED),
    ("channel::list", LIST),
    ("channel::count_open", COUNT_OPEN),
    ("channel::change", CHANGE),
    ("channel::complete", COMPLETE),
    ("channel::archive", ARCHIVE),
    ("channel::pause", PAUSE),
    ("channel::resume", RESUME),
    ("channel::spend", SPEND),
    ("channel::warn", WARN),
];

/// Maximum number of open channels.
pub(super) const OPEN_MAX: i64 = 200;
/// The state of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No messages yet.
    Pending,
    /// Open.
    Active,
    /// Completed; read-only.
    Complete,
    /// Completed and omitted from lists.
    Archived,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 4] =
        [Status::Pending, Status::Active, Status::Complete, Status::Archived];

    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Active => "active",
            Status::Complete => "complete",
            Status::Archived => "archived",
        }
    }

    /// Returns whether messages can be posted.
    pub fn is_open(self) -> bool {
        matches!(self, Status::Pending | Status::Active)
    }
}

/// A channel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Counts channels from 1.
    pub number: i64,
    /// Its id, for events.
    pub id: ChannelId,
    /// Its slug.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// The part of its slug that is its name.
    pub folded: String,
    /// The name of its type.
    pub kind: String,
    /// Its description, if it has one of its own.
    pub about: Option<String>,
    /// Its goal, if not its type's.
    pub intent: Option<String>,
    /// Who created it.
    pub created_by: Actor,
    /// The agent whose conversation with a person became this channel.
    pub promoted_from: Option<String>,
    /// Whether messages of members from outside can wake agents.
    pub outside_wakes: bool,
    /// Its state.
    pub status: Status,
    /// When it was created.
    pub created_at: Millis,
    /// When it was completed.
    pub completed_at: Option<Millis>,
    /// Who completed it.
    pub completed_by: Option<Actor>,
    /// The number of its last message.
    pub last_sequence: i64,
    /// When the last message was posted.
    pub last_at: Millis,
    /// Messages of agents since a person last wrote.
    pub agent_messages: u32,
    /// Chains that began before this message no longer count.
    pub guard_from: i64,
    /// Why it is paused, and since when.
    pub paused: Option<(Pause, Millis)>,
    /// Its budget.
    pub budget: Budget,
    /// Turns so far.
    pub turns: i64,
    /// Tokens so far.
    pub tokens: i64,
    /// US dollars so far.
    pub cost_usd: f64,
    /// When it was warned that the budget is nearly used up.
    pub warned_at: Option<Millis>,
}

impl Channel {
    /// Returns its name as agents and people write it behind a `#`.
    pub fn short(&self) -> &str {
        &self.folded
    }

    /// Returns whether its budget is used up to these parts in three.
    pub fn has_used(&self, thirds: i64) -> bool {
        self.budget.is_used(thirds, (self.turns, self.tokens, self.cost_usd))
    }

    /// Refuses a completed channel.
    ///
    /// # Errors
    /// `conflict` with code `channel_not_active`.
    pub fn require_open(&self) -> Result<()> {
        if self.status.is_open() {
            return Ok(());
        }
        let message = format!("{} has ended", self.slug);
        Err(Error::conflict("channel_not_active", message).hint("create a new channel"))
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Channel> {
        let status: String = row.get("status")?;
        let status = Status::ALL.into_iter().find(|it| it.as_str() == status);
        let budget: Option<String> = row.get("budget_json")?;
        let budget = budget.as_deref().map(serde_json::from_str).transpose();
        let (reason, paused): (Option<String>, Option<Millis>) =
            (row.get("pause_reason")?, row.get("paused_ms")?);
        let reason = reason.as_deref().and_then(Pause::parse);
        Ok(Channel {
            number: row.get("number")?,
            id: row.get("id")?,
            slug: row.get("slug")?,
            name: row.get("name")?,
            folded: row.get("folded")?,
            kind: row.get("type")?,
            about: row.get("about")?,
            intent: row.get("intent")?,
            created_by: row.get("created_by")?,
            promoted_from: row.get("promoted_from")?,
            outside_wakes: row.get("outside_wakes")?,
            status: status.ok_or_else(|| wrong("no status of a channel"))?,
            created_at: row.get("created_ms")?,
            completed_at: row.get("completed_ms")?,
            completed_by: row.get("completed_by")?,
            last_sequence: row.get("last_sequence")?,
            last_at: row.get("last_ms")?,
            agent_messages: row.get("agent_messages")?,
            guard_from: row.get("guard_from")?,
            paused: reason.zip(paused),
            budget: budget.map_err(|_| wrong("a budget is not JSON"))?.unwrap_or_default(),
            turns: row.get("turns")?,
            tokens: row.get("tokens")?,
            cost_usd: row.get("cost_usd")?,
            warned_at: row.get("warned_ms")?,
        })
    }
}

fn wrong(message: &str) -> rusqlite::Error {
    let cause = Box::new(Error::internal(message));
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, cause)
}

/// A channel to create.
#[derive(Clone, Debug)]
pub struct NewChannel {
    /// The name of its type.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub about: Option<String>,
    /// Its goal, if not its type's.
    pub intent: Option<String>,
    /// Who creates it.
    pub by: Actor,
    /// Its budget.
    pub budget: Budget,
    /// The agent whose conversation with a person becomes this channel.
    pub promoted_from: Option<String>,
}

/// Creates a channel, with its number and slug; the caller adds the members.
///
/// # Errors
/// `invalid`: `bad_name`, `bad_parameter`; `conflict` with code `name_taken`; `busy` with code
/// `too_many_channels`.
pub fn create(tx: &Tx<'_>, ids: &Ids, new: &NewChannel) -> Result<Channel> {
    check_name(&new.name)?;
    check_texts(new.about.as_deref(), new.intent.as_deref())?;
    new.budget.check()?;
    let open: i64 = tx.prepare_cached(COUNT_OPEN)?.query_row([], |row| row.get(0))?;
    if open >= OPEN_MAX {
        let message = format!("{open} channels are open, {OPEN_MAX} are allowed");
        return Err(Error::new(ErrorKind::Busy, message)
            .code("too_many_channels")
            .hint("complete one that is over: `wiki-browser channel complete`"));
    }
    let folded = fold(&new.name);
    if let Some(taken) = find_open(tx.connection(), &folded)?.filter(|_| !folded.is_empty()) {
        let message = format!("{} is open and has this name", taken.slug);
        return Err(Error::conflict("name_taken", message)
            .hint("use that one, complete it, or take another name"));
    }
    let id: ChannelId = ids.mint();
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":name": new.name.trim(), ":folded": id, ":type": new.kind,
        ":about": new.about, ":intent": new.intent, ":by": new.by, ":now": tx.now(),
        ":budget": json!(new.budget).to_string(), ":promoted": new.promoted_from,
    })?;
    let number = tx.connection().last_insert_rowid();
    let slug = slug(&new.kind, &folded, number);
    let folded = if folded.is_empty() { slug.clone() } else { folded };
    tx.prepare_cached(NAME_SLUG)?.execute(named_params! {
        ":slug": slug, ":folded": folded, ":number": number,
    })?;
    let made = find(tx.connection(), number)?;
    changed(tx, &made, &new.by, "created")?;
    Ok(made)
}

/// Returns a channel.
///
/// # Errors
/// `not_found` with code `no_channel`.
pub fn find(connection: &Connection, number: i64) -> Result<Channel> {
    let mut statement = connection.prepare_cached(FIND)?;
    let params = named_params! {":number": number};
    let found = statement.query_row(params, Channel::from_row).optional()?;
    found.ok_or_else(|| nothing(&number.to_string()))
}

fn find_open(connection: &Connection, folded: &str) -> Result<Option<Channel>> {
    let mut statement = connection.prepare_cached(FIND_NAME)?;
    let params = named_params! {":folded": folded};
    Ok(statement.query_row(params, Channel::from_row).optional()?)
}

/// Resolves a channel: by a slug or its beginning, a number, or the name, with or without `#`, of
/// the open channel that has it, else of the newest one that has ended.
///
/// # Errors
/// `not_found` with code `no_channel`; `conflict` with code `ambiguous`.
pub fn resolve(connection: &Connection, text: &str) -> Result<Channel> {
    let bare = text.strip_prefix("channel:").unwrap_or(text);
    let bare = bare.strip_prefix('#').unwrap_or(bare);
    let mut statement = connection.prepare_cached(FIND_SLUG)?;
    let exact = statement.query_row(named_params! {":slug": bare}, Channel::from_row).optional()?;
    if let Some(found) = exact {
        return Ok(found);
    }
    if let Ok(number) = bare.parse::<i64>() {
        return find(connection, number);
    }
    if let Some(found) = find_open(connection, bare)? {
        return Ok(found);
    }
    let mut statement = connection.prepare_cached(FIND_ENDED)?;
    let ended = statement.query_row(named_params! {":folded": bare}, Channel::from_row);
    if let Some(found) = ended.optional()? {
        return Ok(found);
    }
    let mut statement = connection.prepare_cached(FIND_PREFIX)?;
    let params = named_params! {":from": bare, ":until": format!("{bare}\u{10ffff}")};
    let mut found: Vec<Channel> =
        statement.query_map(params, Channel::from_row)?.collect::<rusqlite::Result<_>>()?;
    match (found.pop(), found.pop()) {
        (Some(only), None) if !bare.is_empty() => Ok(only),
        (Some(_), Some(_)) if !bare.is_empty() => {
            let message = format!("several channels begin with `{}`", shown(text));
            Err(Error::conflict("ambiguous", message).hint("write more of the name"))
        }
        _ => Err(nothing(text)),
    }
}

fn shown(text: &str) -> String {
    crate::base::truncate_chars(text, 80).escape_debug().to_string()
}

/// Returns the error for a channel that does not exist for the caller.
pub fn nothing(text: &str) -> Error {
    Error::not_found(format!("there is no channel {}", shown(text)))
        .code("no_channel")
        .hint("`wiki-browser channel list` names those that are open")
}

/// Returns the channels in a state, last active first: those after a place, its time and number.
///
/// # Errors
/// As any read.
pub fn list(
    connection: &Connection,
    status: Status,
    after: Option<(Millis, i64)>,
    limit: u32,
) -> Result<Vec<Channel>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let (before, number) = after.unwrap_or((Millis(i64::MAX), i64::MAX));
    let params = named_params! {
        ":status": status.as_str(), ":before": before, ":number": number, ":limit": limit,
    };
    Ok(statement.query_map(params, Channel::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Changes the description, the goal and the budget of a channel.
///
/// # Errors
/// `invalid` as [`create`]; `conflict` for a channel that has ended.
pub fn change(tx: &Tx<'_>, channel: &Channel, by: &Actor) -> Result<()> {
    channel.require_open()?;
    check_texts(channel.about.as_deref(), channel.intent.as_deref())?;
    channel.budget.check()?;
    tx.prepare_cached(CHANGE)?.execute(named_params! {
        ":about": channel.about, ":intent": channel.intent, ":number": channel.number,
        ":budget": json!(channel.budget).to_string(), ":outside_wakes": channel.outside_wakes,
    })?;
    changed(tx, channel, by, "changed")
}

/// Completes a channel; the caller releases its members.
///
/// # Errors
/// `conflict` with code `channel_not_active`.
pub fn complete(tx: &Tx<'_>, channel: &Channel, by: &Actor) -> Result<()> {
    let params = named_params! {":number": channel.number, ":now": tx.now(), ":by": by};
    require(channel, tx.prepare_cached(COMPLETE)?.execute(params)?)?;
    changed(tx, channel, by, "complete")
}

/// Archives a completed channel, so that lists omit it.
///
/// # Errors
/// `conflict` with code `channel_not_complete`.
pub fn archive(tx: &Tx<'_>, channel: &Channel, by: &Actor) -> Result<()> {
    let params = named_params! {":number": channel.number, ":now": tx.now()};
    if tx.prepare_cached(ARCHIVE)?.execute(params)? == 0 {
        let message = format!("{} is {}, not complete", channel.slug, channel.status.as_str());
        return Err(Error::conflict("channel_not_complete", message)
            .hint("`wiki-browser channel complete` ends it"));
    }
    changed(tx, channel, by, "archived")
}

/// Pauses a channel; waiting messages are kept. Returns false if it was already paused.
///
/// # Errors
/// As any write.
pub(super) fn pause(tx: &Tx<'_>, channel: &Channel, reason: Pause, by: &Actor) -> Result<bool> {
    let params = named_params! {
        ":number": channel.number, ":now": tx.now(), ":reason": reason.as_str(),
    };
    let is_new = tx.prepare_cached(PAUSE)?.execute(params)? == 1;
    if is_new {
        changed(tx, channel, by, "paused")?;
    }
    Ok(is_new)
}

/// Resumes a channel and resets the counters of its agents.
///
/// # Errors
/// As any write.
pub fn resume(tx: &Tx<'_>, channel: &Channel, by: &Actor) -> Result<()> {
    tx.prepare_cached(RESUME)?.execute(named_params! {":number": channel.number})?;
    tx.ring(crate::mail::BELL);
    match channel.paused {
        Some(_) => changed(tx, channel, by, "resumed"),
        None => Ok(()),
    }
}

/// Adds the usage of a turn; returns the updated channel.
///
/// # Errors
/// As any write.
pub fn spend(tx: &Tx<'_>, number: i64, tokens: u64, cost_usd: f64) -> Result<Channel> {
    let tokens = i64::try_from(tokens).unwrap_or(i64::MAX / 4);
    let cost = if cost_usd.is_finite() { cost_usd.clamp(0.0, 1e9) } else { 0.0 };
    let params = named_params! {":number": number, ":tokens": tokens, ":cost": cost};
    tx.prepare_cached(SPEND)?.execute(params)?;
    find(tx.connection(), number)
}

/// Takes over what a channel has spent according to a later database of the same site.
///
/// # Errors
/// As any write.
pub(super) fn spent_later(tx: &Tx<'_>, later: &Channel) -> Result<()> {
    tx.prepare_cached(SPENT_LATER)?.execute(named_params! {
        ":number": later.number, ":turns": later.turns, ":tokens": later.tokens,
        ":cost": later.cost_usd,
    })?;
    Ok(())
}

/// Records that the channel was warned about its budget.
///
/// # Errors
/// As any write.
pub fn warned(tx: &Tx<'_>, number: i64) -> Result<()> {
    let params = named_params! {":number": number, ":now": tx.now()};
    tx.prepare_cached(WARN)?.execute(params)?;
    Ok(())
}

fn require(channel: &Channel, changed: usize) -> Result<()> {
    match changed {
        0 => Err(Error::conflict("channel_not_active", format!("{} has ended", channel.slug))
            .hint("create a new channel")),
        _ => Ok(()),
    }
}

/// Emits that a channel changed: ids and states only.
fn changed(tx: &Tx<'_>, channel: &Channel, by: &Actor, what: &str) -> Result<()> {
    let data = json!({"channel": channel.id, "number": channel.number, "what": what});
    let subject = format!("channel:{}", channel.id);
    tx.emit(Event::new(EventKind::ChannelChanged, subject, by.clone(), data))
}
