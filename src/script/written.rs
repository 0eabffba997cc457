//! What is written in the table constructor of a declaration: its names and its list, with places.

use std::rc::Rc;

use crate::script::diagnostic::Spot;

/// What is written in one constructor, in the order of the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    text: Option<Rc<str>>,
    entries: Vec<Entry>,
}

/// What an entry is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The bytes of its name.
    Name(usize, usize),
    /// Its number in the list.
    Item(i64),
}

/// A field, or an entry of the list.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// What it is known by.
    pub(crate) key: Key,
    /// Its place.
    pub(crate) spot: Spot,
    /// What is written in the constructor that it is set to.
    pub(crate) inner: Written,
}

impl Written {
    /// Returns what is written in a constructor of a text.
    pub(crate) fn new(text: &Rc<str>, entries: Vec<Entry>) -> Written {
        Written { text: Some(Rc::clone(text)), entries }
    }

    /// Returns the entry of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|it| self.name_of(it) == Some(name))
    }

    /// Returns the entry of the list with a number, from one.
    pub(crate) fn item(&self, number: i64) -> Option<&Entry> {
        self.entries.iter().find(|it| it.key == Key::Item(number))
    }

    fn name_of(&self, entry: &Entry) -> Option<&str> {
        match (entry.key, &self.text) {
            (Key::Name(from, to), Some(text)) => text.get(from..to),
            _ => None,
        }
    }

    /// Returns whether nothing is written there.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the names that are written there, with their places; not the list.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &Spot)> {
        self.entries.iter().filter_map(|it| Some((self.name_of(it)?, &it.spot)))
    }
}
