//! `wiki-browser search`.

use clap::Args;
use serde_json::Value;

use crate::base::Result;
use crate::cli::commands::{Desk, Page, line, number, text};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::Style;
use crate::cli::terminal::short_id::{items, shorten};
use crate::client::query;

/// `search`.
#[derive(Args, Debug)]
#[command(after_help = "\
Words are found whatever their case and accents. All of them must occur; \"several words\" in
quotation marks must stand together, wor* is the beginning of a word, and after -- a -word must not
occur. Chinese, Japanese, Korean and Thai are found by any row of characters.

Examples:
  wiki-browser search anchor fate
  wiki-browser search '\"three-way merge\"' --kind source
  wiki-browser search 'perspec*' --path docs/ --status open --author ada
  wiki-browser search -- merge -conflict")]
pub(in crate::cli) struct SearchArgs {
    /// What to look for
    #[arg(required = true)]
    words: Vec<String>,
    /// Only documents, Topics (with their first message) or other messages
    #[arg(long, value_parser = ["source", "topic", "message"])]
    kind: Option<String>,
    /// Only paths that begin so
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only Topics with this status, and their messages
    #[arg(long, value_parser = ["open", "incorporated", "discarded"])]
    status: Option<String>,
    /// Only what a person wrote, or an actor such as job:ID
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    #[command(flatten)]
    page: Page,
}

/// Runs the command.
pub(in crate::cli) fn run(desk: &Desk, args: &SearchArgs) -> Result<()> {
    let (words, limit) = (args.words.join(" "), args.page.limit());
    let pairs = [
        ("query", Some(words.as_str())),
        ("kind", args.kind.as_deref()),
        ("path", args.path.as_deref()),
        ("status", args.status.as_deref()),
        ("author", args.author.as_deref()),
        ("after", args.page.after()),
        ("limit", Some(&*limit)),
    ];
    let answer = desk.client()?.get(&query("/api/search", &pairs))?;
    desk.screen.answer(&answer, |screen, answer| {
        for it in items(answer) {
            screen.put(&head(desk, it))?;
            let snippet = pieces(desk, &it["snippet"]);
            if !snippet.is_empty() {
                screen.put(&format!("    {snippet}"))?;
            }
        }
        if items(answer).is_empty() {
            screen.note("nothing was found");
        }
        if answer["index"]["state"] != "ready" {
            screen.note("the index is still being made: not everything is found yet");
        }
        desk.more(answer);
        if answer["next"].is_null() && answer["is_cut"] == true {
            screen.note("only the newest were ranked: add a word to narrow it down");
        }
        Ok(())
    })
}

fn head(desk: &Desk, it: &Value) -> String {
    let title = pieces(desk, &it["title_pieces"]);
    let dim = |text: &str| desk.screen.paint(Style::Dim, text);
    match text(it, "kind") {
        "source" => {
            let at = number(it, "line");
            let at = if at.is_empty() { at } else { format!(":{at}") };
            format!("{}{at}", pieces(desk, &it["path_pieces"]))
        }
        kind => {
            let id = escape::line(shorten(text(it, "topic_id")));
            let number = number(it, "sequence");
            let id = if number.is_empty() { id } else { format!("{id}#{number}") };
            let (who, when) = (line(it, "author_name"), escape::line(&desk.ago(&it["at"])));
            let state = desk.screen.state(text(it, "status"));
            let about = dim(&format!("{}, {who}, {when}", line(it, "source_path")));
            format!("{} {id} {title} {state} {about}", escape::line(kind))
        }
    }
}

/// Returns the text of pieces with the hits in bold, on one harmless line.
pub(super) fn pieces(desk: &Desk, value: &Value) -> String {
    let shown = value.as_array().into_iter().flatten().map(|piece| {
        let plain = line(piece, "text");
        if piece["hit"] == true { desk.screen.paint(Style::Bold, &plain) } else { plain }
    });
    shown.collect()
}
