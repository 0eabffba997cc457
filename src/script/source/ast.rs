//! The entries of a declaration's table constructor, named and listed, with their places.

use std::sync::Arc;

use crate::script::source::field_span::Source;
use crate::script::source::span::{Bytes, Given, Spot};

/// The entries of one constructor, in the order of the text.
#[derive(Clone, Default)]
pub(crate) struct Written {
    source: Option<Arc<Source>>,
    entries: Vec<Entry>,
}

/// The key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The bytes of its name.
    Name(Bytes),
    /// Its number in the list.
    Item(i64),
}

/// A field, or an entry of the list.
#[derive(Clone)]
pub(crate) struct Entry {
    /// Its key.
    pub(crate) key: Key,
    /// Its bytes.
    pub(crate) bytes: Bytes,
    /// Its value.
    pub(crate) given: Given,
    /// The entries of the constructor that it is set to.
    pub(crate) inner: Written,
}

impl Written {
    /// Returns the entries of a constructor in a text.
    pub(crate) fn new(source: &Arc<Source>, entries: Vec<Entry>) -> Written {
        Written { source: Some(Arc::clone(source)), entries }
    }

    /// Returns the entry of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|it| self.name_of(it) == Some(name))
    }

    /// Returns an entry of the list by its index, from 1.
    pub(crate) fn item(&self, number: i64) -> Option<&Entry> {
        self.entries.iter().find(|it| it.key == Key::Item(number))
    }

    /// Returns the place of one of its entries.
    pub(crate) fn spot(&self, entry: &Entry) -> Option<Spot> {
        Some(Spot::of(self.source.as_ref()?, entry.bytes, entry.given))
    }

    fn name_of(&self, entry: &Entry) -> Option<&str> {
        match (entry.key, &self.source) {
            (Key::Name(name), Some(source)) => source.text().get(name.range()),
            _ => None,
        }
    }

    /// Returns whether it has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many entries are written there.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns what is written there, by its name, or `[1]` in a list.
    pub(crate) fn named(&self) -> impl Iterator<Item = (String, &Entry)> {
        self.entries.iter().filter_map(|it| match it.key {
            Key::Item(number) => Some((format!("[{number}]"), it)),
            Key::Name(_) => Some((self.name_of(it)?.to_owned(), it)),
        })
    }
}
