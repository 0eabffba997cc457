//! A unified diff as lines with their numbers.

use crate::http::pages::visible::Visible;

/// A line of a diff.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// What it says.
    pub(super) sort: Sort,
    /// Its number in the old text.
    pub(super) old: Option<usize>,
    /// Its number in the new text.
    pub(super) new: Option<usize>,
    /// Its text, without the sign.
    pub(super) text: Visible,
}

/// What a line of a diff says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Only the new text has it.
    Added,
    /// Only the old text has it.
    Removed,
    /// Both have it.
    Kept,
    /// Where the next lines are.
    Place,
    /// A remark about the line before, or about the diff.
    Remark,
}

impl Sort {
    pub(super) fn class(self) -> &'static str {
        match self {
            Sort::Added => "added",
            Sort::Removed => "removed",
            Sort::Kept => "kept",
            Sort::Place => "place",
            Sort::Remark => "remark",
        }
    }

    pub(super) fn sign(self) -> &'static str {
        match self {
            Sort::Added => "+",
            Sort::Removed => "−",
            _ => "",
        }
    }
}

/// Returns the lines of a unified diff. The counts of each hunk say what is a line of a text: what
/// is in them may look like a head itself.
pub(super) fn changes(diff: &str) -> Vec<Change> {
    let (mut shown, mut old, mut new) = (Vec::new(), 0..0, 0..0);
    let mut lines = diff.split('\n').peekable();
    // The names of the file stand above the diff already.
    while lines.next_if(|it| it.starts_with("--- ") || it.starts_with("+++ ")).is_some() {}
    for line in lines {
        let inside = old.start < old.end || new.start < new.end;
        let mut numbers = (None, None);
        let sort = match line.as_bytes().first() {
            Some(b'+') if inside => Sort::Added,
            Some(b'-') if inside => Sort::Removed,
            Some(b' ') if inside => Sort::Kept,
            None => continue,
            Some(_) => match hunk(line) {
                Some((from, to)) if !inside => {
                    (old, new) = (from, to);
                    Sort::Place
                }
                _ => Sort::Remark,
            },
        };
        if matches!(sort, Sort::Removed | Sort::Kept) {
            numbers.0 = old.next();
        }
        if matches!(sort, Sort::Added | Sort::Kept) {
            numbers.1 = new.next();
        }
        let is_text = matches!(sort, Sort::Added | Sort::Removed | Sort::Kept);
        let text = match sort {
            Sort::Place => format!("Line {}", new.start),
            Sort::Remark => line.trim_start_matches(['\\', ' ']).to_owned(),
            _ => line[usize::from(is_text)..].to_owned(),
        };
        shown.push(Change { sort, old: numbers.0, new: numbers.1, text: Visible(text) });
    }
    shown
}

/// Reads `@@ -1,2 +3,4 @@`.
fn hunk(line: &str) -> Option<(std::ops::Range<usize>, std::ops::Range<usize>)> {
    let inner = line.strip_prefix("@@ -")?.split(" @@").next()?;
    let (old, new) = inner.split_once(" +")?;
    let range = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        let (start, count): (usize, usize) = (start.parse().ok()?, count.parse().ok()?);
        Some(start..start + count)
    };
    Some((range(old)?, range(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::unified;

    #[test]
    fn text_that_looks_like_a_head_is_text() {
        let old = "a\n-- b/x\n@@ -1 +1 @@\nend";
        let new = "a\n++ b/x\n@@ -9 +9 @@\nend\n";
        let shown = changes(&unified(Some(old), new, "x.md"));
        let lines: Vec<(Sort, &str)> =
            shown.iter().map(|it| (it.sort, it.text.0.as_str())).collect();
        assert_eq!(lines[0], (Sort::Place, "Line 1"));
        assert!(lines.contains(&(Sort::Removed, "-- b/x")), "{lines:?}");
        assert!(lines.contains(&(Sort::Added, "++ b/x")), "{lines:?}");
        assert!(lines.contains(&(Sort::Removed, "@@ -1 +1 @@")), "{lines:?}");
        assert!(lines.contains(&(Sort::Remark, "No newline at end of file")), "{lines:?}");
        assert_eq!(lines.iter().filter(|(sort, _)| *sort == Sort::Place).count(), 1);
    }

    #[test]
    fn lines_have_the_numbers_of_their_texts() {
        let old: String = (1..40).map(|it| format!("{it}\n")).collect();
        let new = old.replace("20\n", "20\ntwenty\n").replace("30\n", "");
        let shown = changes(&unified(Some(&old), &new, "x.md"));
        let of = |text: &str| {
            let found = shown.iter().find(|it| it.text.0 == text && it.sort != Sort::Place);
            found.map(|it| (it.sort, it.old, it.new))
        };
        assert_eq!(of("twenty"), Some((Sort::Added, None, Some(21))));
        assert_eq!(of("30"), Some((Sort::Removed, Some(30), None)));
        assert_eq!(of("31"), Some((Sort::Kept, Some(31), Some(31))));
    }
}
