//! Anchors: the passage of a Source that a Topic is about, and where it is in other versions.
//!
//! **Invariant:** offsets are bytes into a named blob, on character boundaries; rendered text has
//! none.
//! **Invariant:** an anchor is never silently wrong: without evidence a placement is `orphaned`.

mod around;
mod blocks;
mod carried;
mod claimed_by_agent;
mod ladder;
mod map;
mod moves;
mod quote;
mod rewritten;
pub mod row;
mod same_words;
mod selection;
mod token;
mod words;

use std::ops::Range;

use crate::api::sources::BlockKind;
use crate::api::topics::PlacementState;
use crate::base::BlobId;

pub use around::around;
pub use claimed_by_agent::weigh;
pub use ladder::place;
pub use map::PairMap;
pub use quote::place_by_quote;
pub use same_words::{part, place_together};
pub use selection::{Portrait, QUOTE_NOT_FOUND, Selection, describe, resolve};
pub(in crate::documents) use words::Words;

/// Longest passage of an anchor, in bytes.
pub const QUOTE_BYTES_MAX: usize = crate::base::limit::QUOTE_BYTES_MAX;
/// Highest confidence of a place found from an uncertain one.
const DOUBT: f64 = 0.4;
/// Most context kept on each side of the passage, in bytes.
pub const CONTEXT_BYTES_MAX: usize = 64;

impl PlacementState {
    /// Returns whether the passage has a place in this state.
    pub fn is_placed(self) -> bool {
        !matches!(self, PlacementState::Ambiguous | PlacementState::Orphaned)
    }
}

/// The place of a span of one text in another.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// How certain it is.
    pub state: PlacementState,
    /// The byte range in the other text, if any.
    pub range: Option<Range<usize>>,
    /// From 0.0 (none) to 1.0 (certain).
    pub confidence: f64,
    /// The step of the ladder that decided.
    pub method: &'static str,
}

impl Placed {
    /// Returns the placement of words that are gone.
    pub fn orphaned() -> Placed {
        Placed { state: PlacementState::Orphaned, range: None, confidence: 0.0, method: "none" }
    }

    /// Returns the same place, if any, for a person to check: the place that it was found from was
    /// itself uncertain.
    pub fn in_doubt(self) -> Placed {
        if !self.state.is_placed() {
            return self;
        }
        let confidence = self.confidence.min(DOUBT);
        Placed { state: PlacementState::Rewritten, confidence, method: "doubt", ..self }
    }

    /// Returns the placement of words that are exactly here.
    pub fn exact(range: Range<usize>, method: &'static str) -> Placed {
        Placed { state: PlacementState::Exact, range: Some(range), confidence: 1.0, method }
    }
}

/// An anchor to be stored, verified against the text of its blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAnchor {
    /// The version of the Source.
    pub blob: BlobId,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
    /// The selected text.
    pub quote: String,
    /// Up to [`CONTEXT_BYTES_MAX`] bytes before it.
    pub prefix: String,
    /// Up to [`CONTEXT_BYTES_MAX`] bytes after it.
    pub suffix: String,
    /// The headings above it, outermost first.
    pub heading_path: Vec<String>,
    /// The kind of block that contains it.
    pub block_kind: BlockKind,
}
