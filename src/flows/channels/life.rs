//! Changing a channel: its goal, its pauses, its chair and its end.

use crate::api::channels::{ChangeRequest, ChannelView, ResumeRequest};
use crate::base::{Error, ErrorKind, Result};
use crate::channels::{self, Channel, Pause};
use crate::flows::Site;
use crate::flows::channels::{Ground, kind_of, members, say, show, who};
use crate::jobs;
use crate::mail;
use crate::people::Caller;
use crate::store::Tx;

/// Changes a channel in one transaction; returns the updated channel.
pub(super) async fn changing(
    site: &Site,
    caller: &Caller,
    slug: &str,
    change: impl Fn(&Tx<'_>, &Ground, &Caller, &Channel) -> Result<()> + Send + 'static,
) -> Result<ChannelView> {
    let (ground, asking, text) = (Ground::of(site), caller.clone(), slug.to_owned());
    let write = site.store.write(move |tx| {
        if let Caller::Job { token_hash, .. } = &asking {
            jobs::fence(tx, token_hash)?;
        }
        who::agent_or_writer(tx.connection(), &asking)?;
        let channel = who::channel(tx.connection(), &asking, &text)?;
        change(tx, &ground, &asking, &channel)?;
        Ok(channel.slug)
    });
    let slug = write.await?;
    show::changed(site, caller, slug).await
}

/// Changes the description, the goal and the budget of a channel.
///
/// # Errors
/// `forbidden`: `not_chair`, and `agent_forbidden` for an agent that gives a budget; `invalid`;
/// `conflict`: `channel_not_active`.
pub async fn change(
    site: &Site,
    caller: &Caller,
    slug: &str,
    request: ChangeRequest,
) -> Result<ChannelView> {
    changing(site, caller, slug, move |tx, ground, caller, channel| {
        who::require_chair(tx.connection(), caller, channel)?;
        if request.budget.is_some() || request.outside_wakes.is_some() {
            who::require_person(caller)?;
        }
        let mut changed = channel.clone();
        changed.about = request.about.clone().or(changed.about);
        changed.intent = request.intent.clone().or(changed.intent);
        changed.budget = request.budget.unwrap_or(changed.budget);
        changed.outside_wakes = request.outside_wakes.unwrap_or(changed.outside_wakes);
        channels::change(tx, &changed, &caller.actor())?;
        if changed.outside_wakes != channel.outside_wakes {
            let word = if changed.outside_wakes { "can" } else { "cannot" };
            let line = format!("Members from outside {word} wake agents from now on.");
            say(tx, ground, channel, line)?;
        }
        match &request.intent {
            Some(intent) => say(tx, ground, channel, format!("The intent is now: {intent}")),
            None => Ok(()),
        }
    })
    .await
}

/// Pauses a channel: no agent is woken until it resumes.
///
/// # Errors
/// `forbidden`: `not_a_member`; `conflict`: `channel_not_active`, `not_changed`.
pub(super) async fn pause(site: &Site, caller: &Caller, slug: &str) -> Result<ChannelView> {
    who::require_person(caller)?;
    changing(site, caller, slug, |tx, ground, caller, channel| {
        who::require_part(tx.connection(), caller, channel)?;
        channel.require_open()?;
        if channel.status != channels::Status::Active || channel.paused.is_some() {
            let message = match channel.paused {
                Some(_) => format!("{} is paused", channel.slug),
                None => format!("{} has no messages yet", channel.slug),
            };
            return Err(Error::conflict("not_changed", message));
        }
        let kind = kind_of(ground, &channel.kind);
        channels::pause(tx, &ground.ids, (channel, &kind), Pause::Person)
    })
    .await
}

/// Resumes a channel.
///
/// # Errors
/// `forbidden`: `not_a_member`; `conflict`: `not_changed`, and `budget_used` where only a higher
/// budget helps.
pub async fn resume(
    site: &Site,
    caller: &Caller,
    slug: &str,
    request: ResumeRequest,
) -> Result<ChannelView> {
    who::require_person(caller)?;
    changing(site, caller, slug, move |tx, ground, caller, channel| {
        who::require_part(tx.connection(), caller, channel)?;
        let Some((reason, _)) = channel.paused else {
            return Err(Error::conflict("not_changed", format!("{} is not paused", channel.slug)));
        };
        let mut channel = channel.clone();
        if let Some(budget) = request.budget {
            channel.budget = budget;
            channels::change(tx, &channel, &caller.actor())?;
        }
        if reason == Pause::Budget && channel.has_used(3) {
            let message = format!("the budget of {} is used up", channel.slug);
            return Err(Error::conflict("budget_used", message).hint(format!(
                "set a higher one: `wiki-browser channel resume {} --turns N`, or --tokens or \
                 --cost-usd",
                channel.slug
            )));
        }
        channels::resume(tx, &channel, &caller.actor())?;
        say(tx, ground, &channel, "Resumed by a person.".to_owned())
    })
    .await
}

/// Makes another member the chair.
///
/// # Errors
/// `forbidden`: `not_chair`; `not_found`: `no_member`; `conflict`: `channel_not_active`.
pub async fn chair(site: &Site, caller: &Caller, slug: &str, to: String) -> Result<ChannelView> {
    who::require_person(caller)?;
    changing(site, caller, slug, move |tx, ground, caller, channel| {
        who::require_chair(tx.connection(), caller, channel)?;
        channel.require_open()?;
        let member = members::of_handle(tx, channel, &to)?;
        channels::set_chair(tx, channel, &member, &caller.actor())?;
        say(tx, ground, channel, format!("{} is the chair now.", member.handle))
    })
    .await
}

/// Completes a channel: it becomes read-only, and its agents are free.
///
/// # Errors
/// `forbidden`: `not_chair`; `conflict`: `channel_not_active`.
pub(super) async fn complete(site: &Site, caller: &Caller, slug: &str) -> Result<ChannelView> {
    changing(site, caller, slug, |tx, ground, caller, channel| {
        who::require_chair(tx.connection(), caller, channel)?;
        channel.require_open()?;
        let by = caller.actor();
        say(tx, ground, channel, "The channel is complete.".to_owned())?;
        for member in channels::members(tx.connection(), channel.number)? {
            if let Some(agent) = &member.agent {
                mail::drop_in_room(tx, agent, channel.number, "completed")?;
            }
        }
        channels::complete(tx, channel, &by)?;
        channels::release_all(tx, channel.number)
    })
    .await
}

/// Archives a completed channel, so that lists omit it.
///
/// # Errors
/// `forbidden`: `not_chair` for who neither made it, nor ended it, nor administers the site;
/// `conflict`: `channel_not_complete`.
pub(super) async fn archive(site: &Site, caller: &Caller, slug: &str) -> Result<ChannelView> {
    who::require_person(caller)?;
    changing(site, caller, slug, |tx, _, caller, channel| {
        let own = caller.actor();
        let is_own = channel.created_by == own || channel.completed_by.as_ref() == Some(&own);
        if !is_own && !who::is_admin(caller) {
            let message = format!(
                "only its creator, the person who completed it, or an admin can archive {}",
                channel.slug
            );
            return Err(Error::new(ErrorKind::Forbidden, message).code("not_chair"));
        }
        channels::archive(tx, channel, &own)
    })
    .await
}
