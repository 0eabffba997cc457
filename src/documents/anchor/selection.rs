//! Turns a selection by a person or an agent into a verified anchor.

use std::ops::Range;

use serde::Deserialize;

use crate::base::{BlobId, Error, ErrorKind, Result};
use crate::documents::anchor::quote::{OCCURRENCES_MAX, occurrences};
use crate::documents::anchor::{CONTEXT_BYTES_MAX, NewAnchor, QUOTE_BYTES_MAX};
use crate::documents::sources::headings::Outline;

/// The code of a quote that is not in the text.
pub const QUOTE_NOT_FOUND: &str = "quote_not_found";

/// Most places that the refusal of an ambiguous quote names.
const PLACES_NAMED_MAX: usize = 5;

/// Longest prefix or suffix of a selection, in bytes.
const GIVEN_CONTEXT_BYTES_MAX: usize = crate::base::limit::GIVEN_CONTEXT_BYTES_MAX;

/// A selection: bytes of a named version, or words of the current one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "Fields")]
pub enum Selection {
    /// `{blob, start, end}`.
    Bytes {
        /// The version.
        blob: BlobId,
        /// First byte.
        start: usize,
        /// Byte after the last.
        end: usize,
    },
    /// `{blob?, quote, prefix?, suffix?}`.
    Words {
        /// The version, if it matters.
        blob: Option<BlobId>,
        /// The words.
        quote: String,
        /// The text right before them.
        prefix: String,
        /// The text right after them.
        suffix: String,
    },
}

impl Selection {
    /// Returns the version that it names.
    pub fn blob(&self) -> Option<&BlobId> {
        match self {
            Selection::Bytes { blob, .. } => Some(blob),
            Selection::Words { blob, .. } => blob.as_ref(),
        }
    }
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Fields {
    blob: Option<BlobId>,
    start: Option<usize>,
    end: Option<usize>,
    quote: Option<String>,
    prefix: Option<String>,
    suffix: Option<String>,
}

impl TryFrom<Fields> for Selection {
    type Error = Error;
    fn try_from(it: Fields) -> Result<Selection> {
        let has_context = it.prefix.is_some() || it.suffix.is_some();
        match (it.blob, it.start, it.end, it.quote) {
            (Some(blob), Some(start), Some(end), None) if !has_context => {
                Ok(Selection::Bytes { blob, start, end })
            }
            (blob, None, None, Some(quote)) => Ok(Selection::Words {
                blob,
                quote,
                prefix: it.prefix.unwrap_or_default(),
                suffix: it.suffix.unwrap_or_default(),
            }),
            _ => Err(Error::invalid(
                "a selection is {blob, start, end}, or {quote} and if needed blob, prefix, suffix",
            )
            .code("bad_selection")),
        }
    }
}

/// Verifies a selection against the current text of a Source, whose blob id is `blob`.
///
/// # Errors
/// `source_changed` if it names another version; `bad_selection` if it is outside of the text,
/// splits a character, only contains whitespace or is too long; `quote_not_found`,
/// `ambiguous_quote`.
pub fn resolve(text: &str, blob: &BlobId, selection: &Selection) -> Result<NewAnchor> {
    if selection.blob().is_some_and(|named| named != blob) {
        return Err(Error::conflict("source_changed", "the selection is of another version")
            .hint("reload the source and select again"));
    }
    let range = match selection {
        Selection::Bytes { start, end, .. } => *start..*end,
        Selection::Words { quote, prefix, suffix, .. } => find_words(text, quote, prefix, suffix)?,
    };
    describe(text, blob, range)
}

/// Returns the anchor of a byte range; for several ranges of a text use [`Portrait`].
///
/// # Errors
/// `bad_selection` if the range is not valid for an anchor.
pub fn describe(text: &str, blob: &BlobId, range: Range<usize>) -> Result<NewAnchor> {
    check(text, &range)?;
    Portrait::of(text, blob).anchor(range)
}

/// A text with its outline, for describing many ranges.
#[derive(Debug)]
pub struct Portrait<'t> {
    text: &'t str,
    blob: &'t BlobId,
    outline: Outline,
}

impl<'t> Portrait<'t> {
    /// Parses a text.
    pub fn of(text: &'t str, blob: &'t BlobId) -> Portrait<'t> {
        Portrait { text, blob, outline: Outline::of(text) }
    }

    /// Returns the anchor of a byte range.
    ///
    /// # Errors
    /// `bad_selection` if the range is not valid for an anchor.
    pub fn anchor(&self, range: Range<usize>) -> Result<NewAnchor> {
        let quote = check(self.text, &range)?;
        Ok(NewAnchor {
            blob: self.blob.clone(),
            start: range.start,
            end: range.end,
            quote: quote.to_owned(),
            prefix: last_bytes(&self.text[..range.start], CONTEXT_BYTES_MAX).to_owned(),
            suffix: first_bytes(&self.text[range.end..], CONTEXT_BYTES_MAX).to_owned(),
            heading_path: self.outline.path(range.start),
            block_kind: self.outline.kind(range.start),
        })
    }
}

/// Returns the words of a range, if it is valid for an anchor.
fn check<'t>(text: &'t str, range: &Range<usize>) -> Result<&'t str> {
    let refuse = |why: &str| {
        let message = format!("bytes {}..{} cannot be selected: {why}", range.start, range.end);
        Err(Error::invalid(message).code("bad_selection"))
    };
    if range.start >= range.end {
        return refuse("the selection is empty");
    }
    if range.end > text.len() {
        return refuse("the text is shorter");
    }
    let Some(quote) = text.get(range.clone()) else {
        return refuse("they cut a character in two");
    };
    if quote.len() > QUOTE_BYTES_MAX {
        return Err(too_long("selection", QUOTE_BYTES_MAX));
    }
    if quote.trim().is_empty() {
        return refuse("they are only white space");
    }
    Ok(quote)
}

fn too_long(what: &str, bytes_max: usize) -> Error {
    let message = format!("the {what} has more than {bytes_max} bytes");
    Error::new(ErrorKind::TooLarge, message)
        .code("selection_too_long")
        .hint("select a shorter passage, or open a topic on the whole source")
}

fn find_words(text: &str, quote: &str, prefix: &str, suffix: &str) -> Result<Range<usize>> {
    let parts = [
        ("quote", quote, QUOTE_BYTES_MAX),
        ("prefix", prefix, GIVEN_CONTEXT_BYTES_MAX),
        ("suffix", suffix, GIVEN_CONTEXT_BYTES_MAX),
    ];
    if let Some((what, _, max)) = parts.iter().find(|(_, text, max)| text.len() > *max) {
        return Err(too_long(what, *max));
    }
    if quote.trim().is_empty() {
        let error = Error::invalid("the quote of the selection is empty").code("bad_selection");
        return Err(error.hint("quote a passage exactly as it is in the source"));
    }
    let mut places = Vec::new();
    for (count, start) in occurrences(text, quote).enumerate() {
        let end = start + quote.len();
        if text[..start].ends_with(prefix) && text[end..].starts_with(suffix) {
            places.push(start..end);
        }
        if count == OCCURRENCES_MAX {
            let often = format!("more than {OCCURRENCES_MAX} times");
            return Err(ambiguous(&often));
        }
        if places.len() > PLACES_NAMED_MAX {
            break;
        }
    }
    if places.len() > 1 {
        return Err(ambiguous(&how_often(text, &places)));
    }
    places.pop().ok_or_else(|| {
        Error::invalid("the quote of the selection does not occur in the source")
            .code(QUOTE_NOT_FOUND)
            .hint("copy it from the source exactly, with markup and line endings")
    })
}

fn ambiguous(often: &str) -> Error {
    Error::invalid(format!("this passage occurs {often}"))
        .code("ambiguous_quote")
        .hint("fill in the text before or after it (`prefix`, `suffix`)")
}

/// Describes how often a quote occurs, and on which lines.
fn how_often(text: &str, places: &[Range<usize>]) -> String {
    let mut lines = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for place in places.iter().take(PLACES_NAMED_MAX) {
        line += text[counted..place.start].matches('\n').count();
        counted = place.start;
        lines.push(line.to_string());
    }
    let lines = lines.join(", ");
    match places.len() {
        2 => format!("twice, on lines {lines}"),
        count if count > PLACES_NAMED_MAX => {
            format!("more than {PLACES_NAMED_MAX} times, first on lines {lines}")
        }
        count => format!("{count} times, on lines {lines}"),
    }
}

/// Returns at most the first bytes of a text, in whole characters.
fn first_bytes(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns at most the last bytes of a text, in whole characters.
fn last_bytes(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::sources::BlockKind;

    fn blob(digit: char) -> BlobId {
        digit.to_string().repeat(40).parse().unwrap()
    }

    fn selection(json: &str) -> Result<Selection, serde_json::Error> {
        serde_json::from_str(json)
    }

    fn code(text: &str, json: &str) -> String {
        let selection = selection(json).unwrap();
        resolve(text, &blob('a'), &selection).unwrap_err().code_str().to_owned()
    }

    #[test]
    fn a_selection_has_one_of_two_shapes() {
        let a = blob('a');
        assert!(selection(&format!(r#"{{"blob":"{a}","start":0,"end":3}}"#)).is_ok());
        assert!(selection(r#"{"quote":"x"}"#).is_ok());
        assert!(selection(&format!(r#"{{"blob":"{a}","quote":"x","prefix":"y"}}"#)).is_ok());
        for bad in [
            "{}",
            r#"{"start":0,"end":3}"#,
            r#"{"quote":"x","start":0,"end":1}"#,
            r#"{"quote":"x","color":"red"}"#,
            r#"{"blob":"zz","start":0,"end":3}"#,
            r#"{"prefix":"x"}"#,
            r#"{"quote":"x","start":-1}"#,
        ] {
            assert!(selection(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_are_verified() {
        let text = "# Häuser\n\n- ein Haus\n";
        let at = |start: usize, end: usize| {
            let all = Selection::Bytes { blob: blob('a'), start, end };
            resolve(text, &blob('a'), &all)
        };
        let anchor = at(13, 21).unwrap();
        assert_eq!(anchor.quote, "ein Haus");
        assert_eq!((anchor.prefix.as_str(), anchor.suffix.as_str()), ("# Häuser\n\n- ", "\n"));
        assert_eq!(anchor.heading_path, ["Häuser"]);
        assert_eq!(anchor.block_kind, BlockKind::ListItem);
        for (start, end) in [(3, 4), (4, 6), (2, 2), (5, 3), (9, 11), (0, 999), (99, 999)] {
            assert_eq!(at(start, end).unwrap_err().code_str(), "bad_selection", "{start}..{end}");
        }
        let long = "x".repeat(QUOTE_BYTES_MAX + 1);
        assert!(describe(&long, &blob('a'), 0..long.len()).is_err());
        assert!(describe(&long, &blob('a'), 0..QUOTE_BYTES_MAX).is_ok());
    }

    #[test]
    fn a_quote_must_be_found_once() {
        let text = "one two, one three\r\n";
        assert_eq!(code(text, r#"{"quote":"one"}"#), "ambiguous_quote");
        let message = |text: &str, quote: &str| {
            find_words(text, quote, "", "").unwrap_err().message().to_owned()
        };
        let said = message("one\ntwo\none, one", "one");
        assert_eq!(said, "this passage occurs 3 times, on lines 1, 3, 3");
        let said = message(&"one\n".repeat(9), "one");
        assert!(said.ends_with("occurs more than 5 times, first on lines 1, 2, 3, 4, 5"), "{said}");
        assert_eq!(code(text, r#"{"quote":"four"}"#), "quote_not_found");
        assert_eq!(code(text, r#"{"quote":""}"#), "bad_selection");
        assert_eq!(code(text, r#"{"quote":" "}"#), "bad_selection");
        assert_eq!(code(text, r#"{"quote":"one","prefix":"zz"}"#), "quote_not_found");
        let other = format!(r#"{{"blob":"{}","quote":"two"}}"#, blob('b'));
        assert_eq!(code(text, &other), "source_changed");
        let found = selection(r#"{"quote":"one","suffix":" three"}"#).unwrap();
        assert_eq!(resolve(text, &blob('a'), &found).unwrap().start, 9);
        let hostile = "a".repeat(1 << 20);
        let quote = format!(r#"{{"quote":"{}","prefix":"b"}}"#, "a".repeat(60_000));
        assert_eq!(code(&hostile, &quote), "ambiguous_quote");
    }

    #[test]
    fn context_is_cut_between_characters() {
        let text = "語".repeat(100);
        let anchor = describe(&text, &blob('a'), 150..153).unwrap();
        assert_eq!((anchor.prefix.len(), anchor.suffix.len()), (63, 63));
    }
}
