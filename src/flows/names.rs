//! Names of people for what is shown.

use rusqlite::Connection;

use crate::base::{Actor, Result};
use crate::documents::{Message, Proposal, Topic};
use crate::people;

/// Fills in who opened a Topic.
///
/// # Errors
/// As any read.
pub fn fill_topic(connection: &Connection, mut topic: Topic) -> Result<Topic> {
    topic.created_by_name = Some(people::display_name(connection, &topic.created_by)?);
    Ok(topic)
}

/// Fills in who wrote a message.
///
/// # Errors
/// As any read.
pub fn fill_message(connection: &Connection, mut message: Message) -> Result<Message> {
    message.author_name = Some(people::display_name(connection, &message.author)?);
    Ok(message)
}

/// Fills in who decided a proposal, and who made it of an earlier one.
///
/// # Errors
/// As any read.
pub fn fill_proposal(connection: &Connection, mut proposal: Proposal) -> Result<Proposal> {
    proposal.decided_by_name = match &proposal.decided_by {
        Some(actor) => Some(people::display_name(connection, actor)?),
        None => None,
    };
    if let Some(origin) = &mut proposal.origin {
        origin.made_by_name = Some(people::display_name(connection, &origin.made_by)?);
    }
    Ok(proposal)
}

/// Returns a person's name for a commit's trailer: `Name <email>`, or the name.
///
/// # Errors
/// As any read.
pub fn trailer(connection: &Connection, actor: &Actor) -> Result<String> {
    let Some(id) = actor.person() else { return people::display_name(connection, actor) };
    Ok(match people::find(connection, id)? {
        Some(person) => match person.email {
            Some(email) => format!("{} <{email}>", person.display_name),
            None => person.display_name,
        },
        None => id.to_string(),
    })
}
