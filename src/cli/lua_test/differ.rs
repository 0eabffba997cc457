//! The difference of two values of a failed test: lines, and words inside them.

use std::ops::Range;

use unicode_width::UnicodeWidthStr as _;

use crate::cli::terminal::escape;
use crate::documents::compare::redline::{Line, Row, RowSort, Stretch, redline};
use crate::script::lab::Difference;

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;
/// Longest value shown on one line, in characters.
const SHORT_CHARS_MAX: usize = 70;
/// Most lines shown.
const LINES_MAX: usize = 200;

/// The type of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// In both, or a note.
    Plain,
    /// Expected.
    Wanted,
    /// Actual.
    Got,
}

/// Returns the lines of a difference, escaped for a terminal.
pub(super) fn lines(of: &Difference) -> Vec<(Sort, String)> {
    let mut shown = match &of.want {
        None => only(&of.got),
        Some(want) if is_short(&of.got) && is_short(want) => both(want, &of.got),
        Some(want) => whole(want, &of.got),
    };
    if shown.len() > LINES_MAX {
        let more = shown.len() - LINES_MAX;
        shown.truncate(LINES_MAX);
        shown.push((Sort::Plain, format!("… {more} more lines")));
    }
    shown
}

fn is_short(text: &str) -> bool {
    !text.contains('\n') && text.chars().count() <= SHORT_CHARS_MAX
}

fn only(got: &str) -> Vec<(Sort, String)> {
    let mut shown = vec![(Sort::Plain, "got:".to_owned())];
    shown.extend(got.lines().map(|it| (Sort::Got, format!("  {}", escape::line(it)))));
    shown
}

/// Returns two short values one above the other.
fn both(want: &str, got: &str) -> Vec<(Sort, String)> {
    let redline = redline(want, got);
    let row = redline.rows.iter().find(|it| it.sort == RowSort::Changed);
    let mut shown = Vec::new();
    for (word, sort, text) in [("want:", Sort::Wanted, want), ("got: ", Sort::Got, got)] {
        shown.push((sort, format!("{word} {}", escape::line(text))));
        let line =
            row.and_then(|it| if sort == Sort::Got { it.new.as_ref() } else { it.old.as_ref() });
        if let Some(carets) = line.and_then(|it| carets(it, text)) {
            shown.push((sort, format!("      {carets}")));
        }
    }
    shown
}

fn whole(want: &str, got: &str) -> Vec<(Sort, String)> {
    let redline = redline(want, got);
    let mut shown = vec![(Sort::Plain, "want -, got +:".to_owned())];
    for stretch in redline.stretches(CONTEXT_LINES) {
        match stretch {
            Stretch::Folded(rows) => {
                shown.push((Sort::Plain, format!("  … {} equal lines", rows.len())));
            }
            Stretch::Shown(rows) => {
                for row in &redline.rows[rows] {
                    show(row, (want, got), &mut shown);
                }
            }
        }
    }
    if want.ends_with('\n') != got.ends_with('\n') {
        let which = if want.ends_with('\n') { "wanted" } else { "other" };
        shown.push((Sort::Plain, format!("only the {which} text ends with a line break")));
    }
    shown
}

fn show(row: &Row, (want, got): (&str, &str), shown: &mut Vec<(Sort, String)>) {
    if row.sort == RowSort::Kept {
        let line = row.new.as_ref().map(|it| text_of(it, got)).unwrap_or_default();
        return shown.push((Sort::Plain, format!("  {line}")));
    }
    for (sign, sort, line, text) in
        [('-', Sort::Wanted, &row.old, want), ('+', Sort::Got, &row.new, got)]
    {
        let Some(line) = line else { continue };
        shown.push((sort, format!("{sign} {}", text_of(line, text))));
        if row.sort == RowSort::Changed
            && let Some(carets) = carets(line, text)
        {
            shown.push((sort, format!("  {carets}")));
        }
    }
}

fn text_of(line: &Line, text: &str) -> String {
    line.pieces.iter().map(|it| piece(text, &it.range)).collect()
}

fn piece(text: &str, range: &Range<usize>) -> String {
    escape::line(text.get(range.clone()).unwrap_or_default())
}

/// Returns the markers under the words that changed; `None` if all did.
fn carets(line: &Line, text: &str) -> Option<String> {
    let has_kept = line.pieces.iter().any(|it| !it.is_changed);
    let has_changed = line.pieces.iter().any(|it| it.is_changed);
    if !(has_kept && has_changed) {
        return None;
    }
    let mut under = String::new();
    for it in &line.pieces {
        let sign = if it.is_changed { "^" } else { " " };
        under.push_str(&sign.repeat(piece(text, &it.range).width()));
    }
    Some(under.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(want: &str, got: &str) -> String {
        let difference = Difference { got: got.to_owned(), want: Some(want.to_owned()) };
        lines(&difference).into_iter().map(|(_, it)| it + "\n").collect()
    }

    #[test]
    fn short_values_stand_one_above_the_other() {
        assert_eq!(shown("succeeded", "failed"), "want: succeeded\ngot:  failed\n");
        let expected =
            "want: keep it brief\n              ^^^^^\ngot:  keep it short\n              ^^^^^\n";
        assert_eq!(shown("keep it brief", "keep it short"), expected);
    }

    #[test]
    fn words_that_differ_are_marked_in_long_texts() {
        let want = "Check the links.\n\nPage: guide.md\nTone: short\n";
        let got = "Check the links.\n\nPage: notes.md\nTone: short\n";
        let expected = "\
want -, got +:
  Check the links.
  \n- Page: guide.md
        ^^^^^
+ Page: notes.md
        ^^^^^
  Tone: short
";
        assert_eq!(shown(want, got), expected);
    }

    #[test]
    fn a_hostile_text_cannot_reach_the_terminal() {
        let text = shown("a\nb\n", "a\u{1b}[2Jx\u{202e}\nb\n");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
}
