//! Where the open Topics of a Source are in a text: computed for a reader, and kept for the
//! versions that are seen in the repository.

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

/// A text of a Source and what it is.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its version.
    pub blob: BlobId,
    /// The text.
    pub text: String,
    /// Where it was seen.
    pub held: Held,
    /// Whether git has no copy of it, though it is committed: it converts line ends on the way.
    pub is_converted: bool,
}

/// Where in the repository a text was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// In the commit that is checked out, and in the working tree.
    Committed,
    /// In the commit that is checked out; the working tree has another.
    Covered,
    /// In the working tree only.
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

/// Looks for some of the open Topics of a Source in a text, each from its baseline.
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

/// Places the open Topics of a Source in a version that was seen in the repository, and keeps where
/// they are; returns how many placements were written. A committed version becomes the baseline of
/// those that have a place in it; but not, while the working tree covers it, of those that somebody
/// has put on words of a text that is not committed: they wait for what becomes of that.
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
    // What is committed now is what comes next is placed from, also if it is an earlier version
    // that came back: git need not keep the later one.
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

/// A placement that is to be written.
struct Due {
    /// What it was computed from.
    baseline: Baseline,
    place: Place,
    /// Whether it is no baseline.
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

/// Returns the baseline at a range that the ladder found; none for words that have become too long
/// for a quote: they keep their place, and the quote that they had.
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

/// Writes down what was found; a text of which git has no copy is kept for as long as a Topic is
/// placed from it.
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
        // Who was closed meanwhile, or has a place that somebody decided, needs none from before.
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

/// A Topic whose place is in doubt is looked for from its last certain place first: its words may
/// have come back. What is found from the doubtful one stays in doubt.
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

/// Returns where the words of doubtful Topics certainly are, from their last certain places.
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
                // By words alone nothing is certain.
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

/// Topics that come from several versions were placed apart. Here they are looked at together: what
/// is on record stands, and of the others no two get the same words that never shared any.
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

/// What is on record gives way to nobody.
fn on_record(it: &Placement) -> Placed {
    match it.range() {
        // Above the confidence of anything that is computed.
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

/// Returns the text of a version from which Topics are placed, if it is still there.
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
        // A text under a false name is as good as none.
        Err(cause) if cause.code_str() == OBJECT_MISMATCH => {
            tracing::warn!(source_path = %path, "{}", cause.chain());
            Ok(None)
        }
        Err(cause) => Err(cause),
    }
}

/// Fills in the placements in the present text. In a deleted Source nothing has a place; one that
/// is no text now (a link, a binary file, one that is too large) leaves them as on record: whoever
/// opens it is told why.
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
        // One that is on record needs no look at all the others of its Source.
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
