//! Placements of a Source's open Topics in a text: computed for a reader, and stored for versions
//! seen in the repository.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::api::topics::{Placement, PlacementState, Topic, TopicStatus};
use crate::base::limit::{QUOTE_BYTES_MAX, SOURCE_BYTES_MAX};
use crate::base::{Actor, BlobId, Context, Error, ErrorKind, Result, SourcePath, TopicId, fault};
use crate::documents::Placed;
use crate::documents::anchor::{self, NewAnchor, Portrait};
use crate::documents::git::OBJECT_MISMATCH;
use crate::documents::sources::text;
use crate::documents::topics::placement::{self, Baseline, TopicOrigin};
use crate::flows::topics::deletion;
use crate::flows::{Site, Works};
use crate::store::Tx;

/// A text of a Source with its origin.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its version.
    pub blob: BlobId,
    /// The text.
    pub text: String,
    /// Where it was seen.
    pub held: Held,
    /// Whether git has no copy of it although it is committed, because git converts line ends.
    pub is_converted: bool,
}

/// Where in the repository a text was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// In the checked-out commit and in the working tree.
    Committed,
    /// In the checked-out commit; the working tree has another text.
    Covered,
    /// Only in the working tree.
    Working,
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

/// Searches a text for some of the open Topics of a Source, each from its baseline.
///
/// # Errors
/// As [`in_text`].
pub(in crate::flows) async fn again(
    works: &Works,
    path: &SourcePath,
    lost: Vec<TopicId>,
    text: &str,
) -> Result<BTreeMap<TopicId, Placed>> {
    if lost.is_empty() || fault::is_off("orphans_again") {
        return Ok(BTreeMap::new());
    }
    let asked = path.clone();
    let mut baselines = works.store.read(move |c| placement::baselines(c, &asked)).await?;
    baselines.retain(|it| lost.contains(&it.topic_id));
    let found = compute(works, path, baselines, text).await?;
    Ok(found.into_iter().map(|(from, placed)| (from.topic_id, placed)).collect())
}

/// Places the open Topics of a Source in a version seen in the repository, and stores the
/// placements; returns how many were written. A committed version becomes the baseline of the
/// Topics placed in it, except for Topics that somebody has moved to an uncommitted text which
/// still covers it.
///
/// # Errors
/// As [`in_text`], and as any write.
pub async fn keep(works: &Works, path: &SourcePath, version: Version) -> Result<usize> {
    let found = find(works, path, &version.blob, &version.text).await?;
    let waits_for = match version.held {
        Held::Covered => {
            let asked = path.clone();
            works.store.read(move |c| text::kept(c, &asked)).await?
        }
        Held::Committed | Held::Working => Vec::new(),
    };
    let is_off = fault::is_off("working_baseline");
    let is_working =
        |it: &Baseline| (version.held == Held::Working || waits_for.contains(&it.blob)) && !is_off;
    // Later placements are computed from the committed version, even if it is an earlier version
    // that came back, because git may delete the later one.
    let is_passed = |from: &Baseline, it: &Placement| {
        it.is_working || (it.range().is_some() && from.blob != version.blob)
    };
    let computed = found.computed.into_iter().map(|(from, placed)| (from, Place::New(placed)));
    let known = found.known.into_iter().filter(|(from, it)| is_passed(from, it));
    let known = known.map(|(from, it)| (from, Place::Known(it)));
    let mut due: Vec<Due> = computed
        .chain(known)
        .map(|(from, place)| Due {
            is_working: is_working(&from),
            baseline: from,
            place,
            anchor: None,
        })
        .filter(|it| !it.is_working || matches!(it.place, Place::New(_)))
        .collect();
    if due.is_empty() {
        return Ok(0);
    }
    let blob = version.blob.clone();
    let kept = version.is_converted.then(|| version.text.clone());
    let described = tokio::task::spawn_blocking(move || describe(&mut due, &version).map(|()| due));
    let due = described.await.context(ErrorKind::Internal, || "placing panicked".to_owned())??;
    let (path, kept) = (path.clone(), kept);
    works.store.write(move |tx| write(tx, &path, (&blob, kept.as_deref()), &due)).await
}

/// A placement to write.
struct Due {
    /// The version it was computed from.
    baseline: Baseline,
    place: Place,
    /// Whether it is not a baseline.
    is_working: bool,
    /// The new baseline.
    anchor: Option<NewAnchor>,
}

enum Place {
    New(Placed),
    Known(Placement),
}

fn describe(due: &mut [Due], version: &Version) -> Result<()> {
    if due.iter().all(|it| it.is_working) {
        return Ok(());
    }
    let portrait = Portrait::of(&version.text, &version.blob);
    for it in due.iter_mut().filter(|it| !it.is_working) {
        let range = match &it.place {
            Place::New(placed) if placed.state.is_placed() => placed.range.clone(),
            Place::New(_) => None,
            Place::Known(placement) => placement.range(),
        };
        it.anchor = range.map(|range| baseline(&portrait, range)).transpose()?.flatten();
    }
    Ok(())
}

/// Returns the baseline at a range; `None` for passages that have become too long for a quote: they
/// keep their place and their old quote.
///
/// # Errors
/// As [`Portrait::anchor`].
pub(in crate::flows) fn baseline(
    portrait: &Portrait<'_>,
    range: Range<usize>,
) -> Result<Option<NewAnchor>> {
    if range.len() > QUOTE_BYTES_MAX {
        return Ok(None);
    }
    portrait.anchor(range).map(Some)
}

/// Writes the placements. A text without a copy in git is stored while a Topic is placed from it.
fn write(
    tx: &Tx<'_>,
    path: &SourcePath,
    (blob, kept): (&BlobId, Option<&str>),
    due: &[Due],
) -> Result<usize> {
    let now: BTreeMap<TopicId, Baseline> = placement::baselines(tx.connection(), path)?
        .into_iter()
        .map(|it| (it.topic_id.clone(), it))
        .collect();
    let mut written = 0;
    for Due { baseline, place, is_working, anchor } in due {
        let topic = &baseline.topic_id;
        // Topics that were closed in the meantime, or moved by a person, keep their state.
        if now.get(topic) != Some(baseline) {
            continue;
        }
        match place {
            Place::New(placed) => placement::put_seen(tx, topic, blob, placed, *is_working)?,
            Place::Known(_) => placement::put_committed(tx, topic, blob)?,
        }
        if let Some(anchor) = anchor {
            anchor::row::rebase(tx, topic, anchor)?;
        }
        written += 1;
    }
    if due.iter().any(|it| !it.is_working) {
        if let Some(text) = kept.filter(|_| !fault::is_off("converted_texts")) {
            text::put(tx, path, blob, text)?;
        }
        text::prune(tx, path)?;
    }
    Ok(written)
}

#[derive(Clone)]
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
    let computed = compute(works, path, unknown, text).await?;
    part(works, Found { known, computed }).await
}

/// A Topic with a doubtful place is first searched from its last certain place, because its passage
/// may have come back. A place computed from a doubtful one stays doubtful.
async fn compute(
    works: &Works,
    path: &SourcePath,
    unknown: Vec<Baseline>,
    text: &str,
) -> Result<Vec<(Baseline, Placed)>> {
    let certain = from_certain(works, path, &unknown, text).await?;
    let mut computed = compare(works, path, unknown, text).await?;
    for (baseline, placed) in computed.iter_mut().filter(|(it, _)| it.is_doubted) {
        *placed = match certain.get(&baseline.topic_id) {
            Some(found) => found.clone(),
            None => std::mem::replace(placed, Placed::orphaned()).in_doubt(),
        };
    }
    Ok(computed)
}

/// Returns the certain places of doubtful Topics, computed from their last certain places.
async fn from_certain(
    works: &Works,
    path: &SourcePath,
    all: &[Baseline],
    text: &str,
) -> Result<BTreeMap<TopicId, Placed>> {
    let doubted: Vec<Baseline> = all.iter().filter(|it| it.is_doubted).cloned().collect();
    if doubted.is_empty() || fault::is_off("doubt") {
        return Ok(BTreeMap::new());
    }
    let certain = works.store.read(move |c| {
        let mut found = Vec::new();
        for it in doubted {
            let place = placement::certain(c, &it.topic_id)?;
            let spot = place.and_then(|place| Some((place.range()?, place.blob)));
            found.extend(spot.map(|(range, blob)| Baseline {
                blob,
                start: range.start,
                end: range.end,
                // A match of words alone is not certain.
                quote: String::new(),
                ..it
            }));
        }
        Ok(found)
    });
    let found = compare(works, path, certain.await?, text).await?;
    let is_certain = |it: &Placed| it.state.is_placed() && it.state != PlacementState::Rewritten;
    let found = found.into_iter().filter(|(_, placed)| is_certain(placed));
    Ok(found.map(|(from, placed)| (from.topic_id, placed)).collect())
}

async fn compare(
    works: &Works,
    path: &SourcePath,
    unknown: Vec<Baseline>,
    text: &str,
) -> Result<Vec<(Baseline, Placed)>> {
    let mut by_blob: BTreeMap<BlobId, Vec<Baseline>> = BTreeMap::new();
    for baseline in unknown {
        by_blob.entry(baseline.blob.clone()).or_default().push(baseline);
    }
    let mut computed = Vec::new();
    for (old_blob, group) in by_blob {
        computed.extend(place_group(works, path, &old_blob, group, text).await?);
    }
    Ok(computed)
}

/// Topics from several versions were placed separately; here their results are combined: stored
/// ones stand, and no two of the others get the same passage unless they shared text before.
async fn part(works: &Works, found: Found) -> Result<Found> {
    let Some((first, _)) = found.computed.first() else { return Ok(found) };
    let is_one = found.computed.iter().all(|(it, _)| it.blob == first.blob && !it.is_doubted);
    if (is_one && found.known.is_empty()) || fault::is_off("placed_apart") {
        return Ok(found);
    }
    works
        .store
        .read(move |c| {
            let Found { known, mut computed } = found.clone();
            let new = computed.len();
            let topics: Vec<&Baseline> =
                found.computed.iter().map(|it| &it.0).chain(known.iter().map(|it| &it.0)).collect();
            let mut placed: Vec<Placed> = computed.iter().map(|it| it.1.clone()).collect();
            placed.extend(known.iter().map(|(_, it)| on_record(it)));
            let mut failed = None;
            anchor::part(&mut placed, |left, right| {
                let (one, other) = (topics[left], topics[right]);
                let is_doubted = one.is_doubted || other.is_doubted;
                let is_together = left < new && one.blob == other.blob && !is_doubted;
                if (left >= new && right >= new) || is_together {
                    return true;
                }
                placement::have_touched(c, &one.topic_id, &other.topic_id).unwrap_or_else(|cause| {
                    failed.get_or_insert(cause);
                    true
                })
            });
            if let Some(cause) = failed {
                return Err(cause);
            }
            for (slot, placed) in computed.iter_mut().zip(placed) {
                slot.1 = placed;
            }
            Ok(Found { known, computed })
        })
        .await
}

/// Stored placements have priority.
fn on_record(it: &Placement) -> Placed {
    match it.range() {
        // Above the confidence of any computed placement.
        Some(range) => Placed { confidence: 2.0, ..Placed::exact(range, "record") },
        None => Placed::orphaned(),
    }
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

/// Returns the text of a version from which Topics are placed, if it still exists.
pub(in crate::flows) async fn text_of(
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
        // An object that does not match its id counts as missing.
        Err(cause) if cause.code_str() == OBJECT_MISMATCH => {
            tracing::warn!(source_path = %path, "{}", cause.chain());
            Ok(None)
        }
        Err(cause) => Err(cause),
    }
}

/// Fills in the placements in the current text. In a deleted Source nothing has a place; if the
/// file is not text now (a link, binary, too large), the stored placements stay, and the reader is
/// told why.
pub(in crate::flows) async fn place_in_present(
    site: &Site,
    path: &SourcePath,
    topics: &mut [Topic],
) -> Result<()> {
    let (blob, text) = match site.repo.present(path).await {
        Ok(present) => present,
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            return deletion::mark_of(site, path, topics).await;
        }
        Err(cause) if matches!(cause.kind(), ErrorKind::Invalid | ErrorKind::TooLarge) => {
            return Ok(());
        }
        Err(cause) => return Err(cause),
    };
    if let [topic] = &mut *topics
        && topic.status == TopicStatus::Open
        && let Some(kept) = site.store.look(|c| placement::find_kept(c, &topic.id, &blob))?
    {
        // A stored placement needs no look at the other Topics of its Source.
        topic.placement = Some(kept);
        return Ok(());
    }
    let placements = in_text(site, path, &blob, &text).await?;
    for topic in topics {
        if let Some(placement) = placements.get(&topic.id) {
            topic.placement = Some(placement.clone());
        }
    }
    Ok(())
}

/// Returns where the passage of a Topic is in the present text of its Source, if it is found there;
/// the Topic must have been placed in it.
pub(in crate::flows) fn passage(topic: &Topic, present: &(BlobId, String)) -> Option<Range<usize>> {
    let placement = topic.placement.as_ref().filter(|it| it.blob == present.0)?;
    let is_found = matches!(
        placement.state,
        PlacementState::Exact | PlacementState::Shifted | PlacementState::Edited
    );
    let range = placement.range().filter(|_| is_found)?;
    present.1.get(range.clone()).map(|_| range)
}
