//! Who can become a member of a channel.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::base::{Actor, Result};
use crate::channels;
use crate::flows::Site;
use crate::flows::channels::namesake::next_name;
use crate::flows::channels::{Ground, joining};
use crate::mail::agent;
use crate::people::{self, Caller};

/// Who can become a member.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Personas, by name.
    pub personas: Vec<FreePersona>,
    /// People who may write, also from outside: their names, and what others see.
    pub people: Vec<(String, String)>,
}

/// A persona that could become a member.
#[derive(Clone, Debug)]
pub struct FreePersona {
    /// Its name.
    pub name: String,
    /// All its agents.
    pub agents: Vec<String>,
    /// The agent that would take its seat.
    pub agent: String,
    /// What happens then, in words.
    pub what: String,
}

/// Returns who can become a member of a channel, and which agent would take the seat.
///
/// # Errors
/// `forbidden` for a job.
pub async fn candidates(site: &Site, caller: &Caller) -> Result<Candidates> {
    caller.person()?;
    let (ground, by) = (Ground::of(site), caller.actor());
    site.store
        .read(move |c| {
            let mut found = Candidates::default();
            let agents = agent::list(c)?.into_iter().filter(|it| it.heir.is_none());
            let names: BTreeSet<String> =
                agents.map(|it| it.persona.unwrap_or(it.declared)).collect();
            for name in names {
                found.personas.extend(persona(c, &ground, &by, name)?);
            }
            let people = people::list(c)?.into_iter();
            let may_take_part =
                |it: &people::Person| it.is_external || it.role != people::Role::Viewer;
            let people = people.filter(|it| it.disabled_at.is_none() && may_take_part(it));
            let people = people.map(|it| match it.is_external {
                true => (it.name, format!("{} (outside)", it.display_name)),
                false => (it.name, it.display_name),
            });
            found.people = people.collect();
            Ok(found)
        })
        .await
}

/// Returns a persona with the agent that would take its seat; `None` if it would be refused.
pub(super) fn persona(
    c: &Connection,
    ground: &Ground,
    by: &Actor,
    name: String,
) -> Result<Option<FreePersona>> {
    let all = joining::of_persona(c, &name)?;
    let Some(first) = all.first() else { return Ok(None) };
    let agents = all.iter().map(|it| it.name.clone()).collect();
    let free = joining::first_free(c, ground, &all, by)?;
    if joining::refuse_unheard(ground, free.unwrap_or(first)).is_err() {
        return Ok(None);
    }
    if let Some(it) = free {
        let what = match it.state.is_live() {
            true => format!("{} takes the seat ({})", it.name, it.state_word()),
            false => format!("{} starts", it.name),
        };
        return Ok(Some(FreePersona { name, agents, agent: it.name.clone(), what }));
    }
    let Some(agent) = next_name(c, &first.declared)? else { return Ok(None) };
    let why = match channels::seat_of(c, &first.name)? {
        Some(room) => format!("is in {}", channels::find(c, room)?.slug),
        None => "has worked for others".to_owned(),
    };
    let what = format!("{agent} starts, because {} {why}", first.name);
    Ok(Some(FreePersona { name, agents, agent, what }))
}
