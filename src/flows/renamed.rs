//! A Source that is called otherwise in the commit that is checked out now: its Topics go with it.
//!
//! **Invariant:** that is written in the transaction that writes down what is seen, so that a
//! rename is neither missed nor followed twice.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tracing::{info, warn};

use crate::base::{Actor, Event, EventKind, Result, SourcePath, fault};
use crate::documents::seen::{Seen, Sighting};
use crate::documents::topic;
use crate::flows::Works;
use crate::store::Tx;

/// Returns the new names of Sources with Topics that are gone under their old ones. A rename that
/// cannot be found out is none: then the Topics stay with the name that they have.
pub(super) async fn find(
    works: &Works,
    before: Option<&Seen>,
    sighting: &Sighting,
) -> BTreeMap<SourcePath, SourcePath> {
    let heads = before.and_then(|it| it.head.as_ref()).zip(sighting.seen.head.as_ref());
    let Some((old, new)) = heads.filter(|(old, new)| old != new) else { return BTreeMap::new() };
    let found = async {
        let gone = with_topics(works, sighting).await?;
        works.repo.renames(old, new, &gone).await
    };
    match found.await {
        Ok(renames) if !fault::is_off("renamed_sources") => renames,
        Ok(_) => BTreeMap::new(),
        Err(cause) => {
            warn!("it cannot be told which sources were renamed: {}", cause.chain());
            BTreeMap::new()
        }
    }
}

async fn with_topics(works: &Works, sighting: &Sighting) -> Result<BTreeSet<SourcePath>> {
    let is_gone =
        |it: &&crate::documents::seen::SourceChange| it.blob.is_none() && it.head_blob.is_none();
    let gone = sighting.changes.iter().filter(is_gone).map(|it| it.path.clone());
    let gone: BTreeSet<SourcePath> = gone.collect();
    if gone.is_empty() {
        return Ok(gone);
    }
    works
        .store
        .read(move |c| {
            let mut kept = BTreeSet::new();
            for path in &gone {
                if topic::has_any(c, path)? {
                    kept.insert(path.clone());
                }
            }
            Ok(kept)
        })
        .await
}

/// Takes the Topics along, with an event for each Source.
pub(super) fn tell(
    tx: &Tx<'_>,
    renames: &BTreeMap<SourcePath, SourcePath>,
    sighting: &Sighting,
) -> Result<()> {
    for (from, to) in renames {
        let topics = topic::rename_source(tx, from, to)?;
        let data = json!({
            "path": to, "from": from, "commit": sighting.seen.head, "branch": sighting.branch,
            "topics": topics,
        });
        let subject = format!("source:{to}");
        tx.emit(Event::new(EventKind::SourceRenamed, subject, Actor::System, data).audited())?;
        info!(source_path = %to, "{from} was renamed to {to}: its {topics} topics go with it");
    }
    Ok(())
}
