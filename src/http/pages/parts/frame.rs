//! What every page has: its name, its navigation, who reads it and when.

use std::fmt;

use askama::Template;
use askama::filters::HtmlSafe;
use futures_util::future::BoxFuture;
use hyper::header::COOKIE;
use tracing::warn;

use crate::base::{Millis, Result, SourcePath, TokenId};
use crate::flows::sources::titles::{self, Titles};
use crate::flows::{Site, Works, assistant, decisions};
use crate::http::pages::parts::health_banner::{self, Trouble};
use crate::http::pages::parts::icon::Icon;
use crate::http::pages::parts::preferences::Look;
use crate::http::pages::parts::time::{At, When};
use crate::http::pages::parts::visible::{Name, Plain};
use crate::http::{Call, assets};
use crate::people::{Caller, Person};
use crate::store::events;

/// Seconds after which the page of a running job asks again, where no script does.
const REFRESH_S: u32 = 3;

/// More decisions than this are not counted in the navigation.
const DECISIONS_MAX: i64 = 99;

/// A part of the site in its navigation.
#[derive(Debug)]
pub(in crate::http) struct Section {
    /// Its address.
    pub(in crate::http) at: &'static str,
    /// What it is called.
    pub(in crate::http) name: &'static str,
    /// The second key of its shortcut.
    pub(in crate::http) key: char,
    /// Its icon on a phone.
    pub(in crate::http) icon: Icon,
    /// Pages that belong to it beside its own.
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

/// The address of the assistant, where the script declares one.
const ASSISTANT: &str = "/assistant";

/// The address of what waits for a decision.
const DECISIONS: &str = "/decisions";

/// What every page has.
#[derive(Debug)]
pub(in crate::http) struct Frame {
    /// What the site is called.
    pub(in crate::http) site_name: String,
    /// Who reads the page, if that is known.
    pub(in crate::http) person: Option<String>,
    /// The address of the list that the page belongs to.
    pub(in crate::http) section: &'static str,
    /// Whether the reader may open Topics, write and start jobs.
    pub(in crate::http) may_write: bool,
    /// Whether the reader may approve, reject, discard and reopen.
    pub(in crate::http) may_decide: bool,
    /// After how many seconds the page asks again.
    pub(in crate::http) refresh_s: Option<u32>,
    /// The idempotency key of a form of this page: sent twice, it counts once.
    pub(in crate::http) key: String,
    /// How this browser wants it.
    pub(in crate::http) look: Look,
    /// The last event before the page was made: from here on it hears of changes.
    pub(in crate::http) cursor: Option<String>,
    /// What keeps the site from working as its script says.
    pub(in crate::http) trouble: Option<Trouble>,
    /// How much waits for a decision of the reader.
    decisions: i64,
    /// What the site has for the reader.
    pub(in crate::http) has: Has,
    /// What the documents of the page are called.
    titles: Titles,
    now: Millis,
}

/// What a site has for a reader: what the script does not declare is not in the navigation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Has {
    /// A kind of job.
    pub kinds: bool,
    /// A schedule.
    pub schedules: bool,
    /// An inbox.
    pub inboxes: bool,
    /// An agent that lives on.
    pub agents: bool,
    /// An assistant of the reader's own.
    pub assistant: bool,
}

/// Who reads a page that is made without a call: an error's.
#[derive(Clone, Debug)]
pub(in crate::http) struct Reader {
    /// What others see.
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

/// How much waits for a decision, in the navigation.
#[derive(Template)]
#[template(path = "decisions-count.html")]
pub(in crate::http) struct DecisionsCount {
    count: Option<String>,
    is_live: bool,
}

impl Frame {
    /// Returns the frame of a page that nobody in particular reads.
    pub(in crate::http) fn outside(site_name: &str, look: Look) -> Frame {
        Frame {
            site_name: site_name.to_owned(),
            person: None,
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

    /// Makes it the frame of somebody who is signed in, on a page that hears of nothing.
    pub(in crate::http) fn read_by(mut self, reader: Option<Reader>) -> Frame {
        if let Some(reader) = reader {
            self.person = Some(reader.name);
            self.has = reader.has;
        }
        self
    }

    /// Returns the frame of a page for whoever asks, and who that is.
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

    /// Returns where the files of the pages are.
    pub(in crate::http) fn assets(&self) -> &'static str {
        assets::ADDRESS
    }

    /// Returns a module of the pages and all that it imports.
    pub(in crate::http) fn modules(&self, name: &str) -> &'static [&'static str] {
        assets::modules(name)
    }

    /// Returns the version of these files, and so of the program behind the pages.
    pub(in crate::http) fn version(&self) -> &'static str {
        assets::VERSION
    }

    /// Returns the parts of the site that the reader has.
    pub(in crate::http) fn sections(&self) -> impl Iterator<Item = &'static Section> {
        let has_assistant = self.has.assistant;
        SECTIONS.iter().filter(move |it| has_assistant || it.at != ASSISTANT)
    }

    /// Returns whether the page belongs to a part of the site.
    pub(in crate::http) fn is_in(&self, section: &Section) -> bool {
        self.section == section.at || section.holds.contains(&self.section)
    }

    /// Returns the part of the navigation that counts what waits for a decision. It follows events,
    /// so every page that answers with single parts of itself answers with this one too.
    pub(in crate::http) fn decisions_count(&self) -> DecisionsCount {
        let count = (self.decisions > 0).then(|| match self.decisions {
            count @ ..=DECISIONS_MAX => count.to_string(),
            _ => format!("{DECISIONS_MAX}+"),
        });
        DecisionsCount { count, is_live: self.cursor.is_some() }
    }

    /// Learns what the documents of the page are called: by their files, where git is silent.
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

    /// Returns what a document is called.
    pub(in crate::http) fn title<'t>(&'t self, path: &'t str) -> &'t str {
        self.titles.of(path)
    }

    /// Returns what a document is called, within a line of facts.
    pub(in crate::http) fn document<'t>(&'t self, path: &'t str) -> Document<'t> {
        Document { title: self.titles.of(path), path }
    }

    /// Makes the page ask again after a moment.
    pub(in crate::http::pages) fn refresh(&mut self) {
        self.refresh_s = Some(REFRESH_S);
    }

    /// Returns the present time of the page.
    pub(in crate::http::pages) fn now(&self) -> Millis {
        self.now
    }

    /// Returns a time as the reader sees it: `3 min ago`, with the exact time behind it.
    pub(in crate::http::pages) fn when(&self, at: &At) -> When {
        self.since(&at.0)
    }

    /// Returns a time of a typed answer as an element.
    pub(in crate::http::pages) fn since(&self, at: &Millis) -> When {
        When { at: *at, now: self.now }
    }
}

/// A document in a line of facts: its title, with its path behind it.
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
