//! `wiki-browser reload` and `schedule`: the script of a server, and its schedules.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::api::config::ScheduleView;
use crate::base::{Page, Result};
use crate::cli::commands::{Desk, plain};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Style, typed};
use crate::cli::terminal::table::Table;
use crate::flows::automation::reload::{Difference, Reloaded};

/// Most lines of a command that `reload` prints.
const COMMAND_LINES_MAX: usize = 40;

/// `reload`.
#[derive(Args, Debug)]
#[command(after_help = "\
Exits 0 if the script was loaded, 1 if it is invalid or would lose waiting jobs; then the previous
one stays active. Prints the commands that run around agents. Running jobs keep the script
they started with. A renamed kind takes over the waiting jobs of its old name with `was`; jobs of a
removed inbox wait until it returns; --drop cancels parked ones. SIGHUP reloads without --drop.

Examples:
  wiki-browser reload --dry-run
  wiki-browser reload --json")]
pub(in crate::cli) struct ReloadArgs {
    /// Only report what would change
    #[arg(long)]
    dry_run: bool,
    /// Cancel waiting jobs that the new script cannot run
    #[arg(long)]
    drop: bool,
}

/// Commands on schedules.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ScheduleCommand {
    /// List schedules, with the last result and the next run
    List,
}

/// Makes the server reload its script; returns 0 or 1.
pub(in crate::cli::commands) fn run(desk: &Desk, args: &ReloadArgs) -> Result<u8> {
    let answer = desk
        .client()?
        .post("/api/config/reload", &json!({"dry_run": args.dry_run, "drop": args.drop}))?;
    let reloaded: Reloaded = typed(&answer)?;
    desk.screen.answer(&answer, |_, _| match reloaded.ok {
        true => right(desk, &reloaded),
        false => wrong(desk, &reloaded),
    })?;
    Ok(u8::from(!reloaded.ok))
}

fn wrong(desk: &Desk, answer: &Reloaded) -> Result<()> {
    differences(desk, answer.difference.as_ref())?;
    let trouble = answer.trouble.as_ref();
    for error in trouble.map_or(&[][..], |it| &it.errors) {
        // It escapes what it quotes, as for `check`.
        desk.screen.put(&format!("{error}\n"))?;
    }
    answer.warnings.iter().for_each(|it| desk.screen.note(&escape::line(it)));
    let (summary, number) = (plain(trouble.map(|it| &it.summary)), answer.generation);
    desk.screen.put(&format!("{summary}: generation {number} stays active"))
}

fn right(desk: &Desk, answer: &Reloaded) -> Result<()> {
    let difference = answer.difference.as_ref();
    differences(desk, difference)?;
    for lost in &answer.lost {
        let (kind, count) = (&lost.kind, lost.jobs);
        let verb = match (answer.dry_run, count) {
            (true, _) => "would be",
            (false, 1) => "was",
            (false, _) => "were",
        };
        let s = if count == 1 { "" } else { "s" };
        let said = format!("{count} job{s} of kind \"{kind}\" {verb} cancelled");
        desk.screen.put(&desk.screen.paint(Style::Red, &escape::line(&said)))?;
    }
    answer.warnings.iter().for_each(|it| desk.screen.note(&escape::line(it)));
    let files = difference.map_or(0, |it| it.files.len());
    let number = answer.generation;
    let said = match (answer.dry_run, files) {
        (true, 0) => format!("no changes from generation {number}"),
        (true, _) => format!("the script is valid; generation {number} stays active"),
        (false, _) => format!("generation {number} is active"),
    };
    desk.screen.put(&desk.screen.paint(Style::Green, &said))
}

/// Prints the differences of another script.
fn differences(desk: &Desk, difference: Option<&Difference>) -> Result<()> {
    let Some(difference) = difference else { return Ok(()) };
    for change in &difference.changes {
        let (is_agent, is_inbox) =
            (change.what.starts_with("agent "), change.what.starts_with("inbox "));
        let noun = if is_agent { "message" } else { "job" };
        let until = match (is_agent, is_inbox) {
            (true, _) => "; dropped at the next start or within an hour, unless it returns before",
            (_, true) => " until it returns",
            _ => "",
        };
        let parked = change.parked.unwrap_or(0);
        let waiting = change.waiting.unwrap_or(0) - parked;
        let count = |count: i64, doing: &str| match count {
            0 => None,
            1 => Some(format!("1 {noun} is {doing}{until}")),
            count => Some(format!("{count} {noun}s are {doing}{until}")),
        };
        let parts = [count(waiting, "waiting"), count(parked, "parked")];
        let waiting: Vec<String> = parts.into_iter().flatten().collect();
        let style = if waiting.is_empty() { Style::Dim } else { Style::Red };
        let colon = if waiting.is_empty() { "" } else { ": " };
        let waiting = waiting.join(", ");
        let said = format!("{:<8} {}{colon}{waiting}", change.how, change.what);
        desk.screen.put(&desk.screen.paint(style, &escape::line(&said)))?;
        for run in &change.runs {
            commands(desk, &run.when, &run.command)?;
        }
    }
    for name in &difference.needs_restart {
        let name = escape::line(name);
        desk.screen.put(&format!("{name} takes effect after a restart"))?;
    }
    Ok(())
}

/// Prints the commands of a declaration, line by line.
fn commands(desk: &Desk, when: &str, command: &str) -> Result<()> {
    let lines: Vec<&str> = command.trim_end().lines().collect();
    let shown = lines.iter().take(COMMAND_LINES_MAX);
    for (number, line) in shown.enumerate() {
        let head = if number == 0 { when } else { "" };
        desk.screen.put(&escape::line(&format!("           {head:<8} {line}")))?;
    }
    if lines.len() > COMMAND_LINES_MAX {
        let more = lines.len() - COMMAND_LINES_MAX;
        desk.screen.put(&format!("                    … {more} more lines"))?;
    }
    Ok(())
}

/// Runs a command on schedules.
pub(in crate::cli::commands) fn schedule(desk: &Desk, command: &ScheduleCommand) -> Result<()> {
    let ScheduleCommand::List = command;
    let answer = desk.client()?.get("/api/schedules")?;
    desk.screen.tell(&answer, |screen, page: Page<ScheduleView>| {
        let mut table = Table::new(&["SCHEDULE", "WHEN", "KIND", "NEXT", "LAST", "CAME TO"]);
        for it in &page.items {
            let last = desk.since(it.last_at);
            let came = it.last_error.as_ref().or(it.last_status.as_ref());
            let came = came.map_or("", String::as_str);
            let next = it.next_at.map_or_else(String::new, |at| at.rfc3339());
            let kind = it.kind.as_ref().unwrap_or(&it.at);
            table.row([&it.name, &it.when, kind, &next, &last, came]);
        }
        screen.table(&table, "the script has no schedules")
    })
}
