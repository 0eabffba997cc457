//! A message of a channel, as the terminal shows it.

use serde_json::json;

use crate::api::channels::MessageView;
use crate::base::Result;
use crate::cli::commands::Desk;
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::Style;
use crate::cli::terminal::table::size;

/// Prints one message.
pub(in crate::cli) fn print(desk: &Desk, message: &MessageView) -> Result<()> {
    let screen = &desk.screen;
    if message.kind == "system" {
        let hint = match (message.may_ask_again, message.held.as_deref()) {
            (true, _) => format!("  ({}: `msg again` retries)", message.sequence),
            (_, Some("waiting")) => format!("  ({}: `msg held` prints it)", message.sequence),
            (_, Some("posted")) => "  (posted)".to_owned(),
            (_, Some("private")) => "  (kept private)".to_owned(),
            _ => String::new(),
        };
        let text = escape::block(message.text.trim_end()).replace('\n', "\n  ");
        return format!("* {text}{hint}")
            .lines()
            .try_for_each(|line| screen.put(&screen.paint(Style::Dim, line)));
    }
    let sort = match message.kind.as_str() {
        "message" => String::new(),
        kind => format!(", {kind}"),
    };
    let answers = message.answers.map(|it| format!(", in reply to {it}")).unwrap_or_default();
    let who = screen.paint(Style::Bold, &escape::line(&message.author.name));
    let when = desk.ago(&json!(message.created_at));
    let facts = screen.paint(Style::Dim, &format!("{when}{sort}{answers}"));
    screen.put(&format!("{:>3}  {who}  {facts}", message.sequence))?;
    let text = escape::block(message.text.trim_end());
    text.lines().try_for_each(|line| screen.put(&format!("     {line}")))?;
    let note = |line: String| screen.put(&screen.paint(Style::Dim, &line));
    for file in &message.attachments {
        let (number, name) = (file.number, escape::line(&file.name));
        note(format!("     [{number}] {name} ({})", size(file.bytes)))?;
    }
    for heard in message.heard.iter().filter(|it| it.state == "unconfirmed") {
        let (number, agent) = (message.sequence, &heard.agent);
        let todo = "`msg resend` sends it again, `msg settle` confirms it";
        note(format!("     unconfirmed: {agent} may not have received {number}; {todo}"))?;
    }
    Ok(())
}
