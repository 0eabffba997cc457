//! Edit, then approve: a person changes a proposed text. The edited text is a revision of its own;
//! the agent stays the commit's author, the person becomes its co-author.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::proposals::{How, Origin, Proposal};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Actor, BlobId, Error, ProposalId, Result};
use crate::documents::compare::merge::merge_over;
use crate::documents::proposals::proposal::{self, NewProposal};
use crate::flows::people::{refuse_demoted, shown_names};
use crate::flows::proposals::fates::{self, Judge};
use crate::flows::proposals::{dossier, undecidable};
use crate::flows::proposals::{rework, submit};
use crate::flows::{Site, kept_answer};
use crate::people::Caller;
use crate::store::idempotency;

/// The body of `POST /api/proposals/{id}/edit`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EditRequest {
    /// The complete new text.
    pub text: String,
    /// SHA-256 of the text that was edited.
    pub text_digest: String,
    /// One sentence about the change; by default who edited which revision.
    #[serde(default)]
    pub summary: Option<String>,
}

/// Replaces a proposal by an edited text, to be approved like any other. If the document has
/// changed in the same lines, the edited ones replace them.
///
/// # Errors
/// `conflict` with codes `text_changed`, `rework_running`, `branch_busy` and what stands against
/// deciding; `invalid` with code `nothing_changed` and for texts that no Source can be; `forbidden`
/// for viewers and jobs.
pub async fn edit(
    site: &Site,
    caller: &Caller,
    id: &ProposalId,
    request: EditRequest,
    key: Option<idempotency::Key>,
) -> Result<Proposal> {
    let person = caller.may_decide()?.id.clone();
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return site.store.read(move |c| made_before(c, &kept)).await;
    }
    let dossier = dossier(site, id).await?;
    undecidable(&dossier)?;
    // A conflict stays where it was when its document was renamed; the edit goes along.
    let was = Proposal { source_path: dossier.topic.source_path, ..dossier.proposal };
    if request.text_digest != was.text_digest {
        return Err(Error::conflict("text_changed", format!("proposal {id} has another text"))
            .hint("review it again before editing"));
    }
    submit::refuse_text(&request.text)?;
    let conflict = dossier.conflict.map(|it| it.current_sha);
    if request.text == dossier.text && conflict.is_none() {
        return Err(unchanged());
    }
    let mut old = (was.base_source_sha.clone(), text_of(site, &was.base_source_sha).await?);
    let mut text = request.text;
    if let Some(current) = conflict {
        let now = text_of(site, &current).await?;
        (old, text) = settle(old.1, (current, now), text).await?;
    }
    let new: (BlobId, String) = (site.repo.hash_text(&text).await?, text);
    let mut judge =
        Judge::of(site, &was.source_path, &was.topic_ids, old.clone(), new.clone()).await?;
    judge.carry(site, &was.id).await?;
    let placements = judge.judge().await?.placements;
    let new = NewProposal {
        topic_id: was.topic_id.clone(),
        job_id: was.job_id,
        proposed_by: Some(person.clone()),
        source_path: was.source_path,
        base_source_sha: old.0,
        proposed_sha: new.0,
        text: new.1,
        summary: Some(request.summary.unwrap_or_else(|| edited(was.revision_number))),
    };
    let origin = Origin {
        how: How::Edited,
        from_id: was.id,
        made_by: Actor::Person(person),
        made_by_name: None,
    };
    let (ids, further) = (site.ids.clone(), was.topic_ids[1..].to_vec());
    site.store
        .write(move |tx| {
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                return made_before(tx.connection(), &kept);
            }
            refuse_demoted(tx.connection(), &origin.made_by)?;
            rework::refuse_running(tx.connection(), &origin.from_id)?;
            let made = proposal::insert_with(tx, &ids, new.clone(), &further, Some(&origin))?;
            fates::keep(tx, &made.proposed_sha, &placements)?;
            if let Some(key) = &key {
                idempotency::remember(tx, key, &json!({"id": made.id}))?;
            }
            shown_names::fill_proposal(tx.connection(), made)
        })
        .await
}

fn unchanged() -> Error {
    Error::invalid("the edited text is the same as the proposed one")
        .code("nothing_changed")
        .hint("approve the proposal as it is")
}

/// Returns the revision that the same request has made before.
fn made_before(c: &rusqlite::Connection, kept: &Value) -> Result<Proposal> {
    let id: ProposalId = kept["id"].as_str().unwrap_or_default().parse()?;
    shown_names::fill_proposal(c, proposal::find(c, &id)?)
}

async fn text_of(site: &Site, blob: &BlobId) -> Result<String> {
    let bytes = site.repo.read_blob(blob, SOURCE_BYTES_MAX).await?;
    String::from_utf8(bytes).map_err(|_| Error::internal("the base is not UTF-8"))
}

/// Settles a conflict by an edit: its lines replace those that the document has now, and the other
/// changes of the document stay. Returns the current version, and the text proposed for it.
async fn settle(
    base: String,
    current: (BlobId, String),
    edited: String,
) -> Result<((BlobId, String), String)> {
    let settled = tokio::task::spawn_blocking(move || {
        let text = merge_over(&base, &current.1, &edited);
        (current, text)
    });
    settled.await.map_err(|cause| Error::internal("merging panicked").source(cause))
}

const EDITED: &str = "Edited; based on revision ";

/// Describes the origin of an edited text, because the agent's summary is about its own text.
fn edited(revision: i64) -> String {
    format!("{EDITED}{revision}.")
}

/// Returns whether a summary is only that description.
pub(super) fn is_made(summary: &str) -> bool {
    let revision = summary.strip_prefix(EDITED).and_then(|it| it.strip_suffix('.'));
    revision.is_some_and(|it| it.parse::<i64>().is_ok())
}
