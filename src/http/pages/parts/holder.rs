//! The job that holds a Source, on the pages of the Source and its Topics.

use crate::api::jobs::Holder;
use crate::base::{Result, SourcePath};
use crate::flows::{self, Site};
use crate::http::pages::parts::labels::{State, Tone};
use crate::people::Caller;

/// Returns the state of the job that holds a Source.
pub(in crate::http::pages) fn state(holder: &Holder) -> State {
    match holder.is_running() {
        true => State(Tone::Running, "In use"),
        false => State(Tone::Waiting, "Reserved"),
    }
}

/// Returns why it waits, if there is a specific reason.
pub(in crate::http::pages) fn why(holder: &Holder) -> Option<&str> {
    let waiting = holder.waiting.as_ref().filter(|it| it.code != "turn")?;
    Some(&waiting.message)
}

/// Returns the job that holds a Source; `None` if the Source is free.
pub(in crate::http::pages) async fn of(
    site: &Site,
    caller: &Caller,
    path: &SourcePath,
) -> Result<Option<Holder>> {
    flows::sources::holder::holder(site, caller, path).await
}
