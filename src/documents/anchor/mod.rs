//! Anchors: which words of a Source a Topic is about, and where they are in another version.
//!
//! **Invariant:** offsets are bytes into a named blob, on character boundaries; a rendering has
//! none.
//! **Invariant:** an anchor is never silently wrong: without evidence a placement is `orphaned`.

mod blocks;
mod carried;
mod given;
mod ladder;
mod map;
mod moves;
mod quote;
mod rewritten;
pub mod row;
mod selection;
mod together;
mod token;
mod words;

use std::ops::Range;

use crate::api::sources::BlockKind;
use crate::api::topics::PlacementState;
use crate::base::BlobId;

pub use given::weigh;
pub use ladder::place;
pub use map::PairMap;
pub use quote::place_by_quote;
pub use selection::{Portrait, QUOTE_NOT_FOUND, Selection, describe, resolve};
pub use together::{part, place_together};
pub(in crate::documents) use words::Words;

/// Longest text that an anchor may point at, in bytes.
pub const QUOTE_BYTES_MAX: usize = crate::base::limit::QUOTE_BYTES_MAX;
/// The most that a place counts that was found from an uncertain one.
const DOUBT: f64 = 0.4;
/// Bytes of text kept before and after the words, at most.
pub const CONTEXT_BYTES_MAX: usize = 64;

impl PlacementState {
    /// Returns whether the words have a place in this state.
    pub fn is_placed(self) -> bool {
        !matches!(self, PlacementState::Ambiguous | PlacementState::Orphaned)
    }
}

/// Where a span of one text is in another.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// How sure it is.
    pub state: PlacementState,
    /// The bytes of the other text; absent if there are none.
    pub range: Option<Range<usize>>,
    /// 0.0 for none, 1.0 for certain.
    pub confidence: f64,
    /// Which step of the ladder decided.
    pub method: &'static str,
}

impl Placed {
    /// Returns the placement of words that are gone.
    pub fn orphaned() -> Placed {
        Placed { state: PlacementState::Orphaned, range: None, confidence: 0.0, method: "none" }
    }

    /// Returns the same place, if there is one, for a person to look at: what it was found from was
    /// itself not certain.
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

/// An anchor that is not stored yet: verified against the text of its blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAnchor {
    /// The version of the Source.
    pub blob: BlobId,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
    /// The text between.
    pub quote: String,
    /// Up to [`CONTEXT_BYTES_MAX`] bytes before it.
    pub prefix: String,
    /// Up to [`CONTEXT_BYTES_MAX`] bytes after it.
    pub suffix: String,
    /// The headings above it, outermost first.
    pub heading_path: Vec<String>,
    /// The sort of block that it is in.
    pub block_kind: BlockKind,
}
