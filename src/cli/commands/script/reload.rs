//! `wiki-browser reload` and `schedule`: the script of a server, and what it does by itself.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::base::Result;
use crate::cli::commands::{Desk, line, text};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::Style;
use crate::cli::terminal::short_id::items;
use crate::cli::terminal::table::Table;
use crate::script::Shown;

/// Most lines of a command that `reload` prints.
const COMMAND_LINES_MAX: usize = 40;

/// `reload`.
#[derive(Args, Debug)]
#[command(after_help = "\
Exits 0 if the script was loaded, 1 if it is invalid or would lose waiting jobs; then the previous
one stays active. Prints the commands that run around agents. Running jobs keep the script
they started with. A renamed kind takes over the waiting jobs of its old name with `was`; jobs of a
removed inbox wait until it returns. SIGHUP reloads without --drop.

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

/// What can be done with schedules.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ScheduleCommand {
    /// List schedules, with the last result and the next run
    List,
}

/// Has the server read its script again; returns 0 or 1.
pub(in crate::cli::commands) fn run(desk: &Desk, args: &ReloadArgs) -> Result<u8> {
    let answer = desk
        .client()?
        .post("/api/config/reload", &json!({"dry_run": args.dry_run, "drop": args.drop}))?;
    let is_right = answer["ok"] == true;
    desk.screen.answer(&answer, |_, answer| match is_right {
        true => right(desk, answer),
        false => wrong(desk, answer),
    })?;
    Ok(u8::from(!is_right))
}

fn wrong(desk: &Desk, answer: &Value) -> Result<()> {
    differences(desk, &answer["difference"])?;
    let trouble = &answer["trouble"];
    for error in trouble["errors"].as_array().into_iter().flatten() {
        // It makes harmless what it quotes, as for `check`.
        desk.screen.put(&format!("{}\n", Shown::error(error)))?;
    }
    let number = &answer["generation"];
    desk.screen.put(&format!("{}: generation {number} stays active", line(trouble, "summary")))
}

fn right(desk: &Desk, answer: &Value) -> Result<()> {
    let difference = &answer["difference"];
    differences(desk, difference)?;
    for lost in answer["lost"].as_array().into_iter().flatten() {
        let (kind, count) = (text(lost, "kind"), &lost["jobs"]);
        let verb = if answer["dry_run"] == true { "would be" } else { "were" };
        let said = format!("{count} waiting jobs of kind \"{kind}\" {verb} cancelled");
        desk.screen.put(&desk.screen.paint(Style::Red, &escape::line(&said)))?;
    }
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        desk.screen.note(&escape::line(warning.as_str().unwrap_or_default()));
    }
    let files = difference["files"].as_array().map_or(0, Vec::len);
    let number = &answer["generation"];
    let said = match (answer["dry_run"] == true, files) {
        (true, 0) => format!("no changes from generation {number}"),
        (true, _) => format!("the script is valid; generation {number} stays active"),
        (false, _) => format!("generation {number} is active"),
    };
    desk.screen.put(&desk.screen.paint(Style::Green, &said))
}

/// Prints what another script has different.
fn differences(desk: &Desk, difference: &Value) -> Result<()> {
    for change in difference["changes"].as_array().into_iter().flatten() {
        let is_agent = text(change, "what").starts_with("agent ");
        let waiting = match change["waiting"].as_i64() {
            Some(1) if is_agent => ": 1 message is waiting until it returns".to_owned(),
            Some(count) if is_agent && count > 0 => {
                format!(": {count} messages are waiting until it returns")
            }
            Some(1) => ": 1 job is waiting".to_owned(),
            Some(count) if count > 0 => format!(": {count} jobs are waiting"),
            _ => String::new(),
        };
        let style = if waiting.is_empty() { Style::Dim } else { Style::Red };
        let said = format!("{:<8} {}{waiting}", text(change, "how"), text(change, "what"));
        desk.screen.put(&desk.screen.paint(style, &escape::line(&said)))?;
        for run in change["runs"].as_array().into_iter().flatten() {
            commands(desk, text(run, "when"), text(run, "command"))?;
        }
    }
    for name in difference["needs_restart"].as_array().into_iter().flatten() {
        let name = escape::line(name.as_str().unwrap_or_default());
        desk.screen.put(&format!("{name} takes effect after a restart"))?;
    }
    Ok(())
}

/// Prints what a declaration has executed, line by line.
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
    desk.screen.answer(&answer, |screen, answer| {
        let mut table = Table::new(&["SCHEDULE", "WHEN", "KIND", "NEXT", "LAST", "CAME TO"]);
        for it in items(answer) {
            let last = desk.ago(&it["last_at"]);
            let came = match text(it, "last_error") {
                "" => text(it, "last_status"),
                error => error,
            };
            let kind = match text(it, "kind") {
                "" => text(it, "at"),
                kind => kind,
            };
            table.row([text(it, "name"), text(it, "when"), kind, text(it, "next_at"), &last, came]);
        }
        screen.table(&table, "the script has no schedules")
    })
}
