//! The map between a text and its rendered page: blocks and their runs.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::Serialize;

use crate::base::{Error, Result};
use crate::http::markdown::prose::shown_units;

/// Longest run, in bytes.
const RUN_BYTES_MAX: usize = 1_024;

/// A block of text on the page, and the bytes shown in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::http) struct Block {
    /// Its first byte in the text; unique among blocks.
    pub(in crate::http) start: usize,
    /// The byte after its last.
    pub(in crate::http) end: usize,
    /// UTF-16 units of its element's `textContent`.
    pub(in crate::http) units: usize,
    /// Its runs, in order.
    pub(in crate::http) runs: Vec<Run>,
}

/// Characters that are shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::http) struct Run {
    /// Where they begin in the block's `textContent`, in UTF-16 units.
    pub(in crate::http) at: usize,
    /// Their length there, in UTF-16 units.
    pub(in crate::http) units: usize,
    /// Their first byte in the text.
    pub(in crate::http) start: usize,
    /// The byte after their last.
    pub(in crate::http) end: usize,
    /// Whether they are shown one for one; otherwise the whole run stands for all its bytes.
    pub(in crate::http) is_literal: bool,
}

/// A position on the page: a block, by its first byte, and an offset in UTF-16 units of its
/// `textContent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::http) struct Point {
    /// The first byte of the block.
    pub(in crate::http) block: usize,
    /// UTF-16 units before the place.
    pub(in crate::http) unit: usize,
}

impl Block {
    /// Records the next shown text. `shown` stands for the bytes `range` of `text`.
    pub(super) fn push(&mut self, text: &str, shown: &str, range: Range<usize>) {
        let units = shown.chars().map(shown_units).sum();
        if units == 0 {
            return;
        }
        let source = &text[range.clone()];
        let is_literal = shown == source
            || source.len() == shown.len()
                && source
                    .bytes()
                    .zip(shown.bytes())
                    .all(|(a, b)| a == b || a == b'\n' && b == b' ');
        if !is_literal {
            self.add(Run { at: self.units, units, start: range.start, end: range.end, is_literal });
            return;
        }
        // In short runs, because finding a position in a run counts its characters.
        let mut rest = shown;
        let mut start = range.start;
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.floor_char_boundary(RUN_BYTES_MAX));
            let units = piece.chars().map(shown_units).sum();
            let end = start + piece.len();
            self.add(Run { at: self.units, units, start, end, is_literal });
            (rest, start) = (more, end);
        }
    }

    fn add(&mut self, run: Run) {
        self.units += run.units;
        match self.runs.last_mut() {
            Some(last)
                if last.is_literal
                    && run.is_literal
                    && last.end == run.start
                    && run.end - last.start <= RUN_BYTES_MAX =>
            {
                last.end = run.end;
                last.units += run.units;
            }
            _ => self.runs.push(run),
        }
    }

    /// Returns the first run that shows some of these bytes, or the last one.
    fn run_of(&self, range: &Range<usize>, is_last: bool) -> Option<&Run> {
        let at = match is_last {
            false => self.runs.partition_point(|it| it.end <= range.start),
            true => self.runs.partition_point(|it| it.start < range.end).checked_sub(1)?,
        };
        self.runs.get(at).filter(|it| it.end > range.start && it.start < range.end)
    }

    /// Returns the byte at which the character after a number of units begins.
    fn first_byte(&self, text: &str, unit: usize) -> usize {
        let next = self.runs.partition_point(|it| it.at + it.units <= unit);
        match self.runs.get(next) {
            Some(run) if run.is_literal => {
                byte_after(&text[run.start..run.end], unit.saturating_sub(run.at), false)
                    + run.start
            }
            Some(run) => run.start,
            None => self.runs.last().map_or(self.start, |it| it.end),
        }
    }

    /// Returns the byte at which the character before a number of units ends.
    fn last_byte(&self, text: &str, unit: usize) -> usize {
        let next = self.runs.partition_point(|it| it.at < unit);
        match next.checked_sub(1).map(|it| self.runs[it]) {
            Some(run) if run.is_literal => {
                byte_after(&text[run.start..run.end], unit - run.at, true) + run.start
            }
            Some(run) => run.end,
            None => self.runs.first().map_or(self.start, |it| it.start),
        }
    }
}

impl Run {
    /// Returns the units before a byte of the text.
    fn unit_at(&self, text: &str, byte: usize) -> usize {
        let shown = text.get(self.start..byte.clamp(self.start, self.end));
        self.at + shown.map_or(0, |it| it.chars().map(shown_units).sum())
    }
}

/// Returns how many bytes a number of units takes; a character that is cut counts if `is_end`.
fn byte_after(text: &str, units: usize, is_end: bool) -> usize {
    let mut left = units;
    for (at, character) in text.char_indices() {
        let size = shown_units(character);
        if left == 0 && (is_end || size > 0) || size > left && !is_end {
            return at;
        }
        left = left.saturating_sub(size);
    }
    text.len()
}

/// Returns the number of bytes that a number of UTF-16 units takes at the beginning of a text that
/// is shown as it is.
pub(in crate::http) fn units_to_byte(text: &str, units: usize) -> usize {
    byte_after(text, units, true)
}

/// Returns the bytes between two positions on the page, including the markup between them. Two
/// equal positions are the whole block.
///
/// Nothing if a place is in no block.
pub(in crate::http) fn bytes_between(
    text: &str,
    blocks: &[Block],
    from: Point,
    to: Point,
) -> Option<Range<usize>> {
    let find = |point: Point| {
        let at = blocks.binary_search_by_key(&point.block, |it| it.start).ok()?;
        (point.unit <= blocks[at].units).then_some(&blocks[at])
    };
    let (first, last) = (find(from)?, find(to)?);
    if from == to {
        let whole = text.get(first.start..first.end)?.trim_end();
        return Some(first.start..first.start + whole.len());
    }
    Some(first.first_byte(text, from.unit)..last.last_byte(text, to.unit))
}

/// Returns the positions where bytes of a text are shown, from first to last.
///
/// Nothing if none of them is shown and no block holds them.
pub(in crate::http) fn points_of(
    text: &str,
    blocks: &[Block],
    range: &Range<usize>,
) -> Option<(Point, Point)> {
    let next = blocks.partition_point(|it| it.end <= range.start);
    let shown: Vec<&Block> = blocks[next..].iter().take_while(|it| it.start < range.end).collect();
    let first = shown.iter().find_map(|block| {
        let run = block.run_of(range, false)?;
        let unit = if run.is_literal { run.unit_at(text, range.start) } else { run.at };
        Some(Point { block: block.start, unit })
    });
    let last = shown.iter().rev().find_map(|block| {
        let run = block.run_of(range, true)?;
        let all = run.at + run.units;
        let unit = if run.is_literal { run.unit_at(text, range.end) } else { all };
        Some(Point { block: block.start, unit })
    });
    match (first, last) {
        (Some(first), Some(last)) if first != last => Some((first, last)),
        // Addresses and images have no text of their own, so their block stands for them.
        _ => {
            let block = shown.first()?;
            let point = |unit| Point { block: block.start, unit };
            Some((point(0), point(block.units)))
        }
    }
}

impl FromStr for Point {
    type Err = Error;
    fn from_str(text: &str) -> Result<Point> {
        let parts = text.split_once(':').and_then(|(block, unit)| {
            Some(Point { block: block.parse().ok()?, unit: unit.parse().ok()? })
        });
        parts.ok_or_else(|| {
            Error::invalid("a place on the page has two numbers, as in 120:7")
                .code("bad_selection")
                .hint("the first byte of its block, and how many UTF-16 units stand before it")
        })
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.block, self.unit)
    }
}
