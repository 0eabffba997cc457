//! `wiki-browser usage` and `engine`: what was spent, what may be spent, and what is held.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::base::Result;
use crate::base::limit::format_duration;
use crate::cli::commands::{Desk, line, text};
use crate::cli::terminal::escape;
use crate::cli::terminal::short_id::items;
use crate::cli::terminal::table::Table;
use crate::client::query;

/// `usage`.
#[derive(Args, Debug)]
#[command(after_help = "\
Days are in UTC. Jobs count on the day they ended; jobs cancelled before they started are not
counted. Costs are as reported by the agents.

Examples:
  wiki-browser usage
  wiki-browser usage --by kind --since 2026-01-01
  wiki-browser usage --by person --json")]
pub(in crate::cli) struct UsageArgs {
    /// What to group by
    #[arg(long, value_name = "WHAT", default_value = "day",
          value_parser = ["day", "kind", "person", "engine"])]
    by: String,
    /// First day (2026-01-02) [default: 30 days ago]
    #[arg(long, value_name = "DAY")]
    since: Option<String>,
}

/// What can be done with engines.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum EngineCommand {
    /// List engines, and which are on hold
    List,
    /// Release an engine that is on hold because of a rate limit
    Release {
        /// Name of the engine
        name: String,
    },
}

/// Prints sums, and the daily caps with what is used of them.
pub(super) fn run(desk: &Desk, args: &UsageArgs) -> Result<()> {
    let client = desk.client()?;
    let pairs = [("by", Some(args.by.as_str())), ("since", args.since.as_deref())];
    let answer = client.get(&query("/api/usage", &pairs))?;
    desk.screen.answer(&answer, |screen, answer| {
        let head = match args.by.as_str() {
            "kind" => "KIND",
            "person" => "PERSON",
            "engine" => "ENGINE",
            _ => "DAY",
        };
        let mut table = Table::new(&[
            head, "JOBS", "OK", "FAILED", "STOPPED", "LIMITED", "IN", "CACHED", "OUT", "COST",
            "TIME",
        ]);
        let total = &answer["total"];
        let has_total = items(answer).len() > 1;
        for it in items(answer).iter().chain(has_total.then_some(total)) {
            let name = match (text(it, "display_name"), text(it, "name")) {
                ("", "") if has_total && std::ptr::eq(it, total) => "total",
                ("", "") => "(unknown)",
                ("", name) => name,
                (shown, _) => shown,
            };
            let count = |name: &str| it[name].as_i64().unwrap_or(0);
            let failed = count("failed") + count("timed_out");
            let cells = [
                name.to_owned(),
                count("jobs").to_string(),
                count("succeeded").to_string(),
                failed.to_string(),
                count("cancelled").to_string(),
                count("rate_limited").to_string(),
                count("input_tokens").to_string(),
                count("cached_tokens").to_string(),
                count("output_tokens").to_string(),
                format!("{:.4}", it["cost_usd"].as_f64().unwrap_or(0.0)),
                time(count("agent_ms")),
            ];
            table.row(cells.each_ref().map(String::as_str));
        }
        screen.table(&table, "no usage")?;
        caps(desk, answer)
    })
}

fn caps(desk: &Desk, answer: &Value) -> Result<()> {
    for cap in answer["caps"].as_array().into_iter().flatten() {
        let shown = |name: &str| {
            let number = cap[name].as_f64().unwrap_or(0.0);
            match text(cap, "measure") {
                "cost_usd" => format!("{number:.2} USD"),
                "tokens" => format!("{number:.0} tokens"),
                _ => time(number as i64),
            }
        };
        let of = cap["display_name"].as_str().or_else(|| cap["of"].as_str());
        let of = of.map_or_else(String::new, |it| format!(" of {it}"));
        let spent = match cap["is_spent"].as_bool() {
            Some(true) => format!(": used up until {}", text(cap, "frees_at")),
            _ => String::new(),
        };
        let (used, limit) = (shown("used"), shown("limit"));
        let said = format!("{}{of} today: {used} of {limit}{spent}", text(cap, "cap"));
        desk.screen.note(&escape::line(&said));
    }
    Ok(())
}

/// Returns a time as a person reads it, in whole seconds.
fn time(ms: i64) -> String {
    match u64::try_from(ms / 1_000).unwrap_or(0) {
        0 if ms > 0 => "<1s".to_owned(),
        0 => "0s".to_owned(),
        seconds @ 1..=599 => format_duration(Duration::from_secs(seconds)),
        seconds => format_duration(Duration::from_secs(seconds / 60 * 60)),
    }
}

/// Runs a command on engines.
pub(super) fn engine(desk: &Desk, command: EngineCommand) -> Result<()> {
    let client = desk.client()?;
    match command {
        EngineCommand::List => {
            let answer = client.get("/api/engines")?;
            desk.screen.answer(&answer, |screen, answer| {
                let mut table =
                    Table::new(&["ENGINE", "TYPE", "READS", "HELD UNTIL", "BY JOB", "WHY"]);
                for it in items(answer) {
                    table.row([
                        text(it, "name"),
                        text(it, "type"),
                        text(it, "reads"),
                        match it["hold"]["until"].is_null() && it["hold"].is_object() {
                            true => "someone decides",
                            false => text(&it["hold"], "until"),
                        },
                        text(&it["hold"], "job_id"),
                        text(&it["hold"], "message"),
                    ]);
                }
                screen.table(&table, "no engines")
            })
        }
        EngineCommand::Release { name } => {
            let answer =
                client.post(&format!("/api/engines/{}/release", path(&name)), &json!({}))?;
            desk.screen.answer(&answer, |screen, answer| {
                screen.put(&format!("engine {} is released", line(answer, "engine")))
            })
        }
    }
}

/// Writes a name so that it is one part of a path.
fn path(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let write = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.bytes().map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (ms, expected) in
            [(0, "0s"), (5, "<1s"), (61_500, "61s"), (3_599_000, "59m"), (7_200_000, "2h")]
        {
            assert_eq!(time(ms), expected);
        }
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(path("claude-2"), "claude-2");
        assert_eq!(path("../x y"), "%2E%2E%2Fx%20y");
    }
}
