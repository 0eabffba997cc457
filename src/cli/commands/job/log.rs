//! `wiki-browser job log`: an agent's transcript, or its output.

use crate::api::jobs::{Cut, LogText};
use crate::base::{Error, Result};
use crate::cli::commands::Desk;
use crate::cli::commands::job::transcript::{self, Transcript};
use crate::cli::terminal::screen::{Form, typed};
use crate::cli::terminal::short_id::Noun;
use crate::client::Client;

/// Prints the steps of a job's agent, or its output.
///
/// # Errors
/// What the server refuses.
pub(in crate::cli::commands) fn run(
    desk: &Desk,
    given: &str,
    stream: Option<&str>,
    raw: bool,
) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    if let Some(stream) = stream {
        return print_output(desk, &client, &id, stream);
    }
    let job = client.get(&format!("/api/agent/jobs/{id}"))?;
    let has_steps = transcript::has_steps(&job);
    let is_for_person = *desk.screen.form() == Form::Words;
    let has_complaints = |client: &Client| {
        let page: LogText = typed(&client.get(&log_route(&id, "stderr", 0))?)?;
        Ok::<bool, Error>(page.total != 0)
    };
    if has_steps && !raw {
        let mut steps = Transcript::default();
        while let Some((lines, page)) = steps.next(&desk.screen, &client, &id)? {
            desk.screen
                .answer(&page, |screen, _| lines.iter().try_for_each(|it| screen.put(it)))?;
        }
        if !is_for_person {
            return Ok(());
        }
        transcript::spent(&job).iter().try_for_each(|it| desk.screen.put(it))?;
        if has_complaints(&client)? {
            desk.screen.note("standard error:");
            print_output(desk, &client, &id, "stderr")?;
        }
        return Ok(());
    }
    let is_error = !has_steps && (!is_for_person || has_complaints(&client)?);
    print_output(desk, &client, &id, if is_error { "stderr" } else { "stdout" })
}

fn print_output(desk: &Desk, client: &Client, id: &str, stream: &str) -> Result<()> {
    let (mut offset, mut is_said) = (0, false);
    loop {
        let answer = client.get(&log_route(id, stream, offset))?;
        let page: LogText = typed(&answer)?;
        desk.screen.answer(&answer, |screen, _| {
            if let (Some(Cut { from, to }), false) = (page.cut, is_said) {
                is_said = true;
                screen.note(&format!("[{} bytes not kept]", to.saturating_sub(from)));
            }
            screen.raw(&page.text)
        })?;
        if page.next_offset <= offset || page.next_offset >= page.total {
            return Ok(());
        }
        offset = page.next_offset;
    }
}

/// Returns the route of a part of an agent's output.
pub(in crate::cli::commands) fn log_route(id: &str, stream: &str, offset: u64) -> String {
    format!("/api/agent/jobs/{id}/log?stream={stream}&offset={offset}")
}
