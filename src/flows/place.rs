//! Where the open Topics of a Source are in its present text, and in a proposed one.

use std::collections::BTreeMap;

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Actor, BlobId, Result, SourcePath, TopicId};
use crate::documents::placement::{self, Baseline, TopicOrigin};
use crate::documents::{Placed, Placement, anchor};
use crate::flows::Works;

/// Returns a placement for each anchored open Topic of a Source in the text `text` of version
/// `blob`.
///
/// What is on record for that version is taken as it is; the rest is computed from each Topic's
/// baseline and not written (a GET never writes).
///
/// # Errors
/// As reading the database or git. A Topic whose baseline git no longer has is looked for by its
/// words.
pub async fn in_text(
    works: &Works,
    path: &SourcePath,
    blob: &BlobId,
    text: &str,
) -> Result<BTreeMap<TopicId, Placement>> {
    let (asked, version) = (path.clone(), blob.clone());
    let (baselines, mut known) = works
        .store
        .read(move |c| {
            let baselines = placement::baselines(c, &asked)?;
            let mut known = BTreeMap::new();
            for baseline in &baselines {
                if let Some(found) = placement::find_kept(c, &baseline.topic_id, &version)? {
                    known.insert(baseline.topic_id.clone(), found);
                }
            }
            Ok((baselines, known))
        })
        .await?;
    let mut by_blob: BTreeMap<BlobId, Vec<Baseline>> = BTreeMap::new();
    for baseline in baselines {
        if !known.contains_key(&baseline.topic_id) {
            by_blob.entry(baseline.blob.clone()).or_default().push(baseline);
        }
    }
    for (old_blob, group) in by_blob {
        for (topic, placed) in place_group(works, &old_blob, group, text).await? {
            known.insert(topic, Placement::new(blob, &placed, &Actor::System));
        }
    }
    Ok(known)
}

async fn place_group(
    works: &Works,
    old_blob: &BlobId,
    group: Vec<Baseline>,
    text: &str,
) -> Result<Vec<(TopicId, Placed)>> {
    let old = match works.repo.read_blob(old_blob, SOURCE_BYTES_MAX).await {
        Ok(bytes) => String::from_utf8(bytes).ok(),
        Err(cause) if cause.kind() == crate::base::ErrorKind::NotFound => None,
        Err(cause) => return Err(cause),
    };
    let Some(old) = old else {
        let by_quote =
            |it: &Baseline| anchor::place_by_quote(text, &it.quote, &it.prefix, &it.suffix);
        return Ok(group.iter().map(|it| (it.topic_id.clone(), by_quote(it))).collect());
    };
    let text = text.to_owned();
    let spans: Vec<TopicOrigin> = group
        .into_iter()
        .map(|it| TopicOrigin { id: it.topic_id, span: it.start..it.end })
        .collect();
    let placed = tokio::task::spawn_blocking(move || placement::place_all(&spans, &old, &text));
    placed.await.map_err(|cause| crate::base::Error::internal("placing panicked").source(cause))
}
