//! A document as it is read: rendered, with its open Topics as notes beside it.

use std::sync::Arc;

use askama::Template;
use warp::reply::Response;

use crate::base::Result;
use crate::http::markdown::{Html, Point, Prose, Rendered, points_of};
use crate::http::pages::Frame;
use crate::http::pages::documents::passages;
use crate::http::pages::documents::pending::Waiting;
use crate::http::pages::documents::perspectives::Tab;
use crate::http::pages::documents::tree::Tree;
use crate::http::pages::parts::view::{CommitRow, SourceView, Topic};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::{Call, reply};

/// Headings in the list of contents, and the level of the deepest.
const CONTENTS_MAX: usize = 1000;
const CONTENTS_LEVEL: u8 = 3;
/// Characters of a quote beside the text.
const QUOTE_CHARS_MAX: usize = 240;
/// Names the parts of the page that a script asks for.
const FRAGMENT: &str = "wb-fragment";

/// What a document's page is made of.
pub(in crate::http::pages) struct Reading {
    pub(in crate::http::pages) frame: Frame,
    pub(in crate::http::pages) source: SourceView,
    pub(in crate::http::pages) rendered: Arc<Rendered>,
    /// The rendered text with the sizes of its images, if there are any.
    pub(in crate::http::pages) sized: Option<Html>,
    pub(in crate::http::pages) tabs: Vec<Tab>,
    pub(in crate::http::pages) commits: Vec<CommitRow>,
    pub(in crate::http::pages) tree: Tree,
    /// What waits for a decision on it.
    pub(in crate::http::pages) waiting: Waiting,
}

#[derive(Template)]
#[template(path = "document.html")]
struct ReaderPage<'p> {
    frame: &'p Frame,
    source: &'p SourceView,
    address: &'p str,
    tabs: &'p [Tab],
    commits: &'p [CommitRow],
    title: Heading,
    facts: Facts<'p>,
    tree: &'p Tree,
    contents: Contents<'p>,
    text: Text<'p>,
    notes: Notes<'p>,
}

/// How a document's page is headed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heading {
    /// By the text, which begins with its title.
    Text,
    /// The same, but it is no heading of the first level: for ears the page has one.
    Unseen,
    /// By the title, of which the text says nothing.
    Title,
}

impl Heading {
    fn of(first: Option<(u8, &str)>, title: &str) -> Heading {
        match first {
            Some((1, _)) => Heading::Text,
            Some((_, text)) if text.trim() == title => Heading::Unseen,
            _ => Heading::Title,
        }
    }
}

/// What is said of the document above it.
#[derive(Template)]
#[template(path = "document-facts.html")]
struct Facts<'p> {
    source: &'p SourceView,
    live: &'p str,
    waiting: &'p Waiting,
}

#[derive(Template)]
#[template(path = "document-contents.html")]
struct Contents<'p> {
    entries: Vec<Entry<'p>>,
    /// How many headings of these levels are not listed.
    more: usize,
}

/// A heading in the list of contents.
struct Entry<'p> {
    level: u8,
    text: &'p str,
    id: &'p str,
}

#[derive(Template)]
#[template(path = "document-text.html")]
struct Text<'p> {
    source: &'p SourceView,
    html: &'p Html,
}

#[derive(Template)]
#[template(path = "document-notes.html")]
struct Notes<'p> {
    frame: &'p Frame,
    source: &'p SourceView,
    live: &'p str,
    placed: Vec<Note<'p>>,
    /// About the whole document.
    global: Vec<Note<'p>>,
    /// Their words are gone, or could be in two places.
    lost: Vec<Note<'p>>,
    waiting: &'p Waiting,
}

/// A Topic beside the text.
struct Note<'p> {
    topic: &'p Topic,
    /// Where its words are shown.
    at: Option<(Point, Point)>,
    /// The line where they begin, and the address of that line.
    line: Option<(usize, String)>,
}

impl Note<'_> {
    /// Returns whether somebody has to look where the words are.
    fn is_doubtful(&self) -> bool {
        labels::has_no_place(self.topic.placement.as_ref())
    }

    /// Returns the word of its state for the script and the sheet.
    fn state(&self) -> &str {
        self.topic.placement.as_ref().map_or("global", |it| it.state.as_str())
    }
}

/// Returns the page of a document, or the parts of it that are asked for.
pub(in crate::http::pages) fn show(call: &Call, mut reading: Reading) -> Result<Response> {
    passages::sort(&mut reading.source.topics);
    let Reading { frame, source, rendered, sized, tabs, commits, tree, waiting } = &reading;
    let address = form::document_at(&source.path);
    let live = form::source_subject(&source.path);
    let facts = Facts { source, live: &live, waiting };
    let contents = contents(rendered);
    let text = Text { source, html: sized.as_ref().unwrap_or(&rendered.html) };
    let notes = notes(&reading, &address, &live);
    if let Some(wanted) = call.header(FRAGMENT) {
        let mut parts = String::new();
        for id in wanted.split(',').map(str::trim) {
            let part = match id {
                "facts" => facts.render(),
                "tree" => tree.render(),
                "contents" => contents.render(),
                "text" => text.render(),
                "notes" => notes.render(),
                "decisions" => frame.decisions_count().render(),
                _ => continue,
            };
            parts.push_str(&part.map_err(reply::unwritten)?);
        }
        return Ok(reply::html(parts));
    }
    let first = rendered.headings.first();
    let title =
        Heading::of(first.map(|it| (it.level, it.text.as_str())), frame.title(&source.path));
    let address = address.as_str();
    let page = ReaderPage {
        frame,
        source,
        address,
        tabs,
        commits,
        title,
        facts,
        tree,
        contents,
        text,
        notes,
    };
    reply::page(&page)
}

fn contents(rendered: &Rendered) -> Contents<'_> {
    let all = rendered.headings.iter().filter(|it| it.level <= CONTENTS_LEVEL);
    let entry = all.map(|it| Entry { level: it.level, text: &it.text, id: &it.id });
    let mut entries: Vec<Entry<'_>> = entry.collect();
    let more = entries.len().saturating_sub(CONTENTS_MAX);
    entries.truncate(CONTENTS_MAX);
    // A title alone is no list.
    Contents { entries: if entries.len() > 1 { entries } else { Vec::new() }, more }
}

fn notes<'p>(reading: &'p Reading, address: &str, live: &'p str) -> Notes<'p> {
    let Reading { frame, source, rendered, waiting, .. } = reading;
    let (placed, global, lost) = (Vec::new(), Vec::new(), Vec::new());
    let mut notes = Notes { frame, source, live, placed, global, lost, waiting };
    for topic in &source.topics {
        let place = passages::place(topic);
        let line = place.as_ref().map(|it| {
            let line = passages::line_of(&source.text, it.start);
            (line, passages::line_at(address, line))
        });
        let at_text = place.and_then(|it| points_of(&source.text, &rendered.blocks, &it));
        let note = Note { topic, at: at_text, line };
        if note.at.is_some() {
            notes.placed.push(note);
        } else if topic.anchor.is_none() {
            notes.global.push(note);
        } else {
            notes.lost.push(note);
        }
    }
    notes
}
