//! Members of channels, and the agents in their seats.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::base::{Actor, Error, ErrorKind, Event, EventKind, Millis, Result};
use crate::channels::channel::Channel;
use crate::channels::kind::ChannelType;
use crate::channels::slug::handle;
use crate::channels::wake::RESERVED;
use crate::store::Tx;

const PUT: &str = "
    INSERT INTO channel_members (channel, member, handle, persona_type, agent, is_chair, status, by,
        joined_ms, joined_seq, seen_seq, read_seq, changed_ms)
    VALUES (:channel, :member, :handle, :type, :agent, :is_chair, 'active', :by, :now, :seq, :seq,
        :seq, :now)
    ON CONFLICT (channel, member) DO UPDATE SET agent = excluded.agent, status = 'active',
        by = excluded.by, joined_ms = excluded.joined_ms, left_ms = NULL, is_leaving = 0,
        joined_seq = excluded.joined_seq, changed_ms = excluded.changed_ms";
const OF_CHANNEL: &str = "
    SELECT * FROM channel_members WHERE channel = :channel ORDER BY joined_ms, rowid";
const FIND: &str = "
    SELECT * FROM channel_members WHERE channel = :channel AND member = :member";
const SEAT: &str = "
    SELECT channel FROM channel_members WHERE agent = :agent AND status = 'active'";
const OF_MEMBER: &str = "
    SELECT channel FROM channel_members WHERE member = :member AND status = :status";
const SET_STATUS: &str = "
    UPDATE channel_members SET status = :status, changed_ms = :now, muted_before_ms = muted_ms,
        muted_ms = :now
    WHERE channel = :channel AND member = :member AND status = :before";
const RESEAT: &str = "
    UPDATE channel_members SET agent = :agent, changed_ms = :now
    WHERE channel = :channel AND member = :member AND status <> 'left'
        AND persona_type = 'agent_internal'";
const SEATS: &str = "
    SELECT channel, member FROM channel_members
    WHERE agent = :agent AND agent IS NOT NULL AND status <> 'left'
    ORDER BY channel";
const HEARS: &str = "
    SELECT EXISTS (SELECT 1 FROM channel_members
        JOIN channels ON channels.number = channel_members.channel
        WHERE channels.id = :id AND channel_members.member = :member
            AND channel_members.status <> 'left'
            AND CASE WHEN :sequence IS NULL THEN channel_members.joined_ms <= :at
                ELSE channel_members.joined_seq < :sequence END)";
const UNCHAIR: &str = "
    UPDATE channel_members SET is_chair = 0 WHERE channel = :channel AND is_chair = 1";
const CHAIR: &str = "
    UPDATE channel_members SET is_chair = 1
    WHERE channel = :channel AND member = :member AND status <> 'left'";
const SEEN: &str = "
    UPDATE channel_members SET seen_seq = MAX(seen_seq, :seq)
    WHERE channel = :channel AND member = :member";
const READ: &str = "
    UPDATE channel_members SET read_seq = MAX(read_seq, :seq)
    WHERE channel = :channel AND member = :member";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("member::put", PUT),
    ("member::of_channel", OF_CHANNEL),
    ("member::find", FIND),
    ("member::seat", SEAT),
    ("member::of_member", OF_MEMBER),
    ("member::set_status", SET_STATUS),
    ("member::reseat", RESEAT),
    ("member::seats", SEATS),
    ("member::hears", HEARS),
    ("member::unchair", UNCHAIR),
    ("member::chair", CHAIR),
    ("member::seen", SEEN),
    ("member::read", READ),
];

/// How long two changes of muting keep a third one waiting, in milliseconds: each drops what
/// waits, or writes a briefing.
const TWO_CHANGES_MS: i64 = 60_000;

/// Whether a member is active, muted or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It receives and posts messages.
    Active,
    /// It receives nothing.
    Muted,
    /// It has left.
    Left,
}

impl Standing {
    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Active => "active",
            Standing::Muted => "muted",
            Standing::Left => "left",
        }
    }

    fn parse(word: &str) -> Standing {
        match word {
            "active" => Standing::Active,
            "muted" => Standing::Muted,
            _ => Standing::Left,
        }
    }
}

/// A member of a channel.
#[derive(Clone, Debug)]
pub struct Member {
    /// The channel's number.
    pub channel: i64,
    /// `persona:NAME` or `person:ID`.
    pub member: Actor,
    /// Its handle: the word after `@`.
    pub handle: String,
    /// The agent in its seat.
    pub agent: Option<String>,
    /// Whether it manages the channel.
    pub is_chair: bool,
    /// Its standing.
    pub standing: Standing,
    /// Whether it leaves when the turn of its agent has ended.
    pub is_leaving: bool,
    /// Whether it is from outside.
    pub is_outside: bool,
    /// Who added or removed it.
    pub by: Actor,
    /// When it joined last.
    pub joined_at: Millis,
    /// When it left, or the channel ended.
    pub left_at: Option<Millis>,
    /// The last message before it joined.
    pub joined_seq: i64,
    /// The last message that its agent received.
    pub seen_seq: i64,
    /// The last message that the person read.
    pub read_seq: i64,
    /// When it was muted or unmuted for the last time but one.
    pub muted_before_at: Option<Millis>,
}

impl Member {
    /// Returns whether it receives messages.
    pub fn is_active(&self) -> bool {
        self.standing == Standing::Active
    }

    /// Returns whether it has left.
    pub fn has_left(&self) -> bool {
        self.standing == Standing::Left
    }

    /// Returns whether it is a person.
    pub fn is_person(&self) -> bool {
        self.member.person().is_some()
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Member> {
        let status: String = row.get("status")?;
        let sort: String = row.get("persona_type")?;
        Ok(Member {
            is_outside: sort.ends_with("_external"),
            is_leaving: row.get("is_leaving")?,
            by: row.get("by")?,
            channel: row.get("channel")?,
            member: row.get("member")?,
            handle: row.get("handle")?,
            agent: row.get("agent")?,
            is_chair: row.get("is_chair")?,
            standing: Standing::parse(&status),
            joined_at: row.get("joined_ms")?,
            left_at: row.get("left_ms")?,
            joined_seq: row.get("joined_seq")?,
            seen_seq: row.get("seen_seq")?,
            read_seq: row.get("read_seq")?,
            muted_before_at: row.get("muted_before_ms")?,
        })
    }
}

/// Who joins.
#[derive(Clone, Debug)]
pub struct Joining {
    /// `persona:NAME` or `person:ID`.
    pub member: Actor,
    /// Its name, from which its handle is derived.
    pub name: String,
    /// The agent in its seat.
    pub agent: Option<String>,
    /// Whether it is from outside.
    pub is_outside: bool,
}

/// Adds a member; somebody who was a member before gets the same row. The first member is the
/// chair.
///
/// # Errors
/// `conflict`: `channel_not_active`, `already_a_member`, `agent_already_in_channel` with the
/// channel; `busy` with code `too_many_members`.
pub fn join(
    tx: &Tx<'_>,
    (channel, kind): (&Channel, &ChannelType),
    new: &Joining,
    by: &Actor,
) -> Result<Member> {
    channel.require_open()?;
    let members = of_channel(tx.connection(), channel.number)?;
    let before = members.iter().find(|it| it.member == new.member);
    if let Some(there) = before.filter(|it| !it.has_left()) {
        let message = format!("{} is a member of {}", there.handle, channel.slug);
        return Err(Error::conflict("already_a_member", message));
    }
    let here = members.iter().filter(|it| !it.has_left()).count();
    if here >= kind.limits.members as usize {
        let message = format!("{} has {here} members already", channel.slug);
        return Err(Error::new(ErrorKind::Busy, message).code("too_many_members"));
    }
    if let Some(agent) = &new.agent {
        require_free(tx.connection(), agent)?;
    }
    let handle = match before {
        Some(before) => before.handle.clone(),
        None => free_handle(&members, &new.name),
    };
    let sort = match (new.member.person().is_some(), new.is_outside) {
        (true, false) => "person_internal",
        (true, true) => "person_external",
        (false, _) => "agent_internal",
    };
    tx.prepare_cached(PUT)?.execute(named_params! {
        ":channel": channel.number, ":member": new.member, ":handle": handle, ":type": sort,
        ":agent": new.agent, ":is_chair": members.is_empty(), ":by": by, ":now": tx.now(),
        ":seq": channel.last_sequence,
    })?;
    let joined = find(tx.connection(), channel.number, &new.member)?
        .ok_or_else(|| Error::internal("a member that was written is not there"))?;
    changed(tx, channel, &joined, by, "active")?;
    Ok(joined)
}

/// Refuses an agent that already has a seat.
///
/// # Errors
/// `conflict` with code `agent_already_in_channel`, with the channel.
pub fn require_free(connection: &Connection, agent: &str) -> Result<()> {
    let Some(channel) = seat_of(connection, agent)? else { return Ok(()) };
    let other = super::channel::find(connection, channel)?;
    let message = format!("agent {agent} is in {}", other.slug);
    Err(Error::conflict("agent_already_in_channel", message)
        .hint(format!("complete {} or take it out of there first", other.slug)))
}

fn free_handle(members: &[Member], name: &str) -> String {
    let wanted = handle(name);
    let is_taken = |handle: &str| {
        RESERVED.iter().any(|it| it.eq_ignore_ascii_case(handle))
            || members.iter().any(|it| it.handle.eq_ignore_ascii_case(handle))
    };
    let numbered = (2..).map(|number: u32| format!("{wanted}-{number}"));
    std::iter::once(wanted.clone())
        .chain(numbered)
        .find(|handle| !is_taken(handle))
        .unwrap_or(wanted)
}

/// Returns all members of a channel, in the order in which they joined.
///
/// # Errors
/// As any read.
pub fn of_channel(connection: &Connection, channel: i64) -> Result<Vec<Member>> {
    let mut statement = connection.prepare_cached(OF_CHANNEL)?;
    let found = statement.query_map(named_params! {":channel": channel}, Member::from_row)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Returns a member, even if it has left.
///
/// # Errors
/// As any read.
pub fn find(connection: &Connection, channel: i64, member: &Actor) -> Result<Option<Member>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let params = named_params! {":channel": channel, ":member": member};
    Ok(statement.query_row(params, Member::from_row).optional()?)
}

/// Returns the channel in which an agent has a seat.
///
/// # Errors
/// As any read.
pub fn seat_of(connection: &Connection, agent: &str) -> Result<Option<i64>> {
    let mut statement = connection.prepare_cached(SEAT)?;
    Ok(statement.query_row(named_params! {":agent": agent}, |row| row.get(0)).optional()?)
}

/// Returns the numbers of the channels whose member somebody is.
///
/// # Errors
/// As any read.
pub fn channels_of(connection: &Connection, member: &Actor) -> Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(OF_MEMBER)?;
    let mut found = Vec::new();
    for status in [Standing::Active, Standing::Muted] {
        let params = named_params! {":member": member, ":status": status.as_str()};
        let numbers = statement.query_map(params, |row| row.get(0))?;
        for number in numbers {
            found.push(number?);
        }
    }
    Ok(found)
}

/// Mutes or unmutes a member.
///
/// # Errors
/// `conflict` with code `not_changed`, and `agent_already_in_channel` if its agent sits elsewhere
/// by now; `busy` with code `too_fast`.
pub fn set_muted(
    tx: &Tx<'_>,
    channel: &Channel,
    member: &Member,
    is_muted: bool,
    by: &Actor,
) -> Result<()> {
    channel.require_open()?;
    let (before, after) = match is_muted {
        true => (Standing::Active, Standing::Muted),
        false => (Standing::Muted, Standing::Active),
    };
    if member.standing != before {
        let message = format!("{} is {}", member.handle, member.standing.as_str());
        return Err(Error::conflict("not_changed", message));
    }
    // A clock that was set back keeps nobody waiting.
    let since = member.muted_before_at.map(|it| tx.now().0 - it.0);
    if since.is_some_and(|it| (0..TWO_CHANGES_MS).contains(&it)) {
        let message = format!("{} was muted and unmuted within a minute", member.handle);
        return Err(Error::new(ErrorKind::Busy, message).code("too_fast").hint("wait a minute"));
    }
    if let (false, Some(agent)) = (is_muted, &member.agent) {
        require_free(tx.connection(), agent)?;
    }
    change(tx, channel, member, (before, after), by)
}

/// Mutes an active member who was muted before, whenever that was.
///
/// # Errors
/// As any write.
pub(super) fn mute_again(tx: &Tx<'_>, channel: &Channel, member: &Member) -> Result<()> {
    change(tx, channel, member, (Standing::Active, Standing::Muted), &Actor::System)
}

fn change(
    tx: &Tx<'_>,
    channel: &Channel,
    member: &Member,
    (before, after): (Standing, Standing),
    by: &Actor,
) -> Result<()> {
    let updated = tx.prepare_cached(SET_STATUS)?.execute(named_params! {
        ":channel": channel.number, ":member": member.member, ":status": after.as_str(),
        ":before": before.as_str(), ":now": tx.now(),
    })?;
    match updated {
        0 => Err(Error::conflict("not_changed", format!("{} was changed", member.handle))),
        _ => changed(tx, channel, member, by, after.as_str()),
    }
}

/// Gives a member's seat to another agent.
///
/// # Errors
/// `conflict` with code `agent_already_in_channel` if it has a seat, and `not_changed` for a member
/// who has left or is a person.
pub fn reseat(
    tx: &Tx<'_>,
    channel: &Channel,
    member: &Member,
    (agent, by): (&str, &Actor),
) -> Result<()> {
    // A muted seat takes no agent's only one.
    if member.standing == Standing::Active {
        require_free(tx.connection(), agent)?;
    }
    let updated = tx.prepare_cached(RESEAT)?.execute(named_params! {
        ":channel": channel.number, ":member": member.member, ":agent": agent, ":now": tx.now(),
    })?;
    // Whoever had the seat may be needed no more.
    tx.ring(crate::mail::BELL);
    match updated {
        0 => Err(Error::conflict("not_changed", format!("{} has no seat", member.handle))),
        _ => changed(tx, channel, member, by, "seated"),
    }
}

/// Returns whether somebody is a member of the channel with this id and was one, since joining for
/// the last time, when something happened there: a message with this number, or anything else.
///
/// # Errors
/// As any read.
pub fn hears(
    connection: &Connection,
    id: &str,
    member: &Actor,
    (at, sequence): (Millis, Option<i64>),
) -> Result<bool> {
    let mut statement = connection.prepare_cached(HEARS)?;
    let params = named_params! {
        ":id": id, ":member": member, ":at": at, ":sequence": sequence,
    };
    Ok(statement.query_row(params, |row| row.get(0))?)
}

/// Returns the channels in which an agent has a seat, muted or not, with the member.
///
/// # Errors
/// As any read.
pub fn seats_of(connection: &Connection, agent: &str) -> Result<Vec<(i64, Actor)>> {
    let mut statement = connection.prepare_cached(SEATS)?;
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = statement.query_map(named_params! {":agent": agent}, row)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Makes a member the chair.
///
/// # Errors
/// `conflict` with code `not_changed` for one who has left; `invalid` with code `bad_member` for
/// one from outside.
pub fn set_chair(tx: &Tx<'_>, channel: &Channel, member: &Member, by: &Actor) -> Result<()> {
    if member.is_outside {
        let message = format!("{} is from outside and cannot be the chair", member.handle);
        return Err(Error::invalid(message).code("bad_member"));
    }
    tx.prepare_cached(UNCHAIR)?.execute(named_params! {":channel": channel.number})?;
    let made = tx.prepare_cached(CHAIR)?.execute(named_params! {
        ":channel": channel.number, ":member": member.member,
    })?;
    match made {
        0 => Err(Error::conflict("not_changed", format!("{} has left", member.handle))),
        _ => changed(tx, channel, member, by, "chair"),
    }
}

/// Records up to which message a member's agent has received.
///
/// # Errors
/// As any write.
pub fn seen(tx: &Tx<'_>, channel: i64, member: &Actor, sequence: i64) -> Result<()> {
    let params = named_params! {":channel": channel, ":member": member, ":seq": sequence};
    tx.prepare_cached(SEEN)?.execute(params)?;
    Ok(())
}

/// Records up to which message a person has read.
///
/// # Errors
/// As any write.
pub fn read(tx: &Tx<'_>, channel: i64, member: &Actor, sequence: i64) -> Result<()> {
    let params = named_params! {":channel": channel, ":member": member, ":seq": sequence};
    tx.prepare_cached(READ)?.execute(params)?;
    Ok(())
}

/// Emits that a member changed: ids and states only.
pub(super) fn changed(
    tx: &Tx<'_>,
    channel: &Channel,
    member: &Member,
    by: &Actor,
    state: &str,
) -> Result<()> {
    let data = json!({
        "channel": channel.id, "number": channel.number, "member": member.member, "state": state,
    });
    let subject = format!("channel:{}", channel.id);
    tx.emit(Event::new(EventKind::MemberChanged, subject, by.clone(), data))
}
