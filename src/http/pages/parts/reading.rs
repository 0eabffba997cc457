//! A diff of two texts as they are read: rendered, block by block.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::documents::compare::redline::{self, BlockSort, Mark, RenderedRow, RowSort, Style};
use crate::http::pages::parts::difference::BYTE_ORDER_MARK;
use crate::http::pages::parts::labels;
use crate::http::pages::parts::visible::{Visible, Within};

/// The blocks of two rendered texts.
#[derive(Template)]
#[template(path = "rendered.html")]
pub(in crate::http::pages) struct Reading {
    parts: Vec<ReadPart>,
    /// Number of changes.
    pub(in crate::http::pages) changes: usize,
    is_coarse: bool,
}

impl HtmlSafe for Reading {}

struct ReadPart {
    /// Number of folded blocks.
    folded: Option<usize>,
    rows: Vec<Read>,
}

struct Read {
    class: &'static str,
    sort: &'static str,
    depth: usize,
    marker: Visible,
    change: Option<usize>,
    note: Option<String>,
    spans: Vec<(Within, &'static str, String)>,
}

/// Blocks of context around a change.
const CONTEXT_BLOCKS: usize = 2;

impl Reading {
    /// Compares two Markdown texts; `None` if they are too large.
    pub(in crate::http::pages) fn of(old: &str, new: &str) -> Option<Reading> {
        let marks = (old.strip_prefix(BYTE_ORDER_MARK), new.strip_prefix(BYTE_ORDER_MARK));
        let (old, new) = if let (Some(old), Some(new)) = marks { (old, new) } else { (old, new) };
        let found = redline::rendered(old, new)?;
        let is_kept: Vec<bool> = found.rows.iter().map(|it| it.sort == RowSort::Kept).collect();
        let is_near = |at: usize| {
            let from = at.saturating_sub(CONTEXT_BLOCKS);
            let to = (at + CONTEXT_BLOCKS + 1).min(is_kept.len());
            is_kept[from..to].contains(&false)
        };
        let mut made = Reading { parts: Vec::new(), changes: 0, is_coarse: found.is_coarse };
        let mut was_kept = true;
        for (at, row) in found.rows.iter().enumerate() {
            let begins = !is_kept[at] && was_kept;
            was_kept = is_kept[at];
            made.changes += usize::from(begins);
            let is_shown = is_near(at);
            let needs_part = made.parts.last().is_none_or(|it| it.folded.is_none() != is_shown);
            if needs_part {
                made.parts.push(ReadPart { folded: (!is_shown).then_some(0), rows: Vec::new() });
            }
            let Some(part) = made.parts.last_mut() else { continue };
            if let Some(count) = &mut part.folded {
                *count += 1;
            }
            part.rows.push(read(row, begins.then_some(made.changes)));
        }
        Some(made)
    }
}

fn read(row: &RenderedRow, change: Option<usize>) -> Read {
    let (class, note) = match row.sort {
        RowSort::Kept => ("kept", None),
        RowSort::Changed if row.is_markup_only => ("changed", Some("only the markup changes")),
        RowSort::Changed => ("changed", None),
        RowSort::Added => ("added", Some("added")),
        RowSort::Removed => ("removed", Some("removed")),
        RowSort::MovedAway(_) => ("away", Some("moved from here")),
        RowSort::MovedHere(_) => ("here", Some("moved to here")),
    };
    let note = match (row.was, row.block) {
        (Some(was), _) => Some(format!("was {}", block_words(was))),
        (None, BlockSort::Source) if row.is_markup_only => {
            Some("only spaces or line breaks change here".to_owned())
        }
        (None, BlockSort::Source) => {
            Some(format!("{}: source that is not shown when rendered", note.unwrap_or("changed")))
        }
        (None, _) => note.map(str::to_owned),
    };
    let beside =
        |at: Option<usize>| at.and_then(|at| row.spans.get(at)).map_or("", |it| it.text.as_str());
    let spans = row.spans.iter().enumerate().map(|(at, it)| {
        let tag = match it.mark {
            Mark::Same => "",
            // A completely new block is marked as a whole.
            Mark::Come if row.sort == RowSort::Added => "",
            Mark::Gone if row.sort == RowSort::Removed => "",
            Mark::Come => "ins",
            Mark::Gone => "del",
        };
        let text = Within::between(beside(at.checked_sub(1)), &it.text, beside(Some(at + 1)));
        (text, tag, classes(it.style))
    });
    Read {
        class,
        sort: block_class(row.block),
        depth: row.depth.min(6),
        marker: Visible(row.marker.clone()),
        change,
        note,
        spans: spans.collect(),
    }
}

fn classes(style: Style) -> String {
    let all = [
        (style.is_emphasis, "rd-em"),
        (style.is_strong, "rd-strong"),
        (style.is_code, "rd-code"),
        (style.is_struck, "rd-struck"),
        (style.is_link, "rd-link"),
        (style.is_target, "rd-target"),
    ];
    let set: Vec<&str> = all.iter().filter(|(is_set, _)| *is_set).map(|(_, it)| *it).collect();
    set.join(" ")
}

fn block_class(sort: BlockSort) -> &'static str {
    match sort {
        BlockSort::Heading(1) => "rd-h1",
        BlockSort::Heading(2) => "rd-h2",
        BlockSort::Heading(_) => "rd-h3",
        BlockSort::Paragraph => "rd-p",
        BlockSort::Item => "rd-item",
        BlockSort::Quote => "rd-quote",
        BlockSort::Code => "rd-pre",
        BlockSort::TableRow => "rd-row",
        BlockSort::Source => "rd-pre",
        BlockSort::Html => "rd-pre rd-html",
        BlockSort::FrontMatter => "rd-pre rd-front",
        BlockSort::Rule => "rd-p",
    }
}

fn block_words(sort: BlockSort) -> &'static str {
    match sort {
        BlockSort::Heading(_) => "another heading",
        BlockSort::Paragraph => "a paragraph",
        BlockSort::Item => "a list item",
        BlockSort::Quote => "a quotation",
        BlockSort::Code => "code",
        BlockSort::TableRow => "a table row",
        BlockSort::Html => "HTML",
        BlockSort::FrontMatter => "front matter",
        BlockSort::Rule => "a horizontal rule",
        BlockSort::Source => "source",
    }
}
