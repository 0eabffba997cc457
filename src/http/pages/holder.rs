//! The job that holds a Source, as the pages of the Source and of its Topics show it.

use serde::Deserialize;

use crate::base::{Result, SourcePath};
use crate::flows::{self, Site};
use crate::http::pages::time::At;
use crate::http::pages::view::{Waiting, read};
use crate::http::pages::words::{State, Tone};
use crate::people::Caller;

/// The job that holds a Source: `templates/holder.html` says it.
#[derive(Debug, Deserialize)]
pub(super) struct Holder {
    pub(super) job_id: String,
    pub(super) kind: String,
    status: String,
    pub(super) since: At,
    pub(super) requested_by_name: String,
    pub(super) waiting: Option<Waiting>,
    pub(super) others: i64,
}

impl Holder {
    /// Returns whether it works already.
    pub(super) fn is_running(&self) -> bool {
        self.status == "running"
    }

    /// Returns its state.
    pub(super) fn state(&self) -> State {
        match self.is_running() {
            true => State(Tone::Running, "In use"),
            false => State(Tone::Waiting, "Taken"),
        }
    }

    /// Returns why it waits, if something particular is in its way.
    pub(super) fn why(&self) -> Option<String> {
        let waiting = self.waiting.as_ref().filter(|it| it.code != "turn")?;
        Some(waiting.message.clone())
    }
}

/// Returns the job that holds a Source; nothing if it is free.
pub(super) async fn of(site: &Site, caller: &Caller, path: &SourcePath) -> Result<Option<Holder>> {
    read(flows::sources::holder::holder(site, caller, path).await?)
}
