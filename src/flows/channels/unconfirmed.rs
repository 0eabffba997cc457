//! Messages that an agent may not have received: a person has them sent again, or says that they
//! arrived.

use crate::api::channels::ChannelView;
use crate::base::{Error, MailId, Result};
use crate::channels::{self, Channel};
use crate::flows::Site;
use crate::flows::channels::life::changing;
use crate::flows::channels::{again, who};
use crate::mail;
use crate::people::Caller;
use crate::store::Tx;

/// What a person decides about such messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// They are sent again.
    Resend,
    /// They arrived.
    Settle,
}

/// Decides about everything that an agent was given together with a message.
///
/// # Errors
/// `not_found`: `no_message`; `forbidden`: `not_a_member`; `conflict`: `channel_not_active`,
/// `not_unconfirmed`, and `not_seated` if the agent does not listen there any more.
pub async fn arrival(
    site: &Site,
    caller: &Caller,
    (slug, number): (&str, &str),
    (agent, decision): (&str, Arrival),
) -> Result<ChannelView> {
    caller.person()?;
    let (number, agent) = (again::number(number, slug)?, agent.to_owned());
    changing(site, caller, slug, move |tx, _, caller, channel| {
        who::require_part(tx.connection(), caller, channel)?;
        channel.require_open()?;
        let message = again::find(tx.connection(), channel, number)?.id;
        decide(tx, channel, (&message, &agent), (decision, caller))
    })
    .await
}

fn decide(
    tx: &Tx<'_>,
    channel: &Channel,
    (message, agent): (&MailId, &str),
    (decision, caller): (Arrival, &Caller),
) -> Result<()> {
    let (c, by) = (tx.connection(), caller.actor());
    let Some(block) = mail::unconfirmed_block(c, message, (agent, channel.number))? else {
        let message = format!("agent:{} has no unconfirmed message there", agent.escape_debug());
        return Err(Error::conflict("not_unconfirmed", message)
            .hint(format!("`wiki-browser msg history {}` shows who received what", channel.slug)));
    };
    if decision == Arrival::Settle {
        return mail::settle_block(tx, &block, &by);
    }
    match channels::members(c, channel.number)?
        .iter()
        .any(|it| it.is_active() && it.agent.as_deref() == Some(agent))
    {
        true => mail::resend_block(tx, &block, &by),
        false => Err(again::not_seated(agent, channel)),
    }
}
