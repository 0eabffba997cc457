//! The difference of two texts as a reviewer reads it: lines, words inside of lines, and moved
//! blocks.
//!
//! **Invariant:** the rows contain every line of each text once, in its order, except for moved
//! blocks, which appear at their old and their new place.
//! **Invariant:** the running time is bounded for any text; lines not compared word by word are
//! reported as coarse.

mod moved;
mod rendered;
mod words;

use std::ops::Range;

use crate::documents::compare::diff::{Change, changes_of};

pub use moved::Move;
pub use rendered::{BlockSort, Mark, Rendered, RenderedRow, Span, Style, rendered};

/// Most bytes, both sides together, for comparing the words of one change.
const HUNK_BYTES_MAX: usize = 256 * 1024;
/// Most bytes for comparing the words of all changes together.
const WORDS_BYTES_MAX: usize = 2 * 1024 * 1024;
/// A run of unchanged lines is folded if that hides at least this many.
const FOLD_LINES_MIN: usize = 4;

/// The difference of two texts.
#[derive(Debug, PartialEq, Eq)]
pub struct Redline {
    /// All lines.
    pub rows: Vec<Row>,
    /// Moved blocks, in the order of the new text.
    pub moves: Vec<Move>,
    /// Whether some lines were too long or too many to be compared word by word.
    pub is_coarse: bool,
}

/// A line of one text, or a pair of corresponding lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// What happened to it.
    pub sort: RowSort,
    /// The line of the old text.
    pub old: Option<Line>,
    /// The line of the new text.
    pub new: Option<Line>,
}

/// What happened to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowSort {
    /// It is in both texts.
    Kept,
    /// It was edited.
    Changed,
    /// It is only in the new text.
    Added,
    /// It is only in the old text.
    Removed,
    /// Its old place; the number is the move's index in [`Redline::moves`].
    MovedAway(usize),
    /// Its new place.
    MovedHere(usize),
}

/// A line of one of the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// Its parts in order, without the line ending.
    pub pieces: Vec<Piece>,
    /// Its line ending.
    pub end: LineEnd,
}

impl Line {
    fn empty() -> Line {
        Line { number: 0, pieces: Vec::new(), end: LineEnd::Text }
    }

    /// Returns its bytes, without the line ending; of an empty one, nothing.
    fn range(&self) -> Range<usize> {
        let start = self.pieces.first().map_or(0, |it| it.range.start);
        start..self.pieces.last().map_or(start, |it| it.range.end)
    }
}

/// A line ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`.
    Lf,
    /// `\r\n`.
    CrLf,
    /// The end of the text, without a line ending.
    Text,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Byte range in its text.
    pub range: Range<usize>,
    /// Whether the other text does not have it.
    pub is_changed: bool,
}

/// A range of rows for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// Rows to show.
    Shown(Range<usize>),
    /// Unchanged rows far from any change.
    Folded(Range<usize>),
}

/// The lines of a text, including their line endings.
struct Lines<'t> {
    text: &'t str,
    all: Vec<&'t str>,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Lines<'t> {
        let all: Vec<&str> = text.split_inclusive('\n').collect();
        let mut starts = Vec::with_capacity(all.len() + 1);
        starts.push(0);
        for line in &all {
            starts.push(starts[starts.len() - 1] + line.len());
        }
        Lines { text, all, starts }
    }

    fn at(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte).saturating_sub(1)
    }

    fn whole(&self, line: usize, is_changed: bool) -> Line {
        let (range, end) = self.body(line);
        let pieces = if range.is_empty() { Vec::new() } else { vec![Piece { range, is_changed }] };
        Line { number: line + 1, pieces, end }
    }

    /// Returns a line with its changed parts marked; `changed` is ascending.
    fn marked(&self, line: usize, changed: &[Range<usize>]) -> Line {
        let (body, end) = self.body(line);
        let (mut at, mut pieces) = (body.start, Vec::new());
        for range in changed {
            let (from, to) = (range.start.max(at), range.end.min(body.end));
            if from >= to {
                continue;
            }
            if at < from {
                pieces.push(Piece { range: at..from, is_changed: false });
            }
            pieces.push(Piece { range: from..to, is_changed: true });
            at = to;
        }
        if at < body.end {
            pieces.push(Piece { range: at..body.end, is_changed: false });
        }
        Line { number: line + 1, pieces, end }
    }

    fn body(&self, line: usize) -> (Range<usize>, LineEnd) {
        let (start, text) = (self.starts[line], self.all[line]);
        let (body, end) = match (text.strip_suffix("\r\n"), text.strip_suffix('\n')) {
            (Some(body), _) => (body, LineEnd::CrLf),
            (None, Some(body)) => (body, LineEnd::Lf),
            (None, None) => (text, LineEnd::Text),
        };
        (start..start + body.len(), end)
    }
}

/// Compares two texts.
pub fn redline(old: &str, new: &str) -> Redline {
    let (olds, news) = (Lines::of(old), Lines::of(new));
    let hunks = changes_of(&olds.all, &news.all);
    compare(&olds, &news, &hunks)
}

/// Compares two texts whose changed lines are known.
fn compare(olds: &Lines<'_>, news: &Lines<'_>, hunks: &[Change]) -> Redline {
    let moves = moved::find(olds, news, hunks);
    let mut made = Redline { rows: Vec::new(), moves, is_coarse: false };
    let (mut at, mut budget) = ((0, 0), WORDS_BYTES_MAX);
    for hunk in hunks {
        made.keep(olds, news, at, hunk.old.start - at.0);
        made.hunk(olds, news, hunk.old.clone(), hunk.new.clone(), &mut budget);
        at = (hunk.old.end, hunk.new.end);
    }
    made.keep(olds, news, at, olds.all.len() - at.0);
    made
}

impl Redline {
    /// Returns the rows in stretches: changes with context, and folded runs between them.
    pub fn stretches(&self, context: usize) -> Vec<Stretch> {
        let mut shown: Vec<Stretch> = Vec::new();
        let mut at = 0;
        while at < self.rows.len() {
            let is_kept = self.rows[at].sort == RowSort::Kept;
            let run = self.rows[at..].iter();
            let end = at + run.take_while(|it| (it.sort == RowSort::Kept) == is_kept).count();
            let head = if at == 0 { 0 } else { context };
            let tail = if end == self.rows.len() { 0 } else { context };
            if is_kept && end - at >= head + tail + FOLD_LINES_MIN {
                extend(&mut shown, at..at + head);
                shown.push(Stretch::Folded(at + head..end - tail));
                extend(&mut shown, end - tail..end);
            } else {
                extend(&mut shown, at..end);
            }
            at = end;
        }
        shown
    }

    fn keep(&mut self, olds: &Lines<'_>, news: &Lines<'_>, at: (usize, usize), count: usize) {
        for step in 0..count {
            let old = Some(olds.whole(at.0 + step, false));
            let new = Some(news.whole(at.1 + step, false));
            self.rows.push(Row { sort: RowSort::Kept, old, new });
        }
    }

    /// Adds the rows of one change, except lines that moved into or out of it.
    fn hunk(
        &mut self,
        olds: &Lines<'_>,
        news: &Lines<'_>,
        old: Range<usize>,
        new: Range<usize>,
        budget: &mut usize,
    ) {
        let of = |line: usize, side: fn(&Move) -> &Range<usize>| {
            self.moves.iter().position(|it| side(it).contains(&line))
        };
        let gone: Vec<Option<usize>> = old.clone().map(|it| of(it, |m| &m.old)).collect();
        let come: Vec<Option<usize>> = new.clone().map(|it| of(it, |m| &m.new)).collect();
        // Moved lines have their own rows; only the remaining ones can correspond to each other.
        let left: Vec<usize> = old.clone().filter(|it| gone[it - old.start].is_none()).collect();
        let right: Vec<usize> = new.clone().filter(|it| come[it - new.start].is_none()).collect();
        let pairs = self.compare(olds, news, &left, &right, budget);
        // Rows in text order: moved lines appear between the others.
        let (mut next_old, mut next_new) = (old.start, new.start);
        for (old_line, new_line, row) in pairs {
            self.moved_until(olds, &gone, &old, &mut next_old, old_line, RowSort::MovedAway);
            self.moved_until(news, &come, &new, &mut next_new, new_line, RowSort::MovedHere);
            self.rows.push(row);
        }
        self.moved_until(olds, &gone, &old, &mut next_old, Some(old.end), RowSort::MovedAway);
        self.moved_until(news, &come, &new, &mut next_new, Some(new.end), RowSort::MovedHere);
    }

    fn moved_until(
        &mut self,
        lines: &Lines<'_>,
        moved: &[Option<usize>],
        hunk: &Range<usize>,
        next: &mut usize,
        until: Option<usize>,
        sort: fn(usize) -> RowSort,
    ) {
        let Some(until) = until else { return };
        while *next < until {
            if let Some(number) = moved[*next - hunk.start] {
                let found = &self.moves[number];
                let is_old = matches!(sort(0), RowSort::MovedAway(_));
                let changed = if is_old { &found.gone } else { &found.come };
                let line = Some(lines.marked(*next, changed));
                let (old, new) = if is_old { (line, None) } else { (None, line) };
                self.rows.push(Row { sort: sort(number), old, new });
            }
            *next += 1;
        }
        // The line itself already has its row.
        *next = until + usize::from(until < hunk.end);
    }

    /// Pairs corresponding lines; returns their rows with both line numbers.
    fn compare(
        &mut self,
        olds: &Lines<'_>,
        news: &Lines<'_>,
        left: &[usize],
        right: &[usize],
        budget: &mut usize,
    ) -> Vec<(Option<usize>, Option<usize>, Row)> {
        let removed = |line: usize| {
            let row = Row { sort: RowSort::Removed, old: Some(olds.whole(line, true)), new: None };
            (Some(line), None, row)
        };
        let added = |line: usize| {
            let row = Row { sort: RowSort::Added, old: None, new: Some(news.whole(line, true)) };
            (None, Some(line), row)
        };
        if left.is_empty() || right.is_empty() {
            return left
                .iter()
                .map(|it| removed(*it))
                .chain(right.iter().map(|it| added(*it)))
                .collect();
        }
        let bytes = |lines: &Lines<'_>, all: &[usize]| -> usize {
            all.iter().map(|it| lines.all[*it].len()).sum()
        };
        let cost = bytes(olds, left) + bytes(news, right);
        // Too large for the time left: show whole lines as removed and added, and say so.
        if cost > HUNK_BYTES_MAX || cost > *budget {
            self.is_coarse = true;
            return left
                .iter()
                .map(|it| removed(*it))
                .chain(right.iter().map(|it| added(*it)))
                .collect();
        }
        *budget -= cost;
        let found = words::compare(&words::Part::of(olds, left), &words::Part::of(news, right));
        words::rows(olds, news, left, right, &found)
    }
}

fn extend(shown: &mut Vec<Stretch>, rows: Range<usize>) {
    match shown.last_mut() {
        _ if rows.is_empty() => {}
        Some(Stretch::Shown(last)) if last.end == rows.start => last.end = rows.end,
        _ => shown.push(Stretch::Shown(rows)),
    }
}

#[cfg(test)]
mod tests;
