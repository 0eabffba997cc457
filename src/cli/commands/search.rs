//! `wiki-browser search`.

use crate::base::Result;
use crate::cli::commands::{Desk, Page, plain};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::Style;
use crate::cli::terminal::short_id::shorten;
use crate::client::query;
use crate::documents::search::Piece;
use crate::flows::search::{Hit, Hits};
use clap::Args;

/// `search`.
#[derive(Args, Debug)]
#[command(after_help = "\
Case and accents are ignored, and results contain every word. \"Several words\" in quotes match a
phrase, wor* matches words that start with it, and -word (after --) excludes a word. Chinese,
Japanese, Korean and Thai match any sequence of characters.

Examples:
  wiki-browser search anchor fate
  wiki-browser search '\"three-way merge\"' --kind source
  wiki-browser search 'perspec*' --path docs/ --status open --author ada
  wiki-browser search -- merge -conflict")]
pub(in crate::cli) struct SearchArgs {
    /// Search terms
    #[arg(required = true)]
    words: Vec<String>,
    /// Only documents, Topics (with their first message) or other messages
    #[arg(long, value_parser = ["source", "topic", "message"])]
    kind: Option<String>,
    /// Only paths that start with this
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only Topics with this status, and their messages
    #[arg(long, value_parser = ["open", "incorporated", "discarded"])]
    status: Option<String>,
    /// Only messages by this person, or an actor such as job:ID
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
    desk.screen.tell(&answer, |screen, hits: Hits| {
        for it in &hits.items {
            screen.put(&head(desk, it))?;
            let snippet = pieces(desk, &it.snippet);
            if !snippet.is_empty() {
                screen.put(&format!("    {snippet}"))?;
            }
        }
        if hits.items.is_empty() {
            screen.note("no results");
        }
        if hits.index.state != "ready" {
            screen.note("indexing is in progress; results may be incomplete");
        }
        desk.more(hits.next.as_deref());
        if hits.next.is_none() && hits.is_cut {
            screen.note("only the newest results were ranked; add a word to narrow them down");
        }
        Ok(())
    })
}

fn head(desk: &Desk, it: &Hit) -> String {
    let title = pieces(desk, &it.title_pieces);
    let dim = |text: &str| desk.screen.paint(Style::Dim, text);
    match &*it.kind {
        "source" => {
            let at = it.line.map_or_else(String::new, |line| format!(":{line}"));
            format!("{}{at}", pieces(desk, &it.path_pieces))
        }
        kind => {
            let id = escape::line(shorten(it.topic_id.as_deref().unwrap_or_default()));
            let id = it.sequence.map_or(id.clone(), |number| format!("{id}#{number}"));
            let (who, when) = (plain(it.author_name.as_ref()), desk.since(it.at));
            let state = desk.screen.state(it.status.map_or("", |it| it.as_str()));
            let about = format!("{}, {who}, {when}", escape::line(it.source_path.as_str()));
            format!("{} {id} {title} {state} {}", escape::line(kind), dim(&about))
        }
    }
}

/// Returns the text of pieces with the matches in bold, on one escaped line.
fn pieces(desk: &Desk, pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| highlighted(desk, &piece.text, piece.hit)).collect()
}

/// Returns a piece of text on one escaped line, in bold if it is a match.
pub(super) fn highlighted(desk: &Desk, text: &str, is_hit: bool) -> String {
    let plain = escape::line(text);
    if is_hit { desk.screen.paint(Style::Bold, &plain) } else { plain }
}
