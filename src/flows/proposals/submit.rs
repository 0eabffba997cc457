//! An agent submits a proposal: fence, grants, base, text, and the fate of every other open Topic.

use std::ops::Range;

use serde::Deserialize;
use serde_json::json;

use crate::api::proposals::Inserted;
use crate::api::proposals::{Fate, How, Origin, Proposal};
use crate::api::topics::Topic;
use crate::base::limit::{ANCHORS_MAX, SOURCE_BYTES_MAX};
use crate::base::{BlobId, Error, ErrorKind, ProposalId, Result, SourcePath, TopicId};
use crate::documents::proposals::proposal::lineage::{self, Rework};
use crate::documents::proposals::proposal::{self, NewProposal};
use crate::documents::topics::topic;
use crate::flows::Site;
use crate::flows::proposals::fates::{self, Claim, Judge, Judged};
use crate::flows::repository::renames;
use crate::flows::requests::multi_topic;
use crate::jobs::{self, Job, Verb};
use crate::people::Caller;
use crate::script::{Input, InputType};
use crate::store::idempotency;

/// The body of `POST /api/topics/{id}/proposals`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProposalRequest {
    /// The version that was edited: the job's own base.
    pub base_source_sha: BlobId,
    /// The complete new text.
    pub text: String,
    /// One sentence about the change.
    #[serde(default)]
    pub summary: Option<String>,
    /// Where the agent put the other Topics; each is verified.
    #[serde(default)]
    pub anchors: Vec<AgentAnchor>,
}

/// An anchor supplied by an agent, in bytes of the proposed text.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AgentAnchor {
    /// The Topic.
    pub topic_id: TopicId,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
    /// The text between them.
    pub quote: String,
}

/// Stores a proposal of a running job.
///
/// # Errors
/// `conflict` with codes `job_ended`, `wrong_base`, `topic_closed`; `forbidden` with code
/// `not_granted`; `invalid` with codes `nothing_changed`, `bad_anchor` and for texts that no Source
/// can be.
pub async fn propose(
    site: &Site,
    caller: &Caller,
    topic_id: &TopicId,
    request: ProposalRequest,
    key: Option<idempotency::Key>,
) -> Result<Inserted> {
    let (job_id, token) = caller.job()?;
    let (asked, topic_asked) = (job_id.clone(), topic_id.clone());
    let (job, subject, rework) = site
        .store
        .read(move |c| {
            let rework = lineage::rework_of_job(c, &asked)?;
            Ok((
                jobs::find(c, &jobs::Viewer::Program, &asked)?,
                topic::find(c, &topic_asked, None)?,
                rework,
            ))
        })
        .await?;
    job.require_topic(topic_id, Verb::Propose)?;
    require_own_base(site, &job, &subject.source_path, &request.base_source_sha).await?;
    refuse_text(&request.text)?;
    let path = subject.source_path.clone();
    let base = site.repo.read_blob(&request.base_source_sha, SOURCE_BYTES_MAX).await?;
    let base = String::from_utf8(base)
        .map_err(|_| Error::invalid("the base is not UTF-8").code("not_text"))?;
    let proposed = site.repo.hash_text(&request.text).await?;
    let further = multi_topic::further(&job, topic_id)?;
    let settled = [std::slice::from_ref(topic_id), &further].concat();
    let judged = judge_others(site, caller, &request, (&path, &settled), base, &proposed).await?;
    let origin = rework.map(reworked);
    let new = NewProposal {
        topic_id: topic_id.clone(),
        job_id: Some(job.id.clone()),
        proposed_by: None,
        source_path: path,
        base_source_sha: request.base_source_sha,
        proposed_sha: proposed.clone(),
        text: request.text,
        summary: request.summary,
    };
    let (ids, token, topic_id) = (site.ids.clone(), token.to_owned(), topic_id.clone());
    let placements = judged.placements;
    let made = site
        .store
        .write(move |tx| {
            jobs::fence(tx, &token)?.require_topic(&topic_id, Verb::Propose)?;
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                let id: ProposalId = kept["id"].as_str().unwrap_or_default().parse()?;
                return proposal::find(tx.connection(), &id);
            }
            let made = proposal::insert_with(tx, &ids, new.clone(), &further, origin.as_ref())?;
            fates::keep(tx, &made.proposed_sha, &placements)?;
            if let Some(key) = &key {
                idempotency::remember(tx, key, &json!({"id": made.id}))?;
            }
            Ok(made)
        })
        .await?;
    Ok(Inserted::of(made, judged.fate))
}

impl Inserted {
    /// Describes the result of submitting a proposal, and its effect on the other Topics.
    pub(in crate::flows) fn of(made: Proposal, fate: Vec<Fate>) -> Inserted {
        Inserted {
            proposal_id: made.id,
            topic_id: made.topic_id,
            revision_number: made.revision_number,
            proposed_sha: made.proposed_sha,
            text_digest: made.text_digest,
            fate,
        }
    }
}

/// Describes the origin of a text for a rework.
pub(in crate::flows) fn reworked(it: Rework) -> Origin {
    let (from_id, made_by) = (it.proposal_id, it.asked_by);
    Origin { how: How::Reworked, from_id, made_by, made_by_name: None }
}

/// A job proposes only for the version of the Source that it was given, even if the Source was
/// renamed since.
pub(in crate::flows) async fn require_own_base(
    site: &Site,
    job: &Job,
    path: &SourcePath,
    base: &BlobId,
) -> Result<()> {
    let config = site.config_of(&job.id);
    let kind = config.kinds.get(&job.kind);
    let is_base = |blob: &&Input| {
        let is_given = || job.input_text(&blob.name).as_deref() == Some(base.as_str());
        blob.ty == InputType::Blob && is_given()
    };
    for blob in kind.into_iter().flat_map(|it| &it.inputs).filter(is_base) {
        let source = blob.from.as_ref().and_then(|it| job.input_text(it)?.parse().ok());
        let Some(source): Option<SourcePath> = source else { continue };
        let begun = job.clone();
        let name = site.store.read(move |c| renames::since_start(c, &begun, &source)).await?;
        if name == *path {
            return Ok(());
        }
    }
    let message = format!("{base} is not the base of job {}", job.id);
    Err(Error::conflict("wrong_base", message)
        .hint("use the Base source SHA from the prompt; if the source has changed, stop"))
}

/// Refuses a text that cannot be a Source.
///
/// # Errors
/// `too_large`; `invalid` with codes `empty_text` and `not_text`.
pub(in crate::flows) fn refuse_text(text: &str) -> Result<()> {
    if text.len() > SOURCE_BYTES_MAX {
        let message = format!("the text has {} bytes, the limit is {SOURCE_BYTES_MAX}", text.len());
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    if text.trim().is_empty() {
        return Err(Error::invalid("the text is empty")
            .code("empty_text")
            .hint("pipe the whole new source to insert-proposal"));
    }
    if text.contains('\0') {
        return Err(Error::invalid("the text has a NUL byte")
            .code("not_text")
            .hint("a source is text; send the file itself, not an archive"));
    }
    Ok(())
}

/// Computes the fate of every other open Topic, and verifies the agent's anchors.
pub(in crate::flows) async fn judge_others(
    site: &Site,
    caller: &Caller,
    request: &ProposalRequest,
    (path, settled): (&SourcePath, &[TopicId]),
    base: String,
    proposed: &BlobId,
) -> Result<Judged> {
    let base = (request.base_source_sha.clone(), base);
    let new = (proposed.clone(), request.text.clone());
    let mut judge = Judge::of(site, path, settled, base, new).await?;
    let by = caller.actor();
    let given = verify_anchors(request, &judge.open)?.into_iter();
    let claims = given.map(|(topic, range)| Claim { topic, range, by: by.clone() });
    judge.believe(claims.collect()).await?;
    judge.judge().await
}

fn verify_anchors(
    request: &ProposalRequest,
    open: &[Topic],
) -> Result<Vec<(TopicId, Range<usize>)>> {
    if request.anchors.len() > ANCHORS_MAX {
        let message = format!("a proposal comes with at most {ANCHORS_MAX} anchors");
        return Err(Error::new(ErrorKind::TooLarge, message)
            .code("too_many_anchors")
            .hint("send one for each open topic, or leave them to the server"));
    }
    let mut given = Vec::new();
    for anchor in &request.anchors {
        let refuse = |why: &str| {
            Err(Error::invalid(format!("the anchor of topic {}: {why}", anchor.topic_id))
                .code("bad_anchor")
                .hint("offsets must be UTF-8 byte positions in the proposed text"))
        };
        let Some(topic) = open.iter().find(|it| it.id == anchor.topic_id) else {
            return refuse("it is not open on this source");
        };
        if topic.is_global {
            return refuse("it is on the whole source");
        }
        if anchor.start >= anchor.end {
            return refuse("it is empty");
        }
        let range = anchor.start..anchor.end;
        if request.text.get(range.clone()) != Some(anchor.quote.as_str()) {
            return refuse("the text between its offsets is not its quote");
        }
        given.push((anchor.topic_id.clone(), range));
    }
    Ok(given)
}
