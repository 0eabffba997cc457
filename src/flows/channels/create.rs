//! Making a channel: its members, what their agents are told, and its first message.

use serde_json::{Value, json};

use crate::api::channels::{ChannelView, CreateRequest, MemberRequest};
use crate::base::{Actor, Error, ErrorKind, Result};
use crate::channels::{self, Joining, NewChannel};
use crate::flows::channels::{
    Ground, briefing, joining, kind_of, members, show, speak, start_count, who,
};
use crate::flows::{Site, kept_answer};
use crate::jobs;
use crate::people::Caller;
use crate::script::Config;
use crate::store::{Tx, idempotency};

/// The type of a channel for which none was given.
const KIND_DEFAULT: &str = "workshop";

/// Makes a channel; whoever makes it is its chair.
///
/// # Errors
/// `forbidden` for viewers, and `not_an_agent`, `no_creation_capability`, `agent_forbidden`;
/// `invalid`: `unknown_type`, `bad_name`, `bad_member`;
/// `not_found`: `no_agent`, `no_person`; `conflict`: `name_taken`, `agent_already_in_channel`;
/// `busy`: `too_many_channels`, `too_many_members`, `too_many_starts`.
pub async fn create(
    site: &Site,
    caller: &Caller,
    request: CreateRequest,
    key: Option<idempotency::Key>,
) -> Result<ChannelView> {
    let by = caller.actor();
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return show::changed(site, caller, kept_slug(&kept)?).await;
    }
    let (ground, asking, config) = (Ground::of(site), caller.clone(), site.config.clone());
    let made = site.store.write(move |tx| {
        if let Caller::Job { token_hash, .. } = &asking {
            jobs::fence(tx, token_hash)?;
        }
        if let Some(key) = &key
            && let Some(kept) = idempotency::find(tx.connection(), key)?
        {
            return kept_slug(&kept);
        }
        let starter = start_count::of(tx.connection(), &asking)?;
        let own = own((tx, &ground), &config, &asking, &request)?;
        let kind = known_kind(&ground, request.kind.as_deref())?;
        let new = NewChannel {
            kind: kind.to_owned(),
            name: request.name.clone(),
            about: request.about.clone(),
            intent: request.intent.clone(),
            by: by.clone(),
            budget: request.budget.unwrap_or(kind_of(&ground, kind).budget),
            promoted_from: None,
        };
        let channel = channels::create(tx, &ground.ids, &new)?;
        let kind = kind_of(&ground, &channel.kind);
        channels::join(tx, (&channel, &kind), &own, &by)?;
        let agents = seat_all((tx, &ground), (&channel, &kind), &by, &request.members)?;
        if let Some(starter) = &starter {
            agents.iter().try_for_each(|it| start_count::count(tx, &ground, starter, it))?;
            start_count::inherit(tx, starter, &channel)?;
        }
        let chosen = request.chair.as_deref().filter(|_| !request.without_me);
        if let Some(chair) = chosen {
            who::require_person(&asking)?;
            channels::set_chair(tx, &channel, &members::of_handle(tx, &channel, chair)?, &by)?;
        }
        for member in channels::members(tx.connection(), channel.number)? {
            briefing::of_member(tx, &ground, (&channel, &kind), &member)?;
        }
        if let Some(text) = &request.message {
            speak::say_as_person(tx, &ground, (&asking, channel.number), text)?;
        }
        if let Some(key) = &key {
            idempotency::remember(tx, key, &json!({"slug": channel.slug}))?;
        }
        Ok(channel.slug)
    });
    let slug = made.await?;
    show::changed(site, caller, slug).await
}

/// Returns the name of a type that the site knows.
///
/// # Errors
/// `invalid` with code `unknown_type`.
pub(super) fn known_kind<'k>(ground: &Ground, asked: Option<&'k str>) -> Result<&'k str> {
    let kind = asked.unwrap_or(KIND_DEFAULT);
    if ground.knows(kind) {
        return Ok(kind);
    }
    let names: Vec<String> = ground.kinds.iter().map(|it| it.name.clone()).collect();
    let message = format!("unknown channel type `{}`", kind.escape_debug());
    Err(Error::invalid(message)
        .code("unknown_type")
        .of_input("type")
        .hint(format!("types: {}", names.join(", "))))
}

/// Returns who is the first member, which is the chair: whoever makes the channel, or the person
/// whom an agent names that takes no seat in it.
fn own(
    (tx, ground): (&Tx<'_>, &Ground),
    config: &Config,
    asking: &Caller,
    request: &CreateRequest,
) -> Result<Joining> {
    let Some(agent) = who::agent_or_writer(tx.connection(), asking)? else {
        let creator = asking.person()?;
        if request.without_me {
            let message = "`without_me` is for agents only";
            return Err(Error::invalid(message).code("bad_member").of_input("without_me"));
        }
        let member = Actor::Person(creator.id.clone());
        let name = creator.name.clone();
        return Ok(Joining { member, name, agent: None, is_outside: false });
    };
    if !who::declared(config, &agent).is_some_and(|it| it.can_create_channel) {
        let message = format!("{} cannot create channels", agent.name);
        return Err(Error::new(ErrorKind::Forbidden, message)
            .code("no_creation_capability")
            .hint("set `can_create_channel = true` in its wb.agent"));
    }
    if request.message.is_some() || request.budget.is_some() {
        let message = "only people can set a budget or write the first message";
        return Err(Error::new(ErrorKind::Forbidden, message).code("agent_forbidden"));
    }
    match (request.without_me, &request.chair) {
        (false, _) => joining::seat(tx, ground, &agent),
        (true, Some(person)) => {
            let request = MemberRequest { person: Some(person.clone()), ..Default::default() };
            joining::joining(tx, ground, &request, &asking.actor())
        }
        (true, None) => {
            Err(Error::invalid("a channel without its creator needs a person as chair")
                .code("bad_member")
                .of_input("chair")
                .hint("name one: --chair PERSON"))
        }
    }
}

pub(super) fn kept_slug(kept: &Value) -> Result<String> {
    let slug = kept["slug"].as_str().map(str::to_owned);
    slug.ok_or_else(|| Error::internal("a kept answer is none of a channel"))
}

/// Adds the members that a request names; returns the agents that got seats.
pub(super) fn seat_all(
    (tx, ground): (&Tx<'_>, &Ground),
    room: (&channels::Channel, &channels::ChannelType),
    by: &Actor,
    asked: &[MemberRequest],
) -> Result<Vec<String>> {
    let mut agents = Vec::new();
    for request in asked {
        let joining = joining::joining(tx, ground, request, by)?;
        members::require_inside(&joining, by)?;
        channels::join(tx, room, &joining, by)?;
        agents.extend(joining.agent);
    }
    Ok(agents)
}
