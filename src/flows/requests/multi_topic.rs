//! Several Topics of one Source in one job: the input `topic_ids` of every kind that takes a Topic
//! and makes a proposal.

use serde_json::{Map, Value, json};

use crate::api::proposals::Proposal;
use crate::base::limit::JOB_TOPICS_MAX;
use crate::base::{Error, Result, TopicId};
use crate::documents::proposals::proposal::{self, lineage};
use crate::documents::topics::topic;
use crate::flows::Works;
use crate::flows::requests::inputs;
use crate::flows::requests::inputs::BAD_INPUT;
use crate::jobs::{Grant, Job, Verb};
use crate::script::{InputType, Kind, Produces};

/// The name of the input.
const NAME: &str = "topic_ids";

/// Removes the Topics from the request; the first one becomes the kind's own Topic if none is
/// given. A kind that declares an input of this name keeps it.
///
/// # Errors
/// `invalid` with code `bad_input`.
pub(in crate::flows) fn take(
    kind: &Kind,
    sent: &Map<String, Value>,
) -> Result<(Map<String, Value>, Vec<TopicId>)> {
    let mut rest = sent.clone();
    let own = kind.inputs.iter().find(|it| it.ty == InputType::Topic);
    let (Some(own), None, Some(Produces::Proposal)) = (own, kind.input(NAME), kind.produces) else {
        return Ok((rest, Vec::new()));
    };
    let ids: Vec<TopicId> = match rest.remove(NAME) {
        None | Some(Value::Null) => return Ok((rest, Vec::new())),
        Some(value) => serde_json::from_value(value).map_err(|_| wrong())?,
    };
    let main = match rest.get(&own.name).filter(|it| !it.is_null()) {
        None => ids.first().cloned().ok_or_else(wrong)?,
        Some(value) => value.as_str().unwrap_or_default().parse()?,
    };
    let mut ordered = vec![main.clone()];
    for id in ids {
        if !ordered.contains(&id) {
            ordered.push(id);
        }
    }
    if ordered.len() > JOB_TOPICS_MAX {
        return Err(wrong());
    }
    rest.insert(own.name.clone(), json!(main));
    Ok((rest, ordered))
}

fn wrong() -> Error {
    let message = format!("input `{NAME}` must be an array of 1 to {JOB_TOPICS_MAX} ids of topics");
    Error::invalid(message).code(BAD_INPUT)
}

/// Refuses closed Topics, and those of another Source than the first one.
///
/// # Errors
/// `not_found`; `conflict` with codes `topic_closed` and `other_source`.
pub(in crate::flows) async fn check(works: &Works, ids: &[TopicId]) -> Result<()> {
    for id in ids {
        inputs::require_open(works, id).await?;
    }
    let asked = ids.to_vec();
    let sources = works.store.read(move |c| {
        asked.iter().map(|id| Ok(topic::find(c, id, None)?.source_path)).collect::<Result<Vec<_>>>()
    });
    let sources = sources.await?;
    match sources.iter().zip(ids).find(|(it, _)| Some(*it) != sources.first()) {
        None => Ok(()),
        Some((other, id)) => {
            let message = format!("topic {id} is about {other}, and the first one is not");
            Err(Error::conflict("other_source", message)
                .hint("a job changes one source; start one job per source"))
        }
    }
}

/// Stores the Topics among the inputs of a job, if there is more than one.
pub(in crate::flows) fn keep(values: &mut Map<String, Value>, ids: &[TopicId]) {
    if ids.len() > 1 {
        values.insert(NAME.to_owned(), json!(ids));
    }
}

/// Returns the grants for the Topics besides the job's own, which its text settles.
pub(in crate::flows) fn grants(kind: &Kind, values: &Map<String, Value>) -> Vec<Grant> {
    if kind.input(NAME).is_some() {
        return Vec::new();
    }
    let ids = ids_of(values).unwrap_or_default();
    ids.iter().skip(1).map(|id| Grant::topic(id, &[Verb::Read, Verb::Message])).collect()
}

/// Returns the Topics that a job's proposal settles besides its own.
///
/// # Errors
/// `internal` if the job's row does not hold what was checked.
pub(in crate::flows) fn further(job: &Job, own: &TopicId) -> Result<Vec<TopicId>> {
    let mut ids = ids_of(&job.inputs)?;
    ids.retain(|it| it != own);
    Ok(ids)
}

fn ids_of(values: &Map<String, Value>) -> Result<Vec<TopicId>> {
    match values.get(NAME) {
        Some(ids @ Value::Array(_)) => serde_json::from_value(ids.clone())
            .map_err(|cause| Error::internal("the topic_ids of a job are invalid").source(cause)),
        _ => Ok(Vec::new()),
    }
}

/// Refuses a job that would silently supersede an open proposal that settles several Topics, or
/// that of another one of these Topics. A new revision for the same single Topic is expected.
///
/// # Errors
/// `conflict` with code `already_proposed`, naming the proposal.
pub(in crate::flows) async fn refuse_proposed(
    works: &Works,
    own: Option<&TopicId>,
    values: &Map<String, Value>,
) -> Result<()> {
    let Some(own) = own.cloned() else { return Ok(()) };
    let mut ids = ids_of(values)?;
    if ids.is_empty() {
        ids.push(own);
    }
    let is_several = ids.len() > 1;
    let found = works.store.read(move |c| {
        for id in &ids {
            for other in lineage::settling(c, id)? {
                let other = proposal::find(c, &other)?;
                if is_several || other.topic_ids.len() > 1 {
                    return Ok(Some((id.clone(), other)));
                }
            }
        }
        Ok(None::<(TopicId, Proposal)>)
    });
    match found.await? {
        None => Ok(()),
        Some((topic, other)) => {
            let message = format!("topic {topic} is in the open proposal {} already", other.id);
            Err(Error::conflict("already_proposed", message)
                .hint("decide on it first, or pass `replace_proposals` to replace it"))
        }
    }
}

/// Returns the part of a prompt about several Topics; empty for one.
pub(in crate::flows) fn block(values: &Map<String, Value>) -> Result<String> {
    let ids = ids_of(values)?;
    if ids.len() < 2 {
        return Ok(String::new());
    }
    let lines: String = ids.iter().map(|id| format!("Further topic:   {id}\n")).skip(1).collect();
    Ok(format!(
        "\nThis job settles {} topics of the source with one text: the topic above and these.\n\
         Read each of them; hand in the text once, for the topic above.\n\n{lines}",
        ids.len()
    ))
}
