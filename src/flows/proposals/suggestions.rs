//! Suggestions and the engine that applies them: what can turn one into a proposal at once, and
//! which job would only submit an existing text again.

use std::collections::BTreeMap;
use std::ops::Range;

use rusqlite::Connection;
use serde::Serialize;

use crate::api::proposals::{How, Proposal, ProposalStatus};
use crate::api::topics::{Message, Topic};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Actor, BlobId, Error, JobId, Millis, ProposalId, Result, SourcePath, TopicId};
use crate::documents::proposals::proposal;
use crate::documents::sources::text;
use crate::documents::topics::suggestion::{Suggestion, last, with_line_ends};
use crate::documents::topics::topic;
use crate::documents::topics::{message, placement};
use crate::flows::Site;
use crate::flows::proposals::revised;
use crate::flows::topics::places;
use crate::script::{Config, Input, InputType, Kind, Produces};

/// A stored suggestion, and the job that applies it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "{T}Suggested"))]
pub struct Suggested<T> {
    /// The Topic or the message.
    #[serde(flatten)]
    pub made: T,
    /// The job, if one was requested and started.
    pub job_id: Option<JobId>,
    /// Why none was started although one was requested.
    pub not_started: Option<Obstacle>,
}

/// Why a job was not started.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Obstacle {
    code: String,
    message: String,
    hint: Option<String>,
}

impl From<Error> for Obstacle {
    fn from(cause: Error) -> Obstacle {
        Obstacle {
            code: cause.code_str().to_owned(),
            message: cause.message().to_owned(),
            hint: cause.hint_str().map(str::to_owned),
        }
    }
}

/// Returns whether a kind's jobs apply suggestions, without a model.
pub fn applies(config: &Config, kind: &Kind) -> bool {
    let is_builtin = config.engines.get(&kind.engine).is_some_and(|engine| engine.is_builtin());
    is_builtin && kind.produces == Some(Produces::Proposal)
}

/// Returns the kind that turns a suggestion into a proposal and needs only the Topic, with its
/// input for the Topic.
pub fn applying(config: &Config) -> Option<(&Kind, &Input)> {
    let needs_more = |input: &Input| input.required && input.from.is_none();
    config.kinds.values().filter(|kind| applies(config, kind)).find_map(|kind| {
        let own = kind.inputs.iter().find(|input| input.ty == InputType::Topic)?;
        let others = kind.inputs.iter().filter(|input| input.name != own.name);
        (!others.into_iter().any(needs_more)).then_some((kind, own))
    })
}

/// Refuses a job that would apply a suggestion whose text is already proposed, or was rejected
/// since. `said` is the person's message with the request, newer than all others; `revises` is the
/// proposal that it is about.
///
/// # Errors
/// `conflict` with code `same_text`.
pub(in crate::flows) async fn refuse_same(
    site: &Site,
    kind: &Kind,
    id: &TopicId,
    (said, revises): (Option<&str>, Option<&ProposalId>),
) -> Result<()> {
    if !applies(&site.config, kind) {
        return Ok(());
    }
    let asked = id.clone();
    let (mut topic, messages, proposals) = site.store.read(move |c| read_thread(c, &asked)).await?;
    let spoken = messages.iter().rev().find_map(|it| Some((last(&it.body)?, Some(it.created_at))));
    let Some((Suggestion::Text(words), written)) =
        said.and_then(last).map(|it| (it, None)).or(spoken)
    else {
        return Ok(());
    };
    let carried = match revises {
        Some(proposal) => revised::revised(site, proposal, Some(words.clone())).await?,
        None => None,
    };
    let (blob, proposed) = match carried {
        Some(it) => (it.source_sha, it.text),
        None => {
            let path = topic.source_path.clone();
            let Ok(present) = site.repo.present(&path).await else { return Ok(()) };
            places::place_in_present(site, &path, std::slice::from_mut(&mut topic)).await?;
            let Some(at) = places::passage(&topic, &present) else { return Ok(()) };
            let (blob, text) = present;
            let words = with_line_ends(&words, &text, at.start);
            (blob, [&text[..at.start], &words, &text[at.end..]].concat())
        }
    };
    let proposed = site.repo.hash_text(&proposed).await?;
    // The same text is another proposal once the document has other words there: it undoes them.
    let is_same = |it: &&Proposal| it.proposed_sha == proposed && !is_passed(it, &blob);
    let same = proposals.iter().rev().filter(is_same);
    same.filter_map(|it| obstacle(it, written)).next().map_or(Ok(()), Err)
}

/// Returns the passages of a Topic at some times, in their order, because a suggestion is about the
/// passage at its time; `None` for one that can no longer be read.
///
/// # Errors
/// As any read of the database.
pub async fn words_at(
    site: &Site,
    id: &TopicId,
    path: &SourcePath,
    times: Vec<Millis>,
) -> Result<Vec<Option<String>>> {
    let (id, source) = (id.clone(), path.clone());
    let read = move |c: &Connection| {
        let mut kept = BTreeMap::new();
        let mut places = Vec::with_capacity(times.len());
        for time in &times {
            let place = placement::at(c, &id, *time)?;
            if let Some(blob) = place.as_ref().map(|it| &it.blob)
                && !kept.contains_key(blob)
            {
                kept.insert(blob.clone(), text::find(c, &source, blob)?);
            }
            places.push(place.and_then(|it| Some((it.range()?, it.blob))));
        }
        Ok((places, kept))
    };
    let (places, mut texts) = site.store.read(read).await?;
    for (blob, kept) in texts.iter_mut().filter(|it| it.1.is_none()) {
        // An object that git has deleted since cannot be compared.
        let bytes = site.repo.read_blob(blob, SOURCE_BYTES_MAX).await.ok();
        *kept = bytes.and_then(|it| String::from_utf8(it).ok());
    }
    let words = |(range, blob): (Range<usize>, BlobId)| {
        texts.get(&blob)?.as_ref()?.get(range).map(str::to_owned)
    };
    Ok(places.into_iter().map(|it| it.and_then(words)).collect())
}

/// Returns the people whose words a proposal of applied suggestions consists of, or began with: of
/// each revision from the first to this one, who wrote the last suggestion before it that is in its
/// text.
///
/// # Errors
/// As any read.
pub(super) fn suggesters(c: &Connection, revision: &Proposal) -> Result<Vec<Actor>> {
    let mut found: Vec<Actor> = Vec::new();
    let mut at = revision.clone();
    loop {
        while let Some(origin) = at.origin.as_ref().filter(|it| it.how != How::Reworked) {
            at = proposal::find(c, &origin.from_id)?;
        }
        let author = suggester(c, &at)?;
        found.extend(author.filter(|it| !found.contains(it)));
        let Some(origin) = &at.origin else { break };
        at = proposal::find(c, &origin.from_id)?;
    }
    found.reverse();
    Ok(found)
}

/// Returns the person who wrote the last suggestion before a revision that is in its text.
fn suggester(c: &Connection, made: &Proposal) -> Result<Option<Actor>> {
    let plain = |text: &str| text.replace("\r\n", "\n");
    let text = plain(&proposal::text(c, &made.id)?);
    let messages = message::list_of(c, &made.topic_id)?;
    let before = messages.into_iter().rev().filter(|it| it.created_at <= made.created_at);
    let is_in = |it: &Message| match last(&it.body) {
        Some(Suggestion::Text(words)) => text.contains(&plain(&words)),
        _ => false,
    };
    let author = before.into_iter().find(is_in).map(|it| it.author);
    Ok(author.filter(|it| it.person().is_some()))
}

fn read_thread(c: &Connection, id: &TopicId) -> Result<(Topic, Vec<Message>, Vec<Proposal>)> {
    let topic = topic::find(c, id, None)?;
    Ok((topic, message::list_of(c, id)?, proposal::of_topic(c, id)?))
}

/// Returns whether a proposal is open and was made for an earlier version of its document.
fn is_passed(proposal: &Proposal, current: &BlobId) -> bool {
    proposal.status == ProposalStatus::Open && proposal.base_source_sha != *current
}

/// Returns why an existing text is not proposed again; `written` is the time of its suggestion,
/// `None` if it is new.
fn obstacle(same: &Proposal, written: Option<Millis>) -> Option<Error> {
    let number = same.revision_number;
    let is_newer = || written.is_none_or(|at| same.decided_at.is_some_and(|then| at > then));
    match same.status {
        ProposalStatus::Open => {
            let message = format!("revision {number} has exactly this text already");
            Some(
                Error::conflict("same_text", message)
                    .hint("make another suggestion first, or edit the proposal"),
            )
        }
        ProposalStatus::Rejected if !is_newer() => {
            let message = format!("revision {number} with exactly this text was rejected");
            Some(
                Error::conflict("same_text", message)
                    .hint("suggest a change on the Topic's page first"),
            )
        }
        _ => None,
    }
}
