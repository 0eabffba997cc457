//! A document as lines, with the passages of Topics.

use std::ops::Range;

use crate::api::topics::{PlacementState, Topic};
use crate::base::TopicId;
use crate::http::pages::parts::visible::Within;

/// Lines per page.
pub(in crate::http::pages) const LINES_MAX: usize = 4_000;

/// A line of a document.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http::pages) struct Line {
    /// Its number, from 1.
    pub(in crate::http::pages) number: usize,
    /// Its first byte in the text.
    pub(in crate::http::pages) start: usize,
    /// The Topics that begin here.
    pub(in crate::http::pages) notes: Vec<Note>,
    /// Its text.
    pub(in crate::http::pages) pieces: Vec<Piece>,
}

/// The marker of a Topic next to the line where its passage begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http::pages) struct Note {
    /// Its position in the list of Topics, from 1.
    pub(in crate::http::pages) number: usize,
    /// The Topic.
    pub(in crate::http::pages) id: TopicId,
}

/// A part of a line.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http::pages) struct Piece {
    /// The text.
    pub(in crate::http::pages) text: Within,
    /// Whether it belongs to a Topic's passage.
    pub(in crate::http::pages) is_marked: bool,
}

/// Sorts Topics by the position of their passage; those without one come last.
pub(in crate::http::pages) fn sort(topics: &mut [Topic]) {
    topics.sort_by_key(|it| (it.anchor.is_some(), place(it).map_or(usize::MAX, |it| it.start)));
}

/// Returns the number of the line that contains an offset, from 1.
pub(in crate::http::pages) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|it| **it == b'\n').count() + 1
}

/// Returns the address of a line on a document's page.
pub(in crate::http::pages) fn line_at(address: &str, line: usize) -> String {
    let first = (line - 1) / LINES_MAX * LINES_MAX + 1;
    let page = if first > 1 { format!("from={first}") } else { "text=1".to_owned() };
    format!("{address}?{page}#L{line}")
}

/// Returns the bytes of a Topic's passage in the current text, if it has one.
pub(in crate::http::pages) fn place(topic: &Topic) -> Option<Range<usize>> {
    let placement = topic.placement.as_ref()?;
    let is_placed =
        !matches!(placement.state, PlacementState::Orphaned | PlacementState::Ambiguous);
    let (start, end) = (placement.start?, placement.end?);
    (is_placed && start < end).then_some(start..end)
}

/// Returns some lines of a text, with the passages of its Topics marked, and the total number of
/// lines.
pub(in crate::http::pages) fn lines(
    text: &str,
    topics: &[Topic],
    wanted: Range<usize>,
) -> (Vec<Line>, usize) {
    let places: Vec<(usize, &Topic, Range<usize>)> = topics
        .iter()
        .enumerate()
        .filter_map(|(at, topic)| Some((at + 1, topic, place(topic)?)))
        .collect();
    let (mut lines, mut start, mut total) = (Vec::new(), 0, 0);
    for full in text.split_inclusive('\n') {
        let whole = start..start + full.len();
        start = whole.end;
        total += 1;
        if !wanted.contains(&total) {
            continue;
        }
        let touching: Vec<_> = places
            .iter()
            .filter(|(_, _, it)| it.start < whole.end && it.end > whole.start)
            .collect();
        let begin = touching.iter().filter(|(_, _, it)| whole.contains(&it.start));
        let notes = begin.map(|(number, topic, _)| Note { number: *number, id: topic.id.clone() });
        let line = full.strip_suffix('\n').unwrap_or(full);
        let shown = line.strip_suffix('\r').unwrap_or(line);
        let ranges: Vec<&Range<usize>> = touching.iter().map(|(_, _, it)| it).collect();
        lines.push(Line {
            number: total,
            start: whole.start,
            notes: notes.collect(),
            pieces: pieces(shown, whole.start, &ranges),
        });
    }
    (lines, total)
}

fn pieces(line: &str, start: usize, ranges: &[&Range<usize>]) -> Vec<Piece> {
    let mut cuts = vec![0, line.len()];
    for range in ranges {
        for offset in [range.start, range.end] {
            let cut = offset.saturating_sub(start).min(line.len());
            // A placement is at character boundaries, but the text may have changed since.
            if line.is_char_boundary(cut) {
                cuts.push(cut);
            }
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2)
        .map(|it| Piece {
            text: Within::of(line, it[0]..it[1]),
            is_marked: ranges.iter().any(|range| range.contains(&(start + it[0]))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::from_json;

    fn id_of(name: char) -> String {
        format!("0190f3f0-0000-7000-8000-00000000000{name}")
    }

    fn topic(name: char, state: &str, start: usize, end: usize) -> Topic {
        let blob = "0".repeat(40);
        from_json(&json!({
            "id": id_of(name), "source_path": "a.md", "title": "t", "status": "open",
            "message_count": 1, "is_global": false, "created_by": "system",
            "created_at": "2026-01-02T03:04:05.000Z",
            "placement": {
                "blob": blob, "state": state, "start": start, "end": end, "confidence": 1.0,
                "method": "same", "decided_by": "system",
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_passage_is_marked_over_its_lines() {
        let text = "one\ntwo ü\n\nfour";
        let mut topics =
            [topic('c', "orphaned", 0, 3), topic('b', "edited", 4, 12), topic('a', "exact", 1, 6)];
        sort(&mut topics);
        assert_eq!(topics.each_ref().map(|it| it.id.to_string()), ['a', 'b', 'c'].map(id_of));
        let (lines, total) = lines(text, &topics, 1..usize::MAX);
        assert_eq!(total, 4);
        let shown: Vec<Vec<(&str, bool)>> = lines
            .iter()
            .map(|it| it.pieces.iter().map(|it| (it.text.text.as_str(), it.is_marked)).collect())
            .collect();
        assert_eq!(shown[0], [("o", false), ("ne", true)]);
        assert_eq!(shown[1], [("tw", true), ("o ü", true)]);
        assert_eq!(shown[2], []);
        assert_eq!(shown[3], [("four", false)]);
        let notes: Vec<usize> = lines.iter().map(|it| it.notes.len()).collect();
        assert_eq!(notes, [1, 1, 0, 0]);
        assert_eq!(line_of(text, 4), 2);
    }

    #[test]
    fn a_part_of_a_long_text_keeps_its_numbers() {
        let text = "a\n".repeat(10);
        let (lines, total) = lines(&text, &[], 4..6);
        assert_eq!(lines.iter().map(|it| it.number).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(total, 10);
    }
}
