//! The next text of a revision that a person has edited: their edits, and new words for its
//! passage.

use std::ops::Range;

use crate::documents::anchor::{self, PairMap};
use crate::documents::compare::merge::{Merged, merge, merge_over};
use crate::documents::topics::suggestion::with_line_ends;

/// An edited revision, and the document that the next one is for.
#[derive(Clone, Copy, Debug)]
pub struct Edited<'t> {
    /// The text that the revision was made from.
    pub base: &'t str,
    /// The text of the revision.
    pub text: &'t str,
    /// The document as it is now.
    pub present: &'t str,
}

/// The next text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revised {
    /// The text.
    pub text: String,
    /// Whether it lacks some of the edits: those on lines that the document has changed since, or
    /// on the lines of a passage that the edit took away.
    pub is_partial: bool,
}

impl Edited<'_> {
    /// Puts `words` in the place of a passage of the document, and keeps what the revision changes
    /// elsewhere. `earlier` are the words that were suggested for the passage before, newest first.
    pub fn revise(self, passage: &Range<usize>, words: &str, earlier: &[String]) -> Revised {
        let present = self.present;
        let is_partial = matches!(merge(self.base, present, self.text), Merged::Conflicts(_));
        let kept = merge_over(self.base, self.text, present);
        if let Some(at) = place(present, &kept, passage, earlier) {
            return Revised { text: put(&kept, at, words), is_partial };
        }
        // Where the passage went is not known: its lines are those of the document.
        let plain = put(present, passage.clone(), words);
        let is_clean = matches!(merge(present, &kept, &plain), Merged::Clean(_));
        let text = merge_over(present, &kept, &plain);
        Revised { text, is_partial: is_partial || !is_clean }
    }

    /// Returns what the revision has in the place of a passage of the document.
    pub fn words(self, passage: &Range<usize>, earlier: &[String]) -> Option<String> {
        let at = place(self.present, self.text, passage, earlier)?;
        Some(self.text[at].to_owned())
    }
}

/// Finds what stands in an edited text in the place of a passage: words that were suggested for it,
/// if they are still there, otherwise all between the words around it.
fn place(old: &str, new: &str, passage: &Range<usize>, earlier: &[String]) -> Option<Range<usize>> {
    let map = PairMap::new(old, new);
    let found = anchor::around(&map, old, new, passage.clone())?;
    let mut known = earlier.iter().filter(|it| !it.is_empty() && !found.is_empty());
    let suggested = known.find_map(|words| {
        let words = with_line_ends(words, new, found.start);
        // They may begin before it and end after it: with lines of their own.
        let spare = words.len().saturating_sub(1);
        let from = new.ceil_char_boundary(found.start.saturating_sub(spare));
        let until = new.floor_char_boundary((found.end + spare).min(new.len()));
        let mut places = new.get(from..until)?.match_indices(&words);
        let (place, another) = (places.next()?.0 + from, places.next());
        let at = place..place + words.len();
        (another.is_none() && is_of_words(new, &at)).then_some(at)
    });
    Some(suggested.unwrap_or(found))
}

/// Returns whether a range begins and ends between words.
fn is_of_words(text: &str, at: &Range<usize>) -> bool {
    let is_inner = |before: &str, after: &str| {
        let letters = before.chars().next_back().zip(after.chars().next());
        letters.is_some_and(|(one, other)| one.is_alphanumeric() && other.is_alphanumeric())
    };
    let is_cut = |place: usize| is_inner(&text[..place], &text[place..]);
    !is_cut(at.start) && !is_cut(at.end)
}

fn put(text: &str, at: Range<usize>, words: &str) -> String {
    let words = with_line_ends(words, text, at.start);
    [&text[..at.start], &words, &text[at.end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "Call the pilot.\n\nNot above 7 Bft.\n\nEnd.\n";

    fn revised(text: &str, present: &str, words: &str, earlier: &[&str]) -> (String, bool) {
        let at = present.find("7 Bft").unwrap_or_else(|| present.find("8 Bft").unwrap());
        let earlier: Vec<String> = earlier.iter().map(|it| (*it).to_owned()).collect();
        let edited = Edited { base: BASE, text, present };
        let it = edited.revise(&(at..at + 5), words, &earlier);
        (it.text, it.is_partial)
    }

    #[test]
    fn edits_elsewhere_stay() {
        let text = "Call the pilot on 12.\n\nNot above 6 Bft.\n\nEnd.\nSecond try.\n";
        let want = "Call the pilot on 12.\n\nNot above 5 Bft.\n\nEnd.\nSecond try.\n";
        assert_eq!(revised(text, BASE, "5 Bft", &["6 Bft"]), (want.to_owned(), false));
        // Also in the same line.
        let text = "Call the pilot.\n\nNever above 6 Bft of wind.\n\nEnd.\n";
        let (it, _) = revised(text, BASE, "5 Bft", &["6 Bft"]);
        assert_eq!(it, "Call the pilot.\n\nNever above 5 Bft of wind.\n\nEnd.\n");
    }

    #[test]
    fn words_of_several_lines_are_replaced_as_a_whole() {
        let long = "6 Bft,\nas measured.\n\nAsk first";
        let text = BASE.replace("7 Bft", long).replace("pilot", "pilot early");
        let want = BASE.replace("7 Bft", "5 Bft").replace("pilot", "pilot early");
        assert_eq!(revised(&text, BASE, "5 Bft", &[long]).0, want);
    }

    #[test]
    fn where_both_changed_a_line_the_document_wins() {
        let text = "Call the pilot on 12.\n\nNot above 6 Bft.\n\nEnd.\n";
        let present = "Call the pilot.\n\nNot above 8 Bft.\n\nEnd.\nMore.\n";
        let want = "Call the pilot on 12.\n\nNot above 5 Bft.\n\nEnd.\nMore.\n";
        assert_eq!(revised(text, present, "5 Bft", &["6 Bft"]), (want.to_owned(), true));
        let edited = Edited { base: BASE, text, present };
        let at = present.find("8 Bft").unwrap();
        assert_eq!(edited.words(&(at..at + 5), &[]).unwrap(), "6 Bft");
    }

    #[test]
    fn a_passage_that_the_edit_took_away_is_put_back_where_it_was() {
        let text = "Call the pilot.\n\nEnd.\nSecond try.\n";
        let want = "Call the pilot.\n\nNot above 5 Bft.\n\nEnd.\nSecond try.\n";
        assert_eq!(revised(text, BASE, "5 Bft", &["6 Bft"]), (want.to_owned(), true));
    }
}
