//! The words of a change: which are kept, and which lines correspond because of them.

use std::ops::Range;

use imara_diff::InternedInput;

use crate::documents::anchor::Words;
use crate::documents::compare::redline::{Lines, Row, RowSort};
use crate::documents::compare::tokens::kept_runs;

/// Minimum similarity of corresponding lines, in percent of their words.
const ALIKE_PERCENT: usize = 30;
/// A run of kept words this small may be a coincidence.
const ISLAND_BYTES_MAX: usize = 16;
/// Rounds of removing small islands of kept words; each round may create new ones.
const PASSES_MAX: usize = 4;

/// Some lines of a text, joined.
pub(super) struct Part {
    text: String,
    /// The start of each line in it, followed by its end.
    starts: Vec<usize>,
    /// The start of each line in the whole text.
    origins: Vec<usize>,
}

impl Part {
    pub(super) fn of(lines: &Lines<'_>, chosen: &[usize]) -> Part {
        let mut part = Part { text: String::new(), starts: vec![0], origins: Vec::new() };
        for line in chosen {
            part.text.push_str(lines.all[*line]);
            part.starts.push(part.text.len());
            part.origins.push(lines.starts[*line]);
        }
        part
    }

    fn line_at(&self, byte: usize) -> usize {
        self.starts.partition_point(|it| *it <= byte).saturating_sub(1)
    }

    /// Maps a byte range of the part to ranges of the whole text, line by line.
    fn origin(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut made = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let line = self.line_at(at);
            let end = self.starts[line + 1].min(range.end);
            let shift = self.origins[line];
            made.push(shift + at - self.starts[line]..shift + end - self.starts[line]);
            at = end;
        }
        made
    }
}

/// The result of comparing words.
pub(super) struct Found {
    /// Byte ranges of the old text that the new one lacks, ascending.
    pub(super) gone: Vec<Range<usize>>,
    /// Byte ranges of the new text that the old one lacks.
    pub(super) come: Vec<Range<usize>>,
    /// Pairs of lines with common words, by position in the parts, and how many bytes. Ascending.
    shared: Vec<(usize, usize, usize)>,
    /// Bytes of words in each line of the old and the new part.
    sizes: (Vec<usize>, Vec<usize>),
}

impl Found {
    /// Returns how many of the words of both sides are common, in percent of bytes.
    pub(super) fn share_percent(&self) -> usize {
        let shared: usize = self.shared.iter().map(|it| it.2).sum();
        let all: usize = self.sizes.0.iter().chain(&self.sizes.1).sum();
        200 * shared / all.max(1)
    }
}

/// A run of kept tokens: its first on either side, and its length.
#[derive(Clone, Copy)]
struct Kept(usize, usize, usize);

/// Compares two parts word by word.
pub(super) fn compare(old: &Part, new: &Part) -> Found {
    let (olds, news) = (Words::of(&old.text), Words::of(&new.text));
    let mut input: InternedInput<&str> = InternedInput::default();
    input.update_before((0..olds.count()).map(|it| key(olds.text(it))));
    input.update_after((0..news.count()).map(|it| key(news.text(it))));
    let kept = kept_runs(&input.before, &input.after);
    let kept = kept.into_iter().map(|it| Kept(it.old, it.new, it.count)).collect();
    let kept = without_islands(kept, &olds, &news);
    // Count the common bytes of each pair of lines; whitespace says nothing about similarity.
    let mut shared: Vec<(usize, usize, usize)> = Vec::new();
    for Kept(from, to, count) in &kept {
        for step in 0..*count {
            let word = olds.range(from + step);
            if olds.is_space(from + step) {
                continue;
            }
            let lines = (old.line_at(word.start), new.line_at(news.range(to + step).start));
            match shared.last_mut() {
                Some((a, b, bytes)) if (*a, *b) == lines => *bytes += word.len(),
                _ => shared.push((lines.0, lines.1, word.len())),
            }
        }
    }
    let sizes = (sizes(old, &olds), sizes(new, &news));
    let (gone, come) = changed(&kept, &olds, &news);
    let origin =
        |part: &Part, all: Vec<Range<usize>>| all.iter().flat_map(|it| part.origin(it)).collect();
    Found { gone: origin(old, gone), come: origin(new, come), shared, sizes }
}

/// A line break inside of a paragraph is compared as a space, so that reflowing changes no words;
/// any other whitespace is compared literally.
fn key(token: &str) -> &str {
    let rest = token.strip_prefix("\r\n").or_else(|| token.strip_prefix('\n'));
    match rest {
        Some(indent) if indent.bytes().all(|it| it == b' ') => " ",
        _ => token,
    }
}

/// Removes kept runs that are smaller than the changes around them: a lone "the" in a rewritten
/// sentence is not a kept word.
fn without_islands(mut kept: Vec<Kept>, olds: &Words<'_>, news: &Words<'_>) -> Vec<Kept> {
    for _ in 0..PASSES_MAX {
        let before = kept.len();
        let mut left: Vec<Kept> = Vec::with_capacity(kept.len());
        for (number, run) in kept.iter().enumerate() {
            let (old_from, new_from) = left.last().map_or((0, 0), |it| (it.0 + it.2, it.1 + it.2));
            let next = kept.get(number + 1);
            let (old_to, new_to) = next.map_or((olds.count(), news.count()), |it| (it.0, it.1));
            let size = olds.bytes(run.0..run.0 + run.2);
            let ahead = olds.bytes(old_from..run.0).max(news.bytes(new_from..run.1));
            let behind = olds.bytes(run.0 + run.2..old_to).max(news.bytes(run.1 + run.2..new_to));
            // The smaller neighbor counts: a run next to an unchanged edge of the change is no
            // island.
            let around = ahead.min(behind);
            if around == 0 || size > around.min(ISLAND_BYTES_MAX) {
                left.push(*run);
            }
        }
        kept = left;
        if kept.len() == before {
            break;
        }
    }
    kept
}

/// Returns the bytes between kept runs, on either side.
fn changed(
    kept: &[Kept],
    olds: &Words<'_>,
    news: &Words<'_>,
) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    let (mut old, mut new) = (0, 0);
    let end = Kept(olds.count(), news.count(), 0);
    for Kept(from, to, count) in kept.iter().chain(std::iter::once(&end)) {
        if old < *from {
            gone.push(olds.range(old).start..olds.range(from - 1).end);
        }
        if new < *to {
            come.push(news.range(new).start..news.range(to - 1).end);
        }
        (old, new) = (from + count, to + count);
    }
    (gone, come)
}

fn sizes(part: &Part, words: &Words<'_>) -> Vec<usize> {
    let mut sizes = vec![0; part.origins.len()];
    for token in (0..words.count()).filter(|it| !words.is_space(*it)) {
        sizes[part.line_at(words.range(token).start)] += words.range(token).len();
    }
    sizes
}

/// Returns the lines of both sides as rows, corresponding lines in one row.
pub(super) fn rows(
    olds: &Lines<'_>,
    news: &Lines<'_>,
    left: &[usize],
    right: &[usize],
    found: &Found,
) -> Vec<(Option<usize>, Option<usize>, Row)> {
    let marked_old = |line: usize| Some(olds.marked(line, within(&found.gone, olds, line)));
    let marked_new = |line: usize| Some(news.marked(line, within(&found.come, news, line)));
    let (mut made, mut at) = (Vec::new(), (0, 0));
    for (a, b) in pairs(left, right, found).into_iter().chain([(left.len(), right.len())]) {
        let is_one = a - at.0 == 1 && b - at.1 == 1;
        let (olds_left, news_left) = (&left[at.0..a], &right[at.1..b]);
        if let ([old], [new], true) = (olds_left, news_left, is_one) {
            // A single line for a single line: shown side by side even if they have nothing in
            // common.
            let row = Row { sort: RowSort::Changed, old: marked_old(*old), new: marked_new(*new) };
            made.push((Some(*old), Some(*new), row));
        } else {
            for line in olds_left {
                let row = Row { sort: RowSort::Removed, old: marked_old(*line), new: None };
                made.push((Some(*line), None, row));
            }
            for line in news_left {
                let row = Row { sort: RowSort::Added, old: None, new: marked_new(*line) };
                made.push((None, Some(*line), row));
            }
        }
        if let (Some(old), Some(new)) = (left.get(a), right.get(b)) {
            let row = Row { sort: RowSort::Changed, old: marked_old(*old), new: marked_new(*new) };
            made.push((Some(*old), Some(*new), row));
        }
        at = (a + 1, b + 1);
    }
    made
}

/// Returns those of some ascending ranges that may touch a line.
fn within<'r>(ranges: &'r [Range<usize>], lines: &Lines<'_>, line: usize) -> &'r [Range<usize>] {
    let from = ranges.partition_point(|it| it.end <= lines.starts[line]);
    let to = ranges.partition_point(|it| it.start < lines.starts[line + 1]);
    &ranges[from..to.max(from)]
}

/// Returns corresponding lines: ascending on both sides, with the most words in common.
fn pairs(left: &[usize], right: &[usize], found: &Found) -> Vec<(usize, usize)> {
    let is_alike = |(a, b, bytes): &&(usize, usize, usize)| {
        2 * bytes * 100 >= (found.sizes.0[*a] + found.sizes.1[*b]) * ALIKE_PERCENT
    };
    let all: Vec<&(usize, usize, usize)> = found.shared.iter().filter(is_alike).collect();
    // Pairs ascend on both sides, so those that may precede one form a prefix of the list.
    // Heaviest increasing chain, by dynamic programming: `best` ends with a pair, `sums` is the
    // maximum up to it.
    let (mut best, mut sums, mut before) = (vec![0; all.len()], Vec::new(), Vec::new());
    for (place, (a, b, bytes)) in all.iter().enumerate() {
        let free = all[..place].partition_point(|it| it.0 < *a && it.1 < *b);
        before.push(free);
        let taken = bytes + free.checked_sub(1).map_or(0, |it| sums_at(&sums, it));
        best[place] = taken;
        sums.push(taken.max(place.checked_sub(1).map_or(0, |it| sums_at(&sums, it))));
    }
    // Walk back along the choices that led to the maximum.
    let mut chosen = Vec::new();
    let mut place = all.len();
    while let Some(last) = place.checked_sub(1) {
        let skipped = last.checked_sub(1).map_or(0, |it| sums_at(&sums, it));
        if best[last] > skipped {
            chosen.push((all[last].0, all[last].1));
            place = before[last];
        } else {
            place = last;
        }
    }
    chosen.reverse();
    debug_assert!(chosen.iter().all(|it| it.0 < left.len() && it.1 < right.len()));
    chosen
}

fn sums_at(sums: &[usize], place: usize) -> usize {
    sums.get(place).copied().unwrap_or(0)
}
