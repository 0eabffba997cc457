//! A channel as Markdown, its decisions first, or as lines of JSON.

use std::collections::BTreeMap;

use crate::api::channels::{HistoryQuery, MessageView};
use crate::base::limit::PAGE_ROWS_MAX;
use crate::base::{Error, Result, truncate_chars};
use crate::channels;
use crate::flows::Site;
use crate::flows::channels::{show, who};
use crate::people::Caller;

/// How lines begin that tell what a conversation came to.
const OUTCOMES: [&str; 2] = ["Decision:", "Action:"];
/// Of how many of the last messages a page shows the outcomes.
const OUTCOMES_OF_LAST: i64 = 5_000;
/// Most messages with outcomes, and most outcomes, of a page.
const OUTCOME_MESSAGES_MAX: u32 = 100;
const OUTCOMES_MAX: usize = 100;
/// Longest outcome, in characters.
const OUTCOME_CHARS_MAX: usize = 2_000;
/// Most bytes of an export; what is later is left out, and said to be.
const EXPORT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Returns a channel as Markdown.
///
/// # Errors
/// As `show`.
pub async fn export(site: &Site, caller: &Caller, slug: &str) -> Result<String> {
    let channel = show::show(site, caller, slug).await?;
    let (mut said, mut outcomes, mut after) = (String::new(), Vec::new(), 0);
    let mut is_cut = false;
    while !is_cut {
        let limit = Some(PAGE_ROWS_MAX);
        let query = HistoryQuery { after: Some(after), limit, ..HistoryQuery::default() };
        let page = show::history(site, caller, &channel.slug, query).await?.items;
        let Some(last) = page.last() else { break };
        after = last.sequence;
        for message in &page {
            is_cut |= said.len() > EXPORT_BYTES_MAX;
            if !is_cut {
                outcomes.extend(outcomes_of(message));
                said.push_str(&entry(message));
            }
        }
    }
    let mut text = format!("# {}\n\n", one_line(&channel.name));
    text.push_str(&format!("`{}`, {}. {}\n\n", channel.slug, channel.status, channel.about));
    let members: Vec<&str> = channel.present().map(|it| it.name.as_str()).collect();
    if !members.is_empty() {
        text.push_str(&format!("Members: {}\n\n", one_line(&members.join(", "))));
    }
    if !outcomes.is_empty() {
        text.push_str("## Outcomes\n\n");
        outcomes.iter().for_each(|it: &Outcome| {
            text.push_str(&format!("- {} ({})\n", it.line, it.author));
        });
        text.push('\n');
    }
    text.push_str("## Conversation\n\n");
    text.push_str(&said);
    if is_cut {
        text.push_str("(the rest is left out)\n");
    }
    Ok(text)
}

/// A line that tells what a conversation came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The line.
    pub line: String,
    /// The name of its author.
    pub author: String,
    /// The message in which it stands.
    pub sequence: i64,
}

/// Returns what a conversation came to: of its last messages, and not more lines than a page shows.
/// The export has all of them.
///
/// # Errors
/// As `show`.
pub async fn outcomes(site: &Site, caller: &Caller, slug: &str) -> Result<Vec<Outcome>> {
    let (asking, text) = (caller.clone(), slug.to_owned());
    let read = site.store.read(move |c| {
        let channel = who::channel(c, &asking, &text)?;
        let after = channel.last_sequence - OUTCOMES_OF_LAST;
        let mut names = BTreeMap::new();
        let mut found = Vec::new();
        for spoken in channels::outcomes_after(c, channel.number, after, OUTCOME_MESSAGES_MAX)? {
            let message = show::message(c, &mut names, spoken)?;
            found.extend(outcomes_of(&message));
        }
        found.truncate(OUTCOMES_MAX);
        Ok(found)
    });
    read.await
}

fn outcomes_of(message: &MessageView) -> Vec<Outcome> {
    if message.kind == "system" {
        return Vec::new();
    }
    let is_outcome = |line: &&str| OUTCOMES.iter().any(|it| line.trim_start().starts_with(it));
    let lines = message.text.lines().filter(is_outcome);
    let outcome = |line: &str| Outcome {
        line: truncate_chars(line.trim(), OUTCOME_CHARS_MAX).to_owned(),
        author: author(message),
        sequence: message.sequence,
    };
    lines.map(outcome).collect()
}

fn entry(message: &MessageView) -> String {
    let at = message.created_at.rfc3339();
    let who = author(message);
    match message.kind.as_str() {
        "system" => format!("*{} {}*\n\n", one_line(&message.text), at),
        kind => {
            let kind = if kind == "message" { String::new() } else { format!(", {kind}") };
            let number = message.sequence;
            let mut text = format!("### {number}. {who}{kind}, {at}\n\n");
            if !message.text.trim().is_empty() {
                text.push_str(&format!("{}\n\n", quoted(&message.text)));
            }
            for file in &message.attachments {
                let name = file.name.replace('`', "'");
                text.push_str(&format!(
                    "- Attachment {}: `{name}`, {}, {} bytes\n",
                    file.number, file.kind, file.bytes
                ));
            }
            if !message.attachments.is_empty() {
                text.push('\n');
            }
            text
        }
    }
}

/// Returns the name of a message's author, and whether they are from outside.
fn author(message: &MessageView) -> String {
    let name = one_line(&message.author.name);
    if message.author.sort == "outside" { format!("{name}, outside") } else { name }
}

/// Returns a text as a quotation: no line of it can pass for a heading or another message.
fn quoted(text: &str) -> String {
    let lines = text.trim_end().split(['\n', '\r', '\u{2028}', '\u{2029}']);
    lines.map(|line| format!("> {line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Returns the lines of a channel as JSON, one message each: those after a place, with the last
/// place in them; nothing at the end.
///
/// # Errors
/// As `show`.
pub async fn export_lines(
    site: &Site,
    caller: &Caller,
    slug: &str,
    after: i64,
) -> Result<Option<(Vec<u8>, i64)>> {
    let limit = Some(PAGE_ROWS_MAX);
    let query = HistoryQuery { after: Some(after), limit, ..HistoryQuery::default() };
    let page = show::history(site, caller, slug, query).await?.items;
    let Some(last) = page.last().map(|message| message.sequence) else { return Ok(None) };
    let mut lines = Vec::new();
    for message in &page {
        let line = serde_json::to_vec(message)
            .map_err(|cause| Error::internal("a message is not JSON").source(cause))?;
        lines.extend(line);
        lines.push(b'\n');
    }
    Ok(Some((lines, last)))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
