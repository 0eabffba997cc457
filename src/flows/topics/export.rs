//! Topics as Web Annotations.

use serde_json::Value;

use crate::api::topics::{Message, Topic};
use crate::base::{BlobId, Error, ErrorKind, Result, SourcePath, TopicId};
use crate::documents::topics::annotation::{self, Page};
use crate::documents::topics::topic;
use crate::flows::people::shown_names;
use crate::flows::topics::{self, places};
use crate::flows::{Site, sources};
use crate::people::Caller;

/// Returns a Topic as a Web Annotation on the current text of its Source, or, if the Source is gone
/// or unreadable, on the text of its last place.
///
/// # Errors
/// `not_found`; a job sees the Topics that it was granted.
pub async fn one(site: &Site, caller: &Caller, id: &TopicId) -> Result<Value> {
    topics::require_read(site, caller, id).await?;
    let asked = id.clone();
    let look = site.store.read(move |c| {
        let topic = shown_names::fill_topic(c, topic::find(c, &asked, None)?)?;
        Ok((topics::messages(c, &asked)?, topic))
    });
    let (messages, mut subject) = look.await?;
    let (blob, text) = match site.repo.present(&subject.source_path).await {
        Ok(present) => present,
        Err(cause) if is_of_source(cause.kind()) => {
            let Some(origin) = subject.anchor.as_ref().map(|it| it.origin.blob.clone()) else {
                return Err(cause);
            };
            let found = places::text_of(site, &subject.source_path, &origin).await?;
            (origin, found.ok_or(cause)?)
        }
        Err(cause) => return Err(cause),
    };
    let places = places::in_text(site, &subject.source_path, &blob, &text).await?;
    subject.placement = places.get(id).cloned();
    described(vec![(subject, messages)], blob, text)
        .await?
        .pop()
        .ok_or_else(|| Error::internal("each topic must have exactly one annotation"))
}

/// Returns the open Topics of a Source as a page of Web Annotations on its current text.
///
/// # Errors
/// As `sources::show`.
pub async fn all(site: &Site, caller: &Caller, path: &SourcePath) -> Result<Value> {
    sources::require_read(site, caller, path).await?;
    let (blob, text) = site.repo.present(path).await?;
    let asked = path.clone();
    let look = site.store.read(move |c| {
        let open = topic::list_open_of(c, &asked, None)?;
        open.into_iter()
            .map(|it| Ok((shown_names::fill_topic(c, it.clone())?, topics::messages(c, &it.id)?)))
            .collect::<Result<Vec<_>>>()
    });
    let mut open = look.await?;
    let places = places::in_text(site, path, &blob, &text).await?;
    for (topic, _) in &mut open {
        topic.placement = places.get(&topic.id).cloned();
    }
    let items = described(open, blob.clone(), text).await?;
    Ok(annotation::page(&format!("urn:wiki-browser:annotations:{blob}"), &items))
}

async fn described(
    topics: Vec<(Topic, Vec<Message>)>,
    blob: BlobId,
    text: String,
) -> Result<Vec<Value>> {
    let described = tokio::task::spawn_blocking(move || {
        let page = Page::of(&text, &blob);
        topics.iter().map(|(topic, messages)| page.annotation(topic, messages)).collect()
    });
    described.await.map_err(|cause| Error::internal("exporting panicked").source(cause))?
}

fn is_of_source(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::TooLarge)
}
