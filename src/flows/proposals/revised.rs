//! What becomes of a person's edits when the engine that applies suggestions revises a proposal.

use std::ops::Range;

use rusqlite::Connection;

use crate::api::proposals::Proposal;
use crate::api::topics::{RevisedText, Topic};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, Context, Error, ErrorKind, ProposalId, Result};
use crate::documents::proposals::proposal::{self, lineage};
use crate::documents::proposals::revise::Edited;
use crate::documents::topics::suggestion::{Suggestion, last};
use crate::documents::topics::{message, topic};
use crate::flows::Site;
use crate::flows::topics::places;

/// An edited proposal and its document as it is now.
struct Known {
    base: String,
    text: String,
    present: (BlobId, String),
    passage: Range<usize>,
    /// The suggestions of its Topic, newest first.
    suggested: Vec<String>,
}

impl Known {
    fn edited(&self) -> Edited<'_> {
        Edited { base: &self.base, text: &self.text, present: &self.present.1 }
    }
}

/// Returns the next text of an edited proposal, with `words` for its passage; the last suggestion
/// of its Topic if there are none. `None` if nobody has edited it, or if the passage is not found
/// in the document.
///
/// # Errors
/// As reading the database or git.
pub(in crate::flows) async fn revised(
    site: &Site,
    id: &ProposalId,
    words: Option<String>,
) -> Result<Option<RevisedText>> {
    let Some(mut known) = known(site, id).await? else { return Ok(None) };
    let words = match words {
        Some(words) => words,
        None if known.suggested.is_empty() => return Ok(None),
        None => known.suggested.remove(0),
    };
    let made = move || {
        let it = known.edited().revise(&known.passage, &words, &known.suggested);
        RevisedText { source_sha: known.present.0, text: it.text, is_partial: it.is_partial }
    };
    let made = tokio::task::spawn_blocking(made).await;
    made.context(ErrorKind::Internal, || "revising panicked".to_owned()).map(Some)
}

/// Returns what an edited proposal has in the place of its passage. `None` if nobody has edited it,
/// or if that is not found.
///
/// # Errors
/// As reading the database or git.
pub async fn words(site: &Site, id: &ProposalId) -> Result<Option<String>> {
    let Some(known) = known(site, id).await? else { return Ok(None) };
    let found = move || known.edited().words(&known.passage, &known.suggested);
    let found = tokio::task::spawn_blocking(found).await;
    found.context(ErrorKind::Internal, || "comparing panicked".to_owned())
}

async fn known(site: &Site, id: &ProposalId) -> Result<Option<Known>> {
    let asked = id.clone();
    let read = move |c: &Connection| {
        if !lineage::is_edited(c, &asked)? {
            return Ok(None);
        }
        let made = proposal::find(c, &asked)?;
        let topic = topic::find(c, &made.topic_id, None)?;
        let messages = message::list_of(c, &made.topic_id)?;
        let suggested = messages.iter().rev().filter_map(|it| match last(&it.body)? {
            Suggestion::Text(words) => Some(words),
            Suggestion::Open => None,
        });
        Ok(Some((proposal::text(c, &asked)?, suggested.collect(), made, topic)))
    };
    let found: Option<(String, Vec<String>, Proposal, Topic)> = site.store.read(read).await?;
    let Some((text, suggested, made, mut topic)) = found else { return Ok(None) };
    let path = &topic.source_path.clone();
    let Ok(present) = site.repo.present(path).await else { return Ok(None) };
    places::place_in_present(site, path, std::slice::from_mut(&mut topic)).await?;
    let Some(passage) = places::passage(&topic, &present) else { return Ok(None) };
    let base = site.repo.read_blob(&made.base_source_sha, SOURCE_BYTES_MAX).await?;
    let base = String::from_utf8(base).map_err(|_| Error::internal("the base is not UTF-8"))?;
    Ok(Some(Known { base, text, present, passage, suggested }))
}
