//! The passage that a suggestion in a thread replaces.

use crate::api::topics::{Placement, PlacementState, Topic};
use crate::base::{Error, Result, TopicId};
use crate::flows::{self, Site};
use crate::http::pages::documents::passages;
use crate::http::pages::parts::form;
use crate::people::Caller;
use crate::store::idempotency::{self, Key};

/// Returns the words that a suggestion replaces, if it is certain where they are.
pub(super) fn words_in(text: &str, topic: &Topic) -> Option<String> {
    let is_certain = |it: &Placement| {
        matches!(it.state, PlacementState::Exact | PlacementState::Shifted | PlacementState::Edited)
    };
    passages::place(topic)
        .filter(|_| topic.placement.as_ref().is_some_and(is_certain))
        .and_then(|it| text.get(it).map(form::text))
}

/// Fails if a passage is no longer the one that a person has typed over, unless what they typed has
/// arrived already.
pub(in crate::http::pages) async fn still_reads(
    site: &Site,
    caller: &Caller,
    (id, over): (&TopicId, &str),
    key: Key,
) -> Result<()> {
    if site.store.read(move |c| idempotency::find(c, &key)).await?.is_some() {
        return Ok(());
    }
    let view = flows::topics::show(site, caller, id).await?;
    let (_, text) = site.repo.present(&view.topic.source_path).await?;
    match words_in(&text, &view.topic) {
        Some(words) if words != form::text(over) => {
            let message = "the passage has changed since you began to type";
            Err(Error::conflict("source_changed", message)
                .hint("look at the difference to the new text, then send it again"))
        }
        _ => Ok(()),
    }
}
