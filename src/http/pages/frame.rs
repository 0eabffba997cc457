//! What every page has: its name, its navigation, who reads it and when.

use hyper::header::COOKIE;

use crate::base::{Millis, Result, TokenId};
use crate::flows::Site;
use crate::http::pages::icon::Icon;
use crate::http::pages::look::Look;
use crate::http::pages::time::{At, When};
use crate::http::pages::trouble::{self, Trouble};
use crate::http::{Call, assets};
use crate::people::Caller;
use crate::store::events;

/// Seconds after which the page of a running job asks again, where no script does.
const REFRESH_S: u32 = 3;

/// The parts of the site: address, name, second key of the shortcut, icon.
type Section = (&'static str, &'static str, char, Icon);
const SECTIONS: [Section; 5] = [
    ("/", "Home", 'h', Icon::Home),
    ("/d", "Documents", 'd', Icon::Document),
    ("/topics", "Topics", 't', Icon::Topic),
    ("/proposals", "Proposals", 'p', Icon::Proposal),
    ("/jobs", "Jobs", 'j', Icon::Job),
];

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
    now: Millis,
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
            now: Millis::default(),
        }
    }

    /// Makes it the frame of somebody who is signed in, on a page that hears of nothing.
    pub(in crate::http) fn read_by(mut self, person: Option<String>) -> Frame {
        self.person = person;
        self
    }

    /// Returns the frame of a page for whoever asks, and who that is.
    ///
    /// # Errors
    /// `forbidden` for a job: pages are for people; as any read.
    pub(super) fn of(site: &Site, call: &Call, section: &'static str) -> Result<(Frame, Caller)> {
        let caller = call.caller()?;
        let person = caller.person()?.display_name.clone();
        let key: TokenId = site.ids.mint();
        let (_, newest) = site.store.look(events::edges)?;
        let frame = Frame {
            site_name: site.config.site.title().to_owned(),
            person: Some(person),
            section,
            may_write: caller.may_write().is_ok(),
            may_decide: caller.may_decide().is_ok(),
            refresh_s: None,
            key: key.to_string(),
            look: Look::of(call.header(COOKIE.as_str())),
            cursor: Some(format!("{}-{newest}", site.store.epoch())),
            trouble: trouble::now(site),
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

    /// Returns the parts of the site.
    pub(in crate::http) fn sections(&self) -> &'static [Section] {
        &SECTIONS
    }

    /// Makes the page ask again after a moment.
    pub(super) fn refresh(&mut self) {
        self.refresh_s = Some(REFRESH_S);
    }

    /// Returns the present time of the page.
    pub(super) fn now(&self) -> Millis {
        self.now
    }

    /// Returns a time as the reader sees it: `3 min ago`, with the exact time behind it.
    pub(super) fn when(&self, at: &At) -> When {
        When { at: at.0, now: self.now }
    }
}
