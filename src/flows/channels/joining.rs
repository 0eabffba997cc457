//! Who takes part, and which agent takes the seat of a persona.
//!
//! **Invariant:** an agent to which somebody else has written or typed gets no seat from a person
//! or an agent who may not know what was said.

use rusqlite::Connection;

use crate::api::channels::MemberRequest;
use crate::base::{Actor, Error, ErrorKind, Result};
use crate::channels::{self, Joining};
use crate::flows::agents::{AGENT_STATE, start_for_seat};
use crate::flows::channels::{Ground, fresh};
use crate::flows::people::named;
use crate::mail;
use crate::mail::agent::{self, Agent};
use crate::people;
use crate::store::Tx;
use crate::turns;

/// Resolves the member that a request names, with the agent for its seat.
pub(super) fn joining(
    tx: &Tx<'_>,
    ground: &Ground,
    request: &MemberRequest,
    by: &Actor,
) -> Result<Joining> {
    let c = tx.connection();
    match (&request.persona, &request.agent, &request.person) {
        (None, None, Some(name)) if !request.fresh => {
            let person = named(c, name)?;
            if person.disabled_at.is_some() {
                let message = format!("{} is disabled", person.name);
                return Err(Error::conflict("recipient_ended", message));
            }
            Ok(Joining {
                member: Actor::Person(person.id),
                name: person.name,
                agent: None,
                is_outside: person.is_external,
            })
        }
        (None, Some(name), None) if !request.fresh => {
            let found = agent::find(c, name)?.ok_or_else(|| no_agent(name))?;
            require_untold(c, ground, &found, by)?;
            seat(tx, ground, &found)
        }
        (Some(persona), None, None) => {
            let agents = of_persona(c, persona)?;
            let first = agents.first().ok_or_else(|| no_agent(persona))?;
            let free = if request.fresh { None } else { first_free(c, ground, &agents, by)? };
            match free {
                Some(free) => seat(tx, ground, free),
                None => {
                    refuse_unheard(ground, first)?;
                    seat(tx, ground, &fresh(tx, first, &ground.digest)?)
                }
            }
        }
        _ => Err(Error::invalid("name exactly one of `persona`, `agent` and `person`")
            .code("bad_member")
            .of_input("members")
            .hint("`fresh` goes with `persona`")),
    }
}

/// Returns the agents of a persona that have not handed over, the one of its name first.
pub(super) fn of_persona(c: &Connection, persona: &str) -> Result<Vec<Agent>> {
    let mut agents = agent::list(c)?;
    agents.retain(|it| {
        it.heir.is_none()
            && (it.persona.as_deref() == Some(persona)
                || it.declared == persona
                || it.name == persona)
    });
    agents.sort_by_key(|it| it.name != persona);
    Ok(agents)
}

/// Returns the first of a persona's agents that has no seat, and that nobody but the person who
/// asks has told anything; `None` if a fresh one takes the seat.
pub(super) fn first_free<'a>(
    c: &Connection,
    ground: &Ground,
    agents: &'a [Agent],
    by: &Actor,
) -> Result<Option<&'a Agent>> {
    for it in agents {
        let is_unseated = channels::seat_of(c, &it.name)?.is_none();
        if is_unseated && !knows_others(c, ground, it, by)? {
            return Ok(Some(it));
        }
    }
    Ok(None)
}

/// Returns whether an agent has heard private words of somebody else. Who typed in a terminal is
/// not known.
fn knows_others(c: &Connection, ground: &Ground, agent: &Agent, by: &Actor) -> Result<bool> {
    if mail::other_person(c, &agent.name, by)?.is_some() {
        return Ok(true);
    }
    Ok(ground.in_terminals.contains(&agent.declared) && turns::has_own(c, &agent.name)?)
}

/// Refuses an agent that was named and has heard private words of somebody else.
///
/// # Errors
/// `conflict` with code `agent_state`.
pub(super) fn require_untold(
    c: &Connection,
    ground: &Ground,
    agent: &Agent,
    by: &Actor,
) -> Result<()> {
    if !knows_others(c, ground, agent, by)? {
        return Ok(());
    }
    let message = match mail::other_person(c, &agent.name, by)? {
        Some(other) => {
            format!("agent:{} works for {}, too", agent.name, people::display_name(c, &other)?)
        }
        None => format!("somebody has typed in the terminal of agent:{}", agent.name),
    };
    let persona = agent.persona.as_deref().unwrap_or(&agent.declared);
    Err(Error::conflict(AGENT_STATE, message).hint(format!(
        "what was said to it in private must reach no channel: name its persona, {persona}, and a \
         fresh agent takes the seat"
    )))
}

/// Seats an agent; starts it if it is not running.
pub(super) fn seat(tx: &Tx<'_>, ground: &Ground, agent: &Agent) -> Result<Joining> {
    refuse_unheard(ground, agent)?;
    start_for_seat(tx, agent)?;
    let persona = agent.persona.clone().unwrap_or_else(|| agent.declared.clone());
    Ok(Joining {
        member: Actor::Persona(persona.clone()),
        name: persona,
        agent: Some(agent.name.clone()),
        is_outside: false,
    })
}

/// Refuses an agent without hooks: nobody can tell its final message.
pub(super) fn refuse_unheard(ground: &Ground, agent: &Agent) -> Result<()> {
    if !ground.unheard.contains(&agent.declared) {
        return Ok(());
    }
    let message =
        format!("agent:{} is in a terminal without hooks, so its answers are unknown", agent.name);
    Err(Error::new(ErrorKind::Forbidden, message)
        .code("not_an_agent")
        .hint("use an engine with `hooks`, or of type \"stream\""))
}

pub(super) fn no_agent(name: &str) -> Error {
    let shown = crate::base::truncate_chars(name, 80);
    Error::not_found(format!("no agent {}", shown.escape_debug()))
        .code("no_agent")
        .hint("`wb.agent` in the script declares one")
}
