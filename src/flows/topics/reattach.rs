//! A person moves a Topic to another passage, after a rewrite that the algorithm could not follow,
//! or followed wrongly.

use serde::Deserialize;
use serde_json::json;

use crate::api::topics::{Placement, Topic, TopicStatus};
use crate::base::limit::PAGE_ROWS_MAX;
use crate::base::{Actor, Error, Event, EventKind, Result, SourcePath, TopicId};
use crate::documents::anchor::row;
use crate::documents::proposals::proposal::lineage;
use crate::documents::sources::text;
use crate::documents::topics::{message, placement, topic};
use crate::documents::{self, Placed, Selection};
use crate::flows::Site;
use crate::flows::people::shown_names;
use crate::flows::repository::renames;
use crate::flows::topics::places;
use crate::jobs::{self, JobFilter, Status, Verb};
use crate::people::Caller;
use crate::store::Tx;

/// The body of `POST /api/topics/{id}/anchor`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReattachRequest {
    /// The passage, in the current text of the Source.
    pub selection: Selection,
    /// The new Source, if the Topic moves to another one.
    #[serde(default)]
    pub source_path: Option<SourcePath>,
    /// The reason; becomes a message of the Topic.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Moves an open Topic to another passage of its Source, or of another one. Its origin stays; the
/// passage becomes its baseline, even if it is not committed yet.
///
/// # Errors
/// `conflict` with codes `topic_closed`, `topic_is_global`, `source_changed` and `topic_moved`, and
/// for another Source `topic_in_proposal`, `topic_in_job` and `too_many_topics`; what reading the
/// Source and resolving the selection say.
pub async fn reattach(
    site: &Site,
    caller: &Caller,
    id: &TopicId,
    request: ReattachRequest,
) -> Result<Topic> {
    let person = Actor::Person(caller.may_write()?.id.clone());
    let asked = id.clone();
    let subject = site.store.read(move |c| topic::find(c, &asked, None)).await?;
    refuse(&subject)?;
    let from = subject.source_path;
    let to = request.source_path.clone().unwrap_or_else(|| from.clone());
    let source = renames::source(site, &to).await?;
    let anchor = documents::resolve(&source.text, &source.blob, &request.selection)?;
    let before = if from == to {
        places::in_text(site, &source.path, &source.blob, &source.text).await?.remove(id)
    } else {
        let asked = id.clone();
        site.store.read(move |c| placement::latest(c, &asked)).await?
    };
    let is_committed = source.head_blob.as_ref() == Some(&source.blob);
    let (ids, id) = (site.ids.clone(), id.clone());
    site.store
        .write(move |tx| {
            let subject = topic::find(tx.connection(), &id, None)?;
            refuse(&subject)?;
            if from != to {
                refuse_bound(tx, &subject)?;
                topic::move_to(tx, &id, &from, &to)?;
            } else if subject.source_path != to {
                return Err(elsewhere(&subject));
            }
            if let Some(reason) = &request.reason {
                message::post(tx, &ids, &id, &person, &message::plain_lines(reason), None)?;
            }
            let placed = Placed::exact(anchor.start..anchor.end, "reattached");
            placement::put(tx, &id, &anchor.blob, &placed, &person)?;
            row::rebase(tx, &id, &anchor)?;
            if !is_committed {
                text::put(tx, &source.path, &source.blob, &source.text)?;
            }
            let place = Placement::new(&anchor.blob, &placed, &person);
            let mut data = json!({
                "topic_id": id, "source_path": source.path, "from": before, "to": place,
            });
            if from != to {
                data["from_path"] = json!(from);
            }
            let subject = format!("topic:{id}");
            let event = Event::new(EventKind::TopicReattached, subject, person.clone(), data);
            tx.emit(event.audited())?;
            shown_names::fill_topic(
                tx.connection(),
                topic::find(tx.connection(), &id, Some(&anchor.blob))?,
            )
        })
        .await
}

/// The Source was renamed, or somebody else has moved the Topic to another one.
fn elsewhere(subject: &Topic) -> Error {
    let message = format!("topic {} is one of {} now", subject.id, subject.source_path);
    Error::conflict("topic_moved", message).hint("review it again")
}

/// An open proposal for the first Source would settle a Topic of another one.
fn refuse_bound(tx: &Tx<'_>, subject: &Topic) -> Result<()> {
    let id = &subject.id;
    if let Some(proposal) = lineage::settling(tx.connection(), id)?.first() {
        let message = format!("proposal {proposal} for {} settles topic {id}", subject.source_path);
        return Err(Error::conflict("topic_in_proposal", message)
            .hint("approve or reject it first; or open another topic on the passage"));
    }
    for status in [Status::Running, Status::Queued] {
        let filter = |topic_id, source_path| JobFilter {
            status: Some(status),
            topic_id,
            source_path,
            limit: PAGE_ROWS_MAX,
            ..JobFilter::default()
        };
        let own =
            jobs::list(tx.connection(), &jobs::Viewer::Site, &filter(Some(id.clone()), None))?;
        let of_source = Some(subject.source_path.clone());
        let others =
            jobs::list(tx.connection(), &jobs::Viewer::Site, &filter(None, of_source))?.into_iter();
        let further = others.filter(|it| it.require_topic(id, Verb::Propose).is_ok());
        if let Some(job) = own.into_iter().chain(further).next() {
            let message = format!("job {} works on topic {id}, or waits to", job.id);
            return Err(Error::conflict("topic_in_job", message)
                .hint("wait for it or cancel it, or open another topic on the passage"));
        }
    }
    Ok(())
}

fn refuse(subject: &Topic) -> Result<()> {
    let id = &subject.id;
    if subject.is_global {
        let message = format!("topic {id} is about the whole source");
        return Err(
            Error::conflict("topic_is_global", message).hint("open another topic on the passage")
        );
    }
    if subject.status != TopicStatus::Open {
        return Err(Error::conflict("topic_closed", format!("topic {id} is {}", subject.status))
            .hint("reopen it first"));
    }
    Ok(())
}
