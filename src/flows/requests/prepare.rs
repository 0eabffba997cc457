//! The start of a job: checks its inputs against the active kind, computes versions, and makes the
//! prompt.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::Utf8Path;
use serde_json::{Map, Value};

use tracing::debug;

use crate::base::{Error, Result, SourcePath};
use crate::documents;
use crate::flows::jobs::tree_guard;
use crate::flows::perspectives::personas;
use crate::flows::repository::renames;
use crate::flows::requests::inputs::{BAD_INPUT, MISSING_INPUT};
use crate::flows::requests::{inputs, multi_topic, rework, verify, without_topic};
use crate::flows::topics::of_job;
use crate::flows::{Works, agents, approvals, assistant, instances, mail, workspaces};
use crate::jobs::{Hooks, Job, KIND_CHANGED, PROMPT_FAILED, Pool, Prepared, Status};
use crate::script::{self, Config, Input, InputType, Kind, Produces, SCRIPT_STUCK};

/// Refusals of inputs that are caused by the kind and not by the documents.
const OF_THE_KIND: [&str; 6] =
    ["unknown_kind", "unknown_input", MISSING_INPUT, "computed_input", "input_mismatch", BAD_INPUT];

/// Returns the hooks of documents and the script into a job's life.
pub fn hooks(works: &Works) -> Hooks {
    let (at_start, at_end, at_park) = (works.clone(), works.clone(), works.clone());
    let (as_heard, at_run) = (works.clone(), works.clone());
    let (watch, steady) = tree_guard::watch(works);
    let (freshness, repo) = (works.freshness.clone(), works.repo.clone());
    let (doubted, at_back) = (freshness.clone(), works.clone());
    let looks = (freshness.clone(), repo.clone());
    Hooks {
        prepare: Arc::new(move |generation, job| {
            let works = at_start.at(generation);
            Box::pin(async move {
                match job.pool {
                    Pool::Chat => assistant::prepare(&works, &job).await,
                    _ => prepare(&works, &job).await,
                }
            })
        }),
        verify: verify::verify(works),
        produced: Arc::new(produced),
        begun: Arc::new(move |tx, generation, job| {
            instances::monitor::begin(tx, &at_run, &generation.config, job)
        }),
        settled: Arc::new(move |tx, job| {
            let succeeded = job.status == Status::Succeeded;
            documents::perspectives::settle_job(tx, &job.id, succeeded)?;
            documents::proposals::proposal::settle_job(
                tx,
                &job.id,
                succeeded,
                &crate::base::Actor::System,
            )?;
            without_topic::settle_job(tx, job, succeeded)?;
            approvals::withdraw::settle_job(tx, job)?;
            of_job::settle_job(tx, job, succeeded)?;
            agents::settle_job(tx, &at_end, job)?;
            assistant::settle_job(tx, &at_end, job)?;
            mail::settle_job(tx, &at_end, job)
        }),
        answers: Arc::new(agents::answers),
        spent: assistant::spent_left(works),
        quiet: assistant::quiet(works),
        parked: Arc::new(move |tx, job| approvals::resume::parked(tx, &at_park, job)),
        heard: Arc::new(move |tx, job, fact| match &job.agent {
            Some(_) => agents::heard(tx, &as_heard, job, fact),
            None => instances::heard(tx, job, fact),
        }),
        tip: Arc::new(move || freshness.tip(&repo)),
        given_back: Arc::new(move |tx, job| {
            renames::give_back(tx, &at_back.scripts.current().config, job)
        }),
        look: Arc::new(move || {
            let (freshness, repo) = looks.clone();
            Box::pin(async move {
                if let Err(cause) = freshness.catch_up(&repo).await {
                    debug!("a job is given back without a look: {}", cause.chain());
                }
            })
        }),
        unread: Arc::new(move || doubted.doubt()),
        watch,
        steady,
        recall: tree_guard::recall(works),
        workspace: workspaces::workspaces(works),
        listen: assistant::listen(works),
    }
}

/// Returns whether a job produced what its kind requires; rows are found by the job's id, never by
/// time.
fn produced(tx: &crate::store::Tx<'_>, job: &Job, produces: Produces) -> Result<bool> {
    match produces {
        Produces::Proposal => {
            Ok(documents::proposals::proposal::by_job(tx.connection(), &job.id)?.is_some())
        }
        Produces::Message => match &job.topic_id {
            None => Ok(false),
            Some(topic) => {
                let agent = crate::base::Actor::Job(job.id.clone());
                documents::topics::message::has_author(tx.connection(), topic, &agent)
            }
        },
        Produces::Result => Ok(job.result.is_some()),
        // A job that finds no reason to open a Topic says so.
        Produces::Topic => {
            Ok(job.result.is_some() || !of_job::of_job(tx.connection(), job)?.is_empty())
        }
        Produces::Perspective => documents::perspectives::has_job(tx.connection(), &job.id),
    }
}

async fn prepare(works: &Works, job: &Job) -> Result<Prepared> {
    let changed = |cause: Error| {
        if OF_THE_KIND.contains(&cause.code_str()) { cause.code(KIND_CHANGED) } else { cause }
    };
    let kind = inputs::kind(works, &job.kind).map_err(changed)?;
    if let Some(prompt) = approvals::resume::prompt(works, job).await? {
        // Its versions were fixed when its first leg started.
        let (inputs, grants) = (job.inputs.clone(), job.grants.clone());
        let instance = instances::prepare(works, job).await?;
        let (files, env) = instance.map_or_else(Default::default, |it| (Some(it.files), it.env));
        let (workspace, alone, session) = (workspaces::of_leg(works, job).await?, None, None);
        return Ok(Prepared { inputs, prompt, grants, env, files, alone, session, workspace });
    }
    // Inputs computed for an earlier start are computed again.
    let sent: Map<String, Value> = job
        .inputs
        .iter()
        .filter(|(name, _)| kind.input(name).is_none_or(|it| !it.ty.is_computed()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let checked = inputs::check(works, kind, &sent).await.map_err(changed)?;
    let mut grants = without_topic::with_own_topic(job, inputs::grants(kind, &checked));
    let mut values = checked.values;
    compute(works, kind, &mut values).await?;
    if kind.produces == Some(Produces::Proposal) {
        for (input, path) in sources(kind, &values) {
            inputs::refuse_unwritable(&works.repo, input, &path).await?;
        }
    }
    let instance = instances::prepare(works, job).await?;
    let (mut more, files, mut env) = match instance {
        Some(it) => (it.texts, Some(it.files), it.env),
        None => Default::default(),
    };
    let own = agents::prepare(works, job).await?.unwrap_or_default();
    more.extend(own.texts);
    more.extend(workspaces::prompt_names(works, kind, job));
    env.extend(own.env);
    let watch = instances::monitor::watch(works, job).await?;
    grants.extend(watch.grants);
    env.extend(watch.env);
    let prompt = prompt(works, kind, job.id.as_str(), &values, more).await?;
    let prompt = prompt + &rework::block(works, &job.id).await?;
    let (inputs, session, alone, workspace) = (values, own.session, None, None);
    Ok(Prepared { inputs, prompt, grants, env, files, alone, session, workspace })
}

/// Makes the prompt of a job with complete inputs.
///
/// # Errors
/// `invalid` with code `prompt_failed` or `script_stuck`.
pub(in crate::flows) async fn prompt(
    works: &Works,
    kind: &Kind,
    job_id: &str,
    values: &Map<String, Value>,
    more: BTreeMap<String, String>,
) -> Result<String> {
    let mut texts = texts(&works.config, &works.wb_agent, kind, job_id, values);
    texts.extend(more);
    let prompt = script::prompt(&works.vm(), kind, &texts).await.map_err(|cause| {
        let code = if cause.code_str() == SCRIPT_STUCK { SCRIPT_STUCK } else { PROMPT_FAILED };
        Error::invalid(cause.chain()).code(code)
    })?;
    Ok(prompt + &multi_topic::block(values)?)
}

/// Computes the versions of a job's inputs.
///
/// # Errors
/// As reading the Source or the persona.
pub async fn compute(works: &Works, kind: &Kind, values: &mut Map<String, Value>) -> Result<()> {
    for input in kind.inputs.iter().filter(|it| it.ty.is_computed()) {
        let Some(from) = &input.from else { continue };
        let Some(origin) = values.get(from).and_then(Value::as_str).map(str::to_owned) else {
            continue;
        };
        let version = match input.ty {
            InputType::Blob => {
                let source = kind.input(from).unwrap_or(input);
                inputs::source_version(&works.repo, source, &origin.parse()?).await?
            }
            _ => personas::find(&works.repo, &works.config.folder, &origin).await?.sha,
        };
        values.insert(input.name.clone(), Value::String(version.to_string()));
    }
    Ok(())
}

/// Returns the Sources among the inputs, with their names.
pub fn sources<'k>(kind: &'k Kind, values: &Map<String, Value>) -> Vec<(&'k Input, SourcePath)> {
    kind.inputs
        .iter()
        .filter(|it| it.ty == InputType::Source)
        .filter_map(|it| Some((it, values.get(&it.name)?.as_str()?.parse().ok()?)))
        .collect()
}

/// Returns the names that a prompt can use: the inputs, and those of every job.
pub fn texts(
    config: &Config,
    wb_agent: &Utf8Path,
    kind: &Kind,
    job_id: &str,
    values: &Map<String, Value>,
) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for input in &kind.inputs {
        let text = match values.get(&input.name) {
            // A function gets nil, and a template nothing.
            None | Some(Value::Null) if !input.required => continue,
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        texts.insert(input.name.clone(), text);
    }
    let skill = kind.skill.as_ref().map_or("", |it| it.name.as_str());
    for (name, value) in [
        ("job_id", job_id),
        ("kind", &kind.name),
        ("skill", skill),
        ("root", config.site.root.as_str()),
        ("wb_agent", wb_agent.as_str()),
        ("folder", config.folder.as_str()),
    ] {
        texts.insert(name.to_owned(), value.to_owned());
    }
    texts
}
