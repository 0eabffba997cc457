//! `wiki-browser usage` and `engine`: usage, caps, and engines on hold.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::api::jobs::Usage;
use crate::api::usage::{CapRow, EngineReleased, EngineRow, Spending, UsageRow};
use crate::base::limit::format_duration;
use crate::base::{Page, Result};
use crate::cli::commands::Desk;
use crate::cli::terminal::escape;
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

/// Commands on engines.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum EngineCommand {
    /// List engines, and which are on hold
    List,
    /// Release an engine that is on hold because of a rate limit
    Release {
        /// Name of the engine
        name: String,
        /// Release it for this person's own jobs only: a limit of their subscription
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
    },
}

/// Prints totals, and the used part of each daily cap.
pub(super) fn run(desk: &Desk, args: &UsageArgs) -> Result<()> {
    let client = desk.client()?;
    let pairs = [("by", Some(args.by.as_str())), ("since", args.since.as_deref())];
    let answer = client.get(&query("/api/usage", &pairs))?;
    desk.screen.tell(&answer, |screen, spending: Spending| {
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
        for UsageRow { usage, display_name } in &spending.items {
            let name = match (display_name, usage.name.as_str()) {
                (Some(shown), _) => shown,
                (None, "") => "(unknown)",
                (None, name) => name,
            };
            table.row(sums(name, usage));
        }
        if spending.items.len() > 1 {
            table.row(sums("total", &spending.total));
        }
        screen.table(&table, "no usage")?;
        spending.caps.iter().for_each(|cap| note_cap(desk, cap));
        Ok(())
    })
}

fn sums(name: &str, it: &Usage) -> [String; 11] {
    [
        name.to_owned(),
        it.jobs.to_string(),
        it.succeeded.to_string(),
        (it.failed + it.timed_out).to_string(),
        it.cancelled.to_string(),
        it.rate_limited.to_string(),
        it.input_tokens.to_string(),
        it.cached_tokens.to_string(),
        it.output_tokens.to_string(),
        format!("{:.4}", it.cost_usd),
        time(it.agent_ms),
    ]
}

fn note_cap(desk: &Desk, cap: &CapRow) {
    let shown = |number: f64| match cap.measure.as_str() {
        "cost_usd" => format!("{number:.2} USD"),
        "tokens" => format!("{number:.0} tokens"),
        _ => time(number as i64),
    };
    let of = cap.display_name.as_ref().or(cap.of.as_ref());
    let of = of.map_or_else(String::new, |it| format!(" of {it}"));
    let spent = match cap.is_spent {
        true => format!(": used up until {}", cap.frees_at.rfc3339()),
        false => String::new(),
    };
    let (used, limit) = (shown(cap.used), shown(cap.limit));
    let said = format!("{}{of} today: {used} of {limit}{spent}", cap.cap);
    desk.screen.note(&escape::line(&said));
}

/// Returns a time in whole seconds, for people.
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
            desk.screen.tell(&answer, |screen, page: Page<EngineRow>| {
                let mut table =
                    Table::new(&["ENGINE", "TYPE", "READS", "HELD UNTIL", "BY JOB", "WHY"]);
                for EngineRow { name, kind, reads, hold, .. } in page.items {
                    let until = hold.as_ref().map(|it| match it.until {
                        Some(at) => at.rfc3339(),
                        None => "someone decides".to_owned(),
                    });
                    let job = hold.as_ref().and_then(|it| Some(it.job_id.as_ref()?.to_string()));
                    let why = hold.map(|it| it.message);
                    let [reads, until, job, why] =
                        [reads, until, job, why].map(Option::unwrap_or_default);
                    table.row([name, kind, reads, until, job, why]);
                }
                screen.table(&table, "no engines")
            })
        }
        EngineCommand::Release { name, person } => {
            let target = format!("/api/engines/{}/release", path(&name));
            let target = query(&target, &[("person", person.as_deref())]);
            let answer = client.post(&target, &json!({}))?;
            desk.screen.tell(&answer, |screen, released: EngineReleased| {
                screen.put(&format!("engine {} is released", escape::line(&released.engine)))
            })
        }
    }
}

/// Percent-encodes a name as one segment of a path.
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
