//! What a rendered comparison does not show of the changed lines of a source.
//!
//! **Invariant:** whatever changed is shown as it is written in a marked block, or its line is
//! found here. Only markup is left out: punctuation of ASCII in a marked block, and spaces.

use crate::documents::compare::redline::rendered::ranges::Ranges;
use crate::documents::compare::redline::rendered::reading::Read;
use crate::documents::compare::redline::{Line, Redline, Row, RowSort};

/// A changed line that the rendered text does not show, or not as it is.
pub(super) struct Hidden {
    /// Its place in the new text.
    pub(super) at: usize,
    pub(super) sort: RowSort,
    pub(super) old: Option<Line>,
    pub(super) new: Option<Line>,
}

/// What the rendered comparison shows of a text.
pub(super) struct Mentioned<'r> {
    text: &'r str,
    read: &'r Read,
    /// The bytes of changed blocks.
    marked: Ranges,
}

impl<'r> Mentioned<'r> {
    /// `changed` are the numbers of the changed blocks.
    pub(super) fn of(
        text: &'r str,
        read: &'r Read,
        changed: impl Iterator<Item = usize>,
    ) -> Mentioned<'r> {
        let marked = changed.map(|it| read.blocks()[it].source.clone());
        Mentioned { text, read, marked: Ranges::of(marked.collect()) }
    }

    fn is_marked(&self, line: Option<&Line>) -> bool {
        line.is_some_and(|it| self.marked.touch(&it.range()))
    }

    /// Returns whether a line has more than spaces, and is not shown as it is in a marked block.
    fn misses(&self, line: Option<&Line>) -> bool {
        let Some(line) = line else { return false };
        let is_blank = self.text[line.range()].trim_ascii().is_empty();
        !is_blank && (!self.is_marked(Some(line)) || self.hides(line))
    }

    /// Returns whether no block shows a changed character of a line that is no markup.
    fn hides(&self, line: &Line) -> bool {
        let changed = line.pieces.iter().filter(|it| it.is_changed).map(|it| it.range.clone());
        let is_markup = |it: char| it.is_ascii_punctuation() || it.is_ascii_whitespace();
        changed.into_iter().any(|range| {
            let characters = self.text[range.clone()].char_indices();
            let mut others = characters.filter(|it| !is_markup(it.1));
            others.any(|(at, _)| !self.read.is_seen(range.start + at))
        })
    }

    /// Returns the characters of a line without spaces.
    fn words(&self, line: &Line) -> impl Iterator<Item = char> {
        self.text[line.range()].chars().filter(|it| !it.is_ascii_whitespace())
    }

    /// Returns whether nothing but spaces and line breaks changed in a line.
    fn is_spaces(&self, line: Option<&Line>) -> bool {
        let changed = line.iter().flat_map(|it| &it.pieces).filter(|it| it.is_changed);
        changed.map(|it| &self.text[it.range.clone()]).all(|it| it.trim_ascii().is_empty())
    }
}

/// Returns the changed lines that are not shown, in the order of the new text.
pub(super) fn find(redline: &Redline, old: &Mentioned<'_>, new: &Mentioned<'_>) -> Vec<Hidden> {
    let is_moved = |it: &Row| matches!(it.sort, RowSort::MovedAway(_) | RowSort::MovedHere(_));
    let is_spaces = |it: &Row| {
        !is_moved(it) && old.is_spaces(it.old.as_ref()) && new.is_spaces(it.new.as_ref())
    };
    let is_marked = |it: &Row| old.is_marked(it.old.as_ref()) || new.is_marked(it.new.as_ref());
    let misses = |it: &&Row| old.misses(it.old.as_ref()) || new.misses(it.new.as_ref());
    let mut found = Vec::new();
    let mut at = 0;
    for part in redline.rows.chunk_by(|a, b| (a.sort == RowSort::Kept) == (b.sort == RowSort::Kept))
    {
        let (mut here, mut has_spaces) = (at, false);
        let (first, is_same) = (found.len(), !part.iter().any(is_moved) && is_same(part, old, new));
        for row in part.iter().filter(|it| it.sort != RowSort::Kept) {
            here = here.max(row.new.as_ref().map_or(0, |it| it.range().start));
            if !misses(&row) {
                continue;
            }
            if (is_same || is_spaces(row)) && !is_marked(row) {
                has_spaces = true;
                continue;
            }
            let (old, new) = (row.old.clone(), row.new.clone());
            found.push(Hidden { at: here, sort: row.sort, old, new });
        }
        has_spaces |= found.len() == first && !part.iter().any(is_marked);
        if part[0].sort != RowSort::Kept && has_spaces {
            let new = Some(Line::empty());
            found.push(Hidden { at, sort: RowSort::Changed, old: None, new });
        }
        let ends = part.iter().filter_map(|it| it.new.as_ref()).map(|it| it.range().end);
        at = ends.fold(at, usize::max);
    }
    found
}

/// Returns whether lines are the same but for spaces and line breaks.
fn is_same(part: &[Row], old: &Mentioned<'_>, new: &Mentioned<'_>) -> bool {
    let olds = part.iter().filter_map(|it| it.old.as_ref()).flat_map(|it| old.words(it));
    let news = part.iter().filter_map(|it| it.new.as_ref()).flat_map(|it| new.words(it));
    olds.eq(news)
}
