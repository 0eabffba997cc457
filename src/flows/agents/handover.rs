//! Handing over: an agent writes notes for its successor, the successor reads them, and gets its
//! seats and waiting messages.
//!
//! **Invariant:** the successor has read before anything else is given to it; its seats, what waits
//! and the heir are one transaction.

use std::io::Write as _;

use camino::Utf8Path;
use jiff::Timestamp;
use rusqlite::Connection;

use crate::api::handoffs::{HandoffText, HandoverRequest, HandoverView, WriteHandoff};
use crate::base::{Actor, Context, Error, ErrorKind, Millis, Result, fault};
use crate::channels;
use crate::flows::agents::control::AGENT_STATE;
use crate::flows::agents::handoffs::{self, TEXT_BYTES_MAX, end_of, folder, persona_of};
use crate::flows::agents::{control, show};
use crate::flows::channels::{Ground, fresh, say_in, take_over};
use crate::flows::{Site, Works};
use crate::jobs;
use crate::mail;
use crate::mail::agent::{self, Agent, State, Wanted};
use crate::people::Caller;
use crate::script::kind_of_agent;
use crate::store::Tx;
use crate::turns::handoff::{self, Handoff, HandoffState, NewHandoff};

/// Longest summary, in characters.
const SUMMARY_CHARS_MAX: usize = 60;
/// How long an agent may take from hearing the instruction to the end of its turn, in milliseconds.
const WRITE_MS_MAX: i64 = 10 * 60_000;
/// How the name of a file begins.
const STAMP: &str = "%Y%m%dT%H%M%SZ";

/// What an agent that leaves is asked.
const HEADINGS: [&str; 6] =
    ["Current work", "Progress", "Decisions", "Blockers", "Files changed", "Next steps"];

/// Asks an agent to write notes for its successor; the rest follows from that.
///
/// # Errors
/// `not_found`: `no_agent`; `conflict`: `handover_running`, `handed_over`, and `agent_state` for an
/// agent that does not run or is not declared any more; `invalid`: `bad_parameter`.
pub async fn handover(
    site: &Site,
    caller: &Caller,
    name: &str,
    request: HandoverRequest,
) -> Result<HandoverView> {
    let by = Actor::Person(caller.may_write()?.id.clone());
    handoffs::check_note(request.note.as_deref())?;
    let (works, asked) = (site.works.now(), name.to_owned());
    let agent = site.store.read(move |c| show::find(c, &asked)).await?;
    make_place(&works, persona_of(&agent)).await?;
    let asked = agent.name;
    let write = site.store.write(move |tx| {
        let c = tx.connection();
        let agent = show::find(c, &asked)?;
        if agent.heir.is_some() {
            return Err(control::handed_over(&agent));
        }
        let is_declared = works.config.kinds.contains_key(&kind_of_agent(&agent.declared));
        if agent.wanted == Wanted::Stopped || agent.state == State::Failed || !is_declared {
            let message = format!("agent:{} does not run, and can write nothing", agent.name);
            return Err(Error::conflict(AGENT_STATE, message)
                .hint("`wiki-browser channel seat` gives its seat to a fresh agent"));
        }
        if let Some(open) = handoff::open(c, &agent.name)? {
            let message = format!("agent:{} is being handed over already", open.agent);
            return Err(Error::conflict("handover_running", message));
        }
        let persona = persona_of(&agent);
        let stamp = stamp(c, &persona, tx.now())?;
        let note = request.note.as_deref();
        let text = instruction(&works, &agent, (&stamp, note));
        let message = handoffs::send(tx, &works, (&agent.name, &by), text)?;
        let new = NewHandoff {
            persona: &persona,
            agent: &agent.name,
            stamp: &stamp,
            note,
            keeps: request.keep,
            message: &message,
            by: &by,
        };
        handoff::ask(tx, &works.ids, &new)?;
        let asked = handoff::open(tx.connection(), &agent.name)?;
        asked.ok_or_else(|| Error::internal("a handover that was written is not there"))
    });
    write.await.map(show::handover)
}

/// Returns a stamp that no other handoff of a persona has.
fn stamp(c: &Connection, persona: &str, now: Millis) -> Result<String> {
    let mut at = now;
    loop {
        let time = Timestamp::from_millisecond(at.0)
            .map_err(|cause| Error::internal("the clock shows no time").source(cause))?;
        let stamp = time.strftime(STAMP).to_string();
        if !handoff::has_stamp(c, persona, &stamp)? {
            return Ok(stamp);
        }
        at = at.plus(1_000);
    }
}

/// Makes the folder of a persona's handoffs: an agent may write there while no server runs.
async fn make_place(works: &Works, persona: String) -> Result<()> {
    let place = works.config.site.data.join(folder(&persona));
    let make = move || {
        std::fs::create_dir_all(&place)
            .context(ErrorKind::Unavailable, || format!("cannot create {place}"))
    };
    handoffs::blocking(make).await
}

fn instruction(works: &Works, agent: &Agent, (stamp, note): (&str, Option<&str>)) -> String {
    let place = works.config.site.data.join(folder(&persona_of(agent)));
    let file = place.join(format!("{stamp}_SLUG{}", end_of(agent)));
    let headings: Vec<String> = HEADINGS.iter().map(|it| format!("## {it}")).collect();
    let note = note.map(|it| format!("\nNote of who asks: {it}\n")).unwrap_or_default();
    format!(
        "You hand over. A fresh agent goes on in your place and knows nothing of what you know: \
         write it down, with these headings:\n\n{}\n{note}\nHand it in as standard input of this \
         command, SLUG being two to five words with `-` between them:\n\n  \
         {} handoff write --summary SLUG\n\nIf it cannot reach the site, write this file \
         yourself, with the same words for SLUG:\n\n  {file}\n\nThen end your turn. Nobody reads \
         your last words.",
        headings.join("\n"),
        works.wb_agent,
    )
}

/// Writes the handoff of the agent who asks.
///
/// # Errors
/// `conflict`: `no_handover` while none is asked for; `invalid`: `bad_summary`, `empty_text`;
/// `too_large`.
pub async fn write(site: &Site, caller: &Caller, request: WriteHandoff) -> Result<HandoffText> {
    let (job, token) = caller.job()?;
    let (job, token) = (job.clone(), token.to_owned());
    check(&request)?;
    let asked = site.store.write(move |tx| {
        jobs::fence(tx, &token)?;
        let c = tx.connection();
        let agent = control::agent_of_job(c, &job)?;
        let open = match &agent {
            Some(agent) => handoff::open(c, &agent.name)?,
            None => None,
        };
        let asked = agent.zip(open).filter(|(_, it)| it.state == HandoffState::Asked);
        asked.ok_or_else(|| {
            Error::conflict("no_handover", "nobody has asked you to hand over")
                .hint("a person does: `wiki-browser agent handover NAME`")
        })
    });
    let (agent, open) = asked.await?;
    let file = format!("{}_{}{}", open.stamp, request.summary, end_of(&agent));
    let (place, name) = (site.config.site.data.join(folder(&open.persona)), file.clone());
    handoffs::blocking(move || save(&place, &name, &request.text)).await?;
    fault::crash_point("handoff_filed");
    let (written, name) = (open, file.clone());
    site.store
        .write(move |tx| {
            tx.ring(mail::BELL);
            handoff::written(tx, &written, &name)
        })
        .await?;
    Ok(HandoffText { file, text: None })
}

fn check(request: &WriteHandoff) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let summary = &request.summary;
    if summary.is_empty() || summary.len() > SUMMARY_CHARS_MAX || !summary.chars().all(is_plain) {
        let message = format!(
            "a summary is 1 to {SUMMARY_CHARS_MAX} small letters, digits and `-`: moving-skills"
        );
        return Err(Error::invalid(message).code("bad_summary").of_input("summary"));
    }
    if request.text.trim().is_empty() || request.text.contains('\0') {
        let message = "a handoff has a text without zero bytes";
        return Err(Error::invalid(message).code("empty_text").of_input("text"));
    }
    if request.text.len() > TEXT_BYTES_MAX {
        let message = format!("a handoff has at most {} KiB", TEXT_BYTES_MAX / 1024);
        return Err(Error::new(ErrorKind::TooLarge, message).hint("write where the rest is"));
    }
    Ok(())
}

/// Writes a file as a whole: under another name first.
fn save(place: &Utf8Path, name: &str, text: &str) -> Result<()> {
    let failed = || format!("cannot write {name}");
    std::fs::create_dir_all(place).context(ErrorKind::Unavailable, failed)?;
    let (whole, part) = (place.join(name), place.join(format!(".{name}.part")));
    let write = || {
        let mut file = std::fs::File::create(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&part, &whole)
    };
    write().context(ErrorKind::Unavailable, failed)
}

/// The next step of an agent's handover.
enum Next {
    Nothing,
    /// Look for its notes: its turn is over.
    Look,
    /// Create the successor, and ask it to read.
    Follow,
    /// Give the seats to the successor, which has read.
    Seat(String),
    /// Record the failure.
    Fail(&'static str),
    /// End the agent that has handed over.
    End,
}

/// Returns whether an agent's handover has a next step now.
///
/// # Errors
/// As any read.
pub(super) fn is_due(c: &Connection, agent: &Agent, now: Millis) -> Result<bool> {
    match handoff::last(c, &agent.name)? {
        Some(last) => Ok(!matches!(next(c, agent, &last, now)?, Next::Nothing)),
        None => Ok(false),
    }
}

/// Does the next step of an agent's handover; returns whether there was one.
///
/// # Errors
/// As any read and write.
pub(super) async fn step(site: &Site, works: &Works, name: &str) -> Result<bool> {
    let asked = name.to_owned();
    let now = works.store.clock().now();
    let look = move |c: &Connection| {
        let Some(agent) = agent::find(c, &asked)? else { return Ok(None) };
        let Some(last) = handoff::last(c, &asked)? else { return Ok(None) };
        Ok(Some((next(c, &agent, &last, now)?, agent, last)))
    };
    let Some((next, agent, last)) = works.store.read(look).await? else { return Ok(false) };
    let file = match next {
        Next::Nothing => return Ok(false),
        Next::Look => {
            let (data, of) = (works.config.site.data.clone(), agent.clone());
            let (persona, stamp) = (last.persona.clone(), last.stamp.clone());
            let find = move || {
                // By the verb, or by its path: what stands between the two is the summary.
                let begin = format!("{stamp}_");
                let is_own = |it: &String| it.starts_with(&begin) && it.ends_with(&end_of(&of));
                let file = handoffs::names(&data, &persona)?.into_iter().find(is_own);
                Ok(file.filter(|it| {
                    handoffs::text(&data, &persona, it).is_ok_and(|text| !text.trim().is_empty())
                }))
            };
            handoffs::blocking(find).await?
        }
        _ => None,
    };
    let (again, about, is_look) = (site.clone(), works.clone(), matches!(next, Next::Look));
    let write = works.store.write(move |tx| {
        // Somebody else may have been here.
        let Some(agent) = agent::find(tx.connection(), &agent.name)? else { return Ok(None) };
        let Some(last) = handoff::last(tx.connection(), &agent.name)? else { return Ok(None) };
        let due = self::next(tx.connection(), &agent, &last, tx.now())?;
        let is_done_here = match (due, &file) {
            (Next::Nothing, _) => return Ok(None),
            (Next::Look, Some(file)) => handoff::written(tx, &last, file).map(|_| Done::Other),
            (Next::Look, None) if is_look && is_lost(tx.connection(), &agent, &last)? => {
                ask_again(tx, &about, &agent, &last).map(|()| Done::Other)
            }
            (Next::Look, None) if is_look => {
                fail(tx, &about, &last, "not_written").map(|()| Done::Other)
            }
            (Next::Look, None) => Ok(Done::Other),
            (Next::Follow, _) => follow(tx, &about, &agent, &last).map(|()| Done::Followed),
            (Next::Seat(successor), _) => {
                seat(tx, &about, &agent, (&last, &successor)).map(|()| Done::Seated)
            }
            (Next::Fail(why), _) => fail(tx, &about, &last, why).map(|()| Done::Other),
            (Next::End, _) => {
                control::end(tx, &again, &agent, &Actor::System).map(|()| Done::Other)
            }
        };
        tx.ring(mail::BELL);
        is_done_here.map(Some)
    });
    let done = write.await?;
    match done {
        Some(Done::Followed) => fault::crash_point("handover_followed"),
        Some(Done::Seated) => fault::crash_point("handover_seated"),
        Some(Done::Other) | None => {}
    }
    Ok(done.is_some())
}

/// What was done for a handover.
enum Done {
    Followed,
    Seated,
    Other,
}

fn next(c: &Connection, agent: &Agent, last: &Handoff, now: Millis) -> Result<Next> {
    let is_gone = |it: &Agent| {
        it.state == State::Failed || (it.state == State::Stopped && it.wanted == Wanted::Stopped)
    };
    match last.state {
        HandoffState::Asked => {
            let (is_over, since) = mail::outcome(c, &last.message_id)?;
            let is_late = since.is_some_and(|it| now > it.plus(WRITE_MS_MAX));
            Ok(match is_over || is_late {
                true => Next::Look,
                false if is_gone(agent) => Next::Fail("agent_ended"),
                false => Next::Nothing,
            })
        }
        HandoffState::Written => {
            let Some(name) = &last.successor else { return Ok(Next::Follow) };
            let Some(successor) = agent::find(c, name)? else {
                return Ok(Next::Fail("successor_failed"));
            };
            let (has_read, _) = match &last.read_id {
                Some(read) => mail::outcome(c, read)?,
                None => (true, None),
            };
            // Somebody may have seated it elsewhere meanwhile, and an agent has one seat.
            let has_seat = |agent: &str| channels::seat_of(c, agent).map(|it| it.is_some());
            let is_seated_elsewhere = has_seat(name)? && has_seat(&agent.name)?;
            Ok(match successor.state {
                State::Idle if has_read && is_seated_elsewhere => Next::Fail("successor_seated"),
                State::Idle if has_read => Next::Seat(name.clone()),
                _ if is_gone(&successor) => Next::Fail("successor_failed"),
                _ => Next::Nothing,
            })
        }
        HandoffState::Seated if !last.keeps && agent.heir == last.successor => {
            let is_idle = agent.state == State::Idle && mail::open_block(c, &agent.name)?.is_none();
            Ok(if is_idle && agent.wanted == Wanted::Running { Next::End } else { Next::Nothing })
        }
        HandoffState::Seated | HandoffState::Failed => Ok(Next::Nothing),
    }
}

/// Returns whether the process that was asked to write is gone, and the agent starts again.
fn is_lost(c: &Connection, agent: &Agent, last: &Handoff) -> Result<bool> {
    if agent.wanted == Wanted::Stopped {
        return Ok(false);
    }
    let given = mail::given_to(c, &last.message_id)?;
    Ok(agent.state == State::Starting || (given.is_some() && given != agent.job_id))
}

/// Asks the next start of an agent to write down what the one before was asked.
fn ask_again(tx: &Tx<'_>, works: &Works, agent: &Agent, last: &Handoff) -> Result<()> {
    let text = instruction(works, agent, (&last.stamp, last.note.as_deref()));
    let message = handoffs::send(tx, works, (&agent.name, &last.asked_by), text)?;
    handoff::ask_again(tx, last, &message)
}

/// Makes the successor, and tells it to read.
fn follow(tx: &Tx<'_>, works: &Works, agent: &Agent, last: &Handoff) -> Result<()> {
    let made = fresh(tx, agent, &works.config.digest)?;
    agent::show(tx, &made, State::Starting, ("asked", None), &last.asked_by)?;
    let files: Vec<String> = last.file.clone().into_iter().collect();
    let note = last.note.as_deref();
    let read = handoffs::tell_to_read(tx, works, (&made, &files), (note, &last.asked_by))?;
    handoff::follow(tx, last, (&made.name, &read))
}

/// Gives the successor everything that the agent had.
fn seat(
    tx: &Tx<'_>,
    works: &Works,
    agent: &Agent,
    (last, successor): (&Handoff, &str),
) -> Result<()> {
    let c = tx.connection();
    let ground = Ground::of(works);
    for (room, member) in channels::seats_of(c, &agent.name)? {
        let channel = channels::find(c, room)?;
        let found = channels::find_member(c, room, &member)?;
        let Some(member) = found.filter(|_| channel.status.is_open()) else { continue };
        let who = (agent, successor, &last.asked_by);
        take_over(tx, &ground, (&channel, &member), who, Some(last.asked_at))?;
        let line = format!("{successor} goes on for {}, who has handed over.", agent.name);
        say_in(tx, &ground, room, line)?;
    }
    mail::take_over_direct(tx, &agent.name, successor)?;
    agent::set_heir(tx, &agent.name, Some(successor))?;
    // It is what the other was: started for a channel, or not.
    agent::rest_as(tx, successor, agent.rests)?;
    if last.keeps {
        agent::rest_as(tx, &agent.name, None)?;
    }
    handoff::seated(tx, last)
}

/// Records that a handover failed, and tells the channels: the agent keeps its seats.
fn fail(tx: &Tx<'_>, works: &Works, last: &Handoff, why: &str) -> Result<()> {
    handoff::failed(tx, last, why)?;
    let ground = Ground::of(works);
    let said = match why {
        "not_written" => "it wrote nothing",
        "successor_failed" => "its successor did not start",
        "successor_seated" => "its successor was given another seat",
        _ => "it ended",
    };
    for (room, _) in channels::seats_of(tx.connection(), &last.agent)? {
        let line = format!(
            "{} was not handed over: {said}. It keeps its seat; Start fresh gives it to another.",
            last.agent
        );
        say_in(tx, &ground, room, line)?;
    }
    Ok(())
}
