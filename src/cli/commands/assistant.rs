//! `wiki-browser assistant`: whether a person's assistant can work.

use crate::api::chat_settings::{HealthView, PartHealth, RuntimeHealth};
use crate::base::Result;
use crate::cli::commands::Desk;
use crate::cli::commands::mail::typed;
use crate::cli::terminal::escape;
use crate::cli::terminal::table::Table;

/// Prints the state of all parts; exits with 1 if nothing can answer or the vault cannot be used.
pub(super) fn run(desk: &Desk) -> Result<u8> {
    let answer = desk.client()?.get("/api/agent/health")?;
    let health: HealthView = typed(answer.clone())?;
    let can_answer = health.runtimes.iter().any(|it| it.state == "ready");
    let can_work = can_answer && health.vault.problem.is_none();
    desk.screen.answer(&answer, |screen, _| {
        let mut table = Table::new(&["PART", "STATE", "PROBLEM", "TO DO"]);
        let mut row = |name: &str, part: &PartHealth| {
            let text = |it: &Option<String>| escape::line(it.as_deref().unwrap_or_default());
            let state = part.state.replace('_', " ");
            table.row([name.to_owned(), state, text(&part.problem), text(&part.hint)]);
        };
        for it in health.runtimes {
            let RuntimeHealth { mode, state, problem, hint } = it;
            row(&mode, &PartHealth { state, problem, hint });
        }
        row("vault", &health.vault);
        for (name, part) in [("gateway", &health.gateway), ("linkedin", &health.linkedin)] {
            if let Some(part) = part {
                row(name, part);
            }
        }
        screen.table(&table, "")?;
        if let Some(problem) = &health.vault_problem {
            screen.note(&escape::line(problem));
        }
        Ok(())
    })?;
    Ok(u8::from(!can_work))
}
