//! `wiki-browser instances`: the agents that messages to inboxes started.

use clap::Args;
use serde_json::json;

use crate::api::instances::InstanceView;
use crate::base::{self, Result};
use crate::cli::commands::{Desk, Page};
use crate::cli::terminal::screen::typed;
use crate::cli::terminal::short_id::shorten;
use crate::cli::terminal::table::Table;
use crate::client::query;

/// `instances`.
#[derive(Args, Debug)]
#[command(after_help = "\
An instance is addressed as agent:TEMPLATE/ID while it runs. With --json each one has its legs, its
workspace, its monitor and the message with its reply.

Examples:
  wiki-browser instances
  wiki-browser instances accounts/teardown --limit 5")]
pub(in crate::cli) struct InstancesArgs {
    /// Only instances of this inbox: TEMPLATE/NAME
    #[arg(value_name = "INBOX")]
    inbox: Option<String>,
    #[command(flatten)]
    page: Page,
}

/// Lists instances.
pub(in crate::cli) fn run(desk: &Desk, args: &InstancesArgs) -> Result<()> {
    let limit = args.page.limit();
    let inbox = args.inbox.as_deref().map(|it| it.strip_prefix("topic:").unwrap_or(it));
    let pairs = [("inbox", inbox), ("limit", Some(&*limit)), ("after", args.page.after())];
    let answer = desk.client()?.get(&query("/api/instances", &pairs))?;
    let found: base::Page<InstanceView> = typed(&answer)?;
    desk.screen.answer(&answer, |screen, _| {
        let mut table = Table::new(&["ID", "INBOX", "STATE", "PHASE", "MONITOR", "SENT"]);
        for it in &found.items {
            let monitor = it.monitor.as_ref().map_or("", |it| it.status.as_str());
            table.row([
                shorten(it.id.as_str()),
                &it.inbox,
                &screen.state(it.status.as_str()),
                it.phase.as_deref().filter(|_| it.completed_at.is_none()).unwrap_or_default(),
                monitor,
                &desk.ago(&json!(it.created_at)),
            ]);
        }
        screen.table(&table, "no instances")?;
        if let Some(next) = &found.next {
            screen.note(&format!("more: --after {next}"));
        }
        Ok(())
    })
}
