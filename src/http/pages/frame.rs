//! What every page has: its name, its navigation, who reads it and when.

use crate::base::{Millis, Result, TokenId};
use crate::flows::Site;
use crate::http::pages::time::{At, When};
use crate::http::{Call, assets};
use crate::people::Caller;

/// Seconds after which the page of a running job asks again.
const REFRESH_S: u32 = 3;

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
    now: Millis,
}

impl Frame {
    /// Returns the frame of a page that nobody in particular reads.
    pub(in crate::http) fn outside(site_name: &str) -> Frame {
        Frame {
            site_name: site_name.to_owned(),
            person: None,
            section: "",
            may_write: false,
            may_decide: false,
            refresh_s: None,
            key: String::new(),
            now: Millis::default(),
        }
    }

    /// Returns the frame of a page for whoever asks, and who that is.
    ///
    /// # Errors
    /// `forbidden` for a job: pages are for people.
    pub(super) fn of(site: &Site, call: &Call, section: &'static str) -> Result<(Frame, Caller)> {
        let caller = call.caller()?;
        let person = caller.person()?.display_name.clone();
        let key: TokenId = site.ids.mint();
        let frame = Frame {
            site_name: site.config.site.title().to_owned(),
            person: Some(person),
            section,
            may_write: caller.may_write().is_ok(),
            may_decide: caller.may_decide().is_ok(),
            refresh_s: None,
            key: key.to_string(),
            now: site.store.clock().now(),
        };
        Ok((frame, caller))
    }

    /// Returns where the files of the pages are.
    pub(in crate::http) fn assets(&self) -> &'static str {
        assets::ADDRESS
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
