//! Places in a text that findings refer to.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use camino::Utf8Path;

use crate::script::source::field_span::Source;
use crate::script::source::location::Location;

/// A place with its extent, for underlining. A script has thousands of them and few are ever shown,
/// so line and column are computed on demand.
#[derive(Clone)]
pub(crate) struct Spot {
    place: Place,
    /// Whether it is only the nearest known place, of a table built elsewhere.
    is_elsewhere: bool,
}

#[derive(Clone)]
enum Place {
    /// Some bytes of a text.
    Bytes(Arc<Source>, Bytes, Given),
    /// A place whose text is not known.
    Line(Location),
}

/// A byte range: the first byte, and the one after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    /// The first.
    pub(crate) from: u32,
    /// The one after the last.
    pub(crate) to: u32,
}

/// How the value of a field or an entry is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given {
    /// Its bytes.
    pub(crate) value: Bytes,
    /// Whether it is set by name.
    pub(crate) is_named: bool,
    /// Whether it is one literal string.
    pub(crate) is_literal: bool,
}

impl Bytes {
    /// Returns a byte range; a file of a script is far smaller than 4 GiB.
    pub(crate) fn new(from: usize, to: usize) -> Bytes {
        let short = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Bytes { from: short(from), to: short(to) }
    }

    /// Returns them as a range.
    pub(crate) fn range(self) -> Range<usize> {
        self.from as usize..self.to as usize
    }
}

impl Spot {
    /// Returns a byte range of a text, with how the value there is written.
    pub(crate) fn of(source: &Arc<Source>, bytes: Bytes, given: Given) -> Spot {
        Spot { place: Place::Bytes(Arc::clone(source), bytes, given), is_elsewhere: false }
    }

    /// Returns the beginning of a line, without an extent.
    pub(crate) fn line(file: &Utf8Path, line: u32) -> Spot {
        let at = Location { file: Arc::from(file), line, column: 1 };
        Spot { place: Place::Line(at), is_elsewhere: false }
    }

    /// Marks the place of a call as the nearest one to a field written elsewhere.
    pub(crate) fn elsewhere(self) -> Spot {
        Spot { is_elsewhere: true, ..self }
    }

    /// Returns whether it is marked as elsewhere.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// Returns its text, if known.
    pub(crate) fn source(&self) -> Option<&Arc<Source>> {
        match &self.place {
            Place::Bytes(source, ..) => Some(source),
            Place::Line(_) => None,
        }
    }

    /// Returns file, line and column.
    pub(crate) fn at(&self) -> Location {
        match &self.place {
            Place::Bytes(source, bytes, _) => source.location(bytes.from as usize),
            Place::Line(at) => at.clone(),
        }
    }

    /// Returns the number of characters, up to the end of the line; zero shows no carets.
    pub(crate) fn len(&self) -> u32 {
        match &self.place {
            Place::Bytes(source, bytes, _) => {
                let part = source.slice(bytes.range());
                let shown = part.split('\n').next().unwrap_or("").trim_end();
                u32::try_from(shown.chars().count()).unwrap_or(0)
            }
            Place::Line(_) => 0,
        }
    }

    /// Returns the bytes of the file that hold the value, if it is one literal string.
    pub(crate) fn literal(&self) -> Option<Range<usize>> {
        self.given().filter(|it| it.is_literal).map(|it| it.value.range())
    }

    /// Returns the bytes of the file that hold the value of a field, or of an entry of a list.
    pub(crate) fn written(&self) -> Option<Range<usize>> {
        self.given().map(|it| it.value.range())
    }

    /// Returns the bytes of the file that hold the value of a field that has a name.
    pub(crate) fn value(&self) -> Option<Range<usize>> {
        self.given().filter(|it| it.is_named).map(|it| it.value.range())
    }

    fn given(&self) -> Option<Given> {
        match &self.place {
            Place::Bytes(_, _, given) => Some(*given),
            Place::Line(_) => None,
        }
    }

    /// Compares places in display order.
    pub(crate) fn order(&self, other: &Spot) -> Ordering {
        match (&self.place, &other.place) {
            (Place::Bytes(one, a, _), Place::Bytes(two, b, _)) if Arc::ptr_eq(one, two) => {
                a.from.cmp(&b.from)
            }
            _ => self.at().cmp(&other.at()),
        }
    }
}

impl fmt::Debug for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at();
        write!(f, "{at}:{}+{}", at.column, self.len())
    }
}
