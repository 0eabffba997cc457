//! A person says where the words of a Topic are: after a rewrite that the ladder could not follow,
//! or where it followed wrongly.

use serde::Deserialize;
use serde_json::json;

use crate::base::{Actor, Error, Event, EventKind, Result, TopicId};
use crate::documents::anchor::row;
use crate::documents::{
    self, Placed, Placement, Selection, Topic, TopicStatus, message, placement, text, topic,
};
use crate::flows::{Site, names, place, topics};
use crate::people::Caller;

/// The body of `POST /api/topics/{id}/anchor`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReattachRequest {
    /// The words, in the present text of the Source.
    pub selection: Selection,
    /// Why; becomes a message of the Topic.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Puts an open Topic on other words of its Source. What it was opened on stays its origin; the
/// words become its baseline, also where they are not committed yet.
///
/// # Errors
/// `conflict` with codes `topic_closed`, `topic_is_global` and `source_changed`; what resolving the
/// selection says.
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
    let source = site.repo.source(&subject.source_path).await?;
    let anchor = documents::resolve(&source.text, &source.blob, &request.selection)?;
    let before = place::in_text(site, &source.path, &source.blob, &source.text).await?.remove(id);
    let is_committed = source.head_blob.as_ref() == Some(&source.blob);
    let (ids, id) = (site.ids.clone(), id.clone());
    site.store
        .write(move |tx| {
            refuse(&topic::find(tx.connection(), &id, None)?)?;
            if let Some(reason) = &request.reason {
                message::post(tx, &ids, &id, &person, &topics::plain_lines(reason), None)?;
            }
            let placed = Placed::exact(anchor.start..anchor.end, "reattached");
            placement::put(tx, &id, &anchor.blob, &placed, &person)?;
            row::rebase(tx, &id, &anchor)?;
            if !is_committed {
                text::put(tx, &source.path, &source.blob, &source.text)?;
            }
            let to = Placement::new(&anchor.blob, &placed, &person);
            let data = json!({
                "topic_id": id, "source_path": source.path, "from": before, "to": to,
            });
            let subject = format!("topic:{id}");
            let event = Event::new(EventKind::TopicReattached, subject, person.clone(), data);
            tx.emit(event.audited())?;
            names::fill_topic(
                tx.connection(),
                topic::find(tx.connection(), &id, Some(&anchor.blob))?,
            )
        })
        .await
}

fn refuse(subject: &Topic) -> Result<()> {
    let id = &subject.id;
    if subject.is_global {
        let message = format!("topic {id} is about the whole source");
        return Err(
            Error::conflict("topic_is_global", message).hint("open another topic on the words")
        );
    }
    if subject.status != TopicStatus::Open {
        return Err(Error::conflict("topic_closed", format!("topic {id} is {}", subject.status))
            .hint("reopen it first"));
    }
    Ok(())
}
