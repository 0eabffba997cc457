//! Display names of people.

use rusqlite::Connection;

use crate::api::proposals::Proposal;
use crate::api::topics::{Message, Topic};
use crate::base::{Actor, Result};
use crate::people;

/// Fills in the name of a Topic's author.
///
/// # Errors
/// As any read.
pub fn fill_topic(connection: &Connection, mut topic: Topic) -> Result<Topic> {
    topic.created_by_name = Some(people::display_name(connection, &topic.created_by)?);
    Ok(topic)
}

/// Fills in the name of a message's author.
///
/// # Errors
/// As any read.
pub fn fill_message(connection: &Connection, mut message: Message) -> Result<Message> {
    message.author_name = Some(people::display_name(connection, &message.author)?);
    Ok(message)
}

/// Fills in who decided a proposal, and who edited it.
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

/// Returns a person for a commit's trailer: always `Name <address>`, which git and forges expect. A
/// person without an address gets one in a domain that cannot exist.
///
/// # Errors
/// As any read.
pub fn trailer(connection: &Connection, actor: &Actor) -> Result<String> {
    let person = match actor.person() {
        Some(id) => people::find(connection, id)?,
        None => None,
    };
    let Some(person) = person else {
        let name = people::display_name(connection, actor)?;
        return Ok(format!("{name} <{}@users.invalid>", plain(&actor.to_string())));
    };
    let address = person.email.filter(|it| people::is_address(it));
    let address = address.unwrap_or_else(|| format!("{}@users.invalid", plain(&person.name)));
    // A name with brackets would end where its address begins.
    let name = person.display_name.replace(['<', '>'], "");
    let name = if name.trim().is_empty() { person.name } else { name };
    Ok(format!("{} <{address}>", name.trim()))
}

/// Keeps the characters of a name that are allowed in an address.
fn plain(name: &str) -> String {
    let is_plain = |it: &char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
    let kept: String = name.chars().filter(is_plain).collect();
    let kept = kept.trim_matches('.');
    if kept.is_empty() { "somebody".to_owned() } else { kept.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_part_of_an_address() {
        for (name, part) in [
            ("ada", "ada"),
            ("b@x", "bx"),
            ("jo.doe", "jo.doe"),
            ("Ä日", "somebody"),
            (".", "somebody"),
        ] {
            assert_eq!(plain(name), part);
        }
    }
}
