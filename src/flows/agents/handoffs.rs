//! The handoffs of a persona: files that its agents wrote for their successors.
//!
//! **Invariant:** an agent reads exactly those that a message has told it to read.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rusqlite::Connection;
use serde_json::Value;

use crate::api::handoffs::{
    HandoffList, HandoffQuery, HandoffText, HandoffView, RehydrateRequest, Rehydrated, SectionView,
};
use crate::api::mail::Sort;
use crate::base::{
    Actor, Address, Context, Error, ErrorKind, MailId, Millis, Result, is_segment, truncate_chars,
};
use crate::flows::agents::{control, show};
use crate::flows::perspectives::personas;
use crate::flows::{Site, Works};
use crate::mail::agent::{self, Agent};
use crate::mail::{self, NewMessage};
use crate::people::{Caller, is_persona_name};
use crate::process::Root;
use crate::script::kind_of_agent;
use crate::store::Tx;
use crate::turns::handoff::{self, Handoff};

/// Largest handoff, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 200;
/// Longest note of a person, in characters.
const NOTE_CHARS_MAX: usize = 2_000;
/// Most handoffs that a list tells.
const LISTED_MAX: usize = 200;
/// Most names listed in the folder: they come in no order.
const NAMES_MAX: usize = 100_000;
/// Most handoffs of one persona that are looked at.
const LOOKED_AT_MAX: usize = 2_000;
/// Most handoffs that an agent is told to read at once.
const FILES_MAX: usize = 10;
/// Longest line of a section that is told, in characters.
const LINE_CHARS_MAX: usize = 200;
/// Most sections that are told.
const SECTIONS_MAX: usize = 12;

/// Returns the persona of an agent.
pub(super) fn persona_of(agent: &Agent) -> String {
    agent.persona.clone().unwrap_or_else(|| agent.declared.clone())
}

/// Returns the folder of the handoffs of a persona, below the data folder.
pub(super) fn folder(persona: &str) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("personas/{persona}/handoffs"))
}

/// Returns the end of the names of an agent's handoffs.
pub(super) fn end_of(agent: &Agent) -> String {
    format!("_agent-{}.md", agent.number)
}

/// Refuses a note that is too long.
///
/// # Errors
/// `invalid` with code `bad_parameter`.
pub(super) fn check_note(note: Option<&str>) -> Result<()> {
    match note.is_some_and(|it| it.chars().count() > NOTE_CHARS_MAX || it.contains('\0')) {
        true => Err(Error::invalid(format!("a note has at most {NOTE_CHARS_MAX} characters"))
            .code("bad_parameter")
            .of_input("note")),
        false => Ok(()),
    }
}

/// Returns the names of the handoffs of a persona, newest first.
pub(super) fn names(data: &Utf8Path, persona: &str) -> Result<Vec<String>> {
    let entries = match data.join(folder(persona)).read_dir_utf8() {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => {
            return Err(cause)
                .context(ErrorKind::Unavailable, || "cannot list handoffs".to_owned());
        }
    };
    let mut found: Vec<String> = entries
        .take(NAMES_MAX)
        .filter_map(|it| Some(it.ok()?.file_name().to_owned()))
        .filter(|it| is_name(it))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.truncate(LOOKED_AT_MAX);
    Ok(found)
}

/// Returns whether a file can be a handoff: a name, and never a path. Longer than a segment of an
/// address, because a stamp, a summary and an agent's number are in it.
fn is_name(file: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let Some(name) = file.strip_suffix(".md").filter(|_| file.len() <= NAME_BYTES_MAX) else {
        return false;
    };
    name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(is_plain)
}

/// Reads a handoff: a plain file below the data folder, not too large.
pub(super) fn text(data: &Utf8Path, persona: &str, file: &str) -> Result<String> {
    let path = folder(persona).join(file);
    let (bytes, _) = Root::open(data)?.read_relative(&path, TEXT_BYTES_MAX)?;
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid(format!("{file} is not UTF-8")).code("not_text"))
}

/// Does what reads or writes files.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::internal("the work on a handoff ended").source(cause))?
}

/// Returns the handoffs of a persona, newest first: what is in the folder, with what is known, and
/// those that were written and whose files are gone.
///
/// # Errors
/// `forbidden` for a job; `not_found` with code `no_persona` for a name that is none.
pub async fn list(
    site: &Site,
    caller: &Caller,
    persona: &str,
    query: HandoffQuery,
) -> Result<HandoffList> {
    caller.person()?;
    let limit = query.limit.map_or(LISTED_MAX, |it| it as usize).clamp(1, LISTED_MAX);
    let persona = known(site, persona).await?;
    let (data, name) = (site.config.site.data.clone(), persona.clone());
    let is_detailed = query.detail == Some(true);
    let files = blocking(move || {
        let mut files = Vec::new();
        let names = names(&data, &name)?;
        for file in names.iter().take(limit) {
            let Ok(text) = text(&data, &name, file) else { continue };
            let sections = if is_detailed { sections(&text) } else { Vec::new() };
            files.push((file.clone(), Some(text.len() as u64), sections));
        }
        Ok((files, names))
    });
    let (files, names) = files.await?;
    let data = site.config.site.data.clone();
    site.store
        .read(move |c| {
            let mut files = files.clone();
            for row in handoff::of_persona(c, &persona, LOOKED_AT_MAX as u32)? {
                let gone = row.file.filter(|it| !names.contains(it));
                files.extend(gone.map(|file| (file, None, Vec::new())));
            }
            files.sort_by(|a, b| b.0.cmp(&a.0));
            let mut items = Vec::new();
            for (file, bytes, sections) in files.into_iter().take(limit) {
                let path = data.join(folder(&persona)).join(&file).into_string();
                items.push(view(c, &persona, &file, (path, bytes, sections))?);
            }
            Ok(HandoffList { items })
        })
        .await
}

/// Returns a handoff of a persona with its text, for people.
///
/// # Errors
/// `forbidden` for a job; `not_found`: `no_persona`, `no_handoff`; `invalid` with code `not_text`.
pub async fn find(
    site: &Site,
    caller: &Caller,
    persona: &str,
    file: &str,
) -> Result<(HandoffView, String)> {
    caller.may_read()?;
    caller.person()?;
    let (persona, file) = (known(site, persona).await?, file.to_owned());
    if !is_name(&file) {
        return Err(no_handoff(&persona, &file));
    }
    let (data, name, asked) = (site.config.site.data.clone(), persona.clone(), file.clone());
    let read = blocking(move || {
        let missing = |cause: Error| match cause.kind() {
            ErrorKind::NotFound => no_handoff(&name, &asked),
            _ => cause,
        };
        let path = data.join(folder(&name)).join(&asked).into_string();
        text(&data, &name, &asked).map(|text| (path, text)).map_err(missing)
    });
    let (path, text) = read.await?;
    let bytes = Some(text.len() as u64);
    let view = site.store.read(move |c| view(c, &persona, &file, (path, bytes, Vec::new())));
    Ok((view.await?, text))
}

fn no_handoff(persona: &str, file: &str) -> Error {
    let shown = truncate_chars(file, 80);
    Error::not_found(format!("there is no handoff {}", shown.escape_debug()))
        .code("no_handoff")
        .hint(format!("`wiki-browser persona handoffs {persona}` lists them"))
}

/// Returns the name of a persona that has a file, agents or handoffs, or had agents.
async fn known(site: &Site, persona: &str) -> Result<String> {
    let none = || Error::not_found("there is no such persona").code("no_persona");
    if !is_segment(persona) {
        return Err(none());
    }
    let works = site.works.now();
    let place = works.config.site.data.join(folder(persona));
    let is_declared = works.config.kinds.contains_key(&kind_of_agent(persona));
    if is_declared || blocking(move || Ok(place.is_dir())).await? {
        return Ok(persona.to_owned());
    }
    let agents = site.store.read(agent::list).await?;
    if agents.iter().any(|it| persona_of(it) == persona) {
        return Ok(persona.to_owned());
    }
    if !is_persona_name(persona) {
        return Err(none());
    }
    match personas::find(&works.repo, &works.config.folder, persona).await {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Err(none()),
        // One that is wrong is there.
        _ => Ok(persona.to_owned()),
    }
}

/// What the name of a file says.
#[derive(Debug, Default, PartialEq)]
struct Named {
    at: Option<Millis>,
    summary: Option<String>,
    number: Option<i64>,
}

impl Named {
    /// Reads `STAMP_SUMMARY_agent-N.md`, and two forms of other programs: `STAMP_SUMMARY_N.md` and
    /// `STAMP-N.md`.
    fn of(file: &str) -> Named {
        let name = file.trim_end_matches(".md");
        let Some(place) = name.find(['_', '-']) else { return Named::default() };
        let Some(at) = moment(&name[..place]) else { return Named::default() };
        let rest = &name[place + 1..];
        let with = |summary: Option<&str>, number: &str| {
            let number: i64 = number.parse().ok()?;
            Some(Named { at: Some(at), summary: summary.map(str::to_owned), number: Some(number) })
        };
        let named = match name.as_bytes()[place] {
            b'-' => with(None, rest),
            _ => match rest.rsplit_once("_agent-").or(rest.rsplit_once('_')) {
                Some((summary, number)) => with(Some(summary), number),
                None => None,
            },
        };
        named.unwrap_or(Named { at: Some(at), ..Named::default() })
    }
}

/// Reads a stamp, with or without its `Z`.
fn moment(stamp: &str) -> Option<Millis> {
    let bare = stamp.strip_suffix('Z').unwrap_or(stamp);
    let time = DateTime::strptime("%Y%m%dT%H%M%S", bare).ok()?;
    Some(Millis(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond()))
}

fn view(
    c: &Connection,
    persona: &str,
    file: &str,
    (path, bytes, sections): (String, Option<u64>, Vec<SectionView>),
) -> Result<HandoffView> {
    let stamp = file.split('_').next().unwrap_or_default();
    let row = handoff::of_stamp(c, persona, stamp)?;
    let row: Option<Handoff> = row.filter(|it| it.file.as_deref() == Some(file));
    let named = Named::of(file);
    let agent = match (&row, named.number) {
        (Some(row), _) => Some(row.agent.clone()),
        (None, Some(number)) => Some(author(c, persona, number)?),
        (None, None) => None,
    };
    Ok(HandoffView {
        file: file.to_owned(),
        path,
        at: row.as_ref().map(|it| it.asked_at).or(named.at),
        summary: named.summary,
        agent,
        bytes: bytes.unwrap_or_default(),
        is_gone: bytes.is_none(),
        state: row.as_ref().map(|it| it.state.as_str().to_owned()),
        read_by: handoff::readers(c, persona, file)?,
        sections,
    })
}

/// Returns the agent of a persona with a number; of one that is not here, the number.
fn author(c: &Connection, persona: &str, number: i64) -> Result<String> {
    let is_so = |it: &Agent| it.number == number && persona_of(it) == persona;
    let found = agent::list(c)?.into_iter().find(is_so);
    Ok(found.map_or_else(|| format!("agent-{number}"), |it| it.name))
}

/// Returns the headings of a handoff, each with its first line.
fn sections(text: &str) -> Vec<SectionView> {
    let mut found: Vec<SectionView> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('#') {
            if found.len() == SECTIONS_MAX {
                break;
            }
            let name = truncate_chars(name.trim_start_matches('#').trim(), LINE_CHARS_MAX);
            found.push(SectionView { name, line: String::new() });
        } else if let Some(last) = found.last_mut().filter(|it| it.line.is_empty()) {
            last.line = truncate_chars(line, LINE_CHARS_MAX);
        }
    }
    found
}

/// Returns the text of a handoff that the agent who asks was told to read.
///
/// # Errors
/// `not_found` with code `no_handoff` for every other one.
pub async fn read(site: &Site, caller: &Caller, file: &str) -> Result<HandoffText> {
    let (job, _) = caller.job()?;
    let (job, asked) = (job.clone(), file.to_owned());
    let persona = site.store.read(move |c| match control::agent_of_job(c, &job)? {
        Some(agent) => handoff::may_read(c, &agent.name, &asked),
        None => Ok(None),
    });
    let Some(persona) = persona.await? else {
        let shown = truncate_chars(file, 80);
        let message = format!("no message has told you to read {}", shown.escape_debug());
        return Err(Error::not_found(message).code("no_handoff"));
    };
    let (data, name) = (site.config.site.data.clone(), file.to_owned());
    let text = blocking(move || text(&data, &persona, &name)).await?;
    Ok(HandoffText { file: file.to_owned(), text: Some(text) })
}

/// Tells an agent to read handoffs of its persona.
///
/// # Errors
/// `not_found`: `no_agent`, `no_handoff`; `conflict`: `handed_over`; `invalid`: `bad_parameter`.
pub async fn rehydrate(
    site: &Site,
    caller: &Caller,
    name: &str,
    request: RehydrateRequest,
) -> Result<Rehydrated> {
    let by = Actor::Person(caller.may_write()?.id.clone());
    check_note(request.note.as_deref())?;
    let asked = name.to_owned();
    let agent = site.store.read(move |c| show::find(c, &asked)).await?;
    if agent.heir.is_some() {
        return Err(control::handed_over(&agent));
    }
    let (data, persona) = (site.config.site.data.clone(), persona_of(&agent));
    let all = blocking(move || names(&data, &persona)).await?;
    let files = match request.files.is_empty() {
        true => all.first().cloned().into_iter().collect(),
        false => request.files.clone(),
    };
    let gone = files.iter().find(|it| !all.contains(it));
    if files.is_empty() || gone.is_some() || files.len() > FILES_MAX {
        let gone = gone.map_or("of this persona", String::as_str);
        return Err(no_handoff(&persona_of(&agent), gone));
    }
    let (works, told) = (site.works.clone(), files.clone());
    let write = site.store.write(move |tx| {
        let agent = show::find(tx.connection(), &agent.name)?;
        tell_to_read(tx, &works, (&agent, &told), (request.note.as_deref(), &by))
    });
    Ok(Rehydrated { message_id: write.await?, files })
}

/// Tells an agent to read handoffs, and lets it.
pub(super) fn tell_to_read(
    tx: &Tx<'_>,
    works: &Works,
    (agent, files): (&Agent, &[String]),
    (note, by): (Option<&str>, &Actor),
) -> Result<MailId> {
    let persona = persona_of(agent);
    let wb_agent = &works.wb_agent;
    let mut text = "Read what was written for you, and go on from there. Nobody waits for an \
                    answer to this: what you are asked comes after it.\n\n"
        .to_owned();
    for file in files {
        handoff::let_read(tx, (&persona, file), (&agent.name, by))?;
        text.push_str(&format!("  {wb_agent} handoff read {file}\n"));
    }
    if let Some(note) = note {
        text.push_str(&format!("\nNote: {note}\n"));
    }
    send(tx, works, (&agent.name, by), text)
}

/// Sends an agent a message that has no answer.
pub(super) fn send(
    tx: &Tx<'_>,
    works: &Works,
    (agent, by): (&str, &Actor),
    text: String,
) -> Result<MailId> {
    let to = Address::Agent(agent.to_owned());
    let message = NewMessage {
        sort: Sort::Notice,
        sender: by.clone(),
        from: None,
        to: to.clone(),
        payload: Value::String(text),
        category: Some("handoff".to_owned()),
        in_reply_to: None,
        reply_to: None,
        depth: 0,
        job_id: None,
        approval_id: None,
    };
    let id = mail::send(tx, &works.ids, &message)?;
    mail::deliver(tx, (&id, by), &to, None, None)?;
    tx.ring(mail::BELL);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handoff_has_a_name_and_never_a_path() {
        let longest = format!("20260301T102332Z_{}_agent-1234.md", "a".repeat(60));
        for name in [longest.as_str(), "20260301T102332Z_locking-complete_agent-3.md", "notes.md"] {
            assert!(is_name(name), "{name}");
        }
        let long = format!("{}.md", "a".repeat(NAME_BYTES_MAX));
        for name in
            ["", ".md", "..md", "../a.md", "a/b.md", "a.md.md", "-a.md", "a.txt", "a\0.md", &long]
        {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn the_name_of_a_file_says_when_it_was_written_by_whom_and_about_what() {
        let at = Some(Millis(1_772_360_612_000));
        let named = |summary: Option<&str>, number: Option<i64>| Named {
            at,
            summary: summary.map(str::to_owned),
            number,
        };
        for (file, expected) in [
            (
                "20260301T102332Z_locking-complete_agent-342.md",
                named(Some("locking-complete"), Some(342)),
            ),
            ("20260301T102332Z_foo-bar_342.md", named(Some("foo-bar"), Some(342))),
            ("20260301T102332-00000342.md", named(None, Some(342))),
            ("20260301T102332Z_my_notes.md", named(None, None)),
            ("20261301T102332Z_a_agent-3.md", Named::default()),
            ("notes.md", Named::default()),
            ("my-notes_agent-3.md", Named::default()),
        ] {
            assert_eq!(Named::of(file), expected, "{file}");
        }
    }

    #[test]
    fn sections_are_told_by_their_first_line() {
        let text = "# Handoff\n\n## Current work\n\nMoving skills.\nMore.\n## Next steps\n";
        let found: Vec<(String, String)> =
            sections(text).into_iter().map(|it| (it.name, it.line)).collect();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            found,
            [pair("Handoff", ""), pair("Current work", "Moving skills."), pair("Next steps", "")]
        );
    }
}
