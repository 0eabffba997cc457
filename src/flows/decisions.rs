//! Open decisions: proposals awaiting review, pending approvals, and what waits in channels.

use std::borrow::Cow;

use rusqlite::Connection;

use crate::api::approvals::Decision;
use crate::api::proposals::Proposal;
use crate::approvals::{self, Approval, Sort};
use crate::base::{Actor, Page, PersonId, Result};
use crate::channels::{Channel, Pause, Spoken};
use crate::documents::proposals::proposal;
use crate::documents::sources::pending;
use crate::documents::topics::topic;
use crate::flows::approvals::{daily_cap, named};
use crate::flows::channels;
use crate::flows::people::shown_names;
use crate::flows::{Site, Works};
use crate::people::{self, Caller};
use crate::turns::Turn;

/// Most decisions of each type in a response, oldest first.
const DECISIONS_MAX: u32 = 200;

/// Returns the decisions awaiting the caller as a page, oldest first.
///
/// # Errors
/// `forbidden` for jobs; as any read.
pub async fn list(site: &Site, caller: &Caller) -> Result<Page<Decision>> {
    let items = waiting(site, caller).await?;
    Ok(Page { items, next: None })
}

/// Returns the decisions awaiting the caller, oldest first.
///
/// # Errors
/// As [`list`].
pub async fn waiting(site: &Site, caller: &Caller) -> Result<Vec<Decision>> {
    let person = caller.person()?.id.clone();
    let works = site.works.clone();
    site.store.read(move |c| of(c, &works, &person)).await
}

/// Returns the approvals awaiting the caller, oldest first.
///
/// # Errors
/// As [`list`].
pub async fn approvals(site: &Site, caller: &Caller) -> Result<Vec<Approval>> {
    let person = caller.person()?.id.clone();
    let works = site.works.clone();
    let find = move |c: &Connection| {
        let oldest = approvals::oldest_pending(c, &person, DECISIONS_MAX)?;
        let mut oldest: Vec<_> =
            oldest.into_iter().map(|it| named(c, it)).collect::<Result<_>>()?;
        daily_cap::fill(c, &works, &mut oldest)?;
        Ok(oldest)
    };
    site.store.read(find).await
}

/// Returns the number of decisions awaiting a person.
///
/// # Errors
/// As any read.
pub fn count(connection: &Connection, person: &PersonId) -> Result<i64> {
    let held = channels::held_waiting(connection, person, DECISIONS_MAX)?.len();
    let held = i64::try_from(held).unwrap_or_default();
    let paused = channels::paused(connection, person)?.len();
    let escalated = channels::escalated(connection, person)?.len();
    let in_channels = i64::try_from(paused + escalated).unwrap_or_default() + held;
    Ok(pending::proposals(connection)?
        + approvals::pending_count(connection, person)?
        + in_channels)
}

fn of(c: &Connection, works: &Works, person: &PersonId) -> Result<Vec<Decision>> {
    let mut all = Vec::new();
    for id in pending::oldest_proposals(c, DECISIONS_MAX)? {
        all.push(of_proposal(c, shown_names::fill_proposal(c, proposal::find(c, &id)?)?)?);
    }
    let mut oldest = approvals::oldest_pending(c, person, DECISIONS_MAX)?;
    daily_cap::fill(c, works, &mut oldest)?;
    for approval in oldest {
        all.push(of_approval(c, approval)?);
    }
    for (turn, channel) in channels::held_waiting(c, person, DECISIONS_MAX)? {
        all.push(of_held(&turn, &channel));
    }
    for channel in channels::paused(c, person)? {
        all.extend(of_paused(channel));
    }
    for (spoken, channel) in channels::escalated(c, person)? {
        all.push(of_escalation(spoken, channel));
    }
    all.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
    Ok(all)
}

fn of_proposal(c: &Connection, it: Proposal) -> Result<Decision> {
    let by = match (&it.proposed_by, &it.job_id) {
        (Some(person), _) => Some(Actor::Person(person.clone())),
        (None, job) => job.clone().map(Actor::Job),
    };
    Ok(Decision {
        what: Cow::Borrowed("proposal"),
        title: topic::find(c, &it.topic_id, None)?.title,
        from: match by {
            Some(by) => people::display_name(c, &by)?,
            None => String::new(),
        },
        place: it.source_path.to_string(),
        since: it.created_at,
        expires_at: None,
        waiting: None,
        link: format!("/proposals/{}", it.id),
        id: it.id.to_string(),
    })
}

fn of_held(turn: &Turn, channel: &Channel) -> Decision {
    let sequence = turn.held_sequence.unwrap_or(channel.last_sequence);
    Decision {
        what: Cow::Borrowed("held"),
        id: turn.id.to_string(),
        title: format!("Is {}'s answer for #{}?", turn.agent, channel.short()),
        from: turn.agent.clone(),
        place: channel.slug.clone(),
        since: turn.ended_at.unwrap_or(turn.started_at),
        expires_at: None,
        waiting: None,
        // The page that ends with this line, however many are newer.
        link: format!("/channels/{}?before={}#m{sequence}", channel.slug, sequence + 1),
    }
}

fn of_paused(channel: Channel) -> Option<Decision> {
    let (why, since) = channel.paused?;
    let why = match why {
        Pause::Budget => "its budget is used up",
        Pause::Rate => "its agents wrote too much within a minute",
        Pause::Hops | Pause::NoPerson | Pause::Cycle => "its agents went on without a person",
        Pause::Person => "a person paused it",
    };
    Some(Decision {
        what: Cow::Borrowed("paused"),
        id: channel.id.to_string(),
        title: format!("#{} is paused: {why}", channel.short()),
        from: "system".to_owned(),
        since,
        expires_at: None,
        waiting: None,
        link: format!("/channels/{}", channel.slug),
        place: channel.slug,
    })
}

fn of_escalation(spoken: Spoken, channel: Channel) -> Decision {
    let from = spoken.handle.unwrap_or_else(|| "system".to_owned());
    let sequence = spoken.sequence;
    Decision {
        what: Cow::Borrowed("escalation"),
        id: spoken.id.to_string(),
        title: format!("{from} escalates in #{}", channel.short()),
        from,
        since: spoken.created_at,
        expires_at: None,
        waiting: None,
        link: format!("/channels/{}?before={}#m{sequence}", channel.slug, sequence + 1),
        place: channel.slug,
    }
}

fn of_approval(c: &Connection, it: Approval) -> Result<Decision> {
    let from = match &it.from {
        Some(address) if it.job_id.is_some() => address.to_string(),
        _ => people::display_name(c, &it.requester)?,
    };
    Ok(Decision {
        what: Cow::Borrowed(match it.sort {
            Sort::Request => "approval",
            Sort::Permission => "permission",
            Sort::Call => "call",
        }),
        title: it.title,
        from,
        place: it.channel,
        since: it.created_at,
        expires_at: it.expires_at,
        waiting: it.waiting,
        link: format!("/approvals/{}", it.id),
        id: it.id.to_string(),
    })
}
