//! Three-way merge of texts, line by line.
//!
//! **Invariant:** the merged text consists of whole lines of the two texts, byte for byte, with
//! their own line endings.
//! **Invariant:** adjacent changes are a conflict, unless they are equal.

use std::ops::Range;

use crate::api::proposals::{Conflict, Conflicts};
use crate::base::truncate_chars;
use crate::documents::compare::diff::{Change, changes_of};

/// Most conflicts described.
const CONFLICTS_SHOWN_MAX: usize = 20;
/// Characters kept of each side of a conflict.
const SIDE_CHARS_MAX: usize = 1_000;

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The merged text.
    Clean(String),
    /// Both sides changed the same lines.
    Conflicts(Conflicts),
}

/// Merges the changes from `base` to `current` and to `proposed`.
pub fn merge(base: &str, current: &str, proposed: &str) -> Merged {
    let (text, conflicts) = combine(base, current, proposed);
    match conflicts.count {
        0 => Merged::Clean(text),
        _ => Merged::Conflicts(conflicts),
    }
}

/// Merges the same changes; where both sides changed the same lines, those of `proposed` are used.
pub fn merge_over(base: &str, current: &str, proposed: &str) -> String {
    combine(base, current, proposed).0
}

fn combine(base: &str, current: &str, proposed: &str) -> (String, Conflicts) {
    let old = lines(base);
    let mut ours = Side::new(&old, lines(current));
    let mut theirs = Side::new(&old, lines(proposed));
    let mut text = String::with_capacity(current.len().max(proposed.len()));
    let mut conflicts = Conflicts { shown: Vec::new(), count: 0 };
    let mut at = 0;
    while let Some(start) = ours.next().into_iter().chain(theirs.next()).min() {
        text.extend(old[at..start].iter().copied());
        let (mut end, mut before) = (start, None);
        // Grows until no change of either side touches the range.
        while before != Some(end) {
            before = Some(end);
            end = ours.take_touching(end);
            end = theirs.take_touching(end);
        }
        let (is_ours, is_theirs) = (ours.taken > 0, theirs.taken > 0);
        let (line, mine) = ours.pass(start..end);
        let (_, yours) = theirs.pass(start..end);
        if !is_theirs || mine == yours {
            text.push_str(&mine);
        } else if !is_ours {
            text.push_str(&yours);
        } else {
            text.push_str(&yours);
            conflicts.count += 1;
            if conflicts.shown.len() < CONFLICTS_SHOWN_MAX {
                let (base, current) = (cut(&old[start..end].concat()), cut(&mine));
                conflicts.shown.push(Conflict { line, base, current, proposed: cut(&yours) });
            }
        }
        at = end;
    }
    text.extend(old[at..].iter().copied());
    (text, conflicts)
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn cut(text: &str) -> String {
    truncate_chars(text, SIDE_CHARS_MAX)
}

/// One side of a merge, at its position in the base.
struct Side<'t> {
    lines: Vec<&'t str>,
    /// Its remaining changes.
    changes: std::collections::VecDeque<Change>,
    /// How many of these belong to the range being merged.
    taken: usize,
    /// The line of this side that corresponds to line `base_at` of the base.
    at: usize,
    base_at: usize,
}

impl<'t> Side<'t> {
    fn new(base: &[&'t str], lines: Vec<&'t str>) -> Side<'t> {
        let changes = changes_of(base, &lines).into();
        Side { lines, changes, taken: 0, at: 0, base_at: 0 }
    }

    /// Returns the base line where the next change begins.
    fn next(&self) -> Option<usize> {
        self.changes.front().map(|it| it.old.start)
    }

    /// Takes the changes that touch the range ending before line `end`; returns the new end.
    fn take_touching(&mut self, mut end: usize) -> usize {
        while let Some(change) = self.changes.get(self.taken).filter(|it| it.old.start <= end) {
            end = end.max(change.old.end);
            self.taken += 1;
        }
        end
    }

    /// Advances to the end of a base range; returns this side's first line number, from 1, and its
    /// text of the range.
    fn pass(&mut self, base: Range<usize>) -> (usize, String) {
        let start = self.at + (base.start - self.base_at);
        let mut end = start + base.len();
        for change in self.changes.drain(..self.taken) {
            end = end - change.old.len() + change.new.len();
        }
        (self.taken, self.at, self.base_at) = (0, end, base.end);
        (start + 1, self.lines[start..end].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clean(base: &str, current: &str, proposed: &str) -> String {
        match merge(base, current, proposed) {
            Merged::Clean(text) => text,
            Merged::Conflicts(it) => panic!("{it:?}"),
        }
    }

    fn conflicts(base: &str, current: &str, proposed: &str) -> Conflicts {
        match merge(base, current, proposed) {
            Merged::Clean(text) => panic!("{text:?}"),
            Merged::Conflicts(it) => it,
        }
    }

    #[test]
    fn the_proposed_lines_win_and_the_other_changes_stay() {
        let current = "one\nTWO\nthree\nfour\nfive\nSIX\n";
        let proposed = "one\n2\nthree\nfour\nfive\nsix\n";
        let won = "one\n2\nthree\nfour\nfive\nSIX\n";
        assert_eq!(merge_over(BASE, current, proposed), won);
        assert_eq!(merge_over(BASE, BASE, proposed), proposed);
        assert_eq!(merge_over(BASE, current, BASE), current);
    }

    const BASE: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

    #[test]
    fn changes_apart_are_both_kept() {
        let current = "one\nTWO\nthree\nfour\nfive\nsix\n";
        let proposed = "zero\none\ntwo\nthree\nfour\nsix\nseven";
        let both = "zero\none\nTWO\nthree\nfour\nsix\nseven";
        assert_eq!(clean(BASE, current, proposed), both);
        assert_eq!(clean(BASE, proposed, current), both);
        assert_eq!(clean("", "a\n", ""), "a\n");
    }

    #[test]
    fn changes_that_touch_are_a_conflict_unless_they_are_the_same() {
        let current = BASE.replace("two\n", "2\n");
        let found = conflicts(BASE, &current, &BASE.replace("three\n", "3\n"));
        assert_eq!(found.count, 1);
        let (base, current_lines) = ("two\nthree\n".to_owned(), "2\nthree\n".to_owned());
        let proposed = "two\n3\n".to_owned();
        let want = Conflict { line: 2, base, current: current_lines, proposed };
        assert_eq!(found.shown, [want]);
        assert_eq!(clean(BASE, &current, &current), current);
        let with_end = BASE.replace("six", "6");
        let current = current.replace("six", "6");
        assert_eq!(clean(BASE, &current, &with_end), current);
        assert_eq!(conflicts("a\n", "a\nb\n", "a\nc\n").count, 1);
        assert_eq!(conflicts("a\nb\n", "a\n", "a\nB\n").count, 1);
    }

    #[test]
    fn line_ends_and_bytes_stay_as_they_are() {
        let base = "\u{feff}a\r\nb\r\nc\r\nd\r\ne";
        let current = base.replace("b\r\n", "b!\r\nb2\n");
        let proposed = base.replace("\r\ne", "\r\nE\u{301}");
        let both = "\u{feff}a\r\nb!\r\nb2\nc\r\nd\r\nE\u{301}";
        assert_eq!(clean(base, &current, &proposed), both);
        // A different line ending makes a different line.
        assert_eq!(conflicts("a\r\n", "a\n", "b\r\n").count, 1);
        assert_eq!(conflicts("a\nb", "a\nb\n", "a\nB").count, 1);
    }

    #[test]
    fn what_is_described_is_bounded() {
        let text = |word: &str| -> String {
            (0..60).map(|n| format!("{n} {}\nkept {n}\n", word.repeat(2_000))).collect()
        };
        let found = conflicts(&text("x"), &text("y"), &text("z"));
        assert_eq!((found.count, found.shown.len()), (60, CONFLICTS_SHOWN_MAX));
        assert!(found.shown.iter().all(|it| it.base.chars().count() <= SIDE_CHARS_MAX + 1));
        assert_eq!((found.shown[0].line, found.shown[1].line), (1, 3));
    }

    proptest! {
        #[test]
        fn who_changes_nothing_has_no_say(
            base in "([ab]\n|c\r\n){0,12}d?", other in "([ab]\n){0,12}",
        ) {
            prop_assert_eq!(clean(&base, &base, &other), other.clone());
            prop_assert_eq!(clean(&base, &other, &base), other.clone());
            prop_assert_eq!(clean(&base, &other, &other), other.clone());
        }

        #[test]
        fn sides_can_be_exchanged(
            base in "([abc]\n){0,12}", one in "([abc]\n){0,12}", two in "([abc]\n){0,12}d?",
        ) {
            match (merge(&base, &one, &two), merge(&base, &two, &one)) {
                (Merged::Clean(a), Merged::Clean(b)) => prop_assert_eq!(a, b),
                (Merged::Conflicts(a), Merged::Conflicts(b)) => prop_assert_eq!(a.count, b.count),
                (a, b) => prop_assert!(false, "{:?} {:?}", a, b),
            }
        }
    }
}
