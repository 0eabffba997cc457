//! Unified diffs.

use std::fmt::Write as _;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};

use crate::documents::compare::tokens::{Run, WHOLE_TOKENS_MAX, kept_runs};

/// Lines shown around a change.
const CONTEXT_LINES: usize = 3;
/// Longest diff, in bytes.
pub const DIFF_BYTES_MAX: usize = crate::base::limit::DIFF_BYTES_MAX;

/// Returns the unified diff of two texts, empty if they are equal; without an old text the file is
/// new. A diff longer than [`DIFF_BYTES_MAX`] is cut, with a last line that says so.
pub fn unified(old: Option<&str>, new: &str, path: &str) -> String {
    unified_within(old, new, path, DIFF_BYTES_MAX)
}

fn unified_within(old: Option<&str>, new: &str, path: &str, bytes_max: usize) -> String {
    if old == Some(new) {
        return String::new();
    }
    let before = old.map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{path}"));
    let old = old.unwrap_or_default();
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let changes = changes_of(&old_lines, &new_lines);
    let mut shown = format!("--- {before}\n+++ b/{path}\n");
    for group in changes.chunk_by(|a, b| b.old.start - a.old.end <= 2 * CONTEXT_LINES) {
        if !show_group(&mut shown, group, &old_lines, &new_lines, bytes_max) {
            shown.push_str("… the diff is too long and was cut here\n");
            break;
        }
    }
    shown
}

/// A range of lines replaced by another.
pub(in crate::documents) struct Change {
    /// Lines of the old text, from 0.
    pub(in crate::documents) old: Range<usize>,
    /// Lines of the new text.
    pub(in crate::documents) new: Range<usize>,
}

/// Returns the changes between lines in order; at least one unchanged line separates two changes.
pub(in crate::documents) fn changes_of(old: &[&str], new: &[&str]) -> Vec<Change> {
    let mut input: InternedInput<&str> = InternedInput::default();
    input.update_before(old.iter().copied());
    input.update_after(new.iter().copied());
    changes(&input)
}

/// Returns the changes. Only texts of ordinary size get human-friendly change boundaries; for
/// larger ones the running time is bounded.
fn changes(input: &InternedInput<&str>) -> Vec<Change> {
    let (old, new) = (&input.before, &input.after);
    if old.len() + new.len() <= WHOLE_TOKENS_MAX {
        let mut diff = Diff::compute(Algorithm::Histogram, input);
        diff.postprocess_lines(input);
        let change = |it: Hunk| Change {
            old: it.before.start as usize..it.before.end as usize,
            new: it.after.start as usize..it.after.end as usize,
        };
        return diff.hunks().map(change).collect();
    }
    let mut changes = Vec::new();
    let (mut from_old, mut from_new) = (0, 0);
    let end = Run { old: old.len(), new: new.len(), count: 0 };
    for run in kept_runs(old, new).into_iter().chain(std::iter::once(end)) {
        if from_old < run.old || from_new < run.new {
            changes.push(Change { old: from_old..run.old, new: from_new..run.new });
        }
        (from_old, from_new) = (run.old + run.count, run.new + run.count);
    }
    changes
}

/// Writes changes that share their context; returns whether there was room.
fn show_group(
    shown: &mut String,
    group: &[Change],
    old: &[&str],
    new: &[&str],
    bytes_max: usize,
) -> bool {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return true };
    let before = first.old.start.min(CONTEXT_LINES);
    let after = (old.len() - last.old.end).min(CONTEXT_LINES);
    let olds = first.old.start - before..last.old.end + after;
    let news = first.new.start - before..last.new.end + after;
    // Writing to a String cannot fail.
    let _ = writeln!(shown, "@@ -{} +{} @@", numbers(&olds), numbers(&news));
    let mut at = olds.start;
    for change in group {
        let parts = [
            (' ', &old[at..change.old.start]),
            ('-', &old[change.old.clone()]),
            ('+', &new[change.new.clone()]),
        ];
        at = change.old.end;
        for (sign, lines) in parts {
            if !show_lines(shown, sign, lines, bytes_max) {
                return false;
            }
        }
    }
    show_lines(shown, ' ', &old[at..olds.end], bytes_max)
}

fn show_lines(shown: &mut String, sign: char, lines: &[&str], bytes_max: usize) -> bool {
    for line in lines {
        if shown.len() + line.len() > bytes_max {
            return false;
        }
        shown.push(sign);
        shown.push_str(line);
        if !line.ends_with('\n') {
            shown.push_str("\n\\ No newline at end of file\n");
        }
    }
    true
}

/// Formats `start,count` like `diff -u`: an empty range is named by the line before it.
fn numbers(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_change_has_three_lines_of_context() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let expected =
            "--- a/x.md\n+++ b/x.md\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
        assert_eq!(unified(Some(old), &old.replace('5', "five"), "x.md"), expected);
        assert_eq!(unified(Some(old), old, "x.md"), "");
        let made = unified(None, "a\nb", "x.md");
        assert!(made.starts_with("--- /dev/null\n+++ b/x.md\n@@ -0,0 "), "{made}");
        let made = unified(Some(""), "a\nb", "x.md");
        assert!(made.starts_with("--- a/x.md\n"), "{made}");
        assert!(
            made.ends_with("@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"),
            "{made}"
        );
        let gone = unified(Some("a\n"), "", "x.md");
        assert!(gone.ends_with("@@ -1 +0,0 @@\n-a\n"), "{gone}");
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let new = "some line\n".repeat(1000);
        let cut = unified_within(None, &new, "x.md", 500);
        assert!(cut.len() < 600 && cut.ends_with("was cut here\n"));
    }

    #[test]
    fn a_very_large_text_has_a_diff_that_applies() {
        let old: String = (0..90_000).map(|it| format!("{it}\n")).collect();
        let new = old.replace("5000\n", "five\n\n");
        assert_eq!(apply(&old, &unified(Some(&old), &new, "x.md")), new);
    }

    /// Applies a diff as `patch` would, but strictly.
    fn apply(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut at, mut new) = (0, String::new());
        let lines: Vec<&str> = diff.split_inclusive('\n').skip(2).collect();
        for (number, line) in lines.iter().enumerate() {
            let is_open = lines.get(number + 1).is_some_and(|it| it.starts_with('\\'));
            let body = &line[1..line.len() - usize::from(is_open)];
            match line.as_bytes()[0] {
                b'@' => {
                    let numbers = line.split([' ', ',']).nth(1).unwrap();
                    let start: usize = numbers[1..].parse().unwrap();
                    let is_empty = line.split(' ').nth(1).unwrap().ends_with(",0");
                    let start = if is_empty { start } else { start - 1 };
                    new.extend(old[at..start].iter().copied());
                    at = start;
                }
                b' ' => {
                    assert_eq!(old[at], body);
                    new.push_str(body);
                    at += 1;
                }
                b'-' => {
                    assert_eq!(old[at], body);
                    at += 1;
                }
                b'+' => new.push_str(body),
                _ => assert!(line.starts_with('\\')),
            }
        }
        new.extend(old[at..].iter().copied());
        new
    }

    proptest! {
        #[test]
        fn applying_the_diff_gives_the_new_text(
            old in "([a-d]{0,2}\r?\n){0,30}[a-b]?",
            new in "([a-d]{0,2}\r?\n){0,30}[a-b]?",
        ) {
            prop_assert_eq!(apply(&old, &unified(Some(&old), &new, "x.md")), new);
        }
    }
}
