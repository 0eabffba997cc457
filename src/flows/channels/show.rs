//! Reading channels and their messages.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use crate::api::channels::{
    AuthorView, ChannelList, ChannelQuery, ChannelView, HeardView, History, HistoryQuery,
    MemberView, MessageView, PausedView, Spent, Unread,
};
use crate::base::{Actor, Error, MailId, Result};
use crate::channels::{self, Channel, Member, Sort, Speaks, Spoken, Status};
use crate::flows::agents;
use crate::flows::channels::hear::{body, role};
use crate::flows::channels::{Ground, again, attachments, kind_of, outside, who};
use crate::flows::{Site, page_limit};
use crate::mail::{self, agent};
use crate::people::{self, Caller};
use crate::turns;

/// Most channels that one page of a list looks at.
const LISTED_MAX: u32 = 200;
/// Most unconfirmed messages of a member that are counted.
const UNSURE_MAX: u32 = 99;
/// Recent turns that are searched for running ones.
const TURNS_SEEN: u32 = 50;

/// Returns channels, last active first: the open ones, or those in a state.
///
/// # Errors
/// `invalid` for an unknown state; `forbidden` for a job.
pub async fn list(site: &Site, caller: &Caller, query: ChannelQuery) -> Result<ChannelList> {
    caller.may_listen()?;
    caller.person()?;
    let wanted: Vec<Status> = match query.status.as_deref() {
        None | Some("open") => vec![Status::Pending, Status::Active],
        Some(word) => {
            let found = Status::ALL.into_iter().find(|it| it.as_str() == word);
            vec![found.ok_or_else(|| {
                Error::invalid(format!("unknown channel state `{}`", word.escape_debug()))
                    .code("bad_parameter")
                    .hint("write open, pending, active, complete or archived")
            })?]
        }
    };
    let is_mine = query.mine == Some(true) || caller.is_outside();
    let (ground, caller) = (Ground::of(site), caller.clone());
    site.store
        .read(move |c| {
            let after = query.after.map(|number| channels::find(c, number)).transpose()?;
            let after = after.map(|it| (it.last_at, it.number));
            let mut found = Vec::new();
            for status in &wanted {
                found.extend(channels::list(c, *status, after, LISTED_MAX)?);
            }
            found.sort_by_key(|it| std::cmp::Reverse((it.last_at, it.number)));
            let is_cut = found.len() >= LISTED_MAX as usize;
            found.truncate(LISTED_MAX as usize);
            let next = found.last().map(|it| it.number).filter(|_| is_cut);
            let own = channels::channels_of(c, &caller.actor())?;
            found.retain(|it| {
                (!is_mine || own.contains(&it.number))
                    && query.kind.as_ref().is_none_or(|kind| it.kind == *kind)
            });
            let items: Result<Vec<ChannelView>> =
                found.into_iter().map(|it| view(c, &ground, &caller, it)).collect();
            Ok(ChannelList { items: items?, next: next.filter(|_| !caller.is_outside()) })
        })
        .await
}

/// Returns a channel.
///
/// # Errors
/// `not_found`: `no_channel`; `forbidden`: `not_a_member` for an agent that sits elsewhere.
pub async fn show(site: &Site, caller: &Caller, slug: &str) -> Result<ChannelView> {
    caller.may_listen()?;
    let (ground, caller, text) = (Ground::of(site), caller.clone(), slug.to_owned());
    site.store
        .read(move |c| {
            let channel = who::channel(c, &caller, &text)?;
            view(c, &ground, &caller, channel)
        })
        .await
}

/// Returns a channel that the caller has just changed, and may have left.
///
/// # Errors
/// As any read.
pub(super) async fn changed(site: &Site, caller: &Caller, slug: String) -> Result<ChannelView> {
    let (ground, caller) = (Ground::of(site), caller.clone());
    let read = site.store.read(move |c| {
        let channel = channels::resolve(c, &slug)?;
        view(c, &ground, &caller, channel)
    });
    read.await
}

/// Returns messages of a channel: after a number, since a time, or the last ones before a number.
///
/// # Errors
/// As [`show`].
pub async fn history(
    site: &Site,
    caller: &Caller,
    slug: &str,
    query: HistoryQuery,
) -> Result<History> {
    caller.may_listen()?;
    let limit = page_limit(query.limit)?;
    let (caller, text, works) = (caller.clone(), slug.to_owned(), site.works.clone());
    site.store
        .read(move |c| {
            let channel = who::channel(c, &caller, &text)?;
            let found = match (query.since, query.after) {
                (Some(since), after) => {
                    let place = (since, after.unwrap_or_default());
                    channels::since(c, channel.number, place, limit)?
                }
                (None, Some(after)) => channels::after(c, channel.number, after, limit)?,
                (None, None) => channels::before(c, channel.number, query.before, limit)?,
            };
            let from = outside::first(c, &caller, &channel)?;
            let silent = silent_turns(c, &Ground::of(&works), &channel)?;
            let mut names = BTreeMap::new();
            let mut items = Vec::new();
            for it in found.into_iter().filter(|it| it.sequence >= from) {
                let mut shown = message(c, &mut names, it)?;
                for heard in &mut shown.heard {
                    let turn = (shown.message_id.clone(), heard.agent.clone());
                    heard.came_to = silent.get(&turn).map(|it| (*it).to_owned());
                }
                items.push(if caller.is_outside() { outside::message(shown) } else { shown });
            }
            Ok(History { items, last_sequence: channel.last_sequence })
        })
        .await
}

/// Records up to which message a person has read.
///
/// # Errors
/// `invalid` with code `cursor_ahead`; `forbidden` with code `not_a_member`.
pub async fn read(site: &Site, caller: &Caller, slug: &str, sequence: i64) -> Result<Unread> {
    caller.person()?;
    let (caller, text) = (caller.clone(), slug.to_owned());
    site.store
        .write(move |tx| {
            let channel = who::channel(tx.connection(), &caller, &text)?;
            let member = who::require_member(tx.connection(), &caller, &channel)?;
            if sequence > channel.last_sequence {
                let message =
                    format!("the last message of {} is {}", channel.slug, channel.last_sequence);
                return Err(Error::invalid(message).code("cursor_ahead").of_input("sequence"));
            }
            channels::read(tx, channel.number, &member.member, sequence)?;
            let member = who::require_member(tx.connection(), &caller, &channel)?;
            unread(tx.connection(), &caller, &channel, &member)
        })
        .await
}

fn unread(c: &Connection, caller: &Caller, channel: &Channel, member: &Member) -> Result<Unread> {
    // Somebody from outside who joined again does not read what was said in between.
    let read = member.read_seq.max(outside::first(c, caller, channel)? - 1);
    let mentions = channels::mentions_after(c, channel.number, &member.member, read)?;
    Ok(Unread { unread: (channel.last_sequence - read).max(0), mentions })
}

pub(super) fn view(
    c: &Connection,
    ground: &Ground,
    caller: &Caller,
    channel: Channel,
) -> Result<ChannelView> {
    let kind = kind_of(ground, &channel.kind);
    let own = who::member(c, caller, &channel)?;
    let newest = turns::newest_of_channel(c, channel.number, TURNS_SEEN)?;
    let mut members = Vec::new();
    for it in channels::members(c, channel.number)? {
        let mut shown = member(c, ground, &newest, it)?;
        // What a program printed is for people.
        shown.problem = shown.problem.filter(|_| !caller.is_job());
        members.push(shown);
    }
    let unread = match &own {
        Some(own) => unread(c, caller, &channel, own)?,
        None => Unread::default(),
    };
    let from = outside::first(c, caller, &channel)?;
    let last = channels::before(c, channel.number, None, 1)?.pop().filter(|it| it.sequence >= from);
    let paused = channel.paused.map(|(why, since)| PausedView {
        reason: why.as_str().to_owned(),
        since,
        sentence: why.sentence(&kind.limits),
    });
    let shown = ChannelView {
        outside_wakes: channel.outside_wakes,
        id: channel.id,
        number: channel.number,
        slug: channel.slug,
        name: channel.name,
        about: channel.about.unwrap_or(kind.about),
        intent: channel.intent.unwrap_or(kind.intent),
        is_type_gone: !ground.knows(&channel.kind),
        kind: channel.kind,
        status: channel.status.as_str().to_owned(),
        paused,
        budget: channel.budget,
        spent: Spent { turns: channel.turns, tokens: channel.tokens, cost_usd: channel.cost_usd },
        promoted_from: channel.promoted_from,
        created_at: channel.created_at,
        completed_at: channel.completed_at,
        last_sequence: channel.last_sequence,
        last_at: channel.last_at,
        members,
        me: own.map(|it| it.handle),
        unread,
        last: last.map(|it| message(c, &mut BTreeMap::new(), it)).transpose()?,
    };
    Ok(if caller.is_outside() { outside::channel(shown) } else { shown })
}

fn member(
    c: &Connection,
    ground: &Ground,
    newest: &[turns::Turn],
    member: Member,
) -> Result<MemberView> {
    let agent = match &member.agent {
        Some(name) => agent::find(c, name)?,
        None => None,
    };
    let measures = [("tokens", &ground.untold_tokens), ("cost_usd", &ground.untold_cost)];
    let is_untold = |of: &BTreeSet<String>| agent.iter().any(|it| of.contains(&it.declared));
    let untold = measures.into_iter().filter(|it| is_untold(it.1)).map(|it| it.0.to_owned());
    let works =
        newest.iter().find(|it| it.state == "running" && Some(&it.agent) == member.agent.as_ref());
    let problem = match (&agent, &ground.config) {
        (Some(agent), Some(config)) => agents::problem(c, config, agent)?,
        _ => None,
    };
    let unconfirmed = match &member.agent {
        Some(name) => mail::unconfirmed_in_room(c, (name, member.channel), UNSURE_MAX)?.len(),
        None => 0,
    };
    Ok(MemberView {
        problem,
        unconfirmed: unconfirmed as u64,
        left_at: member.left_at,
        untold: untold.collect(),
        works_since: works.map(|it| it.started_at),
        name: match &member.member {
            Actor::Person(_) => people::display_name(c, &member.member)?,
            _ => member.handle.clone(),
        },
        sort: match member.is_person() {
            true if member.is_outside => "outside",
            true => "person",
            false => "agent",
        }
        .to_owned(),
        handle: member.handle,
        agent: member.agent,
        state: agent.map(|it| it.state_word().to_owned()),
        is_chair: member.is_chair,
        standing: member.standing.as_str().to_owned(),
        joined_at: member.joined_at,
    })
}

/// Returns the recent turns that put nothing into the channel, by their cause and agent, and what
/// they came to.
fn silent_turns(
    c: &Connection,
    ground: &Ground,
    channel: &Channel,
) -> Result<BTreeMap<(MailId, String), &'static str>> {
    let members = channels::members(c, channel.number)?;
    let chair = members.iter().find(|it| it.is_chair).and_then(|it| it.agent.clone());
    let is_one_way = kind_of(ground, &channel.kind).speaks == Speaks::Chair;
    let newest = turns::newest_of_channel(c, channel.number, TURNS_SEEN)?;
    let came_to = |turn: &turns::Turn| match turn.state.as_str() {
        "silent" => Some("silent"),
        "answered" if is_one_way && chair.as_deref() != Some(&turn.agent) => Some("acknowledged"),
        _ => None,
    };
    // The newest one counts, if somebody was asked again.
    let all = newest.into_iter().rev();
    let with_cause = all.filter_map(|it| Some((it.cause_message.clone()?, it)));
    let found = with_cause.map(|(cause, it)| ((cause, it.agent.clone()), came_to(&it)));
    let last: BTreeMap<_, _> = found.collect();
    Ok(last.into_iter().filter_map(|(turn, came_to)| Some((turn, came_to?))).collect())
}

pub(super) fn message(
    c: &Connection,
    names: &mut BTreeMap<String, String>,
    spoken: Spoken,
) -> Result<MessageView> {
    let author = author(c, names, &spoken)?;
    let heard = mail::heard_in_room(c, &spoken.id)?.into_iter().map(|it| HeardView {
        agent: it.agent,
        state: it.state,
        wakes: it.wakes,
        reason: it.reason,
        came_to: None,
    });
    Ok(MessageView {
        heard: heard.collect(),
        may_ask_again: again::is_open(c, &spoken)?,
        held: held(c, &spoken)?,
        author,
        text: body(c, &spoken.id)?,
        attachments: attachments::of_message(c, &spoken)?,
        sequence: spoken.sequence,
        message_id: spoken.id,
        kind: spoken.sort.as_str().to_owned(),
        answers: spoken.answers,
        turn_id: spoken.turn_id,
        created_at: spoken.created_at,
    })
}

/// Returns the state of the held answer that a message reports.
fn held(c: &Connection, spoken: &Spoken) -> Result<Option<String>> {
    let turn = match (&spoken.turn_id, spoken.sort) {
        (Some(id), Sort::System) => turns::find(c, id)?,
        _ => return Ok(None),
    };
    Ok(turn.held.map(|it| it.as_str().to_owned()))
}

fn author(
    c: &Connection,
    names: &mut BTreeMap<String, String>,
    spoken: &Spoken,
) -> Result<AuthorView> {
    let sort = match &spoken.author {
        Actor::Person(id) if people::find(c, id)?.is_some_and(|it| it.is_external) => "outside",
        Actor::Person(_) => "person",
        Actor::Persona(_) => "agent",
        Actor::System => "system",
        _ => "script",
    };
    let key = spoken.author.to_string();
    let name = match (names.get(&key), &spoken.handle) {
        (Some(known), _) => known.clone(),
        (None, Some(handle)) if sort == "agent" => handle.clone(),
        (None, _) => people::display_name(c, &spoken.author)?,
    };
    names.insert(key, name.clone());
    Ok(AuthorView {
        sort: sort.to_owned(),
        role: role(c, spoken)?,
        name,
        handle: spoken.handle.clone(),
        agent: spoken.agent.clone(),
    })
}
