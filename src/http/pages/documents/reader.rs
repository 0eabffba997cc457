//! The rendered document, with its open Topics as notes next to it.

use std::sync::Arc;

use askama::Template;
use warp::reply::Response;

use crate::api::sources::{HistoryRow, SourceView};
use crate::api::topics::Topic;
use crate::base::Result;
use crate::http::markdown::{Html, Point, Prose, Rendered, points_of};
use crate::http::pages::Frame;
use crate::http::pages::documents::document::Names;
use crate::http::pages::documents::passages;
use crate::http::pages::documents::pending::Waiting;
use crate::http::pages::documents::perspectives::Tab;
use crate::http::pages::documents::tree::Tree;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::{Call, reply};

/// Most headings in the table of contents, and their deepest level.
const CONTENTS_MAX: usize = 1000;
const CONTENTS_LEVEL: u8 = 3;
/// Characters of a quote next to the text.
const QUOTE_CHARS_MAX: usize = 240;
/// Names of the parts that the page's script requests.
const FRAGMENT: &str = "wb-fragment";

/// The content of a document's page.
pub(in crate::http::pages) struct Reading {
    pub(in crate::http::pages) frame: Frame,
    pub(in crate::http::pages) source: SourceView,
    pub(in crate::http::pages) rendered: Arc<Rendered>,
    /// The rendered text with the sizes of its images, if it has any.
    pub(in crate::http::pages) sized: Option<Html>,
    pub(in crate::http::pages) tabs: Vec<Tab>,
    pub(in crate::http::pages) commits: Vec<HistoryRow>,
    pub(in crate::http::pages) tree: Tree,
    /// The proposals awaiting a decision on it.
    pub(in crate::http::pages) waiting: Waiting,
    pub(in crate::http::pages) names: Names,
}

#[derive(Template)]
#[template(path = "document.html")]
struct ReaderPage<'p> {
    frame: &'p Frame,
    source: &'p SourceView,
    address: &'p str,
    tabs: &'p [Tab],
    commits: &'p [HistoryRow],
    title: Heading,
    facts: Facts<'p>,
    tree: &'p Tree,
    contents: Contents<'p>,
    text: Text<'p>,
    notes: Notes<'p>,
    names: &'p Names,
}

/// The heading of a document's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heading {
    /// The text itself, which begins with its title.
    Text,
    /// The text's own title, which is not a heading of level 1; for screen readers the page has
    /// one.
    Unseen,
    /// The title, which is not in the text.
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

/// The facts above the document.
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

/// A heading in the table of contents.
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
    /// The passage is missing or ambiguous.
    lost: Vec<Note<'p>>,
    waiting: &'p Waiting,
}

/// A Topic next to the text.
struct Note<'p> {
    topic: &'p Topic,
    /// Where its passage is shown.
    at: Option<(Point, Point)>,
    /// The line where the passage begins, and its address.
    line: Option<(usize, String)>,
}

impl Note<'_> {
    /// Returns whether a person must choose the passage.
    fn is_doubtful(&self) -> bool {
        labels::has_no_place(self.topic.placement.as_ref())
    }

    /// Returns its state, as a word for the script and the style sheet.
    fn state(&self) -> &str {
        self.topic.placement.as_ref().map_or("global", |it| it.state.as_str())
    }
}

/// Returns the page of a document, or its requested parts.
pub(in crate::http::pages) fn show(call: &Call, mut reading: Reading) -> Result<Response> {
    passages::sort(&mut reading.source.topics);
    let Reading { frame, source, rendered, sized, tabs, commits, tree, waiting, names } = &reading;
    let address = form::document_at(source.path.as_str());
    let live = form::source_subject(source.path.as_str());
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
    let title = Heading::of(
        first.map(|it| (it.level, it.text.as_str())),
        frame.title(source.path.as_str()),
    );
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
        names,
    };
    reply::page(&page)
}

fn contents(rendered: &Rendered) -> Contents<'_> {
    let all = rendered.headings.iter().filter(|it| it.level <= CONTENTS_LEVEL);
    let entry = all.map(|it| Entry { level: it.level, text: &it.text, id: &it.id });
    let mut entries: Vec<Entry<'_>> = entry.collect();
    let more = entries.len().saturating_sub(CONTENTS_MAX);
    entries.truncate(CONTENTS_MAX);
    // A single title is not worth a list.
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
