//! A diff of two texts, side by side or unified.
//!
//! **Invariant:** whatever is not shown is said, with where it can be seen.

use std::ops::Range;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::documents::compare::redline::{self, Line, LineEnd, Redline, RowSort, Stretch};
use crate::http::pages::parts::labels;
use crate::http::pages::parts::visible::{Visible, Within};

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;
/// Text per page of a diff, in bytes of both sides.
const PAGE_BYTES_MAX: usize = crate::base::limit::DIFF_BYTES_MAX;
/// Rows per page.
const PAGE_ROWS_MAX: usize = 4_000;
/// Most bytes of folded lines included in the page.
const FOLDED_BYTES_MAX: usize = 256 * 1024;
/// The mark with which some programs begin a text.
pub(in crate::http::pages) const BYTE_ORDER_MARK: char = '\u{feff}';
/// Bytes shown of one line.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The lines of two texts.
#[derive(Template, Default)]
#[template(path = "difference.html")]
pub(in crate::http::pages) struct Difference {
    /// The prefix of its anchors, if it is one of several diffs on a page: each is of a passage,
    /// whose lines are not those of the document.
    prefix: String,
    parts: Vec<Part>,
    /// Numbers of added and removed lines.
    pub(in crate::http::pages) added: usize,
    pub(in crate::http::pages) removed: usize,
    /// Number of changes.
    pub(in crate::http::pages) changes: usize,
    /// Moved blocks: from which line to which.
    pub(in crate::http::pages) moves: Vec<(usize, usize)>,
    is_coarse: bool,
    /// The first row of the next page.
    pub(in crate::http::pages) next: Option<usize>,
}

impl HtmlSafe for Difference {}

/// Rows that are shown or folded.
struct Part {
    /// The number of folded lines, and the heading that they lead to.
    folded: Option<(usize, Option<Visible>)>,
    rows: Vec<Shown>,
}

/// A row.
struct Shown {
    class: &'static str,
    /// The number of the change that begins here.
    change: Option<usize>,
    old: Option<Cell>,
    new: Option<Cell>,
    /// The note next to it, and a link to its other half.
    note: Option<(String, Option<String>)>,
}

/// One side of a row.
struct Cell {
    number: usize,
    /// Its marker, as a sign and as words.
    sign: &'static str,
    word: &'static str,
    pieces: Vec<(Within, bool)>,
    /// Whether the other text lacks the whole line.
    is_whole: bool,
    /// Number of bytes that are not shown.
    left_out: usize,
    end: Option<&'static str>,
}

impl Difference {
    /// Compares two texts, and shows them from a row on.
    pub(in crate::http::pages) fn of(old: &str, new: &str, from: usize) -> Difference {
        Difference::named("", old, new, from)
    }

    /// Like [`Difference::of`], next to others on the same page.
    pub(in crate::http::pages) fn named(
        prefix: &str,
        old: &str,
        new: &str,
        from: usize,
    ) -> Difference {
        let redline = redline::redline(old, new);
        let mut made = Difference { prefix: prefix.to_owned(), ..Difference::default() };
        made.is_coarse = redline.is_coarse;
        let count =
            |of: fn(&RowSort) -> bool| redline.rows.iter().filter(|it| of(&it.sort)).count();
        made.added = count(|it| matches!(it, RowSort::Added | RowSort::Changed));
        made.removed = count(|it| matches!(it, RowSort::Removed | RowSort::Changed));
        made.moves = redline.moves.iter().map(|it| (it.old.start + 1, it.new.start + 1)).collect();
        Writer::new(&redline, old, new).write(&mut made, from);
        made
    }

    /// Returns whether the texts are equal.
    pub(in crate::http::pages) fn is_empty(&self) -> bool {
        self.changes == 0
    }
}

/// Turns rows into the view.
struct Writer<'t> {
    redline: &'t Redline,
    old: &'t str,
    new: &'t str,
    /// Whether line ends are part of the change.
    has_ends: bool,
    /// Whether both texts start with a byte order mark, which is no part of the change.
    has_mark: bool,
}

impl<'t> Writer<'t> {
    fn new(redline: &'t Redline, old: &'t str, new: &'t str) -> Writer<'t> {
        let sort = |text: &str| {
            let (all, pairs) = (text.matches('\n').count(), text.matches("\r\n").count());
            (pairs == 0, pairs == all)
        };
        let (a, b) = (sort(old), sort(new));
        let is_plain = (a.0 && b.0) || (a.1 && b.1);
        let has_mark = old.starts_with(BYTE_ORDER_MARK) && new.starts_with(BYTE_ORDER_MARK);
        Writer { redline, old, new, has_ends: !is_plain, has_mark }
    }

    fn write(&self, made: &mut Difference, from: usize) {
        let (mut bytes, mut folded_bytes, mut rows, mut is_inside) = (0, 0, 0, false);
        for stretch in self.redline.stretches(CONTEXT_LINES) {
            let (range, is_folded) = match stretch {
                Stretch::Shown(range) => (range, false),
                Stretch::Folded(range) => (range, true),
            };
            let mut part = Part { folded: None, rows: Vec::new() };
            if is_folded {
                is_inside = false;
                if range.start < from || made.next.is_some() {
                    continue;
                }
                part.folded = Some((range.len(), self.heading(range.clone())));
                let size: usize = range.clone().map(|it| self.bytes(it)).sum();
                folded_bytes += size;
                if folded_bytes <= FOLDED_BYTES_MAX {
                    part.rows = range.map(|it| self.row(it, None)).collect();
                }
                made.parts.push(part);
                continue;
            }
            for at in range {
                let is_kept = self.redline.rows[at].sort == RowSort::Kept;
                let begins = !is_kept && !is_inside;
                is_inside = !is_kept;
                made.changes += usize::from(begins);
                if at < from || made.next.is_some() {
                    continue;
                }
                bytes += self.bytes(at).min(2 * LINE_BYTES_MAX);
                rows += 1;
                if (bytes > PAGE_BYTES_MAX || rows > PAGE_ROWS_MAX) && rows > 1 {
                    made.next = Some(at);
                    continue;
                }
                part.rows.push(self.row(at, begins.then_some(made.changes)));
            }
            if !part.rows.is_empty() {
                made.parts.push(part);
            }
        }
    }

    fn bytes(&self, row: usize) -> usize {
        let of = |line: &Option<Line>| {
            line.as_ref().map_or(0, |it| it.pieces.iter().map(|it| it.range.len()).sum::<usize>())
        };
        of(&self.redline.rows[row].old) + of(&self.redline.rows[row].new)
    }

    /// Returns the last heading among unchanged lines, which names the place after them.
    fn heading(&self, rows: Range<usize>) -> Option<Visible> {
        rows.rev().take(2_000).find_map(|it| {
            let line = self.redline.rows[it].new.as_ref()?.pieces.first()?;
            let text = self.new[line.range.clone()].trim();
            let title = text.trim_start_matches('#');
            let is_heading = (1..=6).contains(&(text.len() - title.len()));
            (is_heading && title.starts_with(' '))
                .then(|| Visible(labels::beginning(title.trim(), 60)))
        })
    }

    fn row(&self, at: usize, change: Option<usize>) -> Shown {
        let row = &self.redline.rows[at];
        let (class, note) = match row.sort {
            RowSort::Kept => ("kept", None),
            RowSort::Added => ("added", None),
            RowSort::Removed => ("removed", None),
            RowSort::Changed => ("changed", self.space_note(row)),
            RowSort::MovedAway(number) => ("away", self.move_note(at, number, true)),
            RowSort::MovedHere(number) => ("here", self.move_note(at, number, false)),
        };
        let is_ends = row.sort != RowSort::Kept && self.has_ends;
        let cell = |line: &Option<Line>, text: &str, (sign, word): (&'static str, &'static str)| {
            let skipped = if self.has_mark { BYTE_ORDER_MARK.len_utf8() } else { 0 };
            let made = line.as_ref().map(|it| cell(it, (text, skipped), row.sort, is_ends));
            made.map(|it| Cell { sign, word, ..it })
        };
        let (before, after) = match row.sort {
            RowSort::Kept => (("", ""), ("", "")),
            RowSort::MovedAway(_) | RowSort::MovedHere(_) => {
                (("↷", "moved away"), ("↷", "moved here"))
            }
            _ => (("−", "before"), ("+", "after")),
        };
        let (old, new) = (cell(&row.old, self.old, before), cell(&row.new, self.new, after));
        Shown { class, change, old, new, note }
    }

    /// Describes the difference of two lines with the same words.
    fn space_note(&self, row: &redline::Row) -> Option<(String, Option<String>)> {
        let (old, new) = (row.old.as_ref()?, row.new.as_ref()?);
        if old.pieces.iter().chain(&new.pieces).any(|it| it.is_changed) {
            return None;
        }
        let text = |line: &Line, text: &str| -> String {
            line.pieces.iter().map(|it| &text[it.range.clone()]).collect()
        };
        let is_same = text(old, self.old) == text(new, self.new);
        let word = match (is_same, old.end, new.end) {
            (true, LineEnd::Text, _) => "adds a line break at the end of the text",
            (true, _, LineEnd::Text) => "removes the line break at the end of the text",
            (true, ..) => "only the line ending changes",
            (false, ..) => "only spaces and line breaks change",
        };
        Some((word.to_owned(), None))
    }

    fn move_note(
        &self,
        at: usize,
        number: usize,
        is_away: bool,
    ) -> Option<(String, Option<String>)> {
        let before = at.checked_sub(1).map(|it| self.redline.rows[it].sort);
        if before == Some(self.redline.rows[at].sort) {
            return None;
        }
        let it = &self.redline.moves[number];
        let is_edited = !it.gone.is_empty() || !it.come.is_empty();
        let how = if is_edited { " and edited" } else { "" };
        let lines = |range: &Range<usize>| match range.len() {
            1 => format!("line {}", range.start + 1),
            _ => format!("lines {}–{}", range.start + 1, range.end),
        };
        Some(match is_away {
            true => (
                format!("Moved{how}, to {}", lines(&it.new)),
                Some(format!("n{}", it.new.start + 1)),
            ),
            false => (
                format!("Moved{how}, from {}", lines(&it.old)),
                Some(format!("o{}", it.old.start + 1)),
            ),
        })
    }
}

/// Returns one side of a row, without the first `skipped` bytes of the text.
fn cell(line: &Line, (text, skipped): (&str, usize), sort: RowSort, is_ends: bool) -> Cell {
    let is_whole = match sort {
        RowSort::Kept | RowSort::MovedAway(_) | RowSort::MovedHere(_) => false,
        _ => line.pieces.iter().all(|it| it.is_changed),
    };
    let (mut left, mut left_out) = (LINE_BYTES_MAX, 0);
    let mut pieces = Vec::with_capacity(line.pieces.len());
    for piece in &line.pieces {
        let start = piece.range.start.max(skipped).min(piece.range.end);
        let whole = &text[start..piece.range.end];
        let mut end = whole.len().min(left);
        while !whole.is_char_boundary(end) {
            end -= 1;
        }
        left -= end;
        left_out += whole.len() - end;
        if end > 0 {
            pieces.push((Within::of(text, start..start + end), piece.is_changed));
        }
    }
    let end = match line.end {
        LineEnd::Text if sort != RowSort::Kept => Some("no line break at the end"),
        LineEnd::CrLf if is_ends => Some("CR LF"),
        LineEnd::Lf if is_ends => Some("LF"),
        _ => None,
    };
    Cell { number: line.number, sign: "", word: "", pieces, is_whole, left_out, end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pages::parts::reading::Reading;

    #[test]
    fn what_changed_is_said_in_words_and_signs() {
        let made = Difference::of("a fine day\nx\n", "a dark day\nx\n", 0);
        assert_eq!((made.added, made.removed, made.changes), (1, 1, 1));
        let html = made.to_string();
        for part in [
            "<del><span class=\"vh\">removed: </span>fine</del>",
            "<ins><span class=\"vh\">added: </span>dark</ins>",
            "id=\"change-1\"",
            "id=\"n1\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains(" style="));
        let html = Difference::of("a", "a\n", 0).to_string();
        assert!(html.contains("adds a line break at the end of the text"), "{html}");
    }

    #[test]
    fn the_lines_of_a_passage_are_not_numbered_as_those_of_the_document() {
        let html = Difference::of("a\nb\n", "a\nc\n", 0).to_string();
        assert!(html.contains("before, line 2: ") && html.contains("after, line 2: "), "{html}");
        let html = Difference::named("m1-1-", "a\nb\n", "a\nc\n", 0).to_string();
        assert!(html.contains(">before: <") && html.contains(">after: <"), "{html}");
        assert!(!html.contains("line 2"), "{html}");
    }

    #[test]
    fn what_others_wrote_is_text_and_seen() {
        let new = "<script>alert(1)</script> \u{202e}x\u{200b}\n";
        let html = Difference::of("", new, 0).to_string();
        assert!(!html.contains("<script>") && html.contains("U+202E"), "{html}");
        let html = Reading::of("", new).unwrap().to_string();
        assert!(!html.contains("<script>") && html.contains("U+202E"), "{html}");
        let html = Reading::of("x\n", "[//]: # (<i>)\nx\n").unwrap().to_string();
        assert!(html.contains("added: source that is not shown when rendered"), "{html}");
        assert!(html.contains("[//]: # (&#60;i&#62;)"), "{html}");
        let html = Reading::of("[a](b)", "[a](javascript:c)").unwrap().to_string();
        assert!(html.contains("javascript:c") && !html.contains("href"), "{html}");
    }

    #[test]
    fn what_belongs_to_the_writing_of_a_text_is_no_change() {
        let old = "\u{feff}می\u{200c}پزیم a\r\n👩\u{200d}🍳\r\n";
        for new in [old.replace(" a", " b"), old.replace("پزیم", "خواهم")] {
            let html = Difference::of(old, &new, 0).to_string();
            assert!(!html.contains("class=\"odd\""), "{html}");
        }
        let html = Reading::of(old, &old.replace(" a", " b")).unwrap().to_string();
        assert!(!html.contains("class=\"odd\""), "{html}");
        let html = Difference::of(old, old.trim_start_matches('\u{feff}'), 0).to_string();
        assert!(html.contains("U+FEFF"), "{html}");
    }

    #[test]
    fn a_long_difference_comes_in_pages() {
        let new = "some line of a long text\n".repeat(10_000);
        let first = Difference::of("", &new, 0);
        let next = first.next.unwrap();
        let second = Difference::of("", &new, next);
        assert!(second.next.unwrap() > next);
        assert!(second.to_string().contains(&format!("id=\"n{}\"", next + 1)));
        let line = Difference::of("", &"x".repeat(1024 * 1024), 0).to_string();
        assert!(line.len() < 200_000 && line.contains("more bytes"), "{}", line.len());
    }

    #[test]
    fn what_moved_leads_to_its_other_half() {
        let rest: String = (0..9).map(|it| format!("Line {it} stays here.\n\n")).collect();
        let block = "The bridge over the river is built of steel.";
        let old = format!("{block}\n\n{rest}");
        let html = Difference::of(&old, &format!("{rest}{block}\n\n"), 0).to_string();
        assert!(html.contains("href=\"#n18\">Moved, to lines 18–19"), "{html}");
        assert!(html.contains("href=\"#o1\">Moved, from lines 1–2"), "{html}");
    }
}
