//! The frame of every page: its navigation, its reader and its time.

use std::fmt;

use askama::Template;
use askama::filters::HtmlSafe;
use futures_util::future::BoxFuture;
use hyper::header::COOKIE;
use tracing::warn;

use crate::base::{Millis, PersonId, Result, SourcePath, TokenId};
use crate::flows::sources::titles::{self, Titles};
use crate::flows::{Site, Works, assistant, decisions};
use crate::http::pages::parts::health_banner::{self, Trouble};
use crate::http::pages::parts::icon::Icon;
use crate::http::pages::parts::preferences::Look;
use crate::http::pages::parts::time::{Until, When};
use crate::http::pages::parts::visible::{Name, Plain};
use crate::http::{Call, assets};
use crate::people::{Caller, Person};
use crate::store::events;

/// Seconds after which the page of a running job reloads without a script.
const REFRESH_S: u32 = 3;

/// The navigation counts no more decisions than this.
const DECISIONS_MAX: i64 = 99;

/// An entry of the navigation.
#[derive(Debug)]
pub(in crate::http) struct Section {
    /// Its address.
    pub(in crate::http) at: &'static str,
    /// Its label.
    pub(in crate::http) name: &'static str,
    /// The second key of its shortcut.
    pub(in crate::http) key: char,
    /// Its icon on a phone.
    pub(in crate::http) icon: Icon,
    /// Pages that belong to it besides its own.
    holds: &'static [&'static str],
}

const SECTIONS: [Section; 5] = [
    Section { at: "/", name: "Home", key: 'h', icon: Icon::Home, holds: &[] },
    Section {
        at: DECISIONS,
        name: "Decisions",
        key: 'd',
        icon: Icon::Proposal,
        holds: &["/proposals"],
    },
    Section { at: "/d", name: "Documents", key: 'f', icon: Icon::Document, holds: &["/topics"] },
    Section { at: ASSISTANT, name: "Assistant", key: 'a', icon: Icon::Chat, holds: &[] },
    Section { at: "/channels", name: "Channels", key: 'c', icon: Icon::Talk, holds: &[] },
];

/// The address of the assistant, if the script declares one.
const ASSISTANT: &str = "/assistant";

/// The address of the decisions.
const DECISIONS: &str = "/decisions";

/// What every page shows.
#[derive(Debug)]
pub(in crate::http) struct Frame {
    /// The name of the site.
    pub(in crate::http) site_name: String,
    /// The reader, if known.
    pub(in crate::http) person: Option<String>,
    /// Their id; what they type is kept under it.
    pub(in crate::http) person_id: Option<PersonId>,
    /// The navigation entry that the page belongs to.
    pub(in crate::http) section: &'static str,
    /// Whether the reader may open Topics, write and start jobs.
    pub(in crate::http) may_write: bool,
    /// Whether the reader may approve, reject, close and reopen.
    pub(in crate::http) may_decide: bool,
    /// Seconds after which the page reloads.
    pub(in crate::http) refresh_s: Option<u32>,
    /// The idempotency key of a form on this page: sent twice, it counts once.
    pub(in crate::http) key: String,
    /// The preferences of this browser.
    pub(in crate::http) look: Look,
    /// The last event before the page was rendered; the page follows later ones.
    pub(in crate::http) cursor: Option<String>,
    /// Problems of the site.
    pub(in crate::http) trouble: Option<Trouble>,
    /// Number of decisions awaiting the reader.
    decisions: i64,
    /// What the script declares for the reader.
    pub(in crate::http) has: Has,
    /// Titles of the documents named on the page.
    titles: Titles,
    now: Millis,
}

/// What a site has for a reader; the navigation shows nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Has {
    /// A kind that people can start.
    pub kinds: bool,
    /// A schedule.
    pub schedules: bool,
    /// An inbox.
    pub inboxes: bool,
    /// A long-running agent.
    pub agents: bool,
    /// An assistant for the reader.
    pub assistant: bool,
}

/// The reader of a page rendered without a call, such as an error page.
#[derive(Clone, Debug)]
pub(in crate::http) struct Reader {
    /// Their id.
    pub(in crate::http) id: PersonId,
    /// The name that others see.
    pub(in crate::http) name: String,
    /// What the site has for them.
    pub(in crate::http) has: Has,
}

impl Has {
    /// Returns what the script declares for a person.
    pub fn of(works: &Works, person: &Person) -> Has {
        let config = &works.config;
        Has {
            kinds: !config.kinds.is_empty(),
            schedules: !config.schedules.is_empty(),
            inboxes: config.kinds.values().any(|it| it.inbox.is_some()),
            agents: config.kinds.values().any(|it| it.agent.is_some()),
            assistant: assistant::is_open_to(works, person),
        }
    }
}

/// The number of open decisions in the navigation.
#[derive(Template)]
#[template(path = "decisions-count.html")]
pub(in crate::http) struct DecisionsCount {
    count: Option<String>,
    is_live: bool,
}

impl Frame {
    /// Returns the frame of a page without a known reader.
    pub(in crate::http) fn outside(site_name: &str, look: Look) -> Frame {
        Frame {
            site_name: site_name.to_owned(),
            person: None,
            person_id: None,
            section: "",
            may_write: false,
            may_decide: false,
            refresh_s: None,
            key: String::new(),
            look,
            cursor: None,
            trouble: None,
            decisions: 0,
            has: Has::default(),
            titles: Titles::default(),
            now: Millis::default(),
        }
    }

    /// Makes it the frame of a signed-in reader, on a page without live updates.
    pub(in crate::http) fn read_by(mut self, reader: Option<Reader>) -> Frame {
        if let Some(reader) = reader {
            self.person = Some(reader.name);
            self.person_id = Some(reader.id);
            self.has = reader.has;
        }
        self
    }

    /// Returns the frame of a page for the caller, and the person.
    ///
    /// # Errors
    /// `forbidden` for a job: pages are for people; as any read.
    pub(in crate::http::pages) fn of(
        site: &Site,
        call: &Call,
        section: &'static str,
    ) -> Result<(Frame, Caller)> {
        let caller = call.caller()?;
        let person = caller.person()?.clone();
        let key: TokenId = site.ids.mint();
        let ((_, newest), decisions) =
            site.store.look(|c| Ok((events::edges(c)?, decisions::count(c, &person.id)?)))?;
        let has = Has::of(site, &person);
        let frame = Frame {
            site_name: site.config.site.title().to_owned(),
            person: Some(person.display_name),
            person_id: Some(person.id),
            section,
            may_write: caller.may_write().is_ok(),
            may_decide: caller.may_decide().is_ok(),
            refresh_s: None,
            key: key.to_string(),
            look: Look::of(call.header(COOKIE.as_str())),
            cursor: Some(format!("{}-{newest}", site.store.epoch())),
            trouble: health_banner::now(site),
            decisions,
            has,
            titles: Titles::default(),
            now: site.store.clock().now(),
        };
        Ok((frame, caller))
    }

    /// Returns the address of the assets.
    pub(in crate::http) fn assets(&self) -> &'static str {
        assets::ADDRESS
    }

    /// Returns a module and everything it imports.
    pub(in crate::http) fn modules(&self, name: &str) -> &'static [&'static str] {
        assets::modules(name)
    }

    /// Returns the version of the assets, and so of the program.
    pub(in crate::http) fn version(&self) -> &'static str {
        assets::VERSION
    }

    /// Returns the entries that the reader has.
    pub(in crate::http) fn sections(&self) -> impl Iterator<Item = &'static Section> {
        let has_assistant = self.has.assistant;
        SECTIONS.iter().filter(move |it| has_assistant || it.at != ASSISTANT)
    }

    /// Returns whether the page belongs to an entry.
    pub(in crate::http) fn is_in(&self, section: &Section) -> bool {
        self.section == section.at || section.holds.contains(&self.section)
    }

    /// Returns the part of the navigation with the number of decisions. It follows events, so every
    /// page that sends single parts sends this one, too.
    pub(in crate::http) fn decisions_count(&self) -> DecisionsCount {
        let count = (self.decisions > 0).then(|| match self.decisions {
            count @ ..=DECISIONS_MAX => count.to_string(),
            _ => format!("{DECISIONS_MAX}+"),
        });
        DecisionsCount { count, is_live: self.cursor.is_some() }
    }

    /// Looks up the titles of the page's documents, from the files if git fails.
    pub(in crate::http::pages) fn name_documents<'f, 'p>(
        &'f mut self,
        site: &'f Site,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> BoxFuture<'f, ()> {
        let paths = paths.into_iter().filter_map(|it| it.parse().ok());
        let paths: Vec<SourcePath> = paths.collect();
        Box::pin(async move {
            match titles::of(site, paths).await {
                Ok(titles) => self.titles = titles,
                Err(cause) => warn!("documents are called by their files: {}", cause.chain()),
            }
        })
    }

    /// Returns a document's title.
    pub(in crate::http) fn title<'t>(&'t self, path: &'t str) -> &'t str {
        self.titles.of(path)
    }

    /// Returns a document's title for a line of facts.
    pub(in crate::http) fn document<'t>(&'t self, path: &'t str) -> Document<'t> {
        Document { title: self.titles.of(path), path }
    }

    /// Makes the page reload after a moment.
    pub(in crate::http::pages) fn refresh(&mut self) {
        self.refresh_s = Some(REFRESH_S);
    }

    /// Returns the current time of the page.
    pub(in crate::http::pages) fn now(&self) -> Millis {
        self.now
    }

    /// Returns a relative time such as `3 min ago`, with the exact time as its title.
    pub(in crate::http::pages) fn when(&self, at: &Millis) -> When {
        When { at: *at, now: self.now }
    }

    /// Returns how long it is until a time, such as `in 3 min`.
    pub(in crate::http::pages) fn until(&self, at: &Millis) -> Until {
        Until(self.when(at))
    }
}

/// A document in a line of facts: its title, with its path as a tooltip.
pub(in crate::http) struct Document<'t> {
    title: &'t str,
    path: &'t str,
}

impl HtmlSafe for Document<'_> {}

impl fmt::Display for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<span title=\"{}\">{}</span>", Plain(self.path), Name(self.title))
    }
}
