//! Making a channel: its members, what their agents are told, and its first message.

use serde_json::{Value, json};

use crate::api::channels::{ChannelView, CreateRequest, MemberRequest};
use crate::base::{Actor, Error, Result};
use crate::channels::{self, Joining, NewChannel};
use crate::flows::channels::{Ground, kind_of, members, show, speak};
use crate::flows::{Site, kept_answer};
use crate::people::Caller;
use crate::store::{Tx, idempotency};

/// The type of a channel for which none was given.
const KIND_DEFAULT: &str = "workshop";

/// Makes a channel; whoever makes it is its chair.
///
/// # Errors
/// `forbidden` for viewers and jobs; `invalid`: `unknown_type`, `bad_name`, `bad_member`;
/// `not_found`: `no_agent`, `no_person`; `conflict`: `name_taken`, `agent_already_in_channel`;
/// `busy`: `too_many_channels`, `too_many_members`.
pub async fn create(
    site: &Site,
    caller: &Caller,
    request: CreateRequest,
    key: Option<idempotency::Key>,
) -> Result<ChannelView> {
    let by = Actor::Person(caller.may_write()?.id.clone());
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return show::show(site, caller, &kept_slug(&kept)?).await;
    }
    let (ground, asking) = (Ground::of(site), caller.clone());
    let made = site.store.write(move |tx| {
        if let Some(key) = &key
            && let Some(kept) = idempotency::find(tx.connection(), key)?
        {
            return kept_slug(&kept);
        }
        let kind = request.kind.as_deref().unwrap_or(KIND_DEFAULT);
        if !ground.knows(kind) {
            let names: Vec<String> = ground.kinds.iter().map(|it| it.name.clone()).collect();
            let message = format!("there is no type of channel `{}`", kind.escape_debug());
            return Err(Error::invalid(message)
                .code("unknown_type")
                .of_input("type")
                .hint(format!("types: {}", names.join(", "))));
        }
        let new = NewChannel {
            kind: kind.to_owned(),
            name: request.name.clone(),
            about: request.about.clone(),
            intent: request.intent.clone(),
            by: by.clone(),
            budget: request.budget.unwrap_or(kind_of(&ground, kind).budget),
        };
        let channel = channels::create(tx, &ground.ids, &new)?;
        let creator = asking.person()?;
        let own = Joining { member: by.clone(), name: creator.name.clone(), agent: None };
        let kind = kind_of(&ground, &channel.kind);
        channels::join(tx, (&channel, &kind), &own, &by)?;
        seat_all(tx, (&channel, &kind), &by, &request.members)?;
        for member in channels::members(tx.connection(), channel.number)? {
            members::brief(tx, &ground, (&channel, &kind), &member)?;
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
    show::show(site, caller, &slug).await
}

fn kept_slug(kept: &Value) -> Result<String> {
    let slug = kept["slug"].as_str().map(str::to_owned);
    slug.ok_or_else(|| Error::internal("a kept answer is none of a channel"))
}

fn seat_all(
    tx: &Tx<'_>,
    room: (&channels::Channel, &channels::ChannelType),
    by: &Actor,
    asked: &[MemberRequest],
) -> Result<()> {
    for request in asked {
        let joining = members::joining(tx, request)?;
        channels::join(tx, room, &joining, by)?;
    }
    Ok(())
}
