//! Channels and their members, printed.

use serde_json::json;

use crate::api::channels::{ChannelList, ChannelView};
use crate::base::Result;
use crate::cli::commands::Desk;
use crate::cli::commands::channel::{ListArgs, route, typed};
use crate::cli::terminal::escape;
use crate::cli::terminal::table::Table;
use crate::client::query;

pub(super) fn list(desk: &Desk, args: &ListArgs) -> Result<()> {
    let after = args.after.map(|it| it.to_string());
    let pairs = [
        ("mine", args.mine.then_some("true")),
        ("status", args.status.as_deref()),
        ("type", args.kind.as_deref()),
        ("after", after.as_deref()),
    ];
    let answer = desk.client()?.get(&query("/api/channels", &pairs))?;
    let found: ChannelList = typed(answer.clone())?;
    desk.screen.answer(&answer, |screen, _| {
        let mut table = Table::new(&["CHANNEL", "STATE", "NEW", "MEMBERS", "LAST", "NAME"]);
        for it in &found.items {
            let here: Vec<&str> = it.present().map(|member| member.handle.as_str()).collect();
            table.row([
                it.slug.as_str(),
                &screen.state(state_of(it)),
                &news(it),
                &here.join(", "),
                &desk.ago(&json!(it.last_at)),
                &escape::line(&it.name),
            ]);
        }
        screen.table(&table, "no channels: `wiki-browser channel create NAME --with AGENT`")?;
        match found.next {
            Some(next) => screen.put(&format!("more: --after {next}")),
            None => Ok(()),
        }
    })
}

fn state_of(channel: &ChannelView) -> &str {
    if channel.paused.is_some() { "paused" } else { &channel.status }
}

fn news(channel: &ChannelView) -> String {
    match (channel.unread.unread, channel.unread.mentions) {
        (0, _) => String::new(),
        (unread, 0) => unread.to_string(),
        (unread, _) => format!("{unread} @you"),
    }
}

pub(super) fn show(desk: &Desk, channel: &str) -> Result<()> {
    let answer = desk.client()?.get(&route(channel, ""))?;
    let found: ChannelView = typed(answer.clone())?;
    desk.screen.answer(&answer, |_, _| describe(desk, &found))
}

pub(super) fn describe(desk: &Desk, found: &ChannelView) -> Result<()> {
    desk.screen.put(&escape::line(&found.name))?;
    desk.detail("channel", &found.slug)?;
    desk.detail("state", &desk.screen.state(state_of(found)))?;
    if let Some(paused) = &found.paused {
        desk.detail("paused", &escape::line(&paused.sentence))?;
    }
    desk.detail("about", &escape::line(&found.about))?;
    desk.detail("intent", &escape::line(&found.intent))?;
    desk.detail("messages", &found.last_sequence.to_string())?;
    let spent = &found.spent;
    desk.detail(
        "spent",
        &format!("{} turns, {} tokens, {:.2} USD", spent.turns, spent.tokens, spent.cost_usd),
    )?;
    for it in found.members.iter().filter(|it| !it.untold.is_empty()) {
        let untold: Vec<&str> = it.untold.iter().map(|it| measure(it)).collect();
        let not_in = format!("without the {} of {}: unknown", untold.join(" and "), it.handle);
        desk.detail("", &not_in)?;
    }
    let is_over = found.completed_at.is_some();
    for it in found.present() {
        let state = match (&it.agent, &it.state) {
            (Some(agent), Some(state)) => format!(" (agent:{agent}, {state})"),
            _ if it.sort == "agent" && !is_over => " (offline)".to_owned(),
            _ => String::new(),
        };
        let chair = if it.is_chair { ", chair" } else { "" };
        let muted = if it.standing == "muted" { ", muted" } else { "" };
        let outside = if it.sort == "outside" { ", outside" } else { "" };
        desk.detail("member", &format!("{}{state}{chair}{muted}{outside}", it.handle))?;
        if let Some(problem) = it.problem.as_ref().filter(|_| !is_over) {
            let text = format!("{}. To fix it: {}", problem.what, problem.fix);
            desk.detail("", &escape::line(&text))?;
        }
        if it.unconfirmed > 0 {
            let slug = &found.slug;
            let text = format!("{} unconfirmed: `msg history {slug}` shows which", it.unconfirmed);
            desk.detail("", &text)?;
        }
    }
    Ok(())
}

/// Returns the word for a measure of usage.
fn measure(name: &str) -> &str {
    match name {
        "cost_usd" => "cost",
        other => other,
    }
}

pub(super) fn members(desk: &Desk, channel: &str) -> Result<()> {
    let answer = desk.client()?.get(&route(channel, ""))?;
    let found: ChannelView = typed(answer)?;
    desk.screen.answer(&json!(found.members), |screen, _| {
        let mut table = Table::new(&["MEMBER", "SORT", "AGENT", "STATE", "STANDING", "JOINED"]);
        for it in &found.members {
            table.row([
                it.handle.as_str(),
                &it.sort,
                it.agent.as_deref().unwrap_or_default(),
                it.state.as_deref().unwrap_or_default(),
                if it.is_chair { "chair" } else { &it.standing },
                &desk.ago(&json!(it.joined_at)),
            ]);
        }
        screen.table(&table, "no members")
    })
}
