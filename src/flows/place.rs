//! Where the open Topics of a Source are in a text: computed for a reader, and kept for the
//! versions that are seen in the repository.

use std::collections::BTreeMap;

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Actor, BlobId, Context, Error, ErrorKind, Result, SourcePath, TopicId, fault};
use crate::documents::anchor::{self, NewAnchor, Portrait};
use crate::documents::placement::{self, Baseline, TopicOrigin};
use crate::documents::{Placed, Placement, text};
use crate::flows::Works;
use crate::store::Tx;

/// A text of a Source and what it is.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its version.
    pub blob: BlobId,
    /// The text.
    pub text: String,
    /// Whether it is in the working tree only, and not committed.
    pub is_working: bool,
}

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
    let found = find(works, path, blob, text).await?;
    let computed = found.computed.into_iter().map(|(baseline, placed)| {
        (baseline.topic_id, Placement::new(blob, &placed, &Actor::System))
    });
    let known = found.known.into_iter().map(|(baseline, it)| (baseline.topic_id, it));
    Ok(known.chain(computed).collect())
}

/// Places the open Topics of a Source in a version that was seen in the repository, and keeps where
/// they are; returns how many placements were written. A committed version becomes the baseline of
/// those that have a place in it.
///
/// # Errors
/// As [`in_text`], and as any write.
pub async fn keep(works: &Works, path: &SourcePath, version: Version) -> Result<usize> {
    let found = find(works, path, &version.blob, &version.text).await?;
    let is_working = version.is_working && !fault::is_off("working_baseline");
    let upgraded = found.known.into_iter().filter(|(_, it)| it.is_working && !is_working);
    let mut due: Vec<Due> = found
        .computed
        .into_iter()
        .map(|(baseline, placed)| Due { baseline, place: Place::New(placed), anchor: None })
        .chain(upgraded.map(|(baseline, it)| Due {
            baseline,
            place: Place::Known(it),
            anchor: None,
        }))
        .collect();
    if due.is_empty() {
        return Ok(0);
    }
    let blob = version.blob.clone();
    if !is_working {
        let described =
            tokio::task::spawn_blocking(move || describe(&mut due, &version).map(|()| due));
        due = described.await.context(ErrorKind::Internal, || "placing panicked".to_owned())??;
    }
    let path = path.clone();
    works.store.write(move |tx| write(tx, &path, &blob, &due, is_working)).await
}

/// A placement that is to be written.
struct Due {
    /// What it was computed from.
    baseline: Baseline,
    place: Place,
    /// The new baseline.
    anchor: Option<NewAnchor>,
}

enum Place {
    New(Placed),
    Known(Placement),
}

fn describe(due: &mut [Due], version: &Version) -> Result<()> {
    let portrait = Portrait::of(&version.text, &version.blob);
    for it in due {
        let range = match &it.place {
            Place::New(placed) if placed.state.is_placed() => placed.range.clone(),
            Place::New(_) => None,
            Place::Known(placement) => placement.range(),
        };
        it.anchor = range.map(|range| portrait.anchor(range)).transpose()?;
    }
    Ok(())
}

fn write(
    tx: &Tx<'_>,
    path: &SourcePath,
    blob: &BlobId,
    due: &[Due],
    is_working: bool,
) -> Result<usize> {
    let now: BTreeMap<TopicId, Baseline> = placement::baselines(tx.connection(), path)?
        .into_iter()
        .map(|it| (it.topic_id.clone(), it))
        .collect();
    let mut written = 0;
    for Due { baseline, place, anchor } in due {
        let topic = &baseline.topic_id;
        // Who was closed meanwhile, or has a place that somebody decided, needs none from before.
        if now.get(topic) != Some(baseline) {
            continue;
        }
        match place {
            Place::New(placed) => placement::put_seen(tx, topic, blob, placed, is_working)?,
            Place::Known(_) => placement::put_committed(tx, topic, blob)?,
        }
        if let Some(anchor) = anchor {
            anchor::row::rebase(tx, topic, anchor)?;
        }
        written += 1;
    }
    if !is_working {
        text::prune(tx, path)?;
    }
    Ok(written)
}

struct Found {
    known: Vec<(Baseline, Placement)>,
    computed: Vec<(Baseline, Placed)>,
}

async fn find(works: &Works, path: &SourcePath, blob: &BlobId, text: &str) -> Result<Found> {
    let (asked, version) = (path.clone(), blob.clone());
    let (known, unknown) = works
        .store
        .read(move |c| {
            let (mut known, mut unknown) = (Vec::new(), Vec::new());
            for baseline in placement::baselines(c, &asked)? {
                match placement::find_kept(c, &baseline.topic_id, &version)? {
                    Some(found) => known.push((baseline, found)),
                    None => unknown.push(baseline),
                }
            }
            Ok((known, unknown))
        })
        .await?;
    let mut by_blob: BTreeMap<BlobId, Vec<Baseline>> = BTreeMap::new();
    for baseline in unknown {
        by_blob.entry(baseline.blob.clone()).or_default().push(baseline);
    }
    let mut computed = Vec::new();
    for (old_blob, group) in by_blob {
        computed.extend(place_group(works, path, &old_blob, group, text).await?);
    }
    Ok(Found { known, computed })
}

async fn place_group(
    works: &Works,
    path: &SourcePath,
    old_blob: &BlobId,
    group: Vec<Baseline>,
    text: &str,
) -> Result<Vec<(Baseline, Placed)>> {
    let Some(old) = text_of(works, path, old_blob).await? else {
        let by_quote =
            |it: &Baseline| anchor::place_by_quote(text, &it.quote, &it.prefix, &it.suffix);
        return Ok(group.into_iter().map(|it| (it.clone(), by_quote(&it))).collect());
    };
    let text = text.to_owned();
    let spans: Vec<TopicOrigin> = group
        .iter()
        .map(|it| TopicOrigin { id: it.topic_id.clone(), span: it.start..it.end })
        .collect();
    let placed = tokio::task::spawn_blocking(move || placement::place_all(&spans, &old, &text));
    let placed = placed.await.map_err(|cause| Error::internal("placing panicked").source(cause))?;
    Ok(group.into_iter().zip(placed.into_iter().map(|(_, placed)| placed)).collect())
}

/// Returns the text of a version from which Topics are placed, if it is still there.
pub(super) async fn text_of(
    works: &Works,
    path: &SourcePath,
    blob: &BlobId,
) -> Result<Option<String>> {
    let (asked, version) = (path.clone(), blob.clone());
    let kept = works.store.read(move |c| text::find(c, &asked, &version)).await?;
    if kept.is_some() {
        return Ok(kept);
    }
    match works.repo.read_blob(blob, SOURCE_BYTES_MAX).await {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}
