//! A requested job with the defaults of its kind: for a person, the script, or a schedule.

use serde_json::{Map, Value};

use crate::base::limit::LINE_BYTES_MAX;
use crate::base::{Actor, Error, Result, SourcePath, number};
use crate::flows::Site;
use crate::flows::requests::inputs::{self, Checked};
use crate::flows::requests::prepare;
use crate::jobs::{NewJob, Pool};
use crate::script::{Input, Kind, Lane, Produces, SCRIPT_FAILED, Vm};

/// Refuses a Source for which no proposal could be approved now.
pub(in crate::flows) async fn refuse_unready(
    site: &Site,
    input: &Input,
    path: &SourcePath,
) -> Result<()> {
    site.repo.head_at_rest().await?;
    inputs::refuse_unwritable(&site.repo, input, path).await
}

/// Refuses a job of a proposing kind on a Source for which no proposal could be approved now.
pub(in crate::flows) async fn refuse_unready_sources(
    site: &Site,
    kind: &Kind,
    checked: &Checked,
) -> Result<()> {
    if kind.produces == Some(Produces::Proposal) {
        for (input, path) in prepare::sources(kind, &checked.values) {
            refuse_unready(site, input, &path).await?;
        }
    }
    Ok(())
}

/// Returns a job with the defaults of its kind.
///
/// # Errors
/// `invalid` with code `script_failed` if the lane's function fails.
pub(in crate::flows) async fn new_job(
    site: &Site,
    kind: &Kind,
    checked: Checked,
    by: Actor,
) -> Result<NewJob> {
    Ok(NewJob {
        kind: kind.name.clone(),
        lane: lane(&site.vm(), kind, &checked.values).await?,
        on_busy: kind.on_busy,
        grants: inputs::grants(kind, &checked),
        source_path: checked.source_path,
        topic_id: checked.topic_id,
        persona_name: checked.persona_name,
        sources: kind.source_names(),
        inputs: checked.values,
        requested_by: by,
        priority: kind.priority,
        not_before: None,
        config_digest: site.config.digest.clone(),
        retry_of: None,
        depth: 0,
        message_id: None,
        owner: None,
        pool: Pool::Work,
        agent: None,
        monitor_of: None,
    })
}

/// Returns the lane of a job, `NAME=VALUE`: from the input that its kind names, or from the kind's
/// function of all inputs known at that time.
///
/// # Errors
/// `invalid` with code `script_failed`, which names file and line.
pub(in crate::flows) async fn lane(
    vm: &Vm,
    kind: &Kind,
    values: &Map<String, Value>,
) -> Result<Option<String>> {
    let slot = match &kind.lane {
        None => return Ok(None),
        Some(Lane::Input(input)) => return Ok(lane_of(input, values)),
        Some(Lane::Function(slot)) => slot,
    };
    let name = format!("kind.{}.lane", kind.name);
    let answer = vm.ask(&name, slot, Value::Object(values.clone())).await?;
    let wrong = |what: &str| {
        let message = format!("{}: the lane of kind \"{}\" {what}", slot.at, kind.name);
        let hint = "return NAME=VALUE, as in \"source_path=\" .. inputs.source_path, or nil";
        Err(Error::invalid(message).code(SCRIPT_FAILED).hint(hint))
    };
    match answer {
        Value::Null => Ok(None),
        Value::String(lane) => match lane.split_once('=') {
            _ if lane.len() > LINE_BYTES_MAX => wrong("is longer than 4 KiB"),
            _ if lane.chars().any(char::is_control) => wrong("holds a control character"),
            Some((name, value)) if is_lane_name(name) && !value.is_empty() => Ok(Some(lane)),
            _ => wrong("is not NAME=VALUE"),
        },
        _ => wrong("is not a text"),
    }
}

fn is_lane_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

fn lane_of(input: &str, values: &Map<String, Value>) -> Option<String> {
    match values.get(input)? {
        Value::Null => None,
        Value::String(text) => Some(format!("{input}={text}")),
        // Jobs that an earlier version accepted may still have `3.0`.
        other => Some(format!("{input}={}", number::as_whole(other.clone()))),
    }
}
