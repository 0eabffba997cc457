//! Tables that fit the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::cli::terminal::escape;

/// Minimum width of the first column, which holds the id.
const FIRST_WIDTH_MIN: usize = 8;
/// Minimum width of any other column.
const COLUMN_WIDTH_MIN: usize = 3;
/// Between two columns.
const GAP: &str = "  ";

/// Rows of cells under headings. Cells are escaped when they are added.
#[derive(Debug)]
pub(in crate::cli) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns an empty table.
    pub(in crate::cli) fn new(heads: &[&'static str]) -> Table {
        Table { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; a missing cell is empty.
    pub(in crate::cli) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let mut row: Vec<String> =
            cells.into_iter().map(|cell| escape::line(cell.as_ref())).collect();
        row.resize(self.heads.len(), String::new());
        self.rows.push(row);
    }

    /// Whether there are no rows.
    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the lines, the headings first; cut to the terminal's `width`, if given.
    pub(in crate::cli) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let widths = self.widths(width);
        let heads: Vec<String> = self.heads.iter().map(|&head| head.to_owned()).collect();
        std::iter::once(&heads).chain(&self.rows).map(|row| lay_out(row, &widths)).collect()
    }

    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heads.iter().map(|head| head.width()).collect();
        for row in &self.rows {
            for (at, cell) in row.iter().enumerate() {
                widths[at] = widths[at].max(cell.width());
            }
        }
        let Some(width) = width else { return widths };
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        // The widest column is cut first, because short columns (ids, states) carry the most
        // information.
        while over > 0 {
            let mut columns = widths.iter_mut();
            let first = columns.next().filter(|width| **width > FIRST_WIDTH_MIN);
            let columns = columns.filter(|width| **width > COLUMN_WIDTH_MIN);
            let Some(widest) = first.into_iter().chain(columns).max() else { break };
            *widest -= 1;
            over -= 1;
        }
        widths
    }
}

fn lay_out(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, &width) in row.iter().zip(widths) {
        let cell = cut(cell, width);
        let pad = width.saturating_sub(cell.width());
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', pad));
        line.push_str(GAP);
    }
    line.truncate(line.trim_end().len());
    line
}

/// Returns the start of a text within `width` columns, with `…` if it was cut.
pub(in crate::cli) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    let mut short = String::new();
    let mut taken = 1;
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        if taken > width {
            break;
        }
        short.push(c);
    }
    // A sequence of characters can be wider than its parts (an emoji with a variation selector).
    while short.width() >= width && !short.is_empty() {
        short.pop();
    }
    short.push('…');
    short
}

/// Returns a size for people to read.
pub(in crate::cli) fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KiB", bytes.div_ceil(1_024)),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "STATUS", "TITLE"]);
        table.row(["7f3a", "open", "A title that is long enough to be cut somewhere"]);
        table.row(["81bc", "日本語", "short"]);
        table.row(["9"]);
        table
    }

    #[test]
    fn columns_line_up_by_what_the_terminal_shows() {
        let lines = table().lines(None);
        assert_eq!(lines[0], "ID    STATUS  TITLE");
        assert_eq!(lines[2], "81bc  日本語  short");
        assert_eq!(lines[3], "9");
    }

    #[test]
    fn the_widest_column_is_cut_first() {
        let lines = table().lines(Some(30));
        assert_eq!(lines[1], "7f3a  open    A title that is…");
        assert!(lines.iter().all(|line| line.width() <= 30));
    }

    #[test]
    fn a_narrow_terminal_keeps_the_ids_whole() {
        let mut table = Table::new(&["ID", "STATUS", "PLACE", "MSGS", "WHEN", "BY", "SOURCE"]);
        table.row(["0123abcd", "discarded", "orphaned", "12", "just now", "ada", "guide.md"]);
        let lines = table.lines(Some(44));
        assert!(lines.iter().all(|line| line.width() <= 44), "{lines:?}");
        assert!(lines[1].starts_with("0123abcd  "), "{lines:?}");
    }

    #[test]
    fn a_cell_cannot_break_its_row() {
        let mut table = Table::new(&["A", "B"]);
        table.row(["x\ny\x1b[31m", "z"]);
        assert_eq!(table.lines(None)[1], "x\\ny\\u{1b}[31m  z");
    }

    proptest::proptest! {
        #[test]
        fn a_table_never_exceeds_the_terminal(cells in proptest::collection::vec(".{0,40}", 3),
                                              width in 30usize..120) {
            let mut table = Table::new(&["A", "B", "C"]);
            table.row(&cells);
            for line in table.lines(Some(width)) {
                proptest::prop_assert!(line.width() <= width, "{line}");
            }
        }

        #[test]
        fn a_cut_text_fits(text in ".*", width in 0usize..20) {
            proptest::prop_assert!(cut(&text, width).width() <= width);
        }
    }
}
