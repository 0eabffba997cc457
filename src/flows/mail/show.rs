//! Reading mail.

use rusqlite::Connection;

use crate::api::mail::{DeliveryView, MessagePage, MessageQuery, MessageView, Sender};
use crate::base::{Address, Error, MailId, Result};
use crate::flows::{Site, instances, page_limit};
use crate::jobs;
use crate::mail::{self, Filter, Message};
use crate::people::{self, Caller};

/// Most pages that are walked through to fill one.
const PAGES_WALKED: usize = 20;

/// Returns a message with its deliveries.
///
/// # Errors
/// `not_found`, also for one between others.
pub async fn show(site: &Site, caller: &Caller, id: &MailId) -> Result<MessageView> {
    require_visible(site, caller, id).await?;
    let id = id.clone();
    site.store.read(move |c| view(c, mail::find(c, &id)?)).await
}

/// Notes that a person has read a message to them. Whether it was unread.
///
/// # Errors
/// `not_found` as [`show`]; `forbidden` for jobs.
pub async fn read(site: &Site, caller: &Caller, id: &MailId) -> Result<bool> {
    let person = caller.person()?.clone();
    require_visible(site, caller, id).await?;
    let id = id.clone();
    site.store.write(move |tx| mail::confirm_read(tx, &id, &person.name, &person.id)).await
}

/// Returns messages, newest first; of a thread the oldest first.
///
/// # Errors
/// `invalid` for what is no address, and for what is no state of a delivery.
pub async fn list(site: &Site, caller: &Caller, query: MessageQuery) -> Result<MessagePage> {
    let limit = page_limit(query.limit)?;
    if let Some(state) = query.state.as_deref().filter(|it| !mail::STATES.contains(it)) {
        let message = format!("`{}` is not a state of a message", state.escape_debug());
        let hint = format!("one of {}", mail::STATES.join(", "));
        return Err(Error::invalid(message).code("bad_parameter").hint(hint));
    }
    let (site_store, caller) = (site.store.clone(), caller.clone());
    site_store
        .read(move |c| {
            let own = instances::address_of(c, &caller.actor())?;
            let address = |text: Option<&str>| match text {
                Some("me") => own.clone().map(Some).ok_or_else(no_address),
                Some(text) => text.parse().map(Some),
                None => Ok(None),
            };
            let mut filter = Filter {
                to: address(query.to.as_deref())?,
                from: address(query.from.as_deref())?,
                before: query.after,
                limit,
            };
            // A job has little mail of its own: it does not walk through that of all others.
            if caller.is_job() && filter.to.is_none() && filter.from.is_none() {
                filter.to = own.clone();
            }
            // What is said in channels is read there, unless it is asked for.
            let shows_channels = filter.to.is_some() || query.thread.is_some();
            let is_shown = |it: &MessageView| {
                let is_in_state =
                    |state: &String| it.deliveries.iter().any(|delivery| delivery.state == *state);
                (shows_channels || !matches!(it.to, Address::Channel(_)))
                    && query.state.as_ref().is_none_or(is_in_state)
            };
            let (mut items, mut next) = (Vec::new(), query.after);
            // What nobody may see, or is in another state, leaves no short pages: more is read.
            for _ in 0..PAGES_WALKED {
                let page = match &query.thread {
                    Some(thread) => mail::thread(c, thread, next.unwrap_or(0), limit)?,
                    None => mail::list(c, &Filter { before: next, ..filter.clone() })?,
                };
                let is_last = page.len() < limit as usize;
                for message in page {
                    next = Some(message.seq);
                    if is_visible(c, &caller, own.as_ref(), &message)? {
                        items.push(view(c, message)?);
                    }
                    items.retain(is_shown);
                    if items.len() == limit as usize {
                        return Ok(MessagePage { items, next });
                    }
                }
                if is_last {
                    return Ok(MessagePage { items, next: None });
                }
            }
            Ok(MessagePage { items, next })
        })
        .await
}

fn no_address() -> Error {
    Error::invalid("this job has no address because no message started it").code("no_instance")
}

/// Refuses a message that is between others.
pub(super) async fn require_visible(site: &Site, caller: &Caller, id: &MailId) -> Result<()> {
    let (id, caller) = (id.clone(), caller.clone());
    site.store.read(move |c| require_visible_to(c, &caller, &id)).await
}

/// The same, in a transaction.
pub(super) fn require_visible_to(c: &Connection, caller: &Caller, id: &MailId) -> Result<()> {
    let message = mail::find(c, id)?;
    let own = instances::address_of(c, &caller.actor())?;
    match is_visible(c, caller, own.as_ref(), &message)? {
        true => Ok(()),
        false => Err(Error::not_found(format!("no message {id}"))),
    }
}

/// A person sees what is between agents and inboxes, and their own mail; a job its own.
fn is_visible(
    c: &Connection,
    caller: &Caller,
    own: Option<&Address>,
    message: &Message,
) -> Result<bool> {
    let is_own = own.is_some_and(|own| message.to == *own || message.from.as_ref() == Some(own));
    match caller {
        Caller::Person { .. } => {
            let is_between_others =
                matches!(message.to, Address::Person(_)) && message.from.as_ref() != own;
            Ok(is_own || !is_between_others)
        }
        Caller::Job { id, .. } => {
            let started = jobs::find_brief(c, &jobs::Viewer::Program, id)?.message_id;
            Ok(is_own
                || started.as_ref() == Some(&message.id)
                || message.job_id.as_ref() == Some(id))
        }
    }
}

fn view(c: &Connection, message: Message) -> Result<MessageView> {
    let deliveries = mail::of_message(c, &message.id)?.into_iter().map(|it| DeliveryView {
        to: it.to,
        state: it.state,
        proof: it.proof,
        reason: it.reason,
        job_id: it.job_id,
    });
    Ok(MessageView {
        deliveries: deliveries.collect(),
        sender: Sender { name: people::display_name(c, &message.sender)?, actor: message.sender },
        id: message.id,
        sort: message.sort,
        from: message.from,
        to: message.to,
        payload: message.payload,
        category: message.category,
        in_reply_to: message.in_reply_to,
        reply_to: message.reply_to,
        thread: message.thread,
        job_id: message.job_id,
        created_at: message.created_at,
        forgotten_at: message.forgotten_at,
    })
}
