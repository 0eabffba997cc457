//! The job that holds a Source, on the pages of the Source and its Topics.

use serde::Deserialize;

use crate::base::{Result, SourcePath};
use crate::flows::{self, Site};
use crate::http::pages::parts::labels::{State, Tone};
use crate::http::pages::parts::time::At;
use crate::http::pages::parts::view::{Waiting, read};
use crate::people::Caller;

/// The job that holds a Source, for `holder.html`.
#[derive(Debug, Deserialize)]
pub(in crate::http::pages) struct Holder {
    pub(in crate::http::pages) job_id: String,
    pub(in crate::http::pages) kind: String,
    status: String,
    pub(in crate::http::pages) since: At,
    pub(in crate::http::pages) requested_by_name: String,
    pub(in crate::http::pages) waiting: Option<Waiting>,
    pub(in crate::http::pages) others: i64,
}

impl Holder {
    /// Returns whether it is running.
    pub(in crate::http::pages) fn is_running(&self) -> bool {
        self.status == "running"
    }

    /// Returns its state.
    pub(in crate::http::pages) fn state(&self) -> State {
        match self.is_running() {
            true => State(Tone::Running, "In use"),
            false => State(Tone::Waiting, "Reserved"),
        }
    }

    /// Returns why it waits, if there is a specific reason.
    pub(in crate::http::pages) fn why(&self) -> Option<String> {
        let waiting = self.waiting.as_ref().filter(|it| it.code != "turn")?;
        Some(waiting.message.clone())
    }
}

/// Returns the job that holds a Source; `None` if the Source is free.
pub(in crate::http::pages) async fn of(
    site: &Site,
    caller: &Caller,
    path: &SourcePath,
) -> Result<Option<Holder>> {
    read(flows::sources::holder::holder(site, caller, path).await?)
}
