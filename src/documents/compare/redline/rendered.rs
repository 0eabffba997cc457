//! The difference of two Markdown texts as rendered: block by block, and word by word inside of
//! paired blocks.
//!
//! **Invariant:** nothing of the source is omitted except markup, and links show their targets;
//! comments are shown where they differ. A changed line that is not shown as it is, or of which
//! nothing is marked, follows as source.

mod block;
mod hidden;
mod html;
mod merge;
mod ranges;
mod reading;

use crate::documents::compare::diff::changes_of;
use crate::documents::compare::redline::rendered::block::{Block, Marked};
use crate::documents::compare::redline::rendered::hidden::{Hidden, Mentioned};
use crate::documents::compare::redline::rendered::merge::merge;
use crate::documents::compare::redline::rendered::reading::Read;
use crate::documents::compare::redline::words::{self, Part};
use crate::documents::compare::redline::{Line, Lines, Piece, Row, RowSort, compare, redline};

pub use block::{BlockSort, Mark, Span, Style};

/// Larger texts (in bytes, both together) are only compared as source.
const BYTES_MAX: usize = 1024 * 1024;

/// The difference as rendered.
#[derive(Debug, PartialEq, Eq)]
pub struct Rendered {
    /// All blocks.
    pub rows: Vec<RenderedRow>,
    /// Whether some blocks were not compared word by word.
    pub is_coarse: bool,
}

/// A block of one text, or a pair of corresponding blocks shown as one.
#[derive(Debug, PartialEq, Eq)]
pub struct RenderedRow {
    /// What happened to it.
    pub sort: RowSort,
    /// Its kind.
    pub block: BlockSort,
    /// Its old kind, if different.
    pub was: Option<BlockSort>,
    /// The number of lists and quotations around it.
    pub depth: usize,
    /// The marker of a list item.
    pub marker: String,
    /// Its text.
    pub spans: Vec<Span>,
    /// Whether only its markup changed, or of a line of the source only spaces or its end.
    pub is_markup_only: bool,
}

/// Compares two Markdown texts; `None` if they are too large.
pub fn rendered(old: &str, new: &str) -> Option<Rendered> {
    if old.len() + new.len() > BYTES_MAX {
        return None;
    }
    let (was, is) = (Read::of(old), Read::of(new));
    let (olds, news) = (was.blocks(), is.blocks());
    let (old_keys, new_keys) = (keys(olds), keys(news));
    let old_refs: Vec<&str> = old_keys.iter().map(String::as_str).collect();
    let new_refs: Vec<&str> = new_keys.iter().map(String::as_str).collect();
    let hunks = changes_of(&old_refs, &new_refs);
    let (old_text, new_text) = (joined(olds), joined(news));
    let (old_lines, new_lines) = (lines(&old_text, olds), lines(&new_text, news));
    let made = compare(&old_lines, &new_lines, &hunks);
    let row = |row: Row| {
        let (mut old, mut new) = (row.old, row.new);
        if let (RowSort::Changed, Some(was), Some(is)) = (row.sort, &mut old, &mut new) {
            // The rows come from comparing the whole change; a pair shows the comparison of its two
            // blocks.
            let (a, b) = (was.number - 1, is.number - 1);
            let found = words::compare(&Part::of(&old_lines, &[a]), &Part::of(&new_lines, &[b]));
            was.pieces = old_lines.marked(a, &found.gone).pieces;
            is.pieces = new_lines.marked(b, &found.come).pieces;
        }
        let old = old.map(|it| (&olds[it.number - 1], old_lines.starts[it.number - 1], it.pieces));
        let new = new.map(|it| (&news[it.number - 1], new_lines.starts[it.number - 1], it.pieces));
        let at = new.as_ref().map(|it| it.0.source.start);
        (at, shown(row.sort, old, new))
    };
    let mentioned = (
        Mentioned::of(old, &was, made.rows.iter().filter_map(|it| changed(it, it.old.as_ref()))),
        Mentioned::of(new, &is, made.rows.iter().filter_map(|it| changed(it, it.new.as_ref()))),
    );
    let hidden = hidden::find(&redline(old, new), &mentioned.0, &mentioned.1);
    let mut hidden = hidden.into_iter().peekable();
    let mut rows = Vec::with_capacity(made.rows.len());
    for (at, row) in made.rows.into_iter().map(row) {
        while let Some(it) = hidden.next_if(|it| at.is_some_and(|at| it.at < at)) {
            rows.extend(source(it, (old, new)));
        }
        rows.extend(row);
    }
    rows.extend(hidden.filter_map(|it| source(it, (old, new))));
    Some(Rendered { rows, is_coarse: made.is_coarse })
}

/// Returns the number of a changed block, from 0.
fn changed(row: &Row, side: Option<&Line>) -> Option<usize> {
    side.filter(|_| row.sort != RowSort::Kept).map(|it| it.number - 1)
}

/// Returns a line of the source as a block.
fn source(it: Hidden, (old, new): (&str, &str)) -> Option<RenderedRow> {
    let side = |line: Option<Line>, text: &str| {
        line.map(|it| (Block::of_source(text, &it), it.range().start, it.pieces))
    };
    let (was, is) = (side(it.old, old), side(it.new, new));
    let was = was.as_ref().map(|it| (&it.0, it.1, it.2.clone()));
    let is = is.as_ref().map(|it| (&it.0, it.1, it.2.clone()));
    shown(it.sort, was, is)
}

/// Separates blocks, so that moves are found as in any text.
const BETWEEN: &str = "\n\n";

fn joined(blocks: &[Block]) -> String {
    blocks.iter().flat_map(|it| [it.text.as_str(), BETWEEN]).collect()
}

/// Returns each block as one line.
fn lines<'t>(text: &'t str, blocks: &[Block]) -> Lines<'t> {
    let (mut all, mut starts) = (Vec::with_capacity(blocks.len()), vec![0]);
    for block in blocks {
        let start = starts[starts.len() - 1];
        let end = start + block.text.len() + BETWEEN.len();
        all.push(&text[start..end]);
        starts.push(end);
    }
    Lines { text, all, starts }
}

/// Returns the keys by which blocks are compared: kind, depth, text, formatting, invisible parts.
fn keys(blocks: &[Block]) -> Vec<String> {
    blocks
        .iter()
        .map(|it| format!("{:?} {} {:?} {} {}", it.sort, it.depth, it.styles, it.unseen, it.text))
        .collect()
}

type Side<'b> = Option<(&'b Block, usize, Vec<Piece>)>;

fn shown(sort: RowSort, old: Side<'_>, new: Side<'_>) -> Option<RenderedRow> {
    let block = new.as_ref().or(old.as_ref())?.0;
    if block.is_comment && sort == RowSort::Kept {
        return None;
    }
    let was = match (&old, &new) {
        (Some((old, ..)), Some((new, ..))) => (old.sort != new.sort).then_some(old.sort),
        _ => None,
    };
    let pieces = |side: &Side<'_>, mark: Mark| -> Vec<Marked> {
        let Some((block, start, pieces)) = side else { return Vec::new() };
        let cut = |at: usize| (at - start).min(block.text.len());
        let parts = pieces.iter().map(|it| Marked {
            range: cut(it.range.start)..cut(it.range.end),
            mark: if it.is_changed { mark } else { Mark::Same },
        });
        parts.filter(|it| !it.range.is_empty()).collect()
    };
    let (gone, come) = (pieces(&old, Mark::Gone), pieces(&new, Mark::Come));
    let mut spans = Vec::new();
    match (&old, &new) {
        (Some((was, ..)), Some((is, ..))) if sort == RowSort::Changed => {
            merge(was, &gone, is, &come, &mut spans);
        }
        (_, Some((is, ..))) => come.iter().for_each(|it| is.spans(it, &mut spans)),
        (Some((was, ..)), None) => gone.iter().for_each(|it| was.spans(it, &mut spans)),
        (None, None) => {}
    }
    let is_same = spans.iter().all(|it| it.mark == Mark::Same);
    Some(RenderedRow {
        sort,
        block: block.sort,
        was,
        depth: block.depth,
        marker: block.marker.clone(),
        spans,
        is_markup_only: sort == RowSort::Changed && is_same,
    })
}
